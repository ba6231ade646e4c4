"""Released shares of rows by class, and what of them noise has not made."""

import numpy as np

from privfit._checks import FloatArray

_SEEN = 2.0
"""Standard deviations of noise that a share beyond the largest one must exceed to count."""

_CLEAR = 3.5
"""Standard deviations that the largest share must exceed for the shares to say anything."""

_POINTS = 8
"""Points that stand for a class."""


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
    Beyond the largest share, those from the first one on that noise may have made are left out, so that
    noise does not pass for outliers.
    """
    mode = int(np.argmax(shares))
    if shares[mode] <= _CLEAR * noise:
        return None
    kept = np.maximum(shares, 0.0)
    lost = np.flatnonzero(shares[mode:] <= _SEEN * noise)
    if lost.size:
        kept[mode + lost[0] :] = 0.0
    return kept / kept.sum()


def spread_out(shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return places and their chances for rows that are spread evenly in each class, from k to k + 1."""
    places = (np.arange(shares.size)[:, None] + np.arange(1, _POINTS + 1) / _POINTS).ravel()
    chances = np.repeat(shares / _POINTS, _POINTS)
    found = chances > 0.0
    return places[found], chances[found]
