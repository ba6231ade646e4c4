"""Bounds on the columns of a table, from three looks at where their numbers lie."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import allowance_of
from privfit.procedures.column_places import ColumnPlaces
from privfit.solvers.column_ranges import Interval, Visible, extent, middle_half
from privfit.solvers.histogram import counting_part

_LOOKS = (1.0, 1.0, 4.0)
"""Parts of the squared budget: quartiles are seen with less than tails."""

_OCTAVES = 104
"""Doublings from the smallest size that is told from 0 to the largest."""

_PARTS = 16
"""Equal parts of the middle half."""

_NEAREST, _HALF_OCTAVES = -8, 2 * _OCTAVES + 9
"""Distance from the centre in the last look, in half doublings of half the middle half, and their number."""

_ONE_VALUE = 4.0
"""Length of bounds, in units of the smallest size, up to which all seems to be 0."""

_EVERYWHERE = (-1.0, 1.0)


@final
@dataclass(frozen=True, slots=True)
class ColumnLook:
    """Look at numbers within [-1, 1], those of the columns after a constant one, and say where each lies.

    Parameters
    ----------
    n_columns : int
        The columns, and one more if the response is looked at, too.

    Notes
    -----
    *Guarantee.* The looks cost what was planned for them; nothing else of the rows is asked.

    The first look counts rows by sign and size, in doublings: it tells the quartiles to within a factor of
    two. The second divides the interval that holds them in equal parts. The last counts by the distance from
    the middle of the quartiles, on either side, in half doublings of half their distance: long tails and
    short ones, near 0 and far from it, are each in a few places. From that the ends are found.
    """

    n_columns: int

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Return the three looks that together cost ``allowance``."""
        grids = (_sizes(), _parts(*_EVERYWHERE), _distances(*_EVERYWHERE))
        return tuple(
            ColumnPlaces((grid,) * self.n_columns, part).planned(problem)
            for grid, part in zip(grids, allowance.split(_LOOKS), strict=True)
        )

    def run(self, problem: Problem, oracle: Oracle) -> tuple[Interval | None, ...]:
        """Return bounds for each of the columns, for the response last.

        None where noise hides all rows, or shows no number but 0.
        """
        middles = [look.middle() for look in _ask(problem, oracle, (_sizes(),) * self.n_columns)]
        rough = [one or _EVERYWHERE for one in middles]
        second = _ask(problem, oracle, tuple(_parts(*one) for one in rough))
        fine = [look.inner.middle() or one for look, one in zip(second, rough, strict=True)]
        last = _ask(problem, oracle, tuple(_distances(*one) for one in fine))
        ends = [
            look.among(counting_part(other.shares, other.visible.noise)).extent(_centre(*one), problem.n_rows)
            for look, other, one in zip(last, second, fine, strict=True)
        ]
        return tuple(None if one is None else found for one, found in zip(middles, ends, strict=True))


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """What a release shows of one column: shares (k,) of rows in the places between edges (k + 1,)."""

    around: FloatArray
    shares: FloatArray
    visible: Visible
    part: float = 1.0

    @property
    def inner(self) -> "_Look":
        """What it shows of the rows between the first and the last edge that was asked."""
        return _Look(self.around[1:-1], self.shares[1:-1], self.visible)

    def middle(self) -> Interval | None:
        """Return an interval that holds the quartiles."""
        places = middle_half(self.shares, self.visible)
        return None if places is None else (float(self.around[places[0]]), float(self.around[places[1] + 1]))

    def among(self, part: float) -> "_Look":
        """Return what it shows of the rows that have a number, a part of all."""
        return _Look(
            self.around, self.shares / part, replace(self.visible, noise=self.visible.noise / part), part
        )

    def extent(self, centre: float, n_rows: int) -> Interval | None:
        """Return bounds that nearly all rows lie within."""
        found = extent(self.around, self.shares, self.visible, centre=centre, rows=self.part * n_rows)
        if found is None:
            return None
        low, high = max(found[0], -1.0), min(found[1], 1.0)
        return None if high - low <= _ONE_VALUE * 2.0**-_OCTAVES else (low, high)


def _ask(problem: Problem, oracle: Oracle, edges: tuple[FloatArray, ...]) -> list[_Look]:
    """Return what the next release shows of each column."""
    planned = oracle.plan.releases[len(oracle.released)]
    procedure = ColumnPlaces(edges, allowance_of(planned))
    release = oracle.carry_out(procedure, np.array(problem.start))
    visible = Visible.among(release.value.size, release.sd, gaussian=release.planned.epsilon is None)
    return [
        _Look(np.concatenate([[-1.0], one, [1.0]]), shares, visible)
        for one, shares in zip(edges, procedure.parts(release.value), strict=True)
    ]


def _sizes() -> FloatArray:
    """Return edges in doublings on either side of 0."""
    sizes = np.exp2(np.arange(-_OCTAVES, 0.0))
    return np.concatenate([-sizes[::-1], sizes])


def _parts(low: float, high: float) -> FloatArray:
    """Return the edges of equal parts."""
    return np.linspace(low, high, _PARTS + 1)


def _distances(low: float, high: float) -> FloatArray:
    """Return edges in half doublings on either side of a centre, of half the length of an interval."""
    away = 0.5 * (high - low) * np.exp2(0.5 * np.arange(_NEAREST, _NEAREST + _HALF_OCTAVES))
    return np.concatenate([_centre(low, high) - away[::-1], _centre(low, high) + away])


def _centre(low: float, high: float) -> float:
    return 0.5 * (low + high)
