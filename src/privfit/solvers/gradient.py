"""Noisy gradient descent."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import MOST_RELEASES, one_of, optional, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import growing_shares, planned_release
from privfit.solvers.base import AbstractSolver, Solution, Step, keep_scale_positive, take_step
from privfit.solvers.histogram import counting_part
from privfit.solvers.requirements import need_smooth
from privfit.solvers.row_bound import flatness, grown_bound

_FEWEST, _USUAL, _MOST = 6.0, 30.0, 100.0
"""Steps for every unit of ``log n``."""

_FLAT = 3.5
"""The same, for every unit of `_condition`."""

_FAR = 3.0
"""How far noise alone may carry the linear predictor."""

_LOOK = 0.02
"""Part of the squared budget that tells how much of the rows counts, where they do not all count in full."""


@final
@dataclass(frozen=True, slots=True)
class NoisyGradientDescent(AbstractSolver):
    """``theta <- theta - step_size * (gradient + noise)``, a fixed number of steps.

    Parameters
    ----------
    n_steps : int, optional
        Default ``round(k log n)``. For the last iterate, where every step adds noise, and for pure budgets
        k is 6. For one Newton step k is 3.5 times the norm bound squared, as often as the curvature's bound
        exceeds a typical row's, within 30 and 100: steps of ``1 / L`` are the shorter the larger ``L`` is.
        Then steps are fewer where noise would carry the linear predictor further than 3.
    step_size : float, optional
        Default ``1 / L``, with ``L`` the largest eigenvalue that the Hessian can have by the loss's
        constants and the norm bound. Where rows have survey weights or share a privacy unit, ``L`` is as
        much smaller as the released share of the rows that count is, but steps are no longer than noise
        allows. With a scale the step is multiplied by the current scale. A loss with kinks has no such ``L``
        and needs a step size.
    growth : float
        Factor by which the squared budget of a step grows; 1 splits evenly.
    report : {"one-step", "last"}
        ``"last"`` reports the last iterate; what it had still to go counts in its intervals. ``"one-step"``
        combines the gradients of the second half of the steps in one Newton step, whose noise is that of a
        single release with their whole budget; it needs ``inference=True``, else the last iterate is
        reported.

    Notes
    -----
    *Guarantee.* mu-GDP: each gradient has its sensitivity over ``mu_k`` as noise sd, and
    ``sqrt(sum(mu_k**2)) <= mu`` (Dong, Roth and Su 2022, corollary 3.3). Under a pure budget the noise is
    radial and the epsilons of the steps add up.

    References
    ----------
    Avella-Medina, Bradshaw and Loh 2023, *Differentially private inference via noisy optimization*,
    equation (4) and theorem 2.
    """

    n_steps: int | None = None
    step_size: float | None = None
    growth: float = 1.0
    report: Literal["one-step", "last"] = "one-step"

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(whole, 1, MOST_RELEASES, n_steps=self.n_steps)
        optional(positive, step_size=self.step_size)
        positive(growth=self.growth)
        one_of(("one-step", "last"), report=self.report)

    @property
    def name(self) -> str:
        """Name."""
        return "noisy gradient descent"

    def _steps(self, problem: Problem, allowance: Allowance) -> int:
        if self.n_steps is not None:
            return self.n_steps
        fewest = max(2, round(_FEWEST * math.log(problem.n_rows)))
        if self.report == "last" or allowance.pure:
            return fewest
        noise = problem.sensitivity("gradient") / allowance.amount
        far = _FAR * problem.smoothness / (problem.norm_bound * noise) if noise > 0.0 else math.inf
        flat = min(max(_FLAT * _condition(problem), _USUAL), _MOST) * math.log(problem.n_rows)
        return max(fewest, round(min(flat, far)))

    def norm_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Return a bound that grows with the budget, but no further than the steps can follow.

        Steps of ``1 / L`` are the shorter the longer rows may be. Only the default number of steps for one
        Newton step is made for that.
        """
        if self.n_steps is not None or self.report == "last" or allowance.pure:
            return problem.norm_bound
        longest = problem.norm_bound * math.sqrt(_MOST / (_FLAT * _condition(problem)))
        return max(min(grown_bound(problem, [allowance]), longest), problem.norm_bound)

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one gradient a step."""
        if self.step_size is None:
            need_smooth(problem, "NoisyGradientDescent")
        shares = growing_shares(self._steps(problem, allowance), self.growth)
        if self.step_size is not None or problem.shares.plain:
            return tuple(planned_release(problem, "gradient", part) for part in allowance.split(shares))
        look, steps = allowance.split([_LOOK, 1.0 - _LOOK])
        gradients = (planned_release(problem, "gradient", part) for part in steps.split(shares))
        return (planned_release(problem, "norms", look), *gradients)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Run the planned steps."""
        size = self.step_size or _step_size(problem, oracle)
        theta = np.array(problem.start)
        steps: list[Step] = []
        for _ in range(oracle.remaining("gradient")):
            scale = problem.split(theta)[1]
            step = take_step(problem, oracle, theta, size * scale * np.eye(problem.size))
            steps.append(step)
            theta = keep_scale_positive(problem, theta - step.preconditioner @ step.gradient, theta)
        return Solution(problem, theta, tuple(steps), (), self.report)


def _step_size(problem: Problem, oracle: Oracle) -> float:
    """Return ``1 / L``; where rows count for less than one, as much longer as noise allows.

    The mean of Hessians that count by shares is at most the mean share times the largest of them.
    """
    usual = 1.0 / (problem.smoothness + problem.l2)
    if not oracle.remaining("norms"):
        return usual
    norms = oracle.release("norms", np.array(problem.start))
    counting = counting_part(norms.value, norms.sd)
    noise = math.hypot(*(each.sd for each in oracle.plan.solver_releases if each.kind == "gradient"))
    far = _FAR / (problem.norm_bound * noise) if noise > 0.0 else math.inf
    return max(usual, min(1.0 / (counting * problem.smoothness + problem.l2), far))


def _condition(problem: Problem) -> float:
    """Return how many times a typical row's curvature the Hessian's largest possible eigenvalue is."""
    return problem.norm_bound**2 * flatness(problem)
