"""The number of a row in a numeric term: a product of factors, each within [-1, 1]."""

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev, polynomial

from privfit._checks import FloatArray
from privfit.data.response import scaled
from privfit.terms.expressions import Cells, Expression, evaluate


@dataclass(frozen=True, slots=True)
class CenteredFactor:
    """A Chebyshev polynomial of the first kind of an expression that is scaled to [-1, 1].

    Parameters
    ----------
    expression : Expression
    center, half_width : float
        Of its public range.
    degree : int
        At least 1; of the first degree is the scaled expression itself.

    Notes
    -----
    On [-1, 1] such polynomials are between -1 and 1, whatever their degree (Chebyshev 1854). Unlike powers of
    the centred expression those of different degree are far from collinear.
    """

    expression: Expression
    center: float
    half_width: float
    degree: int

    def values(self, cells: Cells) -> FloatArray:
        """Return the value of each row, within [-1, 1]; NaN where the expression is not finite."""
        numbers: FloatArray = np.array(evaluate(self.expression, cells), dtype=np.float64)
        numbers[~np.isfinite(numbers)] = np.nan
        scaled(numbers, self.center, self.half_width)
        if self.degree == 1:
            return numbers
        return np.clip(np.asarray(chebyshev.chebval(numbers, self._series), dtype=np.float64), -1.0, 1.0)

    @property
    def size(self) -> float:
        """What its values are multiplied by for a leading coefficient of 1."""
        return self.half_width * (self.half_width / 2.0) ** (self.degree - 1)

    @property
    def coefficients(self) -> FloatArray:
        """Of the powers 0 to ``degree`` of the expression, in ``size`` times the polynomial."""
        powers = np.arange(self.degree, -1, -1)
        centered = chebyshev.cheb2poly(self._series) / 2.0 ** (self.degree - 1) * self.half_width**powers
        found = np.zeros(1)
        for coefficient in centered[::-1]:  # Horner's scheme in the powers of the expression less its centre
            found = polynomial.polyadd(polynomial.polymul(found, [-self.center, 1.0]), [coefficient])
        return np.asarray(found, dtype=np.float64)

    @property
    def _series(self) -> list[float]:
        return [0.0] * self.degree + [1.0]


@dataclass(frozen=True, slots=True)
class ScaledProduct:
    """Centred factors times the other factors, the product of which is scaled as a whole.

    Parameters
    ----------
    centered : tuple of CenteredFactor
    others : tuple of Expression
    center, half_width : float
        Of the product of the others, which this scales to [-1, 1]; a negative half-width turns the sign.
    """

    centered: tuple[CenteredFactor, ...]
    others: tuple[Expression, ...]
    center: float
    half_width: float

    def values(self, cells: Cells, n_rows: int, known: dict[CenteredFactor, FloatArray]) -> FloatArray:
        """Return the number of each row, within [-1, 1]; NaN where a factor is not finite.

        ``known`` keeps the values of centred factors, which other products of the same rows share.
        """
        values = np.ones(n_rows)
        with np.errstate(all="ignore"):
            for expression in self.others:
                values *= evaluate(expression, cells)
            values[~np.isfinite(values)] = np.nan
            scaled(values, self.center, self.half_width)
            for factor in self.centered:
                if factor not in known:
                    known[factor] = factor.values(cells)
                values *= known[factor]
        return values
