"""How much of counts is beyond a bound, as far as a look at them tells."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from privfit._checks import FloatArray
from privfit.problem.plan import Release
from privfit.solvers.hidden_tail import fitted
from privfit.solvers.histogram import class_edges, largest_seen

_STEEP = np.linspace(1.0, 12.0, 34)
"""Slopes, downwards, of the logarithm of a density in that of the count, where noise begins to hide it."""

_BENT = np.concatenate([np.linspace(0.0, 3.0, 11), np.geomspace(3.5, 12.0, 6)])
"""Curvatures, downwards, of it: that of a log-normal law is the inverse of its variance."""

_BELOW = 0.25
"""Part of the largest count seen from which on counts tell of its tail."""

_SMALLEST = 0.9
"""Counts that tell of one."""

_PLACES = 40
"""Places between the two bounds at which a density is found."""

_STEEP_OF_RATES = np.linspace(3.0, 6.0, 25)
"""The same slopes for rates of rare events: 3, and 1 more than that of the density of short exposures."""

_BELOW_OF_RATES = 0.5
"""Part of the largest rate seen from which on rates tell of their tail: not down to the longest exposures."""

_FRACTIONAL, _ERRORS = 0.1, 2.0
"""Part of the positive counts that no whole number is in the classes of, two errors added, from which on they
may be rates."""


@dataclass(frozen=True, slots=True, eq=False)
class CountTail:
    """What may be beyond a bound on counts.

    Parameters
    ----------
    beyond : array of shape (m,)
        Means of what counts are beyond it by, 0 for those that are not.
    chances : array of shape (m,)
        How likely each of these is.
    bent : float
        Curvature, downwards, of the logarithm of their density in that of the count.
    """

    beyond: FloatArray
    chances: FloatArray
    bent: float

    def more_than(self, known: float) -> float:
        """Return the root mean square of what the mean may be larger by than ``known``."""
        return math.sqrt(float(self.chances @ np.maximum(self.beyond - known, 0.0) ** 2))


def count_tail(look: Release, declared: float, bound: float, *, whole: bool) -> CountTail | None:
    """Return what a look says of counts between two bounds; None if it hides none, or shows nothing.

    Parameters
    ----------
    look : Release
        Of kind ``"counts"``: shares of rows by count, up to the declared bound.
    declared, bound : float
        The second is at most the first.
    whole : bool
        Whether counts are whole numbers; else they may be rates.

    Notes
    -----
    The logarithm of the density of counts is taken to be a parabola in that of the count, from a quarter of
    the largest count that the look shows on: a log-normal law's is, and those of exponential and of Poisson
    laws bend down more. Its height is the likeliest for each slope and curvature, and these are as likely as
    they make the released shares, whose noise is known (Bayes, flat prior).
    """
    seen = largest_seen(look)
    if seen is None or seen.hidden == 0.0:
        return None
    size = seen.below(declared)
    counts, widths, usable = _classes(declared, whole=whole)
    usable &= counts >= max(_BELOW * size, _SMALLEST)
    if not usable.any():
        return None
    steep, bent = _densities(counts[usable] / size)
    shape = widths[usable] * steep[:, None] * bent
    height, weight = _likeliest(shape, look.value[:-1][usable], look.sd)
    edges = np.geomspace(bound, max(declared, bound), _PLACES + 1)
    places = 0.5 * (edges[1:] + edges[:-1])
    steep, bent = _densities(places / size)
    beyond = (steep * np.diff(edges) * (places - bound)) @ bent.T
    return CountTail((height * beyond).ravel(), weight.ravel(), float(np.sum(weight * _BENT)))


def rates_beyond(look: Release, declared: float, bound: float) -> float:
    """Return the root mean square of the mean of what rates may be beyond a bound by.

    Parameters
    ----------
    look : Release
        Of kind ``"counts"``: shares of rows by rate, up to the declared bound.
    declared, bound : float
        The second is at most the first.

    Notes
    -----
    An event within a short exposure is a large rate. Rows count by their exposures e, and have an event in
    proportion to them, so that the density of rates t is that of ``e = 1 / t`` times ``t**-4``: a power of 3
    to 4 where exposures come near 0, and of more where few do. Its height is the likeliest for each power,
    with the error that noise makes, and powers are as likely as they make the released shares. It is 0 where
    the look shows that hardly a row is between whole numbers: then shares are no exposures.
    """
    seen = largest_seen(look)
    if seen is None or seen.hidden == 0.0 or _whole(look, declared):
        return 0.0
    size = seen.below(declared)
    counts, widths, _ = _classes(declared, whole=False)
    usable = counts >= _BELOW_OF_RATES * size
    shape = widths[usable] * np.exp(np.multiply.outer(_STEEP_OF_RATES, -np.log(counts[usable] / size)))
    height, weight = _likeliest(shape, look.value[:-1][usable], look.sd)
    error = look.sd**2 / np.sum(shape**2, axis=-1)
    beyond = size**2 * (size / bound) ** (_STEEP_OF_RATES - 2.0)
    beyond /= (_STEEP_OF_RATES - 1.0) * (_STEEP_OF_RATES - 2.0)
    return math.sqrt(float(weight @ ((height**2 + error) * beyond**2)))


def share_beyond(look: Release, declared: float, bound: float) -> float:
    """Return what counts exceed a bound by, as a share of all counts together; 1 where a look shows none.

    Parameters
    ----------
    look : Release
        Of kind ``"counts"``: shares of rows by count, up to the declared bound.
    declared, bound : float

    Notes
    -----
    Of the counts that noise does not hide, with two standard deviations of the noise added. Where their means
    exceed the bound they do so by no less than these on average (Jensen's inequality).
    """
    seen = largest_seen(look)
    if seen is None:
        return 1.0
    counts = np.append(_classes(declared, whole=False)[0], declared)
    shown = counts <= max(seen.below(declared), counts[0])
    counts, shares = counts[shown], look.value[shown]
    excess, total = np.maximum(counts - bound, 0.0), float(shares @ counts)
    found = float(shares @ excess) + _ERRORS * look.sd * float(np.linalg.norm(excess))
    return min(max(found / total, 0.0), 1.0) if total > 0.0 else 1.0


def _likeliest(shape: FloatArray, shares: FloatArray, sd: float) -> tuple[FloatArray, FloatArray]:
    """Return the likeliest height of each shape (..., m), and how likely the shapes are."""
    height, misfit = fitted(shape, shares, sd)
    weight = np.exp(-0.5 * (misfit - misfit.min()))
    return height, weight / weight.sum()


def _whole(look: Release, declared: float) -> bool:
    """Return whether a look shows that counts are whole numbers."""
    _, _, usable = _classes(declared, whole=True)
    shares = look.value[1:-1]
    between, on = shares[~usable[1:]], shares[usable[1:]]
    error = _ERRORS * look.sd * math.sqrt(between.size)
    return between.size > 0 and float(between.sum()) + error < _FRACTIONAL * float(on.sum())


def _classes(declared: float, *, whole: bool) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return the middles and widths of all classes but the last, and which of them hold anything.

    The width of a class of whole numbers is how many there are.
    """
    edges = class_edges(declared)[:-1]
    if whole:
        first = np.ceil(edges * (1.0 - 1e-12))
        widths = np.diff(first)
        return first[:-1] + 0.5 * (widths - 1.0), widths, widths > 0.0
    widths = np.diff(edges)
    return edges[:-1] + 0.5 * widths, widths, widths > 0.0


def _densities(ratio: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the factors of densities, up to their heights, at these multiples (m,) of a count.

    The first, (slopes, m), are those of slopes, the others, (curvatures, m), of curvatures.
    """
    log = np.log(ratio)
    return np.exp(np.multiply.outer(_STEEP, -log)), np.exp(np.multiply.outer(_BENT, -0.5 * log**2))


def log_normal_beyond(middle: float, variance: float, bound: float) -> float:
    """Return the mean of what log-normal numbers are beyond a bound by, 0 for those that are not.

    Parameters
    ----------
    middle, variance : float
        Of their logarithms.
    bound : float
    """
    sd = math.sqrt(max(variance, 1e-12))
    away = (middle - math.log(bound)) / sd
    mean = math.exp(min(middle + 0.5 * sd**2, 700.0))
    return max(mean * float(ndtr(away + sd)) - bound * float(ndtr(away)), 0.0)
