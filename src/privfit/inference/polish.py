"""Newton steps from a released point, so that the noise in what is reported is known.

A method that releases its answer as a whole says nothing about how far that is from the optimum. Inference
therefore buys a Hessian there and three gradients, each at the point that the former leads to, with growing
budgets. Near the optimum every step with a fixed Hessian removes most of the distance that is left; the last
two gradients are then combined as those of an iterative method are, see `privfit.inference.combine`.
"""

from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import Solution, Step, keep_scale_positive, take_step
from privfit.solvers.damping import AbstractDamping, FixedDamping, Move, SelfConcordantDamping
from privfit.solvers.newton import propose
from privfit.solvers.self_concordance import self_concordance

HESSIAN_SHARE = 0.06
"""Part of the squared budget that buys the Hessian of the steps."""

GRADIENT_SHARES = (0.06, 0.12, 0.24)
"""Parts of the squared budget that buy the gradients."""


def polished(solution: Solution, oracle: Oracle) -> Solution:
    """Return the solution after the planned Newton steps from its point, damped where they are long."""
    problem, theta = solution.problem, solution.theta
    hessian, rule = oracle.release("hessian", theta), _rule(problem)
    steps: list[Step] = []
    move: Move | None = None
    for k in range(len(GRADIENT_SHARES)):
        step = take_step(problem, oracle, theta, problem.ridge)
        move = rule.move(propose(problem, hessian, step), move, done=k / len(GRADIENT_SHARES), oracle=oracle)
        steps.append(replace(step, preconditioner=move.preconditioner))
        theta = keep_scale_positive(problem, theta - move.change, theta)
    return replace(solution, theta=theta, steps=tuple(steps), report="one-step")


def arrived(problem: Problem, move: FloatArray) -> bool:
    """Return whether the last Newton step, of shape (q,), is short enough to be taken at its word.

    A step of length v is off by about ``gamma * v**2 / 2`` for a loss with self-concordance ``gamma``, and so
    by no more than half its length where ``gamma * v <= 1``. For other losses no row's predictor may move by
    more than the length over which the slope can rise by its bound. A longer step, of released numbers,
    shows that the optimum has not been reached.
    """
    gamma = self_concordance(problem)
    if gamma is not None:
        return gamma * float(np.linalg.norm(move)) <= 1.0
    constants = problem.loss.constants
    length = problem.norm_bound * float(np.linalg.norm(move[: problem.n_coef]))
    return length * constants.curvature <= constants.slope


def _rule(problem: Problem) -> AbstractDamping:
    return FixedDamping(1.0) if self_concordance(problem) is None else SelfConcordantDamping()
