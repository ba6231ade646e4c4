"""Standard errors of functions of the coefficients, and p-values of many tests.

All of it is post-processing of a released estimate and covariance.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from privfit._checks import FloatArray, one_of, optional
from privfit.solvers.base import quadratic_forms

Adjustment: TypeAlias = Literal["bonferroni", "holm", "fdr_bh"]
"""How p-values of many tests are adjusted; the names are those of statsmodels' ``multipletests``."""


def combination_errors(
    weights: FloatArray, covariance: FloatArray, dof: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return standard errors and degrees of freedom of ``weights @ estimate``.

    Parameters
    ----------
    weights : array of shape (k, q)
        The combinations, or derivatives of functions of the coefficients (the delta method).
    covariance : array of shape (q, q)
        An infinite variance marks a coefficient of which nothing is known.
    dof : array of shape (q,) or number

    Returns
    -------
    se : array of shape (k,)
        ``inf`` where a combination touches a coefficient with infinite variance, NaN where the noise left a
        negative variance.
    dof : array of shape (k,)
        The smallest of the coefficients that a combination touches, which errs towards wide intervals: a
        combination's variance is known no worse than about the least known of its parts.
    """
    touched = weights != 0.0
    variances = np.diagonal(covariance)
    unknown = ~np.isfinite(variances)
    known = np.where(unknown[:, None] | unknown[None, :], 0.0, covariance)
    squares = quadratic_forms(weights, known)
    se = np.sqrt(np.where(squares >= 0.0, squares, np.nan))
    se = np.where((touched & unknown).any(axis=1), np.inf, se)
    each = np.broadcast_to(np.asarray(dof, dtype=np.float64), variances.shape)
    return se, np.where(touched, each, np.inf).min(axis=1)


def check_adjustment(method: object) -> None:
    """Raise `InvalidArgument` unless this is the name of an adjustment, or None."""
    optional(one_of, get_args(Adjustment), adjust=method)


def adjusted_pvalues(pvalues: ArrayLike, method: Adjustment) -> FloatArray:
    """Return p-values of k tests, adjusted for their number.

    Parameters
    ----------
    pvalues : array of shape (k,)
    method : {"bonferroni", "holm", "fdr_bh"}
        The first two keep the chance of any false finding below the level (Holm 1979 is never worse); the
        last keeps the expected share of false ones among the findings below it (Benjamini and Hochberg 1995),
        for tests that are independent or positively dependent.

    Returns
    -------
    array of shape (k,)
    """
    check_adjustment(method)
    p = np.asarray(pvalues, dtype=np.float64)
    count = p.size
    if method == "fdr_bh":
        return np.asarray(stats.false_discovery_control(p, method="bh"), dtype=np.float64)
    if method == "bonferroni":
        return np.minimum(count * p, 1.0)
    order = np.argsort(p)
    stepped = np.maximum.accumulate((count - np.arange(count)) * p[order])
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
