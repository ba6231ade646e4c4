"""Poisson regression with a bounded predictor."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, final

from privfit._checks import in_range, sized
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, TargetKind, scalar
from privfit.losses.means import CountMeans

LARGEST_PREDICTOR = 50.0
"""Log mean; its exponential has 22 digits."""

_ROOM = 0.25
"""Counts by which a mean may exceed all counts and still have a curvature: noise leads that far where most
rows of a level are at the bound. Relative to small bounds it is more, as the errors of such means are."""


def predictor_up_to(count: float) -> float:
    """Return the bound on log means that goes with a bound on counts.

    Means of counts do not exceed the largest, so that a larger bound costs noise and changes no fit of a
    right model. It is positive: bounds below 1 are taken for 1.
    """
    return math.log(max(count, 1.0) + _ROOM)


@scalar
def _value(y: float, eta: float, s: float, c: float, k: float) -> float:
    inside = min(eta, c)
    return math.exp(inside) * (1.0 + (eta - inside)) - min(max(y, 0.0), k) * eta


@scalar
def _slope(y: float, eta: float, s: float, c: float, k: float) -> float:
    return math.exp(min(eta, c)) - min(max(y, 0.0), k)


@scalar
def _reach(y: float, eta: float, s: float, c: float, k: float) -> float:
    mean = math.exp(min(eta, c))
    return max(mean, k - mean)


@scalar
def _curvature(y: float, eta: float, s: float, c: float, k: float) -> float:
    return math.exp(eta) if eta <= c else 0.0


@lru_cache(maxsize=64)
def _constants(bound: float, count_bound: float) -> LossConstants:
    highest = math.exp(bound)
    return LossConstants(slope=max(highest, count_bound), curvature=highest)


@final
@dataclass(frozen=True, slots=True)
class Poisson(AbstractLoss):
    """``exp(eta) - y * eta``: the negative log-likelihood of a count with mean ``exp(eta)``.

    It has no bounded slope, so both of its parts are bounded by public numbers: counts are moved into
    ``[0, count_bound]``, and where ``eta > bound`` the exponential goes on along its tangent. Convex.
    The slope lies in ``[-count_bound, exp(bound)]``, the curvature is at most ``exp(bound)``.
    Where no count and no fitted mean is beyond the bounds, this is the Poisson regression.

    Parameters
    ----------
    bound : float
        Largest predictor (log mean) that is taken as it is, in (0, 50]. Small ones need no bound.
    count_bound : float
        Largest count that is taken as it is.
    """

    bound: float = 3.0
    count_bound: float = 20.0
    target_kind: ClassVar[TargetKind] = "count"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_value, _slope, _curvature, reach=_reach)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bound", in_range(0.0, LARGEST_PREDICTOR, closed="right", bound=self.bound))
        object.__setattr__(self, "count_bound", sized(count_bound=self.count_bound))

    @property
    def bending(self) -> float:
        """1: the curvature is the mean."""
        return 1.0

    @property
    def constants(self) -> LossConstants:
        """Public bounds."""
        return _constants(self.bound, self.count_bound)

    @property
    def slack(self) -> tuple[float, float]:
        """Against a mean count of 1, whose slopes have standard deviation 1 and whose curvature is 1."""
        return (max(0.5 * self.constants.slope, 1.0), max(self.constants.curvature, 1.0))

    @property
    def means(self) -> CountMeans:
        """``exp(eta)``."""
        return CountMeans(self.bound)

    def up_to(self, count: float) -> "Poisson":
        """Return the loss with smaller bounds: ``count`` on counts, and `predictor_up_to` it on log means."""
        return Poisson(min(self.bound, predictor_up_to(count)), min(self.count_bound, count))

    def span(self, radius: float) -> float:
        """Take the larger of the spans for the counts 0 and ``count_bound``: it is convex in the count."""
        return max(self._span(count, radius) for count in (0.0, self.count_bound))

    def _span(self, count: float, radius: float) -> float:
        bottom = self._at(count, self._lowest(count, radius))
        return max(self._at(count, radius), self._at(count, -radius)) - bottom

    def _lowest(self, count: float, radius: float) -> float:
        """Return where in ``[-radius, radius]`` the loss of a count is smallest."""
        if count >= math.exp(self.bound):
            return radius
        if count <= math.exp(-radius):
            return -radius
        return min(math.log(count), radius)

    def _at(self, count: float, eta: float) -> float:
        inside = min(eta, self.bound)
        return math.exp(inside) * (1.0 + (eta - inside)) - count * eta
