"""Rows without a schema: columns taken to be on a unit scale, or brought to one by learned bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, cast, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.coded import CodedMatrix, Layout, Storage
from privfit.data.columns import (
    ColumnValues,
    as_number,
    holds_numbers,
    naming,
    quietly,
    unmasked,
)
from privfit.data.declarations import CategoricalColumn, Column, Level, NumericColumn
from privfit.data.declared import encode_numeric
from privfit.data.design import INTERCEPT, Design, DesignColumn, Target
from privfit.data.encode import ROUNDING, AbstractEncoder
from privfit.data.levels import level_codes
from privfit.data.number_types import refuse_text, refuse_text_columns
from privfit.data.reduction import each_stretch
from privfit.data.response import (
    OF_NUMBERS,
    TargetKind,
    declared_labels,
    describe_target,
    labelled_target,
    labels_to_numbers,
    scaled,
    standard_codes,
)
from privfit.data.tables import Table, default_names, single_column
from privfit.errors import SchemaError


@dataclass(frozen=True, slots=True)
class UnitScaleFacts:
    """What a `UnitScaleEncoder` is made from; parameters as there, all of them settled."""

    names: tuple[str, ...]
    norm_bound: float | None
    intercept: bool
    target_kind: TargetKind
    classes: tuple[Level, ...] | None
    target: str
    count_bound: float | None
    within: tuple[NumericColumn, ...] | None = None
    response: NumericColumn | None = None
    truths: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[str, ...]:
        """Names of the predictors that are not true or false."""
        known = frozenset(self.truths)
        return tuple(name for name in self.names if name not in known)

    def encoder(self) -> "UnitScaleEncoder":
        """Return the encoder, or raise `SchemaError`."""
        return UnitScaleEncoder(
            self.names,
            norm_bound=self.norm_bound,
            intercept=self.intercept,
            target_kind=self.target_kind,
            classes=self.classes,
            target=self.target,
            count_bound=self.count_bound,
            within=self.within,
            response=self.response,
            truths=self.truths,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Scales:
    """Bounds, centres and half-widths of the predictors, arrays of shape (k,)."""

    lower: FloatArray
    upper: FloatArray
    center: FloatArray
    half: FloatArray

    @classmethod
    def of(cls, columns: Sequence[NumericColumn], scales: Sequence[tuple[float, float]]) -> Self:
        """Return those of columns with these centres and half-widths."""
        bounds = [(one.lower, one.upper) for one in columns]
        return cls(*np.hstack([bounds, scales]).reshape(-1, 4).T)

    def apply(self, numbers: FloatArray, place: int | slice) -> FloatArray:
        """Return numbers within the bounds, scaled to [-1, 1]; NaN stays."""
        held = np.clip(numbers, self.lower[place], self.upper[place])
        return np.clip((held - self.center[place]) / self.half[place], -1.0, 1.0)


@final
class UnitScaleEncoder(AbstractEncoder):
    """Encode numeric predictors where no schema is declared: as they are, or clamped and scaled to [-1, 1].

    Parameters
    ----------
    names : sequence of str or int
        Names of the predictors, or their number; they are then called ``x0``, ``x1``, ...
    norm_bound : float or None
        Bound on the norm of an encoded row, the intercept included; rows beyond it get a Mallows weight.
        None leaves it to the solver.
    intercept : bool
        Whether the first encoded column is the constant 1.
    target_kind : {"numeric", "binary", "count", "class"}
        A numeric response passes through; non-finite entries mark rows that may not contribute.
    classes : sequence of labels, optional
        [negative, positive], for a binary response whose labels are not 0/1, -1/1 or true/false; all labels
        of a class.
    target : str
        Name of the response.
    count_bound : float, optional
        Public bound that counts are moved into: they become at least 0 and at most this. Needed for them.
    within : sequence of NumericColumn, optional
        Bounds of the predictors, from an earlier release. Every row then is within the root of the number of
        columns, and ``norm_bound`` is that, whatever is given.
    response : NumericColumn, optional
        Bounds of a numeric response, from the same.
    truths : sequence of str
        Names of the predictors that by their type are true or false: indicators, which are 0 or 1.
    """

    __slots__ = ("_classes", "_facts", "_names", "_scales")

    def __init__(
        self,
        names: Sequence[str] | int,
        *,
        norm_bound: float | None,
        intercept: bool = True,
        target_kind: TargetKind = "numeric",
        classes: Sequence[Level] | None = None,
        target: str = "y",
        count_bound: float | None = None,
        within: Sequence[NumericColumn] | None = None,
        response: NumericColumn | None = None,
        truths: Sequence[str] = (),
    ) -> None:
        if (count_bound is None) == (target_kind == "count"):
            raise SchemaError("count_bound is needed for a count response without a schema, and only there")
        self._names = default_names(names) if isinstance(names, int) else tuple(names)
        if INTERCEPT in self._names:
            raise SchemaError(f"column {INTERCEPT!r} has the name of the constant column; rename it")
        if target in self._names:
            raise SchemaError(f"column {target!r} cannot be both the response and a predictor")
        if classes is not None and target_kind not in ("binary", "class"):
            raise SchemaError("classes declares the labels of a response; leave it out here")
        self._classes = None if classes is None else CategoricalColumn(declared_labels(classes, target_kind))
        labels = None if self._classes is None else self._classes.levels
        columns = None if within is None else tuple(within)
        if columns is not None:
            if len(columns) != len(self._names):
                raise SchemaError("within must hold the bounds of every predictor")
            norm_bound = math.sqrt(max(bool(intercept) + len(columns), 1)) * ROUNDING
        self._facts = UnitScaleFacts(
            self._names,
            norm_bound,
            bool(intercept),
            target_kind,
            labels,
            target,
            count_bound,
            columns,
            response,
            tuple(truths),
        )
        numbers, scales = frozenset(self._facts.numbers), [(0.0, 1.0)] * len(self._names)
        self._scales: _Scales | None = None
        if columns is not None:
            scales = [
                column.scaling(centered=intercept) if name in numbers else (0.0, 1.0)
                for name, column in zip(self._names, columns, strict=True)
            ]
            self._scales = _Scales.of(columns, scales)
        head = (DesignColumn(INTERCEPT, indicator=True, constant=True),) if intercept else ()
        described = _described(self._facts, self._classes)
        predictors = (
            DesignColumn(name, *scale, number=name in numbers, indicator=name not in numbers)
            for name, scale in zip(self._names, scales, strict=True)
        )
        self._design = Design((*head, *predictors), described, norm_bound, bounded=columns is not None)
        first = len(head)
        places = tuple(range(first, first + len(self._names)))
        self._layout = Layout(first + len(places), bool(first), places)

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the raw columns that `encode` reads, the response last."""
        return (*self._names, self._design.target.name)

    @property
    def variables(self) -> tuple[tuple[str, Column | None], ...]:
        """Names and declarations of the raw predictors; None where nothing is declared."""
        return tuple((name, None) for name in self._names)

    @property
    def identity(self) -> str:
        """Names, labels and bounds."""
        return repr(self._facts)

    @property
    def facts(self) -> UnitScaleFacts:
        """Names, labels, bounds, intercept and kind of response."""
        return self._facts

    def encode_coded(self, table: Table, storage: Storage = "float64") -> CodedMatrix:
        """Return ``x`` as numbers."""
        x = CodedMatrix.empty(self._layout, table.n_rows, storage)
        self._fill(x.numbers, table)
        return x

    def encode_predictors(self, table: Table) -> FloatArray:
        """Return ``x`` (n, p), row-major float64."""
        x = np.empty((table.n_rows, len(self._design.columns)))
        self._fill(x, table, int(self._design.has_intercept))
        return x

    def derivatives(self, table: Table, name: str) -> FloatArray:
        """Return the derivatives of the rows in a column, shape (n, p)."""
        out = np.zeros((table.n_rows, len(self._design.columns)))
        out[:, self._design.names.index(name)] = 1.0
        return out

    def _fill(self, x: NDArray[Any], table: Table, first: int = 0) -> None:
        """Write the predictors to the columns of ``x`` from ``first`` on, and ones to those before."""
        columns = [table.values(name) for name in self._names]
        matrix = _side_by_side(columns)

        def write(rows: slice) -> None:
            x[rows, :first] = 1.0
            if matrix is not None:
                x[rows, first:] = self._brought(as_number(matrix[rows]))
                return
            for k, (name, values) in enumerate(zip(self._names, columns, strict=True)):
                with naming(name):
                    x[rows, first + k] = self._brought(as_number(values[rows]), k)

        each_stretch(write, table.n_rows)

    def _brought(self, numbers: FloatArray, place: int | slice = slice(None)) -> FloatArray:
        """Return predictors, or the one in a place, as they are encoded."""
        return numbers if self._scales is None else self._scales.apply(numbers, place)

    def encode_numbers(self, x: FloatArray) -> FloatArray:
        """Return encoded predictors (n, p) from plain numbers (n, k)."""
        x = self._brought(x)
        return x if not self._design.has_intercept else np.column_stack([np.ones(len(x)), x])

    def encode_arrays(self, x: Any, y: Any) -> tuple[FloatArray, FloatArray]:
        """Return ``x`` (n, p) with the constant column in front, and ``y`` (n,), from array-likes.

        Raises
        ------
        SchemaError
            If the shapes do not fit or a type holds no numbers.
        LabelError
            If a binary response or a class holds anything but its labels and missing cells.
        """
        refuse_text_columns(x)
        raw = quietly(lambda: np.asarray(unmasked(x)), "X cannot be read as an array; pass equally long rows")
        if not raw.size:
            raw = raw.reshape(0, len(self._names))
        if raw.ndim != 2 or raw.shape[1] != len(self._names):
            raise SchemaError(f"X must have exactly {len(self._names)} columns")
        response = single_column("y", y)
        if len(response) != len(raw):
            raise SchemaError("y must be one-dimensional and as long as X")
        if self._facts.target_kind in OF_NUMBERS:
            refuse_text(response)
        predictors = ((name, raw[:, k]) for k, name in enumerate(self._names))
        return self.encode(Table([*predictors, (self._design.target.name, response)], len(raw)))

    def encode_target(self, table: Table) -> FloatArray:
        """Return ``y`` (n,), from the named column of a table."""
        name = self._design.target.name
        with naming(name):
            return self._response(table.values(name))

    def _response(self, values: ColumnValues) -> FloatArray:
        if self._classes is not None:
            return labels_to_numbers(level_codes(values, self._classes.levels))
        if self._design.target.kind == "binary":
            return labels_to_numbers(standard_codes(values))
        if self._facts.response is not None:
            target = self._design.target
            return scaled(encode_numeric(values, self._facts.response), target.center, target.half_width)
        y = np.array(as_number(values), dtype=np.float64)
        bound = self._design.target.count_bound
        return y if bound is None else np.where(np.isfinite(y), np.clip(y, 0.0, bound), np.nan)


def _described(facts: UnitScaleFacts, classes: CategoricalColumn | None) -> Target:
    """Return the public description of the response."""
    if classes is not None:
        return labelled_target(facts.target, classes)
    if facts.target_kind in ("binary", "class"):
        return Target(facts.target, "binary", labels=(0, 1))
    if facts.response is not None:
        return describe_target(facts.target, facts.response, facts.target_kind, centered=facts.intercept)
    return Target(facts.target, "numeric", count_bound=facts.count_bound)


def _side_by_side(columns: Sequence[ColumnValues]) -> NDArray[Any] | None:
    """Return the array (n, k) of numbers that has these columns, as it lies in memory, or None."""
    if not all(isinstance(values, np.ndarray) for values in columns):
        return None
    arrays = cast(Sequence[NDArray[Any]], columns)
    if len({(values.dtype, values.strides) for values in arrays}) != 1 or not holds_numbers(arrays[0]):
        return None
    places = [values.__array_interface__["data"][0] for values in arrays]
    apart = {following - place for place, following in pairwise(places)}
    if len(apart) > 1:
        return None
    shape, strides = (arrays[0].size, len(arrays)), (arrays[0].strides[0], sum(apart))
    return np.lib.stride_tricks.as_strided(arrays[0], shape=shape, strides=strides, writeable=False)
