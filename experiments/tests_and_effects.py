"""Combinations, predictions, marginal effects and joint tests of one fit: coverage and error rates.

*Rows.* y ~ x + z + g + h with a schema: x and z standard normal within -5 and 5, factors g and h of four
levels with the shares SHARES; eta = 0.3 + 0.5 x + 0.4 [g = b] - 0.3 [g = c], so that z, h and [g = d] have no
effect. Responses: eta plus normal errors (least squares, Huber, median), a logit, Poisson counts of log mean
eta. `uneven`: errors of standard deviation 0.5 + |x| / 2, or means times a gamma variable of mean 1 and
variance 0.5; not for a logit.

*What is measured.* Coverage of 95 % intervals, where they are finite: of `b - c` of g and of x - 2 z
(`combination`); of the predicted mean at x = z = 0 with first levels (`usual`) and at x = 2.5, z = -1, g = d,
h = c (`far`); of average effects of x and of [g = d] over 200 public rows (`effect`). How often tests reject
at 5 % what is true: that h has no effect (`term`), that z and h have none together (`joint`); that any of z
and h is found by tests of all terms with Holm's adjustment (`family`). How often the test that g has no
effect, which is false, rejects (`power`), and how often one of these cannot be made (`untestable`). Share of
infinite intervals (`infinite`). Budgets are (epsilon, 0), or (epsilon, 1 / n^2) where `delta` says so.

    python experiments/tests_and_effects.py --repetitions 200

Adds to experiments/results/tests_and_effects.csv; resumable.
"""

from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import privfit as pf
from generous_bounds import share_held
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "tests_and_effects.csv"
FIELDS = [
    "model", "errors", "n", "epsilon", "delta", "repetitions", "combination", "usual", "far", "effect",
    "infinite", "term", "joint", "family", "power", "untestable",
]  # fmt: skip
FITS = {
    "least squares": pf.ols,
    "Huber": pf.huber,
    "median": pf.quantile,
    "logit": pf.logit,
    "Poisson": pf.poisson,
}
SIZES = (2_000, 10_000, 50_000)
BUDGETS = ((1.0, False), (1.0, True), (4.0, True))
LEVELS, SHARES = ["a", "b", "c", "d"], [0.4, 0.3, 0.2, 0.1]
NUMBER = {"type": "numeric", "lower": -5, "upper": 5}
FACTOR = {"type": "categorical", "levels": LEVELS}
ENDS = {"logit": (0, 1), "Poisson": (0, 60)}
FORMULA = "y ~ x + z + C(g) + C(h)"
COMBINATIONS = "C(g)[T.b] - C(g)[T.c], x - 2*z"
PLACES = pd.DataFrame({"x": [0.0, 2.5], "z": [0.0, -1.0], "g": ["a", "d"], "h": ["a", "c"]})


def covariates(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows without a response."""
    x, z = rng.normal(size=(2, n)).clip(-5.0, 5.0)
    g, h = (rng.choice(LEVELS, size=n, p=SHARES) for _ in range(2))
    return pd.DataFrame({"x": x, "z": z, "g": g, "h": h})


def predictor(rows: pd.DataFrame) -> np.ndarray:
    """Return the true linear predictor of rows, shape (n,)."""
    of_level = rows["g"].map({"a": 0.0, "b": 0.4, "c": -0.3, "d": 0.0}).to_numpy(float)
    return 0.3 + 0.5 * rows["x"].to_numpy() + of_level


def mean(model: str, rows: pd.DataFrame) -> np.ndarray:
    """Return the true means of rows, or their medians, shape (n,)."""
    eta = predictor(rows)
    return {"logit": expit, "Poisson": np.exp}.get(model, np.asarray)(eta)


def simulated(model: str, errors: str, n: int, seed: int) -> pd.DataFrame:
    """Return a table."""
    rng = np.random.default_rng([seed, n, list(FITS).index(model)])
    rows = covariates(n, rng)
    if model == "logit":
        y = (rng.random(n) < mean(model, rows)).astype(int)
    elif model == "Poisson":
        mixed = rng.gamma(2.0, 0.5, size=n) if errors == "uneven" else 1.0
        y = np.minimum(rng.poisson(mixed * mean(model, rows)), 60)
    else:
        size = 0.5 + rows["x"].abs() / 2.0 if errors == "uneven" else 1.0
        y = (predictor(rows) + size * rng.normal(size=n)).clip(-10.0, 10.0)
    return rows.assign(y=y)


@cache
def reference() -> pd.DataFrame:
    """Return the public rows over which effects are averaged."""
    return covariates(200, np.random.default_rng(0))


@cache
def true_effects(model: str) -> np.ndarray:
    """Return the average effects of x and of the last level of g, shape (2,)."""
    rows = reference()
    moved = (mean(model, rows.assign(x=rows["x"] + s)) for s in (1e-4, -1e-4))
    of_level = mean(model, rows.assign(g="d")) - mean(model, rows.assign(g="a"))
    return np.array([np.subtract(*moved).mean() / 2e-4, of_level.mean()])


def looked_at(model: str, fit: pf.FitResult) -> tuple[np.ndarray, np.ndarray, list[bool]]:
    """Return whether intervals hold (6,), whether they are finite (6,), and what tests reject."""
    combined = fit.t_test(COMBINATIONS).conf_int()
    predicted = fit.get_prediction(PLACES).summary_frame()[["mean_ci_lower", "mean_ci_upper"]]
    effects = fit.get_margeff(reference(), ["x", "g"]).conf_int().iloc[[0, -1]]
    low, high = np.vstack([np.asarray(ends) for ends in (combined, predicted, effects)]).T
    truth = np.concatenate([[0.7, 0.5], mean(model, PLACES), true_effects(model)])
    holm = fit.wald_test_terms(adjust="holm").pvalues
    tests = [fit.compare_without("C(h)"), fit.compare_without("z", "C(h)"), fit.compare_without("C(g)")]
    family = bool((holm[["z", "C(h)"]] < 0.05).any())
    told = [*(test.pvalue < 0.05 for test in tests), family, not all(test.testable for test in tests)]
    finite = np.isfinite(high - low)
    if model == "logit":  # from 0 to 1 a probability's interval says nothing, like an infinite one
        finite &= (low > 0.0) | (high < 1.0)
    return (low <= truth) & (truth <= high), finite, told


def cell(arguments: tuple[str, str, int, float, bool, int]) -> dict[str, object]:
    """Return a row of the results."""
    model, errors, n, epsilon, with_delta, repetitions = arguments
    budget, end = pf.Budget(epsilon, 1.0 / n**2 if with_delta else 0.0), ENDS.get(model, (-10, 10))
    columns = {"x": NUMBER, "z": NUMBER, "g": FACTOR, "h": FACTOR}
    schema = {**columns, "y": {"type": "numeric", "lower": end[0], "upper": end[1]}}
    found = []
    for seed in range(1, repetitions + 1):
        table = simulated(model, errors, n, seed)
        fit = FITS[model](FORMULA, table, schema=schema, budget=budget, random_state=seed)
        found.append(looked_at(model, fit))
    held, finite, told = (np.array(part) for part in zip(*found, strict=True))
    term, joint, power, family, untestable = told.mean(axis=0)
    of = {"combination": [0, 1], "usual": [2], "far": [3], "effect": [4, 5]}
    return dict(zip(FIELDS, arguments, strict=False)) | {
        **{name: share_held(held[:, k], finite[:, k]) for name, k in of.items()},
        "infinite": f"{1.0 - finite.mean():.4f}",
        "term": f"{term:.4f}",
        "joint": f"{joint:.4f}",
        "family": f"{family:.4f}",
        "power": f"{power:.4f}",
        "untestable": f"{untestable:.4f}",
    }


def main() -> None:
    places = [place for place in product(FITS, ("even", "uneven"), SIZES) if place[:2] != ("logit", "uneven")]
    filled_by_command(
        __doc__, RESULTS, FIELDS, cell, ((*place, *budget) for place, budget in product(places, BUDGETS))
    )


if __name__ == "__main__":
    main()
