"""Coverage and width of 95 % intervals of the default solver over a grid of simulated tables.

*Rows.* x = (1, z) with p entries, z normal with unit variances: "independent", or "correlated" with
cov(z_i, z_j) = 0.7^|i-j|. The coefficients of z have alternating signs and one size, such that the
linear predictor has the standard deviation SPREAD of the model; the intercept is 0.5. No schema: rows
are on a unit scale.

*Truth.* "correct": the response follows the model, with N(0, 1) errors for numeric ones. "misspecified":
errors with standard deviation sqrt(0.5 + z_1^2 / 2) (least squares, Huber, median); counts with gamma
mixed means of variance 0.5 m^2 (Poisson); labels that are wrong with probability 0.1 (logistic, whose
target is then the population's best logistic approximation; as rows are normal it is (a, b beta), found
by quadrature). The other targets are the coefficients themselves. Intervals are held to these unweighted
targets.

*Oracle.* It knows the optimum, the exact Hessian and the exact meat, and spends the whole budget on one
noisy gradient there. Its rows z = H^-1/2 x are even in the Hessian H, and get the Mallows weights min(1,
c^2 / |z|^2), with the c for which its mean width is smallest. Its interval for coefficient j has the
width 2 * 1.96 * sqrt(V_jj / n + N_jj), V the sandwich with these weights and N = (2 k c / (n mu))^2
M^-2, k the bound on slopes. `width_ratio` is the mean over coefficients and repetitions of the width of
finite intervals over it.

`coverage` is that of finite intervals, `infinite` the share of others.

    python experiments/coverage_grid.py --rows 500 2000 --repetitions 60

Adds to experiments/results/coverage_grid.csv; resumable: a cell that is there is left out.
"""

import argparse
import zlib
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from scipy.optimize import root
from scipy.special import expit
from scipy.stats import norm

from privfit import (
    Budget,
    BudgetSplit,
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
)
from privfit.losses import AbstractLoss, Huber, Logistic, Poisson, SmoothedQuantile, Squared
from privfit.losses.base import evaluate
from privfit.solvers.base import AbstractSolver
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "coverage_grid.csv"
COUNT_BOUND = 20
LOSSES: dict[str, AbstractLoss] = {
    "least squares": Squared(3.0),
    "huber": Huber(1.345),
    "logistic": Logistic(),
    "poisson": Poisson(float(np.log(COUNT_BOUND)), COUNT_BOUND),
    "median": SmoothedQuantile(0.5, 0.4),
}
SPREAD = {"least squares": 1.0, "huber": 1.0, "logistic": 1.2, "poisson": 0.4, "median": 1.0}
INTERCEPT = 0.5
WRONG_LABELS = 0.1
ROWS = (300, 500, 1_000, 2_000, 10_000, 100_000)
BUDGETS = (0.25, 0.5, 1.0, 2.0)
COLUMNS = (2, 5, 20)
DESIGNS = ("independent", "correlated")
TRUTHS = ("correct", "misspecified")
FIELDS = [
    "model", "n", "mu", "p", "design", "truth", "solver",
    "repetitions", "coverage", "infinite", "width_ratio",
]  # fmt: skip


def covariance(p: int, design: str) -> np.ndarray:
    """Return that of the p - 1 columns."""
    steps = np.arange(p - 1)
    return 0.7 ** np.abs(np.subtract.outer(steps, steps)) if design == "correlated" else np.eye(p - 1)


def coefficients(model: str, p: int, design: str) -> np.ndarray:
    """Return the coefficients (p,) that responses are drawn with, the intercept first."""
    signs = (-1.0) ** np.arange(p - 1)
    length = np.sqrt(signs @ covariance(p, design) @ signs)
    return np.concatenate([[INTERCEPT], SPREAD[model] * signs / length])


@cache
def target(model: str, p: int, design: str, truth: str) -> np.ndarray:
    """Return the coefficients (p,) that intervals have to cover."""
    beta = coefficients(model, p, design)
    if model != "logistic" or truth == "correct":
        return beta
    nodes, chance = np.polynomial.hermite_e.hermegauss(101)
    chance = chance / chance.sum()
    share = WRONG_LABELS + (1.0 - 2.0 * WRONG_LABELS) * expit(INTERCEPT + SPREAD[model] * nodes)

    def slopes(ab: np.ndarray) -> np.ndarray:
        gap = chance * (expit(ab[0] + ab[1] * SPREAD[model] * nodes) - share)
        return np.array([gap.sum(), gap @ nodes])

    a, b = root(slopes, np.array([INTERCEPT, 1.0])).x
    return np.concatenate([[a], b * beta[1:]])


def simulated(
    model: str, n: int, p: int, design: str, truth: str, *, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return columns (n, p - 1) and responses (n,)."""
    rng = np.random.default_rng([seed, n, p, DESIGNS.index(design), TRUTHS.index(truth)])
    z = rng.normal(size=(n, p - 1)) @ np.linalg.cholesky(covariance(p, design)).T
    beta, wrong = coefficients(model, p, design), truth == "misspecified"
    eta = beta[0] + z @ beta[1:]
    if model == "logistic":
        y = rng.random(n) < expit(eta)
        return z, (y ^ (wrong & (rng.random(n) < WRONG_LABELS))).astype(float)
    if model == "poisson":
        mixed = rng.gamma(2.0, 0.5, size=n) if wrong else 1.0
        return z, rng.poisson(mixed * np.exp(eta)).astype(float)
    sd = np.sqrt(0.5 + 0.5 * z[:, 0] ** 2) if wrong else 1.0
    return z, eta + sd * rng.normal(size=n)


@cache
def oracle_width(model: str, *, n: int, mu: float, p: int, design: str, truth: str) -> np.ndarray:
    """Return the widths (p,) of the oracle's intervals, its moments taken from 20,000 rows."""
    loss, theta = LOSSES[model], target(model, p, design, truth)
    z, y = simulated(model, 20_000, p, design, truth, seed=10**6)
    x = np.column_stack([np.ones(len(z)), z])
    slope = evaluate(loss.functions.slope, y, x @ theta, s=1.0, loss=loss)
    curvature = evaluate(loss.functions.curvature, y, x @ theta, s=1.0, loss=loss)
    hessian = (x * curvature[:, None]).T @ x / len(x)
    squared = np.einsum("ij,ij->i", x @ np.linalg.inv(hessian), x)
    widths = []
    for bound in np.quantile(squared, (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99, 1.0)):
        weight = np.minimum(1.0, bound / squared)
        inverse = np.linalg.inv((x * (weight * curvature)[:, None]).T @ x / len(x))
        scaled = x * (weight * slope)[:, None]
        noise = (2.0 * loss.constants.slope / (n * mu)) ** 2 * bound * hessian
        core = scaled.T @ scaled / len(x) / n + noise
        widths.append(2.0 * norm.isf(0.025) * np.sqrt(np.diag(inverse @ core @ inverse)))
    return min(widths, key=np.mean)


def fitted(
    model: str,
    z: np.ndarray,
    y: np.ndarray,
    *,
    mu: float,
    solver: str | AbstractSolver,
    seed: int,
    inference: BudgetSplit | bool = True,
) -> np.ndarray:
    """Return the ends of the intervals, shape (p, 2)."""
    common = {"budget": Budget.gdp(mu), "solver": solver, "random_state": seed, "inference": inference}
    estimator = {
        "least squares": LinearRegression,
        "huber": HuberRegressor,
        "logistic": LogisticRegression,
        "poisson": PoissonRegressor,
        "median": QuantileRegressor,
    }[model]
    extra = {"count_bound": COUNT_BOUND} if model == "poisson" else {}
    return estimator(**common, **extra).fit(z, y).result_.conf_int().to_numpy()


def noise_seed(arguments: tuple[object, ...], repetition: int) -> int:
    """Return a seed of its own for every fit of every cell, so that cells are independent."""
    name = " ".join(map(str, arguments))
    return zlib.crc32(f"{name} {repetition}".encode())


def cell(arguments: tuple[str, int, float, int, str, str, str, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, n, mu, p, design, truth, solver, repetitions = arguments
    wanted = target(model, p, design, truth)
    oracle = oracle_width(model, n=n, mu=mu, p=p, design=design, truth=truth)
    hits, ratios = [], []
    for seed in range(repetitions):
        z, y = simulated(model, n, p, design, truth, seed=seed)
        low, high = fitted(model, z, y, mu=mu, solver=solver, seed=noise_seed(arguments[:7], seed)).T
        hits.append((low <= wanted) & (wanted <= high))
        ratios.append((high - low) / oracle)
    finite = np.isfinite(ratios)
    row = dict(zip(FIELDS, arguments, strict=False))
    any_finite = bool(finite.any())
    return row | {
        "coverage": f"{np.array(hits)[finite].mean():.4f}" if any_finite else "",
        "infinite": f"{1.0 - finite.mean():.4f}",
        "width_ratio": f"{np.array(ratios)[finite].mean():.3f}" if any_finite else "",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(LOSSES))
    parser.add_argument("--rows", nargs="+", type=int, default=ROWS)
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--columns", nargs="+", type=int, default=COLUMNS)
    parser.add_argument("--designs", nargs="+", default=DESIGNS)
    parser.add_argument("--truths", nargs="+", default=TRUTHS)
    parser.add_argument("--solvers", nargs="+", default=["auto"])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 7)
    grid = product(
        options.models, options.rows, options.budgets, options.columns, options.designs, options.truths,
        options.solvers,
    )  # fmt: skip
    table.fill(cell, grid, options.repetitions, workers=options.workers)


if __name__ == "__main__":
    main()
