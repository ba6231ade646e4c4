"""Sums of outer products of coded rows, two at a time: rows of a table have both a Hessian and a score.

A row costs as much as it has pairs of numbers and codes, not of encoded columns. Both sums lie side by side,
so that one instruction adds to both.
"""

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import float64, int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from privfit._checks import FloatArray
from privfit.data.coded import CodedMatrix
from privfit.data.coded_loops import HEAD
from privfit.data.instructions import INDEX, INTEGER, multiply_add, pointer
from privfit.data.reduction import slab_rows
from privfit.data.row_types import PLACES, VECTOR, for_coded_rows
from privfit.problem import coded_kernels

Factors: TypeAlias = tuple[FloatArray, FloatArray | None]
"""``(root, last)`` of rows ``a = (root * x, last)``, (n,) each; None where a row has no last number."""

_SUMS = 2
"""Sums side by side."""

_LANES = 4
"""Numbers that one instruction adds: two columns of both sums."""


def _both(builder: Any, first: Any, second: Any, lanes: int) -> Any:
    """Return a vector that has a number for each sum in turn."""
    vector = ir.Constant(ir.VectorType(ir.DoubleType(), lanes), [0.0] * lanes)
    for lane in range(lanes):
        vector = builder.insert_element(vector, (first, second)[lane % _SUMS], INDEX(lane))
    return vector


def _add_entry(typing_context: Any, target: Any, first: Any, second: Any) -> Any:
    """Add a number to an entry of the first sum, and one to the same entry of the second."""
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        target, first, second = arguments
        both = _both(builder, first, second, _SUMS)
        place = pointer(builder, target, INTEGER(0), both.type)
        builder.store(builder.fadd(builder.load(place, align=8), both), place, align=8)
        return context.get_dummy_value()

    return types.void(target, first, second), generate


def _add_line(  # noqa: PLR0917 -- compiled
    typing_context: Any, target: Any, values: Any, first: Any, second: Any, steps: Any
) -> Any:
    """Add numbers times a factor for each sum to a line of both, two columns a step.

    ``target`` and ``values`` are addresses; every value is there twice.
    """
    del typing_context

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        del signature
        target, values, first, second, steps = arguments
        both = _both(builder, first, second, _LANES)
        with cgutils.for_range(builder, steps) as loop:
            distance = builder.mul(loop.index, INTEGER(8 * _LANES))
            numbers = builder.load(pointer(builder, values, distance, both.type), align=8)
            place = pointer(builder, target, distance, both.type)
            total = multiply_add(builder, numbers, both, builder.load(place, align=8))
            builder.store(total, place, align=8)
        return context.get_dummy_value()

    return types.void(target, values, first, second, steps), generate


_entry: Any = intrinsic(_add_entry)
_line: Any = intrinsic(_add_line)


@njit(inline="always")
def _close(sums: Any, total: Any) -> None:
    """Add sums to a total, and begin them anew."""
    for k in range(sums.size):
        total[k] += sums[k]
        sums[k] = 0.0


@njit(inline="always")
def _fold(codes: Any, code: Any, number: Any, heads: Any, out: Any) -> None:
    """Write the sum of halves and their transposes to ``out`` (2, p, p); see `_fill_moments`."""
    p, columns = out.shape[1], 2 * ((heads.size + 1) // 2)
    for d in range(heads.size):
        for row in range(p):
            for k in range(_SUMS):
                codes[_SUMS * ((p + 2) * row + heads[d]) + k] += code[_SUMS * (columns * row + d) + k]
        for e in range(heads.size):
            for k in range(_SUMS):
                place = (p + 2) * heads[e] + heads[d]
                codes[_SUMS * place + k] += number[_SUMS * (columns * e + d) + k]
    for i in range(p):
        for j in range(i + 1):
            here, there = _SUMS * ((p + 2) * i + j), _SUMS * ((p + 2) * j + i)
            for k in range(_SUMS):
                out[k, i, j] = out[k, j, i] = codes[here + k] + codes[there + k]


@for_coded_rows(PLACES, VECTOR, VECTOR, int64, float64[:, :, ::1])
def _fill_moments(  # noqa: PLR0917 -- compiled
    numbers: Any, codes: Any, places: Any, first: Any, second: Any, group: int, out: Any
) -> None:
    """Fill ``out`` (2, p, p) with the sums of the rows' ``first * x x'`` and ``second * x x'``.

    Heads are the constant, if there is one, and the numbers. There are sums of products of two codes, of a
    code and a head, and of two heads. A product of two codes is added at the one that comes first in the row,
    and squares and products of two heads are halved, so that the sum with the transpose is whole. An entry
    takes part in one addition for each row of a group, each group and each half of the matrix: as many as
    `privfit.data.reduction.slab_terms` says, where a group has the rows of a slab.
    """
    q, constant, plain, paired = places[0] + 2, places[1], places[2], places[3]
    fixed, n_codes = places.size - HEAD, plain + paired
    heads = np.zeros(constant + fixed, dtype=np.int64)
    heads[constant:] = places[HEAD:]
    steps = (heads.size + 1) // 2
    entry, width, line = 8 * _SUMS, 8 * _LANES * steps, 8 * _SUMS * q
    values, entries = np.zeros(_LANES * steps), np.ones(n_codes)
    values[: _SUMS * constant] = 1.0
    by_codes, by_code, by_head = (
        np.zeros(_SUMS * q * q),
        np.zeros(_LANES * steps * q),
        np.zeros(_LANES * steps * heads.size),
    )
    codes_total, code_total, head_total = (
        np.zeros_like(by_codes),
        np.zeros_like(by_code),
        np.zeros_like(by_head),
    )
    at_codes, at_code = np.int64(by_codes.ctypes.data), np.int64(by_code.ctypes.data)
    at_head, at_values = np.int64(by_head.ctypes.data), np.int64(values.ctypes.data)
    for begin in range(0, first.size, group):
        for i in range(begin, min(begin + group, first.size)):
            one, other = first[i], second[i]
            for j in range(fixed):
                values[_SUMS * (constant + j)] = values[_SUMS * (constant + j) + 1] = numbers[i, j]
            for v in range(paired):
                entries[plain + v] = numbers[i, fixed + v]
            for a in range(n_codes):
                code = np.int64(codes[i, a])
                here, there = one * entries[a], other * entries[a]
                _line(at_code + width * code, at_values, here, there, steps)
                target = at_codes + line * code
                for b in range(min(a, plain)):
                    _entry(target + entry * np.int64(codes[i, b]), here, there)
                for b in range(plain, a):
                    _entry(target + entry * np.int64(codes[i, b]), here * entries[b], there * entries[b])
                _entry(target + entry * code, 0.5 * here * entries[a], 0.5 * there * entries[a])
            for d in range(heads.size):
                half = 0.5 * values[_SUMS * d]
                _line(at_head + width * d, at_values, half * one, half * other, steps)
        _close(by_codes, codes_total)
        _close(by_code, code_total)
        _close(by_head, head_total)
    _fold(codes_total, code_total, head_total, heads, out)


def _both_moments(x: CodedMatrix, first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the sums of ``first * x x'`` and ``second * x x'`` over the rows, shape (2, p, p)."""
    p = x.layout.size
    sums = np.empty((_SUMS, p, p))
    _fill_moments(x.numbers, x.codes, x.layout.places, first, second, slab_rows(p), sums)
    return sums


def moments(x: CodedMatrix, factor: FloatArray) -> FloatArray:
    """Return the sum of ``factor * x x'`` over the rows, shape (p, p)."""
    return _both_moments(x, factor, np.zeros(factor.size))[0]


def coded_products(x: CodedMatrix, factors: list[Factors]) -> FloatArray:
    """Return the sums of the outer products of the rows ``(root * x, last)``, shape (sums, q, q).

    Parameters
    ----------
    x : CodedMatrix of shape (n, p)
        No more rows than a chunk.
    factors : list of Factors
        One or two.
    """
    roots = [root * root for root, _ in factors]
    both = _both_moments(x, roots[0], roots[1] if len(roots) > 1 else np.zeros(len(roots[0])))
    return np.stack(
        [_with_last(x, root, last, one) for (root, last), one in zip(factors, both, strict=False)]
    )


def _with_last(x: CodedMatrix, root: FloatArray, last: FloatArray | None, products: FloatArray) -> FloatArray:
    """Return the sum of products of ``root * x`` with those of ``last`` behind it, if there is one."""
    if last is None:
        return products
    p = x.shape[1]
    whole, side = np.empty((p + 1, p + 1)), np.zeros((1, p))
    coded_kernels.add_rows(x, root * last, side)
    whole[:p, :p], whole[p, :p], whole[:p, p], whole[p, p] = products, side[0], side[0], last @ last
    return whole
