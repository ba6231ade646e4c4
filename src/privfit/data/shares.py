"""How much each row counts: the rows of a person together at most as much as one row, by survey weights."""

# pyright: reportAttributeAccessIssue=false
# pyarrow.compute makes its functions when it is imported.

import math
from contextlib import suppress
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray, whole
from privfit._silent import silence
from privfit.data.columns import ColumnValues, Parts, as_text, encode_numeric, holds_numbers, naming
from privfit.data.declarations import NumericColumn
from privfit.data.objects import only_text
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.errors import InvalidArgument

_SHRINK = 1.0 - 2.0**-40
"""Covers the rounding of the quotients, so that the shares of a unit sum to at most 1 in exact arithmetic."""

_DOUBLE = 8
"""Octets of the longest floats that Arrow has."""

_DECIMAL = 128
"""Bits of the shortest decimals that Arrow makes a dictionary of."""

_MOST = 2**53
"""Most rows of a unit that can be told apart in double precision."""

_LONG_DECIMAL = 4300
"""Digits before or after the point beyond which a decimal stays as it is; Python prints no longer ints."""

NOBODY = -1
"""Code of a row without an identifier."""


@dataclass(frozen=True, slots=True)
class ShareRule:
    """Public rule for how much each row counts.

    A row's share is ``weight / upper / max(m, rows_per_unit)``, where ``weight`` is its survey weight within
    the declared bounds and ``m`` the number of usable rows of its unit. Without survey weights the first
    quotient is 1, and without a unit the second.

    Parameters
    ----------
    unit : str, optional
        Name of the column that identifies the privacy unit; by default every row is one.
    rows_per_unit : int
        Rows up to which all rows count alike. Beyond, those of a unit share what this many count. With 1
        every unit counts alike, however many rows it has.
    weights : tuple of (str, NumericColumn), optional
        Name and declaration of the column of survey weights.

    Notes
    -----
    *Guarantee.* Shares are at least 0, those of one unit sum to at most 1, and they depend on the rows of
    that unit alone. So what a unit adds to a sum of bounded terms is a combination of such terms and of 0
    with weights that sum to 1: every bound that holds for the term of a row, and the distance of two of
    them, holds for units.
    """

    unit: str | None = None
    rows_per_unit: int = 1
    weights: tuple[str, NumericColumn] | None = None

    def __post_init__(self) -> None:
        if whole(rows_per_unit=self.rows_per_unit) > 1 and self.unit is None:
            raise InvalidArgument(
                "rows_per_unit goes with unit: name the column that identifies the privacy unit"
            )
        if self.rows_per_unit > _MOST:
            raise InvalidArgument(f"rows_per_unit must be at most {_MOST}")

    @classmethod
    def of(cls, schema: Schema, rows_per_unit: int = 1) -> "ShareRule":
        """Return the rule for the columns that a schema marks."""
        return cls(schema.unit, rows_per_unit, schema.numbers(schema.weight))

    @property
    def plain(self) -> bool:
        """Whether all rows count alike, each for itself."""
        return self.unit is None and self.weights is None

    @property
    def identity(self) -> str:
        """Everything that shares depend on, cells aside, in one text."""
        return repr(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns that the shares are made of."""
        return tuple(
            name
            for name in (self.unit, None if self.weights is None else self.weights[0])
            if name is not None
        )

    def beside(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the raw columns that a fit reads which reads these for its rows."""
        return (*self.columns, *columns)

    def shares_of(self, table: Table) -> "RowShares | None":
        """Return what a table says about shares; None if all rows count alike.

        Raises as `read`.
        """
        return None if self.plain else self.read(table)

    def read(self, table: Table) -> "RowShares":
        """Return what a table says about shares.

        Raises
        ------
        SchemaError
            If a column is absent or of a type that holds no identifiers or numbers.
        """
        factor = np.full(table.n_rows, _SHRINK)
        if self.weights is not None:
            name, column = self.weights
            with naming(name):
                weight = encode_numeric(table.values(name), column)
            factor *= np.where(weight > 0.0, weight / column.upper, 0.0)
        if self.unit is None:
            return RowShares(self, factor, None, table.n_rows)
        with naming(self.unit):
            codes, n_units = unit_codes(table.values(self.unit))
        return RowShares(self, factor, codes, n_units)


ALIKE = ShareRule()
"""The rule by which all rows count alike, each for itself."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RowShares:
    """Private: which unit each row belongs to, and its survey weight.

    Parameters
    ----------
    rule : ShareRule
    factor : array of shape (n,)
        Survey weights relative to their bound; 1 without, less a margin for rounding.
    unit : array of shape (n,) or None
        Number of each row's unit; `NOBODY` for a row without an identifier, which then does not count.
    n_units : int
        Number of units: public under ``replace``, as the number of rows is without a unit.
    """

    rule: ShareRule
    factor: FloatArray
    unit: IntArray | None
    n_units: int

    def among(self, usable: NDArray[np.bool_]) -> FloatArray:
        """Return the shares, shape (n,), where ``usable`` says which rows can count at all."""
        if self.unit is None:
            return np.where(usable, self.factor, 0.0)
        counting = usable & (self.factor > 0.0) & (self.unit != NOBODY)
        sizes = np.bincount(self.unit[counting], minlength=self.n_units)
        share = np.zeros(self.factor.size)
        whose = self.unit[counting]
        share[counting] = self.factor[counting] / np.maximum(sizes[whose], self.rule.rows_per_unit)
        return share


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
    encoded = joined.dictionary_encode()
    codes = encoded.indices.fill_null(NOBODY).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, len(encoded.dictionary)
