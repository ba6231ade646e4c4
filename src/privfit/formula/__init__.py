"""Formulas on private tables: from ``"y ~ a * C(b)"`` to a design by public facts alone, and to a fit."""

from privfit.formula.encoder import FormulaEncoder
from privfit.formula.models import huber, logit, ols

__all__ = ["FormulaEncoder", "huber", "logit", "ols"]
