"""Coverage of 95 % confidence intervals on simulated tables.

Design: x = (1, z), z ~ N(0, I_3); logistic beta = (1, -1, 0.5, -0.5), and with strong signals
(1, 2, -2, 1.5); linear beta = (1, 1, 1, 1) with
N(0, 1) errors. No schema: rows on a unit scale. Noise is seeded, as for any simulation.

    python experiments/coverage.py --solvers auto
    python experiments/coverage.py --solvers newton --repetitions 300

Adds to experiments/results/coverage.csv; resumable.
"""

import argparse
from pathlib import Path

import numpy as np

from privfit import Budget, HuberRegressor, LinearRegression, LogisticRegression
from privfit.data.synthetic import linear_model, logistic_model
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "coverage.csv"
FIELDS = [
    "model", "solver", "n", "mu", "repetitions", "coverage", "lowest", "highest", "median_width",
    "noise_share", "infinite", "coverage_of_finite",
]  # fmt: skip
MODELS = {
    "logistic": (LogisticRegression, logistic_model, (-1.0, 0.5, -0.5)),
    "logistic, strong": (LogisticRegression, logistic_model, (2.0, -2.0, 1.5)),
    "huber": (HuberRegressor, linear_model, (1.0, 1.0, 1.0)),
    "least squares": (LinearRegression, linear_model, (1.0, 1.0, 1.0)),
}
TRUTH_INTERCEPT = 1.0
ROWS = (500, 1_000, 2_000, 5_000, 10_000)
BUDGETS = (0.5, 1.0, 2.0)
SOLVERS = ("auto", "newton")


def one_fit(model: str, solver: str, n: int, mu: float, seed: int) -> tuple[np.ndarray, ...]:
    """Return hits (4,), widths (4,) and noise shares (4,) of one simulated fit."""
    estimator, simulate, beta = MODELS[model]
    x, y = simulate(n, beta, intercept=TRUTH_INTERCEPT, seed=seed)
    fit = estimator(budget=Budget.gdp(mu), solver=solver, random_state=10**6 + seed).fit(x, y)
    interval = fit.result_.conf_int().to_numpy()
    truth = np.array([TRUTH_INTERCEPT, *beta])
    hits = (interval[:, 0] <= truth) & (truth <= interval[:, 1])
    return hits, interval[:, 1] - interval[:, 0], fit.result_.noise_share.to_numpy()


def cell(arguments: tuple[str, str, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, solver, n, mu, repetitions = arguments
    fits = [one_fit(model, solver, n, mu, seed) for seed in range(repetitions)]
    hits, widths, shares = (np.array([fit[k] for fit in fits]) for k in range(3))
    finite = np.isfinite(widths)
    return {
        "model": model,
        "solver": solver,
        "n": n,
        "mu": mu,
        "repetitions": repetitions,
        "coverage": round(float(hits.mean()), 4),
        "lowest": round(float(hits.mean(axis=0).min()), 4),
        "highest": round(float(hits.mean(axis=0).max()), 4),
        "median_width": round(float(np.median(widths)), 4),
        "noise_share": round(float(np.median(shares)), 4),
        "infinite": round(float(1.0 - finite.mean()), 4),
        "coverage_of_finite": round(float(hits[finite].mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--solvers", nargs="+", default=SOLVERS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 4)
    grid = (
        (model, solver, n, mu)
        for solver in options.solvers
        for model in MODELS
        for n in ROWS
        for mu in BUDGETS
    )
    table.fill(cell, grid, options.repetitions, workers=options.workers)


if __name__ == "__main__":
    main()
