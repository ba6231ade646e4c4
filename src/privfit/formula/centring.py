"""Which factors of a numeric term are centred, and which columns of lower order that takes from it.

``(a - a0) (b - b0)`` is ``a b`` less ``a0 b``, ``b0 a`` and a constant. Where these are columns of the
formula, the encoded columns span what the raw ones do, and a public matrix leads from the coefficients of the
ones to those of the others.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from privfit.data.declarations import Column
from privfit.errors import FormulaError
from privfit.formula.expressions import Apply, Expression
from privfit.formula.functions import integer_power
from privfit.formula.monomials import Powers
from privfit.formula.products import CenteredFactor, ScaledProduct
from privfit.formula.ranges import enclosure, product_range
from privfit.formula.terms import Combination, RawColumns, RawTerm

_HIGHEST_DEGREE = 10
"""Of a polynomial; beyond it the coefficients of powers are so large that they cancel."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a numeric term is encoded: ``encoded = (raw - combination of raw columns) / half_width``.

    Parameters
    ----------
    product : ScaledProduct
        The encoded number of a row.
    half_width : float
    lower : tuple of mapping of int to float
        For each column of the term: places of raw columns, with their coefficients in the combination.
    """

    product: ScaledProduct
    half_width: float
    lower: tuple[Combination, ...]


def encoding(
    term: RawTerm, raw: RawColumns, columns: Mapping[str, Column], *, centered: bool, label: str
) -> Encoding:
    """Return the encoding of a term with numeric factors.

    Parameters
    ----------
    term : RawTerm
    raw : RawColumns
        All columns of the formula.
    columns : mapping of str to Column
        Declarations.
    centered : bool
        Whether to centre at all: factors where all that it takes is in the formula, or else the product as a
        whole, or else nothing.
    label : str
        What error messages call the product.

    Raises
    ------
    FormulaError
        If the product is not finite on all of the bounds, or does not vary.
    """
    low, high = product_range(term.expressions, columns, label=label)
    if centered:
        found = _by_factors(term, raw, columns)
        if found is not None:
            return found
        middle = low / 2 + high / 2
        lower = _combinations(term, raw, {frozenset(): middle} if middle else {})
        if lower is not None:
            half_width = high / 2 - low / 2
            return Encoding(ScaledProduct((), term.expressions, middle, half_width), half_width, lower)
    half_width = max(abs(low), abs(high))
    nothing: tuple[Combination, ...] = tuple({} for _ in term.levels)
    return Encoding(ScaledProduct((), term.expressions, 0.0, half_width), half_width, nothing)


@dataclass(frozen=True, slots=True)
class _Choice:
    """A centred factor in place of a power: of ``base ** step`` a polynomial."""

    base: Expression
    step: int
    factor: CenteredFactor


def _by_factors(term: RawTerm, raw: RawColumns, columns: Mapping[str, Column]) -> Encoding | None:
    """Centre one factor after the other where that takes nothing but columns of the formula."""
    chosen: list[_Choice] = []
    lower: tuple[Combination, ...] = ()
    for base, exponent in term.monomial.factors:
        for choice in _choices(base, exponent, columns):
            found = _combinations(term, raw, _taken(term, [*chosen, choice]))
            if found is not None:
                chosen, lower = [*chosen, choice], found
                break
    if not chosen:
        return None
    bases = {choice.base for choice in chosen}
    others = tuple(_power(base, exponent) for base, exponent in term.monomial.factors if base not in bases)
    size = _largest(others, columns)
    half_width = abs(term.monomial.scale) * size * math.prod(choice.factor.size for choice in chosen)
    coefficients = (value for combination in lower for value in combination.values())
    if not (_usable(size) and _usable(half_width) and all(map(math.isfinite, coefficients))):
        return None
    factors = tuple(choice.factor for choice in chosen)
    signed = math.copysign(size, term.monomial.scale)
    return Encoding(ScaledProduct(factors, others, 0.0, signed), half_width, lower)


def _choices(base: Expression, exponent: int, columns: Mapping[str, Column]) -> Iterator[_Choice]:
    """Yield what may stand for a power, the best first: a polynomial that takes lower powers, the power."""
    steps = (1, exponent) if 1 < exponent <= _HIGHEST_DEGREE else (exponent,)
    for step in steps:
        expression = _power(base, step)
        try:
            low, high = product_range((expression,), columns, label="")
        except FormulaError:  # a factor that is constant, or finite in the product only
            continue
        center, half_width = low / 2 + high / 2, high / 2 - low / 2
        yield _Choice(base, step, CenteredFactor(expression, center, half_width, exponent // step))


def _taken(term: RawTerm, choices: Sequence[_Choice]) -> dict[Powers, float]:
    """Return what is taken from the raw product: powers, times indicators, with their coefficients."""
    bases = {choice.base for choice in choices}
    others = frozenset(one for one in term.monomial.factors if one[0] not in bases)
    expanded: dict[Powers, float] = {others: 1.0}
    for choice in choices:
        grown: dict[Powers, float] = {}
        for degree, coefficient in enumerate(choice.factor.coefficients.tolist()):
            power = frozenset({(choice.base, degree * choice.step)} if degree else ())
            grown |= {powers | power: value * coefficient for powers, value in expanded.items()}
        expanded = grown
    leading = term.monomial.powers
    return {
        powers: -term.monomial.scale * value
        for powers, value in expanded.items()
        if value and powers != leading
    }


def _combinations(
    term: RawTerm, raw: RawColumns, taken: Mapping[Powers, float]
) -> tuple[Combination, ...] | None:
    """Return what is taken from each column of a term, None where that is not in the formula."""
    found: list[Combination] = []
    for levels in term.levels:
        total: dict[int, float] = {}
        for powers, factor in taken.items():
            part = raw.combination(levels, powers)
            if part is None:
                return None
            for place, coefficient in part.items():
                total[place] = total.get(place, 0.0) + factor * coefficient
        found.append(total)
    return tuple(found)


def _power(base: Expression, exponent: int) -> Expression:
    return base if exponent == 1 else Apply(integer_power(exponent), (base,), f"** {exponent}")


def _largest(expressions: Sequence[Expression], columns: Mapping[str, Column]) -> float:
    """Return the largest size that a product can have: 1 if it is empty, ``inf`` if it is not finite."""
    try:
        return max(map(abs, enclosure(expressions, columns))) if expressions else 1.0
    except FormulaError:
        return math.inf


def _usable(size: float) -> bool:
    return math.isfinite(size) and size >= np.finfo(float).tiny
