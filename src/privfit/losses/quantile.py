"""The check loss of quantile regression, as it is and smoothed."""

from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import ClassVar, final

from privfit._checks import in_range, positive, sized
from privfit.errors import InvalidArgument
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar, zero

_NORMAL = NormalDist()

_STEEP = 1.5
"""About how fast the density of residuals changes, relative to itself, per standard deviation of theirs. For
normal ones that is the distance from their mean; others can be several times as steep."""

_USUAL_UNITS, _USUALLY_WITHIN = 0.4, 0.32
"""A usual width in standard deviations of normal residuals, and the share of those about a median within."""


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
        object.__setattr__(self, "tau", in_range(0.0, 1.0, closed="neither", tau=self.tau))

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return LossConstants(slope=max(self.tau, 1.0 - self.tau), curvature=float("inf"))


@final
@dataclass(frozen=True, slots=True)
class DensitySlope:
    """Slope of the density of residuals relative to the density, ``f'/f``, as far as it is known.

    Parameters
    ----------
    mean, sd : float
        What it is thought to be, and how far that may be off; over the unit of the encoded response.
    uneven : float
        How far it may be off in some rows more than in others, a standard deviation over the rows.
    """

    mean: float
    sd: float
    uneven: float = 0.0

    def per(self, unit: float) -> "DensitySlope":
        """Return that over a unit in which the unit that this one is over is ``unit``."""
        return DensitySlope(self.mean / unit, self.sd / unit, self.uneven / unit)


@final
@dataclass(frozen=True, slots=True)
class SmoothedQuantile(AbstractLoss):
    """The check loss convolved with the uniform density on ``[-width, width]``.

    With ``r = y - eta``: ``(tau - 1/2) r + |r| / 2``, the check loss itself, for ``|r| >= width``, and the
    parabola ``(tau - 1/2) r + (r**2 / width + width) / 4`` within. Slope between those of the check loss,
    curvature ``1 / (2 width)`` within. What it estimates differs from the quantile by ``O(width**2)``
    (Fernandes, Guerre and Horta 2021, *Smoothing quantile regressions*, theorem 1; He, Pan, Tan and Zhou
    2023, *Smoothed quantile regression with large-scale inference*).

    Parameters
    ----------
    tau : float
        In (0, 1).
    width : float
        Public, in units of the encoded response.
    least : float, optional
        Width down to which a method may go on, from released looks at residuals. By default the width stays.
    within : float, optional
        About the share of rows with a residual within the width. Default: that of normal residuals within
        0.4 standard deviations. A guess, of which only `slack` and `bend` are made.
    density_slope : DensitySlope, optional
        What is known of the residuals' density at the quantile. With it inference takes from an estimate what
        smoothing adds to it, see `privfit.inference.density_slope`.
    """

    tau: float = 0.5
    width: float = 0.1
    least: float | None = None
    within: float | None = None
    density_slope: DensitySlope | None = None
    target_kind: ClassVar[TargetKind] = "numeric"
    of_residual: ClassVar[bool] = True
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(
        _smoothed_value, _smoothed_slope, _smoothed_curvature
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", in_range(0.0, 1.0, closed="neither", tau=self.tau))
        object.__setattr__(self, "width", sized(width=self.width))
        if self.least is not None and positive(least=self.least) > self.width:
            raise InvalidArgument("least is a width that is smaller than the one to begin with")

    @property
    def name(self) -> str:
        """Name with level, and with the width where it stays."""
        width = "" if self.adapts else f", width={self.width:g}"
        return f"SmoothedQuantile(tau={self.tau:g}{width})"

    @property
    def adapts(self) -> bool:
        """Whether a method may go on with a smaller width."""
        return self.least is not None

    @property
    def density(self) -> float:
        """That of standard normal residuals at the quantile."""
        return _NORMAL.pdf(_NORMAL.inv_cdf(self.tau))

    def narrowed(
        self, width: float, within: float | None = None, density_slope: DensitySlope | None = None
    ) -> "SmoothedQuantile":
        """Return the loss with this width, or the next one to it that is allowed; the others as above."""
        least = self.width if self.least is None else self.least
        width = min(max(width, least), self.width)
        return replace(self, width=width, within=within, density_slope=density_slope)

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
        """Slopes have standard deviation ``sqrt(tau (1 - tau))``, and curvatures are 0 beyond the width."""
        spread = (self.tau * (1.0 - self.tau)) ** 0.5
        return (max(0.5 * self.constants.slope / spread, 1.0), max(_USUALLY_WITHIN / self._within, 1.0))

    @property
    def bend(self) -> float:
        """``1.5 / s``, s the standard deviation of normal residuals that `within` is the share of."""
        return _STEEP * self._within / (2.0 * self.width * self.density)

    @property
    def _within(self) -> float:
        return 2.0 * _USUAL_UNITS * self.density if self.within is None else self.within
