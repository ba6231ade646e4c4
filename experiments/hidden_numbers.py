"""Intervals beside a numeric column whose declared bounds are far wider than its values.

*Rows.* b normal of standard deviation 1, declared within -B and B; a = 0.8 b + 0.6 times normal noise,
declared within -5 and 5. The predictor is b alone (0.5 b for counts), so that the coefficient of a is 0, and
0.8 for who leaves b out. Errors of least squares and of the median are standard normal, counts are declared
up to 50. Epsilon 1, delta 1 / n^2.

*What is measured.* The share of tables in which the interval of b is finite, in which it is finite and wrong,
and the same of that of a.

    python experiments/hidden_numbers.py [--repetitions 200] [--workers 2]

Adds to experiments/results/hidden_numbers.csv; resumable: a cell that is there is left out.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "hidden_numbers.csv"
FIELDS = [
    "model", "solver", "n", "bound", "repetitions", "finite", "wrong", "other_finite", "other_wrong",
]  # fmt: skip
BOUNDS = (5.0, 20.0, 50.0, 100.0, 200.0, 300.0, 1000.0, 1e5)
RESPONSES = {"ols": (-10.0, 10.0), "quantile": (-10.0, 10.0), "logit": (0.0, 1.0), "poisson": (0.0, 50.0)}
FITS = {"ols": pf.ols, "quantile": pf.quantile, "logit": pf.logit, "poisson": pf.poisson}


def grid() -> Iterator[tuple[str, str, int, float]]:
    """Yield the cells."""
    for model in FITS:
        for n in (3_000, 20_000):
            yield from ((model, "auto", n, bound) for bound in BOUNDS)
    for solver in ("gradient-descent", "newton"):
        yield from (("logit", solver, 20_000, bound) for bound in BOUNDS)


def simulated(model: str, n: int, seed: int) -> tuple[pd.DataFrame, float]:
    """Return a table, and the coefficient of b."""
    rng = np.random.default_rng([seed, n])
    b = rng.normal(size=n)
    a, slope = 0.8 * b + 0.6 * rng.normal(size=n), 0.5 if model == "poisson" else 1.0
    if model == "poisson":
        y = rng.poisson(np.exp(slope * b)).astype(float)
    elif model == "logit":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-b))).astype(float)
    else:
        y = b + rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "y": y}), slope


def cell(arguments: tuple[str, str, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, solver, n, bound, repetitions = arguments
    numbers = {"a": (-5.0, 5.0), "b": (-bound, bound), "y": RESPONSES[model]}
    schema = {name: {"type": "numeric", "lower": low, "upper": high} for name, (low, high) in numbers.items()}
    found = []
    for seed in range(repetitions):
        table, slope = simulated(model, n, seed)
        options = {"schema": schema, "solver": solver, "epsilon": 1.0, "delta": n**-2.0, "random_state": seed}
        ends = FITS[model]("y ~ a + b", table, **options).conf_int().loc[["b", "a"]].to_numpy()
        finite = np.isfinite(ends).all(axis=1)
        found.append([finite, finite & ~((ends[:, 0] <= [slope, 0.0]) & ([slope, 0.0] <= ends[:, 1]))])
    shares = np.mean(found, axis=0).T.ravel()
    return dict(zip(FIELDS, (*arguments, *(f"{share:.3f}" for share in shares)), strict=True))


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid())
