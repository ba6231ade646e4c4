"""The hinge loss of support vector machines, as it is and smoothed."""

from dataclasses import dataclass
from typing import ClassVar, final

from privfit._checks import sized
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar, zero
from privfit.losses.margin import side_of


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    return max(0.0, 1.0 - side_of(y) * eta)


@scalar
def _slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    side = side_of(y)
    return -side if side * eta < 1.0 else 0.0


@scalar
def _smoothed_value(y: float, eta: float, s: float, c: float, k: float) -> float:
    short = max(0.0, 1.0 - side_of(y) * eta)
    return 0.5 * short * short / c if short <= c else short - 0.5 * c


@scalar
def _smoothed_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    side = side_of(y)
    return -side * min(max((1.0 - side * eta) / c, 0.0), 1.0)


@scalar
def _smoothed_curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    short = 1.0 - side_of(y) * eta
    return 1.0 / c if 0.0 <= short <= c else 0.0


@final
@dataclass(frozen=True, slots=True)
class Hinge(AbstractLoss):
    """``max(0, 1 - m)`` with the margin ``m = (2 y - 1) eta``, for ``y`` in {0, 1}.

    The loss of the support vector machine (Cortes and Vapnik 1995). Slope in [-1, 1]; a kink at ``m = 1``,
    where the slope is taken as 0, so that there is no Hessian: `SmoothedHinge` has one.
    """

    target_kind: ClassVar[TargetKind] = "binary"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_value, _slope, zero)
    smoothed: ClassVar[str] = "SmoothedHinge"

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=1.0, curvature=float("inf"))

    def span(self, radius: float) -> float:
        """From ``max(0, 1 - radius)`` to ``1 + radius``."""
        return min(2.0 * radius, 1.0 + radius)


@final
@dataclass(frozen=True, slots=True)
class SmoothedHinge(AbstractLoss):
    """The hinge loss with its kink replaced by a parabola of a public width.

    With the margin ``m = (2 y - 1) eta``: 0 for ``m >= 1``, ``(1 - m)**2 / (2 width)`` for
    ``1 - width <= m < 1``, and ``1 - m - width / 2`` below. It lies below the hinge loss by at most
    ``width / 2``: it is its Moreau envelope. Slope in [-1, 1], curvature at most ``1 / width``. For
    ``width=1`` it is the smooth hinge of Rennie and Srebro (2005, *Loss functions for preference levels*,
    section 3.1).

    Parameters
    ----------
    width : float
        Of the parabola, in units of the margin. Below 1 the loss is a line at the coefficients 0, where
        solvers start: Newton's method has no Hessian there.
    """

    width: float = 1.0
    target_kind: ClassVar[TargetKind] = "binary"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(
        _smoothed_value, _smoothed_slope, _smoothed_curvature
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", sized(width=self.width))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=1.0, curvature=1.0 / self.width)

    @property
    def slack(self) -> tuple[float, float]:
        """As many fewer margins lie within the parabola as it is narrower."""
        return (1.0, max(1.0 / self.width, 1.0))

    def span(self, radius: float) -> float:
        """From the value at the margin ``radius`` to the one at ``-radius``."""
        return self._at(-radius) - self._at(radius)

    def _at(self, margin: float) -> float:
        short = max(0.0, 1.0 - margin)
        return 0.5 * short * short / self.width if short <= self.width else short - 0.5 * self.width
