"""Scores of many points in one pass over the rows, each row held to a public range."""

from typing import Any

import numpy as np
from numba import float64, int64, njit, void

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel, TravellingKernel
from privfit.data.reduction import chunk_rows
from privfit.data.row_types import MATRIX, VECTOR
from privfit.losses.base import AbstractLoss, ScalarFunction, zero
from privfit.losses.pointers import address, called
from privfit.losses.score import AbstractScore

_FAR = 65536.0
"""How far beyond its largest predictor a row's response may be. Losses are straight lines long before, and
of numbers that are much larger nothing would be left in a difference of two values but their rounding."""


@njit(cache=True, nogil=True)
def _within(value: float, limit: float) -> float:
    if value != value:  # noqa: PLR0124 -- NaN
        return 0.0
    return min(max(value, -limit), limit)


@lazily_compiled(
    void(MATRIX, VECTOR, VECTOR, MATRIX, int64, int64, VECTOR, float64, float64, float64, VECTOR),
    nogil=True,
)
def _scores(  # noqa: PLR0917 -- compiled
    x: Any,
    y: Any,
    weight: Any,
    points: Any,
    value: Any,
    slope: Any,
    state: Any,
    radius: float,
    limit: float,
    steepest: float,
    out: Any,
) -> None:
    """Add to ``out`` the scores of the points, then their gradients point by point.

    What the additions of scores round away is added at the end (Neumaier 1974), so that their sum is off by
    about two roundings.
    """
    c, k = state[0], state[1]
    m, p = points.shape
    shift = limit if limit < np.inf else 0.0
    gradient = steepest > 0.0
    lost = np.zeros(m)
    for i in range(y.size):
        w = weight[i]
        if w == 0.0:
            continue
        length = 0.0
        for d in range(p):
            length += x[i, d] * x[i, d]
        reach = radius * np.sqrt(length)
        label = min(max(y[i], -reach - _FAR), reach + _FAR)
        top = w * max(called(value, label, reach, 1.0, c, k), called(value, label, -reach, 1.0, c, k))
        for j in range(m):
            eta = 0.0
            for d in range(p):
                eta += x[i, d] * points[j, d]
            term = w * called(value, label, eta, 1.0, c, k) - top + shift
            held, before = _within(term, limit), out[j]
            out[j] = before + held
            lost[j] += (before - out[j]) + held if abs(before) >= abs(held) else (held - out[j]) + before
            if gradient and not term < -limit:  # a term that is held there is flat
                pull = w * _within(called(slope, label, eta, 1.0, c, k), steepest)
                for d in range(p):
                    out[m + j * p + d] += pull * x[i, d]
    for j in range(m):
        out[j] += lost[j]


def score_kernel(
    score: AbstractScore, points: FloatArray, *, radius: float, span: float
) -> tuple[BlockKernel, int]:
    """Return a kernel that sums the scores of points over the rows, and its size.

    A row adds ``w * value(x'theta) - top + span / 2``, clamped to ``[-span / 2, span / 2]``, where ``top`` is
    the larger of its weighted values at ``x'theta = +-radius * norm(x)``: for a convex function the largest
    on the ball. What is subtracted does not depend on the point, so it does not change which is better.

    Parameters
    ----------
    score : AbstractScore
    points : array of shape (m, p)
    radius : float
        At least the norm of every point.
    span : float
        The public range that a row's term is held to.

    Notes
    -----
    *Guarantee.* Every row's term lies within ``[-span / 2, span / 2]`` in floating point, whatever the score
    does, and depends on no other row.
    """
    return TravellingKernel(_score_kernel, score, points, radius, span), points.shape[0]


def slope_kernel(
    loss: AbstractLoss, points: FloatArray, *, radius: float, span: float
) -> tuple[BlockKernel, int]:
    """Return a kernel that sums values and gradients of a loss at points, and its size ``m * (1 + p)``.

    As `score_kernel`, with the gradients in ``theta``, point by point, after the values. An infinite span
    asks for values that are not clamped, relative to those at ``radius`` 0.
    """
    m, p = points.shape
    return TravellingKernel(_slope_kernel, loss, points, radius, span), m * (1 + p)


def _score_kernel(score: AbstractScore, points: FloatArray, radius: float, span: float) -> BlockKernel:
    return _kernel(score.value, zero, np.array(score.parameters), points, (radius, 0.5 * span, 0.0))


def _slope_kernel(loss: AbstractLoss, points: FloatArray, radius: float, span: float) -> BlockKernel:
    limits = (radius, 0.5 * span, loss.constants.slope)
    return _kernel(loss.functions.value, loss.functions.slope, np.array(loss.parameters), points, limits)


def _kernel(
    value: ScalarFunction,
    slope: ScalarFunction,
    state: FloatArray,
    points: FloatArray,
    limits: tuple[float, float, float],
) -> BlockKernel:
    points = np.ascontiguousarray(points, dtype=np.float64)
    places = address(value), address(slope)

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x, y, weight = block.x[rows], block.y[rows], block.weight[rows]
            _scores(x, y, weight, points, *places, state, *limits, out[chunk])

    return kernel
