"""Compiled loops, which read rows by address, stay within the arrays that they are given."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory as Linux does")
@pytest.mark.parametrize("side", ["before", "after"])
def test_no_sum_and_no_norm_reads_beyond_its_rows(side):
    done = subprocess.run(  # noqa: S603 -- our own code
        [sys.executable, "-m", "problem.guarded_rows", side],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout == "within\n", done.stderr[-2000:]
    assert done.returncode == -signal.SIGSEGV  # what lies beyond is guarded
