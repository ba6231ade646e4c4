"""Accuracy of privfit's default against every other private regression, at equal privacy.

    python benchmarks/accuracy/run.py --data FOLDER [--diffprivlib PYTHON]

FOLDER holds adult_data.csv.gz and the others. PYTHON is an interpreter with diffprivlib 0.6.6 and
scikit-learn 1.6; without it diffprivlib is left out. Every cell is a table, a task and an epsilon; all
methods get the same encoded rows and the same (epsilon, delta) for replacing one row, delta = n**-1.1.

Writes benchmarks/accuracy/results/accuracy.csv, one row per cell and method. Rows that are there already
are kept: a run that was stopped goes on, and `--again METHOD` repeats one method.
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")

import argparse
import csv
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from cells import Cell
from competitors import methods
from problems import Task
from tables import NAMES, REAL, Rows, load
from trial import FIELDS, trial

RESULTS = Path(__file__).parent / "results" / "accuracy.csv"
EPSILONS = (0.1, 0.5, 1.0, 2.0, 8.0)
Key = tuple[str, str, str, str]
"""Table, task, epsilon and method, as they stand in the results."""


@dataclass(frozen=True, slots=True)
class Job:
    """The methods that a cell still lacks."""

    table: str
    task: Task
    epsilon: float
    lacking: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setup:
    """What every worker needs."""

    data: Path | None
    diffprivlib: str | None
    repetitions: int


def tasks_of(table: str) -> tuple[Task, ...]:
    """Return the tasks that a table serves, by its response."""
    binary = table.startswith("logistic") or (table in REAL and REAL[table][0] == "binary")
    return ("logistic",) if binary else ("squared", "huber")


@cache
def rows_of(table: str, data: Path | None) -> Rows:
    """Return a table; a worker keeps all of them."""
    return load(table, data)


def work(job: Job, setup: Setup) -> list[dict[str, object]]:
    """Return the rows of a cell."""
    cell = Cell(rows_of(job.table, setup.data), job.task, job.epsilon)
    return [
        trial(cell, method, setup.repetitions)
        for method in methods(setup.diffprivlib)
        if method.name in job.lacking
    ]


def stored(options: argparse.Namespace) -> list[dict[str, str]]:
    """Return earlier results but for the methods to repeat, in the cells of this run."""
    if not options.out.exists():
        return []

    def to_repeat(row: dict[str, str]) -> bool:
        here = row["table"] in options.tables and row["task"] in options.tasks
        return here and float(row["epsilon"]) in options.epsilons and row["method"] in options.again

    with options.out.open(newline="") as file:
        return [row for row in csv.DictReader(file) if not to_repeat(row)]


def jobs(options: argparse.Namespace, done: set[Key]) -> Iterator[Job]:
    """Return the cells with something to do, in the order of the options; all of an epsilon first."""
    for epsilon in options.epsilons:
        for table in options.tables:
            for task in tasks_of(table):
                if task not in options.tasks:
                    continue
                lacking = tuple(
                    method.name
                    for method in methods(options.diffprivlib)
                    if task in method.tasks
                    and (not options.methods or method.name in options.methods)
                    and (table, task, f"{epsilon:g}", method.name) not in done
                )
                if lacking:
                    yield Job(table, task, epsilon, lacking)


def write(path: Path, rows: list[dict[str, str]]) -> None:
    """Replace the results in one step, in a fixed order."""
    order = {name: place for place, name in enumerate((*NAMES, *(m.name for m in methods("-"))))}
    rows = sorted(rows, key=lambda r: (order[r["table"]], r["task"], float(r["epsilon"]), order[r["method"]]))
    draft = path.with_suffix(".tmp")
    with draft.open("w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    draft.replace(path)


def main() -> None:
    options = _options()
    options.out.parent.mkdir(exist_ok=True, parents=True)
    if options.diffprivlib is None:
        print("diffprivlib is left out: --diffprivlib PYTHON is not given")
    rows = stored(options)
    done = {(row["table"], row["task"], row["epsilon"], row["method"]) for row in rows}
    setup = Setup(options.data, options.diffprivlib, options.repetitions)
    started = time.perf_counter()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        pending = {pool.submit(work, job, setup): job for job in jobs(options, done)}
        for count, future in enumerate(as_completed(pending), 1):
            job = pending[future]
            rows += [{name: str(row.get(name, "")) for name in FIELDS} for row in future.result()]
            write(options.out, rows)
            spent = time.perf_counter() - started
            print(f"{count}/{len(pending)} {job.table} {job.task} {job.epsilon:g} {spent:.0f} s", flush=True)


def _options() -> argparse.Namespace:
    names = [method.name for method in methods("-")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with the public tables")
    parser.add_argument("--diffprivlib", metavar="PYTHON", help="interpreter that has diffprivlib 0.6.6")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--tasks", nargs="+", default=("logistic", "squared", "huber"))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--methods", nargs="+", choices=names, metavar="METHOD", help="only these")
    parser.add_argument(
        "--again", nargs="+", choices=names, default=(), metavar="METHOD", help="repeat these"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
