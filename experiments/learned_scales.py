"""What bounds that are learned are worth to a fit.

*Rows.* Three predictors as they come: incomes (lognormal, with a standard deviation of 0.5 of the logarithm),
years 1980 to 2020, body mass indices. Each moves the linear predictor by 0.4 standard deviations. A logit,
and least squares of a response around 20,000 with a standard deviation of about 6,000. delta 1e-6.

*Fits.* Without a schema; with ``scale="private"``, which buys bounds with a tenth of the squared budget; and
with bounds that are declared: incomes of 0 to 200,000, the years, indices of 10 to 60, a response between
-40,000 and 80,000.

*What is measured.* The share of tables that are refused, since noise hides where a column lies; the share in
which intervals of slopes are finite, and finite and wrong (means over the three); and the median length
relative to that with declared bounds (mean over the three).

    python experiments/learned_scales.py [--repetitions 200] [--workers 2]

Adds to experiments/results/learned_scales.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "learned_scales.csv"
FIELDS = ["model", "rows", "epsilon", "bounds", "repetitions", "refused", "finite", "wrong", "length"]
SLOPES, DELTA = np.array([0.4, 0.4, 0.4]), 1e-6
DECLARED = {
    "income": {"type": "numeric", "lower": 0, "upper": 200_000},
    "year": {"type": "numeric", "lower": 1980, "upper": 2020},
    "index": {"type": "numeric", "lower": 10, "upper": 60},
}


def simulated(model: str, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predictors, response and slopes in raw units."""
    rng = np.random.default_rng([seed, n_rows, len(model)])
    x = np.column_stack(
        [
            np.exp(10.0 + 0.5 * rng.normal(size=n_rows)),
            rng.integers(1980, 2021, n_rows),
            rng.normal(27.0, 5.0, n_rows),
        ]
    )
    lognormal = np.exp(10.125), np.exp(10.125) * np.sqrt(np.expm1(0.25))
    mean, sd = np.array([lognormal[0], 2000.0, 27.0]), np.array([lognormal[1], np.sqrt(140.0), 5.0])
    eta = (x - mean) @ (SLOPES / sd)
    if model == "logit":
        return x, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-eta))).astype(int), SLOPES / sd
    return x, 20_000.0 + 5_000.0 * (eta + rng.normal(size=n_rows)), 5_000.0 * SLOPES / sd


def fitted(model: str, bounds: str, rows: list[np.ndarray], **options: float) -> np.ndarray:
    """Return the ends of the intervals of the slopes, shape (3, 2)."""
    estimator = pf.LogisticRegression if model == "logit" else pf.LinearRegression
    x, y = rows
    if bounds == "declared":
        schema = dict(DECLARED) | {"y": {"type": "numeric", "lower": 0, "upper": 1}}
        if model == "least squares":
            schema["y"] = {"type": "numeric", "lower": -40_000, "upper": 80_000}
        table = dict(zip(DECLARED, x.T, strict=True)) | {"y": y}
        done = estimator(schema=schema, **options).fit(table, "y")
    else:
        done = estimator(scale="private" if bounds == "learned" else None, **options).fit(x, y)
    return done.result_.conf_int().to_numpy()[1:]


def cell(arguments: tuple[str, int, float, str, int]) -> dict[str, object]:
    """Return a row of the table; lengths relative to those with declared bounds."""
    model, n_rows, epsilon, bounds, repetitions = arguments
    ends, usual, refused = [], [], 0
    for seed in range(repetitions):
        *rows, truth = simulated(model, n_rows, seed)
        options = {"epsilon": epsilon, "delta": DELTA, "random_state": seed}
        try:
            found = fitted(model, bounds, rows, **options)
        except pf.TooLittleData:
            refused, found = refused + 1, np.full((3, 2), [-np.inf, np.inf])
        ends.append(found)
        usual.append(fitted(model, "declared", rows, **options))
    low, high = np.moveaxis(np.array(ends), 2, 0)
    finite = np.isfinite(high - low)
    wrong = finite & ((truth < low) | (truth > high))
    others = np.diff(np.array(usual), axis=2)[..., 0]
    with np.errstate(invalid="ignore"):  # both may be infinite
        length = np.mean(np.median(high - low, axis=0) / np.median(others, axis=0))
    numbers = (refused / repetitions, finite.mean(), wrong.mean(), length)
    return dict(zip(FIELDS, (*arguments, *(f"{one:.3f}" for one in numbers)), strict=True))


if __name__ == "__main__":
    models = ("logit", "least squares")
    grid = product(models, (2_000, 10_000, 50_000), (0.5, 2.0), ("none", "learned", "declared"))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
