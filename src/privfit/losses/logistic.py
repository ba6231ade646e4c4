"""Logistic loss."""

import math
from dataclasses import dataclass
from typing import ClassVar, Final, final

import numpy as np
from numba import njit

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar
from privfit.losses.means import ClassMeans


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    return max(eta, 0.0) + math.log1p(math.exp(-abs(eta))) - y * eta


_ORDER = 15

_TAYLOR = tuple(1.0 / math.factorial(order) for order in range(_ORDER + 1))


@njit(cache=True, error_model="numpy", fastmath={"contract"})
def _exponential(x: float) -> float:
    """Return ``exp(x)`` to a relative 2e-14 for ``abs(x) <= 40``, and its value at the bound beyond.

    ``exp(x / 64)`` by its Taylor polynomial, to the power 64. No branch and no call, so that a loop over
    rows is vectorised; the library's function would take most of the time of a gradient.
    """
    z = min(max(x, -40.0), 40.0) * (1.0 / 64.0)
    r = _TAYLOR[_ORDER]
    for order in range(_ORDER - 1, -1, -1):
        r = _TAYLOR[order] + r * z
    for _ in range(6):
        r = r * r
    return r


@scalar
def logistic_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return the slope of the loss."""
    return 1.0 / (1.0 + _exponential(-eta)) - y


@scalar
def logistic_curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return the curvature of the loss."""
    e = _exponential(-abs(eta))
    return e / (1.0 + e) ** 2


@scalar
def logistic_reach(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return the largest size that the slope can have at this ``eta``."""
    return 1.0 / (1.0 + _exponential(-abs(eta)))


_MEANS: Final = ClassMeans(np.array([[-0.5], [0.5]]))

_CONSTANTS: Final = LossConstants(slope=1.0, curvature=0.25, self_concordance=1.0)


@final
@dataclass(frozen=True, slots=True)
class Logistic(AbstractLoss):
    """``log(1 + exp(eta)) - y * eta`` for ``y`` in {0, 1}: the negative log-likelihood of a logit model.

    Slope ``p - y`` with ``p = 1 / (1 + exp(-eta))``, bounded by 1; curvature ``p (1 - p)``, at most 1/4;
    (1, 2)-self-concordant per unit of ``norm(x)`` (Bach 2010, *Self-concordant analysis for logistic
    regression*, section 2).
    """

    target_kind: ClassVar[TargetKind] = "binary"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(
        _value, logistic_slope, logistic_curvature, reach=logistic_reach
    )

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return _CONSTANTS

    @property
    def means(self) -> ClassMeans:
        """``1 - p`` and ``p``."""
        return _MEANS

    @property
    def bending(self) -> float:
        """1: that of ``p (1 - p)`` is ``abs(1 - 2 p)``."""
        return 1.0

    def turning(self, curvature: float) -> float:
        """Return ``abs(1 - 2 p)`` where ``p (1 - p)`` is the curvature."""
        return math.sqrt(max(1.0 - 4.0 * curvature, 0.0))

    def span(self, radius: float) -> float:
        """``log(1 + exp(a)) - log(1 + exp(-a)) = a``."""
        return radius
