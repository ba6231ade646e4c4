"""How a categorical factor becomes indicators."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfit.data.levels import MISSING
from privfit.terms.factors import CategoricalFactor


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
    base : int
        Code of the reference level.
    """

    name: str
    position: NDArray[np.intp]
    width: int
    base: int

    @classmethod
    def make(cls, factor: CategoricalFactor, levels: int, *, reduced: bool) -> "Coding":
        """Return the treatment coding of a factor."""
        position = np.arange(levels + 1)
        if reduced:
            position[factor.base + 1 :] -= 1
            position[factor.base] = MISSING
        position[levels] = MISSING
        return cls(factor.name, position, levels - reduced, factor.base)

    @property
    def codes(self) -> range:
        """All level codes."""
        return range(len(self.position) - 1)

    @property
    def coded(self) -> tuple[int, ...]:
        """The level codes that have an indicator, in the order of the indicators."""
        return tuple(code for code in self.codes if self.position[code] != MISSING)
