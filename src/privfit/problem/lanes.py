"""Eight rows at a time in compiled code: their weighted sum, and their dot products with a vector.

The compiler's own vector loops leave many columns of a row to slower loops, which for 50 columns take
longer than the rest. These take four columns a step, so that what eight rows need stays in the sixteen
registers of processors with AVX2; the last step overlaps the one before it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

ROWS = 8
"""Rows that are worked on together."""

LANES = 4
"""Columns that are worked on together; a row must have at least as many."""

_INTEGER, _LANE_NUMBERS = ir.IntType(64), ir.VectorType(ir.IntType(32), LANES)
_PAIRS, _HALVES = (((0, 4, 2, 6), (1, 5, 3, 7)), ((0, 1, 4, 5), (2, 3, 6, 7)))
"""Lanes of two vectors whose sums are those of pairs of each, and of pairs of both."""
_VECTOR, _NARROW = (ir.VectorType(kind, LANES) for kind in (ir.DoubleType(), ir.FloatType()))


class _Writer:
    """Writes instructions on eight rows of ``p`` numbers, one after the other in memory."""

    def __init__(self, builder: Any, first: Any, p: Any, *, narrow: bool) -> None:
        self.builder, self.p, self.narrow = builder, p, narrow
        width = builder.shl(p, _INTEGER(2 if narrow else 3))
        self.rows = [builder.add(first, builder.mul(width, _INTEGER(k))) for k in range(ROWS)]

    def load(self, address: Any, column: Any) -> Any:
        """Load four numbers in double precision, from a column on."""
        return self.builder.load(self._pointer(address, column), align=8)

    def load_row(self, row: Any, column: Any) -> Any:
        """Load four numbers of a row, as it is stored."""
        if not self.narrow:
            return self.load(row, column)
        place = self.builder.add(row, self.builder.shl(column, _INTEGER(2)))
        stored = self.builder.load(self.builder.inttoptr(place, _NARROW.as_pointer()), align=4)
        return self.builder.fpext(stored, _VECTOR)

    def store(self, vector: Any, address: Any, column: Any) -> None:
        """Store four numbers, from a column on."""
        self.builder.store(vector, self._pointer(address, column), align=8)

    def spread(self, vector: Any, lane: int) -> Any:
        """Return one lane of a vector in all lanes."""
        return self.picked(vector, vector, (lane,) * LANES)

    def picked(self, a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
        """Return some lanes of two vectors."""
        return self.builder.shuffle_vector(a, b, ir.Constant(_LANE_NUMBERS, list(lanes)))

    def folded(self, a: Any, b: Any, lanes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
        """Return the sum of some lanes of two vectors and of others."""
        return self.builder.fadd(self.picked(a, b, lanes[0]), self.picked(a, b, lanes[1]))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c``, rounded once where the processor can."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.fmuladd.v4f64")
        return self.builder.call(function, [a, b, c])

    def each_step(self, body: Callable[[Any, bool], None]) -> None:
        """Write ``body(column, overlaps)`` for four columns at a time; the last step may overlap another."""
        write = self.builder
        left = write.and_(self.p, _INTEGER(LANES - 1))
        whole = write.sub(self.p, left)
        with cgutils.for_range_slice(write, _INTEGER(0), whole, _INTEGER(LANES)) as (column, _):
            body(column, False)
        with write.if_then(write.icmp_signed(">", left, _INTEGER(0))):
            body(write.sub(self.p, _INTEGER(LANES)), True)

    def _pointer(self, address: Any, column: Any) -> Any:
        place = self.builder.add(address, self.builder.shl(column, _INTEGER(3)))
        return self.builder.inttoptr(place, _VECTOR.as_pointer())


def _add(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, steps: Any, p: Any, out: Any, zero: Any
) -> Any:
    """Add eight rows, each times its step, to ``out``.

    The last columns have a place of their own: a load that overlaps a recent store would wait for it.
    """
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        address, factors, columns, target, _ = arguments
        write = _Writer(builder, address, columns, narrow=zero == types.float32)
        spread = []
        for number in range(0, ROWS, LANES):
            loaded = write.load(factors, _INTEGER(number))
            spread += [write.spread(loaded, lane) for lane in range(LANES)]

        def step(column: Any, overlaps: bool) -> None:
            place = columns if overlaps else column
            total = write.load(target, place)
            for row, factor in zip(write.rows, spread, strict=True):
                total = write.multiply_add(write.load_row(row, column), factor, total)
            write.store(total, target, place)

        write.each_step(step)
        return context.get_dummy_value()

    return types.void(first, steps, p, out, zero), generate


def _dot(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, factors: Any, p: Any, start: Any, out: Any, zero: Any
) -> Any:
    """Write the dot products of eight rows to ``out``; factors of the last columns have their own place."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        address, line, columns, begin, target, _ = arguments
        write = _Writer(builder, address, columns, narrow=zero == types.float32)
        nothing = ir.Constant(_VECTOR, [0.0] * LANES)
        sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(ROWS)]
        for total in sums:
            builder.store(nothing, total)

        def step(column: Any, overlaps: bool) -> None:
            factor = write.load(line, columns if overlaps else column)
            for row, total in zip(write.rows, sums, strict=True):
                builder.store(
                    write.multiply_add(write.load_row(row, column), factor, builder.load(total)), total
                )

        write.each_step(step)
        loaded = [builder.load(total) for total in sums]
        begins = write.spread(builder.insert_element(nothing, begin, ir.Constant(ir.IntType(32), 0)), 0)
        for k in range(0, ROWS, LANES):
            one, other = (write.folded(loaded[k + j], loaded[k + j + 1], _PAIRS) for j in (0, 2))
            write.store(builder.fadd(write.folded(one, other, _HALVES), begins), target, _INTEGER(k))
        return context.get_dummy_value()

    return types.void(first, factors, p, start, out, zero), generate


dot_eight: Any = intrinsic(_dot)
"""``dot_eight(first, factors, p, start, out, zero)``: the dot products of eight rows, plus ``start``.

All but ``p``, ``start`` and ``zero`` are addresses, the last as for `add_eight`. ``factors`` holds
``p + LANES`` numbers, see `padded`, and ``out`` eight.
"""


@njit(inline="always")
def padded(factors: Any) -> Any:
    """Return factors (p,), and behind them those of the last step of columns, 0 where it overlaps another."""
    p = factors.size
    left = p % LANES
    found = np.zeros(p + LANES)
    found[:p] = factors
    found[p + LANES - left :] = factors[p - left :]
    return found


add_eight: Any = intrinsic(_add)
"""``add_eight(first, steps, p, out, zero)``: add eight rows, each times its step.

All but ``p`` and ``zero`` are addresses. Rows hold numbers of the type of ``zero``, float64 or float32.

``out`` holds ``p + LANES`` numbers. Column ``j`` is added up in ``out[j]``, or in ``out[j + LANES]`` if no
whole step holds it: ``j >= p - p % LANES``.
"""
