"""The curator's report: what in a table does not fit its schema. It shows data and must not be released."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.columns import (
    ColumnValues,
    as_text,
    holds_numbers,
)
from privfit.data.declarations import CategoricalColumn, Column, NumericColumn
from privfit.data.declared import declared_codes, declared_numbers
from privfit.data.identifiers import NOBODY, unit_codes
from privfit.data.levels import MISSING, UNKNOWN, level_codes
from privfit.data.response import number_labels
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.errors import SchemaError

MARK = "[not for release]"
_SHOWN_LEVELS = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing in a column that does not fit the schema. Private: it counts and quotes cells.

    Parameters
    ----------
    column : str
        Name of the column.
    kind : str
        ``below``, ``above``, ``missing``, ``unparseable``, ``decimal commas``, ``none``, ``unknown level``,
        ``unknown label``, ``no label of a logit or svm``, ``empty``, ``constant``, ``two values``,
        ``wrong type``, ``not in schema`` or ``not in data``.
    count : int
        Number of rows concerned.
    detail : str
        What becomes of these rows, or which levels they hold.
    """

    column: str
    kind: str
    count: int
    detail: str

    def __str__(self) -> str:
        return f"{MARK} {self.column!r}: {self.kind}, {self.count} row(s); {self.detail}"


def check_table(table: Table, schema: Schema) -> list[Finding]:
    """Compare a table with its schema, column by column in the order of the schema.

    For the curator's eyes only: the findings count and quote private cells. Fitting never calls this.

    Parameters
    ----------
    table : Table
    schema : Schema

    Returns
    -------
    list of Finding
        Empty if every cell fits.
    """
    findings: list[Finding] = []
    if schema.unit is not None:
        findings.extend(_check_unit(schema.unit, table))
    for name, column in schema.items():
        if column.unit:
            continue
        if name not in table.names:
            findings.append(Finding(name, "not in data", table.n_rows, "add the column, or drop it here"))
            continue
        findings.extend(_check_column(name, table.values(name), column))
    extra = (name for name in table.names if name not in schema and name != schema.unit)
    findings.extend(Finding(name, "not in schema", table.n_rows, "the column is ignored") for name in extra)
    return findings


def render_findings(findings: Sequence[Finding]) -> str:
    """Return the report as text, in which every line is marked as not for release."""
    lines = [str(finding) for finding in findings] or [f"{MARK} every cell fits the schema"]
    return "\n".join(lines)


def _check_unit(name: str, table: Table) -> Iterator[Finding]:
    if name not in table.names:
        yield Finding(name, "not in data", table.n_rows, "add the column, or drop it here")
        return
    try:
        codes, _ = unit_codes(table.values(name))
    except SchemaError as error:
        yield Finding(name, "wrong type", table.n_rows, f"the column {error}")
        return
    yield from _counted(name, "missing", int((codes == NOBODY).sum()), "rows of nobody; weight 0")


def _check_column(name: str, values: ColumnValues, column: Column) -> Iterator[Finding]:
    try:
        if isinstance(column, NumericColumn):
            yield from _check_numeric(name, values, column)
        else:
            yield from _check_levels(name, values, column)
    except SchemaError as error:
        yield Finding(name, "wrong type", len(values), f"the column {error}")


def _check_numeric(name: str, values: ColumnValues, column: NumericColumn) -> Iterator[Finding]:
    numbers = declared_numbers(values, column)
    fate = "weight 0" if column.missing is None else f"taken as {column.missing:g}"
    unparseable = _unparseable(values, column)
    missing = int(np.isnan(numbers).sum()) - int(unparseable.sum())
    yield from _counted(name, "missing", missing, fate)
    yield from _counted(name, "unparseable", int(unparseable.sum()), f"text that is no number; {fate}")
    if column.decimal == "." and unparseable.any():
        with_commas = declared_numbers(values, replace(column, decimal=","))[unparseable]
        count = int((~np.isnan(with_commas)).sum())
        yield from _counted(name, "decimal commas", count, 'numbers if the schema says decimal = ","')
    if column.exposure:
        none = numbers <= 0.0
        yield from _counted(name, "none", int(none.sum()), "0 or less, which is no exposure; weight 0")
        numbers = np.where(none, np.nan, numbers)
    yield from _beyond(name, "below", column.lower, numbers[numbers < column.lower])
    yield from _beyond(name, "above", column.upper, numbers[numbers > column.upper])
    if column.target:
        yield from _check_number_labels(name, values, numbers, column)
    if not column.exposure:
        yield from _constant(name, np.clip(numbers, column.lower, column.upper))
    if not (column.target or column.weight or column.exposure):
        yield from _two_values(name, numbers)


def _beyond(name: str, side: str, bound: float, numbers: FloatArray) -> Iterator[Finding]:
    """Find numbers beyond a bound; if they are all one, that may stand for missing cells."""
    detail = f"{side} {bound:g}, clamped"
    if numbers.size > 1 and numbers.min() == numbers.max() and np.isfinite(numbers[0]):
        code = f"{numbers[0]:.15g}"
        detail = f"{detail}; all are {code}: if that stands for missing cells, missing_codes = [{code}]"
    yield from _counted(name, side, numbers.size, detail)


def _unparseable(values: ColumnValues, column: NumericColumn) -> NDArray[np.bool_]:
    """Return which cells are text that spells no number."""
    if holds_numbers(values):
        return np.zeros(len(values), dtype=bool)
    blank = as_text(values).is_null().to_numpy(zero_copy_only=False)
    return np.isnan(declared_numbers(values, replace(column, missing_codes=()))) & ~blank


def _check_number_labels(
    name: str, values: ColumnValues, numbers: FloatArray, column: NumericColumn
) -> Iterator[Finding]:
    """Find what stops a fit of labels, where the bounds of the response are two of them."""
    try:
        codes = level_codes(numbers, number_labels(column))
    except SchemaError:
        return
    count = int((codes == UNKNOWN).sum())
    if count:
        detail = f"{_spellings(values, codes)}; refused there, a number for other models"
        yield Finding(name, "no label of a logit or svm", count, detail)


def _check_levels(name: str, values: ColumnValues, column: CategoricalColumn) -> Iterator[Finding]:
    codes = declared_codes(values, column)
    missing, unknown = int((codes == MISSING).sum()), int((codes == UNKNOWN).sum())
    fate = "weight 0" if column.missing is None else f"taken as {column.missing!r}"
    yield from _counted(name, "missing", missing, fate)
    if unknown:
        refused = column.target and column.other is None
        fate = "refused" if refused else f"taken as {column.levels[column.other_code]!r}"
        fate = f"{fate} unless levels or missing_codes declare it"
        kind = "unknown label" if refused else "unknown level"
        yield Finding(name, kind, unknown, f"{_spellings(values, codes)}; {fate}")
    yield from _constant(name, np.where(codes == MISSING, np.nan, codes.astype(np.float64)))


def _counted(name: str, kind: str, count: int, detail: str) -> Iterator[Finding]:
    if count:
        yield Finding(name, kind, count, detail)


def _constant(name: str, numbers: FloatArray) -> Iterator[Finding]:
    known = numbers[~np.isnan(numbers)]
    if not known.size:
        yield Finding(name, "empty", numbers.size, "no row has a value; the column cannot be told from 1")
    elif known.min() == known.max():
        yield Finding(name, "constant", known.size, "all rows are equal; the column cannot be told from 1")


def _two_values(name: str, numbers: FloatArray) -> Iterator[Finding]:
    """Find a column that stands for two levels: as a number it hides others where one of them is rare."""
    known = numbers[~np.isnan(numbers)]
    low, high = (known.min(), known.max()) if known.size > 2 else (0.0, 0.0)
    if low < high and bool(np.all((known == low) | (known == high))):
        detail = f"if these are all that it can be, better type categorical with levels [{low:g}, {high:g}]"
        yield Finding(name, "two values", known.size, detail)


def _spellings(values: ColumnValues, codes: np.ndarray) -> str:
    text = as_text(values).filter(pa.array(codes == UNKNOWN))
    found = sorted(str(level) for level in text.unique().to_pylist())
    shown = ", ".join(repr(level) for level in found[:_SHOWN_LEVELS])
    return f"{shown}, ..." if len(found) > _SHOWN_LEVELS else shown
