"""How far rows' gradients are let count, from released shares of rows by the size of their gradient."""

from dataclasses import dataclass

import numpy as np

from privfit.problem.bounded_kernels import SIZE_ORIGIN
from privfit.problem.plan import Release
from privfit.solvers.histogram import believed, spread_out

_ONE_SIDED = 0.15
"""Part of what is cut off that is taken to be on one side, as errors may be skewed."""

LEAST_UNCUT = 0.38
"""Smallest part of the rows whose gradients are not cut: with less there is too little curvature."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where gradients are cut, relative to the bound on the slope, and what part of the rows is not."""

    size: float
    uncut: float


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
    shares = believed(release.value, release.sd)
    if shares is None:
        return None
    places, chances = spread_out(shares)
    sizes = 2.0 ** (places - 1.0 - SIZE_ORIGIN)
    uncut = np.cumsum(chances)
    cuts = np.minimum(sizes, sizes[:, None])
    spread = ((sizes - cuts / uncut[:, None]) ** 2) @ chances / n_rows
    lean = (_ONE_SIDED * ((sizes - cuts) @ chances) / uncut) ** 2 / dimension
    error = dimension * (noise * sizes / uncut) ** 2 + spread + lean
    best = int(np.argmin(np.where(uncut >= LEAST_UNCUT, error, np.inf)))
    return Cut(float(sizes[best]), float(uncut[best]))
