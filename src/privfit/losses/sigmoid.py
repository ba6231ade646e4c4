"""The sigmoid loss: bounded, smooth, not convex."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar
from privfit.losses.margin import side_of


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    m = side_of(y) * eta
    e = math.exp(-abs(m))
    return e / (1.0 + e) if m >= 0.0 else 1.0 / (1.0 + e)


@scalar
def _slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    e = math.exp(-abs(eta))
    return -side_of(y) * e / (1.0 + e) ** 2


@scalar
def _curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    m = side_of(y) * eta
    e = math.exp(-abs(m))
    bend = e * (1.0 - e) / (1.0 + e) ** 3
    return bend if m >= 0.0 else -bend


@final
@dataclass(frozen=True, slots=True)
class Sigmoid(AbstractLoss):
    """``1 / (1 + exp(m))`` with the margin ``m = (2 y - 1) eta``, for ``y`` in {0, 1}.

    A smooth stand-in for the share of errors, which it approaches as the coefficients grow. Slope at most
    1/4 in size, at ``m = 0``; curvature within ``1 / (6 sqrt(3))`` of 0, with both signs, so that it is not
    convex (Wang, Chen and Xu 2019, *Differentially private empirical risk minimization with non-convex
    loss functions*). Its Hessian is not a sum of positive parts and cannot be asked for.
    """

    target_kind: ClassVar[TargetKind] = "binary"
    convex: ClassVar[bool] = False
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_value, _slope, _curvature)

    @property
    def constants(self) -> LossConstants:
        """Public bounds; ``curvature`` bounds the size of the curvature, which may be negative."""
        return LossConstants(slope=0.25, curvature=1.0 / (6.0 * math.sqrt(3.0)))

    def span(self, radius: float) -> float:
        """``1 / (1 + exp(-radius)) - 1 / (1 + exp(radius)) = tanh(radius / 2)``."""
        return math.tanh(0.5 * radius)
