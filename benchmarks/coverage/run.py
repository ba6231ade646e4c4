"""Lines of privacy/, problem/ and data/ that tests run, compiled functions included.

    pip install coverage
    python benchmarks/coverage/run.py

Two runs are combined. In the first all is as in a fit, with an empty cache of Numba, so that the functions
that write instructions for its compiler run, too. In the second, ``NUMBA_DISABLE_JIT=1`` leaves compiled
functions to the interpreter, where their lines can be seen; `interpreted.py` stands in for the instructions
that no interpreter can run. Both take a part of the tests, so that the numbers are lower bounds. A line that
is left out (``if TYPE_CHECKING``, ``...``, abstract methods) is one that cannot run.

Writes benchmarks/coverage/results/coverage.csv, with the lines that no test runs. Exits with 1 if a test
fails or a package is below 95 %.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results" / "coverage.csv"
PACKAGES = ("privacy", "problem", "data")
LEAST = 95.0

MANY = "no_neighbour_exceeds or no_person_exceeds or bounded_gradient_is_as_large or neighbouring_answers or \
gamma_norm or cube_keeps or norm_is_gamma or processes or random_kills or crash_after or remains_can"
"""Tests of many cases, or long ones, that run few lines of their own."""

FEW = "(encoded and Concomitant) or (encoded and arrays and gradient)"

COMPILED = (
    ("tests/privacy", "-k", f"not ({MANY})"),
    ("tests/problem", "tests/data", "-k", f"not ({MANY}) or {FEW}"),
    ("tests/procedures/test_clipped_gradient.py", "tests/procedures/test_walks.py",
     "tests/solvers/test_sizes.py", "tests/results/test_json.py"),
)  # fmt: skip

INTERPRETED = (
    ("tests/problem/test_kernels.py", "tests/problem/test_coded_rows.py", "tests/problem/test_classes.py",
     "tests/data/test_coded.py", "-k", "not (threads or speed or many_rows)"),
    ("tests/problem/test_neighbours.py", "tests/problem/test_units.py", "-k",
     "(encoded and Concomitant and not bounded_gradient_is) or marginals_attain"),
)  # fmt: skip


def run(tests: tuple[str, ...], folder: Path, *, compiled: bool) -> int:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(HERE)))}
    environment |= {"COVERAGE_FILE": str(folder / "data"), "NUMBA_CACHE_DIR": str(folder / "numba")}
    plugin: tuple[str, ...] = ()
    if not compiled:
        environment |= {"NUMBA_DISABLE_JIT": "1"}
        plugin = ("-p", "interpreted", "-W", "ignore::RuntimeWarning")  # compiled code overflows in silence
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={HERE / 'coveragerc'}", "--parallel-mode",
               "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *tests]  # fmt: skip
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode  # noqa: S603


def report(folder: Path) -> list[dict[str, object]]:
    environment = os.environ | {"COVERAGE_FILE": str(folder / "data")}
    told = folder / "coverage.json"
    for words in (["combine"], ["json", "-o", str(told)]):
        command = [sys.executable, "-m", "coverage", *words, f"--rcfile={HERE / 'coveragerc'}"]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)  # noqa: S603
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    rows: list[dict[str, object]] = []
    for path, found in sorted(json.loads(told.read_text())["files"].items()):
        package, name = Path(path).parts[-2:]
        lines, covered = found["summary"]["num_statements"], found["summary"]["covered_lines"]
        if lines and package in PACKAGES:
            sums[package][0] += lines
            sums[package][1] += covered
            missing = " ".join(map(str, found["missing_lines"]))
            rows.append(_row(f"{package}/{name}", lines, covered) | {"missing": missing})
    totals = [_row(f"{package}/", *sums[package]) | {"missing": ""} for package in PACKAGES]
    return [*totals, *rows]


def _row(name: str, lines: int, covered: int) -> dict[str, object]:
    return {"module": name, "lines": lines, "run": covered, "percent": round(100 * covered / lines, 1)}


def main() -> None:
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for tests in COMPILED:
            failed += run(tests, folder, compiled=True) != 0
        for tests in INTERPRETED:
            failed += run(tests, folder, compiled=False) != 0
        rows = report(folder)
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for row in rows[: len(PACKAGES)]:
        print(row["module"], f"{row['percent']} %")
    short = any(float(str(row["percent"])) < LEAST for row in rows[: len(PACKAGES)])
    sys.exit(int(bool(failed) or short))


if __name__ == "__main__":
    main()
