"""What a schema declares about one column: bounds or levels. Public facts, never learned from rows."""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from privfit._checks import FloatArray
from privfit.errors import SchemaError

Transform: TypeAlias = Literal["log1p", "log", "sqrt"]
Decimal: TypeAlias = Literal[".", ","]
Level: TypeAlias = str | int | float | bool

WHITESPACE = " \t\r\n\f\v\u00a0"
"""Characters that are ignored at both ends of a text cell and of a text level."""

_UFUNCS = {"log1p": np.log1p, "log": np.log, "sqrt": np.sqrt}
_DERIVATIVES = {
    "log1p": lambda x: 1.0 / (1.0 + x),
    "log": lambda x: 1.0 / x,
    "sqrt": lambda x: 0.5 / np.sqrt(x),
}
_INVERSES = {"log1p": np.expm1, "log": np.exp, "sqrt": np.square}
_DOMAIN_START = {"log1p": -1.0, "log": 0.0, "sqrt": -math.ulp(0.0)}
_DOMAIN_RULE = {"log1p": "above -1", "log": "above 0", "sqrt": "at least 0"}
_NARROWEST = 2.0**-40
"""Smallest half-width relative to the bounds that leaves double precision 12 bits to tell values apart."""


@dataclass(frozen=True, slots=True)
class NumericColumn:
    """A column of numbers with public bounds.

    Parameters
    ----------
    lower, upper : float
        Bounds in the unit of the raw column; values beyond them are clamped.
    transform : {"log1p", "log", "sqrt"}, optional
        Applied to the clamped values.
    missing : float, optional
        Fill value within the bounds, in the raw unit, for missing cells and for text that is no number.
        Without it, a row with such a cell gets weight 0.
    missing_codes : sequence of float
        Numbers that stand for missing cells, such as -9 and 99, within the bounds or not.
    decimal : {".", ","}
        What separates decimals in cells that are text, as all cells of CSV files are.
    target, unit, weight, exposure : bool
        True on the response, on the column that identifies the privacy unit, on that of the survey
        weights, whose upper bound is the largest weight that counts in full, and on that of the exposures
        over which counts were gathered.

    Raises
    ------
    SchemaError
        If the bounds are not finite, not in order, too close together or outside the transform's domain, or
        if weights or exposures may be negative or have a transform.
    """

    lower: float
    upper: float
    transform: Transform | None = None
    missing: float | None = None
    target: bool = False
    unit: bool = False
    weight: bool = False
    exposure: bool = False
    missing_codes: tuple[float, ...] = ()
    decimal: Decimal = "."

    def __post_init__(self) -> None:
        lower, upper = _finite(lower=self.lower), _finite(upper=self.upper)
        if lower >= upper:
            raise SchemaError(f"lower must be below upper; got lower={lower:g} and upper={upper:g}")
        _check_transform(self.transform, lower)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        if self.missing is not None:
            missing = _finite(missing=self.missing)
            if not lower <= missing <= upper:
                raise SchemaError(f"missing must lie within the bounds [{lower:g}, {upper:g}]")
            object.__setattr__(self, "missing", missing)
        codes = tuple(_finite(missing_codes=code) for code in _listed(self.missing_codes, unit=self.unit))
        if self.missing in codes:
            raise SchemaError("missing must be none of missing_codes, for which it stands in")
        object.__setattr__(self, "missing_codes", codes)
        if self.decimal not in get_args(Decimal):
            raise SchemaError(f"decimal must be '.' or ',', got {self.decimal!r}")
        _check_flags(target=self.target, unit=self.unit, weight=self.weight, exposure=self.exposure)
        for counts, what in ((self.weight, "survey weights"), (self.exposure, "exposures")):
            if counts and (lower < 0.0 or self.transform is not None):
                raise SchemaError(f"{what} need lower >= 0 and no transform")
        low, high = self.limits
        if not wide_enough(low, high):
            raise SchemaError("lower and upper are too close together to tell values apart; widen them")

    @property
    def limits(self) -> tuple[float, float]:
        """Bounds after the transform."""
        low, high = self.transformed(np.array([self.lower, self.upper]))
        return float(low), float(high)

    def transformed(self, values: FloatArray) -> FloatArray:
        """Return the transform of ``values`` (within the bounds, NaN allowed) as a new array."""
        return values.copy() if self.transform is None else _UFUNCS[self.transform](values)

    def untransformed(self, values: FloatArray) -> FloatArray:
        """Return the values whose transforms are given, as a new array."""
        return values.copy() if self.transform is None else _INVERSES[self.transform](values)

    def steepness(self, values: FloatArray) -> FloatArray:
        """Return the derivative of the transform at ``values`` within the bounds; ``inf`` of a root at 0."""
        with np.errstate(divide="ignore"):
            return np.ones_like(values) if self.transform is None else _DERIVATIVES[self.transform](values)

    def scaling(self, *, centered: bool) -> tuple[float, float]:
        """Return ``(center, half_width)`` in transformed units; the centre is 0 unless ``centered``."""
        low, high = self.limits
        if centered:
            return low / 2 + high / 2, high / 2 - low / 2
        return 0.0, max(abs(low), abs(high))

    def label(self, name: str) -> str:
        """Return the name of the design column: ``age`` or ``log1p(gain)``."""
        return name if self.transform is None else f"{self.transform}({name})"


@dataclass(frozen=True, slots=True)
class CategoricalColumn:
    """A column with a public, closed list of levels.

    Parameters
    ----------
    levels : sequence of str, of int and float, or of bool
        At least two, distinct by value; the first is the reference level. Text is stored without
        whitespace at its ends.
    missing : level, optional
        Level for missing cells. Without it, a row with such a cell gets weight 0.
    other : level, optional
        Level for unknown values; the reference level by default.
    missing_codes : sequence of str, int and float
        Values that stand for missing cells, such as ``"NA"``; none is a level.
    target, unit : bool
        True on the response, and on the column that identifies the privacy unit.

    Raises
    ------
    SchemaError
        If the levels are fewer than two, repeated, blank or of mixed types, or an option is no level.
    """

    levels: tuple[Level, ...]
    missing: Level | None = None
    other: Level | None = None
    target: bool = False
    unit: bool = False
    missing_codes: tuple[str | int | float, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) or not isinstance(self.levels, Sequence | np.ndarray):
            raise SchemaError("levels must be a list, whose first entry is the reference level")
        levels = tuple(_level(value) for value in self.levels)
        if len(levels) < 2:
            raise SchemaError("levels must hold at least two levels")
        if len({_kind(level) for level in levels}) > 1:
            raise SchemaError("levels must be all text, all numbers or all true/false; quote them to mix")
        for k, level in enumerate(levels):
            if level in levels[:k]:
                raise SchemaError(f"levels must be distinct; {level!r} is repeated")
        object.__setattr__(self, "levels", levels)
        for option in ("missing", "other"):
            value = getattr(self, option)
            if value is not None:
                object.__setattr__(self, option, levels[self._position(option, value)])
        codes = tuple(_level(code) for code in _listed(self.missing_codes, unit=self.unit))
        for code in codes:
            if isinstance(code, bool) or str(code) in map(str, levels) or code in levels:
                raise SchemaError(f"missing_codes must be text or numbers and no levels, got {code!r}")
        object.__setattr__(self, "missing_codes", codes)
        _check_flags(target=self.target, unit=self.unit)

    def _position(self, option: str, value: object) -> int:
        level = _level(value)
        if _kind(level) != _kind(self.levels[0]) or level not in self.levels:
            raise SchemaError(f"{option} must be one of the levels; add {level!r} to levels")
        return self.levels.index(level)

    @property
    def missing_code(self) -> int:
        """Position of the level for missing cells, or -1."""
        return -1 if self.missing is None else self.levels.index(self.missing)

    @property
    def other_code(self) -> int:
        """Position of the level for unknown values; 0, the reference level, by default."""
        return 0 if self.other is None else self.levels.index(self.other)

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the names of the indicator columns, ``sex[T.Male]``, one per level but the first."""
        return tuple(f"{name}[T.{level}]" for level in self.levels[1:])


Column: TypeAlias = NumericColumn | CategoricalColumn


def wide_enough(low: float, high: float) -> bool:
    """Return whether numbers within these bounds can be told apart in double precision."""
    tiny = float(np.finfo(float).tiny)
    return high / 2 - low / 2 >= max(_NARROWEST * max(abs(low), abs(high)), tiny)


def _listed(codes: object, *, unit: bool) -> tuple[Any, ...]:
    """Return codes for missing cells as a tuple."""
    if isinstance(codes, str) or not isinstance(codes, Sequence | np.ndarray):
        raise SchemaError("missing_codes must be a list, such as [-9, 99]")
    if len(codes) and unit:
        raise SchemaError("missing_codes is no option of a column with unit=true; leave such cells blank")
    return tuple(codes)


def _finite(**kwargs: object) -> float:
    ((name, value),) = kwargs.items()
    if isinstance(value, bool | np.bool_) or not isinstance(value, numbers.Real):
        raise SchemaError(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(f"{name} must be finite")
    return number


def _check_transform(transform: object, lower: float) -> None:
    if transform is None:
        return
    if transform not in get_args(Transform):
        raise SchemaError(f"transform must be one of {', '.join(get_args(Transform))}; got {transform!r}")
    if lower <= _DOMAIN_START[str(transform)]:
        raise SchemaError(f"lower must be {_DOMAIN_RULE[str(transform)]} for transform {transform!r}")


def _check_flags(**flags: object) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise SchemaError(f"{name} must be true or false, got {type(value).__name__}")
    marked = [name for name, value in flags.items() if value]
    if len(marked) > 1:
        raise SchemaError(f"{' and '.join(marked)} cannot be the same column; mark only one of them")


def _level(value: Any) -> Level:
    """Return a level as a plain Python value, text stripped."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        text = value.strip(WHITESPACE)
        if not text:
            raise SchemaError("levels must not be blank; blank cells are missing, see missing=")
        return text
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        if not abs(value) <= 2**53:
            raise SchemaError("levels that are numbers must be within 2**53 of 0; declare codes as text")
        return value
    raise SchemaError(f"levels must be text, numbers or true/false, got {type(value).__name__}")


def _kind(level: Level) -> str:
    if isinstance(level, bool):
        return "true/false"
    return "text" if isinstance(level, str) else "number"
