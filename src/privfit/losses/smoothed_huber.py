"""Huber's loss with its corners rounded off."""

from dataclasses import dataclass
from typing import ClassVar, final

from privfit._checks import sized
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar
from privfit.losses.huber import GAUSSIAN_95


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    r = abs(eta - y)
    if r <= c:
        return 0.5 * r * r
    u = min((r - c) / k, 1.0)
    bend = k * k * u * u * (0.5 - u * u * (0.25 - 0.1 * u))
    return 0.5 * c * c + c * k * u + bend + (c + 0.5 * k) * max(r - c - k, 0.0)


@scalar
def _slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    r = abs(eta - y)
    u = min(max((r - c) / k, 0.0), 1.0)
    psi = min(r, c) + k * (u - u * u * u * (1.0 - 0.5 * u))
    return psi if eta >= y else -psi


@scalar
def _curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = min(max((abs(eta - y) - c) / k, 0.0), 1.0)
    return (1.0 - u) * (1.0 - u) * (1.0 + 2.0 * u)


@final
@dataclass(frozen=True, slots=True)
class SmoothedHuber(AbstractLoss):
    """Huber's loss whose slope bends into its bound along a polynomial of degree four.

    With ``t = |y - eta|`` and ``u = (t - c) / h`` the slope is ``t`` up to ``c``,
    ``c + h (u - u**3 + u**4 / 2)`` between ``c`` and ``c + h``, and ``c + h / 2`` beyond: the one polynomial
    of degree four that matches value, slope and curvature of the line at ``c``, and has slope and curvature
    0 at ``c + h``. So the curvature, ``1 - 3 u**2 + 2 u**3`` in between, is continuously differentiable.
    It is not self-concordant (Avella-Medina, Bradshaw and Loh 2023, example 1; Hampel, Hennig and
    Ronchetti 2011, *A smoothing principle for the Huber and other location M-estimators*).

    Parameters
    ----------
    c : float
        Largest residual with full influence, in units of the encoded response.
    h : float
        Width of the bend.
    """

    c: float = GAUSSIAN_95
    h: float = 0.5
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_value, _slope, _curvature)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", sized(c=self.c))
        object.__setattr__(self, "h", sized(h=self.h))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=self.c + 0.5 * self.h, curvature=1.0)
