"""How much of what there is to find fits without inference find on tables that are awkward for them.

Columns: ``lognormal`` (sd of logs 1), ``heavy`` (t with 2.5 degrees of freedom), ``uneven`` (normal, sd from
0.05 to 30), ``collinear`` (rank 3, and a tenth of noise), ``rare`` (indicators, shares from 1/2 to 1/200) and
``shifted`` (normal, means from 0 to p - 1). Predictors have standard deviation 1, and 1/2 for counts, whose
rates are within exp(-3) and exp(2). Responses: logistic, normal errors with sd 1, Poisson (count bound 20).
No schema, (epsilon, 1e-6), the library's default with ``inference=False``; noise is seeded, as for any
simulation.

``left`` is the mean loss above that of the exact fit, relative to that of the exact constant predictor: 0 is
the exact fit, 1 the constant. Median and largest of the repetitions, each with a table of its own.

    python experiments/awkward_tables.py

Adds to experiments/results/awkward_tables.csv; resumable.
"""

import argparse
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

import privfit as pf
from privfit.losses import Logistic, Poisson, Squared
from privfit.losses.base import evaluate
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "awkward_tables.csv"
FIELDS = ["columns", "model", "n", "p", "epsilon", "repetitions", "left", "left_at_most"]
COLUMNS = ("lognormal", "heavy", "uneven", "collinear", "rare", "shifted")
MODELS = ("logistic", "least squares", "poisson")
SIZES = ((2_000, 8), (20_000, 15))
EPSILONS = (1.0, 8.0, 50.0)
COUNT_BOUND, PREDICTOR_BOUND = 20.0, 3.0
LOSSES = {
    "logistic": Logistic(),
    "least squares": Squared(1e6),
    "poisson": Poisson(PREDICTOR_BOUND, COUNT_BOUND),
}


def predictors(columns: str, n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """Return the columns (n, p)."""
    if columns == "lognormal":
        return rng.lognormal(size=(n, p))
    if columns == "heavy":
        return rng.standard_t(2.5, size=(n, p))
    if columns == "uneven":
        return rng.normal(size=(n, p)) * np.geomspace(0.05, 30.0, p)
    if columns == "collinear":
        return rng.normal(size=(n, 3)) @ rng.normal(size=(3, p)) + 0.1 * rng.normal(size=(n, p))
    if columns == "rare":
        return (rng.random((n, p)) < np.geomspace(0.5, 0.005, p)).astype(float)
    return rng.normal(size=(n, p)) + np.arange(p)


def responses(model: str, eta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return responses to standardised predictors (n,)."""
    if model == "logistic":
        return (rng.random(eta.size) < expit(eta)).astype(int)
    if model == "poisson":
        return rng.poisson(np.exp(np.clip(0.5 * eta, -3.0, 2.0)))
    return eta + rng.normal(size=eta.size)


def estimator(model: str, **arguments: Any) -> Any:
    """Return an estimator without inference."""
    if model == "logistic":
        return pf.LogisticRegression(inference=False, **arguments)
    if model == "poisson":
        bounds = {"count_bound": COUNT_BOUND, "predictor_bound": PREDICTOR_BOUND}
        return pf.PoissonRegressor(inference=False, **bounds, **arguments)
    return pf.LinearRegression(inference=False, **arguments)


def mean_loss(model: str, y: np.ndarray, eta: np.ndarray) -> float:
    """Return the mean of the loss that is minimised."""
    loss = LOSSES[model]
    return float(np.mean(evaluate(loss.functions.value, y.astype(float), eta, s=1.0, loss=loss)))


def left(columns: str, model: str, n: int, p: int, seed: int) -> list[float]:
    """Return what fits of one table leave, for every epsilon."""
    rng = np.random.default_rng([seed, n])
    x = predictors(columns, n, p, rng)
    eta = x @ rng.normal(size=p)
    y = responses(model, (eta - eta.mean()) / eta.std(), rng)

    def loss_of(fitted: Any) -> float:
        return mean_loss(model, y, np.ravel(fitted.intercept_ + x @ np.ravel(fitted.coef_)))

    exact = loss_of(estimator(model, solver="non-private").fit(x, y))
    link = {"logistic": lambda m: np.log(m / (1.0 - m)), "poisson": np.log}.get(model, lambda m: m)
    constant = mean_loss(model, y, np.full(n, link(y.mean())))
    fits = (estimator(model, epsilon=e, delta=1e-6, random_state=seed).fit(x, y) for e in EPSILONS)
    return [(loss_of(fit) - exact) / (constant - exact) for fit in fits]


def cells(columns: str, model: str, n: int, p: int, repetitions: int) -> list[dict[str, object]]:
    """Return a row of the table for every epsilon."""
    found = np.array([left(columns, model, n, p, seed) for seed in range(repetitions)])
    beside = {"columns": columns, "model": model, "n": n, "p": p}
    return [
        {
            **beside,
            "epsilon": epsilon,
            "repetitions": repetitions,
            "left": f"{np.median(found[:, k]):.3g}",
            "left_at_most": f"{found[:, k].max():.3g}",
        }
        for k, epsilon in enumerate(EPSILONS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--repetitions", type=int, default=20)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 5)
    for columns, model, (n, p) in product(COLUMNS, MODELS, SIZES):
        if table.lacks(columns, model, n, p, EPSILONS[0]):
            table.add(*cells(columns, model, n, p, options.repetitions))


if __name__ == "__main__":
    main()
