"""The sums of `kernels` and `bounded_kernels` over coded rows, which are never written out.

A row costs as much as it has numbers and codes, not as it has encoded columns. See `privfit.data.coded` for
what the arguments of compiled loops mean.
"""

from typing import Any

import numpy as np
from numba import int64, njit

from privfit._checks import FloatArray
from privfit.data.coded import CodedMatrix, Matrix, by_code, numbers_of
from privfit.data.coded_loops import HEAD, gathered, row_dot
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.row_types import MATRIX, PLACES, VECTOR, for_coded_rows
from privfit.problem.groups import sum_rows
from privfit.problem.slopes import fill_slopes

GROUP = 128
"""Rows that are added up before their sum is added to the chunk's.

An indicator takes part in ``GROUP / 4 + 2 + CHUNK_ROWS / GROUP`` additions and a number in
``GROUP + CHUNK_ROWS / GROUP``, no more than `privfit.problem.queries` counts for sums in groups.
"""

_SIDES = 4
"""Sums that rows are dealt out to: an addition to the level of the row before would have to wait for it."""


@njit(inline="always")
def _add_group(  # noqa: PLR0917 -- compiled
    numbers: Any, codes: Any, places: Any, first: int, steps: Any, sides: Any, total: Any
) -> None:
    """Add rows from ``first`` on, each times its step, to ``total`` (p,).

    ``sides`` has room for four sums by encoded column; it holds zeros before and after.
    """
    p, plain, paired = places[0], places[2], places[3]
    fixed, width = places.size - HEAD, places[0] + 2
    for i in range(steps.size):
        step, side, row = steps[i], width * (i & 3), first + i
        for f in range(plain):
            sides[side + codes[row, f]] += step
        for v in range(paired):
            sides[side + codes[row, plain + v]] += step * numbers[row, fixed + v]
    for j in range(fixed):
        column = 0.0
        for i in range(steps.size):
            column += steps[i] * numbers[first + i, j]
        total[places[HEAD + j]] += column
    if places[1]:
        column = 0.0
        for i in range(steps.size):
            column += steps[i]
        total[0] += column
    for j in range(p):
        total[j] += (sides[j] + sides[j + width]) + (sides[j + 2 * width] + sides[j + 3 * width])
    sides[:] = 0.0


@for_coded_rows(PLACES, VECTOR, MATRIX)
def _add_rows(numbers: Any, codes: Any, places: Any, steps: Any, out: Any) -> None:
    """Add the rows, each times its step, to the first columns of ``out``, a row a chunk."""
    sides = np.zeros(_SIDES * (places[0] + 2))
    for first in range(0, steps.size, GROUP):
        part = steps[first : first + GROUP]
        _add_group(numbers, codes, places, first, part, sides, out[first // CHUNK_ROWS])


@for_coded_rows(PLACES, VECTOR, VECTOR, VECTOR, VECTOR, int64, int64, VECTOR, MATRIX)
def _add_gradients(  # noqa: PLR0917 -- compiled
    numbers: Any,
    codes: Any,
    places: Any,
    y: Any,
    weight: Any,
    wide: Any,
    loss: Any,
    code: int,
    slope: Any,
    caps: Any,
    out: Any,
) -> None:
    """Add the rows' ``w * slope * x`` to ``out``, a row a chunk, a group at a time; ``loss`` is (s, c, k).

    ``caps`` has a bound on the slope for every row, or one for all of them.
    """
    s, c, k = loss[0], loss[1], loss[2]
    each = 1 if caps.size > 1 else 0
    factors, sides, buffer = gathered(places, wide), np.zeros(_SIDES * (places[0] + 2)), np.empty(GROUP)
    for first in range(0, y.size, GROUP):
        steps = buffer[: min(GROUP, y.size - first)]
        for i in range(steps.size):
            steps[i] = row_dot(numbers, codes, first + i, places, factors, wide)
        fill_slopes(code, slope, y[first : first + steps.size], steps, s, c, k)
        for i in range(steps.size):
            cap = caps[each * (first + i)]
            step = min(max(steps[i], -cap), cap)
            steps[i] = step * weight[first + i] if step == step else 0.0  # noqa: PLR0124 -- NaN
        _add_group(numbers, codes, places, first, steps, sides, out[first // CHUNK_ROWS])


def add_steps(x: Matrix, steps: FloatArray, total: FloatArray) -> None:
    """Add rows, by code or as numbers, each times its step, to the first columns of ``total`` (1, q)."""
    if by_code(x):
        add_rows(x, steps, total)
    else:
        sum_rows(*numbers_of(x), steps, total)


def add_rows(x: CodedMatrix, steps: FloatArray, out: FloatArray) -> None:
    """Add the rows, each times its step, shape (m,), to the first columns of ``out``, a row a chunk."""
    _add_rows(x.numbers, x.codes, x.layout.places, steps, out)


def add_gradients(  # noqa: PLR0917 -- as the compiled function
    x: CodedMatrix,
    y: FloatArray,
    weight: FloatArray,
    theta: FloatArray,
    state: FloatArray,
    code: int,
    slope: int,
    caps: FloatArray,
    out: FloatArray,
) -> None:
    """Add the rows' ``w * slope * x`` to the first columns of ``out``, a row a chunk."""
    wide = np.append(theta, (0.0, np.nan))
    _add_gradients(x.numbers, x.codes, x.layout.places, y, weight, wide, state, code, slope, caps, out)
