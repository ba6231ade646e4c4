"""Cells of a declared column as numbers or codes. What a cell becomes depends on that cell alone."""

# pyright: reportAttributeAccessIssue=false
# pyarrow.compute makes its functions when it is imported.

from functools import partial

import numpy as np
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
    numbers_of_text,
    refuse_all_but_numbers,
)
from privfit.data.declarations import CategoricalColumn, Level, NumericColumn
from privfit.data.levels import MISSING, UNKNOWN, CodeArray, level_codes
from privfit.data.objects import numbers_of_objects


def declared_numbers(values: ColumnValues, column: NumericColumn) -> FloatArray:
    """Return the cells as float64, shape (n,); NaN where a cell is missing, a missing code or no number.

    Maybe a view of the input. Nothing is clamped or filled.

    Raises
    ------
    SchemaError
        If the type of the column cannot hold numbers, as dates.
    """
    if column.decimal == "." and not column.missing_codes:
        return as_number(values)
    return each_value(values, partial(_declared_numbers, column=column))


def _declared_numbers(values: Cells, column: NumericColumn) -> FloatArray:
    commas = column.decimal == "," and not holds_numbers(values)
    numbers = _numbers_with_commas(values) if commas else as_number(values)
    if not column.missing_codes:
        return numbers
    codes, kind = np.array(column.missing_codes), float_type(values) if holds_numbers(values) else None
    return np.where(np.isin(numbers, codes if kind is None else codes.astype(kind)), np.nan, numbers)


def _numbers_with_commas(values: Cells) -> FloatArray:
    """Return the numbers that text with decimal commas spells; a point in it separates nothing."""
    refuse_all_but_numbers(values)
    text = as_text(values)
    plain = pc.if_else(pc.match_substring(text, "."), None, text)
    numbers = numbers_of_text(pc.replace_substring(plain, ",", "."))
    if isinstance(values, np.ndarray) and values.dtype == object:
        others = numbers_of_objects(values)
        return np.where(np.isnan(others), numbers, others)
    return numbers


def encode_numeric(values: ColumnValues, column: NumericColumn) -> FloatArray:
    """Clamp to the bounds, transform, and fill missing cells.

    Parameters
    ----------
    values : array of shape (n,)
        Raw cells of any type that can hold numbers, text included.
    column : NumericColumn
        Its declaration.

    Returns
    -------
    array of shape (n,)
        In transformed units and within ``column.limits``; infinities are clamped. NaN where a cell is
        missing or no number and no fill value is declared.

    Raises
    ------
    SchemaError
        If the type of the column cannot hold numbers, as dates.
    """
    low, high = column.limits
    out = column.transformed(np.clip(declared_numbers(values, column), column.lower, column.upper))
    np.clip(out, low, high, out=out)
    if column.missing is not None:
        fill = float(np.clip(column.transformed(np.array([column.missing]))[0], low, high))
        np.copyto(out, fill, where=np.isnan(out))
    return out


def declared_codes(values: ColumnValues, column: CategoricalColumn) -> CodeArray:
    """Return the position of each cell in ``column.levels``, `MISSING` or `UNKNOWN`; shape (n,)."""
    return each_value(values, partial(_declared_codes, column=column))


def _declared_codes(values: Cells, column: CategoricalColumn) -> CodeArray:
    codes = level_codes(values, column.levels)
    if column.missing_codes:
        codes[(codes == UNKNOWN) & _among(values, column.missing_codes)] = MISSING
    return codes


def _among(values: Cells, levels: tuple[Level, ...]) -> NDArray[np.bool_]:
    """Return which cells are one of these, each kind of which is matched as levels of that kind are."""
    text = [level for level in levels if isinstance(level, str)]
    numbers = [level for level in levels if not isinstance(level, str)]
    found = np.zeros(len(values), dtype=bool)
    for some in (text, numbers):
        if some:
            found |= level_codes(values, some) >= 0
    return found


def encode_categorical(values: ColumnValues, column: CategoricalColumn) -> CodeArray:
    """Return the position of each cell's level in ``column.levels``, shape (n,).

    Unknown values get the code of ``column.other``, missing cells that of ``column.missing``, or -1 where
    none is declared. Nothing is counted, warned about or logged.

    Raises
    ------
    SchemaError
        If the type of the column cannot hold levels, as lists.
    """
    return each_value(values, partial(_encoded, column=column))


def _encoded(values: Cells, column: CategoricalColumn) -> CodeArray:
    codes = _declared_codes(values, column)
    codes[codes == UNKNOWN] = column.other_code
    codes[codes == MISSING] = column.missing_code
    return codes
