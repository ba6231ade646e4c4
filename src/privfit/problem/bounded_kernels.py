"""Sums in which a row's term is bounded by the most extreme response at its predictors, and first moments."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float64, njit, types, void

from privfit._checks import FloatArray
from privfit.data.source import CHUNK_ROWS, GROUP_ROWS, Block, BlockKernel
from privfit.losses.base import SIGNATURE, AbstractLoss

_FUNCTION = types.FunctionType(SIGNATURE)
_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]

Steps = Callable[[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray], None]
"""``fill(y, eta, room, step, side)`` fills the factors of a chunk of rows."""


SIZE_CLASSES = 18
"""Classes of sizes, each twice as wide as the one before."""

LENGTH_CLASSES = 34
"""Classes of lengths, each wider than the one before by a factor of the root of 2."""

LENGTH_ORIGIN = 16
"""The class of lengths just below 1."""

SIZE_ORIGIN = 10
"""The class of sizes just below 1."""


CLASSES = {"sizes": SIZE_CLASSES, "lengths": LENGTH_CLASSES}
"""Numbers of classes that rows are counted in."""


@njit(
    void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _FUNCTION, _FUNCTION, _FUNCTION, _VECTOR, _VECTOR, _VECTOR),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _fill_steps(  # noqa: PLR0917 -- compiled
    y: Any,
    eta: Any,
    room: Any,
    loss: Any,
    slope: Any,
    reach: Any,
    scale_slope: Any,
    bounds: Any,
    step: Any,
    side: Any,
) -> None:
    """Fill ``step`` and ``side``; ``bounds`` is (slope, low, high, 1 if rows are weighted and 0 if cut)."""
    s, c, k = loss[0], loss[1], loss[2]
    most, low, high, weighted = bounds[0], bounds[1], bounds[2], bounds[3] > 0.0
    for i in range(y.size):
        value = min(max(slope(y[i], eta[i], s, c, k), -most), most)
        if weighted:
            extreme = min(reach(y[i], eta[i], s, c, k), most)
            if extreme > room[i]:
                value *= room[i] / extreme
        value = min(max(value, -room[i]), room[i])
        step[i] = value if value == value else 0.0  # noqa: PLR0124 -- NaN
        along = min(max(scale_slope(y[i], eta[i], s, c, k), low), high)
        side[i] = along if along == along and room[i] > 0.0 else 0.0  # noqa: PLR0124 -- NaN


@njit(void(_MATRIX, _VECTOR, _MATRIX), cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _add_steps(x: Any, step: Any, out: Any) -> None:
    """Add the rows ``step[i] * x[i]`` to the first columns of ``out``'s only row, a group at a time."""
    n, p = x.shape
    part = np.zeros(p)
    total = out[0]
    for first in range(0, n, GROUP_ROWS):
        for i in range(first, min(first + GROUP_ROWS, n)):
            row, factor = x[i], step[i]
            for j in range(p):
                part[j] += factor * row[j]
        for j in range(p):
            total[j] += part[j]
            part[j] = 0.0


@njit(
    void(_MATRIX, _VECTOR, _VECTOR, _VECTOR, _MATRIX),
    cache=True,
    nogil=True,
    fastmath={"reassoc", "contract"},
)
def _add_marginals(x: Any, y: Any, weight: Any, units: Any, out: Any) -> None:
    """Add the rows' marginals to ``out``, a row a chunk; ``units`` is (norm bound, center, half width)."""
    n, p = x.shape
    bound, center, half = units[0], units[1], units[2]
    part = np.zeros(2 * p + 2)
    for first in range(0, n, GROUP_ROWS):
        for i in range(first, min(first + GROUP_ROWS, n)):
            row, w = x[i], weight[i]
            for j in range(p):
                part[j] += w * row[j]
                part[p + j] += (w * row[j]) * (row[j] / bound)
            u = min(max((y[i] - center) / half, -1.0), 1.0)
            part[2 * p] += w * bound * u
            part[2 * p + 1] += w * bound * u * u
        total = out[first // CHUNK_ROWS]
        for j in range(2 * p + 2):
            total[j] += part[j]
            part[j] = 0.0


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

    def kernel(block: Block, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk in range(out.shape[0]):
            rows = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
            x, y = block.x[rows], block.y[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                eta = x @ theta
            room = np.sqrt(block.weight[rows]) / norm_bound
            step, side = np.empty(y.size), np.empty(y.size)
            fill(y, eta, room, step, side)
            _add_steps(x, step, out[chunk : chunk + 1])
            if loss.has_scale:
                out[chunk, p] += side.sum()

    return kernel


def sizes_kernel(loss: AbstractLoss, theta: FloatArray, s: float, norm_bound: float) -> BlockKernel:
    """Count rows by the size of their gradient in the basis; size `SIZE_CLASSES`.

    Sizes are ``abs(slope) / room``, relative to the bound on the slope. Class k of 1, 2, ... holds those
    from ``2**(k - SIZE_ORIGIN - 1)`` on and below ``2**(k - SIZE_ORIGIN)``, the first and the last all
    beyond. Rows without room are in none.
    """
    fill = _compiled_steps(loss, s) if loss.compiled else _array_steps(loss, s)
    most = loss.constants.slope

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk in range(out.shape[0]):
            rows = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
            x, y = block.x[rows], block.y[rows]
            with np.errstate(all="ignore"):
                eta = x @ theta
                room = np.sqrt(block.weight[rows]) / norm_bound
                step, side = np.empty(y.size), np.empty(y.size)
                fill(y, eta, np.where(room > 0.0, np.inf, 0.0), step, side)
                size = np.abs(step) / (room * most)
            usable = room > 0.0
            order = np.where(size > 0.0, np.frexp(size)[1] + SIZE_ORIGIN, 0)
            classes = np.clip(order[usable], 0, SIZE_CLASSES - 1)
            out[chunk] += np.bincount(classes, minlength=SIZE_CLASSES)

    return kernel


def lengths_kernel(norm_bound: float) -> BlockKernel:
    """Count rows by their length in the basis; size `LENGTH_CLASSES`.

    Class k of 1, 2, ... holds lengths from ``2**((k - LENGTH_ORIGIN - 1) / 2)`` on and below
    ``2**((k - LENGTH_ORIGIN) / 2)``, the first and the last all beyond. Rows that may not contribute are in
    none.
    """

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk in range(out.shape[0]):
            weight = block.weight[chunk * CHUNK_ROWS : (chunk + 1) * CHUNK_ROWS]
            lengths = norm_bound / np.sqrt(weight[weight > 0.0])
            order = np.floor(2.0 * np.log2(lengths)).astype(np.int64) + LENGTH_ORIGIN + 1
            classes = np.clip(order, 0, LENGTH_CLASSES - 1)
            out[chunk] += np.bincount(classes, minlength=LENGTH_CLASSES)

    return kernel


def marginals_kernel(norm_bound: float, response_range: tuple[float, float]) -> BlockKernel:
    """Sum of ``w * (x, x**2 / C, C u, C u**2)`` over the rows; size ``2 p + 2``.

    ``C`` is the norm bound, ``u`` the response with ``response_range`` mapped to [-1, 1] and cut to it. Since
    ``w * norm(x)**2 <= C**2`` and ``w <= 1``, each of the four parts has norm at most ``C``.
    """
    low, high = response_range
    units = np.array([norm_bound, 0.5 * (low + high), 0.5 * (high - low)])

    def kernel(block: Block, out: FloatArray) -> None:
        _add_marginals(block.x, block.y, block.weight, units, out)

    return kernel


def _compiled_steps(loss: AbstractLoss, s: float) -> Steps:
    state, functions, constants = np.array([s, *loss.parameters]), loss.functions, loss.constants
    limits = np.array([constants.slope, *constants.scale_slope, float(not loss.symmetric)])

    def fill(y: FloatArray, eta: FloatArray, room: FloatArray, step: FloatArray, side: FloatArray) -> None:
        _fill_steps(
            y, eta, room, state, functions.slope, functions.reach, functions.scale_slope, limits, step, side
        )

    return fill


def _array_steps(loss: AbstractLoss, s: float) -> Steps:
    most = loss.constants.slope

    def fill(y: FloatArray, eta: FloatArray, room: FloatArray, step: FloatArray, side: FloatArray) -> None:
        slope: Any = loss.functions.slope
        with np.errstate(all="ignore"):
            values = np.clip(np.asarray(slope(y, eta, s, *loss.parameters)), -most, most)
            if not loss.symmetric:
                values *= np.minimum(1.0, room / most)
        step[:] = np.clip(np.where(np.isnan(values), 0.0, values), -room, room)
        side[:] = 0.0

    return fill
