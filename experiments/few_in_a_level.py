"""Intervals of a level with few positives or small counts, or with a response far from others'.

*Rows.* x uniform within -1 and 1, a level that one row in ten has, declared last or, as the one without an
indicator, first. *logit*: log odds 0.5 x - 0.5 where it is not, and as many positives on average as a share
says (at x = 0) where it is. *poisson*: means exp(0.5 x), and the share times that; bound 20. By y ~ x + a
with a schema, epsilon 2, delta n^-1.1, the default solver.

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
DESIGNS = (("logit", "last"), ("logit", "first"), ("poisson", "last"))
ROWS, SHARES = (5_000, 20_000, 100_000), (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
SLOPE, IN_LEVEL, BOUND = 0.5, 0.1, 20
OTHERS, LINK = {"logit": -0.5, "poisson": 0.0}, {"logit": logit, "poisson": np.log}


def schema_of(model: str, declared: str) -> dict:
    levels = ["b", "a"] if declared == "first" else ["a", "b"]
    counts = {"type": "numeric", "lower": 0, "upper": BOUND}
    return {
        "x": {"type": "numeric", "lower": -1.0, "upper": 1.0},
        "a": {"type": "categorical", "levels": levels},
        "y": counts if model == "poisson" else {"type": "categorical", "levels": [0, 1]},
    }


def simulated(model: str, n: int, share: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, level = rng.uniform(-1.0, 1.0, n), rng.random(n) < IN_LEVEL
    eta = np.where(level, LINK[model](share), OTHERS[model]) + SLOPE * x
    positive = rng.random(n) < expit(eta)
    y = np.minimum(rng.poisson(np.exp(eta)), BOUND) if model == "poisson" else positive.astype(int)
    return pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})


def truth(model: str, declared: str, share: float) -> np.ndarray:
    """Return the intercept and the coefficients of x and of the level that is not left out."""
    rest, own = OTHERS[model], LINK[model](share)
    return np.array([own, SLOPE, rest - own] if declared == "first" else [rest, SLOPE, own - rest])


def cell(arguments: tuple[str, str, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, declared, n, share, repetitions = arguments
    options = {"schema": schema_of(model, declared), "epsilon": 2.0, "delta": n**-1.1}
    fits = [
        getattr(pf, model)("y ~ x + a", simulated(model, n, share, seed), random_state=seed, **options)
        for seed in range(repetitions)
    ]
    low, high = np.moveaxis(np.array([fit.conf_int().to_numpy() for fit in fits]), 2, 0)
    expected = truth(model, declared, share)
    finite, held = np.isfinite(high - low), (low <= expected) & (expected <= high)
    shares = (finite[:, 2].mean(), (finite & ~held)[:, 2].mean(), held[:, :2].mean())
    return dict(zip(FIELDS, (*arguments, *(f"{one:.3f}" for one in shares)), strict=True))


if __name__ == "__main__":
    grid = ((*design, n, share) for design in DESIGNS for n, share in product(ROWS, SHARES))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
