"""Robust losses whose Hessian changes slowly: smooth relatives of Huber's that Newton's method likes.

Each is ``r**2 / 2`` near 0 and has slopes below ``c``, with ``r = y - eta``. How fast their curvature can
change is bounded by the curvature itself, see `LossConstants.self_concordance`.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from privfit._checks import sized
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar
from privfit.losses.huber import GAUSSIAN_95

_SELF_CONCORDANT_2 = 1.590752
"""``max 2 sqrt((z - 1) / (z + 1)) (1 + 2 z) / z**2`` over ``z >= 1``, rounded up."""


@scalar
def _logcosh_value(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = abs(eta - y) / c
    if u < 1e-2:
        return c * c * u * u * (0.5 - u * u * (1.0 / 12.0 - u * u / 45.0))
    return c * c * (u + math.log1p(math.exp(-2.0 * u)) - math.log(2.0))


@scalar
def _logcosh_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    return c * math.tanh((eta - y) / c)


@scalar
def _logcosh_curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    e = math.exp(-2.0 * abs(eta - y) / c)
    return 4.0 * e / (1.0 + e) ** 2


@scalar
def _pseudo_value(y: float, eta: float, s: float, c: float, k: float) -> float:
    r = abs(eta - y)
    return r * (r / (1.0 + math.hypot(1.0, r / c)))


@scalar
def _pseudo_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = (eta - y) / c
    return c * (u / math.hypot(1.0, u))


@scalar
def _pseudo_curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    return (1.0 / math.hypot(1.0, (eta - y) / c)) ** 3


@scalar
def _concordant_value(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = abs(eta - y) / c
    above = 2.0 * u * (2.0 * u / (1.0 + math.hypot(1.0, 2.0 * u)))
    return 0.5 * c * c * (above - math.log1p(0.5 * above))


@scalar
def _concordant_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    u = (eta - y) / c
    return c * (2.0 * u / (1.0 + math.hypot(1.0, 2.0 * u)))


@scalar
def _concordant_curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    z = math.hypot(1.0, 2.0 * (eta - y) / c)
    return 2.0 / z / (1.0 + z)


@final
@dataclass(frozen=True, slots=True)
class LogCosh(AbstractLoss):
    """``c**2 log cosh(r / c)``.

    Slope ``c tanh(r / c)``, curvature ``1 - tanh(r / c)**2``. (2/c, 2)-self-concordant, as its third
    derivative is ``2 / c`` times slope over ``c`` times curvature; Avella-Medina, Bradshaw and Loh 2023,
    example 2, state ``3 / c``.

    Parameters
    ----------
    c : float
        Bound of the slope, in units of the encoded response.
    """

    c: float = GAUSSIAN_95
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_logcosh_value, _logcosh_slope, _logcosh_curvature)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", sized(c=self.c))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=self.c, curvature=1.0, self_concordance=2.0 / self.c)


@final
@dataclass(frozen=True, slots=True)
class PseudoHuber(AbstractLoss):
    """``c**2 (sqrt(1 + (r / c)**2) - 1)``.

    With ``u = r / c``: slope ``r (1 + u**2)**(-1/2)``, curvature ``(1 + u**2)**(-3/2)``, third derivative
    ``3 u / (c (1 + u**2))`` times the curvature, so that it is (3/(2c), 2)-self-concordant; Avella-Medina,
    Bradshaw and Loh 2023, example 2, state ``3 / c``.

    Parameters
    ----------
    c : float
        Bound of the slope, in units of the encoded response.
    """

    c: float = GAUSSIAN_95
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_pseudo_value, _pseudo_slope, _pseudo_curvature)

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", sized(c=self.c))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=self.c, curvature=1.0, self_concordance=1.5 / self.c)


@final
@dataclass(frozen=True, slots=True)
class SelfConcordantHuber(AbstractLoss):
    """``c**2 / 2 * (z - 1 + log((z - 1) / (2 (r / c)**2)))`` with ``z = sqrt(1 + 4 (r / c)**2)``.

    Ostrovskii and Bach 2021, *Finite-sample analysis of M-estimators using self-concordance*. As
    ``4 (r / c)**2 = (z - 1) (z + 1)``, the logarithm is ``-log(1 + (z - 1) / 2)``, the slope
    ``2 r / (1 + z)`` and the curvature ``2 / (z (1 + z))``. The third derivative is at most
    ``2 sqrt(2) / c`` times the curvature to the power 3/2, the supremum in the limit of large residuals:
    (2 sqrt(2)/c, 3)-self-concordant by the definition in `LossConstants`. Avella-Medina, Bradshaw and Loh
    2023, example 2, state ``2 / c``, which does not satisfy that definition (their own).
    It is also (1.590752/c, 2)-self-concordant, which is better than what follows from order 3.

    Parameters
    ----------
    c : float
        Bound of the slope, in units of the encoded response.
    """

    c: float = GAUSSIAN_95
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(
        _concordant_value, _concordant_slope, _concordant_curvature
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", sized(c=self.c))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(
            slope=self.c,
            curvature=1.0,
            self_concordance=_SELF_CONCORDANT_2 / self.c,
            self_concordance_3=2.0 * math.sqrt(2.0) / self.c,
        )
