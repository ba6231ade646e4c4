"""A schema, tables within it, and formulas that formulaic reads in the same way."""

import numpy as np
import pandas as pd

from privfit.data.schema import Schema

SCHEMA = Schema(
    {
        "y": {"type": "numeric", "lower": -20, "upper": 20},
        "yes": {"type": "categorical", "levels": ["no", "yes"]},
        "age": {"type": "numeric", "lower": -2, "upper": 5},
        "dose": {"type": "numeric", "lower": 1, "upper": 4},
        "gain": {"type": "numeric", "lower": 0, "upper": 1000, "transform": "log1p"},
        "sex": {"type": "categorical", "levels": ["F", "M"]},
        "job": {"type": "categorical", "levels": ["x", "y", "z"]},
        "grade": {"type": "categorical", "levels": [1, 2, 3]},
        "net income": {"type": "numeric", "lower": 0, "upper": 1},
        "id": {"type": "numeric", "lower": 0, "upper": 1e9, "unit": True},
    }
)

SAME_AS_FORMULAIC = [
    "y ~ age",
    "y ~ 1",
    "y ~ age - 1",
    "y ~ -1 + age",
    "y ~ 0 + sex + age",
    "y ~ age*sex",
    "y ~ age:dose",
    "y ~ sex:job",
    "y ~ sex*job*age - 1",
    "y ~ (age + dose + C(sex))**2",
    "y ~ (sex + job + age)^3 - sex:job:age",
    "y ~ age/sex",
    "y ~ C(sex):age",
    "y ~ -1 + job:sex:age + dose",
    "y ~ C(sex, contr.treatment('M')) + C(job, contr.treatment(base=\"z\")):age",
    "y ~ 0 + C(job, Treatment(reference='y')):dose",
    "y ~ C(job, Treatment('y')) * grade",
    "y ~ C(grade, contr.treatment(2)) + C(job)",
    "y ~ np.log(dose)*I(age**2) + I(age > 0)",
    "y ~ log(dose) + log10(dose) + log2(dose) + exp(age)",
    "y ~ np.log1p(gain) + np.expm1(age) + np.sqrt(gain) + np.abs(age)",
    "y ~ `net income` + I(`net income` ** 2):C(sex)",
    "y ~ {age + dose} + np.minimum(age, dose) + np.maximum(age - 1, 0)",
    "y ~ np.exp(-age/dose) + I(dose**-2) + I(dose**age) + I(age**3)",
    "y ~ np.sin(age) + np.cos(3*dose)",
    "y ~ I(1/(age**2 + 1)) + I((age > 0)*(dose < 2)*1)",
    "y ~ age + I(sex == 'M'):age + I((dose > 2) * 1):job",
    "y ~ I(job != 'z') + I(grade == 2)",
    "y ~ I((age >= 1) * dose) + I(dose <= 2)",
    "y ~ 0 + sex + job + sex:dose",
    "y ~ age * dose * `net income`",
    "y ~ job * age * dose",
    "y ~ job + job:age + sex:job:age",
    "y ~ age + I(age ** 2) + I(age ** 3 / 10)",
    "y ~ (age + I(age * age)) * dose",
    "y ~ age * I(age ** 2)",
    "y ~ I(-age * dose) + age + dose",
    "y ~ np.log(dose) * age + age / `net income`",
    "y ~ (age + I(age ** 2)) * C(job, contr.treatment('y'))",
    "y ~ I(2 ** 0.5 * age) * dose + I(dose > 2) * age",
    "y ~ 0 + age * dose + I(age ** 2)",
]
ROW_SCHEMA = Schema({name: column for name, column in SCHEMA.items() if not column.unit})
"""The schema of a table in which every person has one row."""


def table(n: int, seed: int = 0) -> pd.DataFrame:
    """Return rows within the bounds; categorical columns know all their levels."""
    rng = np.random.default_rng(seed)
    columns = {}
    for name, column in SCHEMA.items():
        if hasattr(column, "levels"):
            columns[name] = pd.Categorical.from_codes(
                rng.integers(len(column.levels), size=n), list(column.levels)
            )
        else:
            columns[name] = rng.uniform(column.lower, column.upper, n)
    return pd.DataFrame(columns)
