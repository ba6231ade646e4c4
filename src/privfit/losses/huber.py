"""Losses that are quadratic in small residuals and linear in large ones, with a public threshold."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, final

from privfit._checks import sized
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar

GAUSSIAN_95 = 1.345
"""Threshold that keeps 95 % efficiency under normal errors (Huber 1981, *Robust Statistics*, ch. 7)."""


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    r = abs(eta - y)
    return 0.5 * r * r if r <= c else c * (r - 0.5 * c)


@scalar
def huber_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return the slope of the loss."""
    return min(max(eta - y, -c), c)


@scalar
def _curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    return 1.0 if abs(eta - y) <= c else 0.0


_FUNCTIONS = ScalarFunctions(_value, huber_slope, _curvature)


@lru_cache(maxsize=64)
def _constants(slope: float) -> LossConstants:
    return LossConstants(slope=slope, curvature=1.0)


@final
@dataclass(frozen=True, slots=True)
class Huber(AbstractLoss):
    """``r**2 / 2`` up to ``|r| = threshold`` and linear beyond, ``r = y - eta`` (Huber 1964).

    Parameters
    ----------
    threshold : float
        Public, in units of the encoded response.
    """

    threshold: float = GAUSSIAN_95
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = _FUNCTIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", sized(threshold=self.threshold))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return _constants(self.threshold)


@final
@dataclass(frozen=True, slots=True)
class Squared(AbstractLoss):
    """``(y - eta)**2 / 2``, continued linearly where ``|y - eta| > bound``.

    The squared loss has no bounded slope, so its gradient has no finite sensitivity. Residuals beyond the
    public ``bound`` keep the slope ``bound``; where none is that large, this is ordinary least squares.

    Parameters
    ----------
    bound : float
        Largest residual with full influence, in units of the encoded response.
    adapts : bool
        Whether a method may go on with a smaller bound, from released looks at residuals.
    """

    bound: float = 1.0
    adapts: bool = False
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = _FUNCTIONS

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", sized(bound=self.bound))

    @property
    def name(self) -> str:
        """Name with the bound, where it stays."""
        return "Squared()" if self.adapts else f"Squared(bound={self.bound:g})"

    def lowered(self, bound: float) -> "Squared":
        """Return the loss with this bound, if that is smaller and it adapts."""
        return replace(self, bound=min(bound, self.bound)) if self.adapts else self

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return _constants(self.bound)

    @property
    def parameters(self) -> tuple[float, float]:
        """``(bound, unused)``."""
        return (self.bound, 0.0)
