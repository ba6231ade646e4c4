"""Intervals of a column far from 0, without a schema.

*Rows.* A column that is not centred or scaled: calendar years (1990 to 2019), ages (18 to 85), normal ones of
standard deviation 1 around 10, 30, 100 and 1,000; years less 2005 and in tens beside them. Another column is
standard normal. The first moves the linear predictor by a standard deviation of 0.43, the second by 0.5,
around 0. Logit; 20,000 rows, delta 1e-6.

*What is measured.* The share of tables in which the interval of the coefficient of the column is finite, in
which it is finite and wrong, and the same of the standard column's.

    python experiments/unscaled_columns.py [--repetitions 200] [--workers 2]

Adds to experiments/results/unscaled_columns.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "unscaled_columns.csv"
FIELDS = ["column", "epsilon", "repetitions", "finite", "wrong", "other_finite", "other_wrong"]
N_ROWS, SIZES = 20_000, np.array([0.43, 0.5])
COLUMNS = {
    "(years - 2005) / 10": (-0.05, 0.866),
    "years": (2004.5, 8.66),
    "ages": (51.5, 19.6),
    "around 10": (10.0, 1.0),
    "around 30": (30.0, 1.0),
    "around 100": (100.0, 1.0),
    "around 1,000": (1000.0, 1.0),
}
"""Means and standard deviations."""


def simulated(column: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, len(column)])
    mean, sd = COLUMNS[column]
    if column == "ages" or "years" in column:
        first = rng.integers(*((18, 86) if column == "ages" else (1990, 2020)), N_ROWS).astype(float)
    else:
        first = rng.normal(mean, sd, N_ROWS)
    if column.startswith("("):
        first = (first - 2005.0) / 10.0
    x = np.column_stack([first, rng.normal(size=N_ROWS)])
    eta = (x - [mean, 0.0]) @ (SIZES / [sd, 1.0])
    return x, (rng.random(N_ROWS) < 1.0 / (1.0 + np.exp(-eta))).astype(int)


def cell(arguments: tuple[str, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    column, epsilon, repetitions = arguments
    truth, ends = SIZES / [COLUMNS[column][1], 1.0], []
    for seed in range(repetitions):
        model = pf.LogisticRegression(epsilon=epsilon, delta=1e-6, random_state=seed)
        ends.append(model.fit(*simulated(column, seed)).result_.conf_int().to_numpy()[1:])
    low, high = np.moveaxis(np.array(ends), 2, 0)
    finite = np.isfinite(high - low)
    wrong = finite & ((truth < low) | (truth > high))
    shares = np.stack([finite.mean(axis=0), wrong.mean(axis=0)], axis=1).ravel()
    return dict(zip(FIELDS, (*arguments, *(f"{share:.3f}" for share in shares)), strict=True))


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, product(COLUMNS, (0.3, 1.0, 4.0)))
