"""How much each row counts: the rows of a person together at most as much as one row, by survey weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray, whole
from privfit.data.columns import naming
from privfit.data.declarations import NumericColumn
from privfit.data.declared import encode_numeric
from privfit.data.identifiers import NOBODY, Keys, Salt, told_apart, unit_codes, unit_keys
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.errors import InvalidArgument

_SHRINK = 1.0 - 2.0**-40
"""Covers the rounding of the quotients, so that the shares of a unit sum to at most 1 in exact arithmetic."""

_MOST = 2**53
"""Most rows of a unit that can be told apart in double precision."""


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
        factor = self.factor(table)
        if self.unit is None:
            return RowShares(self, factor, None, table.n_rows)
        with naming(self.unit):
            codes, n_units = unit_codes(table.values(self.unit))
        return RowShares(self, factor, codes, n_units)

    def ungathered(self, table: Table, salt: Salt) -> "UngatheredShares":
        """Return what some of the rows say about shares, where units may have others elsewhere.

        All that is put together must have digests by one secret.

        Raises as `read`.
        """
        assert self.unit is not None  # noqa: S101 -- for type checkers
        with naming(self.unit):
            keys = unit_keys(table.values(self.unit), salt)
        return UngatheredShares(self, self.factor(table), keys)

    def divided(self, factor: FloatArray, sizes: IntArray) -> FloatArray:
        """Return the shares of rows that count, by how many rows of their units do."""
        return factor / np.maximum(sizes, self.rows_per_unit)

    def factor(self, table: Table) -> FloatArray:
        """Return what each row would count as a unit by itself, shape (n,)."""
        factor = np.full(table.n_rows, _SHRINK)
        if self.weights is not None:
            name, column = self.weights
            with naming(name):
                weight = encode_numeric(table.values(name), column)
            factor *= np.where(weight > 0.0, weight / column.upper, 0.0)
        return factor


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

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What there is one of for each row."""
        return (self.factor,) if self.unit is None else (self.factor, self.unit)

    def among(self, usable: NDArray[np.bool_]) -> FloatArray:
        """Return the shares, shape (n,), where ``usable`` says which rows can count at all."""
        if self.unit is None:
            return np.where(usable, self.factor, 0.0)
        counting = usable & (self.factor > 0.0) & (self.unit != NOBODY)
        whose = self.unit[counting]
        share = np.zeros(self.factor.size)
        share[counting] = self.rule.divided(self.factor[counting], np.bincount(whose)[whose])
        return share


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class UngatheredShares:
    """Private: whom rows belong to, some of the rows of a unit perhaps among others.

    Parameters
    ----------
    rule : ShareRule
    factor : array of shape (n,)
        As of `RowShares`.
    keys : array of shape (n, 2)
        Digests of identifiers; see `privfit.data.identifiers.unit_keys`.
    """

    rule: ShareRule
    factor: FloatArray
    keys: Keys

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What there is one of for each row."""
        return self.factor, self.keys

    @classmethod
    def joined(cls, parts: "Sequence[UngatheredShares]") -> "UngatheredShares":
        """Return what parts say, one after the other."""
        factor, keys = (
            np.concatenate(each) for each in zip(*((p.factor, p.keys) for p in parts), strict=True)
        )
        return cls(parts[0].rule, factor, keys)

    def picked(self, pick: Callable[[NDArray[Any]], NDArray[Any]]) -> "UngatheredShares":
        """Return what is said of the rows that ``pick`` takes of an array."""
        return UngatheredShares(self.rule, pick(self.factor), pick(self.keys))

    def gathered(self) -> RowShares:
        """Return the shares, if all rows of these units are here."""
        unit = np.full(self.factor.size, NOBODY)
        known = np.flatnonzero(self.keys.any(axis=1))
        unit[known], first = told_apart(self.keys[known])
        return RowShares(self.rule, self.factor, unit, first.size)
