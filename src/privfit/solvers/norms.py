"""How long rows are in some coordinates, from released shares of rows by their norm."""

import math

import numpy as np

from privfit.problem.plan import Release
from privfit.problem.share_kernels import NORMS_A_DOUBLING
from privfit.solvers.histogram import CERTAIN, Edge, believed, largest_seen, spread_out, upper_edge

_TOGETHER = 2
"""Classes that are read as one where what is usual is asked for."""

_HEAVIER = 0.4
"""Exponent of the tail that is hidden, relative to the one that is shown."""

_LEAST_POWER = 0.5
"""Exponent of the heaviest tail that is believed."""

_REACH = 0.7
"""The largest slope possible at a row, relative to the largest there is; usual for binary responses."""


def longest_norm(release: Release) -> float:
    """Return about the largest norm that noise shows, relative to the norm bound.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``. Where noise hides all classes, rows are taken to be in the first.
    """
    return (largest_seen(release) or Edge(1, 1.0)).value


def longest_hidden(release: Release, n_rows: int) -> float:
    """Return about the norm that one of so many rows exceeds, relative to the norm bound.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``.
    n_rows : int

    Returns
    -------
    float
        ``inf`` where noise hides what is usual.

    Notes
    -----
    Let noise hide a share ``h`` of the rows beyond the norm ``q``, and half of the rows keep within ``m``.
    With a survival function ``exp(-(r / a)**k)`` these two say what ``k`` is; beyond ``q`` it is taken to be
    two fifths of that, as tails that are heavier far out than near are common.
    """
    seen, usual = largest_seen(release), usual_norm(release, 0.5)
    if seen is None or usual is None:
        return math.inf
    if seen.hidden * n_rows <= 1.0:
        return seen.value
    far, farthest = math.log(1.0 / min(seen.hidden, 0.5)), math.log(n_rows)
    power = math.log(far / math.log(2.0)) / math.log(max(seen.value / usual, 1.01))
    return seen.value * (farthest / far) ** (1.0 / max(_HEAVIER * power, _LEAST_POWER))


def outliers(release: Release) -> tuple[float, float]:
    """Return the upper edge of the highest class that certainly holds rows, and their share; 0 if none does.

    Rows of a rare level are far out together, beyond a gap. The share of rows beyond the gap has the noise of
    all empty classes in it and may be hidden from `longest_norm`, where that of their own class is not.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``.
    """
    certain = np.flatnonzero(release.value > CERTAIN * release.sd)
    if not certain.size:
        return 0.0, 0.0
    last = int(certain[-1])
    return upper_edge(last + 1), float(release.value[last])


def usual_norm(release: Release, part: float) -> float | None:
    """Return about the norm that this part of the rows keeps within, relative to the norm bound.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``.
    part : float
        In (0, 1].

    Returns
    -------
    float or None
        None where noise hides it. At least 1, as the first class holds all rows within the bound.
    """
    together = release.value.reshape(-1, _TOGETHER).sum(axis=1)
    shares = believed(together, release.sd * math.sqrt(_TOGETHER))
    if shares is None:
        return None
    places, chances = spread_out(shares)
    reached = int(np.argmax(np.cumsum(chances) >= part * (1.0 - 1e-12)))
    return float(2.0 ** (places[reached] * _TOGETHER / NORMS_A_DOUBLING))


def room_for(norm: float, share: float, dimension: float) -> float:
    """Return the limit on rows that is best where a share of them has this norm, all in one direction.

    Parameters
    ----------
    norm : float
        Of the rows of a rare level, in coordinates that are whitened.
    share : float
        Of these rows.
    dimension : float
        Expected squared norm d of a row.

    Notes
    -----
    Noise is in proportion to the limit c in all directions. In theirs the curvature is that of these rows,
    and falls by ``(c / norm)**2``. So variances add up to ``c**2 (d - e + e (norm / c)**4)``, where they
    have ``e = share * norm**2`` of the d dimensions; it is taken to be half of them at most.
    """
    theirs = min(share * norm**2, 0.5 * dimension)
    return norm * (theirs / (dimension - theirs)) ** 0.25


def best_limit(
    release: Release, *, noise: float, dimension: float, n_rows: int, scatter: float
) -> float | None:
    """Return the norm beyond which rows are best weighted down, relative to the norm bound.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``.
    noise : float
        Standard deviation of the noise in an entry of the combined gradient, in units of the limit.
    dimension : float
        Entries' worth of noise.
    n_rows : int
    scatter : float
        Mean squared slope, relative to the squared bound on slopes.

    Returns
    -------
    float or None
        None where noise hides the norms.

    Notes
    -----
    Rows of norm ``s`` get the weights ``w = min(1, c / (r s))``, with ``r`` the reach of slopes, and the
    curvature falls to the part ``F = E w s**2 / E s**2``. Where the model is right the noise moves the
    estimate by a squared ``d (noise c / F)**2``, and the weights by ``scatter E s**2 (1 - w / F)**2 / n``,
    the difference of the two influence functions; see `privfit.solvers.sizes.best_cut`. Their sum is least
    at the limit that is returned.
    """
    shares = believed(release.value, release.sd)
    if shares is None:
        return None
    places, chances = spread_out(shares)
    norms = 2.0 ** (places / NORMS_A_DOUBLING)
    energy = norms**2 * chances
    weights = np.minimum(1.0, norms[:, None] / (_REACH * norms))
    kept = weights @ energy / energy.sum()
    moved = scatter * (1.0 - weights / kept[:, None]) ** 2 @ energy / n_rows
    error = dimension * (noise * norms / kept) ** 2 + moved
    return float(norms[np.argmin(error)])
