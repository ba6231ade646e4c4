"""Dummy columns without a schema: numbers, columns of true and false, and the levels that they stand for.

*Rows.* Three standard normal numbers with slopes of 0.5, and a factor of twelve levels, of which the k-th is
``k**-1.5`` times as frequent as the first (49 % to 1.2 % of the rows); effects of levels are normal with
standard deviation 0.5. Labels of a logit, with a constant of -1, or numbers with standard normal errors.
Epsilon 1, delta 1e-6.

*Codings.* `numbers`: the dummies of all levels but the first as 0 and 1 of type float, and no schema;
`bool`: the same as true and false, as ``pandas.get_dummies`` makes them; `levels`: one column of text and a
schema that declares the levels and bounds, of the numbers (4 on either side) and of a numeric response (8).

*What is measured.* The shares of the intervals of the three numbers, and of the dummies, that are finite; the
shares that are finite and wrong; and the median widths over those of the non-private fit, infinite ones
counted.

    python experiments/dummies.py [--repetitions 200] [--workers 2]

Adds to experiments/results/dummies.csv; resumable: a cell that is there is left out.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from privfit.results import FitResult
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "dummies.csv"
FIELDS = [
    "model", "coding", "n", "repetitions",
    "numbers_finite", "numbers_wrong", "numbers_width", "dummies_finite", "dummies_wrong", "dummies_width",
]  # fmt: skip
NUMBERS, LEVELS = ("a", "b", "c"), tuple(f"level {k}" for k in range(12))
SHARES = np.arange(1, len(LEVELS) + 1) ** -1.5 / np.sum(np.arange(1, len(LEVELS) + 1) ** -1.5)
RESPONSES = {
    "logit": {"type": "categorical", "levels": [0, 1], "target": True},
    "least squares": {"type": "numeric", "lower": -8, "upper": 8, "target": True},
}
ESTIMATORS = {"logit": pf.LogisticRegression, "least squares": pf.LinearRegression}


def grid() -> Iterator[tuple[str, str, int]]:
    """Yield the cells."""
    for model in RESPONSES:
        for n in (3_000, 10_000, 50_000):
            yield from ((model, coding, n) for coding in ("numbers", "bool", "levels"))


def simulated(model: str, n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table, and the constant, the slopes and what the levels add to the first."""
    rng = np.random.default_rng([seed, n])
    effects = 0.5 * rng.normal(size=len(LEVELS))
    level = rng.choice(len(LEVELS), size=n, p=SHARES)
    numbers = rng.normal(size=(n, len(NUMBERS)))
    score = numbers.sum(axis=1) / 2 + effects[level] - 1.0
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-score)) if model == "logit" else score + rng.normal(size=n)
    table = pd.DataFrame(numbers, columns=list(NUMBERS))
    table["level"], table["y"] = np.array(LEVELS)[level], y.astype(float)
    truth = np.concatenate([[effects[0] - 1.0], np.full(len(NUMBERS), 0.5), effects[1:] - effects[0]])
    return table, truth


def fitted(model: str, coding: str, table: pd.DataFrame, **options: object) -> FitResult:
    """Return the result for rows that are given so."""
    y, given = table["y"], table.drop(columns="y")
    if coding == "levels":
        bounds = {name: {"type": "numeric", "lower": -4, "upper": 4} for name in NUMBERS}
        options["schema"] = bounds | {
            "level": {"type": "categorical", "levels": list(LEVELS)},
            "y": RESPONSES[model],
        }
    else:
        dummies = pd.get_dummies(given["level"])[list(LEVELS[1:])]
        dummies = dummies if coding == "bool" else dummies.astype(float)
        given = pd.concat([given[list(NUMBERS)], dummies], axis=1)
    return ESTIMATORS[model](**options).fit(given, y).result_


def cell(arguments: tuple[str, str, int, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, coding, n, repetitions = arguments
    found = []
    for seed in range(repetitions):
        table, truth = simulated(model, n, seed)
        private = fitted(model, coding, table, epsilon=1.0, delta=1e-6, random_state=seed)
        exact = fitted(model, coding, table, solver="non-private")
        low, high = private.conf_int().to_numpy().T
        finite = np.isfinite(high)
        found.append([finite, finite & ~((low <= truth) & (truth <= high)), private.bse / exact.bse])
    finite, wrong, width = np.array(found, dtype=float).transpose(1, 0, 2)
    shown = []
    for some in (slice(1, 1 + len(NUMBERS)), slice(1 + len(NUMBERS), None)):
        shown += [f"{each[:, some].mean():.3f}" for each in (finite, wrong)]
        shown.append(f"{np.median(width[:, some]):.2f}")
    return dict(zip(FIELDS, (*arguments, *shown), strict=True))


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid())
