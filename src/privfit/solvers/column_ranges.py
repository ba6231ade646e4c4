"""Where the numbers of a column lie, from noisy shares of rows by place."""

import math
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np
from scipy.stats import norm

from privfit._checks import FloatArray
from privfit.solvers.tails import end_bound, tail_bound

Interval: TypeAlias = tuple[float, float]

_FALSE_ALARM, _LOOKS = 1e-3, 3
"""Chance that noise passes for rows anywhere in so many looks at a table."""

_LONGEST = 5
"""Doublings of the number of places that are looked at together, from one on."""

_MOST_OF_TAIL, _ROOM = 0.1, 7.5
"""Share of the rows of a side in the last places that are seen: where it is more, little is seen of how the
tail falls, and it reaches so many times as far as half of these rows, five deviations of a normal law."""

_TAIL = 1e-3
"""Share of the rows up to which a normal tail is drawn out."""

_BIAS = 0.3
"""What rows beyond bounds may move a mean by, in usual distances over the root of the number of rows: a fifth
of its standard error for a normal law."""

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

        Each is looked at in sums of 1, 2, 4, ..., in each of three looks. Laplace noise has the wider tail in
        a single place, and sums of it a narrower one.
        """
        chance = _FALSE_ALARM / (_LOOKS * _LONGEST * places)
        least = norm.isf(chance) if gaussian else -math.log(2.0 * chance) / math.sqrt(2.0)
        return cls(noise, float(least))

    def above(self, places: int) -> float:
        """Return the share in so many places together that noise does not reach."""
        return self.deviations * self.noise * math.sqrt(places)


@final
@dataclass(frozen=True, slots=True)
class End:
    """The first run of places with rows, from one side, and the share of rows that it must hold to be seen.

    Parameters
    ----------
    first, last : int
        Places of the run, counted from the side that it is seen from.
    hidden : float
        So many rows may lie before it.
    """

    first: int
    last: int
    hidden: float


def first_seen(shares: FloatArray, visible: Visible) -> End | None:
    """Return where rows begin, from the first place up; None if noise may have made all.

    Parameters
    ----------
    shares : array of shape (k,)
        Of rows by place.
    visible : Visible

    Notes
    -----
    Rows begin with the shortest run of 1, 2, 4, ... places whose share exceeds what noise explains, among the
    runs that end first.
    """
    below = np.concatenate([[0.0], np.cumsum(shares)])
    ends: list[tuple[int, int]] = []
    for length in 2 ** np.arange(_LONGEST):
        together = below[length:] - below[:-length]
        seen = np.flatnonzero(together > visible.above(int(length)))
        if seen.size:
            ends.append((int(seen[0] + length), int(length)))
    if not ends:
        return None
    after, length = min(ends)
    return End(after - length, after - 1, min(visible.above(length), 1.0))


def seen(shares: FloatArray, visible: Visible) -> tuple[End, End] | None:
    """Return where rows begin from either side; None if noise may have made all."""
    first, last = first_seen(shares, visible), first_seen(shares[::-1], visible)
    return None if first is None or last is None else (first, last)


def middle_half(shares: FloatArray, visible: Visible) -> tuple[int, int] | None:
    """Return the places of the two quartiles of the rows; None if noise may have made all.

    Places before the first and after the last that noise does not hide are left out.
    """
    ends = seen(shares, visible)
    if ends is None:
        return None
    first, last = sorted((ends[0].first, shares.size - 1 - ends[1].first))
    below = np.maximum.accumulate(np.cumsum(shares[first : last + 1]))
    quartiles = np.searchsorted(below, np.array([0.25, 0.75]) * below[-1])
    low, high = np.minimum(first + quartiles, last)
    return int(low), int(high)


def extent(
    around: FloatArray, shares: FloatArray, visible: Visible, *, centre: float, rows: float
) -> Interval | None:
    """Return bounds that nearly all rows lie within; None if noise may have made all, or hides many.

    Parameters
    ----------
    around : array of shape (k + 1,)
        Lower and upper edges of the places, in increasing order.
    shares : array of shape (k,)
        Of rows by place, among those that have a number.
    visible : Visible
        In the same unit.
    centre : float
        From where tails are drawn out. Bounds on one side of 0 stay there.
    rows : float
        Number of rows that have a number.
    """
    ends = seen(shares, visible)
    if ends is None or max(end.hidden for end in ends) > _MOST_HIDDEN:
        return None
    first, last = ends[0].first, shares.size - 1 - ends[1].first
    if 1.0 - float(shares[first : last + 1].sum()) > _MOST_LEFT_OUT:
        return None  # they are spread over so many places that no run of these is seen
    low, high = float(around[first]), float(around[last + 1])
    lower = centre - reach(centre - around[::-1], shares[::-1], ends[0], rows)
    upper = centre + reach(around - centre, shares, ends[1], rows)
    lower, upper = max(lower, 0.0) if low >= 0.0 else lower, min(upper, 0.0) if high <= 0.0 else upper
    return (lower, upper) if lower < upper else None


def reach(away: FloatArray, shares: FloatArray, end: End, rows: float) -> float:
    """Return the distance from the centre up to which a side holds nearly all of its rows.

    Parameters
    ----------
    away : array of shape (k + 1,)
        Distances of the edges from the centre, increasing; negative on the other side.
    shares : array of shape (k,)
        Of rows between these.
    end : End
        Counted from the last place.
    rows : float
        Number of rows.

    Notes
    -----
    Rows beyond bounds pull a mean inwards. That is to be a small part of its standard error, as far as the
    tail is like what is seen of it: half of the rows of the side keep within one distance, and the run of
    places at its end holds a share of them beyond another, and may leave out another; see `tail_bound` and
    `end_bound`. Where noise hides most of the tail it is taken to be as long as a normal one.
    """
    outer, inner = float(away[-1 - end.first]), float(away[-2 - end.last])
    if outer <= 0.0 or end.hidden == 0.0:
        return outer
    side = np.maximum(np.where(away[1:] > 0.0, shares, 0.0)[: shares.size - end.first], 0.0)
    whole, run = float(side.sum()), float(side[shares.size - 1 - end.last :].sum())
    usual = float(away[np.searchsorted(np.cumsum(side), 0.5 * whole) + 1])
    if inner <= usual or run >= 0.5 * whole:
        return outer * _further(end.hidden)
    excess, share, hidden = _BIAS * usual / math.sqrt(rows), run / whole, end.hidden / whole
    far = _ROOM * usual if share > _MOST_OF_TAIL else tail_bound(usual, inner, share, excess)
    if hidden < share:
        far = min(far, end_bound(inner, share, outer, hidden, excess))
    return max(outer, far)


def _further(hidden: float) -> float:
    """Return how many times as far as its end that hides a share of all rows a normal tail reaches."""
    return 1.0 if hidden <= _TAIL else float(norm.isf(_TAIL) / norm.isf(hidden))
