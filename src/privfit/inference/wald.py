"""Wald tests and intervals from an estimate, its covariance and its degrees of freedom.

Conventions: ``dof`` is the number of degrees of freedom of a standard error's t reference; ``inf`` means
normal. A standard error that is infinite, or NaN as that of a negative variance is, supports no conclusion:
p = 1 and the interval is the whole line. Everything here is post-processing of released numbers.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, stats

from privfit._checks import FloatArray, in_range
from privfit.errors import InvalidArgument


@final
@dataclass(frozen=True, slots=True)
class JointTest:
    """The outcome of a Wald test of linear hypotheses ``R b = r``.

    Parameters
    ----------
    statistic : float
        Chi-squared statistic if ``df_denom`` is inf, else the F statistic; see `wald_test`.
        NaN if the covariance is not finite and positive definite; the p-value is then 1, as it is where
        ``df_denom`` is not positive.
    df : int
        Number of hypotheses tested jointly.
    df_denom : float
        Denominator degrees of freedom of the F reference; inf: chi-squared reference.
    """

    statistic: float
    df: int
    df_denom: float

    @property
    def testable(self) -> bool:
        """False if there is no statistic, or no reference for it."""
        return not math.isnan(self.statistic) and self.df_denom > 0

    @property
    def distribution(self) -> str:
        """Reference distribution, e.g. ``"chi2(2)"`` or ``"F(2, 31.5)"``."""
        return f"chi2({self.df})" if math.isinf(self.df_denom) else f"F({self.df}, {self.df_denom:.4g})"

    @property
    def pvalue(self) -> float:
        """Probability of a statistic at least as large under the null; 1 where nothing can be tested."""
        if not self.testable:
            return 1.0
        if math.isinf(self.df_denom):
            return float(stats.chi2.sf(self.statistic, self.df))
        value = float(stats.f.sf(self.statistic, self.df, self.df_denom))
        return 1.0 if math.isnan(value) else value  # vanishing degrees of freedom


def wald_test(
    estimate: FloatArray,
    covariance: FloatArray,
    R: ArrayLike,
    r: ArrayLike | None = None,
    dof: ArrayLike = np.inf,
) -> JointTest:
    """Test the linear hypotheses ``R b = r`` jointly.

    .. math:: W = (R b - r)^T (R V R^T)^{-1} (R b - r)

    is compared with chi-squared(k), or ``W (d - k + 1) / (k d)`` with F(k, d - k + 1), where d is the
    smallest of the degrees of freedom of the coefficients that R touches, which errs towards large p-values.
    Where ``d <= k - 1`` nothing can be tested.

    Parameters
    ----------
    estimate : array of shape (q,)
    covariance : array of shape (q, q)
    R : array of shape (k, q) or (q,)
        Finite, with linearly independent rows.
    r : array of shape (k,), number or None
        None: zeros.
    dof : array of shape (q,) or number

    Returns
    -------
    JointTest

    Notes
    -----
    Noise in a covariance makes its inverse too large, the more so the more dimensions it has: for noise of
    the shape of a Wishart matrix's with d degrees of freedom ``W (d - k + 1) / (k d)`` has that law exactly
    (Hotelling 1931, *The generalization of Student's ratio*).
    """
    R = _independent(hypothesis_matrix(R, len(estimate)))
    k = len(R)
    r = hypothesis_values(r, k)
    # Only the touched coefficients enter, so that an infinite variance elsewhere does no harm (0 * inf).
    touched = np.any(R != 0, axis=0)
    R = R[:, touched]
    df_denom = float(np.min(np.broadcast_to(np.asarray(dof, dtype=float), (len(estimate),))[touched]))
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows ends as "cannot be tested"
        gap = R @ estimate[touched] - r
        chi2 = _quadratic_form(gap, R @ covariance[np.ix_(touched, touched)] @ R.T)
    if math.isinf(df_denom):
        return JointTest(chi2, df=k, df_denom=df_denom)
    left = df_denom - (k - 1)
    statistic = chi2 / k * (left / df_denom) if left > 0 else math.nan
    return JointTest(statistic, df=k, df_denom=max(left, 0.0))


def hypothesis_matrix(R: ArrayLike, q: int) -> FloatArray:
    """Return ``R`` as a finite (k, q) array, or raise `InvalidArgument`."""
    matrix = np.atleast_2d(_as_floats(R=R))
    if matrix.ndim != 2 or matrix.shape[1] != q or len(matrix) == 0:
        raise InvalidArgument(f"R must have shape (k, {q}), one column per coefficient; got {np.shape(R)}")
    if not np.all(np.isfinite(matrix)):
        raise InvalidArgument("R must be finite")
    return matrix


def _independent(matrix: FloatArray) -> FloatArray:
    """Return hypotheses that can be tested together, or raise `InvalidArgument`."""
    if np.linalg.matrix_rank(_equilibrated(matrix)) < len(matrix):
        raise InvalidArgument(
            "R must have linearly independent rows to be tested together; drop hypotheses that follow from "
            "others, or test them one by one with t_test"
        )
    return matrix


def _equilibrated(matrix: FloatArray) -> FloatArray:
    """Scale columns, then rows, to a largest entry of 1: units must not decide what counts as dependent."""
    for axis in (0, 1):
        largest = np.max(np.abs(matrix), axis=axis, keepdims=True)
        matrix = matrix / np.where(largest > 0, largest, 1.0)
    return matrix


def hypothesis_values(r: ArrayLike | None, k: int) -> FloatArray:
    """Return ``r`` as a finite (k,) array (zeros for None), or raise `InvalidArgument`."""
    if r is None:
        return np.zeros(k)
    values = _as_floats(r=r)
    if values.shape not in ((), (k,)) or not np.all(np.isfinite(values)):
        raise InvalidArgument(f"r must be a finite number or have shape ({k},), one entry per row of R")
    return np.broadcast_to(values, (k,)).copy()


def critical_value(level: float, dof: ArrayLike) -> FloatArray:
    """Return the half-width, in standard errors, of a two-sided interval.

    Parameters
    ----------
    level : float
        Coverage, strictly between 0 and 1.
    dof : array or number
        Degrees of freedom; inf: normal. NaN or not positive: the half-width is inf.

    Returns
    -------
    array of the shape of ``dof``
    """
    tail = (1 - in_range(0, 1, closed="neither", level=level)) / 2
    dof = np.asarray(dof, dtype=float)
    usable, safe = _usable_dof(dof)
    value = np.where(np.isinf(dof), stats.norm.isf(tail), stats.t.isf(tail, safe))
    return np.where(usable & ~np.isnan(value), value, np.inf)


def two_sided_pvalue(z: ArrayLike, dof: ArrayLike) -> FloatArray:
    """Return P(abs(T) >= abs(z)), T Student's t with ``dof`` degrees of freedom (inf: normal).

    1 where ``z`` or ``dof`` is NaN, as nothing is then known.
    """
    z, dof = np.broadcast_arrays(np.abs(np.asarray(z, dtype=float)), np.asarray(dof, dtype=float))
    usable, safe = _usable_dof(dof)
    usable = usable & ~np.isnan(z)
    value = np.where(np.isinf(dof), 2 * stats.norm.sf(z), 2 * stats.t.sf(z, safe))
    return np.where(usable & ~np.isnan(value), value, 1.0)


def standard_errors(covariance: FloatArray) -> FloatArray:
    """Return the square roots of a (q, q) covariance's diagonal; NaN where a noisy variance is negative."""
    variance = np.diagonal(covariance)
    return np.sqrt(np.where(variance >= 0, variance, np.nan))


def noise_share(noise: FloatArray, total: FloatArray) -> FloatArray:
    """Return ``noise / total`` in [0, 1], shape (q,): 1 where the noise alone is infinite, NaN if unknown.

    A noisy sampling variance may be negative, so that the quotient alone could exceed 1.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(np.isinf(noise) & np.isinf(total), 1.0, noise / total)
    return np.where(total > 0, np.clip(share, 0.0, 1.0), np.nan)


def z_values(estimate: FloatArray, se: FloatArray) -> FloatArray:
    """Return ``estimate / se``: 0 for an infinite standard error, NaN where it is NaN, or 0 / 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.isinf(se), 0.0, np.divide(estimate, se))


def interval(
    estimate: FloatArray, se: FloatArray, level: float, dof: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    """Return the lower and upper ends, shape (q,) each, of two-sided intervals.

    ``(-inf, inf)`` where the estimate or its standard error is not finite, or ``dof`` is not positive.
    """
    critical = critical_value(level, dof)
    known = np.isfinite(estimate) & np.isfinite(se) & np.isfinite(critical)
    with np.errstate(invalid="ignore", over="ignore"):
        half = np.where(known, critical * se, np.inf)
        centre = np.where(known, estimate, 0.0)
        return centre - half, centre + half


def _usable_dof(dof: FloatArray) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], FloatArray]:
    """Return where ``dof`` is positive, and a copy that is safe to hand to the t distribution.

    Older releases of SciPy take subnormal numbers for certainty.
    """
    usable = dof >= np.finfo(float).tiny
    return usable, np.where(usable & np.isfinite(dof), dof, 1.0)


def _quadratic_form(gap: FloatArray, covariance: FloatArray) -> float:
    """Return ``gap' covariance^-1 gap``, or NaN if the covariance is not positive definite."""
    variance = np.diagonal(covariance)
    if not np.all(variance > 0):
        return math.nan
    scale = np.sqrt(variance)  # correlations, so that units of the columns do not matter
    correlation = covariance / scale / scale[:, None]
    gap = gap / scale
    if not (np.all(np.isfinite(correlation)) and np.all(np.isfinite(gap))):
        return math.nan
    try:
        factor = linalg.cholesky(correlation, lower=True)
    except linalg.LinAlgError:
        return math.nan
    white = linalg.solve_triangular(factor, gap, lower=True)
    return float(white @ white)


def _as_floats(**kwargs: ArrayLike) -> FloatArray:
    ((name, value),) = kwargs.items()
    try:
        return np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} must be an array of numbers") from None
