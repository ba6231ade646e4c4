"""Differentially private regression and M-estimation, with honest confidence intervals.

Names are imported at first use, so that ``import privfit`` takes no time: the packages that a fit needs take
a second or two.
"""

import importlib
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from privfit import auditing, learners, losses, solvers
    from privfit._progress import show_progress
    from privfit.auditing import AuditResult, audit
    from privfit.data.cache import RowCache
    from privfit.data.schema import Schema
    from privfit.data.stream import RowStream
    from privfit.estimators import (
        HuberRegressor,
        LinearRegression,
        LinearSVC,
        LogisticRegression,
        MEstimator,
        PoissonRegressor,
        QuantileRegressor,
    )
    from privfit.estimators.assumptions import Assumptions
    from privfit.estimators.learned import learn_bounds
    from privfit.formula import (
        huber,
        logit,
        ols,
        plan,
        poisson,
        quantile,
        sample_size,
        shortest_split,
        svm,
    )
    from privfit.inference.infer import BudgetSplit
    from privfit.privacy.budget import Budget
    from privfit.privacy.ledger import Ledger
    from privfit.results import FitResult
    from privfit.results.learned_bounds import LearnedBounds

__version__ = "0.1.0"

__all__ = [
    "Assumptions",
    "AuditResult",
    "Budget",
    "BudgetExceeded",
    "BudgetSplit",
    "FitResult",
    "FormulaError",
    "HuberRegressor",
    "Incompatible",
    "InvalidArgument",
    "LabelError",
    "LearnedBounds",
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
    "RowCache",
    "RowStream",
    "Schema",
    "SchemaError",
    "TooLittleData",
    "UnexpectedError",
    "audit",
    "auditing",
    "huber",
    "learn_bounds",
    "learners",
    "logit",
    "losses",
    "ols",
    "plan",
    "poisson",
    "quantile",
    "sample_size",
    "shortest_split",
    "show_progress",
    "solvers",
    "svm",
]

_PACKAGES = ("auditing", "learners", "losses", "solvers")

_HOMES = {
    "Assumptions": "estimators.assumptions",
    "AuditResult": "auditing",
    "Budget": "privacy.budget",
    "BudgetSplit": "inference.infer",
    "FitResult": "results",
    "HuberRegressor": "estimators",
    "LearnedBounds": "results.learned_bounds",
    "Ledger": "privacy.ledger",
    "LinearRegression": "estimators",
    "LinearSVC": "estimators",
    "LogisticRegression": "estimators",
    "MEstimator": "estimators",
    "PoissonRegressor": "estimators",
    "QuantileRegressor": "estimators",
    "RowCache": "data.cache",
    "RowStream": "data.stream",
    "Schema": "data.schema",
    "audit": "auditing",
    "huber": "formula",
    "learn_bounds": "estimators.learned",
    "logit": "formula",
    "ols": "formula",
    "plan": "formula",
    "poisson": "formula",
    "quantile": "formula",
    "sample_size": "formula",
    "shortest_split": "formula",
    "show_progress": "_progress",
    "svm": "formula",
}
"""Where each name that is imported at first use comes from; the same as above, for type checkers."""

_KNOWN_AS = {
    "glm": "privfit.logit and privfit.poisson",
    "lm": "privfit.ols",
    "wls": "privfit.ols, with weights=",
    "gee": "privfit.ols, privfit.logit and privfit.poisson, with unit=",
    "mnlogit": "privfit.logit, whose response may have several levels",
    "negativebinomial": "privfit.poisson, whose intervals allow for counts that vary more",
    "quantreg": "privfit.quantile",
    "rlm": "privfit.huber",
}
"""What fits are called elsewhere, in small letters, and where they are here."""

if not TYPE_CHECKING:  # they would take every name for one that exists

    def __getattr__(name: str) -> object:
        """Import a name at its first use (PEP 562)."""
        if name in _PACKAGES:
            return importlib.import_module(f"privfit.{name}")
        if name not in _HOMES:
            found = _KNOWN_AS.get(name.lower())
            hint = "" if found is None else f"; see {found}"
            raise AttributeError(f"module 'privfit' has no attribute {name!r}{hint}")
        thing = getattr(importlib.import_module(f"privfit.{_HOMES[name]}"), name)
        globals()[name] = thing
        return thing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
