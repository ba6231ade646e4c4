"""Coverage and width where rows count for a tenth, against a tenth of the rows that count in full.

*Rows.* x normal within -5 and 5, a level g that three rows in ten have; eta = c + 0.5 x + 0.7 g. Models:
logit (c = -0.5), counts (0, with gamma frailties of variance 1, at most 100), least squares (-0.5, lognormal
errors, the response within -15 and 30), and the quantiles 0.25 with lognormal and 0.75 with normal errors
(the response within -100 and 100). mu = 2.

*What is compared.* `few`: 2,000 rows of weight 1, which is the bound; `weights`: 20,000 rows of weight 1
where the bound is 10; `missing`: 20,000 rows, of which nine in ten miss x. Noise is the same in all three;
sampling errors are those of 2,000 rows in the first and last, and of 20,000 in the second.

*What is measured.* Coverage of the finite 95 % intervals, the share of others, and the median width of the
intercept's and of the slope's.

    python experiments/light_rows.py [--repetitions 200] [--workers 2]

Adds to experiments/results/light_rows.csv; resumable: a cell that is there is left out.
"""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "light_rows.csv"
FIELDS = ["model", "rows", "repetitions", "coverage", "infinite", "intercept", "slope"]
SLOPES = [0.5, 0.7]
MODELS = {
    "logit": (-0.5, None, None),
    "counts": (0.0, None, (0.0, 100.0)),
    "least squares, skew errors": (-0.5, stats.lognorm(1.0), (-15.0, 30.0)),
    "quantile 0.25, skew errors": (-0.5, stats.lognorm(1.0), (-100.0, 100.0)),
    "quantile 0.75, normal errors": (-0.5, stats.norm(), (-100.0, 100.0)),
}
"""Constant, errors, and bounds of the response."""

KINDS = {"few": (2_000, 1.0, 0.0), "weights": (20_000, 10.0, 0.0), "missing": (20_000, 1.0, 0.9)}
"""Rows, bound on weights, and share that misses a cell."""


def simulated(model: str, kind: str, seed: int) -> pd.DataFrame:
    """Return a table."""
    rng = np.random.default_rng([seed, len(model)])
    (constant, errors, _), (n, _, missing) = MODELS[model], KINDS[kind]
    x, g = rng.normal(size=n).clip(-5.0, 5.0), rng.random(n) < 0.3
    eta = constant + x * SLOPES[0] + g * SLOPES[1]
    if model == "logit":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    elif model == "counts":
        y = rng.poisson(np.exp(eta) * rng.gamma(1.0, size=n))
    else:
        y = eta + errors.ppf(rng.random(n))
    x = np.where(rng.random(n) < missing, np.nan, x)
    return pd.DataFrame({"x": x, "g": np.where(g, "b", "a"), "y": y, "w": 1.0})


def fitted(model: str, kind: str, seed: int) -> pf.FitResult:
    (_, _, bounds), (_, bound, missing) = MODELS[model], KINDS[kind]
    number = {"type": "numeric", "lower": -5.0, "upper": 5.0}
    schema = {
        "x": number,
        "g": {"type": "categorical", "levels": ["a", "b"]},
        "w": number | {"lower": 0.0, "upper": bound},
        "y": {"type": "categorical", "levels": [0, 1]}
        if bounds is None
        else number | {"lower": bounds[0], "upper": bounds[1]},
    }
    options = {"budget": pf.Budget.gdp(2.0), "random_state": seed} | ({} if missing else {"weights": "w"})
    if model.startswith("quantile"):
        options["quantile"] = float(model.split()[1].rstrip(","))
        fit = pf.quantile
    else:
        fit = {"logit": pf.logit, "counts": pf.poisson, "least squares, skew errors": pf.ols}[model]
    return fit("y ~ x + g", simulated(model, kind, seed), schema=schema, **options)


def wanted(model: str) -> np.ndarray:
    """Return the true coefficients."""
    constant, errors, _ = MODELS[model]
    if model.startswith("quantile"):
        constant += errors.ppf(float(model.split()[1].rstrip(",")))
    elif errors is not None:
        constant += errors.mean()
    return np.array([constant, *SLOPES])


def cell(arguments: tuple[str, str, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, kind, repetitions = arguments
    ends = np.array([fitted(model, kind, seed).conf_int().to_numpy() for seed in range(repetitions)])
    widths = ends[..., 1] - ends[..., 0]
    held, finite = (ends[..., 0] <= wanted(model)) & (wanted(model) <= ends[..., 1]), np.isfinite(widths)
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "coverage": f"{held[finite].mean():.3f}" if finite.any() else "",
        "infinite": f"{1.0 - finite.mean():.3f}",
        "intercept": f"{np.median(widths[:, 0]):.3g}",
        "slope": f"{np.median(widths[:, 1]):.3g}",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, product(MODELS, KINDS))
