"""Intervals where errors vary more along one direction, and joint tests of many coefficients.

*Rows.* p independent normal columns within -5 and 5; eta = 0.3 x_1. `even`: normal errors of variance 1, or
a logit. `uneven`: errors of standard deviation |x_2|, so that the meat in the direction of x_2 is three times
that of others. `persons`: 6 rows each, of which x_2 is the same in all, with an effect of the person of
variance 1 beside an error of variance 1, ``unit="person"``; n counts persons.

*What is measured.* Coverage of the 95 % intervals of x_2 and of the others that have no effect; standard
deviation of the first, relative to its mean standard error, and its median width times the root of n; how
often the joint test that all but x_1 have no effect rejects at 5 %, and cannot be made; the share of
infinite intervals.

    python experiments/uneven_errors.py [--repetitions 200] [--workers 2]

Adds to experiments/results/uneven_errors.csv; resumable: a cell that is there is left out.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import privfit as pf
from resumable import filled_by_command

RESULTS = Path(__file__).parent / "results" / "uneven_errors.csv"
FIELDS = [
    "model", "errors", "n", "mu", "p", "repetitions", "uneven", "others", "sd_over_se", "width", "joint",
    "untestable", "infinite",
]  # fmt: skip
GRID = [
    ("least squares", "even", 2_000, 0.5, 5),
    ("least squares", "even", 3_000, 1.0, 10),
    ("least squares", "even", 10_000, 1.0, 10),
    ("least squares", "even", 10_000, 1.0, 30),
    ("least squares", "even", 10_000, 2.0, 30),
    ("Huber", "even", 10_000, 1.0, 20),
    ("logit", "even", 20_000, 1.0, 30),
    ("logit", "even", 20_000, 2.0, 30),
    ("least squares", "uneven", 2_000, 4.0, 3),
    ("least squares", "uneven", 3_000, 1.0, 10),
    ("least squares", "uneven", 10_000, 1.0, 3),
    ("least squares", "uneven", 10_000, 1.0, 10),
    ("least squares", "uneven", 10_000, 1.0, 30),
    ("least squares", "uneven", 20_000, 0.5, 10),
    ("least squares", "uneven", 40_000, 1.0, 10),
    ("Huber", "uneven", 10_000, 1.0, 30),
    ("least squares", "persons", 10_000, 1.0, 10),
    ("logit", "persons", 10_000, 1.0, 10),
]
"""Model, errors, n, mu, p."""

ROWS_EACH = 6
NUMBER = {"type": "numeric", "lower": -5.0, "upper": 5.0}
RESPONSES = {"logit": {"type": "numeric", "lower": 0, "upper": 1}}
FITS = {"least squares": pf.ols, "Huber": pf.huber, "logit": pf.logit}


def simulated(model: str, errors: str, n: int, p: int, seed: int) -> pd.DataFrame:
    """Return a table with the columns x1, ..., xp, y and person."""
    rng = np.random.default_rng([seed, n, p])
    each = ROWS_EACH if errors == "persons" else 1
    person = np.repeat(np.arange(n), each)
    x = rng.normal(size=(n * each, p))
    if errors == "persons":
        x[:, 1] = x[::each, 1][person]
    x = x.clip(-5.0, 5.0)
    eta = 0.3 * x[:, 0] + (rng.normal(size=n)[person] if errors == "persons" else 0.0)
    if model == "logit":
        y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    else:
        y = eta + rng.normal(size=len(x)) * (np.abs(x[:, 1]) if errors == "uneven" else 1.0)
    return pd.DataFrame(x, columns=[f"x{j + 1}" for j in range(p)]).assign(y=y, person=person)


def cell(arguments: tuple[str, str, int, float, int, int]) -> dict[str, object]:
    """Return a row of the table."""
    model, errors, n, mu, p, repetitions = arguments
    names = [f"x{j + 1}" for j in range(p)]
    schema = dict.fromkeys(names, NUMBER) | {"y": RESPONSES.get(model, NUMBER | {"lower": -15, "upper": 15})}
    schema["person"] = {"type": "identifier"}
    unit = {"unit": "person", "rows_per_unit": ROWS_EACH} if errors == "persons" else {"unit": None}
    held, estimates, widths, rejected = [], [], [], []
    for seed in range(repetitions):
        table = simulated(model, errors, n, p, seed)
        if errors != "persons":
            table = table.drop(columns="person")
            schema.pop("person", None)
        formula = "y ~ " + " + ".join(names)
        result = FITS[model](
            formula, table, schema=schema, budget=pf.Budget.gdp(mu), random_state=seed, **unit
        )
        ends, free = result.conf_int().loc[names[1:]], np.eye(p + 1)[2:]
        inside = (ends["lower"] <= 0.0) & (ends["upper"] >= 0.0)
        finite = np.isfinite(ends["upper"] - ends["lower"])
        held.append(np.where(finite, inside, np.nan))
        estimates.append((result.params["x2"], result.bse["x2"]))
        widths.append(ends["upper"].iloc[0] - ends["lower"].iloc[0])
        joint = result.wald_test(free)
        rejected.append((joint.pvalue < 0.05, not joint.testable))
    found, moved = np.array(held), np.array(estimates)
    moved = moved[np.isfinite(moved[:, 1])]
    return dict(zip(FIELDS, arguments, strict=False)) | {
        "uneven": f"{np.nanmean(found[:, 0]):.4f}",
        "others": f"{np.nanmean(found[:, 1:]):.4f}",
        "sd_over_se": f"{np.std(moved[:, 0]) / np.mean(moved[:, 1]):.3f}",
        "width": f"{np.median(widths) * n**0.5:.3f}",
        "joint": f"{np.mean([one for one, _ in rejected]):.4f}",
        "untestable": f"{np.mean([none for _, none in rejected]):.4f}",
        "infinite": f"{np.isnan(found).mean():.4f}",
    }


if __name__ == "__main__":
    filled_by_command(__doc__, RESULTS, FIELDS, cell, GRID)
