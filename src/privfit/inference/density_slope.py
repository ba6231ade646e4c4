"""What a density of residuals that is not even does to an estimate by smoothed quantiles, and without it."""

import math
from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.combine import Estimate
from privfit.losses import SmoothedQuantile
from privfit.problem.objective import Problem

_BEYOND = 1.0 / 3.0
"""Part of what is taken away that terms beyond the second order may be."""


def corrected(estimate: Estimate, problem: Problem, *, hessian: FloatArray, center: FloatArray) -> Estimate:
    """Take from an estimate what the slope of the density adds to it, and widen its covariance.

    Parameters
    ----------
    estimate : Estimate
    problem : Problem
        In the coordinates of the estimate. Without a constant, or where nothing is known of the density, as
        with a width that was given, the estimate is left alone.
    hessian : array of shape (q, q)
        That of the Newton step which led to the estimate, if one did.
    center : array of shape (q,)
        Where it was asked.

    Notes
    -----
    Let residuals have the density f and the relative slope ``k = f'/f`` at the quantile, whatever the
    predictors, W be the second moment of the rows and u the constant predictor. To second order the mean
    gradient at a distance d from the coefficients of the quantile is ``f`` times
    ``W d + k (width**2 / 6 E[z] + E[z (z'd)**2] / 2)``, and the Hessian at a distance c from them ``f`` times
    ``W + k E[z z' (z'c)]``. So a Newton step with it from gradients at points with the distances ``d_j`` and
    the parts ``p_j`` is off by

        ``-k (width**2 / 6 u + sum(p_j Q(d_j, d_j)) / 2 - Q(c, sum(p_j d_j)))``,

    ``Q(a, b) = W^-1 E[z (z'a) (z'b)]``. Where columns are symmetric about their mean that follows from the
    mean and W, see `_bent`; and ``f W`` is the Hessian. Distances are those from the estimate. The first term
    is what smoothing changes (Fernandes, Guerre and Horta 2021); the others are large where noise leaves
    points that are far from each other. What is taken away moves predictors by ``1 / k`` at most, over which
    a density changes altogether. The bracket times the standard deviation of what is thought of k is added to
    the standard error, and so is a third of what second order says. What smoothing changes may follow
    predictors, as where errors are wider for some of their values: so that a predictor of mean 0 and variance
    ``c**2`` may be among what is added, whatever its direction, ``c**2 (W^-1 - u u')`` is a covariance of it.
    """
    loss = problem.loss
    if not isinstance(loss, SmoothedQuantile) or loss.density_slope is None or not problem.has_intercept:
        return estimate
    constant = _constant(problem)
    smoothed = loss.width**2 / 6.0
    off = smoothed * constant
    if len(estimate.parts):
        away = np.array([step.release.at for step in estimate.steps]) - estimate.theta
        mean = estimate.parts @ away
        off += 0.5 * estimate.parts @ _bent(away, away, hessian, constant)
        off -= _bent((center - estimate.theta)[None], mean[None], hessian, constant)[0]
    slope = loss.density_slope
    variance = slope.sd**2 + (_BEYOND * slope.mean) ** 2
    along = (slope.uneven * smoothed) ** 2 * _without_constant(hessian, constant)
    return replace(
        estimate,
        theta=estimate.theta + _held(slope.mean, off, hessian, constant),
        cov_noise=estimate.cov_noise + variance * np.outer(off, off) + along,
    )


def _held(slope: float, off: FloatArray, hessian: FloatArray, constant: FloatArray) -> FloatArray:
    """Return ``slope * off``, shortened where it moves predictors by more than ``1 / slope``."""
    squared = float(off @ _moment(hessian, constant) @ off)
    return slope * off / max(1.0, slope**2 * math.sqrt(squared))


def _moment(hessian: FloatArray, constant: FloatArray) -> FloatArray:
    """Return the second moment W of the rows, (q, q), of which the Hessian is a multiple."""
    return hessian / (constant @ hessian @ constant)


def _without_constant(hessian: FloatArray, constant: FloatArray) -> FloatArray:
    """Return ``W^-1 - u u'``, (q, q): covariance 1 along every predictor of mean 0 and variance 1."""
    return np.asarray(np.linalg.inv(_moment(hessian, constant))) - np.outer(constant, constant)


def _constant(problem: Problem) -> FloatArray:
    """Return the coefficients (q,) of the predictor that is 1 in every row."""
    first = np.eye(problem.n_coef)[0]
    return first if problem.basis is None else np.linalg.solve(problem.basis, first)


def _bent(a: FloatArray, b: FloatArray, hessian: FloatArray, constant: FloatArray) -> FloatArray:
    """Return ``W^-1 E[z (z'a) (z'b)]`` for every row of ``a`` and ``b``, each of shape (k, q).

    With ``z = m + e``, e symmetric and with the covariance S,
    ``E[z (z'a) (z'b)] = m (a'W b) + S a (m'b) + S b (m'a)``. As ``z'u = 1`` in every row, ``m = W u`` and
    ``S u = 0``, so that ``W^-1 m = u`` and ``W^-1 S a = a - u (m'a)``.
    """
    moment = _moment(hessian, constant)
    mean = moment @ constant
    along_a, along_b = a @ mean, b @ mean
    across_a, across_b = a - np.outer(along_a, constant), b - np.outer(along_b, constant)
    together = np.einsum("ij,ij->i", a @ moment, b)
    return np.outer(together, constant) + across_a * along_b[:, None] + across_b * along_a[:, None]
