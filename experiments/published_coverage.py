"""Coverage of the default's intervals in the design of a published figure, and of noisy Newton's.

*Design* of figure 6 of Avella-Medina, Bradshaw and Loh (2023, *Differentially private inference via noisy
optimization*): an intercept and three normal columns with variances 1, 2, 2 and covariance 0.5 of the first
two, all coefficients 1, N(0, 4) errors, Huber loss with the known scale 2, mu = 1, 95 % intervals for the
coefficient of the second column. Their coverage, in 1,000 repetitions, of damped noisy Newton with
private stopping, with their correction and without it, is read off the figure:
experiments/results/published_coverage_by_others.csv.

    python experiments/published_coverage.py [--repetitions 400]

Adds to experiments/results/published_coverage.csv; resumable.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

import privfit as pf
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "published_coverage.csv"
COVARIANCE = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 2.0]])
SD = 2.0
ROWS = (250, 500, 750, 1_000, 1_500, 2_000, 4_000)
SOLVERS = ("auto", "newton")
FIELDS = ["n", "solver", "repetitions", "coverage", "infinite", "median_width", "plain_width"]


def simulated(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns (n, 3) and responses."""
    rng = np.random.default_rng([seed, n])
    x = rng.multivariate_normal(np.zeros(3), COVARIANCE, size=n)
    return x, 1.0 + x.sum(axis=1) + SD * rng.normal(size=n)


def interval(n: int, seed: int, **options: object) -> np.ndarray:
    """Return the ends of the interval of the second column."""
    x, y = simulated(n, seed)
    fit = pf.HuberRegressor(scale=SD, random_state=seed, **options).fit(x, y)
    return fit.result_.conf_int().to_numpy()[2]


def cell(n: int, solver: str, repetitions: int) -> dict[str, object]:
    """Return a row of the results."""
    found = [interval(n, seed, solver=solver, budget=pf.Budget.gdp(1.0)) for seed in range(repetitions)]
    low, high = np.array(found).T
    plain = [np.ptp(interval(n, seed, solver="non-private")) for seed in range(min(repetitions, 50))]
    finite = np.isfinite(high - low)
    return {
        "n": n, "solver": solver, "repetitions": repetitions,
        "coverage": f"{((low <= 1.0) & (high >= 1.0))[finite].mean():.4f}",
        "infinite": f"{1.0 - finite.mean():.4f}", "median_width": f"{np.median(high - low):.4f}",
        "plain_width": f"{np.median(plain):.4f}",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=400)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 2)
    for n, solver in product(ROWS, SOLVERS):
        if table.lacks(n, solver):
            table.add(cell(n, solver, options.repetitions))


if __name__ == "__main__":
    main()
