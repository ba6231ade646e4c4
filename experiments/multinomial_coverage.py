"""Coverage of 95 % confidence intervals of multinomial logistic regression on simulated tables.

Design: x = (1, z), z ~ N(0, I_3). Log odds of class k = 1, 2, ... against class 0 have the coefficients
COEFFICIENTS[k - 1], intercept first. No schema: rows on a unit scale. Noise is seeded, as for any simulation.

    python experiments/multinomial_coverage.py

Adds to experiments/results/multinomial_coverage.csv; resumable.
"""

import argparse
from pathlib import Path

import numpy as np

from privfit import Budget, LogisticRegression
from privfit.data.synthetic import multinomial_model
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "multinomial_coverage.csv"
FIELDS = [
    "classes", "n", "budget", "solver", "repetitions", "coverage", "lowest", "highest", "median_width",
    "noise_share", "infinite", "rmse_over_non_private",
    "coverage_non_private",
]  # fmt: skip
COEFFICIENTS = np.array(
    [[0.3, 1.0, -0.5, 0.2], [-0.2, -0.5, 0.4, 0.8], [0.0, 0.5, 0.5, -1.0], [-0.5, -0.3, -0.8, 0.0]]
)
CELLS = [
    (3, 5_000, "mu = 0.5", "auto"),
    (3, 5_000, "mu = 1", "auto"),
    (3, 20_000, "mu = 0.5", "auto"),
    (3, 20_000, "mu = 1", "auto"),
    (3, 20_000, "mu = 1", "newton"),
    (3, 20_000, "mu = 1", "gradient-descent"),
    (5, 5_000, "mu = 1", "auto"),
    (5, 20_000, "mu = 1", "auto"),
    (3, 5_000, "epsilon = 1", "auto"),
    (3, 5_000, "epsilon = 4", "auto"),
    (3, 20_000, "epsilon = 1", "auto"),
    (5, 5_000, "epsilon = 4", "auto"),
    (5, 20_000, "epsilon = 4", "auto"),
]
"""Classes, rows, budget, solver; an epsilon is that of a pure budget."""
REPETITIONS = {5_000: 1000, 20_000: 300}


def one_fit(classes: int, n: int, budget: Budget, solver: str, seed: int) -> np.ndarray:
    """Return hits, widths, noise shares, errors, and non-private errors and hits of a fit, shape (6, q)."""
    truth = COEFFICIENTS[: classes - 1]
    x, y = multinomial_model(n, truth[:, 1:], intercept=truth[:, 0], seed=seed)
    labels = list(range(classes))
    fit = LogisticRegression(budget=budget, solver=solver, classes=labels, random_state=10**6 + seed).fit(
        x, y
    )
    exact = LogisticRegression(solver="non-private", classes=labels).fit(x, y)
    flat = truth.ravel()
    (lower, upper), exactly = (one.result_.conf_int().to_numpy().T for one in (fit, exact))
    return np.array(
        [
            (lower <= flat) & (flat <= upper),
            upper - lower,
            fit.result_.noise_share.to_numpy(),
            fit.result_.estimate - flat,
            exact.result_.estimate - flat,
            (exactly[0] <= flat) & (flat <= exactly[1]),
        ]
    )


def cell(classes: int, n: int, budget: str, solver: str, repetitions: int) -> dict[str, object]:
    """Return a row of the table."""
    kind, size = budget.split(" = ")
    spent = Budget.gdp(float(size)) if kind == "mu" else Budget(float(size))
    fits = [one_fit(classes, n, spent, solver, seed) for seed in range(repetitions)]
    hits, widths, shares, errors, exact, exact_hits = np.array(fits).transpose(1, 0, 2)
    return {
        "classes": classes,
        "n": n,
        "budget": budget,
        "solver": solver,
        "repetitions": repetitions,
        "coverage": round(float(hits.mean()), 4),
        "lowest": round(float(hits.mean(axis=0).min()), 4),
        "highest": round(float(hits.mean(axis=0).max()), 4),
        "median_width": round(float(np.median(widths)), 4),
        "noise_share": round(float(np.median(shares)), 4),
        "infinite": round(float(1.0 - np.isfinite(widths).mean()), 4),
        "rmse_over_non_private": round(float(np.sqrt(np.mean(errors**2) / np.mean(exact**2))), 3),
        "coverage_non_private": round(float(exact_hits.mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 4)
    for one in CELLS:
        if table.lacks(*one):
            table.add(cell(*one, REPETITIONS[one[1]]))


if __name__ == "__main__":
    main()
