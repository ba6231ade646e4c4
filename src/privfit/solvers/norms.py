"""How long rows are in whitened coordinates, from released shares of rows by their norm."""

import math

import numpy as np

from privfit.problem.bounded_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.problem.plan import Release

_SEEN = 3.0
"""Standard deviations of noise that the share of rows beyond a norm must exceed to count."""


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
