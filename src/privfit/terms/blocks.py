"""The columns of one term: a product of numbers, spread over the levels of its categorical factors."""

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.coded import Layout
from privfit.data.declarations import CategoricalColumn
from privfit.data.design import INTERCEPT, Cell, DesignColumn
from privfit.data.levels import MISSING
from privfit.data.schema import Schema
from privfit.terms.centring import Centring
from privfit.terms.codings import Coding
from privfit.terms.expressions import Apply, Cells, Expression, differentiate
from privfit.terms.factors import CategoricalFactor, NumericFactor
from privfit.terms.functions import MULTIPLY
from privfit.terms.grammar import ScopedFactor
from privfit.terms.monomials import Monomial
from privfit.terms.products import ScaledProduct
from privfit.terms.raw_terms import RawColumns, RawTerm

Term: TypeAlias = tuple[ScopedFactor, ...]


@dataclass(frozen=True, slots=True)
class TermBlock:
    """One term of a formula as columns of the design.

    Parameters
    ----------
    columns : tuple of DesignColumn
        They share the half-width, because they share the numeric product.
    codings : tuple of Coding
        Categorical factors; the first one varies fastest along the columns.
    product : ScaledProduct or None
        Of the numeric factors, if there are any.
    raw : Expression or None
        The same product in raw units.
    cells : tuple of Cell
        Combinations of levels that have no column, if it is a product of factors alone.

    Notes
    -----
    *Guarantee.* The encoded columns of a row have Euclidean norm at most 1, in exact arithmetic: with
    categorical factors at most one of them is not 0, and every entry is within [-1, 1].
    """

    columns: tuple[DesignColumn, ...]
    codings: tuple[Coding, ...]
    product: ScaledProduct | None
    raw: Expression | None = None
    cells: tuple[Cell, ...] = ()

    def codes(self, cells: Cells, n_rows: int, start: int, layout: Layout) -> NDArray[np.intp]:
        """Return the encoded column of each row's entry, or ``layout.none``; the first one is ``start``."""
        place = np.zeros(n_rows, dtype=np.intp)
        present = np.ones(n_rows, dtype=np.bool_)
        stride = 1
        for coding in self.codings:
            position = coding.position[cells[coding.name]]
            present &= position != MISSING
            place += stride * position
            stride *= coding.width
        return np.where(present, start + place, layout.none)

    def moves(self, cells: Cells, name: str, direction: FloatArray) -> FloatArray | None:
        """Return how fast the raw product moves, as `differentiate` does, shape (n,) or None."""
        return None if self.raw is None else differentiate(self.raw, cells, name, direction)[1]


def design_blocks(terms: Sequence[Term], schema: Schema, *, centered: bool) -> tuple[TermBlock, ...]:
    """Return the blocks of the terms of a formula, their scales taken from the declared bounds.

    Indicators are not scaled. Numeric factors are centred if ``centered``, where all columns of lower order
    that this takes are in the formula (`Centring`); rows of other levels stay 0.

    Raises
    ------
    FormulaError
        If a numeric product is not finite on all of the bounds, or does not vary.
    """
    raw_terms = tuple(_raw_terms(terms, schema))
    centring = Centring(RawColumns.of(raw_terms), schema, centered)
    return tuple(
        _block(term, raw_term, centring, schema) for term, raw_term in zip(terms, raw_terms, strict=True)
    )


def _raw_terms(terms: Sequence[Term], schema: Schema) -> Iterator[RawTerm]:
    start = 0
    for term in terms:
        codings = tuple(
            Coding.make(one.factor, len(_levels(one.factor, schema)), reduced=one.reduced)
            for one in term
            if isinstance(one.factor, CategoricalFactor)
        )
        expressions = tuple(one.factor.expression for one in term if isinstance(one.factor, NumericFactor))
        yield RawTerm(start, codings, expressions, Monomial.of(expressions))
        start += math.prod(coding.width for coding in codings)


def _block(term: Term, raw_term: RawTerm, centring: Centring, schema: Schema) -> TermBlock:
    names = _column_names(term, schema)
    label = ":".join(one.factor.label for one in term) if raw_term.codings else None
    of_all = not any(one.reduced for one in term if isinstance(one.factor, CategoricalFactor))
    if not raw_term.expressions:
        columns = tuple(DesignColumn(name, term=label, indicator=True, constant=of_all) for name in names)
        cells = tuple(centring.raw.cells(raw_term)) if len(raw_term.codings) > 1 else ()
        return TermBlock(columns, raw_term.codings, None, cells=cells)
    numeric = ":".join(one.factor.label for one in term if isinstance(one.factor, NumericFactor))
    found = centring.encoding(raw_term, label=numeric)
    columns = tuple(
        DesignColumn.less(name, lower, found.half_width, term=label, number=of_all, margins=margins)
        for name, lower, margins in zip(names, found.lower, centring.raw.margins(raw_term), strict=True)
    )
    return TermBlock(columns, raw_term.codings, found.product, _times(raw_term.expressions))


def _times(expressions: Sequence[Expression]) -> Expression:
    return functools.reduce(lambda x, y: Apply(MULTIPLY, (x, y), "*"), expressions)


def indicators(one: ScopedFactor, schema: Schema) -> int:
    """Return how many columns a factor multiplies those of its term by."""
    factor = one.factor
    return 1 if isinstance(factor, NumericFactor) else len(_levels(factor, schema)) - one.reduced


def _levels(factor: CategoricalFactor, schema: Schema) -> tuple[object, ...]:
    column = schema[factor.name]
    assert isinstance(column, CategoricalColumn)  # noqa: S101 -- the formula was checked against the schema
    return column.levels


def _column_names(term: Term, schema: Schema) -> list[str]:
    """Return formulaic's names: the first factor varies fastest."""
    if not term:
        return [INTERCEPT]
    parts = [_part_names(one, schema) for one in reversed(term)]
    return [":".join(reversed(combination)) for combination in product(*parts)]


def _part_names(one: ScopedFactor, schema: Schema) -> list[str]:
    factor = one.factor
    if isinstance(factor, NumericFactor):
        return [factor.label]
    levels = _levels(factor, schema)
    if not one.reduced:
        return [f"{factor.label}[{level}]" for level in levels]
    return [f"{factor.label}[T.{level}]" for code, level in enumerate(levels) if code != factor.base]
