"""How long rows may be in whitened coordinates for a perturbed minimiser, from what a second moment tells."""

import math

import numpy as np

from privfit._checks import FloatArray
from privfit.losses import SmoothedQuantile
from privfit.problem.objective import Problem
from privfit.solvers.hessian_model import SMALLEST_SPREAD
from privfit.solvers.row_bound import least_norm, squared_bound

_FOR_BREAD = 0.5
"""Signal of the bread, beside the minimiser's epsilon over the root of one more than it has
entries: so little that noise stays a small part of its eigenvalues."""

_LONGEST, _USUAL = 10.0, 2.0
"""Squared norm beyond which rows are weighted down whatever the budget where no schema bounds them, relative
to the expected one; and of quantiles, in standard deviations of that of normal rows beyond it. Noise in their
bread, and the ridge, are larger beside the mean curvature than noise in the gradient is."""

_SATURATED = 0.6
"""Mean squared norm, relative to the largest, beyond which it tells that rows were weighted down for it."""

_MOST_HIDDEN = 0.5
"""What part of the mean squared norm is taken to be gone, at most."""


def row_bound(
    problem: Problem,
    basis: FloatArray,
    dimension: float,
    *,
    epsilon: float,
    square: float,
    slack: tuple[float, float],
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
    square : float
        Mean squared norm of the encoded rows, as far as it is seen.
    slack : tuple of float
        How generous the loss's bounds are, see `privfit.solvers.slack`.

    Notes
    -----
    Noise in a coefficient goes by the limit over what rows tell within it: ``c / E min(|z|^2, c^2)`` is least
    where about half of the rows are longer. Noise in the bread goes by ``c^2`` over the same. So rows are
    weighted down from 1.2 times the mean squared norm on, or as much later as noise allows: `squared_bound`
    says how much that is, for the noise that an entry of the estimate and one of the bread have here. Without
    a schema it is no more with few columns: predictions would be the worse for it.
    """
    signal = epsilon / math.sqrt(problem.size + 1.0)
    longer, entries = dimension / _shown(problem, square), 0.5 * problem.size * (problem.size + 1.0)
    squared = squared_bound(
        problem,
        longer,
        0.0,
        signal=signal,
        bread=_FOR_BREAD * epsilon / math.sqrt(entries + 1.0),
        slack=(*slack, 1.0),
        few=0.0,
    )
    if isinstance(problem.loss, SmoothedQuantile):
        squared = min(squared, max(dimension + _USUAL * math.sqrt(2.0 * dimension), SMALLEST_SPREAD * longer))
    if not problem.bounded:
        return math.sqrt(min(squared, _LONGEST * longer))
    possible = problem.norm_bound * float(np.linalg.norm(basis, 2))
    if problem.indicators:
        possible = min(possible, float(np.linalg.norm(np.abs(basis).sum(axis=0))))
    least = least_norm(problem, possible, math.sqrt(SMALLEST_SPREAD * longer), signal)
    return min(max(math.sqrt(squared), least), possible)


def _shown(problem: Problem, square: float) -> float:
    """Return what part of the mean squared norm is left where rows are weighted down before it is taken.

    Of rows that are a constant and normal columns of one size nearly all is left up to three fifths of the
    squared bound on norms, and about half where it is reached by those of unit variance.
    """
    if problem.bounded:
        return 1.0
    saturated = (square / problem.norm_bound**2 - _SATURATED) / (1.0 - _SATURATED)
    return 1.0 - _MOST_HIDDEN * min(max(saturated, 0.0), 1.0)
