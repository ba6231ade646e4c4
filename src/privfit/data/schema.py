"""A schema: the public facts about a table, the same in Python and in TOML."""

import difflib
import hashlib
import json
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, TypeAlias

from privfit._checks import column_name
from privfit.data.declarations import CategoricalColumn, Column, Level, NumericColumn, Transform
from privfit.data.design import INTERCEPT
from privfit.data.toml_files import ROW_NORM, read_declarations, write_declarations
from privfit.errors import SchemaError

__all__ = [
    "CategoricalColumn",
    "Column",
    "Level",
    "NumericColumn",
    "Schema",
    "SchemaLike",
    "Transform",
    "as_schema",
    "suggestion",
]

_TYPES: dict[str, type[Column]] = {"numeric": NumericColumn, "categorical": CategoricalColumn}
_IDENTIFIER = {"type": "identifier", "unit": True}

_OTHER_WORDS: dict[tuple[str, object], str] = {
    ("numeric", "min"): "lower",
    ("numeric", "max"): "upper",
    ("categorical", "categories"): "levels",
    ("numeric", "na_values"): "missing_codes",
    ("categorical", "na_values"): "missing_codes",
}
"""Options as others call them, where spelling leads to the wrong one or to none."""


class Schema(Mapping[str, Column]):
    """Immutable mapping from column name to `NumericColumn` or `CategoricalColumn`.

    Parameters
    ----------
    mapping : mapping
        Column name to a table: ``{"type": "numeric", "lower": 17, "upper": 90}`` or
        ``{"type": "categorical", "levels": ["a", "b"]}``, with the options of `NumericColumn` and
        `CategoricalColumn`; or to one of these objects. ``{"type": "identifier"}`` names the column that
        identifies the privacy unit; nothing is known of its cells, and it is no entry of the mapping. The
        number ``row_norm``, if given, bounds the
        Euclidean norm of an encoded row, the intercept included; rows beyond it are weighted down.

    Raises
    ------
    SchemaError
        If a declaration contradicts itself; the message names the column, the rule and the remedy.

    Examples
    --------
    >>> schema = Schema({
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ...     "sex": {"type": "categorical", "levels": ["Female", "Male"], "target": True},
    ... })
    >>> schema["age"].upper, schema.target
    (90.0, 'sex')
    """

    __slots__ = ("_columns", "_identifier", "_row_norm")

    def __init__(self, mapping: Mapping[str, Any]) -> None:
        if not isinstance(mapping, Mapping):
            raise SchemaError(f"schema must be a mapping of column names, got {type(mapping).__name__}")
        entries: dict[Any, Any] = mapping.to_dict() if isinstance(mapping, Schema) else dict(mapping)
        self._row_norm = _pop_row_norm(entries)
        self._identifier = _pop_identifier(entries)
        if not entries:
            raise SchemaError("schema declares no column; add a table for each column")
        self._columns = {_checked_name(name): _column(name, entry) for name, entry in entries.items()}
        for flag in ("target", "unit", "weight", "exposure"):
            marked = sum(getattr(column, flag, False) for column in self._columns.values())
            if marked + (flag == "unit" and self._identifier is not None) > 1:
                raise SchemaError(f"schema marks more than one column with {flag}=true; keep one")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any]) -> "Schema":
        """Return ``Schema(mapping)``; the inverse of `to_dict`."""
        return cls(mapping)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> "Schema":
        """Read a schema from a TOML file.

        Raises
        ------
        SchemaError
            If the file cannot be read, is not TOML, or its contents are no schema.
        """
        return cls(read_declarations(path))

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables, options at their default left out; `from_dict` gives an equal schema."""
        head: dict[str, Any] = {} if self._row_norm is None else {ROW_NORM: self._row_norm}
        tail: dict[str, Any] = {} if self._identifier is None else {self._identifier: dict(_IDENTIFIER)}
        return head | {name: _as_table(column) for name, column in self._columns.items()} | tail

    def to_toml(self, path: str | os.PathLike[str]) -> None:
        """Write the schema as TOML; an existing file is replaced in one step or left alone.

        Raises
        ------
        SchemaError
            If the file cannot be written.
        """
        write_declarations(path, self.to_dict())

    @property
    def row_norm(self) -> float | None:
        """Public bound on the norm of an encoded row, or None."""
        return self._row_norm

    @property
    def target(self) -> str | None:
        """Name of the column marked as response, or None."""
        return self._marked("target")

    @property
    def unit(self) -> str | None:
        """Name of the column that identifies the privacy unit, or None for one row per unit."""
        return self._marked("unit") or self._identifier

    @property
    def weight(self) -> str | None:
        """Name of the column of survey weights, or None."""
        return self._marked("weight")

    @property
    def exposure(self) -> str | None:
        """Name of the column of the exposures over which counts were gathered, or None."""
        return self._marked("exposure")

    def _marked(self, flag: str) -> str | None:
        """Return the name of the column with a flag, or None."""
        return next((name for name, column in self._columns.items() if getattr(column, flag, False)), None)

    def numbers(self, name: str | None) -> tuple[str, NumericColumn] | None:
        """Return the name and declaration of a numeric column; None without one of that name."""
        column = None if name is None else self._columns.get(name)
        return (name, column) if name is not None and isinstance(column, NumericColumn) else None

    def with_roles(
        self, *, unit: str | None = None, weights: str | None = None, exposure: str | None = None
    ) -> "Schema":
        """Return the schema with columns marked: identifier of the privacy unit, survey weights, exposures.

        Raises
        ------
        SchemaError
            If the schema marks another column, or this one as the response or for another role, or the
            weights or exposures are not declared as numeric.
        InvalidArgument
            If an argument is no text.
        """
        unit = column_name(unit=unit)
        weights, exposure = column_name(weights=weights), column_name(exposure=exposure)
        roles = {"unit": unit, "weights": weights, "exposure": exposure}
        for role, name in roles.items():
            if name is not None and name == self.target:
                raise SchemaError(
                    f"{role}={name!r}: the schema marks it as the response, which has no other part; name "
                    "another column"
                )
            twins = [other for other, same in roles.items() if name is not None and same == name]
            if len(twins) > 1:
                raise SchemaError(f"{' and '.join(twins)}: {name!r} cannot be both; name another column")
        entries = self.to_dict()
        if unit is not None and unit != self.unit:
            if self.unit is not None:
                raise SchemaError(
                    f"unit={unit!r}: the schema marks {self.unit!r}; name that, or change the schema"
                )
            known = self._columns.get(unit)
            entries[unit] = dict(_IDENTIFIER) if known is None else replace(known, unit=True)
        for role, flag, what in (
            ("weights", "weight", "survey weights"),
            ("exposure", "exposure", "exposures"),
        ):
            name, known = roles[role], self._marked(flag)
            if name is None or name == known:
                continue
            if known is not None:
                raise SchemaError(
                    f"{role}={name!r}: the schema marks {known!r}; name that, or change the schema"
                )
            if not isinstance(self.lookup(name), NumericColumn):
                raise SchemaError(f'column {name!r}: {what} need type="numeric", with a bound as upper')
            entries[name] = {**entries[name], flag: True}
        return Schema(entries)

    def part(self, names: Iterable[str]) -> "Schema":
        """Return the schema of these columns alone, in its own order, with the bound on rows."""
        kept = set(names)
        head: dict[str, Any] = {} if self._row_norm is None else {ROW_NORM: self._row_norm}
        return Schema(head | {name: column for name, column in self.items() if name in kept})

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the declarations, in hexadecimal: what identifies the form of a table in a ledger.

        The order of the columns does not matter, nor which of them is the response, the weight or the
        exposure, since one table is analysed for many. The privacy unit does. No row enters.
        """
        columns = {}
        for name, table in self.to_dict().items():
            columns[name] = (
                {key: item for key, item in table.items() if key not in ("target", "weight", "exposure")}
                if isinstance(table, dict)
                else table
            )
        text = json.dumps(columns, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def lookup(self, name: str) -> Column:
        """Return the declaration of a column, or raise `SchemaError` that suggests a near name."""
        if name == self._identifier:
            raise SchemaError(f"column {name!r} identifies the privacy unit and can be nothing else")
        if name not in self._columns:
            raise SchemaError(f"column {name!r} is not in the schema{suggestion(name, self._columns)}")
        return self._columns[name]

    def __getitem__(self, name: str) -> Column:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Schema({self.to_dict()!r})"

    def __reduce__(self) -> tuple[type["Schema"], tuple[dict[str, Any]]]:
        return Schema, (self.to_dict(),)

    def _key(self) -> tuple[Any, ...]:
        return (self._row_norm, self._identifier, *self._columns.items())


SchemaLike: TypeAlias = Schema | Mapping[str, Any] | str | os.PathLike[str]
"""A schema, its declarations, or the TOML file that holds them."""


def as_schema(schema: SchemaLike) -> Schema:
    """Return a schema as it is, and the one that a mapping or the file of that name declares."""
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, str | os.PathLike):
        return Schema.from_toml(schema)
    if not isinstance(schema, Mapping):
        raise SchemaError(
            f"schema must be a Schema, a mapping of columns or the path of a TOML file, got "
            f"{type(schema).__name__}"
        )
    return Schema(schema)


def weighs_or_exposes(column: Column) -> bool:
    """Return whether a column holds survey weights or exposures."""
    return isinstance(column, NumericColumn) and (column.weight or column.exposure)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` if a known name is near, else the known names. Names are public."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {near[0]!r}?"
    shown = ", ".join(repr(known_name) for known_name in names[:8])
    return f"; known are {shown}{', ...' if len(names) > 8 else ''}"


def _pop_row_norm(entries: dict[Any, Any]) -> float | None:
    value = entries.get(ROW_NORM)
    if value is None or isinstance(value, Mapping | NumericColumn | CategoricalColumn):
        return None  # a column may have this name too
    del entries[ROW_NORM]
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise SchemaError(f"row_norm must be a number, got {type(value).__name__}")
    if not 2.0**-100 <= float(value) <= 2.0**100:
        raise SchemaError("row_norm must be positive and finite, between 2**-100 and 2**100")
    return float(value)


def _pop_identifier(entries: dict[Any, Any]) -> str | None:
    found = [
        name
        for name, entry in entries.items()
        if isinstance(entry, Mapping) and entry.get("type") == _IDENTIFIER["type"]
    ]
    if len(found) > 1:
        raise SchemaError("schema declares more than one identifier; keep the one of the privacy unit")
    if not found:
        return None
    name = _checked_name(found[0])
    if {**_IDENTIFIER, **entries.pop(name)} != _IDENTIFIER:
        raise SchemaError(f"column {name!r}: an identifier takes no option but unit=true")
    return name


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise SchemaError("schema: a column name must be text and not empty")
    if name == INTERCEPT:
        raise SchemaError(f"column {name!r} has the name of the constant column; rename it")
    if not _is_unicode(name):
        raise SchemaError("schema: a column name must be valid Unicode text; rename the column")
    return name


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _column(name: str, entry: object) -> Column:
    if isinstance(entry, NumericColumn | CategoricalColumn):
        return entry
    try:
        return _from_table(entry)
    except SchemaError as error:
        raise SchemaError(f"column {name!r}: {error}") from None


def _from_table(entry: object) -> Column:
    if not isinstance(entry, Mapping):
        raise SchemaError(
            f"a declaration must be a table with a type, got {type(entry).__name__}; beside columns only "
            "row_norm may stand, and target, unit, weight and exposure are options in a column's table"
        )
    options: dict[str, Any] = dict(entry)
    if "type" not in options:
        raise SchemaError('type is missing; give type="numeric", "categorical" or "identifier"')
    kind = options.pop("type")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise SchemaError(f"type must be 'numeric', 'categorical' or 'identifier', got {kind!r}")
    known = fields(_TYPES[kind])
    for key in options:
        if key not in {field.name for field in known}:
            owners = [of for of, other in _TYPES.items() if key in {field.name for field in fields(other)}]
            near = suggestion(_OTHER_WORDS.get((kind, key), str(key)), [field.name for field in known])
            near = f"; it is one of a {owners[0]} column" if owners else near
            raise SchemaError(f"{key!r} is no option of a {kind} column{near}")
    for field in known:
        if field.default is MISSING and field.name not in options:
            learned = (
                ', or has it learned by a fit with scale="private", or by learn_bounds'
                if kind == "numeric" and not any(options.get(role) for role in ("unit", "weight", "exposure"))
                else ""
            )
            raise SchemaError(f"{field.name} is missing; a {kind} column needs it{learned}")
    column = _TYPES[kind](**options)
    if isinstance(column, CategoricalColumn) and not all(_is_unicode(str(x)) for x in column.levels):
        raise SchemaError("levels must be valid Unicode text")
    return column


def _as_table(column: Column) -> dict[str, Any]:
    kind = "numeric" if isinstance(column, NumericColumn) else "categorical"
    table: dict[str, Any] = {"type": kind}
    for field in fields(column):
        value = getattr(column, field.name)
        if field.default is not MISSING and value == field.default:
            continue
        plain = list(value) if isinstance(value, tuple) else value
        table[field.name] = short(plain) if isinstance(column, NumericColumn) else plain
    return table


def short(value: Any) -> Any:
    """Return a bound, or a list of numbers, without a needless ``.0``."""
    if isinstance(value, list):
        return [short(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value
