"""Eight rows at a time in compiled code: their dot products with a vector, and their weighted sum.

The compiler's own vector loops leave many columns of a row to slower loops, which for 50 columns take
longer than the rest. These take 8 columns a step; the last step overlaps the one before it.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Rows and columns that are worked on together; a row must have at least as many columns."""

_INTEGER, _INDEX, _BIT = ir.IntType(64), ir.IntType(32), ir.IntType(1)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ZERO = ir.Constant(_VECTOR, [0.0] * LANES)

_FOLDS = (
    ([0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15]),
    ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]),
    ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]),
)
"""Which lanes of two neighbours to add: three times, and eight vectors are one, of the eight sums."""


class _Writer:
    """Writes instructions on eight rows of ``p`` numbers, one after the other in memory."""

    def __init__(self, builder: Any, first: Any, p: Any) -> None:
        self.builder, self.p = builder, p
        width = builder.shl(p, _INTEGER(3))
        self.rows = [builder.add(first, builder.mul(width, _INTEGER(k))) for k in range(LANES)]

    def load(self, address: Any, column: Any) -> Any:
        """Load eight numbers, from a column on."""
        return self.builder.load(self._pointer(address, column), align=8)

    def store(self, vector: Any, address: Any, column: Any) -> None:
        """Store eight numbers, from a column on."""
        self.builder.store(vector, self._pointer(address, column), align=8)

    def shuffle(self, a: Any, b: Any, lanes: list[int]) -> Any:
        """Return these of the 16 lanes of ``a`` and ``b``."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INDEX, LANES), lanes))

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        """Return ``a * b + c``, rounded once where the processor can."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        function = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.fmuladd.v8f64")
        return self.builder.call(function, [a, b, c])

    def each_step(self, body: Callable[[Any, Any], None]) -> None:
        """Write ``body(column, fresh)`` for eight columns at a time.

        ``fresh`` says which lanes no step before had; it is None where that is all of them.
        """
        write = self.builder
        left = write.and_(self.p, _INTEGER(LANES - 1))
        whole = write.sub(self.p, left)
        with cgutils.for_range_slice(write, _INTEGER(0), whole, _INTEGER(LANES)) as (column, _):
            body(column, None)
        with write.if_then(write.icmp_signed(">", left, _INTEGER(0))):
            fresh = ir.Constant(ir.VectorType(_BIT, LANES), [0] * LANES)
            for lane in range(LANES):
                bit = write.icmp_signed(">=", left, _INTEGER(LANES - lane))
                fresh = write.insert_element(fresh, bit, _INDEX(lane))
            body(write.sub(self.p, _INTEGER(LANES)), fresh)

    def _pointer(self, address: Any, column: Any) -> Any:
        place = self.builder.add(address, self.builder.shl(column, _INTEGER(3)))
        return self.builder.inttoptr(place, _VECTOR.as_pointer())


def _dots(typing_context: Any, first: Any, vector: Any, p: Any, out: Any) -> Any:
    """Write eight rows' dot products with a vector to ``out``."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        address, theta, columns, target = arguments
        write = _Writer(builder, address, columns)
        sums = [cgutils.alloca_once(builder, _VECTOR) for _ in range(LANES)]
        for variable in sums:
            builder.store(_ZERO, variable)

        def step(column: Any, fresh: Any) -> None:
            factor = write.load(theta, column)
            if fresh is not None:
                factor = builder.select(fresh, factor, _ZERO)
            for row, variable in zip(write.rows, sums, strict=True):
                total = write.multiply_add(write.load(row, column), factor, builder.load(variable))
                builder.store(total, variable)

        write.each_step(step)
        parts = [builder.load(variable) for variable in sums]
        for low, high in _FOLDS:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [builder.fadd(write.shuffle(a, b, low), write.shuffle(a, b, high)) for a, b in pairs]
        write.store(parts[0], target, _INTEGER(0))
        return context.get_dummy_value()

    return types.void(first, vector, p, out), generate


def _add(typing_context: Any, first: Any, steps: Any, p: Any, out: Any) -> Any:
    """Add eight rows, each times its step, to ``out``.

    The last columns have a place of their own: a load that overlaps a recent store would wait for it.
    """
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        address, factors, columns, target = arguments
        write = _Writer(builder, address, columns)
        loaded = write.load(factors, _INTEGER(0))
        spread = [write.shuffle(loaded, loaded, [lane] * LANES) for lane in range(LANES)]

        def step(column: Any, fresh: Any) -> None:
            place = column if fresh is None else columns
            total = write.load(target, place)
            for row, factor in zip(write.rows, spread, strict=True):
                total = write.multiply_add(write.load(row, column), factor, total)
            write.store(total, target, place)

        write.each_step(step)
        return context.get_dummy_value()

    return types.void(first, steps, p, out), generate


eight_dots: Any = intrinsic(_dots)
"""``eight_dots(first, vector, p, out)``: eight rows' dot products with a vector; all but ``p`` addresses."""

add_eight: Any = intrinsic(_add)
"""``add_eight(first, steps, p, out)``: add eight rows, each times its step; all but ``p`` addresses.

``out`` holds ``p + LANES`` numbers. Column ``j`` is added up in ``out[j]``, or in ``out[j + LANES]`` if no
whole step holds it: ``j >= p - p % LANES``.
"""
