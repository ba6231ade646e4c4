"""The sandwich and the degrees of freedom that the noise of bread and meat leaves its variances."""

from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.solvers.base import Step, precision_weights, quadratic_forms
from privfit.solvers.drawn import Drawn

ROUNDING = 2.0**-48
"""Rounding of a mean gradient, and of a parameter."""

_TAILS = 5.0
"""Degrees of freedom, per dimension and one, of the t that stands for the tails of radial noise alone."""


def residual_rows(n_rows: int, n_coef: int) -> float:
    """Return the rows less the coefficients of a linear predictor, and no less than half the rows.

    Residuals are about an estimate that was drawn to their rows: their squares are on average too small by
    the mean leverage, ``n_coef / n_rows`` (Hinkley 1977; HC1 of MacKinnon and White 1985).
    """
    return max(float(n_rows - n_coef), 0.5 * n_rows)


def sandwich(bread: Bread, meat: Drawn, rows: float) -> FloatArray:
    """Return ``M^-1 Q M^-1 / rows``, the sampling covariance of the M-estimator (Huber 1967).

    Where all rows fit exactly, ``Q`` is 0 and the estimate is known up to rounding.
    """
    each = ROUNDING**2 * np.eye(len(bread.inverse))
    return bread.inverse @ (meat.matrix / rows + each * np.square(bread.sizes)) @ bread.inverse + each


def with_variance(covariance: FloatArray, more: FloatArray) -> FloatArray:
    """Return a covariance with ``more`` added to the variances, (k,), and the same correlations.

    So what coefficients have in common, as levels have their reference, goes on cancelling in contrasts.
    """
    variance = np.diag(covariance)
    factor = np.sqrt(1.0 + np.divide(more, variance, out=np.zeros_like(more), where=variance > 0.0))
    return covariance * np.outer(factor, factor)


def satterthwaite(
    directions: FloatArray,
    *,
    bread: Bread,
    meat: Drawn,
    of_meat: FloatArray,
    sampling: FloatArray,
    total: FloatArray,
    rows: float,
) -> FloatArray:
    """Return the degrees of freedom of the variance of ``directions @ theta``.

    A variance ``v`` that is itself estimated with variance ``var(v)`` is treated as a scaled chi-square
    with ``2 v**2 / var(v)`` degrees of freedom (Satterthwaite 1946), here with the known variance that
    the noise of bread and meat gives it. The part of ``v`` that is privacy noise needs no such correction:
    given the released bread it is exact.

    ``v`` is to be what the variance is expected to be. Where noise alone makes the released one small, few
    degrees of freedom would make intervals long for no reason. So it is taken to be no smaller than with the
    multiple of the bread that the meat is drawn towards, which all entries and the model tell.

    Parameters
    ----------
    directions : array of shape (k, q)
        Rows are the linear combinations.
    bread, meat : Bread, Drawn
    of_meat : array of shape (..., k)
        Variance of ``u'Qu``, u being a combination times the inverse of the bread; one way or several.
    sampling : array of shape (q, q)
        The sandwich.
    total : array of shape (k,)
        Variance of each combination, privacy noise included.
    rows : float
        By which the meat was divided.

    Returns
    -------
    array of shape (..., k)
        ``inf`` without noise.

    Notes
    -----
    For symmetric noise ``E`` with diagonal sd ``s`` and off-diagonal ``s / sqrt(2)``,
    ``var(u'E v) = s**2 / 2 (|u|**2 |v|**2 + (u'v)**2)``.
    """
    u = directions @ bread.inverse
    v = directions @ sampling
    squared_u, squared_v, cross = (u * u).sum(1), (v * v).sum(1), (u * v).sum(1)
    of_bread = 4.0 * 0.5 * bread.sd**2 * (squared_u * squared_v + cross**2)
    variance = of_meat / rows**2 + of_bread
    short = quadratic_forms(u, meat.center - meat.matrix) / rows
    expected = total + np.maximum(short, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, 2.0 * expected**2 / variance, np.inf)


def with_tails(dof: FloatArray, steps: Sequence[Step], part: FloatArray) -> FloatArray:
    """Return fewer degrees of freedom where the noise of the gradients is not normal but radial.

    Parameters
    ----------
    dof : array of shape (..., k)
        Of standard errors under normal noise.
    steps : sequence of Step
        Those that the estimate rests on.
    part : array of shape (k,)
        Part of each variance that is the noise of their gradients.

    Notes
    -----
    Noise of density ``exp(-norm(z) / b)`` in q dimensions, as pure budgets have it, has the excess kurtosis
    ``6 / (q + 1)`` in any direction. Precision-weighted steps with weights ``w_k``, ``part`` of the variance,
    leave ``6 part**2 sum(w_k**2) / (q + 1)``. Student's t with ``5 (q + 1) / (part**2 sum(w_k**2))`` degrees
    of freedom has about the quantiles of the sum of that and a normal variable: at 95 % they are up to 6 %
    too large, at 99 % up to 6 % too small. Degrees of freedom add as their inverses do.
    """
    if not any(step.release.planned.epsilon is not None for step in steps):
        return dof
    weights = precision_weights([step.release.sd for step in steps])
    kurtosis = part**2 * float(np.sum(weights**2)) / (_TAILS * (steps[0].gradient.size + 1.0))
    with np.errstate(divide="ignore"):
        return 1.0 / (1.0 / dof + kurtosis)
