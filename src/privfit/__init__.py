"""Differentially private regression and M-estimation, with honest confidence intervals."""

from privfit import learners, losses, solvers
from privfit.data.schema import Schema
from privfit.data.stream import RowStream
from privfit.errors import (
    BudgetExceeded,
    FormulaError,
    Incompatible,
    InvalidArgument,
    LabelError,
    LedgerError,
    PlanViolation,
    PrivfitError,
    SchemaError,
    TooLittleData,
)
from privfit.estimators import HuberRegressor, LinearRegression, LogisticRegression
from privfit.formula import huber, logit, ols
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger
from privfit.results import FitResult

__version__ = "0.1.0"

__all__ = [
    "Budget",
    "BudgetExceeded",
    "FitResult",
    "FormulaError",
    "HuberRegressor",
    "Incompatible",
    "InvalidArgument",
    "LabelError",
    "Ledger",
    "LedgerError",
    "LinearRegression",
    "LogisticRegression",
    "PlanViolation",
    "PrivfitError",
    "RowStream",
    "Schema",
    "SchemaError",
    "TooLittleData",
    "huber",
    "learners",
    "logit",
    "losses",
    "ols",
    "solvers",
]
