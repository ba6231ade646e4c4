"""Levels in which some response may not occur at all, as far as noise lets it be seen."""

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread
from privfit.losses.means import AbstractMeans
from privfit.solvers.base import Solution
from privfit.solvers.levels import moves_of

_DEVIATIONS = 1.645
"""Standard deviations by which a mean response has to exceed 0: of none it does in 5 %."""

_INVOLVED = 1e-9
"""Part of a change without end that a coefficient has to see."""


def may_be_without_end(
    solution: Solution, directions: FloatArray, *, estimate: Estimate, bread: Bread, sampling: FloatArray
) -> NDArray[np.bool_]:
    """Return which reported coefficients are of levels whose predictors may have no end, (k,).

    Parameters
    ----------
    solution : Solution
    directions : array of shape (k, n_linear)
        Reported coefficients as linear functions of the encoded ones.
    estimate : Estimate
        A Newton step from the average of late points; of any other nothing is said.
    bread : Bread
        At a point near that.
    sampling : array of shape (q, q)
        Sampling covariance of the estimate.

    Notes
    -----
    The rows of a level share a predictor but for other columns. The mean of a response there, times their
    share of the rows, is what it is at a point less the gradient along the change that raises it alone. The
    first is the curvature along that for a count, and for a class that over ``1 - p``, p being its
    probability at a mean row of the level. Where 0 is within what noise and sampling explain, the interval
    that a score test gives (Rao 1948, *Large sample tests of statistical hypotheses*) has no end, and a
    symmetric one about the estimate says nothing: with no event at all a Newton step goes no further than
    by 1.
    """
    problem, means = solution.problem, solution.problem.loss.means
    moves = moves_of(problem, solution.at_bounds)
    if means is None or not moves.size or not estimate.parts.size:
        return np.zeros(len(directions), dtype=np.bool_)
    basis = np.eye(problem.n_coef) if problem.basis is None else problem.basis
    along = np.kron(means.lift, np.linalg.solve(basis, moves.T).T)
    start = estimate.start
    half = along @ bread.matrix
    curvature = np.sum(half * along, axis=1)
    each = _mean_of_curvature(means, start, half, curvature)
    mean = each * curvature - half @ (start - estimate.theta)
    noise = estimate.parts * np.array([step.release.sd for step in estimate.steps])
    lengths = np.sum(along**2, axis=1)
    with np.errstate(over="ignore"):  # where there is nearly no curvature its mean may be anything
        variance = (noise @ noise) * lengths + (each * bread.sd * lengths) ** 2
        variance += np.sum((half @ sampling) * half, axis=1)
    endless = mean < _DEVIATIONS * np.sqrt(variance)
    changes = np.kron(means.lift, moves)
    return np.asarray((np.abs(directions @ changes[endless].T) > _INVOLVED).any(axis=1))


def _mean_of_curvature(
    means: AbstractMeans, start: FloatArray, half: FloatArray, curvature: FloatArray
) -> FloatArray:
    """Return the mean response of levels for each unit of the curvature along its own change, (K L,).

    Parameters
    ----------
    means : AbstractMeans
    start : array of shape (q,)
    half : array of shape (K L, q)
        Changes times the bread. Times the change of a level it is the curvature, and so for each unit of that
        the mean row of the level, weighted by curvature.
    curvature : array of shape (K L,)
    """
    count, outputs = means.lift.shape
    parts = half.reshape(count, -1, outputs, start.size // outputs)
    rows = np.einsum("ka,klap->lp", means.lift, parts) / curvature.reshape(count, -1).sum(axis=0)[:, None]
    at = means.at(start.reshape(outputs, -1) @ rows.T)
    return (at / np.maximum(means.variance(at), 1e-300)).ravel()
