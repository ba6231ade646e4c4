"""Whether residuals are on a grid that is coarse beside what smooths them, as those of counts are."""

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.solvers.residuals import BOTH_EDGES, CLEAR, EDGES, Residuals, even_within, first_with

_FEW = 0.25
"""Part of an even density below which nobody is said to be between two residuals."""


def spacing(seen: Residuals, share: float, n_rows: int) -> float:
    """Return about how far apart neighbouring residuals near 0 are, or 0 where no gap between them shows.

    Two classes that certainly hold residuals are neighbours if those between them hold far fewer than
    residuals that are even would. They are somewhere in their classes: the distance is that of the outer
    edges, which may be up to twice theirs.

    Parameters
    ----------
    seen : Residuals
        In whose unit the distance is.
    share : float
        Of the residuals, beside those in the class next to 0, that are near.
    n_rows : int
        From whose number it follows how uneven shares are by chance.
    """
    held = np.flatnonzero(seen.shares > CLEAR * seen.noise)
    if held.size < 2:
        return 0.0
    last = first_with(share, even_within(_beside_nearest(seen.sizes, seen.shares, held)))
    if last is None:
        return 0.0
    left, right = held[:-1], held[1:]
    low, high = BOTH_EDGES[left + 1], BOTH_EDGES[right]
    few = _FEW * max(float(seen.certain[last]), 0.0) / (2.0 * EDGES[last]) * (high - low)
    below = np.cumsum(seen.shares)
    noise = np.sqrt(seen.noise**2 * (right - left - 1) + few / n_rows)
    empty = np.flatnonzero(below[right - 1] - below[left] < few - CLEAR * noise)
    if not empty.size:
        return 0.0
    low, high = low[empty], high[empty]
    away = np.where((low <= 0.0) & (high >= 0.0), 0.0, np.maximum(-low, high))
    nearest = int(np.argmin(away))
    start = np.append(BOTH_EDGES[held[0]], high)[:-1]
    stop = np.append(low, BOTH_EDGES[held[-1] + 1])[1:]
    between = low - start if low[nearest] > 0.0 else stop - high
    if away[nearest] > EDGES[last] or (away[nearest] > 0.0 and between[nearest] > (high - low)[nearest]):
        return 0.0
    gap = empty[nearest]
    return float(BOTH_EDGES[right[gap] + 1] - BOTH_EDGES[left[gap]])


def _beside_nearest(sizes: FloatArray, shares: FloatArray, held: NDArray[np.int64]) -> FloatArray:
    """Return shares by size without those of the class next to 0 that certainly holds residuals."""
    orders = np.where(held < sizes.size, sizes.size - 1 - held, held - sizes.size)
    nearest = np.argmin(orders)
    found = sizes.copy()
    found[orders[nearest]] -= shares[held[nearest]]
    return found
