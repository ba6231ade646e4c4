"""Groups of rows in compiled code: dot products with a vector, and weighted sums, at the speed of memory.

Rows are taken eight at a time, if they are as wide as that. While a group is worked on, the next one is on
its way from memory: half of it is asked for in each loop over the rows.
"""

from typing import Any

import numpy as np
from numba import float64, njit, void

from privfit.data.prefetch import LINE, prefetch
from privfit.data.reduction import GROUP_ROWS
from privfit.problem.lanes import LANES, add_eight, eight_dots

_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]
_REORDERED: Any = {"error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(void(_MATRIX, _VECTOR, _VECTOR), cache=True, **_REORDERED)
def _dots(x: Any, theta: Any, out: Any) -> None:
    """Fill ``out`` with the dot products of rows of any width; four share each load of the coefficients."""
    rows, p = x.shape
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        r0, r1, r2, r3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        eta0, eta1, eta2, eta3 = 0.0, 0.0, 0.0, 0.0
        for j in range(p):
            eta0 += r0[j] * theta[j]
            eta1 += r1[j] * theta[j]
            eta2 += r2[j] * theta[j]
            eta3 += r3[j] * theta[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = eta0, eta1, eta2, eta3
    for i in range(whole, rows):
        row, eta = x[i], 0.0
        for j in range(p):
            eta += row[j] * theta[j]
        out[i] = eta


@njit(void(_MATRIX, _VECTOR, _VECTOR), cache=True, **_REORDERED)
def _add_rows(x: Any, steps: Any, out: Any) -> None:
    """Add rows of any width, each times its step; four share each load of the sum."""
    rows, p = x.shape
    whole = rows - rows % 4
    for i in range(0, whole, 4):
        r0, r1, r2, r3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s0, s1, s2, s3 = steps[i], steps[i + 1], steps[i + 2], steps[i + 3]
        for j in range(p):
            out[j] += (s0 * r0[j] + s1 * r1[j]) + (s2 * r2[j] + s3 * r3[j])
    for i in range(whole, rows):
        row, step = x[i], steps[i]
        for j in range(p):
            out[j] += step * row[j]


@njit(inline="always")
def places(x: Any, theta: Any, steps: Any, part: Any) -> Any:
    """Return where these arrays start in memory.

    Each look at `ctypes` counts a reference, so it is taken before the loop over groups.
    """
    return x.ctypes.data, theta.ctypes.data, steps.ctypes.data, part.ctypes.data


@njit(inline="always")
def new_part(p: int) -> Any:
    """Return an empty sum of a group of rows (p,), as `add_group` and `close_group` take it."""
    return np.zeros(p + LANES)


@njit(inline="always")
def predict_group(x: Any, first: int, theta: Any, steps: Any, at: Any) -> None:
    """Fill ``steps`` with the dot products of rows from ``first`` on; ``at`` is from `places`."""
    rows, p = steps.size, x.shape[1]
    width = 8 * p
    half, ahead = LANES * width // 2, GROUP_ROWS * width
    whole = rows - rows % LANES if p >= LANES else 0
    for i in range(0, whole, LANES):
        eight = at[0] + (first + i) * width
        for offset in range(0, half, LINE):
            prefetch(eight + ahead + offset)
        eight_dots(eight, at[1], p, at[2] + 8 * i)
    if whole < rows:
        _dots(x[first + whole : first + rows], theta, steps[whole:])


@njit(inline="always")
def add_group(x: Any, first: int, steps: Any, part: Any, at: Any) -> None:
    """Add rows from ``first`` on to ``part``, each times its step."""
    rows, p = steps.size, x.shape[1]
    width = 8 * p
    half, ahead = LANES * width // 2, GROUP_ROWS * width
    whole = rows - rows % LANES if p >= LANES else 0
    for i in range(0, whole, LANES):
        eight = at[0] + (first + i) * width
        for offset in range(half, 2 * half, LINE):
            prefetch(eight + ahead + offset)
        add_eight(eight, at[2] + 8 * i, p, at[3])
    if whole < rows:
        _add_rows(x[first + whole : first + rows], steps[whole:], part)


@njit(inline="always")
def close_group(part: Any, total: Any, p: int) -> None:
    """Add the sum of a group to the first numbers of ``total``, and empty it."""
    split = p - p % LANES
    for j in range(p):
        total[j] += part[j] + part[j + LANES] if j >= split else part[j]
    part[:] = 0.0


@njit(void(_MATRIX, _VECTOR, _VECTOR), cache=True, nogil=True, **_REORDERED)
def sum_rows(x: Any, steps: Any, total: Any) -> None:
    """Add rows, each times its step, to the first numbers of ``total``, a group at a time."""
    n, p = x.shape
    part, buffer = new_part(p), np.empty(GROUP_ROWS)
    at = places(x, steps, buffer, part)
    for first in range(0, n, GROUP_ROWS):
        group = buffer[: min(GROUP_ROWS, n - first)]
        group[:] = steps[first : first + group.size]
        add_group(x, first, group, part, at)
        close_group(part, total, p)
