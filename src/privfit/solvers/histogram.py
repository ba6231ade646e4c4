"""Released shares of rows by class, and what of them noise has not made."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from privfit._checks import FloatArray
from privfit.problem.plan import Release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING

_BEYOND_SEEN = 3.0
"""Standard deviations of noise that the share of rows from a class on must exceed to count."""

_SEEN = 2.0
"""Standard deviations of noise that a share beyond the largest one must exceed to count."""

_CLEAR = 3.5
"""Standard deviations that the largest share must exceed for the shares to say anything."""

CERTAIN = 4.0
"""Standard deviations that the share in one class must exceed to count wherever it is."""

_CLEARLY = 4.0
"""Standard deviations of noise by which the sum of all shares must fall short of 1 to show that rows do not
count."""

_SHOWN = 3.0
"""Standard deviations of noise that a mean must exceed to be one."""

_POINTS = 8
"""Points that stand for a class."""

_NO_CHANCE = 1e-12
"""Chance below which a point stands for rounding."""


@dataclass(frozen=True, slots=True)
class Edge:
    """The upper edge of the highest class that noise does not hide.

    Parameters
    ----------
    number : int
        Of classes up to it.
    hidden : float
        Largest share of the rows that count that noise may hide beyond it.
    """

    number: int
    hidden: float

    @property
    def value(self) -> float:
        """Relative to the lower edge of the first class; ``inf`` for the last class, which is open."""
        return upper_edge(self.number)

    def below(self, end: float) -> float:
        """Return the edge where the classes end at ``end``."""
        return end * 2.0 ** (-NORM_CLASSES / NORMS_A_DOUBLING) * self.value


def counting_part(shares: FloatArray, noise: float) -> float:
    """Return the share of the rows that count: less than 1 where rows miss a cell, or have weights or units.

    Rows that do not count are in no class. All are thought to count unless the sum clearly says less.

    Parameters
    ----------
    shares : array of shape (k,)
        Of rows by class.
    noise : float
        Standard deviation of the noise in each.

    Returns
    -------
    float
        In (0, 1]; no less than the noise in it, where that is below 1.
    """
    total, spread = float(np.sum(shares)), noise * math.sqrt(shares.size)
    if total >= 1.0 - _CLEARLY * spread or (total <= 0.0 and spread == 0.0):
        return 1.0
    return min(max(total, spread), 1.0)


def upper_edge(number: int) -> float:
    """Return the upper edge of this many classes; see `Edge.value`."""
    return math.inf if number == NORM_CLASSES else 2.0 ** (number / NORMS_A_DOUBLING)


def class_edges(end: float) -> FloatArray:
    """Return the edges of the classes of counts or exposures up to ``end``, one more than there are.

    Smaller numbers than the first edge are in the first class, too.
    """
    return end * 2.0 ** (np.arange(-NORM_CLASSES, 1) / NORMS_A_DOUBLING)


def class_middles(end: float) -> FloatArray:
    """Return the middles of the classes of counts or exposures up to ``end``, of the first from 0 on."""
    edges = class_edges(end)
    edges[0] = 0.0
    return 0.5 * (edges[1:] + edges[:-1])


def largest_seen(release: Release) -> Edge | None:
    """Return about the largest value that is not too rare for noise to show it; None if all are hidden.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``, ``"counts"`` or ``"exposures"``.
    """
    return _edge(release, last_seen(release.value, release.sd))


def farthest_seen(release: Release) -> Edge | None:
    """Return the same, or a larger value that certainly few rows have, beyond all others.

    Parameters
    ----------
    release : Release
        Of kind ``"counts"``.
    """
    shares, noise = release.value, release.sd
    return _edge(release, with_certain(last_seen(shares, noise), shares, noise))


def _edge(release: Release, found: tuple[int, float] | None) -> Edge | None:
    if found is None:
        return None
    number, hidden = found
    return Edge(number, min(hidden / counting_part(release.value, release.sd), 1.0))


def mean_seen(look: Release, end: float, most: float, power: float = 1.0) -> float | None:
    """Return the mean of numbers, held to ``most``, or of their powers; None where noise may be all of it.

    Parameters
    ----------
    look : Release
        Shares of rows in classes up to ``end``, as of counts.
    end, most, power : float
    """
    seen = largest_seen(look)
    if seen is None:
        return None
    numbers = class_middles(end)[: seen.number]
    held = np.minimum(numbers, most) ** power
    found, error = float(look.value[: seen.number] @ held), look.sd * float(np.linalg.norm(held))
    return found / counting_part(look.value, look.sd) if found > _SHOWN * error else None


def shares_beyond(
    shares: FloatArray, noise: float, total: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the shares of rows in each class and above (k,), and the standard deviations of their noise.

    Parameters
    ----------
    shares : array of shape (k,)
        Of rows in classes that go up.
    noise : float
        Standard deviation of the noise in each.
    total : float, optional
        What they add up to without noise, where that is known. What the noisy shares lack of it is spread
        over them: of m classes out of k that leaves the noise a variance of ``m (1 - m / k)`` in place of m,
        the least that an unbiased sum of them can have.
    """
    rest = np.arange(shares.size, 0, -1)
    beyond, error = np.cumsum(shares[::-1])[::-1], noise * np.sqrt(rest)
    if total is None:
        return beyond, error
    part = rest / shares.size
    return beyond + (total - beyond[0]) * part, error * np.sqrt(1.0 - part)


def last_seen(shares: FloatArray, noise: float, total: float | None = None) -> tuple[int, float] | None:
    """Return the number of classes up to the highest that noise does not hide, and `Edge.hidden`, or None.

    Parameters
    ----------
    shares : array of shape (k,)
        Of rows in classes that go up.
    noise : float
        Standard deviation of the noise in each.
    total : float, optional
        What they add up to without noise, where that is known.

    Notes
    -----
    That is the highest class such that the share of rows in it and above exceeds three standard deviations of
    the noise in that share; without noise, the highest that holds rows. The share beyond a value falls
    with it, so classes are gone through upwards from where it is clearest: one among many empty ones that
    exceeds three standard deviations is not asked.

    Where the total is known, what the noisy shares lack of it is spread over them (`shares_beyond`). As rows
    may lack that no one knows of, and would be taken to be far out, two standard deviations must be exceeded
    without that, too.
    """
    beyond, error = shares_beyond(shares, noise)
    clearest = int(np.argmax(beyond / np.sqrt(np.arange(shares.size, 0, -1))))
    may_be_noise = _BEYOND_SEEN * error
    seen = beyond > may_be_noise
    if total is not None:
        known, less = shares_beyond(shares, noise, total)
        most = _BEYOND_SEEN * less
        shown = known > most
        seen, may_be_noise = shown & (beyond > _SEEN * error), np.where(shown, may_be_noise, most)
    if not seen[clearest]:
        return None
    lost = np.flatnonzero(~seen[clearest:])
    if not lost.size:
        return shares.size, 0.0
    number = clearest + int(lost[0])
    return number, float(may_be_noise[number])


def with_certain(
    found: tuple[int, float] | None, shares: FloatArray, noise: float
) -> tuple[int, float] | None:
    """Return what `last_seen` has found, or the highest class that certainly holds rows, if that is higher.

    Few rows may be far beyond all others: between them are classes in which noise is all there is.
    """
    if found is None:
        return None
    certain = np.flatnonzero(shares > CERTAIN * noise)
    number = int(certain[-1]) + 1 if certain.size else 0
    if number <= found[0]:
        return found
    return number, _BEYOND_SEEN * noise * math.sqrt(shares.size - number)


def believed(shares: FloatArray, noise: float) -> FloatArray | None:
    """Return the shares (k,) that noise has not made, of sum 1; None if there are none.

    Parameters
    ----------
    shares : array of shape (k,)
        Of rows in classes that go up.
    noise : float
        Standard deviation of the noise in each.

    Notes
    -----
    Beyond the largest share, those from the first one on that noise may have made are left out, but for
    ones that it certainly has not, so that noise does not pass for outliers.
    """
    mode = int(np.argmax(shares))
    if shares[mode] <= _CLEAR * noise:
        return None
    kept = np.maximum(shares, 0.0)
    lost = np.flatnonzero(shares[mode:] <= _SEEN * noise)
    if lost.size:
        far = kept[mode + lost[0] :]
        far[far <= CERTAIN * noise] = 0.0
    return kept / kept.sum()


def spread_out(shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and their chances for rows that are spread evenly in each class, from k to k + 1."""
    places = (np.arange(shares.size)[:, None] + np.arange(1, _POINTS + 1) / _POINTS).ravel()
    chances = np.repeat(shares / _POINTS, _POINTS)
    found = chances > 0.0
    return places[found], chances[found]


def smoothed_out(shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and their chances for rows whose density in wide classes follows that of the next ones.

    The share of rows up to a place is a monotone cubic through those up to the edges (Fritsch and Butland
    1984), so that a tail falls within its classes, too.
    """
    places = np.arange(1, shares.size * _POINTS + 1) / _POINTS
    edges = np.arange(shares.size + 1.0)
    below = PchipInterpolator(edges, np.append(0.0, np.cumsum(shares)))(places)
    chances = np.maximum(np.diff(below, prepend=0.0), 0.0)
    found = chances > _NO_CHANCE
    return places[found], chances[found]
