"""Coverage and width of the default's 95 % intervals of slopes within levels, one of which is rare.

*Rows.* x normal within -4 and 4, with bounds -5 and 5; three levels, with 59, 40 and 1 % of the rows. By
y ~ x * C(g) with a schema: 1 + x / 2 + 0.3 in the second level and 0.5 in the third, and a slope that is 0.2
steeper in the second. Errors of least squares and Huber's loss have variance 1, normal ones or, "skewed",
exponential less 1; their range is -30 to 30. Log odds are that predictor less 1, log means half of it, with
counts up to 50.

*What is measured.* The coverage of finite intervals of the level's two coefficients and of the other four,
the share of infinite ones among the two, and median widths over those without privacy.

    python experiments/slopes_in_levels.py [--repetitions 200] [--workers 2]

Adds to experiments/results/slopes_in_levels.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import privfit as pf
from generous_bounds import share_held
from rare_levels import compared
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "slopes_in_levels.csv"
FIELDS = [
    "model", "errors", "n", "mu", "repetitions",
    "rare", "others", "infinite", "level_width", "slope_width", "others_width",
]  # fmt: skip
MODELS = (
    ("least squares", "normal"),
    ("least squares", "skewed"),
    ("huber", "skewed"),
    ("logit", ""),
    ("poisson", ""),
)
ROWS, BUDGETS = (20_000, 160_000), (0.5, 2.0)
FITS = {"least squares": pf.ols, "huber": pf.huber, "logit": pf.logit, "poisson": pf.poisson}
LEVELS, SHARES = np.array(["a", "b", "c"]), [0.59, 0.4, 0.01]
TRUTH = np.array([1.0, 0.5, 0.3, 0.5, 0.2, 0.0])
NAMES = ["Intercept", "x", "C(g)[T.b]", "C(g)[T.c]", "x:C(g)[T.b]", "x:C(g)[T.c]"]
RARE = np.array([name.endswith("[T.c]") for name in NAMES])
COUNTS, PLAIN_TABLES = 50, 5


def schema_of(model: str) -> dict:
    numeric = {"type": "numeric", "lower": -30, "upper": 30}
    of_response = {
        "logit": {"type": "categorical", "levels": [0, 1]},
        "poisson": {"type": "numeric", "lower": 0, "upper": COUNTS},
    }
    return {
        "x": {"type": "numeric", "lower": -5, "upper": 5},
        "g": {"type": "categorical", "levels": LEVELS.tolist()},
        "y": of_response.get(model, numeric),
    }


def target(model: str) -> np.ndarray:
    """Return the coefficients (6,) that responses are drawn with, in the order of `NAMES`."""
    if model == "poisson":
        return 0.5 * TRUTH
    return TRUTH - np.where(np.array(NAMES) == "Intercept", 1.0 * (model == "logit"), 0.0)


def simulated(model: str, errors: str, n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng([seed, n])
    x, g = np.clip(rng.normal(size=n), -4.0, 4.0), rng.choice(3, size=n, p=SHARES)
    beta = target(model)
    level = np.concatenate([[0.0], beta[2:4]])[g]
    eta = beta[0] + beta[1] * x + level + np.concatenate([[0.0], beta[4:]])[g] * x
    if model == "logit":
        y = (rng.random(n) < expit(eta)).astype(int)
    elif model == "poisson":
        y = np.minimum(rng.poisson(np.exp(eta)), COUNTS)
    else:
        y = eta + (rng.exponential(size=n) - 1.0 if errors == "skewed" else rng.normal(size=n))
    return pd.DataFrame({"x": x, "g": LEVELS[g], "y": y})


def intervals(model: str, errors: str, n: int, seed: int, **options: object) -> np.ndarray:
    """Return the ends of the intervals, shape (6, 2)."""
    table = simulated(model, errors, n, seed)
    fit = FITS[model]("y ~ x * C(g)", table, schema=schema_of(model), random_state=seed, **options)
    return fit.conf_int().loc[NAMES].to_numpy()


def cell(key: tuple[str, str, int, float, int]) -> dict[str, object]:
    """Return a row of the results."""
    model, errors, n, mu, repetitions = key
    budget, beta = pf.Budget.gdp(mu), target(model)
    found = [intervals(model, errors, n, seed, budget=budget) for seed in range(repetitions)]
    plain = [intervals(model, errors, n, seed, solver="non-private") for seed in range(PLAIN_TABLES)]
    finite, held, width = compared(found, plain, beta)
    others = ~RARE
    if model == "huber":  # the intercept of Huber's loss is not the mean of skewed errors
        others = others & (np.array(NAMES) != "Intercept")
    return {
        "model": model, "errors": errors, "n": n, "mu": mu, "repetitions": repetitions,
        "rare": share_held(held[:, RARE], finite[:, RARE]),
        "others": share_held(held[:, others], finite[:, others]),
        "infinite": f"{1.0 - finite[:, RARE].mean():.4f}",
        "level_width": f"{width[3]:.2f}",
        "slope_width": f"{width[5]:.2f}",
        "others_width": f"{np.mean(width[~RARE]):.2f}",
    }  # fmt: skip


if __name__ == "__main__":
    filled_by_command(
        __doc__, RESULTS, FIELDS, cell, ((*one, n, mu) for one, n, mu in product(MODELS, ROWS, BUDGETS))
    )
