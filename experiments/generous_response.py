r"""Intervals of least squares where the response's declared bounds are far wider than its residuals.

*Rows.* y = 1/2 + x'(1, -1/2, 0) + e, standard normal columns with bounds -4 and 4, n of them. Errors e have
mean 0 and standard deviation about 1: normal; Student's t with 3 degrees of freedom; exponential; log-normal;
"unequal": exponential, times sqrt(0.3 + 0.7 x_1^2). `range` is that of the response's bounds, -range / 2 and
range / 2, which cut next to nothing.

*Budgets.* (epsilon, 1e-6), or with another `--delta`. `intercept` and `slopes` are the coverage of finite
95 % intervals, `infinite` the share of infinite ones, `width` the median width of the slopes' over the mean
one without privacy in ten tables, `bound` the median bound on residuals that was chosen. `declared_width` is
the width where residuals are bounded by half the range (`residual_bound`), in twenty tables.

    python experiments/generous_response.py [--workers 2]
    python experiments/generous_response.py --delta 0 --ranges 100 --rows 10000 20000 100000 \
        --out experiments/results/generous_pure.csv

Adds to experiments/results/generous_response.csv; resumable.
"""

import argparse
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from generous_bounds import chosen, share_held
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "generous_response.csv"
PLAIN_TABLES, DECLARED_TABLES = 10, 20
COEFFICIENTS = np.array([0.5, 1.0, -0.5, 0.0])
NAMES = ("a", "b", "c")
Drawn = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def _skewed(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return rng.exponential(size=len(x)) - 1.0


def _long_tailed(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    variance = np.e * (np.e - 1.0)
    return (rng.lognormal(size=len(x)) - np.exp(0.5)) / np.sqrt(variance)


ERRORS: dict[str, Drawn] = {
    "normal": lambda rng, x: rng.normal(size=len(x)),
    "t(3)": lambda rng, x: rng.standard_t(3, size=len(x)) / np.sqrt(3.0),
    "exponential": _skewed,
    "log-normal": _long_tailed,
    "unequal": lambda rng, x: _skewed(rng, x) * np.sqrt(0.3 + 0.7 * x[:, 0] ** 2),
}
FIELDS = [
    "errors", "range", "n", "epsilon", "repetitions", "intercept", "slopes", "infinite", "width",
    "bound", "declared_width",
]  # fmt: skip


def fitted(errors: str, spread: float, n: int, seed: int, **options: object) -> pf.FitResult:
    """Return a fit of a table."""
    rng = np.random.default_rng([seed, n])
    x = np.clip(rng.normal(size=(n, len(NAMES))), -4.0, 4.0)
    y = COEFFICIENTS[0] + x @ COEFFICIENTS[1:] + ERRORS[errors](rng, x)
    bounds = {"y": 0.5 * spread, **dict.fromkeys(NAMES, 4.0)}
    schema = {name: {"type": "numeric", "lower": -half, "upper": half} for name, half in bounds.items()}
    table = {"y": np.clip(y, -0.5 * spread, 0.5 * spread), **dict(zip(NAMES, x.T, strict=True))}
    return pf.ols("y ~ a + b + c", table, schema=schema, random_state=seed, **options)


def cell(arguments: tuple[str, float, int, float, int, float]) -> dict[str, object]:
    """Return a row of the table."""
    errors, spread, n, epsilon, repetitions, delta = arguments
    budget = pf.Budget(epsilon, delta)
    fits = [fitted(errors, spread, n, seed, budget=budget) for seed in range(repetitions)]
    plain = [fitted(errors, spread, n, seed, solver="non-private") for seed in range(PLAIN_TABLES)]
    declared = [
        fitted(errors, spread, n, seed, budget=budget, residual_bound=0.5 * spread)
        for seed in range(DECLARED_TABLES)
    ]
    low, high = np.moveaxis([fit.conf_int().to_numpy() for fit in fits], 2, 0)
    finite, held = np.isfinite(high - low), (low <= COEFFICIENTS) & (high >= COEFFICIENTS)
    usual = np.mean([_widths(fit) for fit in plain])
    bounds = [chosen(fit, 0.5 * spread) for fit in fits]
    return dict(zip(FIELDS, arguments[:-1], strict=False)) | {
        "intercept": share_held(held[:, 0], finite[:, 0]),
        "slopes": share_held(held[:, 1:], finite[:, 1:]),
        "infinite": f"{1.0 - finite.mean():.4f}",
        "width": f"{np.median((high - low)[:, 1:]) / usual:.2f}",
        "bound": f"{np.median(bounds):.3g}",
        "declared_width": f"{np.median([_widths(fit) for fit in declared]) / usual:.2f}",
    }


def _widths(fit: pf.FitResult) -> np.ndarray:
    """Return the widths of the slopes' intervals."""
    return np.ptp(fit.conf_int().to_numpy(), axis=1)[1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--errors", nargs="+", default=list(ERRORS))
    parser.add_argument("--ranges", nargs="+", type=float, default=[30.0, 100.0, 1000.0])
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--budgets", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 4)
    grid = product(options.errors, options.ranges, options.rows, options.budgets)
    table.fill(cell, grid, options.repetitions, options.delta, workers=options.workers)


if __name__ == "__main__":
    main()
