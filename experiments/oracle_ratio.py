"""Error of the default without inference over that of the isotropic one-shot oracle, on simulated tables.

*Rows.* x = (1, z) with p entries. z is normal: "isotropic" N(0, I), "correlated" with cov(z_i, z_j) =
0.8^|i-j|, "uneven" independent with standard deviations from 1 down to 0.1, evenly on a logarithmic scale.
The coefficients beta of z/sd have a random direction and length 2 (1.2 where correlated) for the logit, 1
for least squares; the intercept is 0.5. The response is Bernoulli or has N(0, 1) errors. No schema: rows
are on a unit scale.

*Oracle.* It knows the exact minimiser and the exact Hessian and needs no steps: theta_w + H_w^-1 (Delta /
mu) Z with Z standard normal. Its rows have the library's Mallows weights w = min(1, C^2/|x|^2) for the
library's default norm bound C; theta_w is the w-weighted fit, H_w = (1/n) sum w l''(x'theta_w) x x', and
Delta = 2 k C / n with k = 1 for the logit and k = 3, the library's default bound on residuals, for least
squares. Its expected squared error over Z is computed, not drawn.

*Error.* |theta - target|_H^2 with H = (1/n) sum l''(x'theta_0) x x', unweighted, at the truth theta_0. RMSE
is its root mean over repetitions, each with a new table. `ratio_truth` has the target theta_0 for both, so
it contains the sampling error. `ratio_fit` is without: the target is the unweighted exact fit theta_hat for
the library, and for the oracle its own centre theta_w. `oracle_over_sampling` is the oracle's noise over
the RMSE of theta_hat against theta_0; the oracle's error is below the sampling error where it is below 1.
`ratio_truth_se` and `ratio_fit_se` are jackknife standard errors.

    python experiments/oracle_ratio.py

Adds to experiments/results/oracle_ratio.csv; resumable.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np

from privfit import Budget, LinearRegression, LogisticRegression
from privfit.data.clamp import default_norm_bound
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "oracle_ratio.csv"
MODELS = ("logistic", "linear")
DESIGNS = ("isotropic", "correlated", "uneven")
ROWS = (1_000, 10_000, 200_000)
COLUMNS = (5, 20, 50)
BUDGETS = (0.25, 0.5, 1.0, 2.0)
FIELDS = [
    "model", "design", "n", "p", "mu", "repetitions", "oracle_over_sampling",
    "ratio_truth", "ratio_truth_se", "ratio_fit", "ratio_fit_se",
]  # fmt: skip
RESIDUAL_BOUND = 3.0
INTERCEPT = 0.5


def simulated(
    model: str, design: str, n: int, p: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows (n, p), responses (n,) and the truth (p,)."""
    rng = np.random.default_rng([seed, n, p, MODELS.index(model), DESIGNS.index(design)])
    z = rng.normal(size=(n, p - 1))
    if design == "correlated":
        distance = np.abs(np.subtract.outer(np.arange(p - 1), np.arange(p - 1)))
        z = z @ np.linalg.cholesky(0.8**distance).T
    sd = np.geomspace(1.0, 0.1, p - 1) if design == "uneven" else np.ones(p - 1)
    length = 1.0 if model == "linear" else (1.2 if design == "correlated" else 2.0)
    beta = rng.normal(size=p - 1)
    beta *= length / np.linalg.norm(beta)
    eta = INTERCEPT + z @ beta
    if model == "linear":
        y = eta + rng.normal(size=n)
    else:
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
    return np.column_stack([np.ones(n), z * sd]), y, np.concatenate([[INTERCEPT], beta / sd])


def derivatives(model: str, y: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes and curvatures of the rows' losses."""
    if model == "linear":
        return eta - y, np.ones_like(eta)
    share = 1.0 / (1.0 + np.exp(-eta))
    return share - y, share * (1.0 - share)


def exact(
    model: str, x: np.ndarray, y: np.ndarray, weight: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted fit and its mean Hessian, by damped Newton steps."""
    theta, n = start.copy(), len(y)
    for _ in range(50):
        slope, curvature = derivatives(model, y, x @ theta)
        hessian = (x * (weight * curvature)[:, None]).T @ x / n
        step = np.linalg.solve(hessian, x.T @ (weight * slope) / n)
        size = np.sqrt(step @ hessian @ step)
        theta = theta - step / max(1.0, size)
        if size < 1e-9:
            break
    return theta, hessian


def fitted(model: str, x: np.ndarray, y: np.ndarray, mu: float, seed: int) -> np.ndarray:
    """Return the library's coefficients, the intercept first."""
    estimator = LogisticRegression if model == "logistic" else LinearRegression
    fit = estimator(budget=Budget.gdp(mu), inference=False, random_state=seed).fit(x[:, 1:], y)
    return np.asarray(fit.result_.estimate)


def repetition(model: str, design: str, n: int, p: int, seed: int) -> dict[float, np.ndarray]:
    """Return for every budget the squared errors of one table.

    They are (library to truth, library to fit, oracle to truth, oracle's noise, sampling), shape (5,).
    """
    x, y, truth = simulated(model, design, n, p, seed)
    metric = (x * derivatives(model, y, x @ truth)[1][:, None]).T @ x / n
    theta_hat, _ = exact(model, x, y, np.ones(n), truth)
    bound = default_norm_bound(p)
    weight = np.minimum(1.0, bound**2 / np.einsum("ij,ij->i", x, x))
    theta_w, hessian_w = exact(model, x, y, weight, truth)
    inverse = np.linalg.inv(hessian_w)
    shape = float(np.trace(inverse @ metric @ inverse))
    slope = 1.0 if model == "logistic" else RESIDUAL_BOUND

    def squared(error: np.ndarray) -> float:
        return float(error @ metric @ error)

    errors = {}
    for mu in BUDGETS:
        theta = fitted(model, x, y, mu, seed)
        noise = (2.0 * slope * bound / (n * mu)) ** 2 * shape
        errors[mu] = np.array(
            [
                squared(theta - truth),
                squared(theta - theta_hat),
                squared(theta_w - truth) + noise,
                noise,
                squared(theta_hat - truth),
            ]
        )
    return errors


def summary(errors: np.ndarray) -> dict[str, str]:
    """Return ratios of root mean squares over repetitions; ``errors`` is (repetitions, 5)."""

    def ratio(above: int, below: int) -> tuple[float, float]:
        total, m = errors.sum(axis=0), len(errors)
        left = np.sqrt((total[above] - errors[:, above]) / (total[below] - errors[:, below]))
        error = np.sqrt((m - 1) / m * np.sum((left - left.mean()) ** 2))
        return float(np.sqrt(total[above] / total[below])), float(error)

    (truth, truth_se), (fit, fit_se), (sampling, _) = ratio(0, 2), ratio(1, 3), ratio(3, 4)
    return {
        "oracle_over_sampling": f"{sampling:.3g}",
        "ratio_truth": f"{truth:.3f}",
        "ratio_truth_se": f"{truth_se:.3f}",
        "ratio_fit": f"{fit:.3f}",
        "ratio_fit_se": f"{fit_se:.3f}",
    }


def cell(model: str, design: str, n: int, p: int, repetitions: int) -> list[dict[str, object]]:
    """Return a row of the table for each budget."""
    found = [repetition(model, design, n, p, seed) for seed in range(repetitions)]
    row = {"model": model, "design": design, "n": n, "p": p}
    return [
        {**row, "mu": f"{mu:g}", "repetitions": repetitions, **summary(np.array([one[mu] for one in found]))}
        for mu in BUDGETS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 4)
    for n, p, model, design in product(ROWS, COLUMNS, MODELS, DESIGNS):
        if table.lacks(model, design, n, p):
            table.add(*cell(model, design, n, p, options.repetitions))


if __name__ == "__main__":
    main()
