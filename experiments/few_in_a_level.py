"""Intervals of a level with few positives, or with odds far from others'.

*Rows.* x uniform within -1 and 1, a level b that one row in ten has; log odds 0.5 x - 0.5 where it is not,
and as many positives on average as a share says (at x = 0) where it is. Logit by y ~ x + a with a schema,
epsilon 2, delta n^-1.1, the default solver.

*What is measured.* The shares of tables in which the interval of the level's coefficient is finite, and in
which it is finite and wrong, and the coverage of the intercept and of the slope.

    python experiments/few_in_a_level.py [--repetitions 200] [--workers 2]

Adds to experiments/results/few_in_a_level.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit, logit

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "few_in_a_level.csv"
FIELDS = ["n", "share", "repetitions", "finite", "wrong", "others"]
ROWS, SHARES = (5_000, 20_000, 100_000), (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
OTHERS, SLOPE, IN_LEVEL = -0.5, 0.5, 0.1
SCHEMA = {
    "x": {"type": "numeric", "lower": -1.0, "upper": 1.0},
    "a": {"type": "categorical", "levels": ["a", "b"]},
    "y": {"type": "categorical", "levels": [0, 1]},
}


def simulated(n: int, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, level = rng.uniform(-1.0, 1.0, n), rng.random(n) < IN_LEVEL
    eta = np.where(level, logit(share), OTHERS) + SLOPE * x
    y = (rng.random(n) < expit(eta)).astype(int)
    return pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})


def cell(arguments: tuple[int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    n, share, repetitions = arguments
    budget = {"epsilon": 2.0, "delta": n**-1.1}
    truth, ends = pd.Series({"Intercept": OTHERS, "x": SLOPE, "level": logit(share) - OTHERS}), []
    for seed in range(repetitions):
        fit = pf.logit("y ~ x + a", simulated(n, share, seed), schema=SCHEMA, random_state=seed, **budget)
        at_level = next(name for name in fit.params.index if name not in truth.index)
        ends.append(fit.conf_int().rename({at_level: "level"}).loc[truth.index].to_numpy())
    low, high = np.moveaxis(np.array(ends), 2, 0)
    finite, held = np.isfinite(high - low), (low <= truth.to_numpy()) & (truth.to_numpy() <= high)
    shares = (finite[:, 2].mean(), (finite & ~held)[:, 2].mean(), held[:, :2].mean())
    return dict(zip(FIELDS, (*arguments, *(f"{one:.3f}" for one in shares)), strict=True))


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, product(ROWS, SHARES))
