"""Exposures: how long, or how much of something, the events that a row counts were waited for."""

import math
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.data.columns import encode_numeric, naming
from privfit.data.declarations import NumericColumn
from privfit.data.tables import Table


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
    """

    name: str
    column: NumericColumn

    @property
    def middle(self) -> float:
        """The middle of the bounds: a public number about as large as exposures are."""
        return self.column.lower / 2.0 + self.column.upper / 2.0

    def center(self, *, intercept: bool) -> float:
        """Return what is taken from their logarithms, which a constant beside them makes up for."""
        return math.log(self.middle) if intercept else 0.0

    def read(self, table: Table) -> FloatArray:
        """Return the logarithms of the exposures of a table, shape (n,); NaN where one is missing or 0.

        Raises
        ------
        SchemaError
            If the column is absent or of a type that holds no numbers.
        """
        with naming(self.name):
            found = encode_numeric(table.values(self.name), self.column)
        return np.log(np.where(found > 0.0, found, np.nan))
