"""The sandwich and the degrees of freedom that the noise of bread and meat leaves its variances."""

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.solvers.drawn import Drawn

ROUNDING = 2.0**-48
"""Rounding of a mean gradient, and of a parameter."""


def sandwich(bread: Bread, meat: Drawn, n_rows: int) -> FloatArray:
    """Return ``M^-1 Q M^-1 / n``, the sampling covariance of the M-estimator (Huber 1967).

    Where all rows fit exactly, ``Q`` is 0 and the estimate is known up to rounding.
    """
    rounding = ROUNDING**2 * np.eye(len(bread.inverse))
    return bread.inverse @ (meat.matrix / n_rows + rounding) @ bread.inverse + rounding


def satterthwaite(
    directions: FloatArray, *, bread: Bread, meat: Drawn, sampling: FloatArray, total: FloatArray, n_rows: int
) -> FloatArray:
    """Return the degrees of freedom of the variance of ``directions @ theta``.

    A variance ``v`` that is itself estimated with variance ``var(v)`` is treated as a scaled chi-square
    with ``2 v**2 / var(v)`` degrees of freedom (Satterthwaite 1946), here with the known variance that
    the noise of bread and meat gives it. The part of ``v`` that is privacy noise needs no such correction:
    given the released bread it is exact.

    Parameters
    ----------
    directions : array of shape (k, q)
        Rows are the linear combinations.
    bread, meat : Bread, Drawn
    sampling : array of shape (q, q)
        The sandwich.
    total : array of shape (k,)
        Variance of each combination, privacy noise included.
    n_rows : int

    Returns
    -------
    array of shape (k,)
        ``inf`` without noise.

    Notes
    -----
    For symmetric noise ``E`` with diagonal sd ``s`` and off-diagonal ``s / sqrt(2)``,
    ``var(u'E v) = s**2 / 2 (|u|**2 |v|**2 + (u'v)**2)``.
    """
    u = directions @ bread.inverse
    v = directions @ sampling
    squared_u, squared_v, cross = (u * u).sum(1), (v * v).sum(1), (u * v).sum(1)
    of_meat = meat.variance(u) / n_rows**2
    of_bread = 4.0 * 0.5 * bread.sd**2 * (squared_u * squared_v + cross**2)
    variance = of_meat + of_bread
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, 2.0 * total**2 / variance, np.inf)
