"""Rows weighted down by how steep their loss can be, and the caps that hold slopes to it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import numpy as np

from privfit._checks import FloatArray
from privfit.data import norm_loops
from privfit.data.clamp import SHRINK, SMALLEST_NORMAL
from privfit.data.coded import Matrix

Steepness: TypeAlias = Callable[[Matrix, FloatArray | None], FloatArray]
"""``steepness(x, offset)`` returns how steep the loss of rows can be, (n,), from their predictors alone."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class SlopeBounds:
    """A bound on ``weight * abs(slope) * norm(basis.T @ x)``, tighter than those of weight and slope.

    Parameters
    ----------
    bound : float
    most : float
        Bound on the slope of every row.
    steepness : callable
        Of rows. Where it is the largest slope that a row's response can make, weights depend on predictors
        alone, and no slope is cut.

    Notes
    -----
    *Guarantee.* `fill` lowers weights, and with the caps that it returns ``weight * cap * norm(basis.T @ x)
    <= bound`` holds in exact arithmetic, however steep rows are said to be.

    References
    ----------
    Künsch, Stefanski and Carroll 1989, *Conditionally unbiased bounded-influence estimation in general
    regression models*, for weights of this kind.
    """

    bound: float
    most: float
    steepness: Steepness

    def fill(self, steep: FloatArray, size: FloatArray, weight: FloatArray, cap: FloatArray) -> None:
        """Lower weights to ``bound / (size * steep)``, fill ``cap`` with ``bound / (weight * size)``.

        Parameters
        ----------
        steep : array of shape (n,)
            What ``steepness`` says of the rows.
        size : array of shape (n,)
            Bounds on ``norm(basis.T @ x)``.
        weight, cap : array of shape (n,)
            Caps are ``most`` at most.
        """
        limits = np.array([self.bound * SHRINK, self.most, SMALLEST_NORMAL])
        norm_loops.fill_caps(size, np.ascontiguousarray(steep, dtype=np.float64), limits, weight, cap)
