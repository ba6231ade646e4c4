"""Intervals where a lowered bound cuts a tail that a part of the rows has, and where rows are weighted down.

*Tables.* `level`: counts with mean 1 in two levels, gamma mixed (shape 0.15) in one of them, with a fifth of
the rows; `number`: counts with mean ``exp(x / 2)``, x uniform on [-1, 1], gamma mixed (shape 0.2) where x is
above 0.6; both declared up to 100. `skewed level`: numbers with mean 0 in two levels, normal in one,
log-normal with sigma = 1 in that of a fifth; `few far`: normal numbers, 30 more for 1 % of a level with three
tenths of the rows; declared up to 30 and 50 in size. `curved`: counts with mean ``exp(-1 + 3 x**2 + x / 2)``,
x uniform on [-1, 1], fitted without the square, declared up to 30.

*What is measured.* The share of fits whose 95 % interval is finite and wrong, of the intercept and of the
other coefficient, the share of infinite ones, and the median width of the other's, over that without privacy.
What is right is the fit without privacy of two million rows. `solver` is the default, or the same without
weights (`WhitenedGradientDescent(spread=4.0)`) or with ``residual_bound=`` the declared range, or Newton's
method, which keeps the declared bound on counts.

    python experiments/unlike_tails.py [--repetitions 100] [--workers 2]

Adds to experiments/results/unlike_tails.csv; resumable: a cell that is there is left out.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import privfit as pf
from privfit.solvers import WhitenedGradientDescent
from rare_levels import compared
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "unlike_tails.csv"
FIELDS = [
    "table", "n", "epsilon", "delta", "solver", "repetitions",
    "intercept_wrong", "other_wrong", "infinite", "width",
]  # fmt: skip
MANY = 2_000_000
OPTIONS: dict[str, dict[str, object]] = {
    "auto": {},
    "without weights": {"solver": WhitenedGradientDescent(spread=4.0)},
    "newton": {"solver": "newton"},
    "residual_bound": {"residual_bound": 30.0},
}
CELLS = (
    *(("level", n, epsilon, delta, "auto") for n, epsilon, delta in (
        (10_000, 1.0, 1e-6), (10_000, 4.0, 1e-6), (20_000, 8.0, 1e-6), (10_000, 8.0, 0.0),
    )),
    *(("number", 10_000, epsilon, 1e-6, "auto") for epsilon in (1.0, 4.0)),
    *(("skewed level", n, epsilon, 1e-6, "auto") for n, epsilon in (
        (10_000, 1.0), (10_000, 4.0), (50_000, 4.0),
    )),
    *(("few far", n, epsilon, 1e-6, "auto") for n, epsilon in ((10_000, 4.0), (20_000, 8.0))),
    *(("curved", 10_000, epsilon, 1e-6, solver) for epsilon in (1.0, 4.0)
      for solver in ("auto", "without weights")),
    ("level", 10_000, 4.0, 1e-6, "newton"),
    *(("skewed level", 10_000, epsilon, 1e-6, "residual_bound") for epsilon in (1.0, 4.0)),
)  # fmt: skip

Rows = dict[str, np.ndarray]


def in_a_level(rng: np.random.Generator, n: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows are in the second of two levels, and the column."""
    second = rng.random(n) < share
    return second, np.where(second, "b", "a")


def level(rng: np.random.Generator, n: int) -> Rows:
    second, g = in_a_level(rng, n, 0.2)
    return {"g": g, "y": rng.poisson(np.where(second, rng.gamma(0.15, 1.0 / 0.15, n), 1.0)).astype(float)}


def number(rng: np.random.Generator, n: int) -> Rows:
    x = rng.uniform(-1.0, 1.0, n)
    mixing = np.where(x > 0.6, rng.gamma(0.2, 5.0, n), 1.0)
    return {"x": x, "y": rng.poisson(np.exp(0.5 * x) * mixing).astype(float)}


def skewed_level(rng: np.random.Generator, n: int) -> Rows:
    second, g = in_a_level(rng, n, 0.2)
    skewed = np.exp(rng.normal(size=n)) - np.exp(0.5)
    return {"g": g, "y": np.where(second, skewed, rng.normal(size=n))}


def few_far(rng: np.random.Generator, n: int) -> Rows:
    second, g = in_a_level(rng, n, 0.3)
    return {"g": g, "y": rng.normal(size=n) + np.where(second & (rng.random(n) < 0.01), 30.0, 0.0)}


def curved(rng: np.random.Generator, n: int) -> Rows:
    x = rng.uniform(-1.0, 1.0, n)
    return {"x": x, "y": rng.poisson(np.exp(-1.0 + 3.0 * x**2 + 0.5 * x)).astype(float)}


TABLES: dict[str, tuple[Callable[..., Rows], Callable[..., Any], tuple[float, float]]] = {
    "level": (level, pf.poisson, (0.0, 100.0)),
    "number": (number, pf.poisson, (0.0, 100.0)),
    "skewed level": (skewed_level, pf.ols, (-30.0, 30.0)),
    "few far": (few_far, pf.ols, (-50.0, 50.0)),
    "curved": (curved, pf.poisson, (0.0, 30.0)),
}


def fitted(table: str, rows: Rows, **options: object) -> pf.FitResult:
    """Return the fit of one column."""
    _, model, (lower, upper) = TABLES[table]
    schema = {
        "x": {"type": "numeric", "lower": -1.0, "upper": 1.0},
        "g": {"type": "categorical", "levels": ["a", "b"]},
        "y": {"type": "numeric", "lower": lower, "upper": upper},
    }
    return model("y ~ x" if "x" in rows else "y ~ C(g)", rows, schema=schema, **options)


@cache
def truth(table: str) -> np.ndarray:
    """Return the coefficients of many rows."""
    rows = TABLES[table][0](np.random.default_rng(10**6), MANY)
    return fitted(table, rows, solver="non-private", inference=False).estimate


def cell(arguments: tuple[str, int, float, float, str, int]) -> dict[str, object]:
    """Return a row of the table."""
    table, n, epsilon, delta, solver, repetitions = arguments
    tables = [TABLES[table][0](np.random.default_rng(seed), n) for seed in range(repetitions)]

    def intervals(seed: int, **options: object) -> np.ndarray:
        return fitted(table, tables[seed], random_state=seed, **options).conf_int().to_numpy()

    private = {"epsilon": epsilon, "delta": delta} | OPTIONS[solver]
    found = [intervals(seed, **private) for seed in range(repetitions)]
    plain = [intervals(seed, solver="non-private") for seed in range(repetitions)]
    finite, held, width = compared(found, plain, truth(table))
    wrong = finite & ~held
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "intercept_wrong": f"{wrong[:, 0].mean():.2f}",
        "other_wrong": f"{wrong[:, 1].mean():.2f}",
        "infinite": f"{1.0 - finite.mean():.2f}",
        "width": f"{width[1]:.2f}",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, iter(CELLS))
