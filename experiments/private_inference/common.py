"""What the reproductions of Avella-Medina, Bradshaw and Loh (2023) share: data, runs, tables and figures."""

import argparse
import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from privfit.data.source import ArraySource
from privfit.inference.infer import Inference, infer
from privfit.losses import AbstractLoss
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.query_kernels import query_kernel
from privfit.solvers import AbstractSolver, Solution

RESULTS = Path(__file__).parents[1] / "results" / "private_inference"
MALLOWS = math.sqrt(2.0)
"""``w(x) = min(1, 2 / norm(x)**2)`` is the norm bound sqrt(2)."""

HUBER = 1.345


def arguments(description: str, repetitions: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repetitions", type=int, default=repetitions)
    return parser.parse_args()


def table(
    n: int,
    beta: Iterable[float],
    *,
    seed: int,
    sd: float | None,
    spread: float = 1.0,
    correlation: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Return x = (1, z) and a linear response with errors of this sd, or a logistic one without."""
    rng, beta = np.random.default_rng(seed), np.array(list(beta))
    p = beta.size - 1
    covariance = (1.0 - correlation) * np.eye(p) + correlation
    z = spread * rng.normal(size=(n, p)) @ np.linalg.cholesky(covariance).T
    x = np.column_stack([np.ones(n), z])
    eta = x @ beta
    if sd is None:
        return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return x, eta + sd * rng.normal(size=n)


@dataclass(frozen=True)
class Run:
    """One fit: the solver's path, and the exact objective for looking at it afterwards."""

    problem: Problem
    source: ArraySource
    oracle: Oracle
    solution: Solution
    inference: Inference | None

    @property
    def path(self) -> np.ndarray:
        """Iterates, the start first; shape (steps + 1, q)."""
        return np.array([step.release.at for step in self.solution.steps] + [self.solution.theta])

    def gradient_norm(self, theta: np.ndarray) -> float:
        """Return the norm of the exact gradient. Not private; the tables are simulated."""
        problem = self.problem
        with np.errstate(over="ignore", invalid="ignore"):
            total = self.source.sum(query_kernel(problem, "gradient", theta), problem.sum_length("gradient"))
        return float(np.linalg.norm(problem.mean("gradient", total) + problem.ridge @ theta))

    @property
    def gradient_norms(self) -> np.ndarray:
        """Norms along the path."""
        return np.array([self.gradient_norm(theta) for theta in self.path])


def fit(
    loss: AbstractLoss,
    x: np.ndarray,
    y: np.ndarray,
    solver: AbstractSolver,
    *,
    mu: float,
    seed: int,
    start: Iterable[float] | None = None,
    inference: bool = False,
) -> Run:
    """Run a solver under replace-one with seeded noise; without noise for an infinite ``mu``."""
    n, p = x.shape
    first = tuple(start) if start is not None else (0.0,) * p + ((1.0,) if loss.has_scale else ())
    names = ("const", *(f"x{k}" for k in range(1, p)))
    problem = Problem(
        loss, names, MALLOWS, n, Relation.REPLACE, 0.0, first, (False,) + (True,) * (p - 1)
    )  # fmt: skip
    plan = make_plan(problem, solver, Allowance.gaussian(mu), inference=inference)
    source = ArraySource(x, y, norm_bound=MALLOWS)
    oracle = Oracle(problem, plan, source, make_source(seed) if math.isfinite(mu) else NoNoise())
    solution = solver.run(problem, oracle)
    inferred = infer(solution, oracle, directions=np.eye(p)) if inference else None
    return Run(problem, source, oracle, solution, inferred)


class Table:
    """A CSV of finished cells; those that are there are not computed again."""

    def __init__(self, name: str, keys: tuple[str, ...]) -> None:
        self.path, self.keys = RESULTS / f"{name}.csv", keys
        self.rows: list[dict[str, str]] = []
        if self.path.exists():
            with self.path.open(newline="") as file:
                self.rows = list(csv.DictReader(file))

    def has(self, **key: object) -> bool:
        """Return whether a cell is finished."""
        return any(all(row[name] == str(key[name]) for name in self.keys) for row in self.rows)

    def add(self, row: dict[str, object]) -> None:
        """Add a finished cell, write the file and show it."""
        text = {
            name: f"{value:.5g}" if isinstance(value, float) else str(value) for name, value in row.items()
        }
        for name in self.keys:
            text[name] = str(row[name])
        self.rows.append(text)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=list(self.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows)
        print(", ".join(f"{name} {value}" for name, value in text.items()), flush=True)

    def series(self, x: str, y: str, **key: object) -> tuple[np.ndarray, np.ndarray]:
        """Return two columns of the rows with these values, as numbers."""
        found = [row for row in self.rows if all(row[name] == str(value) for name, value in key.items())]
        return np.array([float(row[x]) for row in found]), np.array([float(row[y]) for row in found])


def figure(columns: int):
    """Return a figure with this many panels side by side."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.grid": True, "grid.alpha": 0.3, "legend.fontsize": 8})
    return plt.subplots(1, columns, figsize=(4.6 * columns, 3.4), layout="constrained")


def save(fig, name: str) -> None:
    fig.savefig(RESULTS / f"{name}.png", dpi=90)
