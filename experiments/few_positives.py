"""Coverage of a logit's intervals where positives are few: by default, under pure budgets, and by name.

*Rows.* x normal within -5 and 5, a level g that two rows in five have; log odds c + x - 0.5 g with c = -4.5
(1.5 % positives), -3.5 (4 %) and -2 (14 %). delta = 1e-6 where it is not 0.

*What is measured.* Coverage of finite 95 % intervals of the intercept and of the slope of x, the share of
intervals that are not finite, the mean distance of the intercept from the truth in its standard errors, and
the median width of its interval.

    python experiments/few_positives.py [--repetitions 200] [--workers 2]

Adds to experiments/results/few_positives.csv; resumable: a cell that is there is left out.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "few_positives.csv"
FIELDS = [
    "solver", "n", "log odds", "epsilon", "delta",
    "repetitions", "intercept", "slope", "infinite", "off", "width",
]  # fmt: skip
SCHEMA = {
    "x": {"type": "numeric", "lower": -5.0, "upper": 5.0},
    "g": {"type": "categorical", "levels": ["a", "b"]},
    "y": {"type": "categorical", "levels": [0, 1]},
}


def grid() -> Iterator[tuple[str, int, float, float, float]]:
    """Yield the cells."""
    for epsilon, delta in ((1.0, 0.0), (4.0, 0.0), (10.0, 0.0), (1.0, 1e-6), (4.0, 1e-6)):
        yield "auto", 50_000, -4.5, epsilon, delta
    few = ((20_000, -3.5, 1.0), (5_000, -3.5, 1.0), (5_000, -3.5, 4.0), (3_000, -2.0, 1.0))
    for (n, constant, epsilon), delta in product(few, (0.0, 1e-6)):
        yield "auto", n, constant, epsilon, delta
    for solver in ("gradient-descent", "newton"):
        for n, constant, epsilon in (
            (20_000, -2.0, 4.0),
            (20_000, -3.5, 4.0),
            (50_000, -4.5, 4.0),
            (10_000, -4.5, 4.0),
        ):
            yield solver, n, constant, epsilon, 1e-6


def simulated(n: int, constant: float, seed: int) -> pd.DataFrame:
    """Return a table."""
    rng = np.random.default_rng([seed, n])
    x, g = rng.normal(size=n).clip(-5.0, 5.0), rng.random(n) < 0.4
    y = rng.random(n) < 1.0 / (1.0 + np.exp(0.5 * g - constant - x))
    return pd.DataFrame({"x": x, "g": np.where(g, "b", "a"), "y": y.astype(int)})


def cell(arguments: tuple[str, int, float, float, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    solver, n, constant, epsilon, delta, repetitions = arguments
    fits = [
        pf.logit(
            "y ~ x + g",
            simulated(n, constant, seed),
            schema=SCHEMA,
            solver=solver,
            budget=pf.Budget(epsilon, delta),
            random_state=seed,
        )
        for seed in range(repetitions)
    ]
    ends = np.array([fit.conf_int().to_numpy() for fit in fits])
    true, finite = np.array([constant, 1.0, -0.5]), np.isfinite(ends).all(axis=2)
    held = (ends[..., 0] <= true) & (true <= ends[..., 1])
    off = np.array([(fit.params.iloc[0] - constant) / fit.bse.iloc[0] for fit in fits])[finite[:, 0]]
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "intercept": f"{held[finite[:, 0], 0].mean():.3f}" if finite[:, 0].any() else "",
        "slope": f"{held[finite[:, 1], 1].mean():.3f}" if finite[:, 1].any() else "",
        "infinite": f"{1.0 - finite.mean():.3f}",
        "off": f"{off.mean():.2f}" if off.size else "",
        "width": f"{np.median(ends[:, 0, 1] - ends[:, 0, 0]):.3g}",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid())
