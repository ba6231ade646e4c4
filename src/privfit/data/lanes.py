"""A few rows at a time in compiled code: weighted sums, dot products with a vector, squared norms.

The compiler's own vector loops leave many columns of a row to slower loops, which for 50 columns take
longer than the rest. These take four columns a step, so that what a few rows need stays in the sixteen
registers of processors with AVX2; the last step overlaps the one before it.

Compiled functions give an array's memory back after the last line that names it. What takes its address has
to name it once more in or after the loop that works on the address.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from privfit.data import instructions
from privfit.data.instructions import INDEX, INTEGER, add_to, multiply_add, pointer

ROWS = 8
"""Rows that are worked on together."""

LANES = 4
"""Columns that are worked on together; a row must have at least as many."""

_LANE_NUMBERS = ir.VectorType(INDEX, LANES)
_PAIRS, _HALVES = (((0, 4, 2, 6), (1, 5, 3, 7)), ((0, 1, 4, 5), (2, 3, 6, 7)))
"""Lanes of two vectors whose sums are those of pairs of each, and of pairs of both."""
_VECTOR, _NARROW = (ir.VectorType(kind, LANES) for kind in (ir.DoubleType(), ir.FloatType()))


class _Writer:
    """Writes instructions on some rows of ``p`` numbers, one after the other in memory."""

    def __init__(self, builder: Any, first: Any, p: Any, *, narrow: bool, rows: int) -> None:
        self.builder, self.p, self.narrow = builder, p, narrow
        width = builder.shl(p, INTEGER(2 if narrow else 3))
        self.rows = [builder.add(first, builder.mul(width, INTEGER(k))) for k in range(rows)]

    def load(self, address: Any, column: Any) -> Any:
        """Load four numbers in double precision, from a column on."""
        return self.builder.load(self._pointer(address, column), align=8)

    def load_row(self, row: Any, column: Any) -> Any:
        """Load four numbers of a row, as it is stored."""
        if not self.narrow:
            return self.load(row, column)
        place = pointer(self.builder, row, self.builder.shl(column, INTEGER(2)), _NARROW)
        return self.builder.fpext(self.builder.load(place, align=4), _VECTOR)

    def store(self, vector: Any, address: Any, column: Any) -> None:
        """Store four numbers, from a column on."""
        self.builder.store(vector, self._pointer(address, column), align=8)

    def spread(self, vector: Any, lane: int) -> Any:
        """Return one lane of a vector in all lanes."""
        return self.picked(vector, vector, (lane,) * LANES)

    def spread_steps(self, address: Any) -> list[Any]:
        """Load a number for each row and return each in all lanes."""
        loaded = [self.load(address, INTEGER(k)) for k in range(0, len(self.rows), LANES)]
        return [self.spread(vector, lane) for vector in loaded for lane in range(LANES)]

    def picked(self, a: Any, b: Any, lanes: tuple[int, ...]) -> Any:
        """Return some lanes of two vectors."""
        return self.builder.shuffle_vector(a, b, ir.Constant(_LANE_NUMBERS, list(lanes)))

    def folded(self, a: Any, b: Any, lanes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
        """Return the sum of some lanes of two vectors and of others."""
        return self.builder.fadd(self.picked(a, b, lanes[0]), self.picked(a, b, lanes[1]))

    def new_sums(self) -> list[Any]:
        """Return variables for a sum of each row, in lanes; 0."""
        return instructions.new_sums(self.builder, _VECTOR, len(self.rows))

    def store_sums(self, sums: list[Any], begin: Any, address: Any) -> None:
        """Store ``begin`` plus the lanes of each sum, of which there are a multiple of four."""
        loaded = [self.builder.load(total) for total in sums]
        begins = instructions.spread(self.builder, begin, _VECTOR)
        for k in range(0, len(sums), LANES):
            one, other = (self.folded(loaded[k + j], loaded[k + j + 1], _PAIRS) for j in (0, 2))
            self.store(self.builder.fadd(self.folded(one, other, _HALVES), begins), address, INTEGER(k))

    def each_step(self, body: Callable[[Any, bool], None]) -> None:
        """Write ``body(column, overlaps)`` for four columns at a time; the last step may overlap another."""
        write = self.builder
        left = write.and_(self.p, INTEGER(LANES - 1))
        whole = write.sub(self.p, left)
        with cgutils.for_range_slice(write, INTEGER(0), whole, INTEGER(LANES)) as (column, _):
            body(column, False)
        with write.if_then(write.icmp_signed(">", left, INTEGER(0))):
            body(write.sub(self.p, INTEGER(LANES)), True)

    def _pointer(self, address: Any, column: Any) -> Any:
        return pointer(self.builder, address, self.builder.shl(column, INTEGER(3)), _VECTOR)


def _on_rows(zero: Any, write_body: Callable[..., None], rows: int = ROWS) -> Callable[..., Any]:
    """Return what generates a loop over some rows: the first two arguments are their address and p.

    The last is ``zero``; ``write_body`` is given a writer and all others.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        first, p, *others, _ = arguments
        write_body(_Writer(builder, first, p, narrow=zero == types.float32, rows=rows), *others)
        return context.get_dummy_value()

    return generate


def _add(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, p: Any, steps: Any, out: Any, zero: Any
) -> Any:
    """Add eight rows, each times its step, to ``out``.

    The last columns have a place of their own: a load that overlaps a recent store would wait for it.
    """
    del typing_context

    def body(write: _Writer, factors: Any, target: Any) -> None:
        spread = write.spread_steps(factors)

        def step(column: Any, overlaps: bool) -> None:
            place = write.p if overlaps else column
            total = write.load(target, place)
            for row, factor in zip(write.rows, spread, strict=True):
                total = multiply_add(write.builder, write.load_row(row, column), factor, total)
            write.store(total, target, place)

        write.each_step(step)

    return types.void(first, p, steps, out, zero), _on_rows(zero, body)


def _dot(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, p: Any, factors: Any, start: Any, out: Any, zero: Any
) -> Any:
    """Write the dot products of eight rows to ``out``; factors of the last columns have their own place."""
    del typing_context

    def body(write: _Writer, line: Any, begin: Any, target: Any) -> None:
        sums = write.new_sums()

        def step(column: Any, overlaps: bool) -> None:
            factor = write.load(line, write.p if overlaps else column)
            for row, total in zip(write.rows, sums, strict=True):
                add_to(write.builder, total, write.load_row(row, column), factor)

        write.each_step(step)
        write.store_sums(sums, begin, target)

    return types.void(first, p, factors, start, out, zero), _on_rows(zero, body)


def _move(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, p: Any, lines: Any, starts: Any, outs: Any, zero: Any
) -> Any:
    """Write the squared norms of four rows, and of what they are moved to, to two places."""
    del typing_context

    def body(write: _Writer, known: Any, begins: Any, targets: Any) -> None:
        builder = write.builder
        ones, scale, shift = (builder.extract_value(known, k) for k in range(3))
        plain, moved = write.new_sums(), write.new_sums()

        def step(column: Any, overlaps: bool) -> None:
            place = write.p if overlaps else column
            once = write.load(ones, write.p) if overlaps else None
            factor, room = write.load(scale, place), write.load(shift, place)
            for row, square, other in zip(write.rows, plain, moved, strict=True):
                numbers = write.load_row(row, column)
                turned = multiply_add(builder, numbers, factor, room)
                add_to(builder, square, numbers, numbers if once is None else builder.fmul(numbers, once))
                add_to(builder, other, turned, turned)

        write.each_step(step)
        for k, sums in enumerate((plain, moved)):
            write.store_sums(sums, builder.extract_value(begins, k), builder.extract_value(targets, k))

    return types.void(first, p, lines, starts, outs, zero), _on_rows(zero, body, LANES)


def _scale(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, p: Any, steps: Any, out: Any, width: Any, zero: Any
) -> Any:
    """Write eight rows, each times its step, to places ``width`` bytes apart; the last step writes again."""
    del typing_context

    def body(write: _Writer, factors: Any, target: Any, apart: Any) -> None:
        builder, spread = write.builder, write.spread_steps(factors)
        places = [builder.add(target, builder.mul(apart, INTEGER(k))) for k in range(ROWS)]

        def step(column: Any, overlaps: bool) -> None:
            del overlaps
            for row, factor, place in zip(write.rows, spread, places, strict=True):
                write.store(builder.fmul(write.load_row(row, column), factor), place, column)

        write.each_step(step)

    return types.void(first, p, steps, out, width, zero), _on_rows(zero, body)


def _add_squares(  # noqa: PLR0917 -- compiled
    typing_context: Any, first: Any, p: Any, steps: Any, out: Any, squares: Any, zero: Any
) -> Any:
    """Add eight rows, and the squares of their numbers, each times its step."""
    del typing_context

    def body(write: _Writer, factors: Any, *targets: Any) -> None:
        builder, spread = write.builder, write.spread_steps(factors)

        def step(column: Any, overlaps: bool) -> None:
            place = write.p if overlaps else column
            total, square = (write.load(target, place) for target in targets)
            for row, factor in zip(write.rows, spread, strict=True):
                numbers = write.load_row(row, column)
                times = builder.fmul(numbers, factor)
                total, square = builder.fadd(total, times), multiply_add(builder, times, numbers, square)
            for sums, target in zip((total, square), targets, strict=True):
                write.store(sums, target, place)

        write.each_step(step)

    return types.void(first, p, steps, out, squares, zero), _on_rows(zero, body)


dot_eight: Any = intrinsic(_dot)
"""``dot_eight(first, p, factors, start, out, zero)``: the dot products of eight rows, plus ``start``.

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


@njit(inline="always")
def whole_column(out: Any, p: int, j: int) -> float:
    """Return what `add_eight` and `add_squares_eight` have added up of column j of p."""
    return out[j] + out[j + LANES] if j >= p - p % LANES else out[j]


add_eight: Any = intrinsic(_add)
"""``add_eight(first, p, steps, out, zero)``: add eight rows, each times its step.

All but ``p`` and ``zero`` are addresses. Rows hold numbers of the type of ``zero``, float64 or float32.

``out`` holds ``p + LANES`` numbers. Column ``j`` is added up in ``out[j]``, or in ``out[j + LANES]`` if no
whole step holds it; see `whole_column`.
"""

move_four: Any = intrinsic(_move)
"""``move_four(first, p, (ones, scale, shift), starts, outs, zero)``: squares of four rows, and of moved ones.

The first are written to ``outs[0]``, plus ``starts[0]``; those of the rows ``scale * x + shift`` to
``outs[1]``, plus ``starts[1]``. Of what the three addresses point to all is padded.
"""

scale_eight: Any = intrinsic(_scale)
"""``scale_eight(first, p, steps, out, width, zero)``: eight rows times their steps, ``width`` bytes apart."""

add_squares_eight: Any = intrinsic(_add_squares)
"""``add_squares_eight(first, p, steps, out, squares, zero)``: what `add_eight` does, and so for squares."""


@njit(inline="always")
def new_rows(x: Any, rows: int) -> Any:
    """Return zeros for a few rows like those of ``x``."""
    return np.zeros((rows, x.shape[1]), x.dtype)


@njit(inline="always")
def copied(x: Any, first: int, rows: int, spare: Any) -> Any:
    """Copy the last rows, too few to be worked on together, to ``spare``, and return where that starts.

    What is found of a row must not depend on its place, to the last bit: see `privfit.data.predictors`. So
    the same instructions work on all rows, written once.
    """
    for i in range(rows):
        for j in range(x.shape[1]):
            spare[i, j] = x[first + i, j]
    return np.int64(spare.ctypes.data)
