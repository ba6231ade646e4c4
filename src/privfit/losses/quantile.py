"""The check loss of quantile regression, as it is and smoothed."""

from dataclasses import dataclass
from typing import ClassVar, final

from privfit._checks import in_range, positive
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar, zero


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    r = y - eta
    return c * r if r >= 0.0 else (c - 1.0) * r


@scalar
def _slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    if y > eta:
        return -c
    return 1.0 - c if y < eta else 0.0


@scalar
def _smoothed_value(y: float, eta: float, s: float, c: float, k: float) -> float:
    r = abs(y - eta)
    size = r if r >= k else 0.5 * (r * r / k + k)
    return (c - 0.5) * (y - eta) + 0.5 * size


@scalar
def _smoothed_slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    if abs(eta - y) >= k:
        return 1.0 - c if eta > y else -c
    return 0.5 - c + 0.5 * (eta - y) / k


@scalar
def _smoothed_curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    return 0.5 / k if abs(y - eta) <= k else 0.0


@final
@dataclass(frozen=True, slots=True)
class Quantile(AbstractLoss):
    """``r (tau - 1{r < 0})`` with ``r = y - eta``: its minimiser is the conditional ``tau`` quantile.

    Koenker and Bassett 1978, *Regression quantiles*; ``tau=0.5`` is half the absolute error. The slope is
    ``-tau`` above the fit and ``1 - tau`` below it. A kink at ``r = 0``, where the slope is taken as 0,
    so that there is no Hessian: `SmoothedQuantile` has one.

    Parameters
    ----------
    tau : float
        In (0, 1).
    """

    tau: float = 0.5
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_value, _slope, zero)
    smoothed: ClassVar[str] = "SmoothedQuantile"

    def __post_init__(self) -> None:
        in_range(0.0, 1.0, closed="neither", tau=self.tau)

    @property
    def name(self) -> str:
        """Name with the level."""
        return f"Quantile(tau={self.tau:g})"

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=max(self.tau, 1.0 - self.tau), curvature=float("inf"))

    @property
    def parameters(self) -> tuple[float, float]:
        """``(tau, unused)``."""
        return (self.tau, 0.0)


@final
@dataclass(frozen=True, slots=True)
class SmoothedQuantile(AbstractLoss):
    """The check loss convolved with the uniform density on ``[-width, width]``.

    With ``r = y - eta``: ``(tau - 1/2) r + max(|r|, (r**2 / width + width) / 2) / 2``, the check loss
    itself for ``|r| >= width`` and a parabola within. Slope as the check loss's, curvature
    ``1 / (2 width)`` within. What it estimates differs from the quantile by ``O(width**2)`` (Fernandes,
    Guerre and Horta 2021, *Smoothing quantile regressions*, theorem 1; He, Pan, Tan and Zhou 2023,
    *Smoothed quantile regression with large-scale inference*).

    Parameters
    ----------
    tau : float
        In (0, 1).
    width : float
        Public, in units of the encoded response.
    """

    tau: float = 0.5
    width: float = 0.1
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(
        _smoothed_value, _smoothed_slope, _smoothed_curvature
    )

    def __post_init__(self) -> None:
        in_range(0.0, 1.0, closed="neither", tau=self.tau)
        positive(width=self.width)

    @property
    def name(self) -> str:
        """Name with level and width."""
        return f"SmoothedQuantile(tau={self.tau:g}, width={self.width:g})"

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=max(self.tau, 1.0 - self.tau), curvature=0.5 / self.width)

    @property
    def parameters(self) -> tuple[float, float]:
        """``(tau, width)``."""
        return (self.tau, self.width)

    @property
    def slack(self) -> tuple[float, float]:
        """Slopes have standard deviation ``sqrt(tau (1 - tau))``, and few rows are near a far quantile."""
        spread = (self.tau * (1.0 - self.tau)) ** 0.5
        return (max(0.5 * self.constants.slope / spread, 1.0), 0.5 / spread)
