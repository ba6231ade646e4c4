"""Linear predictors of rows without codes, at the speed of memory.

What is found of a row depends on the row and the coefficients alone, to the last bit: not on its place, nor
on how many rows there are. The slope of a loss with a kink turns a last bit into its whole bound, so that one
row more would otherwise move what others add to a sum. So the last rows, fewer than eight, are copied to
where there is room for eight, and the same instructions work on all.

Products of BLAS are no such thing: libraries have other instructions for a single row, for the last ones of a
table and for several threads. Only sums, and changes of coordinates before sums, are left to them, whose
rounding sensitivities include.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import int64, njit

from privfit._checks import FloatArray
from privfit.data.coded import Matrix, by_code, numbers_of
from privfit.data.lanes import LANES, ROWS, copied, dot_eight, new_rows, padded
from privfit.data.prefetch import ask
from privfit.data.reduction import GROUP_ROWS
from privfit.data.row_types import VECTOR, for_numbers

AHEAD = 2
"""How many groups of rows ahead memory is asked for."""

_TOGETHER = 1024
"""Numbers of the rows that are taken at a time, where these are not fewer than eight."""


@njit(inline="always")
def places(x: Any, steps: Any, part: Any) -> Any:
    """Return where these arrays start in memory, and a number of the type of the rows.

    Each look at `ctypes` counts a reference, so it is taken before the loop over rows.
    """
    return x.ctypes.data, steps.ctypes.data, part.ctypes.data, x.dtype.type(0)


@njit(inline="always")
def rows_together(p: int) -> int:
    """Return how many rows of p numbers are taken at a time: 8, 16 or 32, a part of a group."""
    together = GROUP_ROWS
    while together > ROWS and together * p > _TOGETHER:
        together //= 2
    return together


@njit(inline="always")
def predict_rows(  # noqa: PLR0917 -- compiled
    x: Any, first: int, rows: int, start: float, factors: Any, steps: Any, at: Any, line: int, spare: Any
) -> None:
    """Fill ``steps`` with ``start`` and the dot products of rows from ``first`` on.

    ``factors`` are `privfit.data.lanes.padded` and start at ``line``; ``at`` is from `places`, and ``spare``
    from `new_rows`. Up to the next multiple of eight, what is behind the last of ``steps`` is overwritten.
    """
    p = x.shape[1]
    width, lanes = x.itemsize * p, rows if p >= LANES else 0
    ahead, half = width * rows * AHEAD, width * ROWS // 2
    for i in range(0, lanes, ROWS):
        eight = at[0] + width * (first + i)
        ask(eight + ahead, half)
        if i + ROWS > rows:
            eight = copied(x, first + i, rows - i, spare)
        dot_eight(eight, p, line, start, at[1] + 8 * i, at[3])
    for i in range(lanes, rows):
        row, eta = x[first + i], start
        for j in range(p):
            eta += row[j] * factors[j]
        steps[i] = eta


@for_numbers(int64, VECTOR, VECTOR)
def _fill(x: Any, constant: int, theta: Any, out: Any) -> None:
    """Fill ``out`` (n,) with the dot products of rows with ``theta``."""
    n, p = x.shape
    together = rows_together(p)
    steps, spare = np.empty(together), new_rows(x, ROWS)
    at, start, factors = places(x, steps, steps), theta[0] if constant else 0.0, padded(theta[constant:])
    line = factors.ctypes.data
    for first in range(0, n, together):
        rows = min(together, n - first)
        predict_rows(x, first, rows, start, factors, steps, at, line, spare)
        for i in range(rows):
            out[first + i] = steps[i]


def predictors_at(x: Matrix, points: Sequence[FloatArray] | FloatArray) -> FloatArray:
    """Return `predictors` at each of these points, shape (m, n)."""
    return np.array([predictors(x, point) for point in points])


def predictors(x: Matrix, theta: FloatArray) -> FloatArray:
    """Return the linear predictors of rows at ``theta`` (p,), shape (n,), each from its row alone."""
    if by_code(x):
        return x @ theta
    numbers, constant = numbers_of(x)
    out = np.empty(len(numbers))
    _fill(np.ascontiguousarray(numbers), constant, np.ascontiguousarray(theta, dtype=np.float64), out)
    return out
