"""Add up the chunks of a table in an order that depends on their number alone, on several threads."""

from collections.abc import Callable, Iterable

import numpy as np

from privfit._checks import UNIT_ROUNDOFF, FloatArray
from privfit._threads import each_part

CHUNK_ROWS = 4096
"""Rows that a kernel adds up before its partial sum is set aside; it bounds the rounding error of sums."""

FEW_CHUNKS = 3
"""Chunks for whose rows a number each takes less than 128 kilobytes: more would be fresh memory at every call
in a process whose C library gives that back, as Dask sets that of its workers."""

GROUP_ROWS = 32
"""Rows whose gradients are added up before their sum is added to the chunk's."""

_SLAB = 2**15
"""Numbers of a slab: a quarter of a megabyte."""

_STRETCH = 8
"""Chunks that are looked at together where rows have no sum: what is set aside for them stays in caches."""

_ALONE = 4
"""Chunks up to which one thread has looked at all of them before others have begun."""

ChunkWork = Callable[[int, int, FloatArray], None]
"""``work(first, last, out)`` adds the sum of chunk ``first + k`` to ``out[k]``, of ``last - first`` rows."""

_PARTS = 32
"""Into at most how many parts a pass is cut, so that a slow thread leaves its parts to the others."""

_ENTRIES = 2**18
"""Numbers that the sums of parts, and those of chunks within a part, may hold together, if they can."""


def sum_chunks(work: ChunkWork, chunks: int, size: int) -> FloatArray:
    """Return the sum over all chunks, shape (size,); 0 if there are none.

    Chunks are added by a balanced tree, in which each takes part in at most ``log2(chunks) + 1`` additions:
    neighbours first, as carries in counting. Parts are whole branches of it, so that neither their number nor
    that of the threads changes a rounding. What is set aside does not grow with the number of chunks.
    """
    if chunks == 0:
        return np.zeros(size)
    length = _part_length(chunks, size)
    parts = -(-chunks // length)
    sums = np.empty((parts, size))
    together = 1 << (min(max(_ENTRIES // max(size, 1), 1), 64).bit_length() - 1)

    def one_part(k: int) -> None:
        tree = _Tree()
        last = min((k + 1) * length, chunks)
        for start in range(k * length, last, together):
            stop = min(start + together, last)
            out = np.zeros((stop - start, size))
            work(start, stop, out)
            tree.extend(out)
        sums[k] = tree.total()

    each_part(one_part, parts)
    return tree_sum(sums)


def each_stretch(work: Callable[[slice], None], n_rows: int) -> None:
    """Call ``work(rows)`` for every few chunks of some rows, without warnings, on several threads."""

    def some(first: int, last: int, out: FloatArray) -> None:
        del out
        with np.errstate(all="ignore"):  # a thread does not know what its caller ignores
            for chunk in range(first, last, _STRETCH):
                work(slice(chunk * CHUNK_ROWS, min(chunk + _STRETCH, last) * CHUNK_ROWS))

    chunks = -(-n_rows // CHUNK_ROWS)
    if chunks <= _ALONE:
        some(0, chunks, np.empty((chunks, 0)))
    else:
        sum_chunks(some, chunks, 0)


def chunk_rows(first: int, last: int) -> list[slice]:
    """Return the rows of the chunks from ``first`` to before ``last``."""
    return [slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS) for chunk in range(first, last)]


def summation_error(n_rows: int, terms: int = CHUNK_ROWS) -> float:
    """Return ``g`` such that a sum of ``n_rows`` vectors of norm <= B is off by at most ``g * n_rows * B``.

    Within a chunk a term takes part in at most ``terms`` additions: ``CHUNK_ROWS`` in any order,
    ``GROUP_ROWS + CHUNK_ROWS / GROUP_ROWS`` where groups are added up first. The chunks are added by a
    tree of depth ``log2(chunks) + 1`` (Higham 2002, *Accuracy and Stability of Numerical Algorithms*,
    section 4.2). A rounding costs a relative ``2**-53``; a spare factor 2 covers the higher-order terms, and
    the sum of partitions by another tree (`privfit.data.dask_source`), whose depth of at most
    ``log2(n_rows) + 2`` is less than that of the terms.
    """
    chunks = -(-n_rows // CHUNK_ROWS)
    depth = min(n_rows, terms) + max(chunks - 1, 0).bit_length() + 1
    return 2.0 * depth * UNIT_ROUNDOFF


def slabs(rows: slice, width: int) -> list[slice]:
    """Return parts of some rows, short enough for what is computed from one to stay in the cache.

    Parameters
    ----------
    rows : slice
        With a start and a stop.
    width : int
        Numbers computed from a row. A part has at least as many rows, so that products of matrices pay.
    """
    length = slab_rows(width)
    return [slice(k, min(k + length, rows.stop)) for k in range(rows.start, rows.stop, length)]


def slab_rows(width: int) -> int:
    """Return the rows of a slab; see `slabs`."""
    return max(_SLAB // max(width, 1), width, 256)


def slab_terms(width: int) -> int:
    """Return the additions that a term takes part in within a chunk that is summed slab by slab.

    At most as many as a slab has rows, two where the parts of a sum by code are put together, and one for
    each slab; fewer where rows are summed some at a time within it. It is the ``terms`` of `summation_error`.

    Parameters
    ----------
    width : int
        See `slabs`.
    """
    first = slabs(slice(0, CHUNK_ROWS), width)
    return first[0].stop + 2 + len(first)


def tree_sum(terms: Iterable[FloatArray]) -> FloatArray:
    """Return the sum of at least one term by a balanced tree, neighbours first."""
    tree = _Tree()
    for term in terms:
        tree.add(term)
    return tree.total()


def _part_length(chunks: int, size: int) -> int:
    """Return a power of 2: chunks of a part."""
    parts = min(max(_ENTRIES // max(size, 1), 4), _PARTS)
    return 1 << max(0, (-(-chunks // parts) - 1).bit_length())


class _Tree:
    """Sums of 1, 2, 4, ... terms; two of the same length become one of the next."""

    __slots__ = ("_branches",)

    def __init__(self) -> None:
        self._branches: list[tuple[int, FloatArray]] = []

    def extend(self, terms: FloatArray) -> None:
        """Add some terms, shape (terms, size), after a multiple of the next power of 2; see `add`.

        Where they are a whole branch it is added up level by level: a term at a time would take long, and
        threads would wait for each other.
        """
        if len(terms) & (len(terms) - 1):
            for term in terms:
                self.add(term)
            return
        level = len(terms).bit_length() - 1
        while len(terms) > 1:
            terms = terms[0::2] + terms[1::2]
        self.add(terms[0], level)

    def add(self, term: FloatArray, level: int = 0) -> None:
        """Add one term, the sum of ``2**level``, which is not copied and may be changed."""
        while self._branches and self._branches[-1][0] == level:
            term = self._branches.pop()[1] + term
            level += 1
        self._branches.append((level, term))

    def total(self) -> FloatArray:
        """Return the sum, the shortest branches first; 0 without a term is an error of the caller."""
        total = self._branches[-1][1]
        for _, branch in reversed(self._branches[:-1]):
            total = branch + total
        return total.copy()
