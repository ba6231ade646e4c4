"""Which declared level each cell of a column is, decided from that cell alone.

* Text levels match text by spelling. A cell that is a number, in a column of numbers or of Python objects,
  matches the text level that spells that number.
* Number and true/false levels match by value: 1, 1.0, true, ``"1"`` and ``"1.0"`` are the same.
* Numbers are compared in floating point as long as that holds all whole numbers. Beyond, where it would take
  one code for another, cells that are whole numbers, decimals or text match the level of exactly their value;
  a cell in floating point matches the level that rounds to it, and none where several do.
"""

# pyright: reportAttributeAccessIssue=false
# pyarrow.compute makes its functions when it is imported.

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.columns import (
    Cells,
    ColumnValues,
    as_number,
    as_text,
    each_value,
    float_type,
    holds_numbers,
    is_decimal,
    numbers_of_cells,
    spelled_number,
)
from privfit.data.declarations import Level
from privfit.data.level_loops import few_codes
from privfit.data.objects import numbers_of_objects
from privfit.data.reduction import each_stretch

CodeArray: TypeAlias = NDArray[np.int32]

MISSING, UNKNOWN = -1, -2
"""Codes of `level_codes` for a missing cell and for a value that is no level."""

_FEW = 8
"""Levels up to which cells are compared with each rather than looked up."""

_LONG = 2.0**53
"""From here on a number in floating point may stand for several whole numbers."""


def level_codes(values: ColumnValues, levels: Sequence[Level]) -> CodeArray:
    """Return the position of each cell in ``levels``, `MISSING` or `UNKNOWN`; shape (n,)."""
    return each_value(values, partial(_level_codes, levels=levels))


def _level_codes(values: Cells, levels: Sequence[Level]) -> CodeArray:
    if holds_numbers(values):
        return _codes_of_numbers(values, levels)
    text = as_text(values)
    missing = text.is_null().to_numpy(zero_copy_only=False)
    if not isinstance(levels[0], str):
        numbers = numbers_of_cells(values, text)
        codes = _codes_by_value(numbers, missing, _told_apart(levels))
        return _with_long(codes, _are_long(numbers), text, levels)
    found = pc.index_in(text, value_set=pa.array(levels, pa.large_string()))
    codes = pc.fill_null(found, UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int32)
    codes[missing] = MISSING
    if isinstance(values, np.ndarray) and values.dtype == object:
        numbers = numbers_of_objects(values)
        codes = np.where(np.isnan(numbers), codes, _codes_of_objects(values, numbers, text, levels))
    return codes


def _codes_of_objects(
    values: NDArray[Any], numbers: FloatArray, text: pa.Array, levels: Sequence[Level]
) -> CodeArray:
    """Return the codes of the numbers among Python objects, each read as a column of its type would be."""
    codes, long = _codes_by_value(numbers, np.isnan(numbers), _told_apart(levels)), _are_long(numbers)
    long[long] = [not isinstance(cell, float | np.floating) for cell in values[long]]
    return _with_long(codes, long, text, levels)


def _codes_of_numbers(values: Cells, levels: Sequence[Level]) -> CodeArray:
    kind, numbers = float_type(values), values if isinstance(values, np.ndarray) else as_number(values)
    stored = _told_apart(levels) if kind is None else _as_stored(_told_apart(levels), kind)
    codes, long = np.empty(len(values), dtype=np.int32), np.zeros(len(values), dtype=bool)

    def work(rows: slice) -> None:
        some = as_number(numbers[rows])
        codes[rows] = _codes_by_value(some, np.isnan(some), stored)
        if kind is None:
            long[rows] = _are_long(some)

    each_stretch(work, len(values))
    return _with_long(codes, long, values, levels)


def _codes_by_value(numbers: FloatArray, missing: NDArray[np.bool_], levels: FloatArray) -> CodeArray:
    if len(levels) <= _FEW:
        codes = np.empty(numbers.size, dtype=np.int32)
        few_codes(np.ascontiguousarray(numbers), levels, UNKNOWN, codes)
        np.copyto(codes, MISSING, where=missing)
        return codes
    order = np.argsort(levels, kind="stable")
    ordered = levels[order]
    place = np.minimum(np.searchsorted(ordered, numbers), len(levels) - 1)
    codes = np.where(ordered[place] == numbers, order[place], UNKNOWN).astype(np.int32)
    codes[missing] = MISSING
    return codes


def _with_long(
    codes: CodeArray, long: NDArray[np.bool_], values: Cells, levels: Sequence[Level]
) -> CodeArray:
    """Return the codes, those of long cells by what they spell to the last digit."""
    places = {_exact(levels[k]): k for k in reversed(_places_of_long(_spelled_levels(levels)))}
    if not places or not long.any():  # a long cell is equal to no level that is not
        return codes
    cells = values[long] if isinstance(values, np.ndarray) else values.filter(pa.array(long))

    def read(some: Cells) -> CodeArray:
        return np.array([places.get(_exact(cell), UNKNOWN) for cell in some.tolist()], dtype=np.int32)

    codes[long] = each_value(as_text(cells).dictionary_encode(), read)
    return codes


def _exact(number: Level | None) -> Decimal | None:
    """Return a number, or what text spells, to the last digit; None for other text, which is not equal to it.

    An exponent that no decimal has is NaN, which is equal to no number.
    """
    if isinstance(number, str):
        return Decimal(number, Context(traps=[])) if is_decimal(number) else None
    return None if number is None else Decimal(number)


def _are_long(numbers: FloatArray) -> NDArray[np.bool_]:
    return np.abs(numbers) >= _LONG


def _places_of_long(numbers: FloatArray) -> list[int]:
    return np.flatnonzero(_are_long(numbers)).tolist()


def _spelled_levels(levels: Sequence[Level]) -> FloatArray:
    return np.array([spelled_number(x) if isinstance(x, str) else float(x) for x in levels])


def _told_apart(levels: Sequence[Level]) -> FloatArray:
    """Return levels in floating point; NaN for long ones that are the same there and are not equal."""
    numbers = _spelled_levels(levels)
    rounded: dict[float, set[Decimal | None]] = {}
    long = _places_of_long(numbers)
    for k in long:
        rounded.setdefault(numbers[k], set()).add(_exact(levels[k]))
    numbers[[k for k in long if len(rounded[numbers[k]]) > 1]] = np.nan
    return numbers


def _as_stored(levels: FloatArray, kind: np.dtype[np.floating[Any]]) -> FloatArray:
    """Return levels as a column of less precision has them, if it can tell them apart."""
    with np.errstate(over="ignore"):
        stored = levels.astype(kind).astype(np.float64)
    return stored if len(np.unique(stored)) == len(np.unique(levels)) else levels
