"""Sums of outer products of rows.

Libraries for general matrices are slow where rows have some fifty numbers, and want them copied before. So a
few rows at a time are scaled to a place of their own, where each starts at a cache line. Of the sum, tiles of
six rows and eight columns stay in registers while these rows are added: the sixteen of processors with AVX2
have room for no more. Wide rows are left to BLAS, which knows better what stays in which cache.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from privfit._checks import FloatArray
from privfit.data.instructions import INTEGER, add_to, new_sums, pointer, spread
from privfit.data.lanes import LANES, scale_eight
from privfit.data.lanes import ROWS as EIGHT
from privfit.data.reduction import CHUNK_ROWS, chunk_rows, slabs
from privfit.data.row_types import COLUMNS, MATRIX, VECTOR, for_numbers

ROWS = 64
"""Rows whose products are added up before their sum is added to that of the others."""

_NARROW = 256
"""Numbers of a row up to which BLAS is slower."""

_HIGH, _WIDE = 6, 8
"""Rows and columns of a tile."""

_VECTOR = ir.VectorType(ir.DoubleType(), _WIDE)


def _add_tile(  # noqa: PLR0917 -- compiled
    typing_context: Any, left: Any, right: Any, width: Any, rows: Any, out: Any, line: Any
) -> Any:
    """Add the products of six columns of some rows with eight to a tile.

    ``left``, ``right`` and ``out`` are addresses: of the first row's columns, and of the tile. ``width`` and
    ``line`` are the bytes of a row and of a line of the sum. Eight columns start at a cache line.
    """
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        left, right, width, rows, out, line = arguments
        sums = new_sums(builder, _VECTOR, _HIGH)
        with cgutils.for_range(builder, rows) as loop:
            place = builder.mul(loop.index, width)
            numbers = builder.load(pointer(builder, right, place, _VECTOR), align=64)
            for t, total in enumerate(sums):
                column = pointer(builder, left, builder.add(place, INTEGER(8 * t)), ir.DoubleType())
                add_to(builder, total, spread(builder, builder.load(column), _VECTOR), numbers)
        for t, total in enumerate(sums):
            target = pointer(builder, out, builder.mul(line, INTEGER(t)), _VECTOR)
            builder.store(builder.fadd(builder.load(target, align=8), builder.load(total)), target, align=8)
        return context.get_dummy_value()

    return types.void(left, right, width, rows, out, line), generate


_tile: Any = intrinsic(_add_tile)


@njit(inline="always")
def _aligned(size: int) -> Any:
    """Return at least as many zeros, the first at the start of a cache line."""
    zeros = np.zeros(size + _WIDE)
    return zeros[-(zeros.ctypes.data // 8) % _WIDE :]


@njit(inline="always")
def _close(sums: Any, q: int, total: Any) -> None:
    """Add a sum, of which the upper triangle is known, to a total of q * q numbers, and begin anew."""
    for i in range(q):
        for j in range(i, q):
            total[q * i + j] += sums[i, j]
            if j > i:
                total[q * j + i] += sums[i, j]
    sums[:] = 0.0


@for_numbers(int64, VECTOR, VECTOR, COLUMNS)
def _add_narrow(x: Any, constant: int, root: Any, last: Any, totals: Any) -> None:
    """Add the sum of each chunk's outer products to its row of ``totals``; ``last`` is empty without one."""
    n, p = x.shape
    q = constant + p + (1 if last.size else 0)
    width, size, zero = -(-q // _WIDE) * _WIDE, x.itemsize * p, x.dtype.type(0)
    sums, rows = np.zeros((-(-q // _HIGH) * _HIGH, width)), _aligned(ROWS * width + _WIDE)
    address, roots = np.int64(x.ctypes.data), np.int64(root.ctypes.data)
    start, line, out = np.int64(rows.ctypes.data), 8 * width, np.int64(sums.ctypes.data)
    for first in range(0, n, ROWS):
        count = min(ROWS, n - first)
        whole = count - count % EIGHT if p >= LANES else 0
        for i in range(0, whole, EIGHT):
            target = start + line * i + 8 * constant
            scale_eight(address + size * (first + i), p, roots + 8 * (first + i), target, line, zero)
        for i in range(count):
            place, factor = width * i + constant, root[first + i]
            if constant:
                rows[place - 1] = factor
            if i >= whole:
                for j in range(p):
                    rows[place + j] = factor * x[first + i, j]
            if last.size:
                rows[place + p] = last[first + i]
        for j in range(0, q, _WIDE):
            for i in range(0, min(q, j + _WIDE), _HIGH):
                _tile(start + 8 * i, start + 8 * j, line, count, out + line * i + 8 * j, line)
        if (first + ROWS) % CHUNK_ROWS == 0 or first + ROWS >= n:
            _close(sums, q, totals[first // CHUNK_ROWS])


def _add_wide(x: Any, constant: int, root: FloatArray, last: FloatArray | None, totals: FloatArray) -> None:
    for k, chunk in enumerate(chunk_rows(0, len(totals))):
        for some in slabs(slice(chunk.start, min(chunk.stop, len(x))), constant + x.shape[1]):
            a = scaled_rows(x[some], constant, root[some], None if last is None else last[some])
            totals[k] += (a.T @ a).ravel()


def add_products(
    x: Any, constant: int, root: FloatArray, last: FloatArray | None, totals: FloatArray
) -> None:
    """Add the sums of ``a a'`` over chunks of the rows ``a = (root * x, last)`` to ``totals``, flattened.

    Within a chunk a term takes part in at most as many additions as
    `privfit.data.reduction.slab_terms` says for rows of as many numbers as ``x`` has.

    Parameters
    ----------
    x : array of shape (n, p), float64 or float32
        Row-major.
    constant : int
        1 where a constant 1 that is not stored comes before the numbers, else 0.
    root : array of shape (n,)
    last : array of shape (n,), optional
        Not scaled; without it rows have none.
    totals : array of shape (chunks, q * q)
        A row for each chunk of ``CHUNK_ROWS`` of the n rows, the last of which may be shorter.
    """
    if x.shape[1] <= _NARROW:
        _add_narrow(x, constant, root, np.empty(0) if last is None else last, totals)
    else:
        _add_wide(x, constant, root, last, totals)


@for_numbers(int64, VECTOR, MATRIX)
def _scale(x: Any, constant: int, root: Any, out: Any) -> None:
    """Fill the first columns of ``out`` with the rows ``root * x``."""
    for i in range(root.size):
        row, target, factor = x[i], out[i][constant:], root[i]
        if constant:
            out[i, 0] = factor
        for j in range(row.size):
            target[j] = factor * row[j]


def scaled_rows(x: Any, constant: int, root: FloatArray, last: FloatArray | None) -> FloatArray:
    """Return the rows ``(root * x, last)`` of `add_products`, shape (n, q)."""
    a = np.empty((len(x), constant + x.shape[1] + (last is not None)))
    _scale(x, constant, root, a)
    if last is not None:
        a[:, -1] = last
    return a
