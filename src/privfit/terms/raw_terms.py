"""The raw columns of a formula, and how a column that is wanted is made of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import TypeAlias

from privfit.data.design import Cell
from privfit.data.levels import MISSING
from privfit.terms.codings import Coding
from privfit.terms.expressions import Expression
from privfit.terms.monomials import Monomial, Powers

Kind: TypeAlias = tuple[frozenset[str], Powers]
"""The categorical columns and the numbers that a term is a product of."""

Factors: TypeAlias = frozenset[str | Expression]
"""The categorical columns and the numbers of a term, whatever their powers."""

_CONSTANT: Kind = (frozenset(), frozenset())

Levels: TypeAlias = Mapping[str, int]
"""Level codes by column: a product of indicators."""

Combination: TypeAlias = Mapping[int, float]
"""Raw columns of a design, by place, with their coefficients."""


@dataclass(frozen=True, slots=True)
class RawTerm:
    """A term of a formula in raw units: products of indicators, times a product of numbers.

    Parameters
    ----------
    start : int
        Place of its first column in the design.
    codings : tuple of Coding
        The first one varies fastest along the columns.
    expressions : tuple of Expression
        Numeric factors.
    monomial : Monomial
        Their product.
    """

    start: int
    codings: tuple[Coding, ...]
    expressions: tuple[Expression, ...]
    monomial: Monomial

    @property
    def kind(self) -> Kind:
        """What it is a product of, whatever the levels."""
        return frozenset(coding.name for coding in self.codings), self.monomial.powers

    @property
    def levels(self) -> Iterator[Levels]:
        """Levels that each column is for, in the order of the columns."""
        names = [coding.name for coding in self.codings]
        for codes in product(*(coding.coded for coding in reversed(self.codings))):
            yield dict(zip(names, reversed(codes), strict=True))

    @property
    def places(self) -> frozenset[int]:
        """Places of its columns."""
        return frozenset(range(self.start, self.start + math.prod(one.width for one in self.codings)))

    def place(self, levels: Levels) -> int | None:
        """Return the place of the column for these levels, None where there is none."""
        place, stride = self.start, 1
        for coding in self.codings:
            position = int(coding.position[levels[coding.name]])
            if position == MISSING:
                return None
            place += stride * position
            stride *= coding.width
        return place


@dataclass(frozen=True, slots=True)
class RawColumns:
    """The columns of all terms of a formula."""

    terms: Mapping[Kind, Sequence[RawTerm]]
    codings: Mapping[str, Coding]
    kinds: Mapping[Factors, Sequence[Kind]]

    @classmethod
    def of(cls, terms: Sequence[RawTerm]) -> "RawColumns":
        """Return the columns of these terms."""
        found: dict[Kind, list[RawTerm]] = {}
        for term in terms:
            found.setdefault(term.kind, []).append(term)
        kinds: dict[Factors, list[Kind]] = {}
        for kind in found:
            kinds.setdefault(_factors(kind), []).append(kind)
        return cls(found, {coding.name: coding for term in terms for coding in term.codings}, kinds)

    def margins(self, term: RawTerm) -> Iterator[tuple[int, ...]]:
        """Return the places of the columns that each of a term is a product of, with something else."""
        lower = list(self._parts(term.kind))
        constant = {one.start for one in self.terms.get(_CONSTANT, ())}
        for levels in term.levels:
            found: set[int] = set()
            for names, powers in lower:
                part = self.combination({name: levels[name] for name in sorted(names)}, powers)
                found.update(part or ())
            yield tuple(sorted(found - constant))

    def cells(self, term: RawTerm) -> Iterator[Cell]:
        """Return the combinations of levels of a product of factors that have no column in it.

        Left out are those that the formula has no means to tell from others.
        """
        names = [coding.name for coding in term.codings]
        for codes in product(*(coding.codes for coding in term.codings)):
            levels = dict(zip(names, codes, strict=True))
            if term.place(levels) is None:
                made_of = self.combination(levels, term.monomial.powers) or {}
                own = term.places.intersection(made_of)
                if own:
                    yield Cell(tuple(sorted(made_of.items())), tuple(sorted(own)))

    def _parts(self, whole: Kind) -> Iterator[Kind]:
        """Return the kinds of the terms that are part of a product, but for itself and the constant."""
        factors = _factors(whole)
        some = self.kinds if 2 ** len(factors) > len(self.kinds) else _subsets(factors)
        for one in chain.from_iterable(self.kinds.get(part, ()) for part in some):
            if one not in (whole, _CONSTANT) and _divides(one, whole):
                yield one

    def combination(self, levels: Levels, powers: Powers) -> Combination | None:
        """Return the product of indicators and powers as a combination of columns, None if it is none.

        The indicator of a reference level is what those of the others leave of 1.
        """
        for term in self.terms.get((frozenset(levels), powers), ()):
            place = term.place(levels)
            if place is not None:
                return {place: 1.0 / term.monomial.scale}
        for name, code in levels.items():
            coding = self.codings[name]
            if code == coding.base:
                found = self._without_the_others(levels, powers, coding)
                if found is not None:
                    return found
        return None

    def _without_the_others(self, levels: Levels, powers: Powers, coding: Coding) -> Combination | None:
        rest = {name: code for name, code in levels.items() if name != coding.name}
        total = self.combination(rest, powers)
        if total is None:
            return None
        found = dict(total)
        for code in coding.codes:
            if code != coding.base:
                part = self.combination({**levels, coding.name: code}, powers)
                if part is None:
                    return None
                for place, coefficient in part.items():
                    found[place] = found.get(place, 0.0) - coefficient
        return found


def _factors(kind: Kind) -> Factors:
    names, powers = kind
    return names | {base for base, _ in powers}


def _subsets(factors: Factors) -> Iterator[Factors]:
    return (frozenset(some) for size in range(len(factors) + 1) for some in combinations(factors, size))


def _divides(lower: Kind, whole: Kind) -> bool:
    """Return whether a term is part of a product."""
    exponents = dict(whole[1])
    return lower[0] <= whole[0] and all(exponents.get(base, 0) >= exponent for base, exponent in lower[1])
