"""Products of numeric factors as whole powers of expressions, so that margins of a product are found."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from privfit.terms.expressions import Apply, Expression, Number
from privfit.terms.functions import DIVIDE, MULTIPLY, NEGATIVE

Powers: TypeAlias = frozenset[tuple[Expression, int]]
"""Expressions with their exponents, which are at least 1."""

_HIGHEST = 2**53
"""Exponent that powers of powers are multiplied to."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """A number times whole powers of expressions: ``I(age**2 / 100):edu`` is 0.01 times age**2 times edu.

    Parameters
    ----------
    scale : float
        Finite and not 0.
    factors : tuple of (Expression, int)
        Distinct expressions with exponents of at least 1, as they come in the term.
    """

    scale: float
    factors: tuple[tuple[Expression, int], ...]

    @classmethod
    def of(cls, expressions: Sequence[Expression]) -> "Monomial":
        """Return the product of expressions."""
        exponents: dict[Expression, int] = {}
        with np.errstate(all="ignore"):
            scale = float(math.prod(_gather(one, 1, exponents) for one in expressions))
        if usable(abs(scale)):
            return cls(scale, tuple(exponents.items()))
        return cls(1.0, tuple((one, 1) for one in expressions))

    @property
    def powers(self) -> Powers:
        """The factors in no order."""
        return frozenset(self.factors)


def usable(size: float) -> bool:
    """Return whether a positive number is finite and has all its bits, so that it can divide others."""
    return math.isfinite(size) and size >= np.finfo(float).tiny


def _gather(expression: Expression, exponent: int, exponents: dict[Expression, int]) -> np.float64:
    """Multiply the factors by a power of an expression, and return the number that it holds."""
    match expression:
        case Number(value):
            return np.float64(value) ** exponent
        case Apply(function, (base,)) if 0 < exponent * (function.exponent or 0) <= _HIGHEST:
            return _gather(base, exponent * (function.exponent or 0), exponents)
        case Apply(function, (base,)) if function is NEGATIVE:
            return np.float64(-1.0) ** exponent * _gather(base, exponent, exponents)
        case Apply(function, (left, right)) if function is MULTIPLY:
            return _gather(left, exponent, exponents) * _gather(right, exponent, exponents)
        case Apply(function, (left, Number(value))) if function is DIVIDE:
            return _gather(left, exponent, exponents) / np.float64(value) ** exponent
        case _:
            exponents[expression] = exponents.get(expression, 0) + exponent
            return np.float64(1.0)
