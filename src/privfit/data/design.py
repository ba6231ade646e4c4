"""What is public about an encoded table: its columns, their scaling, and the bound on a row."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from privfit._checks import FloatArray
from privfit.data.exposure import Exposure
from privfit.errors import SchemaError

INTERCEPT = "Intercept"


@dataclass(frozen=True, slots=True)
class DesignColumn:
    """One column of the encoded design matrix: ``encoded = (raw - center) / half_width``.

    Of products and powers other raw columns may be taken as well, ``(a - 1) * (b - 2)`` being ``a * b`` less
    ``2 * a``, ``b`` and a constant: ``encoded = (raw - center - sum(c * other raw column)) / half_width``.

    Parameters
    ----------
    name : str
        Label in results, in formulaic's style: ``age``, ``C(sex)[T.Male]``.
    center, half_width : float
        Public numbers, in the unit of the raw column; 0 and 1 for the intercept and for indicators. Without
        an intercept all centres are 0.
    term : str or None
        Term of the model that it belongs to, with the other levels of a factor; None: it is one of its own.
    indicator : bool
        Whether its entries are 0 or 1.
    lower : tuple of (int, float)
        Places in the design of the other raw columns, which are of lower order, and their coefficients c.
    number : bool
        Whether it holds a number of every row, together with the other columns of its term if it has some.
    margins : tuple of int
        Places in the design of the columns, the intercept aside, that it is a product of with something else.
    constant : bool
        Whether it adds up to 1 in every row, together with the other columns of its term if it has some.
    """

    name: str
    center: float = 0.0
    half_width: float = 1.0
    term: str | None = None
    indicator: bool = False
    lower: tuple[tuple[int, float], ...] = ()
    number: bool = False
    margins: tuple[int, ...] = ()
    constant: bool = False

    @classmethod
    def less(
        cls,
        name: str,
        taken: Mapping[int, float],
        half_width: float,
        *,
        term: str | None = None,
        number: bool = False,
        margins: tuple[int, ...] = (),
    ) -> "DesignColumn":
        """Return a column from which raw columns are taken, the intercept (at place 0) among them perhaps."""
        others = tuple(
            (place, value) for place, value in sorted(taken.items()) if place != 0 and value != 0.0
        )
        center = taken.get(0, 0.0)
        return cls(name, center, half_width, term, lower=others, number=number, margins=margins)


@dataclass(frozen=True, slots=True)
class Cell:
    """A combination of levels of several factors that has no column of its own in their product.

    Parameters
    ----------
    made_of : tuple of (int, float)
        Places in the design of columns, and coefficients with which they add up to its indicator.
    own : tuple of int
        Those of them that belong to the product.
    """

    made_of: tuple[tuple[int, float], ...]
    own: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The encoded response: ``encoded = (raw - center) / half_width``, or a code from 0 for labels.

    ``labels`` are the raw labels behind these codes, in that order, or None for a numeric response.
    ``bounded`` is True if a schema keeps the encoded response within [-1, 1]. ``count_bound`` is the largest
    count that a count response can hold; counts are numbers that are not scaled. They may have exposures.
    """

    name: str
    kind: Literal["numeric", "binary", "class"]
    center: float = 0.0
    half_width: float = 1.0
    labels: tuple[object, ...] | None = None
    bounded: bool = False
    count_bound: float | None = None
    exposure: Exposure | None = None

    @property
    def largest_mean(self) -> float:
        """What no mean of counts over alike exposures exceeds; infinite for other responses."""
        return math.inf if self.count_bound is None or self.exposure is not None else self.count_bound

    @property
    def beside(self) -> tuple[str, ...]:
        """Names of the raw columns that rows need beside their predictors and the response."""
        return () if self.exposure is None else (self.exposure.name,)


@dataclass(frozen=True, slots=True)
class Design:
    """Public description of an encoded table; made from a schema or from declared facts, never from rows.

    Parameters
    ----------
    columns : tuple of DesignColumn
        In the order of the encoded matrix; the intercept, if any, first and named ``Intercept``.
    target : Target
        The response.
    norm_bound : float or None
        ``sqrt(w) * norm(x) <= norm_bound`` for the weight ``w`` that every encoded row carries. Where
        the schema bounds every row by this number, all weights are 1. None where nothing declares it, so
        that it is the solver's to choose.
    bounded : bool
        True if the schema itself keeps every row within ``norm_bound``.
    cells : tuple of Cell
        Of all products of factors.
    """

    columns: tuple[DesignColumn, ...]
    target: Target
    norm_bound: float | None
    bounded: bool
    cells: tuple[Cell, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise SchemaError("the design has no column; name at least one predictor or an intercept")
        if len(set(names)) != len(names):
            raise SchemaError("two columns of the design have the same name; rename one")
        if len(set(self.reported_names)) != len(self.reported_names):
            raise SchemaError("two coefficients have the same name; rename a class or a column")

    @property
    def names(self) -> tuple[str, ...]:
        """Column labels."""
        return tuple(column.name for column in self.columns)

    @property
    def terms(self) -> tuple[str, ...]:
        """The term that each column belongs to."""
        return tuple(column.term or column.name for column in self.columns)

    @property
    def factors(self) -> tuple[tuple[int, ...], ...]:
        """Places of the indicators of each term that has some, the intercept aside."""
        return self._by_term([column.indicator and column.name != INTERCEPT for column in self.columns])

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Places of the columns of each term that together hold a number of every row."""
        return self._by_term([column.number for column in self.columns])

    @property
    def constant(self) -> tuple[int, ...]:
        """Places of the columns of a term that add up to 1 in every row; empty where there is none."""
        return next(iter(self._by_term([column.constant for column in self.columns])), ())

    @property
    def margins(self) -> tuple[tuple[int, ...], ...]:
        """Places of the columns, the intercept aside, that each column is a product of."""
        return tuple(column.margins for column in self.columns)

    def _by_term(self, wanted: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
        places: dict[str, list[int]] = {}
        for place, term in enumerate(self.terms):
            if wanted[place]:
                places.setdefault(term, []).append(place)
        return tuple(tuple(each) for each in places.values())

    @property
    def reported_names(self) -> tuple[str, ...]:
        """Labels of the coefficients: the columns, or ``class: column`` for every class but the first."""
        if self.target.kind != "class" or self.target.labels is None:
            return self.names
        return tuple(f"{label}: {name}" for label in self.target.labels[1:] for name in self.names)

    @property
    def has_intercept(self) -> bool:
        """True if the first column is the intercept."""
        return self.columns[0].name == INTERCEPT

    def reporting_map(self) -> tuple[FloatArray, FloatArray]:
        """Return ``(A, b)`` with ``raw coefficients = A @ encoded coefficients + b``.

        ``A`` has shape (p, p) and ``b`` shape (p,). It undoes the scaling of columns and response; the
        centres of the columns move into the intercept, and what is taken from products and powers into the
        coefficients of lower order.
        """
        matrix = np.diag(1.0 / self._half_widths)
        shift = np.zeros(len(self.columns))
        for place, column in enumerate(self.columns):
            for other, taken in column.lower:
                matrix[other, place] = -taken / column.half_width
        if self.has_intercept:
            matrix[0, 1:] = [-column.center / column.half_width for column in self.columns[1:]]
        if self.target.kind == "numeric":
            matrix *= self.target.half_width
            if self.has_intercept:
                shift[0] = self.target.center
        return matrix, shift

    def raw_rows(self, encoded: FloatArray) -> FloatArray:
        """Return rows in raw units, shape (n, p), from encoded ones."""
        raw = encoded * self._half_widths + [column.center for column in self.columns]
        for place in self._by_order():
            for other, taken in self.columns[place].lower:
                raw[:, place] += taken * raw[:, other]
        return raw

    def encoded_slopes(self, raw: FloatArray) -> FloatArray:
        """Return encoded coefficients, shape (p,), from raw ones; that of the intercept is left at 0."""
        slopes = np.array(raw, dtype=np.float64)
        for place in reversed(self._by_order()):
            for other, taken in self.columns[place].lower:
                slopes[other] += taken * slopes[place]
        if self.has_intercept:
            slopes[0] = 0.0
        slopes *= self._half_widths
        return slopes / self.target.half_width if self.target.kind == "numeric" else slopes

    @property
    def _half_widths(self) -> FloatArray:
        return np.array([column.half_width for column in self.columns])

    def _by_order(self) -> list[int]:
        """Return the places of columns from which others are taken, each after these others."""
        left = [place for place, column in enumerate(self.columns) if column.lower]
        found: list[int] = []
        while left:
            waiting = set(left)
            found += [p for p in left if all(other not in waiting for other, _ in self.columns[p].lower)]
            left = sorted(waiting - set(found))
        return found
