"""A short run of every fuzz target; `benchmarks/fuzz/run.py` runs them for long, guided by coverage."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS

SLOW = {"command_line": 25, "ledger_calls": 60, "ledger_bytes": 100}


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_crashes_or_is_quoted(name):
    @settings(
        max_examples=SLOW.get(name, 300),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(max_size=120))
    def run(data):
        TARGETS[name](data)

    run()
