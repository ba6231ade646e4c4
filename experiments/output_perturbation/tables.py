"""The five tables of Zhang, Zheng, Mou and Wang 2017, encoded as rows of norm at most 1.

Numeric columns are scaled to [-1, 1] by the range that they have in the table, other columns become one
indicator a level, a constant is added, and all rows are divided by the largest norm. The scaling looks at the
data, as theirs did: this is a study of solvers, not a private analysis.
"""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from privfit.losses import Huber, Logistic
from privfit.losses.base import AbstractLoss
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem

ADULT = [
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation",
    "relationship", "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country",
    "income",
]  # fmt: skip
THRESHOLD = 0.5
"""Of the Huber loss, in units of half the range of the response; theirs is not known."""


def _read(folder: Path, name: str, **options: object) -> pd.DataFrame:
    with gzip.open(folder / f"{name}.csv.gz", "rt") as file:
        return pd.read_csv(file, **options)  # type: ignore[call-overload]


def bank(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    table = _read(folder, "bank_full", sep=";")
    return table.drop(columns="y"), (table["y"] == "yes").astype(float)


def adult(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    table = _read(folder, "adult_data", header=None, names=ADULT, skipinitialspace=True)
    return table.drop(columns="income"), (table["income"] == ">50K").astype(float)


def credit(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    table = _read(folder, "credit_card_taiwan")
    codes = dict.fromkeys(("SEX", "EDUCATION", "MARRIAGE"), str)
    target = "default.payment.next.month"
    return table.drop(columns=["ID", target]).astype(codes), table[target].astype(float)


def wine(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    parts = [_read(folder, name, sep=";").assign(colour=name) for name in ("wine_red", "wine_white")]
    table = pd.concat(parts, ignore_index=True)
    return table.drop(columns="quality"), table["quality"].astype(float)


def bike(folder: Path) -> tuple[pd.DataFrame, pd.Series]:
    table = _read(folder, "bike_hour")
    codes = dict.fromkeys(("season", "mnth", "hr", "weekday", "weathersit"), str)
    unused = ["instant", "dteday", "casual", "registered", "cnt"]
    return table.drop(columns=unused).astype(codes), table["cnt"].astype(float)


TABLES: dict[str, tuple[Callable[[Path], tuple[pd.DataFrame, pd.Series]], AbstractLoss, float]] = {
    "bank": (bank, Logistic(), 0.1),
    "adult": (adult, Logistic(), 0.1),
    "credit": (credit, Logistic(), 0.1),
    "wine": (wine, Huber(THRESHOLD), 0.5),
    "bike": (bike, Huber(THRESHOLD), 0.5),
}
"""Reader, loss and the larger of the two ridge weights; the other is 0."""


def encoded(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (n, p) of norm at most 1 and the response: 0/1, or scaled to [-1, 1]."""
    predictors, response = TABLES[name][0](folder)
    columns = [np.ones(len(predictors))]
    for label in predictors:
        column = predictors[label]
        if pd.api.types.is_numeric_dtype(column):
            low, high = float(column.min()), float(column.max())
            columns.append((2.0 * column.to_numpy(dtype=float) - low - high) / (high - low))
        else:
            columns += [(column == level).to_numpy(dtype=float) for level in sorted(column.unique())]
    x = np.column_stack(columns)
    y = np.array(response, dtype=float)
    if TABLES[name][1].target_kind == "numeric":
        y = (2.0 * y - y.min() - y.max()) / (y.max() - y.min())
    return np.ascontiguousarray(x / np.linalg.norm(x, axis=1).max()), y


def problem_of(name: str, x: np.ndarray, l2: float) -> Problem:
    """Return the problem with ``l2`` on every coefficient. The bound leaves room for the Mallows margin."""
    n, p = x.shape
    names = tuple(f"x{k}" for k in range(p))
    bound = 1.0 + 2.0**-20
    return Problem(TABLES[name][1], names, bound, n, Relation.REPLACE, l2, (0.0,) * p, (True,) * p)


def objective(problem: Problem, x: np.ndarray, y: np.ndarray, theta: np.ndarray) -> float:
    """Return the value of the objective."""
    eta = x @ theta
    if isinstance(problem.loss, Huber):
        residual, c = np.abs(eta - y), problem.loss.threshold
        losses = np.where(residual <= c, 0.5 * residual**2, c * (residual - 0.5 * c))
    else:
        losses = np.logaddexp(0.0, eta) - y * eta
    return float(losses.mean() + 0.5 * problem.l2 * theta @ theta)
