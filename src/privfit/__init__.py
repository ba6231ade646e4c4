"""Differentially private regression and M-estimation, with honest confidence intervals."""

from privfit import auditing, learners, losses, solvers
from privfit.auditing import AuditResult, audit
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
    UnexpectedError,
)
from privfit.estimators import (
    HuberRegressor,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MEstimator,
    PoissonRegressor,
    QuantileRegressor,
)
from privfit.formula import huber, logit, ols, poisson, quantile, svm
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger
from privfit.results import FitResult

__version__ = "0.1.0"

__all__ = [
    "AuditResult",
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
    "LinearSVC",
    "LogisticRegression",
    "MEstimator",
    "PlanViolation",
    "PoissonRegressor",
    "PrivfitError",
    "QuantileRegressor",
    "RowStream",
    "Schema",
    "SchemaError",
    "TooLittleData",
    "UnexpectedError",
    "audit",
    "auditing",
    "huber",
    "learners",
    "logit",
    "losses",
    "ols",
    "poisson",
    "quantile",
    "solvers",
    "svm",
]
