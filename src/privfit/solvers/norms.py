"""How long rows are in some coordinates, from released shares of rows by their norm."""

import math

import numpy as np

from privfit.problem.bounded_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.problem.plan import Release
from privfit.solvers.histogram import Edge, believed, largest_seen, spread_out

LAST_NORM = 2.0 ** ((NORM_CLASSES - 1) / NORMS_A_DOUBLING)
"""Lower end of the norms of the last class, in units of the norm bound."""

_TOGETHER = 2
"""Classes that are read as one where what is usual is asked for."""


def longest_norm(release: Release) -> float:
    """Return about the largest norm that noise shows, relative to the norm bound.

    Parameters
    ----------
    release : Release
        Of kind ``"norms"``. Where noise hides all classes, rows are taken to be in the first.
    """
    return (largest_seen(release) or Edge(1, 1.0)).value


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
