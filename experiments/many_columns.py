"""Coverage of a Poisson regression's intervals with many columns, and counts far below their bound.

*Rows.* k normal columns cut to their declared bounds of -4 and 4, with pairwise correlation `correlation`,
counts with mean ``exp(c + sum(b x))``, all b alike and ``b * sqrt(k) = slope``, declared up to 20.

*What is measured.* Coverage of finite 95 % intervals of the intercept and of the slopes, the share of
intervals that are not finite, how far the intercept's estimate is off on average in standard errors of the
exact fit, and median widths over those of the exact fit.

    python experiments/many_columns.py [--repetitions 200] [--workers 2]

Adds to experiments/results/many_columns.csv; resumable: a cell that is there is left out.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from generous_bounds import share_held
from rare_levels import compared
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "many_columns.csv"
FIELDS = [
    "k", "correlation", "c", "slope", "n", "mu", "repetitions",
    "intercept", "slopes", "infinite", "off", "intercept_width", "slopes_width",
]  # fmt: skip
PLAIN_TABLES = 5
CELLS = (
    (3, 0.0, -0.5, 0.8, 3_000, 1.0),
    (5, 0.0, -0.5, 0.5, 2_000, 1.0),
    (5, 0.0, -0.5, 0.5, 10_000, 0.5),
    (5, 0.0, -0.5, 1.2, 10_000, 0.5),
    (5, 0.0, -2.0, 0.3, 5_000, 0.5),
    (10, 0.0, -0.5, 0.5, 10_000, 0.5),
    (10, 0.0, -1.0, 0.5, 20_000, 0.25),
    (20, 0.0, -0.5, 0.5, 10_000, 0.5),
    (20, 0.0, -0.5, 0.5, 20_000, 0.5),
    (20, 0.5, -0.5, 0.5, 10_000, 0.5),
    (20, 0.5, -0.5, 0.5, 20_000, 1.0),
    (20, 0.0, -0.5, 0.5, 100_000, 0.25),
)


def simulated(correlation: float, truth: np.ndarray, n: int, seed: int) -> pd.DataFrame:
    """Return a table; ``truth`` (1 + k,) are its coefficients."""
    k = len(truth) - 1
    rng = np.random.default_rng([seed, n, k])
    x = np.sqrt(1.0 - correlation) * rng.normal(size=(n, k)) + np.sqrt(correlation) * rng.normal(size=(n, 1))
    x = x.clip(-4.0, 4.0)
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(k)]).assign(
        y=rng.poisson(np.exp(truth[0] + x @ truth[1:]))
    )


def cell(arguments: tuple[int, float, float, float, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    k, correlation, c, slope, n, mu, repetitions = arguments
    truth = np.append(c, np.full(k, slope / np.sqrt(k)))
    schema = {f"x{j}": {"type": "numeric", "lower": -4, "upper": 4} for j in range(k)}
    schema["y"] = {"type": "numeric", "lower": 0, "upper": 20}

    def fitted(seed: int, **options: object) -> pf.FitResult:
        table = simulated(correlation, truth, n, seed)
        return pf.poisson("y ~ .", table, schema=schema, random_state=seed, **options)

    private = [fitted(seed, budget=pf.Budget.gdp(mu)) for seed in range(repetitions)]
    exact = [fitted(seed, solver="non-private") for seed in range(PLAIN_TABLES)]
    found, plain = ([fit.conf_int().to_numpy() for fit in fits] for fits in (private, exact))
    finite, held, width = compared(found, plain, truth)
    error = np.mean([fit.bse.iloc[0] for fit in exact])
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "intercept": share_held(held[:, 0], finite[:, 0]),
        "slopes": share_held(held[:, 1:], finite[:, 1:]),
        "infinite": f"{1.0 - finite.mean():.4f}",
        "off": f"{np.mean([fit.params.iloc[0] - c for fit in private]) / error:.2f}",
        "intercept_width": f"{width[0]:.2f}",
        "slopes_width": f"{np.median(width[1:]):.2f}",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, iter(CELLS))
