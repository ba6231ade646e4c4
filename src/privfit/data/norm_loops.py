"""Compiled loops over rows without codes: their squared norms, as they are and in other coordinates.

``constant`` is 1 where a constant 1 that is not stored comes before the numbers, else 0.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import boolean, float32, float64, int64, njit, types, void
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit._compiling import lazily_compiled
from privfit.data.instructions import INTEGER, add_to, multiply_add, new_sums, pointer, spread
from privfit.data.lanes import LANES, copied, move_four, new_rows, padded
from privfit.data.prefetch import LINE, prefetch
from privfit.data.row_types import MATRIX, PLACES, VECTOR, for_numbers

SIDE = {"float64": 8, "float32": 16}
"""Coordinates that are worked on together: 64 bytes."""

GROUP = 6
"""Rows that are worked on together: their sums stay in the sixteen registers of processors with AVX2."""

_AHEAD = 5
"""How many times the rows that are worked on together are ahead of them that are asked for from memory."""


@njit(inline="always")
def _squared(row: Any, constant: int) -> float:
    """Return the squared norm of a row."""
    square = np.float64(constant)
    for j in range(row.size):
        number = np.float64(row[j])
        square += number * number
    return square


@njit(inline="always")
def _ask_ahead(address: int, size: int) -> None:
    """Ask for rows ahead of those at an address, of this size together."""
    for offset in range(0, size, LINE):
        prefetch(address + size * _AHEAD + offset)


@for_numbers(int64, VECTOR)
def squares(x: Any, constant: int, out: Any) -> None:
    """Fill ``out`` (m,) with the squared norms of the rows ``x`` (m, p)."""
    for i in range(x.shape[0]):
        out[i] = _squared(x[i], constant)


@for_numbers(int64, VECTOR, VECTOR, VECTOR, VECTOR)
def moved_squares(  # noqa: PLR0917 -- compiled
    x: Any, constant: int, scale: Any, shift: Any, plain: Any, moved: Any
) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``moved`` (m,) with moved ones'.

    These are ``scale * x + x[:, :1] * shift``.
    """
    n, p = x.shape
    head = (scale[0] + shift[0]) * (scale[0] + shift[0]) if constant else 0.0
    size, lanes = x.itemsize * p, n if constant and p >= LANES else 0
    ones, factors, shifts = padded(np.ones(p)), padded(scale[constant:]), padded(shift[constant:])
    lines = ones.ctypes.data, factors.ctypes.data, shifts.ctypes.data
    address, starts, zero = x.ctypes.data, (np.float64(constant), head), x.dtype.type(0)
    targets = np.int64(plain.ctypes.data), np.int64(moved.ctypes.data)
    spare, ends = new_rows(x, LANES), np.empty((2, LANES))
    for i in range(0, lanes, LANES):
        four, outs = address + size * i, (targets[0] + 8 * i, targets[1] + 8 * i)
        _ask_ahead(four, size * LANES)
        if i + LANES > n:
            four = copied(x, i, n - i, spare)
            outs = np.int64(ends[0].ctypes.data), np.int64(ends[1].ctypes.data)
        move_four(four, p, lines, starts, outs, zero)
    for i in range(n - n % LANES, lanes):
        plain[i], moved[i] = ends[0, i % LANES], ends[1, i % LANES]
    for i in range(lanes, n):
        row, first = x[i], 1.0 if constant else np.float64(x[i, 0])
        square, other = np.float64(constant), head
        for j in range(p):
            number = ones[j] * row[j]
            turned = factors[j] * number + first * shifts[j]
            square += number * number
            other += turned * turned
        plain[i], moved[i] = square, other


@lazily_compiled(void(VECTOR, VECTOR, float64, float64, boolean[::1]), nogil=True, error_model="numpy")
def bound_squares(weight: Any, y: Any, limit: float, smallest: float, usable: Any) -> None:
    """Turn squared norms into weights that bound them by ``limit``, and say which rows are finite.

    Weights are 0 for rows that are not, and where a weight below ``smallest`` has too few bits.
    """
    for i in range(weight.size):
        squared = weight[i]
        usable[i] = np.isfinite(squared) and np.isfinite(y[i])
        found = limit / max(squared, limit)
        weight[i] = found if usable[i] and found >= smallest else 0.0


@lazily_compiled(void(VECTOR, VECTOR, VECTOR), nogil=True, error_model="numpy")
def raise_norms(size: Any, length: Any, rooms: Any) -> None:
    """Take square roots of both and raise ``size``, times a factor, by two parts of ``length``.

    ``rooms`` is the factor, the part, and what the square is off by, relative to that of the length.
    """
    factor, room, squared_room = rooms
    for i in range(size.size):
        long = np.sqrt(length[i])
        raised = factor * np.sqrt(size[i]) + room * long
        if squared_room > 0.0:
            raised = np.sqrt(raised * raised + squared_room * long * long)
        size[i], length[i] = raised, long


@lazily_compiled(void(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), nogil=True, error_model="numpy")
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


@lazily_compiled(void(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR), nogil=True, error_model="numpy")
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


def _squares(number: Any, side: int) -> Any:
    """Return an intrinsic that adds the squares of some coordinates of six rows to ``out``, as many for each.

    All its arguments but ``width``, the bytes of a row, and ``count`` are addresses: a coordinate is one of
    ``head`` and the sum over ``count`` numbers of the row, from ``first`` on, times as many lines of
    ``factors``.
    """
    size, lanes = 64 // side, ir.VectorType(number, side)

    def square(  # noqa: PLR0917 -- compiled
        typing_context: Any, first: Any, width: Any, head: Any, factors: Any, count: Any, out: Any
    ) -> Any:
        del typing_context

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            del signature
            first, width, head, factors, count, out = arguments
            rows = [builder.add(first, builder.mul(width, INTEGER(t))) for t in range(GROUP)]
            start = builder.load(pointer(builder, head, INTEGER(0), lanes), align=size)
            sums = new_sums(builder, lanes, GROUP)
            for total in sums:
                builder.store(start, total)
            with cgutils.for_range(builder, count) as loop:
                place, line = builder.mul(loop.index, INTEGER(size)), builder.shl(loop.index, INTEGER(6))
                factor = builder.load(pointer(builder, factors, line, lanes), align=size)
                for row, total in zip(rows, sums, strict=True):
                    one = builder.load(pointer(builder, row, place, number))
                    add_to(builder, total, spread(builder, one, lanes), factor)
            for t, total in enumerate(sums):
                target, turned = pointer(builder, out, INTEGER(64 * t), lanes), builder.load(total)
                squares = multiply_add(builder, turned, turned, builder.load(target, align=size))
                builder.store(squares, target, align=size)
            return context.get_dummy_value()

        return types.void(first, width, head, factors, count, out), generate

    return intrinsic(square)


_add_squares = _squares(ir.DoubleType(), SIDE["float64"])
_add_squares_single = _squares(ir.FloatType(), SIDE["float32"])


@for_numbers(int64, MATRIX, PLACES, VECTOR, VECTOR)
def turned_squares(  # noqa: PLR0917 -- compiled
    x: Any, constant: int, factors: Any, starts: Any, plain: Any, turned: Any
) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``turned`` (m,) with ``R x``'s.

    ``R`` is given by ``factors`` and ``starts``, see `by_blocks`.
    """
    n, width = x.shape
    p, size, side = constant + width, x.itemsize * width, factors.shape[1]
    copied, sums = np.ones((GROUP, p)), np.zeros((GROUP + 1, side))  # the last stays 0
    lines, target = np.int64(factors.ctypes.data), np.int64(sums.ctypes.data)
    none = target + LINE * GROUP
    start_of_rows, start_of_copies = np.int64(x.ctypes.data), np.int64(copied.ctypes.data)
    for first in range(0, n, GROUP):
        rows, address = min(GROUP, n - first), start_of_rows + size * first
        _ask_ahead(address, size * GROUP)
        if rows < GROUP or constant or x.itemsize < 8:
            address = start_of_copies
            for i in range(rows):
                row, copy = x[first + i], copied[i][constant:]
                for j in range(width):
                    copy[j] = row[j]
        sums[:], line = 0.0, 0
        for start in starts:
            _add_squares(address + 8 * start, 8 * p, none, lines + LINE * line, p - start, target)
            line += p - start
        for i in range(rows):
            other = 0.0
            for j in range(side):
                other += sums[i, j]
            plain[first + i], turned[first + i] = _squared(x[first + i], constant), other


@lazily_compiled(
    void(types.Array(float32, 2, "C", readonly=True), int64, float32[:, ::1], PLACES, *[VECTOR] * 3),
    nogil=True,
    fastmath={"reassoc", "contract"},
)
def turned_squares_single(  # noqa: PLR0917 -- compiled
    x: Any, constant: int, factors: Any, starts: Any, limits: Any, plain: Any, turned: Any
) -> None:
    """Do what `turned_squares` does, in single precision, and -1 for rows for which that is too coarse.

    ``limits`` are the least part of the norm of a row that is left of it, and the least and largest square.
    """
    n, width = x.shape
    side, least = factors.shape[1], limits[0] * limits[0]
    copied = np.zeros((GROUP, width), dtype=np.float32)
    sums = np.zeros((GROUP + 1, side), dtype=np.float32)  # the last stays 0
    lines, target = np.int64(factors.ctypes.data), np.int64(sums.ctypes.data)
    none = target + LINE * GROUP
    start_of_rows, start_of_copies = np.int64(x.ctypes.data), np.int64(copied.ctypes.data)
    for first in range(0, n, GROUP):
        rows, address = min(GROUP, n - first), start_of_rows + 4 * width * first
        _ask_ahead(address, 4 * width * GROUP)
        if rows < GROUP:
            address = start_of_copies
            for i in range(rows):  # rows to rows at once would take seconds more to compile
                for j in range(width):
                    copied[i, j] = x[first + i, j]
        sums[:], line, head = np.float32(0.0), constant, lines if constant else none
        for start in starts:
            skipped = max(start - constant, 0)
            count = width - skipped
            _add_squares_single(address + 4 * skipped, 4 * width, head, lines + LINE * line, count, target)
            head, line = none, line + count
        for i in range(rows):
            square, other = _squared(x[first + i], constant), 0.0
            for j in range(side):
                other += np.float64(sums[i, j])
            usable = other >= least * square and limits[1] <= square <= limits[2]
            plain[first + i], turned[first + i] = square, other if usable else -1.0


def by_blocks(root: FloatArray, storage: str) -> tuple[NDArray[Any], IntArray]:
    """Return an upper triangular matrix (p, p) as loops in this type read it, some of its rows at a time.

    Returns
    -------
    factors : array of shape (q, side)
        The columns of the first ``side = SIDE[storage]`` rows, those of the next, and so on, without those
        that are 0. Rows of zeros make the last rows as many.
    starts : array of shape (ceil(p / side),)
        The first column of each of these.
    """
    p, side = len(root), SIDE[storage]
    starts = np.arange(0, p, side)
    whole = np.zeros((starts.size * side, p))
    whole[:p] = root
    blocks = np.vstack([whole[k : k + side, k:].T for k in starts])
    return np.ascontiguousarray(blocks, dtype=storage), starts
