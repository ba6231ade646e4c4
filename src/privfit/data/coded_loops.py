"""Compiled loops over coded rows; `privfit.data.coded.Layout` says what their arguments mean.

``places`` is `Layout.places`. A vector by encoded column has two more entries: 0 for the code of no entry,
and one for the code of a row that may not contribute.
"""

from typing import Any

import numpy as np
from numba import int64, njit

from privfit.data.row_types import MATRIX, PLACES, VECTOR, for_coded_rows, for_numbers

HEAD = 4
"""Entries of ``places`` before the columns."""


@njit(inline="always")
def row_dot(numbers: Any, codes: Any, i: int, places: Any, factors: Any, wide: Any) -> Any:
    """Return the dot product of row ``i`` with ``wide``; ``factors`` are its entries for the numbers."""
    fixed, plain, paired = factors.size, places[2], places[3]
    total = wide[0] if places[1] else 0.0
    for j in range(fixed):
        total += numbers[i, j] * factors[j]
    for f in range(plain):
        total += wide[codes[i, f]]
    for v in range(paired):
        total += numbers[i, fixed + v] * wide[codes[i, plain + v]]
    return total


@njit(inline="always")
def gathered(places: Any, wide: Any) -> Any:
    """Return the entries of a vector by encoded column that belong to the first numbers."""
    factors = np.empty(places.size - HEAD)
    for j in range(factors.size):
        factors[j] = wide[places[HEAD + j]]
    return factors


@for_coded_rows(PLACES, VECTOR, VECTOR)
def dots(numbers: Any, codes: Any, places: Any, wide: Any, out: Any) -> None:
    """Fill ``out`` (m,) with the dot products of rows with ``wide`` (p + 2,)."""
    factors = gathered(places, wide)
    for i in range(out.size):
        out[i] = row_dot(numbers, codes, i, places, factors, wide)


@for_coded_rows(PLACES, MATRIX, MATRIX)
def products(numbers: Any, codes: Any, places: Any, wide: Any, out: Any) -> None:
    """Fill ``out`` (m, q) with the products of rows with ``wide`` (p + 2, q), by four entries at a time."""
    plain, paired = places[2], places[3]
    fixed, width = places.size - HEAD, out.shape[1]
    fours, others = fixed - fixed % 4, plain - plain % 4
    for i in range(out.shape[0]):
        target = out[i]
        for d in range(width):
            target[d] = wide[0, d] if places[1] else 0.0
        for j in range(0, fours, 4):
            n0, n1 = np.float64(numbers[i, j]), np.float64(numbers[i, j + 1])
            n2, n3 = np.float64(numbers[i, j + 2]), np.float64(numbers[i, j + 3])
            r0, r1 = wide[places[HEAD + j]], wide[places[HEAD + j + 1]]
            r2, r3 = wide[places[HEAD + j + 2]], wide[places[HEAD + j + 3]]
            for d in range(width):
                target[d] += (n0 * r0[d] + n1 * r1[d]) + (n2 * r2[d] + n3 * r3[d])
        for j in range(fours, fixed):
            number, row = np.float64(numbers[i, j]), wide[places[HEAD + j]]
            for d in range(width):
                target[d] += number * row[d]
        for f in range(0, others, 4):
            r0, r1, r2, r3 = (
                wide[codes[i, f]],
                wide[codes[i, f + 1]],
                wide[codes[i, f + 2]],
                wide[codes[i, f + 3]],
            )
            for d in range(width):
                target[d] += (r0[d] + r1[d]) + (r2[d] + r3[d])
        for f in range(others, plain):
            row = wide[codes[i, f]]
            for d in range(width):
                target[d] += row[d]
        for v in range(paired):
            number, row = np.float64(numbers[i, fixed + v]), wide[codes[i, plain + v]]
            for d in range(width):
                target[d] += number * row[d]


@for_coded_rows(PLACES, MATRIX, MATRIX, VECTOR)
def quadratic(numbers: Any, codes: Any, places: Any, form: Any, leading: Any, out: Any) -> None:
    """Fill ``out`` (m,) with ``x' form x``, for a symmetric ``form`` (p + 2, p + 2).

    ``leading`` holds the columns of ``form`` that belong to the constant, if there is one, and the numbers.
    """
    constant, plain, paired = places[1], places[2], places[3]
    fixed, n_codes = places.size - HEAD, places[2] + places[3]
    head = fixed + constant
    values, entries = np.ones(head), np.ones(n_codes)
    for i in range(out.size):
        for j in range(fixed):
            values[constant + j] = numbers[i, j]
        for v in range(paired):
            entries[plain + v] = numbers[i, fixed + v]
        total = 0.0
        for d in range(head):
            line = leading[0 if d < constant else places[HEAD + d - constant]]
            part = 0.5 * line[d] * values[d]
            for e in range(d):
                part += line[e] * values[e]
            total += part * values[d]
        for a in range(n_codes):
            code = codes[i, a]
            line, row = leading[code], form[code]
            part = 0.5 * row[code] * entries[a]
            for d in range(head):
                part += line[d] * values[d]
            for b in range(a):
                part += row[codes[i, b]] * entries[b]
            total += part * entries[a]
        out[i] = 2.0 * total


@for_numbers(int64, MATRIX)
def widen(numbers: Any, constant: int, out: Any) -> None:
    """Write rows without codes to ``out`` (m, p), behind a column of ones if there is a constant."""
    for i in range(out.shape[0]):
        if constant:
            out[i, 0] = 1.0
        row, target = numbers[i], out[i][constant:]
        for j in range(row.size):
            target[j] = row[j]


@for_coded_rows(PLACES, MATRIX)
def expand(numbers: Any, codes: Any, places: Any, out: Any) -> None:
    """Write the rows to ``out`` (m, p), which holds zeros."""
    p, plain, paired = places[0], places[2], places[3]
    fixed = places.size - HEAD
    for i in range(out.shape[0]):
        if places[1]:
            out[i, 0] = 1.0
        for j in range(fixed):
            out[i, places[HEAD + j]] = numbers[i, j]
        for f in range(plain + paired):
            code = np.int64(codes[i, f])
            if code < p:
                out[i, code] = 1.0 if f < plain else np.float64(numbers[i, fixed + f - plain])
        for f in range(plain + paired):
            if np.int64(codes[i, f]) > p:
                out[i, :] = np.nan


@for_coded_rows(PLACES, VECTOR, VECTOR)
def square_dots(numbers: Any, codes: Any, places: Any, wide: Any, out: Any) -> None:
    """Fill ``out`` (m,) with the dot products of the squares of rows' entries with ``wide`` (p + 2,)."""
    plain, paired = places[2], places[3]
    factors = gathered(places, wide)
    fixed = factors.size
    for i in range(out.size):
        total = wide[0] if places[1] else 0.0
        for j in range(fixed):
            number = np.float64(numbers[i, j])
            total += number * number * factors[j]
        for f in range(plain):
            total += wide[codes[i, f]]
        for v in range(paired):
            number = np.float64(numbers[i, fixed + v])
            total += number * number * wide[codes[i, plain + v]]
        out[i] = total
