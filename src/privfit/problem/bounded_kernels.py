"""Sums in which the most extreme response at a row's predictors bounds its term."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, int64, njit, void

from privfit._checks import FloatArray, IntArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel, CodedBlock, CodedKernel
from privfit.data.coded import by_code, numbers_of
from privfit.data.lanes import ROWS, new_rows, padded
from privfit.data.predictors import places, predict_rows, rows_together
from privfit.data.reduction import CHUNK_ROWS, chunk_rows
from privfit.data.row_types import MATRIX, STRIDED, VECTOR, for_numbers
from privfit.losses.base import AbstractLoss
from privfit.losses.outside import guarded
from privfit.losses.pointers import address, called
from privfit.problem import coded_kernels
from privfit.problem.groups import add_rows, close_part, ends_group, new_part
from privfit.problem.slopes import SLOPE_CODES, fill_reaches, fill_slopes

Steps = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], None]
"""``fill(y, eta, room, step, side)`` fills the factors of a chunk of rows."""


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


@lazily_compiled(
    void(VECTOR, VECTOR, VECTOR, VECTOR, int64[::1], VECTOR, VECTOR, VECTOR),
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


@for_numbers(int64, VECTOR, VECTOR, STRIDED, VECTOR, VECTOR, int64[::1], VECTOR, float64, MATRIX)
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
    at, along, spare = places(x, buffer, part), 0.0, new_rows(x, ROWS)
    start, factors = theta[0] if constant else 0.0, padded(theta[constant:])
    line = factors.ctypes.data
    for first in range(0, n, together):
        rows, chunk = min(together, n - first), first // CHUNK_ROWS
        steps, room = buffer[:rows], rooms[:rows]
        predict_rows(x, first, rows, start, factors, steps, at, line, spare)
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
    fill = steps_of(loss, s)

    def each_chunk(block: Block | CodedBlock, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            x, y, eta = part.x, part.y, part.predictors(theta)
            room, share = np.sqrt(part.influence) / norm_bound, part.share
            step, side = np.empty(y.size), np.empty(y.size)
            fill(y, eta, room, step, side)
            step, side = step * share, side * share
            coded_kernels.add_steps(x, step, out[chunk : chunk + 1])
            if loss.has_scale:
                out[chunk, p] += side.sum()

    if not loss.compiled:
        return CodedKernel(each_chunk)
    constants, compiled = _compiled(loss, s), np.ascontiguousarray(theta)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        if by_code(block.x) or block.offset is not None:
            each_chunk(block, out)
            return
        x, constant = numbers_of(block.x)
        y, influence, share = block.y, block.influence, block.share
        _add_bounded(x, constant, y, influence, share, compiled, *constants, norm_bound, out)

    return CodedKernel(kernel)


def _compiled(loss: AbstractLoss, s: float) -> tuple[FloatArray, IntArray, FloatArray]:
    """Return the loss, its functions and their bounds as compiled loops take them; see `_fill_steps`."""
    functions, constants = loss.functions, loss.constants
    code = SLOPE_CODES.get(functions.slope, 0)
    places = [address(one) for one in (functions.slope, functions.reach, functions.scale_slope)]
    bounds = [constants.slope, *constants.scale_slope, float(not loss.symmetric), float(loss.has_scale)]
    return np.array([s, *loss.parameters]), np.array([code, *places], dtype=np.int64), np.array(bounds)


def steps_of(loss: AbstractLoss, s: float) -> Steps:
    """Return what fills the factors of rows, of sizes up to their room, at a scale."""
    return _compiled_steps(loss, s) if loss.compiled else _array_steps(loss, s)


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
