"""What the comparisons share: a fit on arrays, a table that can be resumed, error curves.

Fits are made below the estimators, on encoded rows with a stated norm bound, so that a design can be
followed to the letter. Noise is seeded for speed and repeatability: these are simulations or public tables,
and nothing here is private.
"""

import argparse
import csv
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import matplotlib as mpl
import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from privfit import Budget
from privfit.data.source import ArraySource
from privfit.inference.infer import estimate_only
from privfit.losses import AbstractLoss
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers import AbstractSolver

mpl.use("Agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).resolve().parent.parent / "results" / "private_inference"
UNWEIGHTED = 2.0**60
"""Norm bound with which no row is weighted down."""

Cell = tuple[str, str, int]
"""Setting, method, number of rows."""


def fit(
    loss: AbstractLoss,
    solver: AbstractSolver,
    x: np.ndarray,
    y: np.ndarray,
    *,
    norm_bound: float,
    budget: Budget | None,
    seed: int,
) -> np.ndarray:
    """Return the released coefficients (p,) of one fit from 0; without noise where ``budget`` is None."""
    n, p = x.shape
    start = (0.0,) * p + ((1.0,) if loss.has_scale else ())
    names = tuple(f"x{k}" for k in range(p))
    problem = Problem(loss, names, norm_bound, n, Relation.REPLACE, 0.0, start, (False,) * p)
    allowance = Allowance.unlimited() if budget is None else Allowance.of(budget)
    plan = make_plan(problem, solver, allowance, inference=False)
    noise = NoNoise() if budget is None else make_source(10**6 + seed)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=norm_bound), noise)
    return estimate_only(solver.run(problem, oracle)).theta


def options(
    description: str | None, *, repetitions: int, name: str, data: bool = False
) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=repetitions)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / f"{name}.csv")
    if data:
        parser.add_argument("--data", type=Path, required=True, help="folder with the public tables")
    return parser.parse_args()


def fill(
    path: Path,
    cells: Iterable[Cell],
    run: Callable[[Cell], list[dict[str, object]]],
    *,
    workers: int,
) -> list[dict[str, str]]:
    """Add the rows of the cells that ``path`` does not hold yet, and return all of them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    have = read(path)
    done = {(row["setting"], row["method"], int(row["n"])) for row in have}
    todo = [cell for cell in cells if cell not in done]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, ProcessPoolExecutor(workers) as pool:
        task = progress.add_task(path.stem, total=len(todo))
        for cell, rows in zip(todo, pool.map(run, todo), strict=True):
            _append(path, rows)
            progress.update(task, advance=1, description=f"{path.stem} {cell[0]}, {cell[1]}, n={cell[2]}")
    return read(path)


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table, or none."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _append(path: Path, rows: Sequence[dict[str, object]]) -> None:
    new = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        if new:
            table.writeheader()
        table.writerows(rows)


def error_row(cell: Cell, errors: np.ndarray) -> dict[str, object]:
    """Return a row of a table of distances (repetitions,)."""
    setting, method, n = cell
    return {
        "setting": setting,
        "method": method,
        "n": n,
        "repetitions": errors.size,
        "mean_error": f"{errors.mean():.4g}",
        "standard_error": f"{errors.std(ddof=1) / np.sqrt(errors.size):.2g}",
        "median_error": f"{np.median(errors):.4g}",
        "largest_error": f"{errors.max():.4g}",
    }


def plot_errors(
    rows: list[dict[str, str]],
    titles: dict[str, str],
    styles: dict[str, tuple[str, str]],
    path: Path,
    *,
    label: str,
    column: str = "mean_error",
) -> None:
    """Draw error against n, one panel a setting and one line a method, on log scales."""
    figure, axes = plt.subplots(1, len(titles), figsize=(4.6 * len(titles), 4.0), sharey=True, squeeze=False)
    for axis, (setting, title) in zip(axes[0], titles.items(), strict=True):
        for method, (colour, dash) in styles.items():
            line = sorted(
                (int(row["n"]), float(row[column]))
                for row in rows
                if row["setting"] == setting and row["method"] == method
            )
            if line:
                axis.plot(*zip(*line, strict=True), dash, color=colour, marker="o", ms=3, label=method)
        axis.set(xscale="log", yscale="log", title=title, xlabel="rows")
        axis.grid(visible=True, which="both", alpha=0.2)
    axes[0][0].set_ylabel(label)
    handles, labels = _legend(axes[0])
    figure.legend(handles, labels, loc="lower center", ncols=min(4, len(labels)), frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0.05 + 0.05 * ((len(labels) - 1) // 4), 1, 1))
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _legend(axes: Iterable[plt.Axes]) -> tuple[list[object], list[str]]:
    found: dict[str, object] = {}
    for axis in axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)
