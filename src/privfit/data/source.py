"""Where rows live: one restartable map-reduce over blocks of encoded rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit._threads import each_part
from privfit.data.basis_norms import BasisBounds, BasisNorms, LastNorms, RowNorms
from privfit.data.blocks import (
    Block,
    BlockKernel,
    CodedBlock,
    CodedKernel,
    Pick,
    RowTerms,
    TravellingKernel,
    UnitKernel,
)
from privfit.data.caps import SlopeBounds
from privfit.data.clamp import SMALLEST_NORMAL, Weighting, influence_weights
from privfit.data.coded import CodedMatrix, Matrix
from privfit.data.identifiers import NOBODY
from privfit.data.reduction import CHUNK_ROWS, FEW_CHUNKS, chunk_rows, each_stretch, sum_chunks
from privfit.data.room import AbstractRoom, InMemory
from privfit.data.shares import RowShares
from privfit.errors import PlanViolation

_TOSSED, _SEEN = 1024 * CHUNK_ROWS, FEW_CHUNKS * CHUNK_ROWS
"""Coins that are tossed together, and those of them that a thread looks at at a time."""

_STRETCH = 64 * CHUNK_ROWS
"""Rows that a thread picks at a time."""

_UNIT_NUMBERS = 2**22
"""Numbers of the terms of units that are in memory together."""

_AT_ONCE = 2**24
"""Bytes of an array up to which its memory is not given back before all of its rows are picked."""

MOST_ROWS = 10**10
"""Rows that a table may have; more than any machine holds, and far from overflow."""


Coins: TypeAlias = Callable[[int], NDArray[np.bool_]]
"""``coins(n)`` returns n independent truths, which know nothing of the rows."""


class RowSource(Protocol):
    """A table that can be summed over, as often as wanted."""

    @property
    def n_rows(self) -> int:
        """Number of rows, those with weight 0 included."""
        ...

    @property
    def unit(self) -> str | None:
        """Name of the column by which rows were grouped to privacy units; None if every row is one."""
        ...

    @property
    def n_units(self) -> int:
        """Number of privacy units, those that count nothing included."""
        ...

    @property
    def norm_bound(self) -> float:
        """Bound that every row's ``sqrt(weight) * norm(x)`` satisfies."""
        ...

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all rows, shape (size,)."""
        ...

    def sum_units(self, kernel: UnitKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all units, shape (size,)."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order, in blocks."""
        ...

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        ...

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "RowSource":
        """Return the same rows with weights that bound ``norm(basis.T @ x)``; see `BasisBounds`."""
        ...

    def exposed(self, shift: float, most: float) -> "RowSource":
        """Return the same rows with offsets of at most ``most``, to which ``shift`` is added after that."""
        ...

    def sampled(self, coins: Coins, part: float) -> "RowSource":
        """Return the rows for which a coin is true, where a coin is true with probability ``part``."""
        ...


class ArraySource:
    """Encoded rows in memory. The constructor sets the weights, so that no unbounded row can exist.

    Parameters
    ----------
    x : array of shape (n, p), or CodedMatrix
        Encoded predictors, with the intercept column.
    y : array of shape (n,)
        Encoded response.
    norm_bound : float
        Bound on ``sqrt(weight) * norm(x)``; rows beyond it get the Mallows weight
        ``norm_bound**2 / norm(x)**2``, rows with a non-finite entry get weight 0.
    weighting : callable
        `influence_weights`, or `schweppe_weights`, which scales rows instead.
    shares : RowShares, optional
        How much each row counts, and which unit it belongs to.
    offset : array of shape (n,), optional
        What is added to the linear predictor of each row, finite.

    Notes
    -----
    Coded rows are written out ``CHUNK_ROWS`` at a time, for those kernels that know arrays only.
    """

    __slots__ = ("_block", "_last", "_norm_bound", "_room", "_shares")

    def __init__(
        self,
        x: Matrix,
        y: FloatArray,
        *,
        norm_bound: float,
        weighting: Weighting = influence_weights,
        shares: RowShares | None = None,
        offset: FloatArray | None = None,
    ) -> None:
        weight, x, y = weighting(x, y, norm_bound=norm_bound)
        share = None if shares is None else shares.among(weight > 0.0)
        self._block = _block(x, y, weight, share, offset)
        self._norm_bound, self._room, self._shares = norm_bound, InMemory(), shares
        self._last: LastNorms[RowNorms] = LastNorms()

    @classmethod
    def of_bounded(
        cls,
        block: "Block | CodedBlock",
        norm_bound: float,
        room: AbstractRoom,
        shares: RowShares | None = None,
    ) -> "ArraySource":
        """Return a source of rows that a weighting has bounded by ``norm_bound`` before."""
        source = cls.__new__(cls)
        source._block, source._norm_bound, source._room, source._shares = block, norm_bound, room, shares
        source._last = LastNorms()
        return source

    def __repr__(self) -> str:
        return "ArraySource(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("a row source holds private rows and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._block.y.size

    @property
    def unit(self) -> str | None:
        """Name of the column that identifies the privacy unit, or None."""
        return None if self._shares is None else self._shares.rule.unit

    @property
    def n_units(self) -> int:
        """Number of privacy units."""
        return self.n_rows if self._shares is None else self._shares.n_units

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._norm_bound

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "ArraySource":
        """Return the same rows with weights that bound ``norm(basis.T @ x)``; see `BasisBounds`.

        Norms in the last basis are kept, for its multiples.
        """
        found, factor = self._last.within(basis, self.measured)
        return self.weighted(found, factor, BasisBounds(norm_bound, amplification, slopes))

    def measured(self, norms: BasisNorms, into: RowNorms | None = None) -> RowNorms:
        """Return the norms of all rows in other coordinates, written over old ones if there are any."""
        found = RowNorms.blank(self.n_rows, self._room) if into is None else into

        def work(rows: slice) -> None:
            norms.fill(self._block.x[rows], found.picked(itemgetter(rows)))
            self._room.leave(rows)

        each_stretch(work, self.n_rows)
        return found

    def weighted(self, norms: RowNorms, factor: float, bounds: BasisBounds) -> "ArraySource":
        """Return the same rows with weights that keep ``factor`` times the norms within the bounds."""
        block, influence = self._block, self._room.new(self.n_rows)
        weight = influence if block.parts is None else self._room.new(self.n_rows)
        caps = None if bounds.slopes is None else self._room.new(self.n_rows)

        def work(rows: slice) -> None:
            bounds.fill(norms.picked(itemgetter(rows)), factor, block.influence[rows], influence[rows])
            if bounds.slopes is not None and caps is not None:
                offset = None if block.offset is None else block.offset[rows]
                steep = bounds.slopes.steepness(block.x[rows], offset)
                bounds.slopes.fill(steep, factor * norms.size[rows], influence[rows], caps[rows])
            if block.parts is not None:
                share_out(influence[rows], block.share[rows], weight[rows])
            self._room.leave(rows)

        each_stretch(work, self.n_rows)
        parts = None if block.parts is None else (influence, block.share)
        turned = replace(block, weight=weight, parts=parts, caps=caps)
        return ArraySource.of_bounded(turned, bounds.norm_bound, self._room, self._shares)

    def exposed(self, shift: float, most: float) -> "ArraySource":
        """Return the same rows with offsets of at most ``most``, to which ``shift`` is added after that.

        The response is smaller by the factor by which ``exp`` of the offset is: as if a count had been
        gathered over that much less.
        """
        block, given = self._block, self._block.offset
        if given is None:
            raise PlanViolation("rows without exposures have none to hold")
        y, offset = self._room.new(self.n_rows), self._room.new(self.n_rows)

        def work(rows: slice) -> None:
            held = np.minimum(given[rows], most)
            y[rows] = block.y[rows] * np.exp(held - given[rows])
            offset[rows] = held + shift
            self._room.leave(rows)

        each_stretch(work, self.n_rows)
        held = replace(block, y=y, offset=offset)
        source = ArraySource.of_bounded(held, self._norm_bound, self._room, self._shares)
        source._last = self._last
        return source

    def sampled(self, coins: Coins, part: float) -> "ArraySource":
        """Return copies, in memory, of the rows for which a coin is true, and of what is known of them."""
        del part
        if self._shares is not None:
            raise PlanViolation("rows that do not count alike, or not alone, are not sampled one by one")
        pick = self._picker(coins)
        source = ArraySource.of_bounded(self._block.picked(pick), self._norm_bound, InMemory())
        source._last = self._last.of(lambda norms: norms.picked(pick))
        return source

    def _picker(self, coins: Coins) -> Pick:
        """Return what takes the rows for which a coin is true, a few chunks at a time."""
        chosen = chosen_rows(coins, self.n_rows)

        def pick(values: NDArray[Any]) -> NDArray[Any]:
            found = np.empty((chosen.size, *values.shape[1:]), dtype=values.dtype)

            def some(k: int) -> None:
                taken = slice(k * _STRETCH, (k + 1) * _STRETCH)
                np.take(values, chosen[taken], axis=0, out=found[taken], mode="clip")

            def work(rows: slice) -> None:
                taken = slice(*np.searchsorted(chosen, (rows.start, rows.stop)))
                np.take(values[rows], chosen[taken] - rows.start, axis=0, out=found[taken], mode="clip")
                self._room.leave(rows)

            if values.nbytes <= _AT_ONCE:
                each_part(some, -(-chosen.size // _STRETCH))
            else:
                each_stretch(work, self.n_rows)
            return found

        return pick

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order: in one block, or in chunks if they are coded."""
        if isinstance(self._block, Block):
            yield self._block
            return
        for rows in chunk_rows(0, self._chunks):
            yield self._block.part(rows).written_out()
            self._room.leave(rows)

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        return self._block.part(indices).written_out()

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all rows, shape (size,); independent of the thread count."""
        added = kernel.kernel if isinstance(kernel, TravellingKernel) else kernel

        def work(first: int, last: int, out: FloatArray) -> None:
            rows = slice(first * CHUNK_ROWS, last * CHUNK_ROWS)
            _add(added, self._block.part(rows), out)
            self._room.leave(rows)

        return sum_chunks(work, self._chunks, size)

    def sum_units(self, kernel: UnitKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all units, some at a time, shape (size,)."""
        terms, each, total = kernel.terms(), kernel.kernel(), np.zeros(size)
        together = max(_UNIT_NUMBERS // kernel.size, 1)
        for first in range(0, self.n_units, together):
            scores = np.zeros((min(together, self.n_units - first), kernel.size))
            self._add_terms(terms, first, scores)
            units = ArraySource(scores, np.zeros(len(scores)), norm_bound=kernel.norm_bound)
            total += units.sum(each, size)
        return total

    def _add_terms(self, terms: RowTerms, first: int, scores: FloatArray) -> None:
        """Add the terms of rows to those of their units, of which ``first`` is the first."""
        known = None if self._shares is None else self._shares.unit
        units = np.arange(self.n_rows) if known is None else known
        for rows in chunk_rows(0, self._chunks):
            whose = units[rows] - first
            mine = np.flatnonzero((whose >= 0) & (whose < len(scores)))  # the code of nobody is negative
            if mine.size:
                order = mine[np.argsort(whose[mine], kind="stable")]
                parts = terms(self._block.part(rows.start + order).written_out())
                starts = np.flatnonzero(np.diff(whose[order], prepend=NOBODY))
                scores[whose[order][starts]] += np.add.reduceat(parts, starts, axis=0)
            self._room.leave(rows)

    @property
    def bounded(self) -> Block | CodedBlock:
        """All rows, as `of_bounded` takes them."""
        return self._block

    @property
    def _chunks(self) -> int:
        return -(-self.n_rows // CHUNK_ROWS)


def chosen_rows(coins: Coins, n_rows: int) -> IntArray:
    """Return the numbers of the rows for which a coin is true, in their order."""
    chosen = [np.empty(0, dtype=np.int64)]
    for first in range(0, n_rows, _TOSSED):
        chosen += _true(coins(min(_TOSSED, n_rows - first)), first)
    return np.concatenate(chosen)


def _true(coins: NDArray[np.bool_], first: int) -> list[IntArray]:
    """Return where coins are true, the first of which is that of row ``first``, a stretch at a time."""
    found: list[IntArray] = [np.empty(0, dtype=np.int64)] * -(-coins.size // _SEEN)

    def work(k: int) -> None:
        start = k * _SEEN
        found[k] = first + start + np.flatnonzero(coins[start : start + _SEEN])

    each_part(work, len(found))
    return found


def _block(
    x: Matrix,
    y: FloatArray,
    influence: FloatArray,
    share: FloatArray | None,
    offset: FloatArray | None,
) -> Block | CodedBlock:
    """Return rows that count by their share, if they have one."""
    weight, parts = influence, None
    if share is not None:
        weight, parts = np.empty(influence.size), (influence, share)
        share_out(influence, share, weight)
    if isinstance(x, CodedMatrix):
        return CodedBlock(x, y, weight, parts, offset=offset)
    return Block(x, y, weight, parts, offset=offset)


def share_out(influence: FloatArray, share: FloatArray, weight: FloatArray) -> None:
    """Write how much rows count; a product with too few bits counts nothing."""
    np.multiply(influence, share, out=weight)
    weight[weight < SMALLEST_NORMAL] = 0.0


def _add(kernel: BlockKernel, part: Block | CodedBlock, out: FloatArray) -> None:
    """Add the sums of chunks to ``out``; coded rows are written out for kernels that know arrays only."""
    if isinstance(part, Block):
        kernel(part, out)
    elif isinstance(kernel, CodedKernel):
        kernel.kernel(part, out)
    else:
        for k, rows in enumerate(chunk_rows(0, out.shape[0])):
            kernel(part.part(rows).written_out(), out[k : k + 1])
