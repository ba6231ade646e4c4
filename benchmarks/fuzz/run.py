"""Coverage-guided fuzzing of schemas, tables, formulas, budgets, results, ledgers and the command line.

    pip install atheris
    python benchmarks/fuzz/run.py [--executions 1000000] [--targets formula csv_cells]

Every target of ``tests/fuzz/targets.py`` runs in a process of its own, on its share of the executions.
A time-out counts as a finding. It goes by the clock, so run its input alone, on a machine without other work,
before looking for a defect. Writes benchmarks/fuzz/results/fuzz.json; inputs that break something are kept in
``benchmarks/fuzz/findings``.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results" / "fuzz.json"
FINDINGS = HERE / "findings"

SHARES = {
    "schema_mapping": 0.1,
    "schema_file": 0.12,
    "formula": 0.1,
    "csv_cells": 0.1,
    "csv_bytes": 0.1,
    "parquet_bytes": 0.1,
    "arrow_bytes": 0.1,
    "budgets": 0.1,
    "result_fields": 0.05,
    "result_encoder": 0.05,
    "result_bytes": 0.05,
    "ledger_bytes": 0.015,
    "ledger_calls": 0.01,
    "command_line": 0.005,
}
"""Parts of all executions; a target that takes a thousand times as long as another gets fewer."""


def one_target(name: str, executions: int) -> None:
    """Fuzz in this process; atheris ends it."""
    import atheris

    import privfit.solvers  # what Numba compiles cannot be instrumented, and is imported before

    del privfit
    with atheris.instrument_imports(include=["privfit"]):
        from tests.fuzz.targets import TARGETS
    target = TARGETS[name]
    target(b"")
    with tempfile.TemporaryDirectory() as corpus:
        arguments = [name, f"-runs={executions}", "-max_len=300", "-timeout=60", "-rss_limit_mb=6000"]
        atheris.Setup([*arguments, f"-artifact_prefix={FINDINGS}/{name}-", corpus], target)
        atheris.Fuzz()


def run_target(name: str, executions: int) -> dict[str, object]:
    started = time.perf_counter()
    command = [sys.executable, str(Path(__file__)), "--one", name, "--executions", str(executions)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}
    done = subprocess.run(  # noqa: S603
        command, capture_output=True, text=True, errors="replace", check=False, env=environment
    )
    ran = re.findall(r"Done (\d+) runs|^#(\d+)\s", done.stderr, flags=re.MULTILINE)
    last = max((int(a or b) for a, b in ran), default=0)
    if done.returncode:
        print(done.stderr[-3000:])
    seconds = round(time.perf_counter() - started, 1)
    return {"executions": last, "findings": int(done.returncode != 0), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--targets", nargs="*", default=list(SHARES))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    FINDINGS.mkdir(exist_ok=True)
    if options.one:
        one_target(options.one, options.executions)
        return
    report = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.targets:
        report[name] = run_target(name, round(options.executions * SHARES[name]))
        print(name, report[name], flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
