"""Formulas on private tables: fits and plans of ``"y ~ a * C(b)"``."""

from privfit.formula.counts import poisson
from privfit.formula.margins import svm
from privfit.formula.models import logit, ols
from privfit.formula.planning import plan, sample_size, shortest_split
from privfit.formula.quantiles import quantile
from privfit.formula.robust import huber

__all__ = [
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
