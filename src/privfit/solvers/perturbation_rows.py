"""How long rows may be in whitened coordinates for a perturbed minimiser, from what a second moment tells."""

import math

import numpy as np

from privfit._checks import FloatArray
from privfit.losses import SmoothedQuantile
from privfit.problem.objective import Problem
from privfit.solvers.hessian_model import SMALLEST_SPREAD
from privfit.solvers.norms import room_for

_FOR_ESTIMATE = 0.006
"""``c**2 / (n s**2)`` up to which noise is small beside the sampling error, ``s`` the signal."""

_FOR_BREAD = 0.022
"""``c**2 / (n s)`` up to which noise in the bread is small beside its eigenvalues, ``s`` that of an entry
relative to them."""

_LONGEST, _USUAL = 10.0, 2.0
"""Squared norm beyond which rows are weighted down whatever the budget, relative to the expected one; and of
quantiles, in standard deviations of that of normal rows beyond it. Noise in their bread, and the ridge, are
larger beside the mean curvature than noise in the gradient is."""

_SATURATED = 0.6
"""Mean squared norm, relative to the largest, beyond which it tells that rows were weighted down for it."""

_MOST_HIDDEN = 0.5
"""What part of the mean squared norm is taken to be gone, at most."""

_LARGEST_EPSILON = 1e9


def row_bound(
    problem: Problem, basis: FloatArray, dimension: float, *, epsilon: float, moment: FloatArray
) -> float:
    """Return the norm of rows ``basis' x`` beyond which they are weighted down.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    basis : array of shape (p, p)
    dimension : float
        Mean squared norm of ``basis' x``, as far as it is seen.
    epsilon : float
        What the minimiser costs.
    moment : array of shape (p, p)
        Second moment of the encoded rows, as far as it is seen.

    Notes
    -----
    Noise in a coefficient goes by the limit over what rows tell within it: ``c / E min(|z|^2, c^2)`` is least
    where about half of the rows are longer. Noise in the bread goes by ``c^2`` over the same. So rows are
    weighted down from 1.2 times the mean squared norm on. The limit is larger where noise is small beside the
    sampling error; where it does not hide the bread, and there is a level that few rows have, it is the one
    that suits that; and it is no larger than rows can be.
    """
    budget = min(epsilon, _LARGEST_EPSILON)
    of_slope, of_curvature = problem.loss.slack
    entries = 0.5 * problem.size * (problem.size + 1.0)
    for_estimate = _FOR_ESTIMATE * problem.n_rows * (budget / of_slope) ** 2 / (problem.size + 1.0)
    for_bread = (
        _FOR_BREAD * problem.n_rows * budget / (of_curvature * math.sqrt(problem.size * (entries + 1.0)))
    )
    allowed = max(for_estimate, min(for_bread, _room(problem, basis, dimension, moment) ** 2))
    most = _LONGEST * dimension
    if isinstance(problem.loss, SmoothedQuantile):
        most = dimension + _USUAL * math.sqrt(2.0 * dimension)
    least = SMALLEST_SPREAD * dimension / _shown(problem, moment)
    bound = math.sqrt(max(min(allowed, most), least))
    if not problem.bounded:
        return bound
    possible = problem.norm_bound * float(np.linalg.norm(basis, 2))
    if problem.indicators:
        possible = min(possible, float(np.linalg.norm(np.abs(basis).sum(axis=0))))
    return min(bound, possible)


def _shown(problem: Problem, moment: FloatArray) -> float:
    """Return what part of the mean squared norm is left where rows are weighted down before it is taken.

    Of rows that are a constant and normal columns of one size nearly all is left up to three fifths of the
    squared bound on norms, and about half where it is reached by those of unit variance.
    """
    if problem.bounded:
        return 1.0
    saturated = (float(np.trace(moment)) / problem.norm_bound**2 - _SATURATED) / (1.0 - _SATURATED)
    return 1.0 - _MOST_HIDDEN * min(max(saturated, 0.0), 1.0)


def _room(problem: Problem, basis: FloatArray, dimension: float, moment: FloatArray) -> float:
    """Return the largest limit that suits one of the levels, by their shares and mean rows; 0 without any."""
    shares = np.diag(moment)
    rooms = [
        room_for(float(np.linalg.norm(basis.T @ moment[:, k] / shares[k])), float(shares[k]), dimension)
        for k in np.flatnonzero(problem.indicators)
        if shares[k] > 0.0
    ]
    return max(rooms, default=0.0)
