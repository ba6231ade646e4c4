"""Means of the encoded columns and the response, and of their squares."""

from typing import Any

import numpy as np
from numba import int64

from privfit._checks import FloatArray
from privfit.data.blocks import Block, BlockKernel, CodedBlock, CodedKernel
from privfit.data.coded import by_code, numbers_of
from privfit.data.lanes import LANES, ROWS, add_squares_eight, whole_column
from privfit.data.prefetch import LINE, prefetch
from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, chunk_rows
from privfit.data.row_types import MATRIX, VECTOR, for_numbers
from privfit.errors import PlanViolation
from privfit.problem import coded_kernels

_AHEAD = 32
"""Rows ahead that are asked for from memory."""


@for_numbers(int64, VECTOR, VECTOR, VECTOR, MATRIX)
def _add_marginals(  # noqa: PLR0917 -- compiled
    x: Any, constant: int, y: Any, weight: Any, units: Any, out: Any
) -> None:
    """Add the rows' marginals to ``out``, a row a chunk; ``units`` is (norm bound, center, half width)."""
    n, width = x.shape
    p, bound, center, half = constant + width, units[0], units[1], units[2]
    sums, squares, along = np.zeros(width + LANES), np.zeros(width + LANES), np.zeros(3)
    address, steps, targets = x.ctypes.data, weight.ctypes.data, (sums.ctypes.data, squares.ctypes.data)
    size, zero = x.itemsize * width, x.dtype.type(0)
    for first in range(0, n, GROUP_ROWS):
        last = min(first + GROUP_ROWS, n)
        whole = last - (last - first) % ROWS if width >= LANES else first
        for i in range(first, whole, ROWS):
            for offset in range(size * _AHEAD, size * (_AHEAD + ROWS), LINE):
                prefetch(address + size * i + offset)
            add_squares_eight(address + size * i, width, steps + 8 * i, targets[0], targets[1], zero)
        for i in range(whole, last):
            row, w = x[i], weight[i]
            for j in range(width):
                sums[j] += w * row[j]
                squares[j] += (w * row[j]) * row[j]
        for i in range(first, last):
            u, w = min(max((y[i] - center) / half, -1.0), 1.0), weight[i]
            along[0] += w * bound * u
            along[1] += w * bound * u * u
            along[2] += w
        total = out[first // CHUNK_ROWS]
        if constant:
            total[0] += along[2]
            total[p] += along[2] / bound
        for j in range(width):
            total[constant + j] += whole_column(sums, width, j)
            total[p + constant + j] += whole_column(squares, width, j) / bound
        total[2 * p] += along[0]
        total[2 * p + 1] += along[1]
        sums[:], squares[:], along[:] = 0.0, 0.0, 0.0


def marginals_kernel(norm_bound: float, response_range: tuple[float, float]) -> BlockKernel:
    """Sum of ``w * (x, x**2 / C, C u, C u**2)`` over the rows; size ``2 p + 2``.

    ``C`` is the norm bound, ``u`` the response with ``response_range`` mapped to [-1, 1] and cut to it. Since
    ``w * norm(x)**2 <= C**2`` and ``w <= 1``, each of the four parts has norm at most ``C``.
    """
    low, high = response_range
    if not low < high:
        raise PlanViolation("the range of responses must have a length")
    units = np.array([norm_bound, 0.5 * (low + high), 0.5 * (high - low)])

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        x = block.x
        if not by_code(x):
            _add_marginals(*numbers_of(x), block.y, block.weight, units, out)
            return
        p, squares = x.shape[1], np.zeros((out.shape[0], x.shape[1]))
        coded_kernels.add_rows(x, block.weight, out)
        coded_kernels.add_rows(x.squared(), block.weight, squares)
        out[:, p : 2 * p] += squares / norm_bound
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            u = np.clip((block.y[rows] - units[1]) / units[2], -1.0, 1.0)
            response = norm_bound * block.weight[rows] * u
            out[chunk, 2 * p] += response.sum()
            out[chunk, 2 * p + 1] += (response * u).sum()

    return CodedKernel(kernel)
