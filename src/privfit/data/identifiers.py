"""Who a row belongs to: identifiers of privacy units, which are compared by value."""

# pyright: reportAttributeAccessIssue=false
# pyarrow.compute makes its functions when it is imported.

import math
import secrets
from contextlib import suppress
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pandas.util import hash_array

from privfit._checks import IntArray
from privfit._silent import silence
from privfit.data.columns import ColumnValues, Parts, as_text, holds_numbers, is_text
from privfit.data.objects import only_text

Keys: TypeAlias = NDArray[np.uint64]
"""Digests of the identifiers of rows, two numbers each."""

Salt: TypeAlias = tuple[str, str]
"""Sixteen letters for each number of a digest."""

_DOUBLE = 8
"""Octets of the longest floats that Arrow has."""

_DECIMAL = 128
"""Bits of the shortest decimals that Arrow makes a dictionary of."""

_LONG_DECIMAL = 4300
"""Digits before or after the point beyond which a decimal stays as it is; Python prints no longer ints."""

NOBODY = -1
"""Code of a row without an identifier."""


def _one_spelling(cells: NDArray[Any]) -> NDArray[Any]:
    """Return Python objects with equal numbers of one type, so that they have one spelling."""
    if cells.dtype != object or only_text(cells):
        return cells
    found = cells.copy()
    with silence:  # a cell may warn when it is read
        for place, cell in enumerate(cells):
            same = _plainest(cell)
            if same is not None:
                found[place] = same
    return found


def _plainest(cell: object) -> int | str | None:
    """Return a number as others of the same value are spelled; None for what stays as it is.

    A whole number is an int, true and false included. A number that is a float, or what a float prints as, is
    spelled as the float is, and any other that ends after the point is a decimal without zeros at its end.
    """
    try:
        if type(cell) in (str, int) or isinstance(cell, np.timedelta64):  # a whole number to NumPy
            return None
        if isinstance(cell, bool | np.bool_ | Integral):
            return int(cell)
        if isinstance(cell, Fraction):
            cell = _ending(cell)
        if isinstance(cell, Decimal):
            return _plain_decimal(cell)
        if isinstance(cell, Real) and math.isfinite(number := float(cell)) and number == cell:
            return int(number) if number == int(number) else repr(number)
    except Exception:  # an object that cannot be asked what it is, or that raises when it is converted
        return None
    return None


def _ending(fraction: Fraction) -> Decimal | None:
    """Return a fraction as a decimal, None if it has no end or a late one."""
    with localcontext(Context(prec=2 * _LONG_DECIMAL, traps=[Inexact])), suppress(Inexact):
        return Decimal(fraction.numerator) / Decimal(fraction.denominator)
    return None


def _plain_decimal(cell: Decimal) -> int | str | None:
    """Return a decimal as int or text, unless that would be long: a short one can stand for a gigabyte."""
    if not cell.is_finite():
        return repr(float(cell)) if cell.is_infinite() else None
    if not cell:
        return 0
    if cell.adjusted() >= _LONG_DECIMAL or int(cell.as_tuple().exponent) <= -_LONG_DECIMAL:
        return None
    if cell == cell.to_integral_value():
        return int(cell)
    number = float(cell)
    return repr(number) if cell in (number, Decimal(repr(number))) else format(cell, "f").rstrip("0")


def unit_codes(values: ColumnValues) -> tuple[IntArray, int]:
    """Return a number for each distinct identifier, `NOBODY` for missing ones, and how many there are.

    Parameters
    ----------
    values : array of shape (n,)
        Numbers, compared by value, or text, compared without the whitespace at its ends.
    """
    encoded = _encoded(values)
    return _indices(encoded), len(encoded.dictionary)


def new_salt() -> Salt:
    """Return a secret that makes digests, so that nobody who reads them can try out identifiers."""
    return secrets.token_hex(8), secrets.token_hex(8)


def unit_keys(values: ColumnValues, salt: Salt) -> Keys:
    """Return digests of the identifiers by a secret, shape (n, 2), 0 for missing ones.

    The digest of an identifier depends neither on what else is in the column nor on its type, so that rows
    that are read apart can be told to be of one unit. Those of two identifiers are the same with a chance of
    ``2**-128``.

    Parameters
    ----------
    values : array of shape (n,)
        As `unit_codes` takes them.
    salt : Salt
        The secret, from `new_salt`.
    """
    encoded = _encoded(values)
    text = _spelled(encoded.dictionary).to_numpy(zero_copy_only=False)
    keys = np.zeros((len(text) + 1, len(salt)), dtype=np.uint64)  # the code of nobody is the last
    for k, key in enumerate(salt):
        keys[:-1, k] = hash_array(text, hash_key=key, categorize=False)
    return keys[_indices(encoded)]


def _spelled(cells: pa.Array) -> pa.Array:
    """Return distinct identifiers as text, numbers of any type by their value."""
    kind = cells.type
    if is_text(kind):
        return cells
    if pa.types.is_boolean(kind):
        cells = cells.cast(pa.int8())
    elif pa.types.is_floating(kind) and _are_whole(cells):
        cells = cells.cast(pa.int64())
    if pa.types.is_integer(cells.type):
        return cells.cast(pa.large_string())
    numbers = np.empty(len(cells), dtype=object)
    numbers[:] = cells.to_pylist()
    return as_text(_one_spelling(numbers))


def _are_whole(cells: pa.Array) -> bool:
    """Return whether all of these floats are whole numbers that an integer holds."""
    numbers = cells.to_numpy(zero_copy_only=False)
    return bool(((np.abs(numbers) < 2.0**62) & (numbers == np.trunc(numbers))).all())


def told_apart(keys: Keys) -> tuple[IntArray, IntArray]:
    """Return a number for each distinct digest, shape (n,), and the first row of each, in any order."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable: rows of a unit stay in their order
    ordered = keys[order]
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    codes = np.empty(len(keys), dtype=np.int64)
    codes[order] = np.cumsum(new) - 1
    return codes, order[new]


def _indices(encoded: pa.DictionaryArray) -> IntArray:
    """Return which of the distinct identifiers that of each row is."""
    return encoded.indices.fill_null(NOBODY).to_numpy(zero_copy_only=False).astype(np.int64)


def _encoded(values: ColumnValues) -> pa.DictionaryArray:
    """Return identifiers, null where they are missing, and the distinct ones by order of appearance."""
    if isinstance(values, Parts):
        values = values.as_objects()
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.dtype.itemsize > _DOUBLE:
        values = values.astype(object)
    if holds_numbers(values):
        cells = pa.array(values, from_pandas=True) if isinstance(values, np.ndarray) else values
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if pa.types.is_decimal(cells.type) and cells.type.bit_width < _DECIMAL:  # no kernel encodes these
            cells = cells.cast(pa.decimal128(cells.type.precision, cells.type.scale))
        if pa.types.is_floating(cells.type):
            number = pc.add(cells.cast(pa.float64()), 0.0)  # -0 and 0 are one
            cells = pc.if_else(pc.is_nan(number), None, number)
    else:
        cells = as_text(_one_spelling(values) if isinstance(values, np.ndarray) else values)
    joined = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    return joined.dictionary_encode()
