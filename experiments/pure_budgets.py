"""Under pure budgets: one perturbed minimiser in whitened coordinates against gradients and its rivals.

Tables are those of `coverage_grid` with correlated columns and a right model. Fits with inference: the
default, `WhitenedGradientDescent` (the default under budgets with delta) and `ObjectivePerturbation`, by
coverage and by the median over intervals of their width, infinite ones included, relative to those of a plain
fit. Fits without: the default, `EmpiricalBayesDescent` and `ObjectivePerturbation`, by the mean square of the
difference of predictors from the plain fit's.

    python experiments/pure_budgets.py [--repetitions 40]

Adds to experiments/results/pure_budgets.csv; resumable.
"""

import argparse
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np

import privfit as pf
from coverage_grid import COUNT_BOUND, simulated, target
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "pure_budgets.csv"
MODELS = {
    "least squares": pf.LinearRegression,
    "logistic": pf.LogisticRegression,
    "poisson": pf.PoissonRegressor,
    "median": pf.QuantileRegressor,
}
ROWS, COLUMNS, EPSILONS = (1_000, 10_000), (2, 5, 10), (0.5, 1.0, 2.0)
WITH_INTERVALS = ("auto", "whitened", "objective-perturbation")
WITHOUT = ("auto", "empirical-bayes", "objective-perturbation")
Place: TypeAlias = tuple[str, int, int, float]
"""Model, rows, columns, epsilon."""

FIELDS = [
    "model", "n", "p", "epsilon", "inference", "solver", "repetitions", "coverage", "infinite", "result",
]  # fmt: skip


def fitted(model: str, z: np.ndarray, y: np.ndarray, **options: object) -> object:
    extra = {"count_bound": COUNT_BOUND} if model == "poisson" else {}
    return MODELS[model](**extra, **options).fit(z, y)


def intervals(place: Place, solver: str, seed: int, **options: object) -> tuple[np.ndarray, np.ndarray]:
    """Return hits and widths, relative to those of a plain fit."""
    model, n, p, epsilon = place
    z, y = simulated(model, n, p, "correlated", "correct", seed=seed)
    plain = fitted(model, z, y, solver="non-private")
    options |= {"solver": solver, "budget": pf.Budget(epsilon), "random_state": seed}
    private = fitted(model, z, y, **options)
    low, high = private.result_.conf_int().to_numpy().T
    wanted = target(model, p, "correlated", "correct")
    return (low <= wanted) & (wanted <= high), (high - low) / np.ptp(plain.result_.conf_int(), axis=1)


def error(place: Place, solver: str, seed: int) -> float:
    """Return the mean square by which predictors differ from the plain fit's."""
    model, n, p, epsilon = place
    z, y = simulated(model, n, p, "correlated", "correct", seed=seed)
    plain = fitted(model, z, y, solver="non-private", inference=False)
    budget = pf.Budget(epsilon)
    private = fitted(model, z, y, solver=solver, budget=budget, inference=False, random_state=seed)
    away = np.append(private.intercept_ - plain.intercept_, np.ravel(private.coef_ - plain.coef_))
    return float(np.mean((np.column_stack([np.ones(n), z]) @ away) ** 2))


def cell(place: Place, with_intervals: bool, solver: str, *, repetitions: int) -> dict[str, object]:
    """Return a row of the results."""
    row = dict(zip(FIELDS, (*place, with_intervals, solver, repetitions), strict=False))
    if not with_intervals:
        errors = [error(place, solver, seed) for seed in range(repetitions)]
        return row | {"result": f"{np.mean(errors):.3g}"}
    found = [intervals(place, solver, seed) for seed in range(repetitions)]
    hits, widths = (np.array(part) for part in zip(*found, strict=True))
    finite = np.isfinite(widths)
    return row | {
        "coverage": f"{hits[finite].mean():.3f}" if finite.any() else "",
        "infinite": f"{1.0 - finite.mean():.3f}",
        "result": f"{np.median(widths):.3g}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 6)
    kinds = [(True, solver) for solver in WITH_INTERVALS] + [(False, solver) for solver in WITHOUT]
    for *place, (with_intervals, solver) in product(options.models, ROWS, COLUMNS, EPSILONS, kinds):
        if table.lacks(*place, with_intervals, solver):
            table.add(cell(tuple(place), with_intervals, solver, repetitions=options.repetitions))


if __name__ == "__main__":
    main()
