"""Pure releases against Gaussian ones of the same epsilon, for logits of few rows and columns.

*Rows.* One or two predictors, uniform on [-1, 1], or normal within three or five standard deviations, which
are their declared bounds; log odds 0.3 + x_1 - x_2 / 2, x in standard deviations. delta = 1e-6. This is what
`privfit.solvers.choice` rests on.

*Neighbours.* Of the same number of rows (`replace`), or with a row more or less (`add_remove`, where the fit
is told the number there is).

*What is measured.* The signal `n mu` of the budget with delta; the share of infinite 95 % intervals of
slopes, their median width and the coverage of finite ones, of the default of pure budgets with epsilon alone
(`pure`) and of the whitened method with delta (`gaussian`).

    python experiments/few_columns.py [--repetitions 200] [--workers 2]

Adds to experiments/results/few_columns.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from generous_bounds import share_held
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "few_columns.csv"
FIELDS = [
    "relation", "columns", "predictors", "n", "epsilon", "repetitions", "signal",
    "pure_infinite", "gaussian_infinite", "pure_width", "gaussian_width", "pure_held", "gaussian_held",
]  # fmt: skip
BOUNDS = {"uniform": 1.0, "three deviations": 3.0, "five deviations": 5.0}
SLOPES, DELTA = np.array([1.0, -0.5]), 1e-6
METHODS = {"pure": ("auto", 0.0), "gaussian": ("whitened", DELTA)}
CELLS = (
    *((300, 1.0), (300, 3.0), (500, 3.0), (1_000, 1.0), (1_250, 1.0), (1_500, 1.0), (3_000, 1.0)),
    *((200, 10.0), (300, 5.0), (300, 10.0), (500, 10.0)),
)


def drawn(columns: str, rng: np.random.Generator, n: int, k: int) -> tuple[np.ndarray, float]:
    """Return predictors (n, k) within their bounds, and their standard deviation."""
    if columns == "uniform":
        return rng.uniform(-1.0, 1.0, (n, k)), 3.0**-0.5
    return rng.normal(size=(n, k)).clip(-BOUNDS[columns], BOUNDS[columns]), 1.0


def simulated(columns: str, k: int, n: int, seed: int) -> tuple[pd.DataFrame, dict[str, object], np.ndarray]:
    """Return a table, its schema and the slopes."""
    rng = np.random.default_rng([seed, n, k])
    x, sd = drawn(columns, rng, n, k)
    slopes = SLOPES[:k] / sd
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-0.3 - x @ slopes))
    names = ["x", "z"][:k]
    number = {"type": "numeric", "lower": -BOUNDS[columns], "upper": BOUNDS[columns]}
    schema = dict.fromkeys(names, number) | {"y": {"type": "categorical", "levels": [0, 1]}}
    return pd.DataFrame(x, columns=names).assign(y=y.astype(int)), schema, slopes


def cell(arguments: tuple[str, str, int, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    relation, columns, k, n, epsilon, repetitions = arguments
    given = {} if relation == "replace" else {"relation": relation, "n_rows": n}
    row = dict(zip(FIELDS, arguments, strict=False))
    row["signal"] = f"{n * pf.Budget(epsilon, DELTA).mu:.0f}"
    tables = [simulated(columns, k, n, seed) for seed in range(repetitions)]
    slopes = tables[0][2]
    for name, (solver, delta) in METHODS.items():
        fits = [
            pf.logit(
                "y ~ " + " + ".join(table.columns[:k]),
                table,
                schema=schema,
                solver=solver,
                epsilon=epsilon,
                delta=delta,
                random_state=seed,
                **given,
            )
            for seed, (table, schema, _) in enumerate(tables)
        ]
        low, high = np.moveaxis([fit.conf_int().to_numpy()[1:] for fit in fits], 2, 0)
        finite = np.isfinite(high - low)
        row[f"{name}_infinite"] = f"{1.0 - finite.mean():.4f}"
        row[f"{name}_width"] = f"{np.median(high - low):.3f}"
        row[f"{name}_held"] = share_held((low <= slopes) & (slopes <= high), finite)
    return row


if __name__ == "__main__":
    grid = ((*who, *one) for *who, one in product(("replace", "add_remove"), BOUNDS, (1, 2), CELLS))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
