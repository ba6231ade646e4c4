"""Differences of the loss between two points, clamped row by row to what its slope allows."""

from typing import Any

import numpy as np
from numba import float64, njit, types, void

from privfit._checks import FloatArray
from privfit.data.source import CHUNK_ROWS, Block, BlockKernel
from privfit.losses.base import SIGNATURE, AbstractLoss

_FUNCTION = types.FunctionType(SIGNATURE)
_VECTOR = float64[::1]


@njit(void(_VECTOR, _VECTOR, _VECTOR, _VECTOR, _FUNCTION, float64, float64, _VECTOR), cache=True, nogil=True)
def _differences(  # noqa: PLR0917 -- compiled
    y: Any, first: Any, second: Any, loss: Any, value: Any, slope: float, length: float, out: Any
) -> None:
    """Fill ``out`` with ``(value(second) - value(first)) / length``, within ``slope`` times the distance."""
    s, c, k = loss[0], loss[1], loss[2]
    for i in range(y.size):
        difference = value(y[i], second[i], s, c, k) - value(y[i], first[i], s, c, k)
        limit = slope * abs(second[i] - first[i])
        kept = min(max(difference, -limit), limit)
        out[i] = kept / length if kept == kept else 0.0  # noqa: PLR0124 -- NaN


def secant_kernel(
    loss: AbstractLoss, first: FloatArray, second: FloatArray, *, s: float, length: float
) -> BlockKernel:
    """Sum of ``w * (loss(second) - loss(first)) / length`` over the rows; size 1.

    Parameters
    ----------
    loss : AbstractLoss
    first, second : array of shape (p,)
        Coefficients of the encoded columns.
    s : float
        Scale, the same at both points.
    length : float
        Distance of the points in the coordinates in which rows are bounded.
    """
    state = np.array([s, *loss.parameters])

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk in range(out.shape[0]):
            rows = slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS)
            x, y, weight = block.x[rows], block.y[rows], block.weight[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                etas = np.ascontiguousarray((x @ np.column_stack([first, second])).T)
            part = np.empty(y.size)
            _differences(y, etas[0], etas[1], state, loss.functions.value, loss.constants.slope, length, part)
            out[chunk, 0] += float(weight @ part)

    return kernel
