"""Noisy gradient descent."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import one_of, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import growing_shares, planned_release
from privfit.solvers.base import AbstractSolver, Solution, Step, keep_scale_positive, take_step
from privfit.solvers.requirements import need_smooth


@final
@dataclass(frozen=True, slots=True)
class NoisyGradientDescent(AbstractSolver):
    """``theta <- theta - step_size * (gradient + noise)``, a fixed number of steps.

    Parameters
    ----------
    n_steps : int, optional
        Default ``round(6 log n)``.
    step_size : float, optional
        Default ``1 / L``, with ``L`` the largest eigenvalue that the Hessian can have by the loss's
        constants and the norm bound. With a scale the step is multiplied by the current scale. A loss
        with kinks has no such ``L`` and needs a step size.
    growth : float
        Factor by which the squared budget of a step grows; 1 splits evenly.
    report : {"one-step", "last"}
        ``"last"`` reports the last iterate. ``"one-step"`` combines the gradients of the second half of
        the steps in one Newton step, whose noise is that of a single release with their whole budget;
        it needs ``inference=True``, else the last iterate is reported.

    Notes
    -----
    *Guarantee.* mu-GDP: each gradient has its sensitivity over ``mu_k`` as noise sd, and
    ``sqrt(sum(mu_k**2)) <= mu`` (Dong, Roth and Su 2022, corollary 3.3). Under a pure budget the noise is
    radial and the epsilons of the steps add up.

    References
    ----------
    Avella-Medina, Bradshaw and Loh 2023, *Differentially private inference via noisy optimization*,
    algorithm 1 and theorem 1.
    """

    n_steps: int | None = None
    step_size: float | None = None
    growth: float = 1.0
    report: Literal["one-step", "last"] = "one-step"

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_steps is not None:
            whole(n_steps=self.n_steps)
        if self.step_size is not None:
            positive(step_size=self.step_size)
        positive(growth=self.growth)
        one_of(("one-step", "last"), report=self.report)

    @property
    def name(self) -> str:
        """Name."""
        return "noisy gradient descent"

    def _steps(self, problem: Problem) -> int:
        return self.n_steps or max(2, round(6 * math.log(problem.n_rows)))

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one gradient a step."""
        if self.step_size is None:
            need_smooth(problem, "NoisyGradientDescent")
        shares = growing_shares(self._steps(problem), self.growth)
        return tuple(planned_release(problem, "gradient", part) for part in allowance.split(shares))

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Run the planned steps."""
        size = self.step_size or 1.0 / (problem.smoothness + problem.l2)
        theta = np.array(problem.start)
        steps: list[Step] = []
        for _ in range(oracle.remaining("gradient")):
            scale = problem.split(theta)[1]
            step = take_step(problem, oracle, theta, size * scale * np.eye(problem.size))
            steps.append(step)
            theta = keep_scale_positive(problem, theta - step.preconditioner @ step.gradient, theta)
        return Solution(problem, theta, tuple(steps), (), self.report)
