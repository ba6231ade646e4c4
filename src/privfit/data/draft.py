"""A schema in which bounds are still missing: what stands in for them, and how they are filled in."""

import math
import numbers
import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Self, final

import numpy as np

from privfit.data.declarations import NumericColumn
from privfit.data.schema import Schema, SchemaLike, short
from privfit.data.toml_files import read_declarations, write_declarations
from privfit.errors import SchemaError

_WIDEST: dict[str, dict[str, Any]] = {
    "none": {"lower": -(2.0**64), "upper": 2.0**64},
    "sqrt": {"lower": -(2.0**64), "upper": 2.0**64, "transform": None},
    "log": {"lower": 2.0**-64, "upper": 2.0**64},
    "log1p": {"lower": 2.0**-50 - 1.0, "upper": 2.0**50},
}
"""What stands in for missing bounds, by transform: as far on either side of 0 once it is taken. Numbers whose
root is taken are looked at as they are."""

_BOUNDS = ("lower", "upper")

_TINY = 1e-9
"""Part of the length of bounds up to which an end is taken for 0."""

_LOWEST = {"log1p": 2.0**-50 - 1.0, "log": 2.0**-64, "sqrt": 0.0}
"""Least lower bound of a transform."""


@final
@dataclass(frozen=True, slots=True)
class Draft:
    """Declarations of columns, some of them numeric without `lower` or `upper`.

    Parameters
    ----------
    declarations : dict
        As `Schema` takes them, but for the bounds.
    unbounded : tuple of str
        Names of the columns that lack one.
    """

    declarations: dict[str, Any]
    unbounded: tuple[str, ...]

    @classmethod
    def of(cls, schema: SchemaLike) -> Self:
        """Return the draft that a mapping or TOML file holds.

        Raises
        ------
        SchemaError
            If a declaration contradicts itself, bounds aside, or the bounds of weights, of exposures or of a
            privacy unit are missing.
        """
        given = _declarations(schema)
        unbounded = tuple(name for name, one in given.items() if _lacks_bounds(one))
        for name in unbounded:
            _check(name, given[name])
        checked = Schema(
            {name: _possible(one) | one if name in unbounded else one for name, one in given.items()}
        )
        return cls(
            {
                name: {key: option for key, option in one.items() if key not in _BOUNDS or key in given[name]}
                if name in unbounded
                else one
                for name, one in checked.to_dict().items()
            },
            unbounded,
        )

    def check_roles(self, *, unit: str | None, weights: str | None, exposure: str | None = None) -> None:
        """Raise unless the columns of these roles, where they are named, have bounds."""
        for role, name in (("unit", unit), ("weights", weights), ("exposure", exposure)):
            if name in self.unbounded:
                other = ', or take type="identifier"' if role == "unit" else ""
                raise SchemaError(f"{role}={name!r}: its bounds are not learned; declare them{other}")

    @property
    def stand_in(self) -> Schema:
        """The schema by which unbounded columns are looked at: their bounds hold nearly all numbers."""
        return self._with(
            {name: self.declarations[name] | _widest(self.declarations[name]) for name in self.unbounded}
        )

    @property
    def outline(self) -> Schema:
        """The schema with the widest bounds that `completed` can give in place of those that are missing."""
        return self._with(
            {name: _possible(self.declarations[name]) | self.declarations[name] for name in self.unbounded}
        )

    def _with(self, entries: dict[str, dict[str, Any]]) -> Schema:
        return Schema(self.declarations | entries)

    def raw(self, name: str, encoded: tuple[float, float]) -> tuple[float, float]:
        """Return an interval of an unbounded column, encoded by `stand_in`, in the raw unit."""
        entry = self.declarations[name]
        column = Schema({name: entry | _widest(entry)})[name]
        assert isinstance(column, NumericColumn)  # noqa: S101 -- it lacks bounds
        center, half = column.scaling(centered=True)
        low, high = column.untransformed(center + half * np.array(encoded))
        return max(float(low), column.lower), min(float(high), column.upper)

    def completed(self, found: Mapping[str, tuple[float, float]]) -> "Draft":
        """Return the draft with bounds filled in, rounded outwards to two digits.

        Bounds that are declared stay, and what is declared for missing cells is within them. Columns stay as
        they are for which nothing is found, or nothing beyond the bound that is declared.
        """
        filled = dict(self.declarations)
        for name, interval in found.items():
            bounds = _settled(filled[name], interval)
            if bounds is not None:
                filled[name] = filled[name] | bounds
        return Draft(filled, tuple(name for name in self.unbounded if _lacks_bounds(filled[name])))

    def to_toml(self, path: str | os.PathLike[str], *, remark: str | None = None) -> None:
        """Write the declarations as TOML, below a remark; see `write_declarations`."""
        write_declarations(path, self.declarations, remark=remark)


def _declarations(schema: SchemaLike) -> dict[str, Any]:
    """Return plain tables by name; what is no table is left to `Schema`, which refuses it."""
    if isinstance(schema, str | os.PathLike):
        return read_declarations(schema)
    if not isinstance(schema, Mapping):
        raise SchemaError(
            f"schema must be a mapping of columns or the path of a TOML file, got {type(schema).__name__}"
        )
    given = schema.to_dict() if isinstance(schema, Schema) else schema
    return {name: dict(one) if isinstance(one, Mapping) else one for name, one in given.items()}


def _check(name: str, entry: dict[str, Any]) -> None:
    """Refuse columns whose bounds are not learned, and bounds and fill values beyond those that can be."""
    for flag in ("unit", "weight", "exposure"):
        if entry.get(flag):
            raise SchemaError(
                f"column {name!r}: the bounds of a column with {flag}=true are not learned; declare "
                "them" + (', or take type="identifier"' if flag == "unit" else "")
            )
    widest = _widest(entry)
    for key in (*_BOUNDS, "missing"):
        number = _finite(entry.get(key))
        if number is not None and not widest["lower"] <= number <= widest["upper"]:
            raise SchemaError(
                f"column {name!r}: {key} is not between {widest['lower']:g} and {widest['upper']:g}, where "
                "bounds are looked for; declare lower and upper"
            )


def _finite(value: Any) -> float | None:
    """Return a number as a float; None for anything else, which `Schema` refuses."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _lacks_bounds(entry: Any) -> bool:
    """Return whether a declaration is of a number without both bounds."""
    numeric = isinstance(entry, dict) and entry.get("type") == "numeric"
    return numeric and any(bound not in entry for bound in _BOUNDS)


def _widest(entry: dict[str, Any]) -> dict[str, Any]:
    """Return the bounds that stand in for missing ones."""
    return _WIDEST.get(str(entry.get("transform")), _WIDEST["none"])


def _possible(entry: dict[str, Any]) -> dict[str, float]:
    """Return the bounds that all bounds of a declaration lie within."""
    widest = _widest(entry)
    lowest = _LOWEST.get(str(entry.get("transform")), widest["lower"])
    return {"lower": max(widest["lower"], lowest), "upper": widest["upper"]}


def _settled(entry: dict[str, Any], interval: tuple[float, float]) -> dict[str, float] | None:
    """Return the bounds of a declaration whose values lie in an interval; None if there are none."""
    lower, upper = rounded_outwards(*interval, logarithmic="transform" in entry)
    lower = max(lower, _LOWEST.get(entry.get("transform") or "none", lower))
    fill = [float(entry["missing"])] if "missing" in entry else []
    lower, upper = min([lower, *fill]), max([upper, *fill])
    lower, upper = entry.get("lower", lower), entry.get("upper", upper)
    return {"lower": short(lower), "upper": short(upper)} if lower < upper else None


def rounded_outwards(lower: float, upper: float, *, logarithmic: bool) -> tuple[float, float]:
    """Return bounds around an interval that are rounded to two digits of its length, or of an end if shorter.

    Parameters
    ----------
    lower, upper : float
        In order.
    logarithmic : bool
        Whether each end is rounded by its own size alone.
    """
    length = math.inf if logarithmic else upper - lower
    tiny = 0.0 if logarithmic else _TINY * length
    low = 0.0 if 0.0 < lower < tiny else lower
    high = 0.0 if -tiny < upper < 0.0 else upper
    return _rounded(low, length, ROUND_FLOOR), _rounded(high, length, ROUND_CEILING)


def _rounded(value: float, length: float, rounding: str) -> float:
    """Return a value as a whole number of the second digit of its own size, or of a length."""
    size = min(abs(value), length)
    if size == 0.0:
        return value
    step = Decimal(1).scaleb(math.floor(math.log10(size)) - 1)
    return float(Decimal(repr(float(value))).quantize(step, rounding=rounding))
