"""Rows in compiled code: weighted sums at the speed of memory.

Rows are numbers of either type of `privfit.data.coded.Storage`, behind a constant 1 that is not stored, or
not; see `privfit.data.coded.numbers_of`.

A few rows are taken at a time, so that they are still in the first level of the cache when they are summed:
for the dot products of `privfit.data.predictors`, and for the sum. Meanwhile the next ones are on their way
from memory.
"""

from typing import Any

import numpy as np
from numba import int64, njit

from privfit.data.lanes import LANES, ROWS, add_eight, whole_column
from privfit.data.predictors import AHEAD, places, rows_together
from privfit.data.prefetch import ask
from privfit.data.reduction import GROUP_ROWS
from privfit.data.row_types import MATRIX, VECTOR, for_numbers


@njit(inline="always")
def new_part(p: int) -> Any:
    """Return an empty sum of rows (p,), as `add_rows` and `close_part` take it; the last is that of steps."""
    return np.zeros(p + LANES + 1)


@njit(inline="always")
def add_rows(  # noqa: PLR0917 -- compiled
    x: Any, first: int, rows: int, steps: Any, part: Any, at: Any
) -> None:
    """Add rows from ``first`` on to ``part``, each times its step; ``at`` is from `places`.

    The last ones, fewer than eight, are rounded in another order: sensitivities include the rounding of sums.
    """
    p = x.shape[1]
    width, whole = x.itemsize * p, rows - rows % ROWS if p >= LANES else 0
    ahead, half = width * rows * AHEAD, width * ROWS // 2
    for i in range(0, whole, ROWS):
        eight = at[0] + width * (first + i)
        ask(eight + ahead + half, half)
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
