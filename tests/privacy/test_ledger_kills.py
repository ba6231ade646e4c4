"""Processes that charge a ledger are killed at random; benchmarks/audit/kills.py is the long version."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "audit" / "kills.py"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_random_kills_lose_and_double_no_budget():
    words = ["--direct", "--kills", "20", "--per-ledger", "10", "--no-file"]
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["kills"], found["lost"], found["doubled"]) == (20, 0, 0)
    assert sum(found["last_note_before_the_kill"].values()) == 20
    assert found["reservations"] >= found["commits"] >= found["done"] > 0
