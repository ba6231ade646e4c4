"""Sums of per-row gradients, each clipped to a norm before it is added."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import float64, int64, void
from numba.extending import is_jitted

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel
from privfit.data.clamp import SHRINK
from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, chunk_rows
from privfit.data.row_types import MATRIX, STRIDED, VECTOR
from privfit.losses.base import AbstractLoss, evaluate
from privfit.losses.pointers import address, called

_SMALLEST = 1e-280
"""Squared norms are raised to it: below, squares of entries underflow and the norm is not known."""


@lazily_compiled(
    void(MATRIX, VECTOR, VECTOR, STRIDED, VECTOR, VECTOR, int64, float64, float64, MATRIX),
    nogil=True,
    fastmath={"reassoc", "contract"},
)
def _add_clipped(  # noqa: PLR0917 -- compiled
    x: Any,
    y: Any,
    weight: Any,
    share: Any,
    theta: Any,
    loss: Any,
    slope: Any,
    bound: float,
    clip: float,
    out: Any,
) -> None:
    """Add the rows' ``share * w * slope * x``, ``w * slope * x`` shortened to norm ``clip``.

    ``loss`` is (s, c, k).
    """
    n, p = x.shape
    s, c, k = loss[0], loss[1], loss[2]
    part, steps = np.zeros(p), np.empty(GROUP_ROWS)
    for group in range((n + GROUP_ROWS - 1) // GROUP_ROWS):
        first = group * GROUP_ROWS
        rows = min(GROUP_ROWS, n - first)
        for i in range(rows):
            row = x[first + i]
            eta, squared = 0.0, 0.0
            for j in range(p):
                eta += row[j] * theta[j]
                squared += row[j] * row[j]
            step = called(slope, y[first + i], eta, s, c, k)
            step = min(max(step, -bound), bound) * weight[first + i]
            limit = clip / np.sqrt(max(squared, _SMALLEST)) if squared < np.inf else 0.0
            step = min(max(step, -limit), limit)
            steps[i] = share[first + i] * step if step == step else 0.0  # noqa: PLR0124 -- NaN
        for i in range(rows):
            row, step = x[first + i], steps[i]
            for j in range(p):
                part[j] += step * row[j]
        total = out[first // CHUNK_ROWS]
        for j in range(p):
            total[j] += part[j]
            part[j] = 0.0


def clipped_gradient_kernel(loss: AbstractLoss, theta: FloatArray, clip: float) -> BlockKernel:
    """Sum of ``g * min(1, clip / norm(g))`` over the rows' gradients ``g = w * slope * x``; size p.

    Where rows count by shares, each term is multiplied by its share after it is shortened.

    Parameters
    ----------
    loss : AbstractLoss
        Without a scale. Its slope need not be bounded: rows are clipped whatever it says.
    theta : array of shape (p,)
        Coefficients of the encoded columns.
    clip : float
        Bound on the norm of a row's term, which holds in exact arithmetic for what is added.
    """
    state = np.array([1.0, *loss.parameters])
    slope, bound = loss.functions.slope, loss.constants.slope
    theta, limit = np.ascontiguousarray(theta), clip * SHRINK
    of_arrays = _array_kernel(partial(evaluate, slope, s=1.0, loss=loss), theta, bound, limit)
    if not is_jitted(slope):
        return of_arrays
    place = address(slope)

    def kernel(block: Block, out: FloatArray) -> None:
        if block.offset is not None:
            of_arrays(block, out)
            return
        _add_clipped(block.x, block.y, block.influence, block.share, theta, state, place, bound, limit, out)

    return kernel


def _array_kernel(
    slope: Callable[[Any, Any], FloatArray], theta: FloatArray, bound: float, limit: float
) -> BlockKernel:
    """Return the same sum for a slope that takes arrays."""

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            x = part.x
            with np.errstate(all="ignore"):
                squared = np.einsum("ij,ij->i", x, x)
                steps = np.clip(slope(part.y, part.predictors(theta)), -bound, bound) * part.influence
                limits = np.where(np.isfinite(squared), limit / np.sqrt(np.maximum(squared, _SMALLEST)), 0.0)
                steps = np.clip(steps, -limits, limits) * part.share
                terms = np.where(np.isnan(steps), 0.0, steps)[:, None] * x
            out[chunk] += np.add.reduceat(terms, np.arange(0, len(terms), GROUP_ROWS), axis=0).sum(axis=0)

    return kernel
