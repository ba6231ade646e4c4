"""Noisy Newton's method, damped far from the optimum and pure near it."""

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from privfit._checks import FloatArray, in_range, one_of, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.schedule import growing_shares, planned_release
from privfit.solvers.base import (
    AbstractSolver,
    Solution,
    Step,
    floored_inverse,
    keep_scale_positive,
    noise_norm,
    take_step,
)


@final
@dataclass(frozen=True, slots=True)
class NoisyNewton(AbstractSolver):
    """``theta <- theta - eta * H^-1 g`` with a noisy Hessian and a noisy gradient at every step.

    The step is damped until released quantities show that the iterate is in the basin of quadratic
    convergence, and pure (``eta = 1``) from then on. The switch is post-processing, so it is free.

    Parameters
    ----------
    n_steps : int
        Number of steps.
    damping : float, optional
        Fixed ``eta`` of the damped phase. Default: ``log(1 + beta) / beta``,
        ``beta = gamma * norm(H^-1 g)``, for a (gamma, 2)-self-concordant loss, and 1/2 for others.
    hessian_share : float
        Part of each step's squared budget that goes to its Hessian.
    growth : float
        Factor by which the squared budget of a step grows; 1 splits evenly.
    report : {"one-step", "last"}
        As in `NoisyGradientDescent`.

    Notes
    -----
    *Guarantee.* mu-GDP, as the 2K releases compose to ``sqrt(sum(mu_k**2)) <= mu``. Eigenvalues of the
    noisy Hessian are raised to its noise level ``sd * sqrt(2 q)``, which is post-processing.

    References
    ----------
    Avella-Medina, Bradshaw and Loh 2023, algorithms 2 and 3; the switch to the pure phase is their
    condition ``lambda_min(H)^(-1/2) * (g' H^-1 g)^(1/2) <= 1 / (16 gamma)``.
    """

    n_steps: int = 14
    damping: float | None = None
    hessian_share: float = 0.4
    growth: float = 1.3
    report: Literal["one-step", "last"] = "one-step"

    def __post_init__(self) -> None:
        whole(n_steps=self.n_steps)
        if self.damping is not None:
            in_range(0.0, 1.0, closed="right", damping=self.damping)
        in_range(0.0, 1.0, closed="neither", hessian_share=self.hessian_share)
        positive(growth=self.growth)
        one_of(("one-step", "last"), report=self.report)

    @property
    def name(self) -> str:
        """Name."""
        return "noisy Newton"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one Hessian and one gradient a step."""
        shares = growing_shares(self.n_steps, self.growth)
        planned = []
        for part in allowance.split(shares):
            for_hessian, for_gradient = part.split([self.hessian_share, 1.0 - self.hessian_share])
            planned.append(planned_release(problem, "hessian", for_hessian))
            planned.append(planned_release(problem, "gradient", for_gradient))
        return tuple(planned)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Run the planned steps."""
        theta = np.array(problem.start)
        steps: list[Step] = []
        hessians: list[Release] = []
        pure = False
        for _ in range(self.n_steps):
            hessian = oracle.release("hessian", theta)
            inverse = inverse_hessian(problem, hessian)
            step = take_step(problem, oracle, theta, inverse)
            pure = pure or in_basin(problem, theta, inverse, step.gradient)
            eta = 1.0 if pure else self._damping(problem, inverse @ step.gradient)
            step = Step(step.release, step.gradient, eta * inverse)
            steps.append(step)
            hessians.append(hessian)
            theta = self._move(problem, step, pure=pure)
        return Solution(problem, theta, tuple(steps), tuple(hessians[self.n_steps // 2 :]), self.report)

    def _move(self, problem: Problem, step: Step, *, pure: bool) -> FloatArray:
        theta = step.release.at
        change = step.preconditioner @ step.gradient
        if not pure and self_concordance(problem) is None:
            change = change * trust(problem, theta, change)
        return keep_scale_positive(problem, theta - change, theta)

    def _damping(self, problem: Problem, direction: FloatArray) -> float:
        if self.damping is not None:
            return self.damping
        gamma = self_concordance(problem)
        if gamma is None:
            return 0.5
        beta = gamma * float(np.linalg.norm(direction))
        return math.log1p(beta) / beta if beta > 0 else 1.0


def self_concordance(problem: Problem) -> float | None:
    """Return ``gamma`` of the objective: the loss's, times the largest ``norm(x)`` with full influence."""
    gamma = problem.loss.constants.self_concordance
    return None if gamma is None else gamma * problem.norm_bound


def inverse_hessian(problem: Problem, release: Release) -> FloatArray:
    """Return the inverse of a released Hessian, its eigenvalues raised to the noise level."""
    scale = problem.split(release.at)[1]
    matrix = release.value / scale + problem.ridge
    return floored_inverse(matrix, noise_norm(release.planned.sd, problem.size) / scale)


def trust(problem: Problem, theta: FloatArray, change: FloatArray) -> float:
    """Return the factor that keeps any row's predictor from moving by more than 4 thresholds at once.

    A threshold is the length over which the slope can rise by its bound: Huber's, or the width of a bend.
    Far from the optimum the Hessian of a Huber loss counts only the rows with small residuals, and a full
    step may lead to where it counts none.
    """
    constants = problem.loss.constants
    largest = 4.0 * constants.slope / constants.curvature * problem.split(theta)[1]
    predicted = problem.norm_bound * float(np.linalg.norm(change[: problem.n_coef]))
    return min(1.0, largest / predicted) if predicted > 0 else 1.0


def in_basin(problem: Problem, theta: FloatArray, inverse: FloatArray, gradient: FloatArray) -> bool:
    """Return whether released quantities show that pure Newton steps converge.

    For a self-concordant loss this is the source's condition. For the others the predicted change of any
    row's predictor must be below an eighth of a threshold, so that few residuals cross a kink.
    """
    direction = inverse @ gradient
    gamma = self_concordance(problem)
    if gamma is not None:
        decrement = math.sqrt(max(float(gradient @ direction), 0.0))
        return math.sqrt(float(np.linalg.eigvalsh(inverse)[-1])) * decrement <= 1.0 / (16.0 * gamma)
    return trust(problem, theta, 32.0 * direction) == 1.0
