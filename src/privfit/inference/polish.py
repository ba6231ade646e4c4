"""Newton steps from a released point, so that the noise in what is reported is known.

A method that releases its answer as a whole says nothing about how far that is from the optimum. Inference
therefore buys Newton steps from there, with a Hessian each, since with a Hessian of the first point the
distance would shrink by a fixed factor only. The last two gradients are then combined as those of an
iterative method are, see `privfit.inference.combine`, or the last one stands alone where the point before is
too far. Whether it is, and whether the last one is, the distances of released points say, see
`of_last_gradients`.
"""

import math
from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.combine import Estimate, anchor, one_step
from privfit.inference.covariance import Bread
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import (
    Solution,
    Step,
    keep_scale_positive,
    quadratic_forms,
    take_step,
)
from privfit.solvers.damping import Move, Proposal, trust
from privfit.solvers.newton import propose
from privfit.solvers.self_concordance import self_concordance

HESSIAN_SHARES = (0.02, 0.02, 0.02, 0.02)
"""Parts of the squared budget that buy the Hessians of the steps."""

GRADIENT_SHARES = (0.03, 0.03, 0.04, 0.10, 0.20)
"""Parts of the squared budget that buy the gradients: one a step, and one at the point they lead to."""

N_COMBINED = 2
"""How many of the last gradients the estimate rests on, if their points are near enough."""

_OVERSHOT = 0.25
"""Slope against a step at its end, relative to that along it at its start, from which it went too far."""

_EXPLAINED = 5.0
"""Squared distances of up to this many times their expectation are put down to noise."""

_TOLERATED = 0.5
"""Error of linearisation, in standard errors, that an interval may have."""


def polished(solution: Solution, oracle: Oracle) -> Solution:
    """Return the solution after the planned Newton steps from its point, shortened where they are long."""
    problem, theta = solution.problem, solution.theta
    steps: list[Step] = []
    for _ in HESSIAN_SHARES:
        hessian = oracle.release("hessian", theta)
        step = take_step(problem, oracle, theta, problem.ridge)
        origin, gradient = _stepped_back(steps[-1], step) if steps else (theta, step.gradient)
        move = _shortened(propose(problem, hessian, replace(step, gradient=gradient)))
        steps.append(replace(step, preconditioner=move.preconditioner))
        theta = keep_scale_positive(problem, origin - move.change, theta)
    steps.append(take_step(problem, oracle, theta, steps[-1].preconditioner))
    return replace(solution, theta=theta, steps=tuple(steps), report="one-step")


def of_last_gradients(
    solution: Solution, bread: Bread, directions: FloatArray, sampling: FloatArray
) -> tuple[Estimate, np.ndarray]:
    """Return the estimate from the last two gradients, or from the last one where the other is too far.

    Where nothing is settled it is the last point: the step from there would be a whole one, however far.

    Parameters
    ----------
    solution : Solution
        From `polished`.
    bread : Bread
        Released at the last point.
    directions : array of shape (k, q)
        Reported coefficients as linear functions of the parameter.
    sampling : array of shape (k,)
        Their sampling variances.

    Returns
    -------
    estimate : Estimate
    unsettled : bool array of shape (k,)
        Which reported coefficients may be too far from the optimum for their variance to be believed.
    """
    noisy = solution.steps[-1].release.sd > 0.0
    count = N_COMBINED if noisy else 1
    while True:
        estimate = one_step(anchor(solution.steps[-count:]), bread)
        noise = quadratic_forms(directions, estimate.cov_noise)
        far = _unsettled(solution, estimate, bread, directions=directions, variance=sampling + noise)
        if count == 1 and far.all():
            estimate = replace(estimate, theta=solution.theta)
        if count == 1 or not far.any():
            return estimate, far
        count -= 1


def _unsettled(
    solution: Solution,
    estimate: Estimate,
    bread: Bread,
    *,
    directions: FloatArray,
    variance: FloatArray,
) -> np.ndarray:
    """Return which coefficients linearisation at the points of an estimate may leave too far off.

    With ``gamma`` from `bending`, a Hessian changes by a factor of at most about ``1 + gamma r`` over a
    distance r. So an estimate ``theta_k - M^-1 g_k`` with M from within r of both ``theta_k`` and the optimum
    is off by at most ``gamma r norm(v_k)`` in the norm of M, ``v_k`` the step from ``theta_k`` to the
    optimum, and a coefficient ``d'theta`` by that times ``sqrt(d'M^-1 d)``. A coefficient is unsettled where
    this is more than half its standard error, unless the distance is what the privacy noise in the points
    explains: the bound is one for the worst rows, and noise has no preferred direction. All are unsettled
    where ``gamma r > 1`` from the last point, where M itself says little. Distances are those between
    released points, so all this is post-processing.
    """
    moves = np.array([step.release.at - estimate.theta for step in estimate.steps])
    gamma = bending(solution.problem, estimate.theta)
    if gamma * float(np.linalg.norm(moves[-1])) > 1.0:
        return np.ones(len(directions), dtype=bool)
    radius = float(np.linalg.norm(moves, axis=1).max())
    if radius**2 <= _EXPLAINED * _noise_in_points(solution, estimate):
        return np.zeros(len(directions), dtype=bool)
    lengths = np.sqrt(quadratic_forms(moves, bread.matrix))
    error = gamma * radius * float(estimate.parts @ lengths)
    reach = np.sqrt(quadratic_forms(directions, bread.inverse))
    return error * reach > _TOLERATED * np.sqrt(variance)


def bending(problem: Problem, theta: FloatArray) -> float:
    """Return how fast the Hessian can change near ``theta``: by a factor of about ``1 + bending * distance``.

    That of a self-concordant loss (`self_concordance`) is proven. For others it is a rule of thumb: a row's
    curvature may vanish once its predictor has moved by the length over which its slope can rise to its
    bound, such as the threshold of a Huber loss.
    """
    gamma = self_concordance(problem)
    if gamma is not None:
        return gamma
    constants = problem.loss.constants
    return problem.norm_bound * constants.curvature / (constants.slope * problem.split(theta)[1])


def _stepped_back(last: Step, step: Step) -> tuple[FloatArray, FloatArray]:
    """Return the lowest point between the last two, by the secant of their gradients, and the gradient there.

    Newton steps overshoot where the Hessian is smaller than it is further on, as far from the optimum of a
    Huber or logistic loss; repeated, they would swing about it. Where the gradient is affine, a Newton step
    from any point of the line leads to the optimum, so this costs nothing near it.
    """
    way = step.release.at - last.release.at
    before, after = float(last.gradient @ way), float(step.gradient @ way)
    overshot = before < 0.0 and after > -_OVERSHOT * before
    part = before / (before - after) if overshot else 1.0
    return last.release.at + part * way, last.gradient + part * (step.gradient - last.gradient)


def _shortened(proposal: Proposal) -> Move:
    """Return a Newton step of at most twice the length that is sure to descend without noise.

    That length, ``log(1 + beta) / beta`` of a step with ``beta = gamma norm(step)``, is one for the worst
    rows, and there are few steps to arrive in; `of_last_gradients` tells if it was too bold.
    """
    gamma = self_concordance(proposal.problem)
    if gamma is None:
        return Move.along(proposal, trust(proposal, proposal.direction))
    beta = gamma * float(np.linalg.norm(proposal.direction))
    return Move.along(proposal, min(1.0, 2.0 * math.log1p(beta) / beta) if beta > 0 else 1.0)


def _noise_in_points(solution: Solution, estimate: Estimate) -> float:
    """Return the largest expected squared distance of an estimate's points from it, noise alone."""
    before = solution.steps[-len(estimate.steps) - 1 : -1]
    moved = [step.release.sd**2 * float(np.sum(step.preconditioner**2)) for step in before]
    return max(moved) + float(np.trace(estimate.cov_noise))
