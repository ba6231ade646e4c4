"""Exposures: how long, or how much of something, the events that a row counts were waited for."""

import math
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.data.columns import naming
from privfit.data.declarations import NumericColumn
from privfit.data.declared import declared_numbers, encode_numeric
from privfit.data.tables import Table


@dataclass(frozen=True, slots=True)
class SeenExposures:
    """What a released look shows of exposures.

    Parameters
    ----------
    mean : float
        Their mean, where those beyond ``most`` are moved to it.
    most : float
    variance : float
        Of their logarithms, were these normal.
    bare : tuple of float
        Mean and variance were none moved.
    """

    mean: float
    most: float
    variance: float
    bare: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Exposure:
    """The column of exposures of a count, and its declaration.

    The mean of a count is its exposure times ``exp(x'beta)``, so that the logarithm of the exposure is added
    to the linear predictor, with a coefficient of 1.

    Parameters
    ----------
    name : str
    column : NumericColumn
        Exposures beyond its bounds are moved to the nearest one.
    seen : SeenExposures, optional
        What a look has shown of them.
    """

    name: str
    column: NumericColumn
    seen: SeenExposures | None = None

    @property
    def middle(self) -> float:
        """The middle of the bounds: a public number about as large as exposures are."""
        return self.column.lower / 2.0 + self.column.upper / 2.0

    @property
    def typical(self) -> float:
        """Their mean, if a look has shown it, else the middle of the bounds."""
        return self.middle if self.seen is None else self.seen.mean

    @property
    def most(self) -> float:
        """Exposure that longer ones are moved to, and their counts with them in proportion."""
        return self.column.upper if self.seen is None else min(self.seen.most, self.column.upper)

    @property
    def variance(self) -> float:
        """Variance of their logarithms, as of a log-normal law; 0 where no look has shown it."""
        return 0.0 if self.seen is None else self.seen.variance

    @property
    def bare(self) -> tuple[float, float]:
        """Mean and variance of normal logarithms were none moved, relative to a typical exposure."""
        if self.seen is None:
            return 0.0, 0.0
        mean, variance = self.seen.bare
        return math.log(mean / self.seen.mean) - 0.5 * variance, variance

    @property
    def reach(self) -> float:
        """How much longer, in logarithms, the longest may be than a typical one."""
        return math.log(self.most / self.typical)

    def center(self, *, constant: bool) -> float:
        """Return what is taken from their logarithms, which a constant beside them makes up for."""
        return math.log(self.typical) if constant else 0.0

    def read(self, table: Table) -> FloatArray:
        """Return the logarithms of the exposures of a table, shape (n,); NaN where there is none.

        What is not positive is no exposure, whatever the bounds are.

        Raises
        ------
        SchemaError
            If the column is absent or of a type that holds no numbers.
        """
        with naming(self.name):
            numbers = declared_numbers(table.values(self.name), self.column)
            found = encode_numeric(numbers, self.column)
        return np.log(np.where((found > 0.0) & ~(numbers <= 0.0), found, np.nan))
