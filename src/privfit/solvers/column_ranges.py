"""Where the numbers of a column lie, from noisy shares of rows by place."""

import math
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from scipy.stats import norm

from privfit._checks import FloatArray

Interval: TypeAlias = tuple[float, float]

_FALSE_ALARM = 1e-3
"""Chance that noise passes for rows anywhere in the looks at a table."""

_TAIL = 1e-3
"""Share of the rows that may lie beyond either end, besides those that noise hides."""

_LONGEST = 5
"""Doublings of the number of places that are looked at together, from one on."""

_MOST_HIDDEN, _MOST_LEFT_OUT = 0.25, 0.3
"""Share of rows that noise may hide beyond an end, and that seem to lie beyond both: where it is more, bounds
would cut off too much."""


@final
@dataclass(frozen=True, slots=True)
class Visible:
    """What tells rows from noise.

    Parameters
    ----------
    noise : float
        Standard deviation of the noise in a share.
    deviations : float
        Of noise that the share in one place must exceed.
    """

    noise: float
    deviations: float

    @classmethod
    def among(cls, places: int, noise: float, *, gaussian: bool) -> "Visible":
        """Return what noise exceeds with a chance of `_FALSE_ALARM` in any of so many places.

        Each is looked at in sums of 1, 2, 4, ... from either side. Laplace noise has the wider tail in a
        single place, and sums of it a narrower one.
        """
        chance = _FALSE_ALARM / (2 * _LONGEST * places)
        least = norm.isf(chance) if gaussian else -math.log(2.0 * chance) / math.sqrt(2.0)
        return cls(noise, float(least))

    def above(self, places: int) -> float:
        """Return the share in so many places together that noise does not reach."""
        return self.deviations * self.noise * math.sqrt(places)


@final
@dataclass(frozen=True, slots=True)
class End:
    """The first place with rows, seen from one side, and the share of rows that may lie before it."""

    place: int
    hidden: float


def first_seen(shares: FloatArray, visible: Visible, *, tail: float = 0.0) -> End | None:
    """Return where rows begin, from the first place up; None if noise may have made all.

    Parameters
    ----------
    shares : array of shape (k,)
        Of rows by place.
    visible : Visible
    tail : float
        Share of rows that may lie before the end.

    Notes
    -----
    Rows begin with the shortest run of 1, 2, 4, ... places whose share exceeds what noise and the tail
    explain, among the runs that end first.
    """
    below = np.concatenate([[0.0], np.cumsum(shares)])
    ends: list[tuple[int, int]] = []
    for length in 2 ** np.arange(_LONGEST):
        limit = tail + visible.above(int(length))
        seen = np.flatnonzero(below[length:] - below[:-length] > limit)
        if seen.size:
            ends.append((int(seen[0] + length), int(length)))
    if not ends:
        return None
    last, length = min(ends)
    return End(last - length, min(tail + visible.above(length), 1.0))


def seen(shares: FloatArray, visible: Visible, *, tail: float = 0.0) -> tuple[End, End] | None:
    """Return where rows begin and, counted from the first place as well, the last place that holds some."""
    first = first_seen(shares, visible, tail=tail)
    last = first_seen(shares[::-1], visible, tail=tail)
    if first is None or last is None:
        return None
    return first, End(shares.size - 1 - last.place, last.hidden)


def middle_half(shares: FloatArray, visible: Visible) -> tuple[int, int] | None:
    """Return the places of the two quartiles of the rows; None if noise may have made all.

    Places before the first and after the last that noise does not hide are left out.
    """
    ends = seen(shares, visible)
    if ends is None:
        return None
    first, last = sorted(end.place for end in ends)
    below = np.maximum.accumulate(np.cumsum(shares[first : last + 1]))
    quartiles = np.searchsorted(below, np.array([0.25, 0.75]) * below[-1])
    low, high = np.minimum(first + quartiles, last)
    return int(low), int(high)


def drawn_out(hidden: float) -> float:
    """Return how much further than its visible end a normal tail reaches until `_TAIL` lies beyond.

    Parameters
    ----------
    hidden : float
        Share of rows that may lie beyond the visible end; less than a half.
    """
    return max(float(norm.isf(_TAIL) / norm.isf(hidden)), 1.0)


def extent(
    around: FloatArray, shares: FloatArray, visible: Visible, *, centre: float, total: float
) -> Interval | None:
    """Return bounds that nearly all rows lie within; None if noise may have made all, or hides many.

    Parameters
    ----------
    around : array of shape (k + 1,)
        Lower and upper edges of the places, in increasing order.
    shares : array of shape (k,)
        Of rows by place.
    visible : Visible
    centre : float
        About which tails are drawn out. Bounds on one side of 0 stay there.
    total : float
        Share of the rows that have a number.
    """
    ends = seen(shares, visible, tail=_TAIL)
    if ends is None or max(end.hidden for end in ends) > _MOST_HIDDEN:
        return None
    first, last = ends
    if total - float(shares[first.place : last.place + 1].sum()) > _MOST_LEFT_OUT:
        return None  # they are spread over so many places that no run of these is seen
    low, high = float(around[first.place]), float(around[last.place + 1])
    lower = min(low, centre - (centre - low) * drawn_out(first.hidden))
    upper = max(high, centre + (high - centre) * drawn_out(last.hidden))
    lower, upper = max(lower, 0.0) if low >= 0.0 else lower, min(upper, 0.0) if high <= 0.0 else upper
    return (lower, upper) if lower < upper else None
