"""Compiled loops over rows without codes: their squared norms, as they are and in other coordinates.

``constant`` is 1 where a constant 1 that is not stored comes before the numbers, else 0.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float64, int64, njit, types, void
from numba.core import cgutils
from numba.extending import intrinsic

from privfit._checks import FloatArray
from privfit.data.prefetch import LINE, prefetch
from privfit.data.row_types import for_numbers
from privfit.data.shares import IntArray

SIDE = 8
"""Coordinates that are worked on together."""

GROUP = 6
"""Rows that are worked on together: their sums stay in the sixteen registers of processors with AVX2."""

_AHEAD = 5 * GROUP
"""Rows ahead that are asked for from memory."""

_INTEGER, _INDEX, _DOUBLE = ir.IntType(64), ir.IntType(32), ir.DoubleType()
_LANES = ir.VectorType(_DOUBLE, SIDE)
_ZERO = ir.Constant(_LANES, [0.0] * SIDE)

_VECTOR = float64[::1]


@for_numbers(int64, _VECTOR)
def squares(x: Any, constant: int, out: Any) -> None:
    """Fill ``out`` (m,) with the squared norms of the rows ``x`` (m, p)."""
    for i in range(x.shape[0]):
        row, square = x[i], np.float64(constant)
        for j in range(x.shape[1]):
            number = np.float64(row[j])
            square += number * number
        out[i] = square


@for_numbers(int64, _VECTOR, _VECTOR, _VECTOR, _VECTOR)
def moved_squares(  # noqa: PLR0917 -- compiled
    x: Any, constant: int, scale: Any, shift: Any, plain: Any, moved: Any
) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``moved`` (m,) with moved ones'.

    These are ``scale * x + x[:, :1] * shift``.
    """
    head = (scale[0] + shift[0]) * (scale[0] + shift[0]) if constant else 0.0
    factors, shifts = scale[constant:], shift[constant:]
    for i in range(x.shape[0]):
        row, first = x[i], 1.0 if constant else np.float64(x[i, 0])
        square, other = np.float64(constant), head
        for j in range(x.shape[1]):
            number = np.float64(row[j])
            turned = factors[j] * number + first * shifts[j]
            square += number * number
            other += turned * turned
        plain[i], moved[i] = square, other


@njit(void(_VECTOR, _VECTOR, float64, float64, boolean[::1]), cache=True, nogil=True, error_model="numpy")
def bound_squares(weight: Any, y: Any, limit: float, smallest: float, usable: Any) -> None:
    """Turn squared norms into weights that bound them by ``limit``, and say which rows are finite.

    Weights are 0 for rows that are not, and where a weight below ``smallest`` has too few bits.
    """
    for i in range(weight.size):
        squared = weight[i]
        usable[i] = np.isfinite(squared) and np.isfinite(y[i])
        found = limit / max(squared, limit)
        weight[i] = found if usable[i] and found >= smallest else 0.0


@njit(void(_VECTOR, _VECTOR, _VECTOR), cache=True, nogil=True, error_model="numpy")
def raise_norms(size: Any, length: Any, rooms: Any) -> None:
    """Take square roots of both and raise ``size`` by ``rooms`` times lengths: itself, then its square."""
    room, squared_room = rooms
    for i in range(size.size):
        long = np.sqrt(length[i])
        raised = np.sqrt(size[i]) + room * long
        if squared_room > 0.0:
            raised = np.sqrt(raised * raised + squared_room * long * long)
        size[i], length[i] = raised, long


@njit(void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR), cache=True, nogil=True, error_model="numpy")
def fill_weights(size: Any, reach: Any, limits: Any, before: Any, out: Any) -> None:
    """Fill ``out`` with ``least / excess**2``, at most 1, and 0 where that has too few bits or is no number.

    ``excess`` is the larger of ``factor * size / size_limit`` and ``factor * reach / reach_limit``, and
    ``limits`` is (factor, size_limit, reach_limit, least, smallest). Rows of weight 0 ``before`` have none.
    """
    factor, size_limit, reach_limit, least, smallest = limits
    for i in range(out.size):
        a, b = factor * size[i] / size_limit, factor * reach[i] / reach_limit
        excess = max(a, b)
        squared = excess * excess
        weight = least / max(squared, least)
        usable = weight >= smallest and np.isfinite(a + b) and before[i] > 0.0
        out[i] = weight if usable else 0.0


@njit(void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR), cache=True, nogil=True, error_model="numpy")
def fill_caps(size: Any, steep: Any, limits: Any, weight: Any, cap: Any) -> None:
    """Lower ``weight`` to ``bound / (size * steep)`` and fill ``cap`` with ``bound / (weight * size)``.

    ``limits`` is (bound, most, smallest). What is no number counts as ``most``, the largest cap and
    steepness; weights below ``smallest`` have too few bits.
    """
    bound, most, smallest = limits
    for i in range(size.size):
        slope = min(max(steep[i], smallest), most) if steep[i] == steep[i] else most
        lowered = min(weight[i], bound / (size[i] * slope)) if size[i] > 0.0 else weight[i]
        usable = lowered >= smallest
        weight[i] = lowered if usable else 0.0
        cap[i] = min(bound / (lowered * size[i]), most) if usable else 0.0


def _square(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, width: Any, factors: Any, count: Any, out: Any
) -> Any:
    """Add the squares of eight coordinates of six rows to ``out``, eight numbers for each row.

    All but ``width``, the bytes of a row, and ``count`` are addresses: a coordinate is the sum over ``count``
    numbers of the row, from ``first`` on, times eight of ``factors`` each.
    """
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        first, width, factors, count, out = arguments
        kind = ir.FunctionType(_LANES, [_LANES] * 3)
        multiply_add = cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v8f64")
        everywhere = ir.Constant(ir.VectorType(_INDEX, SIDE), [0] * SIDE)

        def pointer(address: Any, distance: Any, kind: Any) -> Any:
            return builder.inttoptr(builder.add(address, distance), kind.as_pointer())

        rows = [builder.add(first, builder.mul(width, _INTEGER(t))) for t in range(GROUP)]
        sums = [cgutils.alloca_once_value(builder, _ZERO) for _ in range(GROUP)]
        for total in sums:
            builder.store(_ZERO, total)
        with cgutils.for_range(builder, count) as loop:
            number, line = builder.shl(loop.index, _INTEGER(3)), builder.shl(loop.index, _INTEGER(6))
            factor = builder.load(pointer(factors, line, _LANES), align=8)
            for row, total in zip(rows, sums, strict=True):
                one = builder.insert_element(_ZERO, builder.load(pointer(row, number, _DOUBLE)), _INDEX(0))
                spread = builder.shuffle_vector(one, one, everywhere)
                builder.store(builder.call(multiply_add, [spread, factor, builder.load(total)]), total)
        for t, total in enumerate(sums):
            target, turned = pointer(out, _INTEGER(8 * SIDE * t), _LANES), builder.load(total)
            squares = builder.call(multiply_add, [turned, turned, builder.load(target, align=8)])
            builder.store(squares, target, align=8)
        return context.get_dummy_value()

    return types.void(first, width, factors, count, out), generate


_add_squares: Any = intrinsic(_square)


@for_numbers(int64, float64[:, ::1], int64[::1], _VECTOR, _VECTOR)
def turned_squares(  # noqa: PLR0917 -- compiled
    x: Any, constant: int, factors: Any, starts: Any, plain: Any, turned: Any
) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``turned`` (m,) with ``R x``'s.

    ``R`` is given by ``factors`` and ``starts``, see `by_blocks`.
    """
    n, width = x.shape
    p, size = constant + width, x.itemsize * width
    copied, sums = np.ones((GROUP, p)), np.empty((GROUP, SIDE))
    lines, target = factors.ctypes.data, sums.ctypes.data
    start_of_rows, start_of_copies = np.int64(x.ctypes.data), np.int64(copied.ctypes.data)
    for first in range(0, n, GROUP):
        rows, address = min(GROUP, n - first), start_of_rows + size * first
        ahead = address + size * _AHEAD
        for offset in range(0, size * GROUP, LINE):
            prefetch(ahead + offset)
        if rows < GROUP or constant or x.itemsize < 8:
            address = start_of_copies
            for i in range(rows):
                row, copy = x[first + i], copied[i][constant:]
                for j in range(width):
                    copy[j] = row[j]
        sums[:], line = 0.0, 0
        for start in starts:
            _add_squares(address + 8 * start, 8 * p, lines + 8 * SIDE * line, p - start, target)
            line += p - start
        for i in range(rows):
            row, square, other = x[first + i], np.float64(constant), 0.0
            for j in range(width):
                number = np.float64(row[j])
                square += number * number
            for j in range(SIDE):
                other += sums[i, j]
            plain[first + i], turned[first + i] = square, other


def by_blocks(root: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return an upper triangular matrix (p, p) as `turned_squares` reads it, eight of its rows at a time.

    Returns
    -------
    factors : array of shape (q, SIDE)
        The columns of the first eight rows, those of the next eight, and so on, without those that are 0.
        Rows of zeros make the last rows eight.
    starts : array of shape (ceil(p / SIDE),)
        The first column of each eight rows.
    """
    p = len(root)
    starts = np.arange(0, p, SIDE)
    whole = np.zeros((starts.size * SIDE, p))
    whole[:p] = root
    return np.ascontiguousarray(np.vstack([whole[k : k + SIDE, k:].T for k in starts])), starts
