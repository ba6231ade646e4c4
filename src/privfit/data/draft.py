"""A schema in which bounds are still missing: what stands in for them, and how they are filled in."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np

from privfit.data.declarations import NumericColumn
from privfit.data.schema import Schema, SchemaLike
from privfit.data.toml_files import read_declarations, write_declarations
from privfit.errors import SchemaError

_LARGEST, _SMALLEST = 2.0**64, 2.0**-40
"""Sizes between which numbers are told apart where nothing is declared."""

_BOUNDS = ("lower", "upper")

_LOWEST = {"log1p": -1.0 + 2.0**-20, "log": _SMALLEST, "sqrt": 0.0}
"""What stands in for the lower bound of a transform."""


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
            If a declaration contradicts itself, bounds aside, or the bounds of weights or of a privacy unit
            are missing.
        """
        given = schema.to_dict() if isinstance(schema, Schema) else schema
        if not isinstance(given, Mapping):
            given = read_declarations(given)
        entries = {name: dict(one) if isinstance(one, Mapping) else one for name, one in given.items()}
        draft = cls(entries, tuple(name for name, one in entries.items() if _lacks_bounds(one)))
        for name in draft.unbounded:
            for flag in ("unit", "weight"):
                if entries[name].get(flag):
                    raise SchemaError(
                        f"column {name!r}: the bounds of a column with {flag}=true are not learned; declare "
                        "them" + (', or take type="identifier"' if flag == "unit" else "")
                    )
        _ = draft.stand_in
        return draft

    @property
    def stand_in(self) -> Schema:
        """The schema with bounds that hold nearly all numbers in place of those that are missing."""
        return Schema(
            {
                name: one | _widest(one) if name in self.unbounded else one
                for name, one in self.declarations.items()
            }
        )

    def raw(self, name: str, encoded: tuple[float, float]) -> tuple[float, float]:
        """Return an interval of an unbounded column, encoded by `stand_in`, in the raw unit."""
        column = self.stand_in[name]
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

    def to_toml(self, path: Any) -> None:
        """Write the declarations as TOML; an existing file is replaced in one step or left alone."""
        write_declarations(path, self.declarations)


def _lacks_bounds(entry: Any) -> bool:
    """Return whether a declaration is of a number without both bounds."""
    numeric = isinstance(entry, dict) and entry.get("type") == "numeric"
    return numeric and any(bound not in entry for bound in _BOUNDS)


def _widest(entry: dict[str, Any]) -> dict[str, float]:
    """Return the bounds that stand in for missing ones."""
    return {"lower": _LOWEST.get(str(entry.get("transform")), -_LARGEST), "upper": _LARGEST}


def _settled(entry: dict[str, Any], interval: tuple[float, float]) -> dict[str, float] | None:
    """Return the bounds of a declaration whose values lie in an interval; None if there are none."""
    lower, upper = rounded_outwards(*interval, logarithmic="transform" in entry)
    lower = max(lower, _LOWEST.get(str(entry.get("transform")), -_LARGEST))
    fill = [float(entry["missing"])] if "missing" in entry else []
    lower, upper = min([lower, *fill]), max([upper, *fill])
    lower, upper = entry.get("lower", lower), entry.get("upper", upper)
    return {"lower": lower, "upper": upper} if lower < upper else None


def rounded_outwards(lower: float, upper: float, *, logarithmic: bool) -> tuple[float, float]:
    """Return bounds of two digits around an interval: of its length, or each of its own size.

    Parameters
    ----------
    lower, upper : float
        In order.
    logarithmic : bool
        Whether each end is rounded by its own size.
    """
    below, above = (abs(lower), abs(upper)) if logarithmic else (upper - lower, upper - lower)
    return _rounded(lower, below, math.floor), _rounded(upper, above, math.ceil)


def _rounded(value: float, size: float, whole: Callable[[float], int]) -> float:
    """Return a value as a whole number of the second digit of a size."""
    if size == 0.0:
        return value
    exponent = math.floor(math.log10(size)) - 1
    if exponent >= 0:
        return float(whole(value / 10.0**exponent) * 10**exponent)
    return float(whole(value * 10.0**-exponent) / 10.0**-exponent)
