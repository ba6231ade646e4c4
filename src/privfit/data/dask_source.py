"""Sums over rows on a cluster, where their partitions lie."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar, final

import numpy as np
from dask.delayed import Delayed

from privfit._checks import FloatArray, IntArray
from privfit.data import partitions
from privfit.data.basis_norms import BasisBounds, BasisNorms, LastNorms
from privfit.data.blocks import Block, BlockKernel, UnitKernel, stacked
from privfit.data.caps import SlopeBounds
from privfit.data.dask_tasks import Beside, Kept, node, tasks_of
from privfit.data.partitions import Partition
from privfit.data.reduction import tree_sum
from privfit.data.source import ArraySource, Coins, chosen_rows
from privfit.errors import PlanViolation

FAN_IN = 8
"""Partitions of a group, sums that one task adds up, and the last that are added up here, at most."""

_ROWS = 2**17
"""Rows up to which groups of a sample are put together: a task takes longer to begin than to sum them."""

_BROUGHT = 2**22
"""Numbers up to which rows of a sample are brought here: to ask for a sum takes longer than to add it up."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class Units:
    """Private: name of the column that identifies privacy units, and how many there are."""

    name: str
    count: int


@final
class DaskSource:
    """Sums over rows on a cluster: a task for each group of partitions, whose sums a tree of tasks adds up.

    Parameters
    ----------
    kept : Kept
        The partitions of a group each (`Partition`).
    groups : list of tuple of int
        Numbers of the partitions of each group.
    lengths : list of int
        Numbers of rows of the partitions.
    norm_bound : float
        What bounds them.
    width : int
        Numbers of a row.
    units : Units, optional
        Privacy units of several rows.

    Notes
    -----
    *Guarantee.* A row is in each sum once, whichever workers are lost: Dask then encodes and sums their
    partitions anew. Noise is drawn by the oracle, once a release, for the finished sum. The order of
    additions depends on where partitions lie, and `summation_error` bounds the rounding of every order.
    """

    __slots__ = ("_groups", "_kept", "_last", "_norm_bound", "_starts", "_units", "_width")

    def __init__(
        self,
        kept: Kept,
        groups: list[tuple[int, ...]],
        lengths: list[int],
        *,
        norm_bound: float,
        width: int,
        units: Units | None = None,
    ) -> None:
        self._kept, self._groups, self._norm_bound, self._width = kept, groups, norm_bound, width
        self._units = units
        self._last: LastNorms[Kept] = LastNorms()
        self._starts = np.cumsum([0, *lengths])

    def __repr__(self) -> str:
        return "DaskSource(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("a row source holds private rows and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    @property
    def unit(self) -> str | None:
        """Name of the column by which rows were brought together; None if every row is a unit."""
        return None if self._units is None else self._units.name

    @property
    def n_units(self) -> int:
        """Number of privacy units."""
        return self.n_rows if self._units is None else self._units.count

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._norm_bound

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all rows, shape (size,)."""
        return self._sum(partitions.summed, kernel, size)

    def sum_units(self, kernel: UnitKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all units, shape (size,)."""
        return self._sum(partitions.summed_units, kernel, size)

    def _sum(self, work: Callable[..., Any], kernel: BlockKernel | UnitKernel, size: int) -> FloatArray:
        beside = Beside(size, {"kernel": kernel, "size": size})
        sums = tasks_of(work, "sum", [(group,) for group in self._kept.tasks], beside)
        while len(sums) > FAN_IN:
            groups = [tuple(sums[k : k + FAN_IN]) for k in range(0, len(sums), FAN_IN)]
            sums = tasks_of(partitions.combined, "add", groups)
        return np.array(tree_sum(self._kept.answers(sums)))

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order, a partition that has some at a time brought here."""
        for group, place in self._places():
            (rows,) = self._kept.answers(
                tasks_of(partitions.member, "member", [(self._kept.tasks[group], place)])
            )
            if rows.block.y.size:
                yield from rows.source.blocks()

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        which = np.searchsorted(self._starts, indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        parts, first = np.unique(which[order], return_index=True)
        local = np.split((indices - self._starts[which])[order], first[1:])
        places = self._places()
        wanted = [
            (self._kept.tasks[places[k][0]], places[k][1], node(rows))
            for k, rows in zip(parts, local, strict=True)
        ]
        taken = self._kept.answers(tasks_of(partitions.taken, "take", wanted))
        return stacked(taken).part(np.argsort(order))

    def exposed(self, shift: float, most: float) -> "DaskSource":
        """Return the same rows with offsets of at most ``most``, to which ``shift`` is added after that."""
        wanted = [(group,) for group in self._kept.tasks]
        tasks = tasks_of(partitions.exposed, "exposures", wanted, Beside(2, {"shift": shift, "most": most}))
        source = self._with(Kept(tasks, self._kept), self._norm_bound)
        source._last = self._last
        return source

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "DaskSource":
        """Return the same rows with weights that bound ``norm(basis.T @ x)``; see `BasisBounds`.

        Workers keep the norms in the last basis, for its multiples.
        """
        found, factor = self._last.within(basis, self._measured)
        bounds = BasisBounds(norm_bound, amplification, slopes)
        beside = Beside(basis.size, {"factor": factor, "bounds": bounds})
        wanted = list(zip(self._kept.tasks, found.tasks, strict=True))
        kept = Kept(tasks_of(partitions.weighted, "weights", wanted, beside), self._kept, found)
        return self._with(kept, norm_bound)

    def _with(self, kept: Kept, norm_bound: float) -> "DaskSource":
        """Return the same rows as they are kept otherwise."""
        lengths = list(np.diff(self._starts))
        return DaskSource(
            kept, self._groups, lengths, norm_bound=norm_bound, width=self._width, units=self._units
        )

    def sampled(self, coins: Coins, part: float) -> "DaskSource | ArraySource":
        """Return the rows for which a coin is true, and what is known of them; coins are thrown here.

        Workers keep them, in fewer groups where they are expected to be short; a sample that is expected to
        be short as a whole is brought here.
        """
        if self._units is not None:
            raise PlanViolation("rows that do not count alone are not sampled one by one")
        chosen, lengths = chosen_rows(coins, self.n_rows), np.diff(self._starts)
        ends = np.searchsorted(chosen, self._starts)
        rows = [
            (chosen[start:stop] - first).astype(np.min_scalar_type(int(length)))
            for first, start, stop, length in zip(
                self._starts[:-1], ends[:-1], ends[1:], lengths, strict=True
            )
        ]
        wanted = [node(tuple(rows[k] for k in group)) for group in self._groups]
        # what tasks there are must not depend on coins
        expected = [part * sum(lengths[k] for k in group) for group in self._groups]

        def picked(kept: list[Delayed]) -> list[Delayed]:
            return tasks_of(partitions.picked, "sample", list(zip(kept, wanted, strict=True)))

        if self._width * sum(expected) <= _BROUGHT:
            return self._brought(picked(self._kept.tasks))

        def put_together(kept: Kept) -> Kept:
            return Kept(_put_together(_neighbours(picked(kept.tasks), expected)), kept)

        groups = [tuple(chain(*some)) for some in _neighbours(self._groups, expected)]
        kept, found = put_together(self._kept), list(np.diff(ends))
        source = DaskSource(kept, groups, found, norm_bound=self._norm_bound, width=self._width)
        source._last = self._last.of(put_together)
        return source

    def _brought(self, tasks: list[Delayed]) -> ArraySource:
        """Return rows of all groups, in the order of the table, as a source in memory."""
        groups: tuple[tuple[Partition, ...], ...] = self._kept.answers(tasks)
        parts = [groups[group][place] for group, place in self._places()]
        return Partition.stacked(parts).source

    def _measured(self, norms: BasisNorms, old: Kept | None) -> Kept:
        """Return the norms of the rows of each group, which the workers keep."""
        del old
        beside = Beside(norms.size, {"norms": norms})
        wanted = [(group,) for group in self._kept.tasks]
        return Kept(tasks_of(partitions.measured, "norms", wanted, beside), self._kept)

    def _places(self) -> list[tuple[int, int]]:
        """Return the group that each partition is in, and its place there."""
        places = {
            k: (group, place) for group, held in enumerate(self._groups) for place, k in enumerate(held)
        }
        return [places[k] for k in range(len(places))]


_Item = TypeVar("_Item")


def _put_together(tasks: list[tuple[Delayed, ...]]) -> list[Delayed]:
    """Return a task for each of these, which joins the groups that they return."""
    joins = iter(tasks_of(partitions.joined, "join", [some for some in tasks if len(some) > 1]))
    return [some[0] if len(some) == 1 else next(joins) for some in tasks]


def _neighbours(items: list[_Item], lengths: list[float]) -> list[tuple[_Item, ...]]:
    """Return items in their order, neighbours together that have few rows in all."""
    found: list[tuple[_Item, ...]] = []
    total = 0.0
    for item, length in zip(items, lengths, strict=True):
        total += length
        if found and total <= _ROWS:
            found[-1] = (*found[-1], item)
        else:
            found.append((item,))
            total = length
    return found
