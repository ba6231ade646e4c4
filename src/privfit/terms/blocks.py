"""The columns of one term: a product of numbers, spread over the levels of its categorical factors."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.coded import Layout
from privfit.data.columns import MISSING
from privfit.data.declarations import CategoricalColumn
from privfit.data.design import INTERCEPT, DesignColumn
from privfit.data.response import scaled
from privfit.data.schema import Schema
from privfit.terms.expressions import Cells, Expression, evaluate
from privfit.terms.factors import CategoricalFactor, NumericFactor
from privfit.terms.grammar import ScopedFactor
from privfit.terms.ranges import product_range


@dataclass(frozen=True, slots=True)
class Coding:
    """The indicators of a categorical factor: which column, if any, a level code switches on.

    Parameters
    ----------
    name : str
        The column.
    position : array of shape (levels + 1,)
        Place among the indicators of each level code, -1 for none; the last entry is for missing cells.
    width : int
        Number of indicators.
    """

    name: str
    position: NDArray[np.intp]
    width: int

    @classmethod
    def make(cls, factor: CategoricalFactor, levels: int, *, reduced: bool) -> "Coding":
        """Return the treatment coding of a factor."""
        position = np.arange(levels + 1)
        if reduced:
            position[factor.base + 1 :] -= 1
            position[factor.base] = MISSING
        position[levels] = MISSING
        return cls(factor.name, position, levels - reduced)


@dataclass(frozen=True, slots=True)
class TermBlock:
    """One term of a formula as columns of the design.

    Parameters
    ----------
    columns : tuple of DesignColumn
        They share centre and half-width, because they share the numeric product.
    codings : tuple of Coding
        Categorical factors; the first one varies fastest along the columns.
    expressions : tuple of Expression
        Numeric factors.

    Notes
    -----
    *Guarantee.* The encoded columns of a row have Euclidean norm at most 1, in exact arithmetic: with
    categorical factors at most one of them is not 0, and every entry is clipped to [-1, 1].
    """

    columns: tuple[DesignColumn, ...]
    codings: tuple[Coding, ...]
    expressions: tuple[Expression, ...]

    @classmethod
    def make(cls, term: tuple[ScopedFactor, ...], schema: Schema, *, centered: bool) -> "TermBlock":
        """Return the block of a term, its scale taken from the declared bounds.

        Indicators and their products with numeric factors are scaled about 0, so that rows of other levels
        stay 0; a purely numeric term is centred if ``centered``.

        Raises
        ------
        FormulaError
            If a numeric product is not finite on all of the bounds, or does not vary.
        """
        numeric = [one.factor for one in term if isinstance(one.factor, NumericFactor)]
        codings = tuple(
            Coding.make(one.factor, len(_levels(one.factor, schema)), reduced=one.reduced)
            for one in term
            if isinstance(one.factor, CategoricalFactor)
        )
        expressions = tuple(factor.expression for factor in numeric)
        center, half_width = 0.0, 1.0
        if numeric:
            label = ":".join(factor.label for factor in numeric)
            low, high = product_range(expressions, schema, label=label)
            half_width = max(abs(low), abs(high))
            if centered and not codings:
                center, half_width = low / 2 + high / 2, high / 2 - low / 2
        names = _column_names(term, schema)
        label = ":".join(one.factor.label for one in term)
        columns = tuple(
            DesignColumn(name, center, half_width, label if codings else None, indicator=not numeric)
            for name in names
        )
        return cls(columns, codings, expressions)

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

    def numbers(self, cells: Cells, n_rows: int) -> FloatArray:
        """Return the scaled product of the numeric factors, NaN where it is not finite."""
        values = np.ones(n_rows)
        with np.errstate(all="ignore"):
            for expression in self.expressions:
                values *= evaluate(expression, cells)
            values[~np.isfinite(values)] = np.nan
            return scaled(values, self.columns[0].center, self.columns[0].half_width)


def indicators(one: ScopedFactor, schema: Schema) -> int:
    """Return how many columns a factor multiplies those of its term by."""
    factor = one.factor
    return 1 if isinstance(factor, NumericFactor) else len(_levels(factor, schema)) - one.reduced


def _levels(factor: CategoricalFactor, schema: Schema) -> tuple[object, ...]:
    column = schema[factor.name]
    assert isinstance(column, CategoricalColumn)  # noqa: S101 -- the formula was checked against the schema
    return column.levels


def _column_names(term: tuple[ScopedFactor, ...], schema: Schema) -> list[str]:
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
