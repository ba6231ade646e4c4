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
    class, which is open.
    """
    beyond = np.cumsum(release.value[::-1])[::-1]
    noise = _SEEN * release.planned.sd * np.sqrt(np.arange(NORM_CLASSES, 0, -1))
    seen = np.flatnonzero(beyond > noise)
    highest = int(seen[-1]) if seen.size else 0
    return math.inf if highest == NORM_CLASSES - 1 else 2.0 ** ((highest + 1) / NORMS_A_DOUBLING)


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
    shares = believed(together, release.planned.sd * math.sqrt(_TOGETHER))
    if shares is None:
        return None
    places, chances = spread_out(shares)
    reached = int(np.argmax(np.cumsum(chances) >= part * (1.0 - 1e-12)))
    return float(2.0 ** (places[reached] * _TOGETHER / NORMS_A_DOUBLING))
