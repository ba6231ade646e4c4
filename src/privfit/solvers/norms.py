"""How long rows are in some coordinates, from released shares of rows by their norm."""

import math

import numpy as np

from privfit.problem.bounded_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.problem.plan import Release
from privfit.solvers.histogram import believed, spread_out

_SEEN = 3.0
"""Standard deviations of noise that the share of rows beyond a norm must exceed to count."""

_TOGETHER = 2
"""Classes that are read as one where what is usual is asked for."""


def longest_norm(release: Release) -> float:
    """Return about the largest norm that is not too rare for noise to show it, relative to the norm bound.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``.

    Notes
    -----
    It is the upper edge of the highest class such that the share of rows in it and above exceeds three
    standard deviations of the noise in that share; without noise, a bound on all norms. ``inf`` for the last
    class, which is open. The share beyond a norm falls with it, so classes are gone through upwards from
    where it is clearest: one among many empty ones that exceeds three standard deviations is not asked.
    """
    beyond = np.cumsum(release.value[::-1])[::-1]
    in_noise = beyond / np.sqrt(np.arange(NORM_CLASSES, 0, -1))
    clearest, seen = int(np.argmax(in_noise)), in_noise > _SEEN * release.sd
    hidden = np.flatnonzero(~seen[clearest:])
    if not hidden.size:
        return math.inf
    edge = clearest + int(hidden[0]) if seen[clearest] else 1
    return 2.0 ** (edge / NORMS_A_DOUBLING)


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
