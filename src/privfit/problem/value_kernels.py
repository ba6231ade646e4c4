"""Differences of the loss between two points, clamped row by row to what its slope allows."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, void

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel, CodedBlock, CodedKernel
from privfit.data.reduction import chunk_rows
from privfit.data.row_types import VECTOR
from privfit.losses.base import AbstractLoss
from privfit.losses.pointers import address, called


@lazily_compiled(
    void(VECTOR, VECTOR, VECTOR, VECTOR, VECTOR, int64, float64, float64, VECTOR),
    nogil=True,
)
def _differences(  # noqa: PLR0917 -- compiled
    y: Any,
    first: Any,
    second: Any,
    along: Any,
    loss: Any,
    value: Any,
    slope: float,
    length: float,
    out: Any,
) -> None:
    """Fill ``out`` with ``(value(second) - value(first)) / length``, within ``slope * abs(along)``."""
    s, c, k = loss[0], loss[1], loss[2]
    for i in range(y.size):
        secant = (called(value, y[i], second[i], s, c, k) - called(value, y[i], first[i], s, c, k)) / length
        limit = slope * abs(along[i])
        kept = min(max(secant, -limit), limit)
        out[i] = kept if kept == kept else 0.0  # noqa: PLR0124 -- NaN


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Two points, as coefficients of the encoded columns.

    Parameters
    ----------
    first, second : array of shape (p,)
    direction : array of shape (p,)
        ``(second - first) / length``, computed before any change of coordinates so that nothing cancels:
        the clamp of a row rests on it.
    length : float
        Distance of the points in the coordinates in which rows are bounded.
    """

    first: FloatArray
    second: FloatArray
    direction: FloatArray
    length: float


def secant_kernel(loss: AbstractLoss, segment: Segment, s: float) -> BlockKernel:
    """Sum of ``w * (loss(second) - loss(first)) / length`` over the rows, at scale ``s``; size 1."""
    state = np.array([s, *loss.parameters])
    points = np.column_stack([segment.first, segment.second, segment.direction])
    value, slope, length = address(loss.functions.value), loss.constants.slope, segment.length

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            first, second, along = part.along(points)
            found = np.empty(part.y.size)
            _differences(part.y, first, second, along, state, value, slope, length, found)
            out[chunk, 0] += float(part.weight @ found)

    return CodedKernel(kernel)
