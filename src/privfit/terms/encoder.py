"""Encode the columns of a table by a formula, from public facts alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.coded import CodedMatrix, Layout, Storage
from privfit.data.columns import naming
from privfit.data.declarations import Column, NumericColumn
from privfit.data.declared import encode_categorical, encode_numeric
from privfit.data.encode import ROUNDING, AbstractEncoder, SchemaEncoder, design_within
from privfit.data.levels import MISSING
from privfit.data.response import TargetKind
from privfit.data.rows import coded_rows, written_out
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.errors import FormulaError
from privfit.terms.blocks import TermBlock, design_blocks, indicators
from privfit.terms.expressions import compared_names
from privfit.terms.grammar import ScopedFactor, factor_columns, parse_formula
from privfit.terms.products import CenteredFactor
from privfit.terms.size import MOST_COLUMNS


@dataclass(frozen=True, slots=True)
class FormulaFacts:
    """What a `FormulaEncoder` is made from; parameters as there.

    Columns that the formula does not name may be missing from the schema.
    """

    formula: str
    schema: Schema
    target_kind: TargetKind

    def encoder(self) -> "FormulaEncoder":
        """Return the encoder, or raise `FormulaError` or `SchemaError`; formulas are read as stored ones."""
        return FormulaEncoder(self.formula, self.schema, target_kind=self.target_kind, as_stored=True)


@final
class FormulaEncoder(AbstractEncoder):
    """Encode the columns of a table by a formula.

    Every entry of an encoded row is a function of that row and of public facts: the formula and the schema.
    Levels, ranges and names come from the schema, so that they do not depend on the rows.

    Parameters
    ----------
    formula : str
        Such as ``"y ~ age * C(sex) + np.log1p(gain) - 1"``. The left side is a column name. The right side
        joins terms by ``+ - * : / **``; ``.`` is the sum of all other columns but the privacy unit, the
        weights and the exposures. A term is a column, ``C(column)``, or arithmetic on numeric columns in
        ``I(...)``, braces or one of the functions of `privfit.terms.functions`.
    schema : Schema
        Public bounds and levels.
    target_kind : {"numeric", "binary", "count", "class"}
        How the response is encoded, as in `SchemaEncoder`.
    as_stored : bool
        Whether comparisons are numbers wherever they stand, as in results of earlier versions.

    Raises
    ------
    FormulaError
        If the formula does not parse, names a column that is not in the schema, uses what is not allowed on
        private rows, has a comparison where R would make other columns of it, or has a term that is not
        finite on all of the declared bounds or constant on them.
    SchemaError
        If the declaration of the response does not fit its kind.

    Notes
    -----
    A column that stands alone is the column of the schema, its transform included; inside a call or
    arithmetic a name means the clamped number in its raw unit. A row with a missing cell in a column of the
    formula, for which no fill is declared, is NaN throughout, so that it gets weight 0.

    Numeric factors are scaled to [-1, 1] by their range over the declared bounds. With an intercept they are
    centred, in products too, where all columns of lower order that this takes are in the formula: ``age*edu``
    is encoded by the products of the centred columns, and ``age + I(age**2)`` by polynomials of the centred
    column. Other products are centred as a whole, or scaled about 0. `Design.reporting_map` leads back to the
    terms of the formula.

    *Guarantee.* A row of k terms, the intercept among them, has norm at most ``sqrt(k)``, because the columns
    of one term have norm at most 1. ``norm_bound`` is this number, or ``schema.row_norm`` if that is smaller;
    ``bounded`` is then False.

    Examples
    --------
    >>> from privfit.data.schema import Schema
    >>> schema = Schema({
    ...     "age": {"type": "numeric", "lower": 17, "upper": 90},
    ...     "sex": {"type": "categorical", "levels": ["Female", "Male"]},
    ...     "hours": {"type": "numeric", "lower": 0, "upper": 80},
    ... })
    >>> FormulaEncoder("hours ~ C(sex) * age", schema, target_kind="numeric").design.names
    ('Intercept', 'C(sex)[T.Male]', 'age', 'C(sex)[T.Male]:age')
    """

    __slots__ = ("_blocks", "_columns", "_facts", "_identity", "_made_from", "_response")

    def __init__(
        self, formula: str, schema: Schema, *, target_kind: TargetKind = "numeric", as_stored: bool = False
    ) -> None:
        self._made_from = FormulaFacts(formula, schema, target_kind)
        parsed = parse_formula(formula, schema, as_stored=as_stored)
        has_intercept = () in parsed.terms
        read = {name for term in parsed.terms for one in term for name in factor_columns(one.factor)}
        names = [name for name in schema if name in read]
        self._columns = tuple((name, _untransformed(schema[name])) for name in names)
        _check_width(parsed.terms, schema)
        self._blocks = design_blocks(parsed.terms, schema, centered=has_intercept)
        columns = tuple(column for block in self._blocks for column in block.columns)
        _check_names([column.name for column in columns])
        self._response = SchemaEncoder(
            schema, target=parsed.response, columns=names, intercept=has_intercept, target_kind=target_kind
        )
        kept = (*parsed.named, *self._response.design.target.beside)
        self._facts = replace(self._made_from, schema=schema.part(kept))
        self._layout = _layout(self._blocks)
        self._identity = repr((schema.fingerprint, tuple(schema), formula, target_kind))
        bound = math.sqrt(len(self._blocks)) * ROUNDING
        design = design_within(bound, columns, self._response.design.target, schema)
        self._design = replace(design, cells=tuple(cell for block in self._blocks for cell in block.cells))

    def __reduce__(self) -> tuple[object, ...]:
        return FormulaFacts.encoder, (self._made_from,)  # what is compiled from the formula cannot be pickled

    @property
    def identity(self) -> str:
        """Fingerprint and order of the schema, the formula and the kind of response."""
        return self._identity

    @property
    def facts(self) -> FormulaFacts:
        """Formula, schema of the columns that it names, and kind of response."""
        return self._facts

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the raw columns that `encode` reads, the response last."""
        return self._response.needed

    @property
    def variables(self) -> tuple[tuple[str, Column | None], ...]:
        """Names and declarations of the raw predictors; None where nothing is declared."""
        schema = self._facts.schema
        return tuple((name, schema[name]) for name, _ in self._columns)

    def encode_coded(self, table: Table, storage: Storage = "float64") -> CodedMatrix:
        """Return the same rows as numbers and codes."""
        return coded_rows(self._fill, self._layout, table, storage)

    def encode_target(self, table: Table) -> FloatArray:
        """Return ``y`` (n,)."""
        return self._response.encode_target(table)

    def encode_predictors(self, table: Table) -> FloatArray:
        """Return ``x`` (n, p), row-major float64; the response need not be in the table."""
        return written_out(self._fill, self._layout, table)

    @property
    def compared(self) -> tuple[str, ...]:
        """Names of the numeric columns that comparisons read."""
        raw = (block.raw for block in self._blocks if block.raw is not None)
        found = {name for expression in raw for name in compared_names(expression)}
        return tuple(
            name for name, column in self._columns if name in found and isinstance(column, NumericColumn)
        )

    @np.errstate(all="ignore")
    def derivatives(self, table: Table, name: str) -> FloatArray:
        """Return the derivatives of the raw rows in a numeric column, shape (n, p).

        Those of the formula's arithmetic, in cells that are moved to the bounds first. They are one-sided at
        the bounds, and the mean of both sides at a kink. Comparisons are held, so that their jumps count
        nothing.
        """
        cells, _ = self._read(table)
        column = self._facts.schema[name]
        assert isinstance(column, NumericColumn)  # noqa: S101 -- the caller asks for a derivative
        sides = (
            np.where(cells[name] < column.upper, 1.0, -1.0),
            np.where(cells[name] > column.lower, -1.0, 1.0),
        )
        out = np.zeros((table.n_rows, self._layout.size))
        start = 0
        for block in self._blocks:
            moves = [block.moves(cells, name, side) for side in sides]
            if moves[0] is not None and moves[1] is not None:
                places = block.codes(cells, table.n_rows, start, self._layout)
                rows = np.flatnonzero(places != self._layout.none)
                slopes = (sides[0] * moves[0] + sides[1] * moves[1]) / 2.0
                out[rows, places[rows]] = slopes[rows]
            start += len(block.columns)
        return out

    def _read(self, table: Table) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
        """Return the cells of each column, within its bounds, and which rows miss one."""
        cells, missing = {}, np.zeros(table.n_rows, dtype=np.bool_)
        for name, column in self._columns:
            with naming(name):
                cells[name], gone = _cells(table, name, column)
            missing |= gone
        return cells, missing

    def _fill(self, x: CodedMatrix, table: Table) -> None:
        cells, missing = self._read(table)
        layout = self._layout
        number, code = 0, 0
        pair = len(layout.columns), layout.plain
        start = 0
        known: dict[CenteredFactor, FloatArray] = {}
        for block in self._blocks:
            values = None if block.product is None else block.product.values(cells, len(x), known)
            codes = None if not block.codings else block.codes(cells, len(x), start, layout)
            if values is not None and codes is not None:
                x.numbers[:, pair[0]] = np.where(codes == layout.none, 0.0, values)
                x.codes[:, pair[1]] = codes
                pair = pair[0] + 1, pair[1] + 1
            elif values is not None:
                x.numbers[:, number], number = values, number + 1
            elif codes is not None:
                x.codes[:, code], code = codes, code + 1
            start += len(block.columns)
        x.numbers[missing], x.codes[missing] = np.nan, layout.missing


def _layout(blocks: Sequence[TermBlock]) -> Layout:
    columns, start = [], 0
    for block in blocks:
        if block.product is not None and not block.codings:
            columns.append(start)
        start += len(block.columns)
    constant = any(block.product is None and not block.codings for block in blocks)
    paired = sum(1 for block in blocks if block.product is not None and block.codings)
    plain = sum(1 for block in blocks if block.codings) - paired
    return Layout(start, constant, tuple(columns), plain, paired)


def _cells(table: Table, name: str, column: Column) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return the numbers or level codes of the rows, and which of them are missing."""
    values = table.values(name)
    if isinstance(column, NumericColumn):
        numbers = encode_numeric(values, column)
        return numbers, np.isnan(numbers)
    codes = encode_categorical(values, column)
    return codes, codes == MISSING


def encoder_of(schema: Schema, formula: str | None, target: str | None, kind: TargetKind) -> AbstractEncoder:
    """Return the encoder of a formula; where there is none, that of a target by all other columns."""
    if formula is None:
        return SchemaEncoder(schema, target=target, target_kind=kind)
    return FormulaEncoder(formula, schema, target_kind=kind)


def _untransformed(column: Column) -> Column:
    return replace(column, transform=None) if isinstance(column, NumericColumn) else column


def _check_width(terms: Sequence[Sequence[ScopedFactor]], schema: Schema) -> None:
    """Refuse more columns than there could be coefficients for, before they get names."""
    width = sum(math.prod(indicators(one, schema) for one in term) for term in terms)
    if width > MOST_COLUMNS:
        raise FormulaError(
            f"formula: its terms have more than {MOST_COLUMNS} columns; cross columns with fewer levels"
        )


def _check_names(names: list[str]) -> None:
    if len(set(names)) != len(names):
        raise FormulaError("formula: two design columns have the same name; rename a column or a level")
