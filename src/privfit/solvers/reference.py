"""The non-private reference: Newton's method on exact answers."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import FloatArray, positive, whole
from privfit.errors import Incompatible
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import planned_release
from privfit.solvers.base import (
    AbstractSolver,
    Solution,
    Step,
    floored_inverse,
    keep_scale_positive,
    take_step,
)

_SMALLEST = 1e-9
"""Part of its bound that is added to a Hessian, so that a step has a length where it is singular."""


@final
@dataclass(frozen=True, slots=True)
class NonPrivate(AbstractSolver):
    """The M-estimator itself, without noise: what the private solvers approximate. Not private.

    Newton steps, halved while the gradient does not shrink or they overshoot, until its norm is below
    ``tolerance``. Where that leads nowhere, as where the loss is a line for most rows, the Hessian is
    replaced by its bound ``curvature * S``, ``S`` the second moment of the rows, whose steps never climb
    (Böhning and Lindsay 1988, *Monotonicity of quadratic-approximation algorithms*).

    Parameters
    ----------
    tolerance : float
        On the norm of the mean gradient in encoded coordinates.
    max_steps : int
        Bound on gradient evaluations.
    """

    weights_rows: ClassVar[bool] = False

    tolerance: float = 1e-12
    max_steps: int = 400

    def __post_init__(self) -> None:
        positive(tolerance=self.tolerance)
        whole(max_steps=self.max_steps)

    @property
    def name(self) -> str:
        """Name."""
        return "Newton, without noise"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan exact answers; refuses a finite budget, which it cannot keep."""
        if math.isfinite(allowance.amount):
            raise Incompatible("solver: NonPrivate adds no noise and cannot keep a budget")
        gradient = planned_release(problem, "gradient", allowance)
        hessian = planned_release(problem, "hessian", allowance)
        moment = planned_release(problem, "second_moment", allowance)
        return (gradient,) * self.max_steps + (hessian,) * self.max_steps + (moment,)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Iterate to convergence."""
        theta = np.array(problem.start)
        step = take_step(problem, oracle, theta, np.zeros((problem.size, problem.size)))
        bound = _hessian_bound(problem, oracle)
        while np.linalg.norm(step.gradient) > self.tolerance and oracle.remaining("gradient"):
            scale = problem.split(theta)[1]
            hessian = oracle.release("hessian", theta).value / scale + problem.ridge
            floored = hessian if bound is None else hessian + _SMALLEST * bound
            newton = floored_inverse(floored, 1e-12 * float(np.trace(hessian)))
            following = _shrinking_step(problem, oracle, theta, step, newton)
            if following is None and bound is not None and oracle.remaining("gradient"):
                following = _never_climbing(problem, oracle, theta, step, bound)
            if following is None:
                break
            step, theta = following, following.release.at
        return Solution(problem, theta, (step,), (), "last")


def _shrinking_step(
    problem: Problem, oracle: Oracle, theta: FloatArray, step: Step, newton: FloatArray
) -> Step | None:
    """Return the step at the first of 1, 1/2, 1/4 ... Newton steps with a smaller gradient, if any.

    Its slope along the step may have changed sign, but not to more than half its size.
    """
    size, descent = 1.0, step.gradient @ newton @ step.gradient
    while size > 1e-9 and oracle.remaining("gradient"):
        candidate = keep_scale_positive(problem, theta - size * newton @ step.gradient, theta)
        following = take_step(problem, oracle, candidate, np.zeros_like(newton))
        left = following.gradient @ newton @ step.gradient
        shrinks = np.linalg.norm(following.gradient) < np.linalg.norm(step.gradient)
        if shrinks and (problem.loss.has_scale or left >= -0.5 * descent):
            return following
        size /= 2
    return None


def _hessian_bound(problem: Problem, oracle: Oracle) -> FloatArray | None:
    """Return a bound on the Hessian at every parameter, shape (p, p); None for losses with a scale."""
    if problem.loss.has_scale:
        return None
    moment = oracle.release("second_moment", np.array(problem.start)).value
    return problem.loss.constants.curvature * moment + problem.ridge


def _never_climbing(
    problem: Problem, oracle: Oracle, theta: FloatArray, step: Step, bound: FloatArray
) -> Step | None:
    """Return the step to the minimum of the bound; None where rounding makes its gradient the longer one."""
    inverse = np.linalg.pinv(bound, hermitian=True)
    following = take_step(problem, oracle, theta - inverse @ step.gradient, np.zeros(bound.shape))
    lengths = [one.gradient @ inverse @ one.gradient for one in (step, following)]
    return following if lengths[1] <= lengths[0] else None
