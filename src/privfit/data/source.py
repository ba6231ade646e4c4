"""Where rows live: blocks of encoded rows, and one restartable map-reduce over them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from privfit._checks import FloatArray
from privfit.data.clamp import SMALLEST_NORMAL, Weighting, basis_weights, influence_weights
from privfit.data.shares import NOBODY, IntArray, RowShares
from privfit.data.threads import PARTS_PER_THREAD, share, thread_count

CHUNK_ROWS = 4096
"""Rows that a kernel adds up before its partial sum is set aside; it bounds the rounding error of sums."""

GROUP_ROWS = 32
"""Rows whose gradients are added up before their sum is added to the chunk's."""


MOST_ROWS = 10**10
"""Rows that a table may have; more than any machine holds, and far from overflow."""


@dataclass(frozen=True, slots=True, repr=False)
class Block:
    """Encoded rows: ``x`` (m, p) row-major, ``y`` (m,), ``weight`` (m,), all float64 and finite.

    Every row satisfies ``weight <= 1`` and ``weight * norm(x)**2 <= norm_bound**2`` in exact arithmetic.
    A row that may not contribute has weight 0.

    Where rows count by shares (see `privfit.data.shares`), ``weight`` is ``influence * share``: what a row's
    loss counts. ``influence`` (m,) alone satisfies the bounds, too, and a term that is bounded by it in
    another way than as a multiple of it is multiplied by ``share`` (m,). By default the share is 1.
    """

    x: FloatArray
    y: FloatArray
    weight: FloatArray
    parts: tuple[FloatArray, FloatArray] | None = None
    """``(influence, share)``, where not all shares are 1."""

    @property
    def influence(self) -> FloatArray:
        """Weights that bound rows, their shares aside."""
        return self.weight if self.parts is None else self.parts[0]

    @property
    def share(self) -> FloatArray:
        """Shares of the rows."""
        return np.broadcast_to(1.0, self.weight.shape) if self.parts is None else self.parts[1]

    def rows(self, which: slice | IntArray) -> "Block":
        """Return some of the rows."""
        parts = None if self.parts is None else (self.parts[0][which], self.parts[1][which])
        return Block(self.x[which], self.y[which], self.weight[which], parts)


BlockKernel = Callable[[Block, FloatArray], None]
"""``kernel(block, out)`` adds the sum of rows ``k*CHUNK_ROWS .. (k+1)*CHUNK_ROWS`` to ``out[k]``.

``out`` has shape (number of chunks, size). A kernel keeps no state and releases the GIL where it can.
"""

RowTerms = Callable[[Block], FloatArray]
"""``terms(block)`` returns the terms of the rows one by one, shape (m, size)."""


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

    def unit_sums(self, terms: RowTerms, size: int) -> FloatArray:
        """Return the sums of the terms over the rows of each unit, shape (n_units, size)."""
        ...

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all rows, shape (size,)."""
        ...

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order, in blocks."""
        ...

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        ...

    def reweighted(self, basis: FloatArray, *, norm_bound: float, amplification: float) -> "RowSource":
        """Return the same rows with weights that bound ``norm(basis.T @ x)``; see `basis_weights`."""
        ...


class ArraySource:
    """Encoded rows in memory. The constructor sets the weights, so that no unbounded row can exist.

    Parameters
    ----------
    x : array of shape (n, p)
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
    """

    __slots__ = ("_block", "_norm_bound", "_shares")

    def __init__(
        self,
        x: FloatArray,
        y: FloatArray,
        *,
        norm_bound: float,
        weighting: Weighting = influence_weights,
        shares: RowShares | None = None,
    ) -> None:
        weight, x, y = weighting(x, y, norm_bound=norm_bound)
        share = None if shares is None else shares.among(weight > 0.0)
        self._block = Block(x, y, weight) if share is None else _counted(x, y, weight, share)
        self._norm_bound, self._shares = norm_bound, shares

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

    def reweighted(self, basis: FloatArray, *, norm_bound: float, amplification: float) -> "ArraySource":
        """Return the same rows with weights that bound ``norm(basis.T @ x)``; see `basis_weights`."""
        weight = np.empty(self.n_rows)
        for first in range(0, self.n_rows, CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            weight[rows] = basis_weights(
                self._block.x[rows], basis, norm_bound=norm_bound, amplification=amplification
            )
        block, source = self._block, ArraySource.__new__(ArraySource)
        weight[block.influence == 0.0] = 0.0
        source._block = (
            Block(block.x, block.y, weight)
            if self._shares is None
            else _counted(block.x, block.y, weight, block.share)
        )
        source._norm_bound, source._shares = norm_bound, self._shares
        return source

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order, in one block."""
        yield self._block

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        return self._block.rows(indices)

    def unit_sums(self, terms: RowTerms, size: int) -> FloatArray:
        """Return the sums of the terms over the rows of each unit, shape (n_units, size)."""
        units = None if self._shares is None else self._shares.unit
        sums = np.zeros((self.n_units, size))
        for first in range(0, self.n_rows, CHUNK_ROWS):
            rows = slice(first, first + CHUNK_ROWS)
            parts = terms(self._block.rows(rows))
            if units is None:
                sums[rows] = parts
                continue
            order = np.argsort(units[rows], kind="stable")
            whose = units[rows][order]
            starts = np.flatnonzero(np.diff(whose, prepend=NOBODY - 1))
            known = whose[starts] != NOBODY
            sums[whose[starts][known]] += np.add.reduceat(parts[order], starts, axis=0)[known]
        return sums

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all rows, shape (size,); independent of the thread count."""
        chunks = -(-self.n_rows // CHUNK_ROWS)
        partial = np.zeros((chunks, size))
        threads = min(thread_count(), chunks)
        if threads == 1:
            kernel(self._block, partial)
            return pairwise_sum(partial)
        parts = min(chunks, PARTS_PER_THREAD * threads)
        edges = np.linspace(0, chunks, parts + 1).astype(int)

        def work(k: int) -> None:
            rows = slice(edges[k] * CHUNK_ROWS, edges[k + 1] * CHUNK_ROWS)
            kernel(self._block.rows(rows), partial[edges[k] : edges[k + 1]])

        share(work, parts, threads)
        return pairwise_sum(partial)


def _counted(x: FloatArray, y: FloatArray, influence: FloatArray, share: FloatArray) -> Block:
    """Return rows that count by their share; a product with too few bits counts nothing."""
    weight = influence * share
    weight[weight < SMALLEST_NORMAL] = 0.0
    return Block(x, y, weight, (influence, share))


def pairwise_sum(partial: FloatArray) -> FloatArray:
    """Sum rows of ``partial`` (chunks, size) by a balanced tree, in an order fixed by the shape alone."""
    while partial.shape[0] > 1:
        half = partial.shape[0] // 2
        merged = partial[: 2 * half : 2] + partial[1 : 2 * half : 2]
        if partial.shape[0] % 2:
            merged[-1] += partial[-1]
        partial = merged
    return partial[0].copy()


def summation_error(n_rows: int, terms: int = CHUNK_ROWS) -> float:
    """Return ``g`` such that a sum of ``n_rows`` vectors of norm <= B is off by at most ``g * n_rows * B``.

    Within a chunk a term takes part in at most ``terms`` additions: ``CHUNK_ROWS`` in any order,
    ``GROUP_ROWS + CHUNK_ROWS / GROUP_ROWS`` where groups are added up first. The chunks are added by a
    tree of depth ``log2(chunks) + 1`` (Higham 2002, *Accuracy and Stability of Numerical Algorithms*,
    section 4.2). A rounding costs a relative ``2**-53``; a spare factor 2 covers the higher-order terms.
    """
    chunks = -(-n_rows // CHUNK_ROWS)
    depth = min(n_rows, terms) + int(np.ceil(np.log2(max(chunks, 1)))) + 1
    return 2.0 * depth * 2.0**-53
