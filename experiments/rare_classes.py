"""Coverage and width of the default's 95 % intervals of several classes, of which one is rare.

*Rows.* a and b normal within -5 and 5, three classes with linear predictors 0, -0.5 + 0.5 a - 0.3 b and
c + 0.3 a + 0.6 b; with c = -0.5 about three tenths of the rows have the last class, with -2.5 about 6 %, with
-3.5 about 2 %. delta = 1e-6 or 0.

*What is measured.* Coverage of finite intervals of the coefficients of the second class, and of the rare one,
the share of intervals that are not finite among each, and the median width over the mean one without privacy
in ten tables.

    python experiments/rare_classes.py [--repetitions 200] [--workers 2]

Adds to experiments/results/rare_classes.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from generous_bounds import share_held
from rare_levels import compared
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "rare_classes.csv"
FIELDS = [
    "constant", "n", "epsilon", "delta", "repetitions",
    "usual", "rare", "usual_infinite", "rare_infinite", "usual_width", "rare_width",
]  # fmt: skip
NUMBER = {"type": "numeric", "lower": -5.0, "upper": 5.0}
SCHEMA = {"a": NUMBER, "b": NUMBER, "y": {"type": "categorical", "levels": ["p", "q", "r"]}}
PLAIN_TABLES = 10


def target(constant: float) -> np.ndarray:
    """Return the coefficients of the second and the third class, (2, 3)."""
    return np.array([[-0.5, 0.5, -0.3], [constant, 0.3, 0.6]])


def simulated(n: int, constant: float, seed: int) -> pd.DataFrame:
    """Return a table."""
    rng = np.random.default_rng([seed, n])
    x = rng.normal(size=(n, 2)).clip(-5.0, 5.0)
    eta = np.zeros((n, 3))
    eta[:, 1:] = np.column_stack([np.ones(n), x]) @ target(constant).T
    y = np.argmax(eta + rng.gumbel(size=eta.shape), axis=1)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": np.array(["p", "q", "r"])[y]})


def intervals(n: int, constant: float, seed: int, **options: object) -> np.ndarray:
    """Return the ends of the intervals of a fit, (6, 2)."""
    table = simulated(n, constant, seed)
    fit = pf.logit("y ~ a + b", table, schema=SCHEMA, random_state=seed, **options)
    return fit.conf_int().to_numpy()


def cell(arguments: tuple[float, int, float, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    constant, n, epsilon, delta, repetitions = arguments
    budget = pf.Budget(epsilon, delta)
    found = [intervals(n, constant, seed, budget=budget) for seed in range(repetitions)]
    plain = [intervals(n, constant, seed, solver="non-private") for seed in range(PLAIN_TABLES)]
    finite, held, width = compared(found, plain, target(constant).ravel())
    usual, rare = slice(0, 3), slice(3, 6)
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "usual": share_held(held[:, usual], finite[:, usual]),
        "rare": share_held(held[:, rare], finite[:, rare]),
        "usual_infinite": f"{1.0 - finite[:, usual].mean():.4f}",
        "rare_infinite": f"{1.0 - finite[:, rare].mean():.4f}",
        "usual_width": f"{np.median(width[usual]):.2f}",
        "rare_width": f"{np.median(width[rare]):.2f}",
    }


if __name__ == "__main__":
    cells = product((-0.5, -2.5, -3.5), (5_000, 20_000, 50_000), (1.0, 4.0), (1e-6, 0.0))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, cells)
