"""Coverage of 95 % confidence intervals from solvers that release a point, on simulated tables.

Design: x = (1, z), z ~ N(0, I_3); logistic beta = (1, -1, 0.5, -0.5); linear beta = (1, 1, 1, 1) with N(0, 1)
errors, Huber with a given scale. No schema, so rows on a unit scale, but for "least squares, declared":
bounds of 4 for predictors and 10 for the response, which AdaSSP and sufficient statistics need. Noise is
seeded, as for any simulation. Standard errors are relative to those of solver="auto" on the same tables and
budget. A cell stops early where it would take longer than --seconds.

    python experiments/point_solvers.py

Adds to experiments/results/point_solvers.csv; resumable.
"""

import argparse
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np

from privfit import Budget, HuberRegressor, LinearRegression, LogisticRegression, Schema, solvers
from privfit.data.synthetic import linear_model, logistic_model
from privfit.errors import Incompatible
from resumable import ResultsTable, read

RESULTS = Path(__file__).parent / "results" / "point_solvers.csv"
FIELDS = [
    "model", "solver", "n", "budget", "repetitions", "coverage_of_finite", "infinite", "se_over_auto",
    "seconds_a_fit", "auto", "refused",
]  # fmt: skip
DECLARED = Schema(
    {name: {"type": "numeric", "lower": -4, "upper": 4} for name in ("x1", "x2", "x3")}
    | {"y": {"type": "numeric", "lower": -10, "upper": 10, "target": True}}
)
MODELS = {
    "logistic": (LogisticRegression, logistic_model, (-1.0, 0.5, -0.5), {}),
    "huber": (HuberRegressor, linear_model, (1.0, 1.0, 1.0), {"scale": 1.0}),
    "least squares": (LinearRegression, linear_model, (1.0, 1.0, 1.0), {}),
    "least squares, declared": (LinearRegression, linear_model, (1.0, 1.0, 1.0), {"schema": DECLARED}),
}
TRUTH_INTERCEPT = 1.0
ROWS = (2_000, 10_000)
BUDGETS: dict[str, Callable[[], Budget]] = {
    "(2, 1e-6)": lambda: Budget(epsilon=2.0, delta=1e-6),
    "mu = 1": lambda: Budget.gdp(1.0),
}
SOLVERS = {
    "auto": solvers.WhitenedGradientDescent(),
    "output perturbation": solvers.OutputPerturbation(),
    "objective perturbation": solvers.ObjectivePerturbation(),
    "projected gradient descent": solvers.ProjectedNoisyGradientDescent(),
    "online-to-batch": solvers.OnlineToBatch(),
    "AdaSSP": solvers.AdaSSP(),
    "sufficient statistics": solvers.SufficientStatistics(),
    "exponential mechanism": solvers.ExponentialMechanism(),
    "noisy SGD": solvers.NoisySGD(),
    "random-round SGD": solvers.RandomRoundSGD(),
}


def one_fit(model: str, solver: str, n: int, budget: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return hits (4,) and standard errors (4,) of one simulated fit."""
    estimator, simulate, beta, options = MODELS[model]
    x, y = simulate(n, beta, intercept=TRUTH_INTERCEPT, seed=seed)
    fit = estimator(
        budget=BUDGETS[budget](), solver=SOLVERS[solver], random_state=10**6 + seed, **options
    ).fit(x, y)
    interval = fit.result_.conf_int().to_numpy()
    truth = np.array([TRUTH_INTERCEPT, *beta])
    return (interval[:, 0] <= truth) & (truth <= interval[:, 1]), np.asarray(fit.result_.bse)


def cell(
    model: str, solver: str, n: int, budget: str, *, repetitions: int, seconds: float, auto: float
) -> dict[str, object]:
    """Return a row of the table; fewer repetitions where they take longer than ``seconds`` in all."""
    row: dict[str, object] = {"model": model, "solver": solver, "n": n, "budget": budget}
    started, fits = time.monotonic(), []
    try:
        for seed in range(repetitions):
            fits.append(one_fit(model, solver, n, budget, seed))
            if time.monotonic() - started > seconds:
                break
    except Incompatible as refusal:
        return row | {"repetitions": 0, "refused": str(refusal).split(";")[0]}
    hits, errors = (np.array([fit[k] for fit in fits]) for k in range(2))
    finite = np.isfinite(errors)
    median = float(np.median(errors[finite])) if finite.any() else np.inf
    return row | {
        "repetitions": len(fits),
        "coverage_of_finite": round(float(hits[finite].mean()), 4) if finite.any() else "",
        "infinite": round(float(1.0 - finite.mean()), 4),
        "se_over_auto": round(median / auto, 3) if auto else median,
        "seconds_a_fit": round((time.monotonic() - started) / len(fits), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0, help="a cell may take")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 4)
    autos = {(r["model"], r["n"], r["budget"]): float(r["auto"]) for r in read(options.out) if r["auto"]}
    limits = {"repetitions": options.repetitions, "seconds": options.seconds}
    for solver, model, n, budget in product(SOLVERS, MODELS, ROWS, BUDGETS):
        if table.lacks(model, solver, n, budget):
            where = (model, str(n), budget)
            row = cell(model, solver, n, budget, **limits, auto=autos.get(where, 0.0))
            if solver == "auto":
                autos[where] = float(str(row["se_over_auto"]))
                row |= {"se_over_auto": 1.0, "auto": autos[where]}
            table.add(row)


if __name__ == "__main__":
    main()
