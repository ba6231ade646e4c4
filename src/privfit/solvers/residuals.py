"""Where residuals are and how densely, from released shares of rows by their residual."""

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import TypeVar

import numpy as np

from privfit._checks import FloatArray
from privfit.losses import SmoothedQuantile, Squared
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Release
from privfit.problem.share_kernels import SIDE_CLASSES, SIDES_A_DOUBLING, largest_edge
from privfit.solvers.geometry import Frame, whitened
from privfit.solvers.hidden_tail import HiddenTail, hidden_tail
from privfit.solvers.histogram import counting_part, last_seen, with_certain

_NORMAL = NormalDist()

NORMAL_QUARTILE = 0.6745
"""Of a standard normal variable."""

EDGES = 2.0 ** ((np.arange(SIDE_CLASSES) + 1.0 - SIDE_CLASSES) / SIDES_A_DOUBLING)
"""Upper edges of the classes of sizes."""

BOTH_EDGES = np.concatenate([-EDGES[::-1], [0.0], EDGES])
"""Edges of the classes of residuals; the first and the last are open beyond them."""

_PARTS = np.diff(EDGES, prepend=0.0)
"""How wide the classes of sizes are."""

_BEYOND = 4.0
"""Standard deviations of the noise in a class that the share beyond a quantile must exceed."""

_FURTHEST_IN = 0.4
"""Quantile by which a spread is roughly told at most."""

_SKEWEST = 0.95
"""Largest skewness that is believed: that of a lognormal variable whose logarithm has a sd of 2.9."""

CLEAR = 3.5
"""Standard deviations of noise that a share must exceed to count."""

_Adapting = TypeVar("_Adapting", Squared, SmoothedQuantile)


def adapting(problem: Problem, kind: type[_Adapting]) -> _Adapting | None:
    """Return the loss where it is of this kind and looks at residuals may change it."""
    loss = problem.loss
    return loss if isinstance(loss, kind) and loss.adapts else None


@dataclass(frozen=True, eq=False)
class Residuals:
    """What a look at residuals shows, in units of the largest class's edge.

    Parameters
    ----------
    shares : array of shape (2 * SIDE_CLASSES,)
        Of the rows that count in each class, from the lowest residuals to the highest.
    noise : float
        Standard deviation of the noise in each.
    total : float, optional
        What they add up to without noise, where that is known.
    """

    shares: FloatArray
    noise: float
    total: float | None = None

    @classmethod
    def of(cls, release: Release) -> "Residuals":
        """Return what a release of kind ``"residuals"`` says."""
        part = counting_part(release.value, release.sd)
        return cls(release.value / part, release.sd / part, 1.0 if part == 1.0 else None)

    @cached_property
    def likely(self) -> FloatArray:
        """Shares of rows that are not negative and about 1 in all, the nearest to the noisy ones.

        The sum is what noise lets through of it, a half at least.
        """
        total = min(max(float(np.sum(self.shares)), 0.5), 1.0)
        falling = np.sort(self.shares)[::-1]
        above = (np.cumsum(falling) - total) / np.arange(1.0, falling.size + 1.0)
        return np.maximum(self.shares - above[np.flatnonzero(falling > above)[-1]], 0.0) / total

    def quantile(self, tau: float) -> float | None:
        """Return about the ``tau`` quantile of the residuals; None where noise hides it.

        Residuals are taken to be even within each class, and none to be beyond the edges of the last two.
        """
        if min(tau, 1.0 - tau) < _BEYOND * self.noise:
            return None
        return self._at(tau)

    def _at(self, tau: float) -> float:
        return float(np.interp(tau, self._below_edges, BOTH_EDGES))

    def towards(self, tau: float) -> float | None:
        """Return about the nearest to the ``tau`` quantile that noise does not hide; None if it hides all."""
        least = _BEYOND * self.noise
        return None if least > 0.5 else self._at(min(max(tau, least), 1.0 - least))

    @cached_property
    def _below_edges(self) -> FloatArray:
        """Likely shares below the edges of the classes."""
        return np.concatenate([[0.0], np.cumsum(self.likely)])

    @property
    def spread(self) -> float | None:
        """Standard deviation of normal residuals with these quartiles; None where noise hides them."""
        low, high = self.quantile(0.25), self.quantile(0.75)
        return None if low is None or high is None else (high - low) / (2.0 * NORMAL_QUARTILE)

    @property
    def rough_spread(self) -> float | None:
        """The same, by quantiles further in where noise hides these; None where it hides them, too."""
        tau = min(max(0.25, _BEYOND * self.noise * (1.0 + 1e-9)), _FURTHEST_IN)
        low, high = self.quantile(tau), self.quantile(1.0 - tau)
        return None if low is None or high is None else (high - low) / (-2.0 * _NORMAL.inv_cdf(tau))

    @property
    def skewness(self) -> float | None:
        """How far the median is from the middle of the outer deciles, or quartiles, over half their distance.

        In [-1, 1]; None where noise hides both.
        """
        found = self._skewness
        return None if found is None else found[0]

    @property
    def skew(self) -> float:
        """About the ``g`` for which ``(exp(g Z) - 1) / g``, Z normal, is as skew; 0 where noise hides it.

        It is the standard deviation of the logarithm of lognormal residuals (Tukey's g).
        """
        if self._skewness is None:
            return 0.0
        skewness, part = self._skewness
        return 2.0 * math.atanh(float(np.clip(skewness, -_SKEWEST, _SKEWEST))) / -_NORMAL.inv_cdf(part)

    @property
    def _skewness(self) -> tuple[float, float] | None:
        """The skewness, and the share beyond the quantiles that it is found from."""
        middle = self.quantile(0.5)
        for part in (0.1, 0.25):
            low, high = self.quantile(part), self.quantile(1.0 - part)
            if middle is not None and low is not None and high is not None and high > low:
                return (high + low - 2.0 * middle) / (high - low), part
        return None

    @property
    def below(self) -> tuple[float, float]:
        """Return the share of negative residuals, and the standard deviation of its noise."""
        negative, positive = np.split(self.likely, 2)
        count = min(np.count_nonzero(negative), np.count_nonzero(positive))
        return float(np.sum(negative)), self.noise * math.sqrt(count)

    @property
    def sizes(self) -> FloatArray:
        """Shares of rows by the size of their residual, shape (SIDE_CLASSES,)."""
        return _both_sides(self.shares)

    @property
    def largest(self) -> tuple[float, float] | None:
        """About the largest size that noise shows, and the largest share beyond it that noise may hide.

        None where noise hides all, or nothing: the last class is open.
        """
        if self._last is None or self.beyond:
            return None
        number, hidden = self._last
        return float(EDGES[number - 1]), hidden

    @cached_property
    def tail(self) -> HiddenTail | None:
        """Tails that sizes may have, up to all of the declared range; None where noise hides them."""
        edges = np.concatenate([[0.0], EDGES[:-1], [2.0 * EDGES[-1]]])
        return hidden_tail(self.sizes, math.sqrt(2.0) * self.noise, edges, total=self.total)

    def one_sided(self, size: float) -> float:
        """Return by how much more of those beyond a size are on one side, as a part of them, with noise."""
        far = size * (1.0 + 1e-9) < EDGES
        sides = (self.shares[SIDE_CLASSES - 1 :: -1], self.shares[SIDE_CLASSES:])
        below, above = (float(np.sum(side[far])) for side in sides)
        noise = self.noise * math.sqrt(2.0 * np.count_nonzero(far))
        return min((abs(above - below) + noise) / max(above + below, noise), 1.0)

    @property
    def beyond(self) -> bool:
        """Whether some are certainly larger than half the declared range."""
        return self._last is not None and self._last[0] == SIDE_CLASSES

    @cached_property
    def _last(self) -> tuple[int, float] | None:
        """Number of classes of sizes that noise does not hide, and the share beyond them that it may."""
        noise = math.sqrt(2.0) * self.noise
        return with_certain(last_seen(self.sizes, noise, total=self.total), self.sizes, noise)

    @property
    def usual_size(self) -> float:
        """Size that half of the residuals keep within; sizes are taken to be even within each class."""
        within = np.cumsum(_both_sides(self.likely))
        return float(np.interp(0.5, np.append(0.0, within), np.append(0.0, EDGES)))

    @property
    def heap(self) -> float:
        """Share of rows in the fullest class, less what noise may add to it."""
        return float(np.max(self.shares)) - CLEAR * self.noise

    @property
    def certain_square(self) -> float:
        """Mean square less what noise may add, as if residuals were at the inner edges of their classes."""
        shares = np.maximum(self.sizes - CLEAR * math.sqrt(2.0) * self.noise, 0.0)
        return float(shares[1:] @ EDGES[:-1] ** 2)

    @property
    def beside(self) -> float:
        """Share of rows on that side of the fullest class that has fewer, less what noise may add to it."""
        fullest = int(np.argmax(self.shares))
        sides = (self.shares[:fullest], self.shares[fullest + 1 :])
        return min(float(np.sum(side)) - CLEAR * self.noise * math.sqrt(side.size) for side in sides)

    @property
    def about_zero(self) -> float:
        """Share of rows in that class next to 0 which has fewer, less what noise may add to it."""
        return float(np.min(self.shares[SIDE_CLASSES - 1 : SIDE_CLASSES + 1])) - CLEAR * self.noise

    def reach(self, share: float) -> float | None:
        """Return the size that about this share of the residuals keeps within; None where noise hides it.

        Notes
        -----
        Up to every edge the shares are fitted, by least squares, by those of residuals that are even near 0,
        which halve with every halving of the size. So noise in the many small classes counts little. Where
        many are far nearer, as those of responses with heaps are, that is too few; as many as are within an
        edge beyond what noise may add are.
        """
        noise = math.sqrt(2.0) * self.noise * float(EDGES[-2]) / math.sqrt(np.sum(_PARTS[:-1] ** 2))
        within = np.maximum(even_within(self.sizes), self.certain)
        reached = first_with(share, within)
        if reached is None or share < CLEAR * noise:
            return None
        return float(EDGES[reached]) * share / float(within[reached])

    @cached_property
    def certain(self) -> FloatArray:
        """Shares of the residuals within each edge less what noise may add to them."""
        classes = 2.0 * np.arange(1.0, SIDE_CLASSES + 1.0)
        return np.cumsum(self.sizes) - CLEAR * self.noise * np.sqrt(classes)

    def density_slope(self, tau: float, within: float) -> tuple[float, float] | None:
        """Return about the slope of the density at the ``tau`` quantile, relative to it, and its noise.

        From how many more are up to ``within`` above the quantile than below it. The noise is a standard
        deviation; None where it hides the quantile, or nobody is that near to it.
        """
        center = self.quantile(tau)
        if center is None:
            return None
        low, high = center - within, center + within
        shares = np.interp([low, high], BOTH_EDGES, self._below_edges)
        near = float(shares[1] - shares[0])
        if near == 0.0:
            return None
        more = float(np.sum(shares)) - 2.0 * tau
        classes = (BOTH_EDGES[:-1] < high) & (BOTH_EDGES[1:] > low) & (self.likely > 0.0)
        noise = self.noise * math.sqrt(np.count_nonzero(classes))
        return 2.0 * more / (near * within), 2.0 * noise / (near * within)


def even_within(sizes: FloatArray) -> FloatArray:
    """Return the shares within each edge, by the even density that is nearest to the shares by size.

    Parameters
    ----------
    sizes : array of shape (SIDE_CLASSES,)
        See `Residuals.sizes`.
    """
    return EDGES * np.cumsum(sizes * _PARTS) / np.cumsum(_PARTS**2)


def first_with(share: float, within: FloatArray) -> int | None:
    """Return the number of the first edge within which this share is; None if there is none but the last."""
    reached = np.flatnonzero((within >= share)[:-1])
    return int(reached[0]) if reached.size else None


def _both_sides(shares: FloatArray) -> FloatArray:
    """Return shares by size from those of either sign, from the smallest up."""
    return shares[SIDE_CLASSES:] + shares[SIDE_CLASSES - 1 :: -1]


def unit_of(problem: Problem) -> float:
    """Return the unit of the sizes that a look shows."""
    return largest_edge(problem.response_range)


def about_quantile(
    problem: Problem, oracle: Oracle, frame: Frame, tau: float, *, center: float = 0.0, looks: int = 1
) -> tuple[Residuals | None, float]:
    """Look at residuals about a constant, then about their quantile; return what shows, and the quantile.

    None where noise hides it in the last, which may have more budget than those before: these lead to what is
    next to it as far as they show. Without a constant in the model all looks are about 0. The quantile is
    looked for so many times, each from where it was found: classes are finest there.
    """
    shown = True
    for _ in range(looks):
        off = look_at(problem, oracle, frame, frame.constant(center)).towards(tau)
        shown = shown and off is not None
        if off is not None and problem.has_intercept:
            center += unit_of(problem) * off
    seen = look_at(problem, oracle, frame, frame.constant(center))
    return seen if shown and seen.quantile(tau) is not None else None, center


def look_at(problem: Problem, oracle: Oracle, frame: Frame, at: FloatArray) -> Residuals:
    """Ask for the residuals at a point in the frame's coordinates, in which the oracle goes on."""
    oracle.change_basis(whitened(problem, frame.basis))
    return Residuals.of(oracle.release("residuals", at))
