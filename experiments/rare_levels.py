"""Coverage and width of the default's 95 % intervals beside a rare level.

*Rows.* y ~ x + C(k), x standard normal with bounds -5 and 5, k one of four levels with shares of 0.6, 0.3,
0.1 - s and s, s = 2 % of 20,000 rows and 0.5 % of 100,000. The linear predictor is -1 + x / 2 + (0, 1/2, 1,
3/2)_k, half of it for counts.

*Truth.* "right": N(0, 1) errors for numeric responses, bounds -6 and 6; Bernoulli labels; Poisson counts up
to 20. "unequal": errors with standard deviation sqrt(0.5 + x^2 / 2), counts with gamma mixed means of
variance 0.5 m^2. "other level": the variance of the errors in the rare level is four times that of
the others, which is 0.5.

`level` and `others` are the coverage of finite intervals of the coefficient of the rare level and of the
four others, `level_width` and `others_width` the median of their widths over the mean width without
privacy in the first tables. `infinite` is the share of infinite intervals of the level's coefficient.

    python experiments/rare_levels.py [--repetitions 100]

Adds to experiments/results/rare_levels.csv; resumable.
"""

import argparse
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit

import privfit as pf
from generous_bounds import share_held
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "rare_levels.csv"
MODELS = {"least squares": pf.ols, "huber": pf.huber, "logistic": pf.logit, "poisson": pf.poisson}
TRUTHS = {
    "least squares": ("right", "unequal", "other level"),
    "huber": ("right", "unequal", "other level"),
    "logistic": ("right",),
    "poisson": ("right", "unequal"),
}
SHARES = {20_000: 0.02, 100_000: 0.005}
BUDGETS = (0.5, 1.0)
LEVELS = np.array(list("abcd"))
COEFFICIENTS = np.array([-1.0, 0.5, 0.5, 1.0, 1.5])
SCHEMA = {
    "x": {"type": "numeric", "lower": -5, "upper": 5},
    "k": {"type": "categorical", "levels": LEVELS.tolist()},
}
RESPONSES = {
    "logistic": {"type": "categorical", "levels": ["0", "1"]},
    "poisson": {"type": "numeric", "lower": 0, "upper": 20},
}
NUMERIC = {"type": "numeric", "lower": -6, "upper": 6}
PLAIN_TABLES = 10
FIELDS = [
    "model", "n", "mu", "truth", "repetitions",
    "level", "others", "infinite", "level_width", "others_width",
]  # fmt: skip


def target(model: str) -> np.ndarray:
    """Return the coefficients (5,) that responses are drawn with."""
    return 0.5 * COEFFICIENTS if model == "poisson" else COEFFICIENTS


def simulated(model: str, n: int, truth: str, seed: int) -> dict[str, np.ndarray]:
    """Return a table."""
    rng, rare = np.random.default_rng([seed, n]), SHARES[n]
    k, x = rng.choice(4, size=n, p=[0.6, 0.3, 0.1 - rare, rare]), rng.normal(size=n)
    beta = target(model)
    eta = beta[0] + beta[1] * x + np.concatenate([[0.0], beta[2:]])[k]
    if model == "logistic":
        y = (rng.random(n) < expit(eta)).astype(int)
    elif model == "poisson":
        y = rng.poisson(np.exp(eta) * (rng.gamma(2.0, 0.5, size=n) if truth == "unequal" else 1.0))
    else:
        sd = {
            "right": 1.0,
            "unequal": np.sqrt(0.5 + 0.5 * x**2),
            "other level": np.sqrt(0.5 + 1.5 * (k == 3)),
        }
        y = eta + sd[truth] * rng.normal(size=n)
    return {"x": x, "k": LEVELS[k], "y": y}


def intervals(model: str, n: int, truth: str, seed: int, **options: object) -> np.ndarray:
    """Return the ends of the intervals, shape (5, 2)."""
    schema = SCHEMA | {"y": RESPONSES.get(model, NUMERIC)}
    table = simulated(model, n, truth, seed)
    fit = MODELS[model]("y ~ x + C(k)", table, schema=schema, random_state=seed, **options)
    return fit.conf_int().to_numpy()


def compared(
    found: Sequence[np.ndarray], plain: Sequence[np.ndarray], beta: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which intervals of tables are finite, which hold, and median widths over mean plain ones.

    Shapes (tables, k), (tables, k) and (k,), from ends of shape (k, 2) for each table.
    """
    low, high = np.moveaxis(np.array(found), 2, 0)
    width = np.median(high - low, axis=0) / np.mean([np.ptp(one, axis=1) for one in plain], axis=0)
    return np.isfinite(high - low), (low <= beta) & (beta <= high), width


def cell(model: str, n: int, mu: float, truth: str, repetitions: int) -> dict[str, object]:
    """Return a row of the results."""
    budget = pf.Budget.gdp(mu)
    found = [intervals(model, n, truth, seed, budget=budget) for seed in range(repetitions)]
    plain = [intervals(model, n, truth, seed, solver="non-private") for seed in range(PLAIN_TABLES)]
    finite, held, width = compared(found, plain, target(model))
    return {
        "model": model, "n": n, "mu": mu, "truth": truth, "repetitions": repetitions,
        "level": share_held(held[:, 4], finite[:, 4]),
        "others": share_held(held[:, :4], finite[:, :4]),
        "infinite": f"{1.0 - finite[:, 4].mean():.4f}",
        "level_width": f"{width[4]:.2f}",
        "others_width": f"{np.mean(width[:4]):.2f}",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 4)
    for mu, n, model in product(BUDGETS, SHARES, MODELS):
        for truth in TRUTHS[model]:
            if table.lacks(model, n, mu, truth):
                table.add(cell(model, n, mu, truth, options.repetitions))


if __name__ == "__main__":
    main()
