"""Noisy gradient descent in coordinates whitened by a private second moment; the default."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from privfit._checks import FloatArray, in_range, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import growing_shares, planned_release, signal_of
from privfit.solvers.base import (
    AbstractSolver,
    Solution,
    Step,
    floored_inverse,
    keep_scale_positive,
    noise_norm,
    take_step,
)
from privfit.solvers.requirements import need_convex, need_smooth

_FAR_ROWS = 4.0
"""Rows without a schema may be this many times longer than the norm bound before it weights them down."""

SMALLEST_SPREAD = 1.2
"""``c**2 / p`` where privacy noise dominates."""

_RARE_CLASSES = 2.0
"""Times as many steps with several classes: the rarer a class, the smaller the Hessian in its direction."""

_MOST_STEPS = 100
"""For losses whose curvature bound makes steps short."""


@final
@dataclass(frozen=True, slots=True)
class WhitenedGradientDescent(AbstractSolver):
    """Gradient steps in coordinates in which the columns have unit variance and no correlation.

    Two private second moments ``S = (1/n) sum w x x'``, the second asked for in the coordinates that the
    first gives, yield ``P ~ S^(-1/2)``. In the coordinates ``P'x`` rows get Mallows weights
    ``min(1, c**2 / norm(P'x)**2)``, ``c**2 = spread * p``. That bounds the gradient by ``c`` with few
    rows weighted down, gives the noise the shape of the problem, and makes the Hessian close to a multiple
    of the identity. So a step of size ``1 / curvature`` needs no tuning and converges at a rate that does
    not depend on the scale or correlation of the columns, and the bread is resolved with little budget.
    The inference then combines the late gradients in one Newton step.

    Parameters
    ----------
    n_steps : int, optional
        Default ``1.5 log(n mu)``, rounded, between 6 and 40; up to 100 where the bound on the curvature,
        and so the length of a step, is far from what is typical (`AbstractLoss.slack`).
    geometry_share : float
        Part of the squared budget that buys the two second moments, in equal parts.
    spread : float, optional
        ``c**2 / p``. By default as large as the noise allows, and at least 1.2: ``c**2`` is raised to
        ``min(0.03 n mu**2, 0.015 n mu / sqrt(p), n)``. There the noise is about as large as the sampling
        variation, that of the bread is about a tenth of its eigenvalues, and ``n`` is the largest
        squared norm that a whitened row can have. So rows are weighted down only as far as the budget
        requires, and with a large budget not at all. Where a schema bounds the rows, so that the
        unweighted fit is what the user knows, the first is ``1 + 5 / p + 15 / p**2`` and the second
        ``1 + 5 / p`` times as large: with few columns that costs little.
    growth : float
        Ratio of the squared budgets of the last and the first step; the steps between grow evenly.
    momentum : float
        In [0, 1). Each step starts this part of the last move further on (Nesterov 2004, section 2.2). It
        costs no privacy. Where predictors are far from even odds the Hessian is much smaller than its bound
        in some directions, and plain steps would not get there in time.

    Notes
    -----
    *Guarantee.* mu-GDP by composition of two matrices and K gradients. The basis is a function of earlier
    releases; the Mallows weights bound every row in it, so all sensitivities are known beforehand.

    The estimate is an M-estimator with weights that are fixed given the released basis. For a correctly
    specified model it estimates the same coefficients as the unweighted one.

    References
    ----------
    Mallows 1975, *On some topics in robustness*, for the weights; Kamath, Li, Singhal and Ullman 2019,
    *Privately learning high-dimensional distributions*, for repeated private preconditioning; Böhning and
    Lindsay 1988 for the step size.
    """

    n_steps: int | None = None
    geometry_share: float = 0.18
    spread: float | None = None
    growth: float = 16.0
    momentum: float = 0.4

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.n_steps is not None:
            whole(n_steps=self.n_steps)
        in_range(0.0, 1.0, closed="neither", geometry_share=self.geometry_share)
        if self.spread is not None:
            positive(spread=self.spread)
        positive(growth=self.growth)
        in_range(0.0, 1.0, closed="left", momentum=self.momentum)

    @property
    def name(self) -> str:
        """Name."""
        return "whitened gradient descent"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan two second moments and one gradient a step."""
        need_smooth(problem, "WhitenedGradientDescent")
        need_convex(problem, "WhitenedGradientDescent")
        mu = allowance.signal(problem.size)
        n_steps = self._steps(problem, mu)
        steps = growing_shares(n_steps, self.growth ** (1.0 / n_steps))
        half = 0.5 * self.geometry_share
        shares = [half, half, *(part * (1.0 - self.geometry_share) for part in steps)]
        for_first, for_second, *for_gradients = allowance.split(shares)
        first = planned_release(problem, "second_moment", for_first)
        squared_bound = self._squared_bound(problem, mu)
        after_first = whitened_bounds(problem, [first], squared_bound)
        second = planned_release(after_first, "second_moment", for_second)
        after_second = whitened_bounds(problem, [first, second], squared_bound)
        gradients = (planned_release(after_second, "gradient", part) for part in for_gradients)
        return (first, second, *gradients)

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem with the bounds that hold after the planned second moments."""
        moments = [planned for planned in releases if planned.kind == "second_moment"]
        return whitened_bounds(
            problem, moments, self._squared_bound(problem, signal_of(releases, problem.size))
        )

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Release the geometry, then run the planned steps."""
        signal = signal_of(oracle.plan.solver_releases, problem.size)
        start, squared_bound = problem, self._squared_bound(problem, signal)
        moments: list[PlannedRelease] = []
        basis = np.eye(problem.n_coef)
        for _ in range(oracle.remaining("second_moment")):
            moment = oracle.release("second_moment", np.array(problem.start))
            moments.append(moment.planned)
            basis = basis @ inverse_root(moment.value, damping(moment.planned, problem.n_coef))
            problem = replace(whitened_bounds(start, moments, squared_bound), basis=basis)
            oracle.change_basis(problem)
        return self._descend(problem, oracle)

    def _descend(self, problem: Problem, oracle: Oracle) -> Solution:
        theta = point = np.array(problem.start)
        steps: list[Step] = []
        for _ in range(oracle.remaining("gradient")):
            step = take_step(problem, oracle, point, majorising_step(problem, point))
            steps.append(step)
            following = keep_scale_positive(problem, point - step.preconditioner @ step.gradient, point)
            point = self._extrapolated(problem, following, theta)
            theta = following
        return Solution(problem, theta, tuple(steps), (), "one-step")

    def _extrapolated(self, problem: Problem, theta: FloatArray, previous: FloatArray) -> FloatArray:
        """Go on beyond ``theta``, away from ``previous``; a scale, which must stay positive, stays."""
        p = problem.n_linear
        point = theta.copy()
        point[:p] += self.momentum * (theta[:p] - previous[:p])
        return point

    def _steps(self, problem: Problem, mu: float) -> int:
        if self.n_steps is not None:
            return self.n_steps
        signal = problem.n_rows * min(mu, 1e12)
        usual = int(np.clip(round(1.5 * math.log(max(signal, 1.0))), 6, 40))
        looser = problem.loss.slack[1] * (_RARE_CLASSES if problem.loss.n_outputs > 1 else 1.0)
        return min(math.ceil(usual * looser), max(usual, _MOST_STEPS))

    def _squared_bound(self, problem: Problem, mu: float) -> float:
        """Return ``c**2`` from public facts."""
        p, n, mu = problem.n_coef, problem.n_rows, min(mu, 1e12)
        if self.spread is not None:
            return self.spread * p
        of_slope, of_curvature = problem.loss.slack
        for_noise = 0.03 * n * (mu / of_slope) ** 2
        for_bread = 0.015 * n * mu / (math.sqrt(problem.n_linear) * of_curvature)
        if problem.bounded:
            for_noise *= 1.0 + 5.0 / p + 15.0 / p**2
            for_bread *= 1.0 + 5.0 / p
        return max(SMALLEST_SPREAD * p, min(for_noise, for_bread, n))


def whitened_bounds(problem: Problem, moments: list[PlannedRelease], squared_bound: float) -> Problem:
    """Return the problem with the bounds in whitened coordinates, all from public facts.

    The basis is a product of inverse roots of matrices with eigenvalues of at least the damping, so its
    norm is at most the product of ``damping**-0.5``.
    """
    stretch = math.prod(damping(planned, problem.n_coef) ** -0.5 for planned in moments)
    return problem.bounded_by(math.sqrt(squared_bound), _FAR_ROWS * problem.norm_bound * stretch)


def damping(planned: PlannedRelease, n_coef: int) -> float:
    """Return what is added to the eigenvalues of a second moment: its noise's spectral norm, halved."""
    return max(0.5 * noise_norm(planned.sd, n_coef), 1e-10)


def inverse_root(matrix: FloatArray, added: float) -> FloatArray:
    """Return ``(S + added * I)^(-1/2)`` of a symmetric matrix, negative eigenvalues raised to 0."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / np.sqrt(np.maximum(values, 0.0) + added)) @ vectors.T


def majorising_step(problem: Problem, theta: FloatArray) -> FloatArray:
    """Return the inverse of a bound on the Hessian in whitened coordinates, shape (q, q).

    The Hessian of the coefficients is at most ``curvature / scale`` times the second moment, which is at
    most about the identity; the scale's own second derivative is about ``scale_curvature / scale``.
    """
    constants = problem.loss.constants
    bound = constants.curvature * np.eye(problem.size)
    if problem.loss.has_scale:
        bound[-1, -1] = constants.scale_curvature
    return floored_inverse(bound / problem.split(theta)[1] + problem.ridge, 0.0)
