"""Intervals of a level with few positives or small counts, or with a response far from others'.

*Rows.* x uniform within -1 and 1, a level that one row in ten has, declared last or, as the one without an
indicator, first. *logit*: log odds 0.5 x - 0.5 where it is not, and as many positives on average as a share
says (at x = 0) where it is. *classes*: three, of which the second has these log odds against the first, and
that share in the level; the others are as frequent as each other. *poisson*: means exp(0.5 x), and the share
times that; bound 20. By y ~ x + a with a schema, epsilon 2, delta n^-1.1, the default solver.

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
FIELDS = ["model", "declared", "n", "share", "repetitions", "finite", "wrong", "others"]
DESIGNS = (("logit", "last"), ("logit", "first"), ("classes", "last"), ("poisson", "last"))
ROWS, SHARES = (5_000, 20_000, 100_000), (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
SLOPE, IN_LEVEL, BOUND = 0.5, 0.1, 20
RESPONSES = {
    "logit": {"type": "categorical", "levels": [0, 1]},
    "classes": {"type": "categorical", "levels": [0, 1, 2]},
    "poisson": {"type": "numeric", "lower": 0, "upper": BOUND},
}
OTHERS = {"logit": -0.5, "classes": -0.5, "poisson": 0.0}
LINK = {"logit": logit, "classes": lambda share: logit(share) + np.log(2.0), "poisson": np.log}


def schema_of(model: str, declared: str) -> dict:
    levels = ["b", "a"] if declared == "first" else ["a", "b"]
    return {
        "x": {"type": "numeric", "lower": -1.0, "upper": 1.0},
        "a": {"type": "categorical", "levels": levels},
        "y": RESPONSES[model],
    }


def simulated(model: str, n: int, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, level = rng.uniform(-1.0, 1.0, n), rng.random(n) < IN_LEVEL
    eta = np.where(level, LINK[model](share), OTHERS[model]) + SLOPE * x
    if model == "poisson":
        y = np.minimum(rng.poisson(np.exp(eta)), BOUND)
    elif model == "classes":
        chances = np.cumsum(np.column_stack([np.ones(n), np.exp(eta)]), axis=1) / (2.0 + np.exp(eta))[:, None]
        y = np.sum(rng.random(n)[:, None] > chances, axis=1)
    else:
        y = (rng.random(n) < expit(eta)).astype(int)
    return pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})


def truth(model: str, declared: str, share: float) -> np.ndarray:
    """Return the intercept and the coefficients of x and of the level that has one, of the second class."""
    rest, own = OTHERS[model], LINK[model](share)
    return np.array([own, SLOPE, rest - own] if declared == "first" else [rest, SLOPE, own - rest])


def cell(arguments: tuple[str, str, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, declared, n, share, repetitions = arguments
    options = {"schema": schema_of(model, declared), "epsilon": 2.0, "delta": n**-1.1}
    fit = pf.poisson if model == "poisson" else pf.logit
    fits = [
        fit("y ~ x + a", simulated(model, n, share, seed), random_state=seed, **options)
        for seed in range(repetitions)
    ]
    low, high = np.moveaxis(np.array([each.conf_int().to_numpy()[:3] for each in fits]), 2, 0)
    expected = truth(model, declared, share)
    finite, held = np.isfinite(high - low), (low <= expected) & (expected <= high)
    shares = (finite[:, 2].mean(), (finite & ~held)[:, 2].mean(), held[:, :2].mean())
    return dict(zip(FIELDS, (*arguments, *(f"{one:.3f}" for one in shares)), strict=True))


if __name__ == "__main__":
    grid = ((*design, n, share) for design in DESIGNS for n, share in product(ROWS, SHARES))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
