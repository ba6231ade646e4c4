"""Intervals of quantile regressions under pure budgets, as far as looks at the response can show.

*Rows.* As in `generous_bounds.py`, with slopes (+-) `slope`: 0.5, or 1.5, with which predictors tell most of
the response's variance. The response is declared to be within `range` / 2 of 0, and is cut to that. Errors
that are `widening` are normal with the standard deviation 1 + 0.3 z0, for z0 in [-3, 3]: the slope of z0
depends on the quantile.

*What is measured.* `intercept` and `slopes` are the coverage of finite 95 % intervals, `infinite` the share
of others; `of_intercept` and `of_slopes` the median width of finite intervals over the mean one without
privacy in three tables, which have the same quantile smoothed by a tenth of the distance between the
quartiles of the errors; `width` the median half-width of the smoothing.

    python experiments/pure_quantiles.py [--workers 2]

Adds to experiments/results/pure_quantiles.csv; resumable: a cell that is there is left out.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from generous_bounds import ERRORS, NAMES, SLOPES, chosen, share_held
from resumable import ResultsTable

WIDENING = 0.3
RESULTS = Path(__file__).parent / "results" / "pure_quantiles.csv"
PLAIN_TABLES = 3
FIELDS = [
    "errors", "slope", "tau", "n", "epsilon", "range",
    "repetitions", "intercept", "slopes", "infinite", "of_intercept", "of_slopes", "width",
]  # fmt: skip


def law_of(errors: str) -> tuple[object, float]:
    """Return the distribution of errors at z0 = 0, and by what they are wider for each unit of it."""
    return (ERRORS["normal"], WIDENING) if errors == "widening" else (ERRORS[errors], 0.0)


def fitted(rows: tuple[str, float, int, float], seed: int, *, tau: float, **options: object) -> pf.FitResult:
    """Return a fit of a table with such errors, slopes, a number of rows and a range."""
    errors, slope, n, spread = rows
    rng = np.random.default_rng(seed)
    z = np.clip(rng.normal(size=(n, len(SLOPES))), -3.0, 3.0)
    law, widening = law_of(errors)
    y = 0.5 + z @ (2.0 * slope * SLOPES) + (1.0 + widening * z[:, 0]) * law.ppf(rng.random(n))
    bounds = {"y": 0.5 * spread, **dict.fromkeys(NAMES, 3.0)}
    schema = {name: {"type": "numeric", "lower": -half, "upper": half} for name, half in bounds.items()}
    table = {"y": np.clip(y, -0.5 * spread, 0.5 * spread), **dict(zip(NAMES, z.T, strict=True))}
    formula = f"y ~ {' + '.join(NAMES)}"
    return pf.quantile(formula, table, schema=schema, quantile=tau, random_state=seed, **options)


def cell(arguments: tuple[str, float, float, int, float, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    errors, slope, tau, n, epsilon, spread, repetitions = arguments
    law, widening = law_of(errors)
    wanted = np.concatenate([[0.5 + law.ppf(tau)], 2.0 * slope * SLOPES])
    wanted[1] += widening * law.ppf(tau)
    rows, narrow = (errors, slope, n, spread), 0.1 * (law.ppf(0.75) - law.ppf(0.25))
    fits = [fitted(rows, seed, tau=tau, budget=pf.Budget(epsilon, 0.0)) for seed in range(repetitions)]
    plain = [fitted(rows, seed, tau=tau, solver="non-private", width=narrow) for seed in range(PLAIN_TABLES)]
    low, high = np.moveaxis([fit.conf_int().to_numpy() for fit in fits], 2, 0)
    usual = np.mean([np.ptp(fit.conf_int().to_numpy(), axis=1) for fit in plain], axis=0)
    relative, held = (high - low) / usual, (low <= wanted) & (wanted <= high)
    finite = np.isfinite(relative)
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "intercept": share_held(held[:, 0], finite[:, 0]),
        "slopes": share_held(held[:, 1:], finite[:, 1:]),
        "infinite": f"{1.0 - finite.mean():.4f}",
        "of_intercept": _median(relative[:, 0][finite[:, 0]]),
        "of_slopes": _median(relative[:, 1:][finite[:, 1:]]),
        "width": f"{np.median([chosen(fit, np.nan) for fit in fits]):.3g}",
    }


def _median(values: np.ndarray) -> str:
    return f"{np.median(values):.2f}" if values.size else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--errors", nargs="+", default=["normal", "skew", "exponential", "widening"])
    parser.add_argument("--slopes", nargs="+", type=float, default=[0.5, 1.5])
    parser.add_argument("--quantiles", nargs="+", type=float, default=[0.1, 0.5, 0.75])
    parser.add_argument("--rows", nargs="+", type=int, default=[3_000, 20_000, 100_000])
    parser.add_argument("--budgets", nargs="+", type=float, default=[1.0, 4.0])
    parser.add_argument("--ranges", nargs="+", type=float, default=[30.0, 100.0])
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 6)
    grid = product(
        options.errors, options.slopes, options.quantiles, options.rows, options.budgets, options.ranges
    )
    table.fill(cell, grid, options.repetitions, workers=options.workers)


if __name__ == "__main__":
    main()
