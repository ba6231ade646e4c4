"""Sums in which the most extreme response at a row's predictors bounds its term, and shares of rows."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, int64, njit, void

from privfit._checks import FloatArray
from privfit.data.blocks import Block, BlockKernel, CodedBlock, CodedKernel
from privfit.data.coded import by_code, numbers_of
from privfit.data.lanes import padded
from privfit.data.reduction import CHUNK_ROWS, chunk_rows
from privfit.data.row_types import for_numbers
from privfit.data.shares import IntArray
from privfit.losses.base import AbstractLoss
from privfit.losses.outside import guarded
from privfit.losses.pointers import address, called
from privfit.problem import coded_kernels
from privfit.problem.groups import (
    add_rows,
    close_part,
    ends_group,
    new_part,
    places,
    predict_rows,
    rows_together,
    sum_rows,
)
from privfit.problem.slopes import SLOPE_CODES, fill_reaches, fill_slopes

_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]

Steps = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], None]
"""``fill(y, eta, room, step, side)`` fills the factors of a chunk of rows."""


SIZE_CLASSES = 18
"""Classes of sizes, each twice as wide as the one before."""

SIZE_ORIGIN = 10
"""The class of sizes just below 1."""

NORM_CLASSES = 40
"""Classes of norms."""

NORMS_A_DOUBLING = 4
"""Classes of norms from one norm to twice that norm."""

SIDE_CLASSES = 21
"""Classes of residuals on either side of 0."""

SIDES_A_DOUBLING = 2
"""Classes of residuals from one size to twice that size."""

CLASSES = {
    "sizes": SIZE_CLASSES,
    "norms": NORM_CLASSES,
    "counts": NORM_CLASSES,
    "residuals": 2 * SIDE_CLASSES,
}
"""Numbers of classes of the kinds of shares."""


_ONE = 1 << 52
"""Where the digits of a double end."""

_ROOT_DIGITS = int(np.float64(math.sqrt(2.0)).view(np.int64)) & (_ONE - 1)
"""Digits of the smallest double above the root of 2."""


@njit(inline="always")
def _sides(y: Any, eta: Any, room: Any, loss: Any, scale_slope: int, bounds: Any, out: Any) -> None:
    """Fill ``out`` with the derivatives by the scale of rows with room."""
    s, c, k = loss[0], loss[1], loss[2]
    for i in range(y.size):
        along = min(max(called(scale_slope, y[i], eta[i], s, c, k), bounds[1]), bounds[2])
        out[i] = along if along == along and room[i] > 0.0 else 0.0  # noqa: PLR0124 -- NaN


@njit(inline="always")
def _bounded_steps(
    y: Any, room: Any, loss: Any, functions: Any, bounds: Any, steps: Any, reaches: Any
) -> None:
    """Replace predictors by factors of rows, of sizes up to their room; ``reaches`` is overwritten."""
    s, c, k = loss[0], loss[1], loss[2]
    most, weighted = bounds[0], bounds[3] > 0.0
    if weighted:
        fill_reaches(functions[0], functions[2], y, steps, reaches, s, c, k)
    fill_slopes(functions[0], functions[1], y, steps, s, c, k)
    for i in range(y.size):
        value = min(max(steps[i], -most), most)
        if weighted:
            extreme = min(reaches[i], most)
            value *= room[i] / extreme if extreme > room[i] else 1.0
        value = min(max(value, -room[i]), room[i])
        steps[i] = value if value == value else 0.0  # noqa: PLR0124 -- NaN


@njit(
    void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, int64[::1], _VECTOR, _VECTOR, _VECTOR),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _fill_steps(
    y: Any, eta: Any, room: Any, loss: Any, functions: Any, bounds: Any, step: Any, side: Any
) -> None:
    """Fill ``step`` and ``side``.

    ``functions`` is (code, slope, reach, scale_slope), see `SLOPE_CODES` and `address`; ``bounds`` is (slope,
    low, high, 1 if rows are weighted and 0 if cut, 1 with a scale).
    """
    if bounds[4] > 0.0:
        _sides(y, eta, room, loss, functions[3], bounds, side)
    else:
        side[:] = 0.0
    for i in range(step.size):
        step[i] = eta[i]
    _bounded_steps(y, room, loss, functions, bounds, step, np.empty(y.size))


@for_numbers(int64, _VECTOR, _VECTOR, _VECTOR, _VECTOR, _VECTOR, int64[::1], _VECTOR, float64, _MATRIX)
def _add_bounded(
    x: Any,
    constant: int,
    y: Any,
    influence: Any,
    share: Any,
    theta: Any,
    loss: Any,
    functions: Any,
    bounds: Any,
    norm_bound: float,
    out: Any,
) -> None:
    """Add the rows' bounded gradients to ``out``, a row a chunk, a group at a time; see `_fill_steps`."""
    n, p = x.shape
    together = rows_together(p)
    part, buffer, reaches = new_part(p), np.empty(together), np.empty(together)
    rooms, sides, scaled = np.empty(together), np.empty(together), bounds[4] > 0.0
    at, along = places(x, buffer, part), 0.0
    start, factors = theta[0] if constant else 0.0, padded(theta[constant:])
    line = factors.ctypes.data
    for first in range(0, n, together):
        rows, chunk = min(together, n - first), first // CHUNK_ROWS
        steps, room = buffer[:rows], rooms[:rows]
        predict_rows(x, first, rows, start, factors, steps, at, line)
        for i in range(rows):
            room[i] = np.sqrt(influence[first + i]) / norm_bound
        y_rows = y[first : first + rows]
        if scaled:
            _sides(y_rows, steps, room, loss, functions[3], bounds, sides)
            for i in range(rows):
                along += sides[i] * share[first + i]
        _bounded_steps(y_rows, room, loss, functions, bounds, steps, reaches)
        for i in range(rows):
            steps[i] *= share[first + i]
        add_rows(x, first, rows, buffer, part, at)
        if ends_group(first + rows, n):
            close_part(part, constant, out, chunk)
            if scaled:
                out[chunk, constant + p] += along
                along = 0.0


def bounded_gradient_kernel(
    loss: AbstractLoss, theta: FloatArray, s: float, norm_bound: float
) -> BlockKernel:
    """Sum of the rows' bounded gradients at ``theta`` (p,) and scale ``s``; size p, or p + 1 with a scale.

    The term of a row is ``step * x`` with ``abs(step) <= room = sqrt(w) / norm_bound``, so that its norm in
    the basis is at most 1. Slopes of a symmetric loss of residuals are cut to that (Schweppe's form, Huber
    1981, *Robust statistics*, section 7.9). Those of others are multiplied by ``min(1, room / reach)``,
    ``reach`` being the largest size that a slope can have at this ``eta``. That weight does not depend on
    the response, so that a model that is right stays unbiased (Künsch, Stefanski and Carroll 1989,
    *Conditionally unbiased bounded-influence estimation in general regression models*).
    """
    fill = _compiled_steps(loss, s) if loss.compiled else _array_steps(loss, s)

    def each_chunk(block: Block | CodedBlock, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x, y = block.x[rows], block.y[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                eta = x @ theta
            room, share = np.sqrt(block.influence[rows]) / norm_bound, block.share[rows]
            step, side = np.empty(y.size), np.empty(y.size)
            fill(y, eta, room, step, side)
            step, side = step * share, side * share
            if by_code(x):
                coded_kernels.add_rows(x, step, out[chunk : chunk + 1])
            else:
                sum_rows(*numbers_of(x), step, out[chunk : chunk + 1])
            if loss.has_scale:
                out[chunk, p] += side.sum()

    if not loss.compiled:
        return CodedKernel(each_chunk, each_chunk)
    constants, compiled = _compiled(loss, s), np.ascontiguousarray(theta)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        if by_code(block.x):
            each_chunk(block, out)
            return
        share = np.array(block.share)  # of one stride, and writable
        x, constant = numbers_of(block.x)
        _add_bounded(x, constant, block.y, block.influence, share, compiled, *constants, norm_bound, out)

    return CodedKernel(kernel, kernel)


def sizes_kernel(loss: AbstractLoss, theta: FloatArray, s: float, norm_bound: float) -> BlockKernel:
    """Count rows by the size of their gradient in the basis; size `SIZE_CLASSES`.

    Sizes are ``abs(slope) / room``, relative to the bound on the slope. Class k of 1, 2, ... holds those
    from ``2**(k - SIZE_ORIGIN - 1)`` on and below ``2**(k - SIZE_ORIGIN)``, the first and the last all
    beyond. Rows without room are in none.
    """
    fill = _compiled_steps(loss, s) if loss.compiled else _array_steps(loss, s)
    most = loss.constants.slope

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x, y = block.x[rows], block.y[rows]
            with np.errstate(all="ignore"):
                eta = x @ theta
                room = np.sqrt(block.influence[rows]) / norm_bound
                step, side = np.empty(y.size), np.empty(y.size)
                fill(y, eta, np.where(room > 0.0, np.inf, 0.0), step, side)
                size = np.abs(step) / (room * most)
            usable = room > 0.0
            order = np.where(size > 0.0, np.frexp(size)[1] + SIZE_ORIGIN, 0)
            _count(order[usable], block.share[rows][usable], out[chunk])

    return CodedKernel(kernel, kernel)


def norms_kernel() -> BlockKernel:
    """Count rows by their norm in the basis; size `NORM_CLASSES`.

    Where a row is longer than the norm bound its influence weight says how much: ``w**-0.5`` times. Class k
    holds the rows with ``2**(k / d) <= w**-0.5 < 2**((k + 1) / d)``, d = `NORMS_A_DOUBLING`; the first has
    those within the bound too, the last all beyond. Rows of weight 0 are in none.
    """

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        _count_norms(block.influence.view(np.int64), np.array(block.share), out)

    return CodedKernel(kernel, kernel)


def counts_kernel(count_bound: float) -> BlockKernel:
    """Count rows by their response; size `NORM_CLASSES`.

    Classes are as those of norms, up to ``count_bound``: the last is open, and counts at the bound are in it;
    the first holds all that are smaller than the others'. Rows of weight 0 are in none.
    """
    first = count_bound * 2.0 ** (-(NORM_CLASSES - 1) / NORMS_A_DOUBLING)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            usable = block.influence[rows] > 0.0
            order = NORMS_A_DOUBLING * np.log2(np.maximum(block.y[rows][usable] / first, 0.5))
            _count(np.ceil(order).astype(np.int64), block.share[rows][usable], out[chunk])

    return CodedKernel(kernel, kernel)


def largest_edge(response_range: tuple[float, float]) -> float:
    """Return the upper edge that the last class of residuals would have: the one before is half the range."""
    low, high = response_range
    return 0.5 * (high - low) * 2.0 ** (1.0 / SIDES_A_DOUBLING)


def residuals_kernel(theta: FloatArray, response_range: tuple[float, float]) -> BlockKernel:
    """Count rows by their residual at ``theta`` (p,), from the lowest up; size ``2 * SIDE_CLASSES``.

    On either side class k of 0, 1, ... holds sizes of up to ``reach * 2**((k + 1 - SIDE_CLASSES) / d)``, d =
    `SIDES_A_DOUBLING`, that are in none before; the last all beyond half the range, and ``reach`` is the next
    edge. Rows of weight 0 are in none.
    """
    reach = largest_edge(response_range)
    first = reach * 2.0 ** ((1 - SIDE_CLASSES) / SIDES_A_DOUBLING)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            usable = block.influence[rows] > 0.0
            with np.errstate(over="ignore", invalid="ignore"):
                residual = (block.y[rows] - block.x[rows] @ theta)[usable]
                size = np.minimum(np.abs(residual), reach)
            size = np.where(size >= first, size, first)
            order = np.ceil(SIDES_A_DOUBLING * np.log2(size / first)).astype(np.int64)
            place = np.where(residual < 0.0, SIDE_CLASSES - 1 - order, SIDE_CLASSES + order)
            _count(place, block.share[rows][usable], out[chunk])

    return CodedKernel(kernel, kernel)


@njit(void(int64[::1], _VECTOR, _MATRIX), cache=True, nogil=True)
def _count_norms(bits: Any, share: Any, out: Any) -> None:
    """Add the shares of rows to the classes of ``-2 log2(w)``, a row a chunk; ``bits`` are of their weights.

    There are four to a doubling of ``w**-0.5``, `NORMS_A_DOUBLING`.
    A weight is ``2**e * m``, ``1 <= m < 2``, and in its bits e, from 1023 on, comes before the digits of m.
    """
    for i in range(bits.size):
        digits = bits[i] & (_ONE - 1)
        order = 2 * (1023 - (bits[i] >> 52)) - (digits > 0) - (digits >= _ROOT_DIGITS)
        if bits[i] > 0:
            out[i // CHUNK_ROWS, min(max(order, 0), out.shape[1] - 1)] += share[i]


def _count(order: IntArray, share: FloatArray, out: FloatArray) -> None:
    """Add the shares of rows to their classes; those beyond the first and the last are in these."""
    out += np.bincount(np.clip(order, 0, out.size - 1), share, minlength=out.size)


def _compiled(loss: AbstractLoss, s: float) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the loss, its functions and their bounds as compiled loops take them; see `_fill_steps`."""
    functions, constants = loss.functions, loss.constants
    code = SLOPE_CODES.get(functions.slope, 0)
    places = [address(one) for one in (functions.slope, functions.reach, functions.scale_slope)]
    bounds = [constants.slope, *constants.scale_slope, float(not loss.symmetric), float(loss.has_scale)]
    return np.array([s, *loss.parameters]), np.array([code, *places], dtype=np.int64), np.array(bounds)


def _compiled_steps(loss: AbstractLoss, s: float) -> Steps:
    constants = _compiled(loss, s)

    def fill(y: FloatArray, eta: FloatArray, room: FloatArray, step: FloatArray, side: FloatArray) -> None:
        _fill_steps(y, eta, room, *constants, step, side)

    return fill


def _array_steps(loss: AbstractLoss, s: float) -> Steps:
    slope, most = guarded(loss.functions.slope), loss.constants.slope

    def fill(y: FloatArray, eta: FloatArray, room: FloatArray, step: FloatArray, side: FloatArray) -> None:
        with np.errstate(all="ignore"):
            values = np.clip(np.asarray(slope(y, eta, s, *loss.parameters)), -most, most)
            if not loss.symmetric:
                values *= np.minimum(1.0, room / most)
        step[:] = np.clip(np.where(np.isnan(values), 0.0, values), -room, room)
        side[:] = 0.0

    return fill
