"""Rows in compiled code: dot products with a vector, and weighted sums, at the speed of memory.

Rows are numbers of either type of `privfit.data.coded.Storage`, behind a constant 1 that is not stored, or
not; see `privfit.data.coded.numbers_of`.

A few rows are taken at a time, so that they are still in the first level of the cache when they are summed:
as they come, one after the other, for the dot products, and eight together for the sum. Meanwhile the next
ones are on their way from memory.
"""

from typing import Any

import numpy as np
from numba import int64, njit

from privfit.data.lanes import LANES, ROWS, add_eight, dot_eight, whole_column
from privfit.data.prefetch import LINE, prefetch
from privfit.data.reduction import GROUP_ROWS
from privfit.data.row_types import MATRIX, VECTOR, for_numbers

_AHEAD = 2
"""How many groups of rows ahead memory is asked for."""

_MOST_LINES = 48
"""Cache lines that are asked for at once; with more, processors have to wait."""

_TOGETHER = 1024
"""Numbers of the rows that are taken at a time, where these are not fewer than eight."""


@njit(inline="always")
def places(x: Any, steps: Any, part: Any) -> Any:
    """Return where these arrays start in memory, and a number of the type of the rows.

    Each look at `ctypes` counts a reference, so it is taken before the loop over rows.
    """
    return x.ctypes.data, steps.ctypes.data, part.ctypes.data, x.dtype.type(0)


@njit(inline="always")
def new_part(p: int) -> Any:
    """Return an empty sum of rows (p,), as `add_rows` and `close_part` take it; the last is that of steps."""
    return np.zeros(p + LANES + 1)


@njit(inline="always")
def rows_together(p: int) -> int:
    """Return how many rows of p numbers are taken at a time: 8, 16 or 32, a part of a group."""
    together = GROUP_ROWS
    while together > ROWS and together * p > _TOGETHER:
        together //= 2
    return together


@njit(inline="always")
def _ask(address: int, length: int) -> None:
    """Ask for memory from an address on.

    Half of it before the products with eight rows, half before their sum: spread over the work on them it
    does not wait in line.
    """
    for offset in range(0, min(length, LINE * _MOST_LINES), LINE):
        prefetch(address + offset)


@njit(inline="always")
def predict_rows(  # noqa: PLR0917 -- compiled
    x: Any, first: int, rows: int, start: float, factors: Any, steps: Any, at: Any, line: int
) -> None:
    """Fill ``steps`` with ``start`` and the dot products of rows from ``first`` on.

    ``factors`` are `privfit.data.lanes.padded` and start at ``line``; ``at`` is from `places`.
    """
    p = x.shape[1]
    width, whole = x.itemsize * p, rows - rows % ROWS if p >= LANES else 0
    ahead, half = width * rows * _AHEAD, width * ROWS // 2
    for i in range(0, whole, ROWS):
        eight = at[0] + width * (first + i)
        _ask(eight + ahead, half)
        dot_eight(eight, p, line, start, at[1] + 8 * i, at[3])
    for i in range(whole, rows):
        row, eta = x[first + i], start
        for j in range(p):
            eta += row[j] * factors[j]
        steps[i] = eta


@njit(inline="always")
def add_rows(  # noqa: PLR0917 -- compiled
    x: Any, first: int, rows: int, steps: Any, part: Any, at: Any
) -> None:
    """Add rows from ``first`` on to ``part``, each times its step; ``at`` is from `places`."""
    p = x.shape[1]
    width, whole = x.itemsize * p, rows - rows % ROWS if p >= LANES else 0
    ahead, half = width * rows * _AHEAD, width * ROWS // 2
    for i in range(0, whole, ROWS):
        eight = at[0] + width * (first + i)
        _ask(eight + ahead + half, half)
        add_eight(eight, p, at[1] + 8 * i, at[2], at[3])
    for i in range(whole, rows):
        row, step = x[first + i], steps[i]
        for j in range(p):
            part[j] += step * row[j]
    total = 0.0
    for i in range(rows):
        total += steps[i]
    part[p + LANES] += total


@njit(inline="always")
def ends_group(done: int, n: int) -> bool:
    """Return whether a group is whole once ``done`` of ``n`` rows are added."""
    return done % GROUP_ROWS == 0 or done == n


@njit(inline="always")
def close_part(part: Any, constant: int, total: Any, chunk: int) -> None:
    """Add the sum of a group to the first numbers of ``total[chunk]``, and empty it."""
    p = part.size - LANES - 1
    if constant:
        total[chunk, 0] += part[p + LANES]
    for j in range(p):
        total[chunk, constant + j] += whole_column(part, p, j)
    part[:] = 0.0


@for_numbers(int64, VECTOR, MATRIX)
def sum_rows(x: Any, constant: int, steps: Any, total: Any) -> None:
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
            close_part(part, constant, total, 0)
