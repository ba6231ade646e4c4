"""How far rows are let count, from released shares of rows by their length or the size of their gradient."""

from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.bounded_kernels import LENGTH_ORIGIN, SIZE_ORIGIN
from privfit.problem.plan import Release

_SEEN = 2.0
"""Standard deviations of noise that a share beyond the largest one must exceed to count."""

_CLEAR = 3.5
"""Standard deviations that the largest share must exceed for the shares to say anything."""

_POINTS = 8
"""Points that stand for a class."""

_ONE_SIDED = 0.15
"""Part of what is cut off that is taken to be on one side, as errors may be skewed."""

LEAST_UNCUT = 0.38
"""Smallest part of the rows whose gradients are not cut: with less there is too little curvature."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where gradients are cut, relative to the bound on the slope, and what part of the rows is not."""

    size: float
    uncut: float


def quantile_of_lengths(release: Release, quantile: float) -> float | None:
    """Return about this quantile of the rows' lengths; None where noise hides it.

    Parameters
    ----------
    release : Release
        Of kind ``"lengths"``.
    quantile : float
        In (0, 1].
    """
    shares = _believed(release)
    if shares is None:
        return None
    places, chances = _spread_out(shares)
    return float(2.0 ** (0.5 * (_at(places, np.cumsum(chances), quantile) - LENGTH_ORIGIN)))


def best_cut(release: Release, *, noise: float, dimension: float, n_rows: int) -> Cut | None:
    """Return the cut of least expected error against the uncut fit; None where noise hides the sizes.

    Parameters
    ----------
    release : Release
        Of kind ``"sizes"``.
    noise : float
        Standard deviation of the noise in an entry of the combined gradient, in units of the cut.
    dimension : float
        Entries' worth of noise.
    n_rows : int

    Notes
    -----
    In whitened coordinates rows have gradients of sizes ``s``; cut at ``k`` the curvature falls to the part
    ``F`` with ``s < k``. The noise then moves the estimate by a squared ``d (noise k / F)**2``, and the cut
    moves it, where errors are symmetric, by ``E (s - min(s, k) / F)**2 / n``: the difference of the two
    influence functions. Where they are not, it moves the constant by the mean of what is cut off, over
    ``F`` and, as the constant is one of ``d`` directions, the root of ``d``; of that mean a fixed part is
    taken to be on one side. The sum of the three is least at the cut that is returned: low where there is
    much noise, above nearly all sizes where there is little. Steps end with smaller residuals than they
    began with, so the cut is found twice.
    """
    shares = _believed(release)
    if shares is None:
        return None
    places, chances = _spread_out(shares)
    sizes = 2.0 ** (places - SIZE_ORIGIN)
    uncut = np.cumsum(chances)
    cuts = np.minimum(sizes, sizes[:, None])
    spread = ((sizes - cuts / uncut[:, None]) ** 2) @ chances / n_rows
    lean = (_ONE_SIDED * ((sizes - cuts) @ chances) / uncut) ** 2 / dimension
    error = dimension * (noise * sizes / uncut) ** 2 + spread + lean
    best = int(np.argmin(np.where(uncut >= LEAST_UNCUT, error, np.inf)))
    return Cut(float(sizes[best]), float(uncut[best]))


def _believed(release: Release) -> FloatArray | None:
    """Return the shares that noise has not made, of sum 1; None if there are none.

    Beyond the largest share, those from the first one on that noise may have made are left out, so that
    noise does not pass for outliers.
    """
    sd, shares = release.planned.sd, release.value.copy()
    mode = int(np.argmax(shares))
    if shares[mode] <= _CLEAR * sd:
        return None
    lost = np.flatnonzero(shares[mode:] <= _SEEN * sd)
    if lost.size:
        shares[mode + lost[0] :] = 0.0
    shares = np.maximum(shares, 0.0)
    return shares / shares.sum()


def _spread_out(shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places on the classes' logarithmic scale and their chances; classes are taken to be even."""
    parts = np.arange(1, _POINTS + 1) / _POINTS - 1.0
    places = (np.arange(shares.size)[:, None] + parts).ravel()
    chances = np.repeat(shares / _POINTS, _POINTS)
    found = chances > 0.0
    return places[found], chances[found]


def _at(places: FloatArray, reached: FloatArray, quantile: float) -> float:
    """Return the first place at which this part is reached."""
    k = int(np.argmax(reached >= min(quantile, 1.0) * (1.0 - 1e-12)))
    return float(places[k])
