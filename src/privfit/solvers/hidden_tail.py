"""What sizes may be where noise hides most of them: tails of every shape that released shares allow."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import logsumexp

from privfit._checks import FloatArray
from privfit.solvers.histogram import shares_beyond

_STEEP = np.linspace(1.0, 12.0, 34)
"""Slopes, downwards, of the logarithm of a density in that of the size, where the tail begins."""

_BENT = np.concatenate([np.linspace(-2.0, 3.0, 11), np.geomspace(3.5, 24.0, 9)])
"""Curvatures, downwards, of it: that of a log-normal law is the inverse of its variance. Below 0 are tails of
few rows that are unlike all others."""

_LEAST_STEEP = 2.0
"""Slope that tails which bend up come down to: with less their means would be those of the largest sizes."""

_CLEAR = 6.0
"""Standard deviations of noise that the share of rows beyond a size must exceed for a tail to begin there."""

_EXPLAINED = 2.0
"""Standard deviations of noise in the share beyond a size from which on it shows that shares which are
explained are not quite these."""

_PLACES = 8
"""Places that stand for a class."""


@dataclass(frozen=True, slots=True, eq=False)
class HiddenTail:
    """What is expected of sizes, by the tails that they may have and how likely each is.

    Parameters
    ----------
    begin : float
        Size from which on they are tails.
    first : int
        Number of the class that begins there.
    evidence : float
        Logarithm of the mean over them of how likely they make the released shares, but for a constant.
    places : array of shape (m,)
        Sizes, upwards from there.
    shares : array of shape (m,)
        Of rows that are expected at each of them.
    """

    begin: float
    first: int
    evidence: float
    places: FloatArray
    shares: FloatArray

    def beyond(self, bound: float) -> float:
        """Return the expected mean of what sizes are beyond a bound by, 0 for those that are not."""
        return float(self.shares @ np.maximum(self.places - bound, 0.0))

    def bound(self, allowed: Callable[[float], float]) -> float:
        """Return the least bound that sizes are expected to be beyond by no more than is allowed for it.

        Parameters
        ----------
        allowed : callable
            Of a bound; positive, and not falling.
        """

        def excess(bound: float) -> float:
            return self.beyond(bound) - allowed(bound)

        bracket = (self.begin, float(self.places[-1]))
        if excess(self.begin) <= 0.0:
            return self.begin
        return float(root_scalar(excess, bracket=bracket, xtol=1e-15).root)


def hidden_tail(
    shares: FloatArray,
    noise: float,
    edges: FloatArray,
    *,
    total: float | None = None,
    whole: bool = False,
    explained: FloatArray | None = None,
) -> HiddenTail | None:
    """Return the tails that released shares of rows by size allow; None where noise hides all, or nothing.

    Parameters
    ----------
    shares : array of shape (n,)
        Of rows in classes that go up, with noise.
    noise : float
        Standard deviation of it in each.
    edges : array of shape (n + 1,)
        Of the classes; the last is the largest possible size.
    total : float, optional
        What shares add up to without noise, where that is known.
    whole : bool
        Whether sizes are whole numbers.
    explained : array of shape (n,), optional
        Shares that are known to be there: tails are what is beside them.

    Notes
    -----
    From the largest size on that a share of the rows of six standard deviations of noise is beyond, the
    logarithm of the density is taken to be a parabola in that of the size: a log-normal law's is, and those
    of normal, exponential and Poisson laws bend down more. Where it bends up it does so to a slope of 2 and
    goes on straight. What is before that is not asked, as other rows may be there. The height is the
    likeliest for each slope and curvature, and these are as likely as they make the released shares, whose
    noise is known (Bayes).
    """
    beyond, error = shares_beyond(shares, noise, total)
    clear = np.flatnonzero(beyond > _CLEAR * error)
    if noise == 0.0 or not clear.size:
        return None
    first = int(clear[-1])
    if explained is not None:
        left, error = shares_beyond(explained, noise)
        first = max(first, int(np.count_nonzero(left > _EXPLAINED * error)))
        shares = shares - explained
    if first == shares.size:
        return None
    places, widths = _places(edges[first:], whole=whole)
    begin = float(edges[first])
    density = _densities(places.ravel() / (begin or float(places[0, 0]))) * widths.ravel()
    of_classes = density.reshape(len(density), *places.shape).sum(axis=-1)
    height, misfit = fitted(of_classes, shares[first:], noise)
    logs = -0.5 * misfit - math.log(misfit.size)
    evidence = float(np.asarray(logsumexp(logs)))
    expected = (np.exp(logs - evidence) * height) @ density
    return HiddenTail(begin, first, evidence, places.ravel(), expected)


def fitted(shape: FloatArray, shares: FloatArray, sd: float) -> tuple[FloatArray, FloatArray]:
    """Return the likeliest height of each shape (..., m), and its squared errors over those of noise.

    ``shares`` (m,) are that many times it, with noise of standard deviation ``sd``.
    """
    height = np.maximum(shape @ shares, 0.0) / np.maximum(np.sum(shape**2, axis=-1), 1e-300)
    return height, np.sum((shares - height[..., None] * shape) ** 2, axis=-1) / sd**2


def _densities(ratio: FloatArray) -> FloatArray:
    """Return the densities, up to their heights, at multiples (m,) of where tails begin, (k, m)."""
    steep, bent, log = _STEEP[:, None, None], _BENT[:, None], np.log(ratio)
    room = np.maximum(steep - _LEAST_STEEP, 0.0) / np.maximum(-bent, 1e-300)
    bends = np.where(bent < 0.0, np.minimum(log, room), log)
    fallen = steep * log + bent * bends * (log - 0.5 * bends)
    return np.exp(-fallen).reshape(-1, ratio.size)


def _places(edges: FloatArray, *, whole: bool) -> tuple[FloatArray, FloatArray]:
    """Return places (n, 8) in classes between edges (n + 1,), and the widths that each stands for.

    The width of whole numbers is how many there are.
    """
    fine = np.linspace(edges[:-1], edges[1:], _PLACES + 1, axis=1)
    if not whole:
        return 0.5 * (fine[:, 1:] + fine[:, :-1]), np.diff(fine, axis=1)
    first = np.ceil(fine * (1.0 - 1e-12))
    widths = np.diff(first, axis=1)
    return np.maximum(first[:, :-1] + 0.5 * (widths - 1.0), edges[:1, None]), widths
