"""Which factors of a numeric term are centred, and which columns of lower order that takes from it.

``(a - a0) (b - b0)`` is ``a b`` less ``a0 b``, ``b0 a`` and a constant. Where these are columns of the
formula, the encoded columns span what the raw ones do, and a public matrix leads from the coefficients of the
ones to those of the others.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from privfit.data.declarations import Column
from privfit.errors import FormulaError
from privfit.terms.expressions import Apply, Expression
from privfit.terms.functions import integer_power
from privfit.terms.monomials import Powers, usable
from privfit.terms.products import CenteredFactor, ScaledProduct
from privfit.terms.ranges import enclosure, product_range
from privfit.terms.raw_terms import Combination, RawColumns, RawTerm

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


@dataclass(frozen=True, slots=True)
class _Choice:
    """A centred factor in place of a power, a polynomial of ``base ** step``.

    Parameters
    ----------
    base : Expression
    step : int
    factor : CenteredFactor
    coefficients : tuple of float
        Of the powers of ``base ** step``.
    """

    base: Expression
    step: int
    factor: CenteredFactor
    coefficients: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Centring:
    """The numeric terms of a formula, centred where that takes nothing but columns of the formula.

    Parameters
    ----------
    raw : RawColumns
        All columns of the formula.
    columns : mapping of str to Column
        Declarations.
    centered : bool
        Whether to centre at all: factors where possible, or else the product as a whole, or else nothing.
    """

    raw: RawColumns
    columns: Mapping[str, Column]
    centered: bool
    _choices: dict[tuple[Expression, int], tuple[_Choice, ...]] = field(init=False, default_factory=dict)

    def encoding(self, term: RawTerm, *, label: str) -> Encoding:
        """Return how a term is encoded; error messages call its product ``label``.

        Raises
        ------
        FormulaError
            If the product is not finite on all of the bounds, or does not vary.
        """
        low, high = product_range(term.expressions, self.columns, label=label)
        if self.centered:
            found = self._by_factors(term)
            if found is not None:
                return found
            middle = low / 2 + high / 2
            lower = _combinations(term, self.raw, {frozenset(): middle} if middle else {})
            if lower is not None:
                half_width = high / 2 - low / 2
                return Encoding(ScaledProduct((), term.expressions, middle, half_width), half_width, lower)
        half_width = max(abs(low), abs(high))
        nothing: tuple[Combination, ...] = tuple({} for _ in term.levels)
        return Encoding(ScaledProduct((), term.expressions, 0.0, half_width), half_width, nothing)

    def _by_factors(self, term: RawTerm) -> Encoding | None:
        """Centre one factor after the other, as far as that is possible."""
        chosen: list[_Choice] = []
        lower: tuple[Combination, ...] = ()
        for base, exponent in term.monomial.factors:
            for choice in self._choices_for(base, exponent):
                found = _combinations(term, self.raw, _taken(term, [*chosen, choice]))
                if found is not None:
                    chosen, lower = [*chosen, choice], found
                    break
        if not chosen:
            return None
        bases = {choice.base for choice in chosen}
        others = tuple(_power(*one) for one in term.monomial.factors if one[0] not in bases)
        size = self._largest(others)
        half_width = abs(term.monomial.scale) * size * math.prod(choice.factor.size for choice in chosen)
        if not (usable(size) and usable(half_width)):
            return None
        if not all(math.isfinite(value / half_width) for one in lower for value in one.values()):
            return None
        factors = tuple(choice.factor for choice in chosen)
        signed = math.copysign(size, term.monomial.scale)
        return Encoding(ScaledProduct(factors, others, 0.0, signed), half_width, lower)

    def _choices_for(self, base: Expression, exponent: int) -> tuple[_Choice, ...]:
        """Return what may stand for a power, the best first: a polynomial that takes lower powers, itself."""
        if (base, exponent) not in self._choices:
            steps = (1, exponent) if 1 < exponent <= _HIGHEST_DEGREE else (exponent,)
            found = (self._choice(base, step, exponent // step) for step in steps)
            self._choices[base, exponent] = tuple(one for one in found if one is not None)
        return self._choices[base, exponent]

    def _choice(self, base: Expression, step: int, degree: int) -> _Choice | None:
        expression = _power(base, step)
        try:
            low, high = product_range((expression,), self.columns, label="")
        except FormulaError:  # a factor that is constant, or finite in the product only
            return None
        factor = CenteredFactor(expression, low / 2 + high / 2, high / 2 - low / 2, degree)
        return _Choice(base, step, factor, tuple(factor.coefficients.tolist()))

    def _largest(self, expressions: Sequence[Expression]) -> float:
        """Return the largest size that a product can have: 1 if it is empty, ``inf`` if it is not finite."""
        try:
            return max(map(abs, enclosure(expressions, self.columns))) if expressions else 1.0
        except FormulaError:
            return math.inf


def _taken(term: RawTerm, choices: Sequence[_Choice]) -> dict[Powers, float]:
    """Return what is taken from the raw product: powers, times indicators, with their coefficients."""
    bases = {choice.base for choice in choices}
    others = frozenset(one for one in term.monomial.factors if one[0] not in bases)
    expanded: dict[Powers, float] = {others: term.monomial.scale}
    for choice in choices:
        grown: dict[Powers, float] = {}
        for degree, coefficient in enumerate(choice.coefficients):
            power = frozenset({(choice.base, degree * choice.step)} if degree else ())
            grown |= {powers | power: value * coefficient for powers, value in expanded.items()}
        expanded = grown
    leading = term.monomial.powers
    return {powers: -value for powers, value in expanded.items() if value and powers != leading}


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
