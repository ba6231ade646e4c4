"""From raw columns to bounded rows, by public facts alone."""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, column_name
from privfit.data.coded import CodedMatrix, Layout, Matrix, Storage
from privfit.data.columns import ColumnValues, each_value, naming
from privfit.data.declarations import CategoricalColumn, Column, NumericColumn
from privfit.data.declared import encode_categorical, encode_numeric
from privfit.data.design import INTERCEPT, Design, DesignColumn, Target
from privfit.data.exposure import Exposure
from privfit.data.response import (
    TargetKind,
    describe_target,
    encode_labels,
    scaled,
)
from privfit.data.rows import coded_rows, layout_of, written_out
from privfit.data.schema import Schema, weighs_or_exposes
from privfit.data.tables import Table
from privfit.errors import SchemaError

ROUNDING = 1.0 + 2.0**-30
"""Room for the rounding of norms, so that a row on the bound keeps weight 1."""


class AbstractEncoder(ABC):
    """Turns raw columns into encoded rows; what it produces is described by ``design``."""

    __slots__ = ("_design", "_layout")

    _design: Design
    _layout: Layout

    @property
    def design(self) -> Design:
        """Public description of the encoded rows."""
        return self._design

    @property
    def layout(self) -> Layout:
        """How rows are kept as numbers and codes."""
        return self._layout

    @property
    @abstractmethod
    def needed(self) -> tuple[str, ...]:
        """Names of the raw columns that `encode` reads, the response last."""

    @property
    def read(self) -> tuple[str, ...]:
        """Names of the raw columns that a fit reads, the response last."""
        return (*self._design.target.beside, *self.needed)

    @property
    @abstractmethod
    def variables(self) -> tuple[tuple[str, Column | None], ...]:
        """Names and declarations of the raw predictors; None where nothing is declared."""

    @property
    @abstractmethod
    def identity(self) -> str:
        """Everything that the encoding depends on, in one text: the same for encoders that do the same."""

    @property
    @abstractmethod
    def facts(self) -> "EncoderFacts":
        """What another one that encodes alike is made from, and nothing else."""

    def encode(self, table: Table) -> tuple[FloatArray, FloatArray]:
        """Return ``x`` (n, p), row-major float64, and ``y`` (n,).

        A row with a missing cell for which no fill value or level is declared holds NaN, in ``x`` or
        ``y``; `ArraySource` gives it weight 0.

        Raises
        ------
        SchemaError
            If a column is absent or its type holds neither numbers nor levels.
        LabelError
            If a binary response or a class holds anything but its labels and missing cells.
        """
        return self.encode_predictors(table), self.encode_target(table)

    @abstractmethod
    def encode_coded(self, table: Table, storage: Storage = "float64") -> CodedMatrix:
        """Return ``x`` alone as numbers, stored in this type, and codes."""

    @abstractmethod
    def encode_predictors(self, table: Table) -> FloatArray:
        """Return ``x`` (n, p) alone, row-major float64; the response need not be in the table."""

    @abstractmethod
    def encode_target(self, table: Table) -> FloatArray:
        """Return ``y`` (n,) alone, or raise `LabelError`."""

    def encode_response(self, table: Table) -> tuple[FloatArray, FloatArray | None]:
        """Return ``y`` (n,) and, of counts over exposures, the logarithms of these (n,).

        A row without an exposure holds NaN in ``y``. Raises as `encode`.
        """
        y, exposure = self.encode_target(table), self._design.target.exposure
        if exposure is None:
            return y, None
        offset = exposure.read(table)
        return np.where(np.isnan(offset), np.nan, y), np.nan_to_num(offset)

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the numeric raw predictors in which rows of the design jump."""
        return ()

    @abstractmethod
    def derivatives(self, table: Table, name: str) -> FloatArray:
        """Return the derivatives of the raw rows of the design in a numeric raw predictor, shape (n, p).

        Cells beyond the bounds are taken for the bound, missing ones for what is declared for them. Jumps
        count nothing. Not finite where a row is infinitely steep, as a root is at 0.
        """


class EncoderFacts(Protocol):
    """Public facts that an encoder is made from, as a frozen dataclass of texts, numbers and a schema."""

    def encoder(self) -> AbstractEncoder:
        """Return the encoder, or raise what its constructor raises."""
        ...


def predictors_as(encoder: AbstractEncoder, table: Table, storage: Storage) -> Matrix:
    """Return ``x`` as it is to be kept: by code or in this type, written out only in float64."""
    coded = encoder.layout.has_codes or storage != "float64"
    return encoder.encode_coded(table, storage) if coded else encoder.encode_predictors(table)


@dataclass(frozen=True, slots=True)
class SchemaFacts:
    """What a `SchemaEncoder` is made from; parameters as there, all of them settled.

    Columns that are neither predictors nor the response may be missing from the schema.
    """

    schema: Schema
    target: str
    columns: tuple[str, ...]
    intercept: bool
    target_kind: TargetKind

    def encoder(self) -> "SchemaEncoder":
        """Return the encoder, or raise `SchemaError`."""
        return SchemaEncoder(
            self.schema,
            target=self.target,
            columns=self.columns,
            intercept=self.intercept,
            target_kind=self.target_kind,
        )


@final
class SchemaEncoder(AbstractEncoder):
    """Encode the columns of a table by their declarations in a schema.

    Numeric columns are clamped, transformed and scaled to [-1, 1]; without an intercept they are scaled
    about 0. Categorical columns become indicators of all levels but the first.

    Parameters
    ----------
    schema : Schema
        Public bounds and levels.
    target : str, optional
        Name of the response; by default the column marked with ``target=true``.
    columns : sequence of str, optional
        Predictors, in this order; by default all columns but the response, the privacy unit, the survey
        weights and the exposures.
    intercept : bool
        Whether the first encoded column is the constant 1.
    target_kind : {"numeric", "binary", "count", "class"}
        How the response is encoded. A binary response is a categorical column with the two levels
        [negative, positive], or a numeric one with bounds 0, 1 or -1, 1. A class is that, or a categorical
        column with more levels.

    Raises
    ------
    SchemaError
        If a name is not in the schema, or a declaration does not fit the kind of response.

    Notes
    -----
    *Guarantee.* A row of ``k`` columns and an intercept has norm at most ``sqrt(1 + k)``, because a
    numeric entry is at most 1 in size and a block of indicators holds at most one 1. ``norm_bound`` is
    this number (or ``schema.row_norm``, if that is smaller; then ``bounded`` is False).
    """

    __slots__ = ("_facts", "_identity", "_predictors", "_target", "_target_column")

    def __init__(
        self,
        schema: Schema,
        *,
        target: str | None = None,
        columns: Sequence[str] | None = None,
        intercept: bool = True,
        target_kind: TargetKind = "numeric",
    ) -> None:
        self._target = _target_name(schema, target)
        self._target_column = schema[self._target]
        names = _predictor_names(schema, self._target, columns)
        exposed = schema.numbers(schema.exposure) if target_kind == "count" else None
        self._predictors = tuple((name, schema[name]) for name in names)
        with naming(self._target):
            described = describe_target(self._target, self._target_column, target_kind, centered=intercept)
        described = replace(described, exposure=None if exposed is None else Exposure(*exposed))
        known = schema.part((*names, self._target, *described.beside))
        self._facts = SchemaFacts(known, self._target, names, bool(intercept), target_kind)
        self._layout = layout_of([column for _, column in self._predictors], intercept=intercept)
        self._identity = repr((schema.fingerprint, self._target, names, bool(intercept), target_kind))
        bound = math.sqrt(max(intercept + len(names), 1)) * ROUNDING
        encoded = _design_columns(self._predictors, intercept=intercept)
        self._design = design_within(bound, encoded, described, schema)

    @property
    def identity(self) -> str:
        """Fingerprint of the schema, names, intercept and kind of response."""
        return self._identity

    @property
    def facts(self) -> SchemaFacts:
        """Schema of the columns that are read, names, intercept and kind of response."""
        return self._facts

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the raw columns that `encode` reads, the response last."""
        return (*(name for name, _ in self._predictors), self._target)

    @property
    def variables(self) -> tuple[tuple[str, Column | None], ...]:
        """Names and declarations of the raw predictors; None where nothing is declared."""
        return self._predictors

    def encode_coded(self, table: Table, storage: Storage = "float64") -> CodedMatrix:
        """Return ``x`` as numbers and codes."""
        return coded_rows(self._fill, self._layout, table, storage)

    def encode_predictors(self, table: Table) -> FloatArray:
        """Return ``x`` (n, p), row-major float64; the response need not be in the table."""
        return written_out(self._fill, self._layout, table)

    def derivatives(self, table: Table, name: str) -> FloatArray:
        """Return the derivatives of the raw rows in a numeric column, shape (n, p)."""
        column = dict(self._predictors)[name]
        assert isinstance(column, NumericColumn)  # noqa: S101 -- the caller asks for a derivative
        out = np.zeros((table.n_rows, len(self._design.columns)))
        with naming(name):
            cells = encode_numeric(table.values(name), replace(column, transform=None))
        out[:, self._design.names.index(column.label(name))] = column.steepness(cells)
        return out

    def _fill(self, x: CodedMatrix, table: Table) -> None:
        start, number, code = int(self._layout.constant), 0, 0
        for name, column in self._predictors:
            values = table.values(name)
            with naming(name):
                if isinstance(column, NumericColumn):
                    about = self._design.columns[start]
                    x.numbers[:, number] = scaled(
                        encode_numeric(values, column), about.center, about.half_width
                    )
                    start, number = start + 1, number + 1
                else:
                    last = start + len(column.levels) - 1  # code -1, for missing cells, is the last place
                    codes = (self._layout.none, *range(start, last), self._layout.missing)
                    places = np.array(codes, dtype=x.codes.dtype)
                    x.codes[:, code] = each_value(values, partial(_placed, column, places))
                    start, code = last, code + 1

    def encode_target(self, table: Table) -> FloatArray:
        """Return ``y`` (n,)."""
        values, target = table.values(self._target), self._design.target
        with naming(self._target):
            if target.labels is not None:
                return encode_labels(values, self._target_column)
            assert isinstance(self._target_column, NumericColumn)  # noqa: S101 -- set by the constructor
            y = encode_numeric(values, self._target_column)
            return y if self._facts.target_kind == "count" else scaled(y, target.center, target.half_width)


def _placed(column: CategoricalColumn, places: NDArray[Any], values: ColumnValues) -> NDArray[Any]:
    """Return the places of the cells' levels."""
    return places[encode_categorical(values, column)]


def _target_name(schema: Schema, target: str | None) -> str:
    name = schema.target if target is None else column_name(target=target)
    if name is None:
        raise SchemaError("target is not given; name it, or mark a column with target=true in the schema")
    column = schema.lookup(name)
    if column.unit:
        raise SchemaError(f"column {name!r} identifies the privacy unit and cannot be the response")
    if weighs_or_exposes(column):
        held = "survey weights" if name == schema.weight else "exposures"
        raise SchemaError(f"column {name!r} holds the {held} and cannot be the response")
    return name


def _predictor_names(schema: Schema, target: str, columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(
            name
            for name, column in schema.items()
            if name != target and not column.unit and not weighs_or_exposes(column)
        )
    if isinstance(columns, str):
        raise SchemaError("columns must be a list of column names, not one text")
    for name in columns:
        if schema.lookup(name).unit:
            raise SchemaError(f"column {name!r} identifies the privacy unit and cannot be a predictor")
        if name == target:
            raise SchemaError(f"column {name!r} cannot be both the response and a predictor")
    return tuple(columns)


def design_within(bound: float, columns: tuple[DesignColumn, ...], target: Target, schema: Schema) -> Design:
    """Return the design of rows of at most this norm, or of that which the schema declares if it is less."""
    declared = math.inf if schema.row_norm is None else schema.row_norm
    return Design(columns, target, norm_bound=min(bound, declared), bounded=bound <= declared)


def _design_columns(predictors: Sequence[tuple[str, Column]], *, intercept: bool) -> tuple[DesignColumn, ...]:
    columns = [DesignColumn(INTERCEPT, indicator=True, constant=True)] if intercept else []
    for name, column in predictors:
        if isinstance(column, NumericColumn):
            scaling = column.scaling(centered=intercept)
            columns.append(DesignColumn(column.label(name), *scaling, number=True))
        else:
            columns.extend(DesignColumn(label, term=name, indicator=True) for label in column.labels(name))
    return tuple(columns)
