"""Pure budgets where the number of rows is private: the relation ``add_remove`` against ``replace``.

Tables are those of `coverage_grid` with five correlated columns and a right model. Under ``replace`` the
number of rows is public; under ``add_remove`` the fit is told `told` times that. The default is one perturbed
minimiser under both; `whitened` releases gradients.

Measured are coverage of finite 95 % intervals, the share of others, and the median over intervals of their
width, infinite ones included, relative to those of a plain fit.

    python experiments/private_number.py [--repetitions 60] [--workers 2]

Adds to experiments/results/private_number.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np

from pure_budgets import MODELS, intervals
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "private_number.csv"
FIELDS = [
    "model", "n", "epsilon", "relation", "told", "solver", "repetitions", "coverage", "infinite", "width",
]  # fmt: skip
ROWS, EPSILONS, COLUMNS = (2_000, 10_000), (0.5, 1.0, 4.0), 5
ASKED = (
    ("replace", 1.0, "auto"),
    *(("add_remove", told, "auto") for told in (1.0, 0.6, 1.6)),
    ("add_remove", 1.0, "whitened"),
)


def cell(arguments: tuple[str, int, float, str, float, str, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, n, epsilon, relation, told, solver, repetitions = arguments
    given = {} if relation == "replace" else {"relation": relation, "n_rows": round(told * n)}
    found = [intervals((model, n, COLUMNS, epsilon), solver, seed, **given) for seed in range(repetitions)]
    hits, widths = (np.array(part) for part in zip(*found, strict=True))
    finite = np.isfinite(widths)
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "coverage": f"{hits[finite].mean():.3f}" if finite.any() else "",
        "infinite": f"{1.0 - finite.mean():.3f}",
        "width": f"{np.median(widths):.3g}",
    }


if __name__ == "__main__":
    grid = ((model, n, epsilon, *one) for model, n, epsilon, one in product(MODELS, ROWS, EPSILONS, ASKED))
    filled_by_command(__doc__, RESULTS, FIELDS, cell, grid)
