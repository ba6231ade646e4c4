"""Formulas on private tables: from ``"y ~ a * C(b)"`` to a design by public facts alone, and to a fit."""

from privfit.formula.counts import poisson
from privfit.formula.encoder import FormulaEncoder
from privfit.formula.margins import svm
from privfit.formula.models import logit, ols
from privfit.formula.planning import plan, sample_size, shortest_split
from privfit.formula.quantiles import quantile
from privfit.formula.robust import huber

__all__ = [
    "FormulaEncoder",
    "huber",
    "logit",
    "ols",
    "plan",
    "poisson",
    "quantile",
    "sample_size",
    "shortest_split",
    "svm",
]
