"""What the parts of the budget of the default with inference do to its intervals.

Cells are those of `coverage_grid.py` in which the noise decides, correlated columns and a right model.
A split gives the parts of the squared budget for bread and meat, of the solver's rest those for marginals,
second moment, looks at norms and the Hessian half-way, and `growth`. Every split sees the same tables.

`coverage` is that of finite intervals, `infinite` the share of others, `width` the median width over the mean
one of the oracle of `coverage_grid.py`.

    python experiments/budget_split.py

Adds to experiments/results/budget_split.csv; resumable.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from coverage_grid import fitted, oracle_width, simulated, target
from privfit import BudgetSplit
from privfit.solvers.whitened import WhitenedGradientDescent
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "budget_split.csv"
DEFAULT = WhitenedGradientDescent()
SPLITS = {
    "the default": (BudgetSplit(), DEFAULT),
    "meat 2 %": (BudgetSplit(meat=0.02), DEFAULT),
    "meat 9 %": (BudgetSplit(meat=0.09), DEFAULT),
    "bread 8 %": (BudgetSplit(bread=0.08), DEFAULT),
    "bread 18 %": (BudgetSplit(bread=0.18), DEFAULT),
    "bread 26 %": (BudgetSplit(bread=0.26), DEFAULT),
    "more for marginals": (BudgetSplit(), WhitenedGradientDescent(marginal_share=0.06)),
    "less for the second moment": (BudgetSplit(), WhitenedGradientDescent(geometry_share=0.05)),
    "more for the second moment": (BudgetSplit(), WhitenedGradientDescent(geometry_share=0.2)),
    "more for the Hessian half-way": (BudgetSplit(), WhitenedGradientDescent(hessian_share=0.1)),
    "steps that grow to 10 times": (BudgetSplit(), WhitenedGradientDescent(growth=10.0)),
    "steps that grow to 1,000 times": (BudgetSplit(), WhitenedGradientDescent(growth=1000.0)),
}
CELLS = [
    ("least squares", 10_000, 0.25, 20),
    ("logistic", 10_000, 0.25, 20),
    ("huber", 10_000, 0.25, 20),
    ("poisson", 10_000, 0.5, 2),
    ("logistic", 1_000, 0.5, 5),
    ("huber", 1_000, 0.5, 5),
    ("median", 1_000, 0.5, 5),
    ("logistic", 1_000, 2.0, 20),
    ("poisson", 2_000, 1.0, 5),
]
"""Model, rows, budget, columns."""
FIELDS = ["split", "model", "n", "mu", "p", "repetitions", "coverage", "infinite", "width"]


def cell(split: str, where: tuple[str, int, float, int], repetitions: int) -> dict[str, object]:
    """Return a row of the table."""
    model, n, mu, p = where
    design, truth = "correlated", "correct"
    wanted = target(model, p, design, truth)
    oracle = oracle_width(model, n=n, mu=mu, p=p, design=design, truth=truth).mean()
    inference, solver = SPLITS[split]
    hits, widths = [], []
    for seed in range(repetitions):
        z, y = simulated(model, n, p, design, truth, seed=seed)
        low, high = fitted(model, z, y, mu=mu, solver=solver, seed=10**7 + seed, inference=inference).T
        hits.append((low <= wanted) & (wanted <= high))
        widths.append(high - low)
    finite = np.isfinite(widths)
    return {
        "split": split, "model": model, "n": n, "mu": mu, "p": p, "repetitions": repetitions,
        "coverage": round(float(np.array(hits)[finite].mean()), 4),
        "infinite": round(1.0 - float(finite.mean()), 4),
        "width": round(float(np.median(np.array(widths)[finite])) / float(oracle), 3),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 5)
    for where, split in product(CELLS, SPLITS):
        if table.lacks(split, *where):
            table.add(cell(split, where, options.repetitions))


if __name__ == "__main__":
    main()
