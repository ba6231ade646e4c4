"""Compiled loops over rows written out: their squared norms, as they are and in other coordinates."""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import float64, int64, njit, types, void
from numba.core import cgutils
from numba.extending import intrinsic

from privfit._checks import FloatArray
from privfit.data.prefetch import LINE, prefetch
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

_ROWS, _VECTOR = float64[:, ::1], float64[::1]

_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(void(_ROWS, _VECTOR), **_OPTIONS)
def squares(x: Any, out: Any) -> None:
    """Fill ``out`` (m,) with the squared norms of the rows ``x`` (m, p)."""
    for i in range(x.shape[0]):
        row, square = x[i], 0.0
        for j in range(x.shape[1]):
            square += row[j] * row[j]
        out[i] = square


@njit(void(_ROWS, _VECTOR, _VECTOR, _VECTOR, _VECTOR), **_OPTIONS)
def moved_squares(x: Any, scale: Any, shift: Any, plain: Any, moved: Any) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``moved`` (m,) with moved ones'.

    These are ``scale * x + x[:, :1] * shift``.
    """
    for i in range(x.shape[0]):
        row, first = x[i], x[i, 0]
        square = other = 0.0
        for j in range(x.shape[1]):
            turned = scale[j] * row[j] + first * shift[j]
            square += row[j] * row[j]
            other += turned * turned
        plain[i], moved[i] = square, other


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


@njit(void(_ROWS, _ROWS, int64[::1], _VECTOR, _VECTOR), **_OPTIONS)
def turned_squares(x: Any, factors: Any, starts: Any, plain: Any, turned: Any) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``turned`` (m,) with ``R x``'s.

    ``R`` is given by ``factors`` and ``starts``, see `by_blocks`.
    """
    n, p = x.shape
    last, sums = np.zeros((GROUP, p)), np.empty((GROUP, SIDE))
    lines, target = factors.ctypes.data, sums.ctypes.data
    for first in range(0, n, GROUP):
        rows = min(GROUP, n - first)
        group = x[first : first + rows]
        if rows < GROUP:
            for i in range(rows):
                for j in range(p):
                    last[i, j] = group[i, j]
            group = last
        sums[:], line, address = 0.0, 0, group.ctypes.data
        ahead = address + 8 * p * _AHEAD
        for offset in range(0, 8 * p * GROUP, LINE):
            prefetch(ahead + offset)
        for start in starts:
            _add_squares(address + 8 * start, 8 * p, lines + 8 * SIDE * line, p - start, target)
            line += p - start
        for i in range(rows):
            row, square, other = group[i], 0.0, 0.0
            for j in range(p):
                square += row[j] * row[j]
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
