"""Rows in compiled code: dot products with a vector, and weighted sums, at the speed of memory.

A few rows are taken at a time, so that they are still in the first level of the cache when they are summed:
as they come, one after the other, for the dot products, and eight together for the sum. While they are
summed, the next ones are on their way from memory.
"""

from typing import Any

import numpy as np
from numba import float64, njit, void

from privfit.data.prefetch import LINE, prefetch
from privfit.data.reduction import GROUP_ROWS
from privfit.problem.lanes import LANES, ROWS, add_eight

_AHEAD = 48
"""Cache lines of the next rows that are asked for ahead of eight rows; with more, processors have to wait."""

_TOGETHER = 1024
"""Numbers of the rows that are taken at a time, where these are not fewer than eight."""

_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]
_REORDERED: Any = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(void(_MATRIX, _VECTOR, _VECTOR), cache=True, **_REORDERED)
def _add_rows(x: Any, steps: Any, out: Any) -> None:
    """Add rows of any width and number, each times its step."""
    rows, p = x.shape
    for i in range(rows):
        row, step = x[i], steps[i]
        for j in range(p):
            out[j] += step * row[j]


@njit(inline="always")
def places(x: Any, steps: Any, part: Any) -> Any:
    """Return where these arrays start in memory.

    Each look at `ctypes` counts a reference, so it is taken before the loop over rows.
    """
    return x.ctypes.data, steps.ctypes.data, part.ctypes.data


@njit(inline="always")
def new_part(p: int) -> Any:
    """Return an empty sum of rows (p,), as `add_rows` and `close_part` take it."""
    return np.zeros(p + LANES)


@njit(inline="always")
def rows_together(p: int) -> int:
    """Return how many rows of p numbers are taken at a time: 8, 16 or 32, a part of a group."""
    together = GROUP_ROWS
    while together > ROWS and together * p > _TOGETHER:
        together //= 2
    return together


@njit(inline="always")
def predict_rows(x: Any, first: int, rows: int, theta: Any, steps: Any) -> None:
    """Fill ``steps`` with the dot products of rows from ``first`` on."""
    p = x.shape[1]
    for i in range(rows):
        row, eta = x[first + i], 0.0
        for j in range(p):
            eta += row[j] * theta[j]
        steps[i] = eta


@njit(inline="always")
def add_rows(  # noqa: PLR0917 -- compiled
    x: Any, first: int, rows: int, steps: Any, part: Any, at: Any
) -> None:
    """Add rows from ``first`` on to ``part``, each times its step; ``at`` is from `places`."""
    p = x.shape[1]
    whole = rows - rows % ROWS if p >= LANES else 0
    ahead, length = 8 * p * rows, min(8 * p * ROWS, LINE * _AHEAD)
    for i in range(0, whole, ROWS):
        eight = at[0] + 8 * p * (first + i)
        for offset in range(ahead, ahead + length, LINE):
            prefetch(eight + offset)
        add_eight(eight, at[1] + 8 * i, p, at[2])
    if whole < rows:
        _add_rows(x[first + whole : first + rows], steps[whole:rows], part)


@njit(inline="always")
def ends_group(done: int, n: int) -> bool:
    """Return whether a group is whole once ``done`` of ``n`` rows are added."""
    return done % GROUP_ROWS == 0 or done == n


@njit(inline="always")
def close_part(part: Any, total: Any, chunk: int) -> None:
    """Add the sum of a group to the first numbers of ``total[chunk]``, and empty it."""
    p = part.size - LANES
    split = p - p % LANES
    for j in range(p):
        total[chunk, j] += part[j] + part[j + LANES] if j >= split else part[j]
    part[:] = 0.0


@njit(void(_MATRIX, _VECTOR, _MATRIX), cache=True, nogil=True, **_REORDERED)
def sum_rows(x: Any, steps: Any, total: Any) -> None:
    """Add rows, each times its step, to the first numbers of ``total`` (1, q), a group at a time."""
    n, p = x.shape
    together = rows_together(p)
    part, buffer = new_part(p), np.empty(together)
    at = places(x, buffer, part)
    for first in range(0, n, together):
        rows = min(together, n - first)
        for i in range(rows):
            buffer[i] = steps[first + i]
        add_rows(x, first, rows, buffer, part, at)
        if ends_group(first + rows, n):
            close_part(part, total, 0)
