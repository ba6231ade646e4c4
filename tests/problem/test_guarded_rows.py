"""Compiled loops, which read rows by address, stay within the arrays that they are given."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="protects memory as Linux does")
def test_no_sum_and_no_norm_reads_beyond_its_rows():
    done = subprocess.run(
        [sys.executable, "-m", "problem.guarded_rows"],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    ended = -signal.SIGSEGV  # what lies beyond is guarded
    assert done.stdout == f"within before\n{ended}\nwithin after\n{ended}\n", done.stderr[-2000:]
