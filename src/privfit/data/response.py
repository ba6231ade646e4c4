"""The response: how a schema or a pair of labels turns it into numbers."""

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np

from privfit._checks import FloatArray
from privfit.data.columns import ColumnValues
from privfit.data.declarations import CategoricalColumn, Column, Level, NumericColumn
from privfit.data.declared import declared_codes, declared_numbers
from privfit.data.design import Target
from privfit.data.levels import MISSING, UNKNOWN, CodeArray, level_codes
from privfit.data.reduction import each_stretch
from privfit.errors import LabelError, SchemaError

TargetKind: TypeAlias = Literal["numeric", "binary", "count", "class"]
"""numeric: clamped and scaled to [-1, 1]; binary: 0/1; count: clamped to non-negative bounds, not scaled;
class: binary where two labels are declared, codes 0 to K - 1 where more are."""

OF_NUMBERS: Final = ("numeric", "count")
"""Kinds of response that hold no labels."""


def describe_target(name: str, column: Column, kind: TargetKind, *, centered: bool) -> Target:
    """Return the public description of a response, or raise `SchemaError` if its declaration does not fit.

    Without ``centered`` a numeric response is scaled about 0. Messages start after the column's name.
    """
    if kind == "class" and isinstance(column, CategoricalColumn):
        return labelled_target(name, column)
    if kind in ("binary", "class"):
        return Target(name, "binary", labels=_binary_labels(column))
    if isinstance(column, CategoricalColumn):
        raise SchemaError("is categorical; a numeric response needs type='numeric' with bounds")
    if kind == "numeric":
        return Target(column.label(name), "numeric", *column.scaling(centered=centered), bounded=True)
    if column.lower < 0 or column.transform is not None:
        raise SchemaError("is a count response; declare lower, of at least 0, and no transform")
    return Target(name, "numeric", count_bound=column.upper)


def labelled_target(name: str, column: CategoricalColumn) -> Target:
    """Return the public description of a response whose labels are the levels of a column."""
    return Target(name, "binary" if len(column.levels) == 2 else "class", labels=column.levels)


def declared_labels(classes: Sequence[Level], kind: TargetKind) -> tuple[Level, ...]:
    """Return ``classes`` as a tuple of labels, two for a binary response, or raise `SchemaError`."""
    if kind == "class":
        if isinstance(classes, str) or len(classes) < 2:
            raise SchemaError("classes must hold at least two labels, the reference class first")
    elif isinstance(classes, str) or len(classes) != 2:
        raise SchemaError("classes must hold two labels, [negative, positive]")
    return tuple(classes)


def standard_labels(values: ColumnValues) -> tuple[int, int]:
    """Return (0, 1) or (-1, 1), the pair that holds every label; missing cells and true/false count too.

    Raises
    ------
    LabelError
        If neither pair holds every label.
    """
    return _standard(values)[0]


def standard_codes(values: ColumnValues) -> CodeArray:
    """Return the codes of labels of the pair that `standard_labels` finds, or raise what that raises."""
    return _standard(values)[1]


def _standard(values: ColumnValues) -> tuple[tuple[int, int], CodeArray]:
    for pair in ((0, 1), (-1, 1)):
        codes = level_codes(values, pair)
        if UNKNOWN not in codes:
            return pair, codes
    raise LabelError("holds labels other than 0/1, -1/1 and true/false; declare the two with classes=")


def encode_labels(values: ColumnValues, column: Column) -> FloatArray:
    """Return 0/1, or codes 0 to K - 1; NaN for a missing cell without a declared label."""
    if isinstance(column, NumericColumn):
        numbers = declared_numbers(values, column)
        if column.missing is not None:
            numbers = np.where(np.isnan(numbers), column.missing, numbers)
        return labels_to_numbers(level_codes(numbers, number_labels(column)))
    codes = declared_codes(values, column)
    if column.other is not None:
        codes[codes == UNKNOWN] = column.other_code
    codes[codes == MISSING] = column.missing_code
    return labels_to_numbers(codes)


def labels_to_numbers(codes: CodeArray) -> FloatArray:
    """Return codes as numbers and missing cells as NaN."""
    numbers = np.empty(codes.size)

    def work(rows: slice) -> None:
        some = codes[rows]
        if UNKNOWN in some:
            raise LabelError("holds a label that is not declared; declare every label and clean the column")
        numbers[rows] = some
        np.copyto(numbers[rows], np.nan, where=some == MISSING)

    each_stretch(work, codes.size)
    return numbers


def scaled(values: FloatArray, center: float, half_width: float) -> FloatArray:
    """Scale in place to [-1, 1], rounding included; NaN stays."""
    values -= center
    values /= half_width
    return np.clip(values, -1.0, 1.0, out=values)


def number_labels(column: NumericColumn) -> tuple[int, int]:
    """Return the two labels of a binary response that is declared by bounds, or raise `SchemaError`."""
    pair = (column.lower, column.upper)
    if pair not in ((0.0, 1.0), (-1.0, 1.0)) or column.transform is not None:
        raise SchemaError(
            "is the response of a model of two labels; declare two levels, or the bounds 0, 1 or -1, 1"
        )
    if column.missing not in (None, *pair):
        raise SchemaError("is a binary response; missing must be one of its two labels")
    return int(pair[0]), int(pair[1])


def _binary_labels(column: Column) -> tuple[object, object]:
    if isinstance(column, NumericColumn):
        return number_labels(column)
    if len(column.levels) != 2:
        raise SchemaError("is a binary response; declare exactly two levels, [negative, positive]")
    return column.levels[0], column.levels[1]
