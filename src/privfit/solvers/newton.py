"""Noisy Newton's method, damped far from the optimum and pure near it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import MOST_RELEASES, FloatArray, in_range, one_of, positive, whole
from privfit.errors import InvalidArgument
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.schedule import growing_shares, planned_noise, planned_release
from privfit.solvers.base import (
    AbstractSolver,
    Solution,
    Step,
    keep_scale_positive,
    noise_norm,
    quadratic_forms,
    take_step,
)
from privfit.solvers.damping import AbstractDamping, FixedDamping, Move, Proposal, default_damping
from privfit.solvers.requirements import need_convex, need_smooth
from privfit.solvers.row_bound import grown_bound
from privfit.solvers.self_concordance import (
    SECOND_ORDER,
    mean_curvature,
    places_of_constants,
    turning_at,
)

_HESSIAN_SHARE, _GROWTH = 0.4, 1.3

_NEAR, _EXPLAINED = 0.05, 3.0
"""Part that the curvature may change by on the way to the end, and standard deviations of noise on it."""


@final
@dataclass(frozen=True, slots=True)
class NoisyNewton(AbstractSolver):
    """``theta <- theta - eta * H^-1 g`` with a noisy Hessian and a noisy gradient at every step.

    Parameters
    ----------
    n_steps : int
        Number of steps.
    damping : AbstractDamping or float, optional
        Rule for ``eta``, from `privfit.solvers.damping`: `FixedDamping`, `SelfConcordantDamping`,
        `RidgeTwoStep`, `Backtracking` or `ConstantStep`; a number stands for `FixedDamping`. Default:
        `SelfConcordantDamping` for a self-concordant loss and ``FixedDamping(0.5)`` for others. Both turn to
        full steps once released quantities show that these converge.
    hessian_share : float
        Part of each step's squared budget that goes to its Hessian.
    growth : float
        Factor by which the squared budget of a step grows; 1 splits evenly.
    report : {"one-step", "last"}
        As in `NoisyGradientDescent`.
    constants : {"proven", "source"}
        ``"source"`` budgets as the source prints it: an even split over ``2K`` releases, each of
        ``mu / sqrt(2K)``, and a Hessian of sensitivity ``2 Bbar / n`` where ``sqrt(2) Bbar / n`` is proven.
        It has more noise for the same guarantee and is there to compare. ``hessian_share`` and ``growth``
        must be left alone.

    Notes
    -----
    *Guarantee.* mu-GDP, as all releases compose to ``sqrt(sum(mu_k**2)) <= mu``; tests of `Backtracking` are
    among them. Eigenvalues of the noisy Hessian are raised to its noise level ``sd * sqrt(2 q)``, which is
    post-processing. Under a pure budget the noise is radial and the epsilons add up. With
    ``constants="source"`` each release has at least the noise that its part of the budget needs.

    References
    ----------
    Avella-Medina, Bradshaw and Loh 2023, *Differentially private inference via noisy optimization*,
    equation (9) and section 4.4.
    """

    n_steps: int = 14
    damping: AbstractDamping | float | None = None
    hessian_share: float = _HESSIAN_SHARE
    growth: float = _GROWTH
    report: Literal["one-step", "last"] = "one-step"
    constants: Literal["proven", "source"] = "proven"

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        whole(1, MOST_RELEASES, n_steps=self.n_steps)
        if self.damping is not None and not isinstance(self.damping, AbstractDamping):
            in_range(0.0, 1.0, closed="right", damping=self.damping)
        in_range(0.0, 1.0, closed="neither", hessian_share=self.hessian_share)
        positive(growth=self.growth)
        one_of(("one-step", "last"), report=self.report)
        one_of(("proven", "source"), constants=self.constants)
        if self.constants == "source" and (self.hessian_share, self.growth) != (_HESSIAN_SHARE, _GROWTH):
            raise InvalidArgument(
                "constants='source' splits the budget evenly; leave hessian_share and growth out"
            )

    @property
    def name(self) -> str:
        """Name."""
        return "noisy Newton"

    def rule(self, problem: Problem) -> AbstractDamping:
        """Return the rule for the length of the steps."""
        if self.damping is None:
            return default_damping(problem)
        return self.damping if isinstance(self.damping, AbstractDamping) else FixedDamping(self.damping)

    def norm_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Return a bound that grows with the budget, see `privfit.solvers.row_bound`."""
        return grown_bound(problem, allowance.split([1.0] * (2 * self.n_steps)))

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one Hessian and one gradient a step, and the tests of the damping rule."""
        need_smooth(problem, "NoisyNewton")
        need_convex(problem, "NoisyNewton")
        rule = self.rule(problem)
        rule.require(problem)
        for_steps, for_tests = allowance, None
        if rule.tests:
            for_steps, for_tests = allowance.split([1.0 - rule.test_share, rule.test_share])
        published = self.constants == "source"
        growth, share = (1.0, 0.5) if published else (self.growth, self.hessian_share)
        planned = []
        for part in for_steps.split(growing_shares(self.n_steps, growth)):
            for_hessian, for_gradient = part.split([share, 1.0 - share])
            planned.append(_hessian(problem, for_hessian, published=published))
            planned.append(planned_release(problem, "gradient", for_gradient))
        if for_tests is not None:
            parts = for_tests.split([1.0] * rule.tests)
            planned += [planned_release(problem, "secant", part) for part in parts]
        return tuple(planned)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Run the planned steps."""
        theta, rule = np.array(problem.start), self.rule(problem)
        steps: list[Step] = []
        hessians: list[Release] = []
        move: Move | None = None
        for k in range(self.n_steps):
            hessian = oracle.release("hessian", theta)
            step = take_step(problem, oracle, theta, problem.ridge)
            proposal = propose(problem, hessian, step)
            move = rule.move(proposal, move, done=k / self.n_steps, oracle=oracle)
            steps.append(replace(step, preconditioner=move.preconditioner))
            hessians.append(hessian)
            theta = keep_scale_positive(problem, theta - move.change, theta)
        count = self.n_steps - self.n_steps // 2
        if self.report == "one-step":
            count = _arrived(problem, steps[-count:], hessians[-count:], theta)
            steps = steps[-2 * count :]
        return Solution(problem, theta, tuple(steps), tuple(hessians[-count:]), self.report)


def _arrived(problem: Problem, steps: Sequence[Step], hessians: Sequence[Release], end: FloatArray) -> int:
    """Return how many of the last steps are from where the curvature is that of the end, at least one.

    Where most responses are alike a logit's curvature changes by the part that the odds change by, so that an
    average over the way would be too large. At even odds it falls as slopes become steeper.
    """
    last = hessians[-1].value
    rate, mean, bending = turning_at(problem, last), mean_curvature(problem, last), problem.loss.bending
    if mean == 0.0 or bending == 0.0:
        return len(steps)
    moves = np.array([hessian.at for hessian in hessians]) - end
    sds = np.array([step.release.sd for step in steps])
    noise = np.hypot(sds, sds[-1]) / mean
    shifts = np.max(np.abs(moves @ last[:, places_of_constants(problem)]), axis=1) / mean
    squared = quadratic_forms(moves, last) / mean - _EXPLAINED * len(last) * noise**2
    turned = rate * np.maximum(shifts - _EXPLAINED * noise, 0.0)
    far = turned + SECOND_ORDER * bending**2 * np.maximum(squared, 0.0) > _NEAR
    return max(int(np.argmax(far[::-1])), 1) if far.any() else len(steps)


def propose(problem: Problem, hessian: Release, step: Step) -> Proposal:
    """Return what a step knows from its released Hessian and gradient."""
    scale = problem.split(hessian.at)[1]
    return Proposal(
        problem=problem,
        theta=hessian.at,
        gradient=step.gradient,
        matrix=hessian.value / scale + problem.ridge,
        floor=max(noise_norm(hessian.sd, problem.size), 1e-12 * problem.smoothness) / scale,
    )


def _hessian(problem: Problem, allowance: Allowance, *, published: bool) -> PlannedRelease:
    planned = planned_release(problem, "hessian", allowance)
    if not published:
        return planned
    larger = math.nextafter(math.sqrt(2.0), 2.0) * planned.sensitivity
    return planned_noise("hessian", planned.size, larger, allowance)
