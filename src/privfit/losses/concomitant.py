"""Huber's loss with a concomitant residual scale."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

from privfit._checks import sized
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar
from privfit.losses.huber import GAUSSIAN_95


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = abs(y - eta) / s
    rho = 0.5 * u * u if u <= c else c * (u - 0.5 * c)
    return s * rho + 0.5 * k * s


@scalar
def concomitant_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    """Return the slope of the loss."""
    return min(max((eta - y) / s, -c), c)


@scalar
def _curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    return 1.0 if abs(y - eta) <= c * s else 0.0


@scalar
def _scale_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = min(abs(y - eta) / s, c)
    return 0.5 * (k - u * u)


@scalar
def _scale_direction(y: float, eta: float, s: float, c: float, k: float) -> float:
    return min(max((y - eta) / s, -c), c)


def clipped_second_moment(c: float) -> float:
    """Return ``E min(Z**2, c**2)`` for a standard normal ``Z``."""
    inside = math.erf(c / math.sqrt(2.0))
    density = math.exp(-0.5 * c * c) / math.sqrt(2.0 * math.pi)
    return inside - 2.0 * c * density + c * c * (1.0 - inside)


@lru_cache(maxsize=64)
def _constants(c: float) -> LossConstants:
    kappa = clipped_second_moment(c)
    return LossConstants(
        slope=c,
        curvature=1.0,
        scale_slope=(0.5 * (kappa - c**2), 0.5 * kappa),
        scale_direction=c,
        scale_curvature=kappa,
    )


@final
@dataclass(frozen=True, slots=True)
class ConcomitantHuber(AbstractLoss):
    """``s * rho_c((y - eta) / s) + kappa_c * s / 2``: Huber's joint estimate of coefficients and scale.

    ``rho_c`` is Huber's function and ``kappa_c = E min(Z**2, c**2)`` makes ``s`` the standard deviation
    under normal errors (Huber 1981, *Robust Statistics*, section 7.7; Avella-Medina, Bradshaw and Loh
    2023, equation (6)). Jointly convex in coefficients and scale. The slope in ``eta`` is bounded by ``c``,
    that in ``s`` lies in ``[(kappa_c - c**2) / 2, kappa_c / 2]``, an interval of length ``c**2 / 2``.
    Its expected derivative, times ``s``, is ``E Z**2 1{abs(Z) <= c}``; steps go by the larger ``kappa_c``.

    Parameters
    ----------
    c : float
        Threshold in units of the estimated scale.
    """

    c: float = GAUSSIAN_95
    target_kind: ClassVar[TargetKind] = "numeric"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(
        _value, concomitant_slope, _curvature, _scale_slope, _scale_direction
    )
    has_scale: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", sized(c=self.c))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return _constants(self.c)

    @property
    def parameters(self) -> tuple[float, float]:
        """``(c, kappa_c)``."""
        return (self.c, _constants(self.c).scale_curvature)
