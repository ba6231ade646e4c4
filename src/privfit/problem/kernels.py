"""One pass over a block: sums of gradients, Hessians and score products, clamped row by row.

Every kernel takes ``(block, out)`` and writes the sum of each chunk of ``CHUNK_ROWS`` rows to a row of
``out``; see `privfit.data.source`. A gradient is one fused loop (dot, slope, axpy), so the table is read
once and nothing of the length of the table is allocated. Matrices are formed by BLAS on one chunk at a
time.
"""

from typing import Any

import numpy as np
from numba import float64, int64, njit, types, void

from privfit._checks import FloatArray
from privfit.data.source import CHUNK_ROWS, Block, BlockKernel
from privfit.losses.base import SIGNATURE, AbstractLoss

_FUNCTION = types.FunctionType(SIGNATURE)
_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]


@njit(inline="always")
def _clamp(value: float, low: float, high: float) -> float:
    """Clamp to [low, high], an interval that holds 0; NaN becomes 0."""
    if value > high:
        return high
    if value < low:
        return low
    return value if value == value else 0.0  # noqa: PLR0124


@njit(
    void(_MATRIX, _VECTOR, _VECTOR, _VECTOR, _VECTOR, _FUNCTION, _FUNCTION, _VECTOR, int64, _MATRIX),
    cache=True,
    nogil=True,
    fastmath={"reassoc", "contract"},
)
def _gradient_pass(
    x: Any,
    y: Any,
    weight: Any,
    theta: Any,
    loss: Any,
    slope: Any,
    scale_slope: Any,
    bounds: Any,
    chunk_rows: int,
    out: Any,
) -> None:
    """Add ``w * (slope * x, scale_slope)`` to ``out``, a row a chunk.

    ``loss`` is (s, c, k); ``bounds`` is (slope bound, scale-slope low, scale-slope high).
    """
    n, p = x.shape
    s, c, k = loss[0], loss[1], loss[2]
    for chunk in range(out.shape[0]):
        first = chunk * chunk_rows
        last = min(first + chunk_rows, n)
        total = out[chunk]
        side = 0.0
        for i in range(first, last):
            eta = 0.0
            for j in range(p):
                eta += x[i, j] * theta[j]
            step = weight[i] * _clamp(slope(y[i], eta, s, c, k), -bounds[0], bounds[0])
            for j in range(p):
                total[j] += step * x[i, j]
            if bounds[1] < bounds[2]:
                side += weight[i] * _clamp(scale_slope(y[i], eta, s, c, k), bounds[1], bounds[2])
        if bounds[1] < bounds[2]:
            total[p] += side


@njit(
    void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _FUNCTION, _FUNCTION, _VECTOR, _VECTOR, _VECTOR),
    cache=True,
    nogil=True,
)
def _hessian_factors(
    y: Any,
    eta: Any,
    weight: Any,
    loss: Any,
    curvature: Any,
    direction: Any,
    bounds: Any,
    root: Any,
    side: Any,
) -> None:
    """Fill ``root = sqrt(w * curvature)`` and ``side = root * scale_direction``, clamped to ``bounds``."""
    s, c, k = loss[0], loss[1], loss[2]
    for i in range(y.size):
        h = _clamp(curvature(y[i], eta[i], s, c, k), 0.0, bounds[0])
        root[i] = np.sqrt(weight[i] * h)
        side[i] = root[i] * _clamp(direction(y[i], eta[i], s, c, k), -bounds[1], bounds[1])


@njit(
    void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _FUNCTION, _FUNCTION, _VECTOR, _VECTOR, _VECTOR),
    cache=True,
    nogil=True,
)
def _score_factors(
    y: Any, eta: Any, weight: Any, loss: Any, slope: Any, scale_slope: Any, bounds: Any, root: Any, side: Any
) -> None:
    """Fill ``root = w * slope`` and ``side = w * scale_slope``, clamped to ``bounds``."""
    s, c, k = loss[0], loss[1], loss[2]
    for i in range(y.size):
        root[i] = weight[i] * _clamp(slope(y[i], eta[i], s, c, k), -bounds[0], bounds[0])
        side[i] = weight[i] * _clamp(scale_slope(y[i], eta[i], s, c, k), bounds[1], bounds[2])


def gradient_kernel(loss: AbstractLoss, theta: FloatArray, s: float) -> BlockKernel:
    """Sum of the rows' gradients at ``theta`` (p,) and scale ``s``; size p, or p + 1 with a scale."""
    state = np.array([s, *loss.parameters])
    bounds = np.array([loss.constants.slope, *loss.constants.scale_slope])
    functions = loss.functions
    theta = np.ascontiguousarray(theta)

    def kernel(block: Block, out: FloatArray) -> None:
        _gradient_pass(
            block.x,
            block.y,
            block.weight,
            theta,
            state,
            functions.slope,
            functions.scale_slope,
            bounds,
            CHUNK_ROWS,
            out,
        )

    return kernel


def hessian_kernel(loss: AbstractLoss, theta: FloatArray, s: float) -> BlockKernel:
    """Sum of ``s`` times the rows' Hessians at ``(theta, s)``, flattened (q, q)."""
    bounds = np.array([loss.constants.curvature, loss.constants.scale_direction])
    functions = loss.functions
    return _outer_kernel(
        loss, theta, s, _hessian_factors, functions.curvature, functions.scale_direction, bounds
    )


def meat_kernel(loss: AbstractLoss, theta: FloatArray, s: float) -> BlockKernel:
    """Sum of the outer products of the rows' gradients at ``(theta, s)``, flattened (q, q)."""
    bounds = np.array([loss.constants.slope, *loss.constants.scale_slope])
    functions = loss.functions
    return _outer_kernel(loss, theta, s, _score_factors, functions.slope, functions.scale_slope, bounds)


def second_moment_kernel() -> BlockKernel:
    """Sum of ``w * x x'`` over the rows, flattened (p, p)."""

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in _chunks(out):
            scaled = np.sqrt(block.weight[rows])[:, None] * block.x[rows]
            out[chunk] += (scaled.T @ scaled).ravel()

    return kernel


def _chunks(out: FloatArray) -> list[tuple[int, slice]]:
    return [(chunk, slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)) for chunk in range(out.shape[0])]


def _outer_kernel(
    loss: AbstractLoss, theta: FloatArray, s: float, factors: Any, main: Any, side: Any, bounds: FloatArray
) -> BlockKernel:
    """Sum of ``a a'`` with ``a = (root * x, side)`` and the factors filled row by row."""
    state = np.array([s, *loss.parameters])

    def kernel(block: Block, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk, rows in _chunks(out):
            x, y, weight = block.x[rows], block.y[rows], block.weight[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                eta = x @ theta
            a = np.empty((y.size, p + loss.has_scale))
            root, last = np.empty(y.size), np.empty(y.size)
            factors(y, eta, weight, state, main, side, bounds, root, last)
            np.multiply(root[:, None], x, out=a[:, :p])
            if loss.has_scale:
                a[:, p] = last
            out[chunk] += (a.T @ a).ravel()

    return kernel
