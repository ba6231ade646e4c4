"""How well bounds fit that are learned with privacy.

*Rows.* Five columns at a time: normal ones; calendar years; ages; incomes with a lognormal tail (a standard
deviation of 1 of the logarithm); Student's t with 3 degrees of freedom around 100; amounts of which 92 % are
0 and the others lognormal; 0/1; readings around 10,000 with a standard deviation of 10; seconds since 1970
within five weeks; exponential ones of size 1e-6. delta 1e-6.

*What is measured.* The share of tables in which noise hides where a column lies; of the others the mean and
the largest share of rows beyond the bounds, and the median length of bounds relative to the range of the
central 99.8 % of the rows.

    python experiments/learned_bounds.py [--repetitions 200] [--workers 2]

Adds to experiments/results/learned_bounds.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "learned_bounds.csv"
FIELDS = ["column", "rows", "epsilon", "repetitions", "hidden", "beyond", "most_beyond", "length"]
COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "years": lambda rng, n: rng.integers(1980, 2021, n).astype(float),
    "ages": lambda rng, n: rng.integers(17, 91, n).astype(float),
    "incomes": lambda rng, n: np.exp(10.0 + rng.normal(size=n)),
    "Student's t": lambda rng, n: 100.0 + 5.0 * rng.standard_t(3, n),
    "mostly 0": lambda rng, n: np.where(rng.random(n) < 0.92, 0.0, np.exp(8.0 + rng.normal(size=n))),
    "0/1": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "around 10,000": lambda rng, n: rng.normal(1e4, 10.0, n),
    "times": lambda rng, n: rng.uniform(1.7e9, 1.703e9, n),
    "small": lambda rng, n: 1e-6 * rng.exponential(size=n),
}
BUDGETS = ((1_000, 1.0), (5_000, 0.3), (5_000, 1.0), (50_000, 0.1), (50_000, 1.0))


def cell(arguments: tuple[str, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    column, n_rows, epsilon, repetitions = arguments
    names = list(COLUMNS)
    beside = names[:5] if names.index(column) < 5 else names[5:]
    draft, found = {name: {"type": "numeric"} for name in beside}, []
    for seed in range(repetitions):
        rng = np.random.default_rng([seed, n_rows, len(beside[0])])
        table = {name: COLUMNS[name](rng, n_rows) for name in beside}
        learned = pf.learn_bounds(table, draft, epsilon=epsilon, delta=1e-6, random_state=seed)
        low, high = learned.bounds.loc[column]
        values = table[column]
        usual = np.subtract(*np.quantile(values, [0.999, 0.001])) or np.nan
        found.append((np.isnan(low), np.mean((values < low) | (values > high)), (high - low) / usual))
    hidden, beyond, length = np.array(found).T
    shown = hidden == 0.0
    numbers = ["", "", ""]
    if shown.any():
        beyond, length = beyond[shown], length[shown]
        numbers = [f"{beyond.mean():.4f}", f"{beyond.max():.4f}", f"{np.median(length):.2f}"]
    return dict(zip(FIELDS, (*arguments, f"{hidden.mean():.3f}", *numbers), strict=True))


if __name__ == "__main__":
    grid = [(column, *budget) for column, budget in product(COLUMNS, BUDGETS)]
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
