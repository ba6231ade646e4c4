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


@final
@dataclass(frozen=True, slots=True)
class NonPrivate(AbstractSolver):
    """The M-estimator itself, without noise: what the private solvers approximate. Not private.

    Newton steps, halved while the gradient does not shrink, until its norm is below ``tolerance``.

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
        return (gradient,) * self.max_steps + (hessian,) * self.max_steps

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Iterate to convergence."""
        theta = np.array(problem.start)
        step = take_step(problem, oracle, theta, np.zeros((problem.size, problem.size)))
        while np.linalg.norm(step.gradient) > self.tolerance and oracle.remaining("gradient"):
            scale = problem.split(theta)[1]
            hessian = oracle.release("hessian", theta).value / scale + problem.ridge
            newton = floored_inverse(hessian, 1e-12 * float(np.trace(hessian)))
            following = _shrinking_step(problem, oracle, theta, step, newton)
            if following is None:
                break
            step, theta = following, following.release.at
        return Solution(problem, theta, (step,), (), "last")


def _shrinking_step(
    problem: Problem, oracle: Oracle, theta: FloatArray, step: Step, newton: FloatArray
) -> Step | None:
    """Return the step at the first of 1, 1/2, 1/4 ... Newton steps with a smaller gradient, if any."""
    size = 1.0
    while size > 1e-9 and oracle.remaining("gradient"):
        candidate = keep_scale_positive(problem, theta - size * newton @ step.gradient, theta)
        following = take_step(problem, oracle, candidate, np.zeros_like(newton))
        if np.linalg.norm(following.gradient) < np.linalg.norm(step.gradient):
            return following
        size /= 2
    return None
