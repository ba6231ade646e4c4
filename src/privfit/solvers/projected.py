"""Projected noisy gradient descent with averaging: any convex loss, with a bound on the excess risk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import MOST_RELEASES, SIZES, FloatArray, in_range, optional, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import planned_release
from privfit.solvers.base import AbstractSolver, Solution, Step, take_step
from privfit.solvers.requirements import need_convex, need_no_scale

DEFAULT_RADIUS = 4.0
"""Radius of the ball in encoded coordinates, where columns lie within [-1, 1] and a numeric response too."""

LARGEST_DEFAULT_STEPS = 400
"""Most steps that are planned unasked: each is a pass over the rows, and the bound falls as ``T**-0.5``."""

_NEAR_BEST = 1.05
"""The fewest steps are planned whose bound is within this factor of the best one."""


@final
@dataclass(frozen=True, slots=True)
class ProjectedNoisyGradientDescent(AbstractSolver):
    """Average of ``theta <- project(theta - eta * (subgradient + noise))`` over a ball, from 0.

    For any convex loss with a bounded slope, kinks included. With ``T`` planned steps there are ``T``
    iterates ``theta_0 = 0, ..., theta_{T-1}``, of which all but the first cost a noisy gradient.

    Parameters
    ----------
    radius : float, optional
        Radius ``R`` of the ball in encoded coordinates. Default: 4, or `minimiser_radius` where that is
        smaller; then the ball is no constraint. In the ball of that radius the method solves the ridge
        problem over the whole space.
    n_steps : int, optional
        ``T``, at least 2. Default: the fewest whose error bound is within 5 % of the best, and at most
        `LARGEST_DEFAULT_STEPS` (400).
    step_size : float, optional
        ``eta``. Default ``R / (B sqrt(T))``, which minimises the bound.

    Notes
    -----
    *Guarantee.* mu-GDP: each of the ``T - 1`` gradients has noise for its part of the budget. Under a pure
    budget the noise is radial and the epsilons of the steps add up. Projection, average and step size are
    functions of releases and public numbers. Both neighbouring relations.

    *Error.* Let ``C`` bound the gradient of the objective in the ball and ``B**2 = C**2 + (1 - 1/T) q sd**2``
    with ``sd`` the noise of each of q entries. Then ``E F(average) - min F`` is at most
    ``R**2 / (2 T eta) + eta B**2 / 2``, which is ``R B / sqrt(T)`` for the default step (see `error_bound`).

    *Inference* needs a smooth loss, and takes Newton steps from the average, see `privfit.inference.polish`.
    The average itself is what is reported with ``inference=False``; the error bound is about it.

    References
    ----------
    Nikolov 2018, *Differentially private empirical risk minimization* (lecture notes), theorem 1;
    Bassily, Smith and Thakurta 2014, *Private empirical risk minimization*.
    """

    radius: float | None = None
    n_steps: int | None = None
    step_size: float | None = None
    releases_a_point: ClassVar[bool] = True
    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(in_range, *SIZES, radius=self.radius)
        optional(whole, 2, MOST_RELEASES, n_steps=self.n_steps)
        optional(positive, step_size=self.step_size)

    @property
    def name(self) -> str:
        """Name with the radius, if it was given."""
        radius = "" if self.radius is None else f", radius {self.radius:g}"
        return f"projected noisy gradient descent{radius}"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan ``T - 1`` gradients with equal noise."""
        need_convex(problem, "ProjectedNoisyGradientDescent")
        need_no_scale(problem, "ProjectedNoisyGradientDescent")
        asked = self._steps(problem, allowance) - 1
        each = planned_release(problem, "gradient", allowance.split([1.0] * asked)[0])
        return (each,) * asked

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Run the planned steps and average the iterates."""
        planned = [one for one in oracle.plan.solver_releases if one.kind == "gradient"]
        n_steps, radius = len(planned) + 1, self.ball(problem)
        eta = self.step_size or radius / (_root_mean_square(problem, radius, planned) * math.sqrt(n_steps))
        preconditioner = eta * np.eye(problem.size)
        theta = np.zeros(problem.size)
        total = np.zeros(problem.size)
        steps: list[Step] = []
        for _ in planned:
            total += theta
            steps.append(take_step(problem, oracle, theta, preconditioner))
            theta = project(theta - eta * steps[-1].gradient, radius)
        return Solution(problem, (total + theta) / n_steps, tuple(steps), (), "point")

    def ball(self, problem: Problem) -> float:
        """Return the radius of the ball that the method stays in."""
        if self.radius is not None:
            return self.radius
        return min(DEFAULT_RADIUS, minimiser_radius(problem))

    def error_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Return a bound on the expected excess risk over the ball, from public numbers.

        Parameters
        ----------
        problem : Problem
        allowance : Allowance
            What the solver may spend; the rest of a budget pays for inference.

        Returns
        -------
        float
            At least ``E F(theta) - min F`` over the ball, expectation over the noise, with ``F`` the
            objective on the rows, weights and ridge included, and ``theta`` the average of the iterates.
            Under ``add_remove`` it holds for tables of at most ``problem.n_rows`` rows.

        Notes
        -----
        With ``z_t`` the noisy gradient, ``|theta_t - u|**2`` is at most ``|theta_{t-1} - u|**2
        - 2 eta z_t'(theta_{t-1} - u) + eta**2 |z_t|**2`` for any ``u`` in the ball, as projection brings
        points closer. Summed over ``t = 1..T`` and with
        ``E z_t'(theta_{t-1} - u) >= E F(theta_{t-1}) - F(u)`` this gives the bound. The
        ``T``-th step is not taken, so its gradient needs no noise: hence ``1 - 1/T``. The source has the
        larger ``B**2 = C**2 + q sd**2`` with the noise of T steps.
        """
        planned = self.plan(problem, allowance)
        radius, n_steps = self.ball(problem), len(planned) + 1
        square = _root_mean_square(problem, radius, planned) ** 2
        eta = self.step_size or radius / math.sqrt(square * n_steps)
        return 0.5 * (radius**2 / (n_steps * eta) + eta * square)

    def steps_for(self, accuracy: float, problem: Problem) -> int:
        """Return ``T = 4 R**2 C**2 / accuracy**2``, rounded up, and at least 2.

        With that many steps, the default step size and `rows_for` as many rows, `error_bound` is at most
        ``accuracy``: ``R B / sqrt(T) <= R C / sqrt(T) + R sd sqrt(q / T)``, each at most half of it.
        """
        radius = self.ball(problem)
        ratio = 2.0 * radius * problem.ridged_gradient_bound(radius) / positive(accuracy=accuracy)
        return max(2, math.ceil(ratio**2))

    def rows_for(self, accuracy: float, problem: Problem, allowance: Allowance) -> int:
        """Return the number of rows from which `error_bound` is at most ``accuracy`` with `steps_for` steps.

        Parameters
        ----------
        accuracy : float
            Expected excess risk, in units of the loss.
        problem : Problem
            Its own number of rows plays no role.
        allowance : Allowance

        Returns
        -------
        int
            Under ``replace`` ``4 R C sqrt(q) / (accuracy mu)`` for a Gaussian allowance and
            ``4 R C sqrt(q (q + 1) T) / (accuracy epsilon)`` for a pure one, rounded up; under ``add_remove``
            half of that.
        """
        reach = 2.0 * self.ball(problem) * problem.sensitivity("gradient") * problem.n_rows
        noise = _noise_growth(problem, allowance, self.steps_for(accuracy, problem))
        return max(1, math.ceil(reach * noise / accuracy * (1.0 + 1e-5)))

    def _steps(self, problem: Problem, allowance: Allowance) -> int:
        if self.n_steps is not None:
            return self.n_steps
        radius = self.ball(problem)
        slope = problem.ridged_gradient_bound(radius)

        def bound(steps: int) -> float:
            noise = problem.sensitivity("gradient") * _noise_growth(problem, allowance, steps - 1)
            return math.hypot(slope / math.sqrt(steps), noise * (1.0 - 1.0 / steps))

        bounds = {steps: bound(steps) for steps in range(2, LARGEST_DEFAULT_STEPS + 1)}
        best = min(bounds.values())
        return next(steps for steps, value in bounds.items() if value <= _NEAR_BEST * best)


def project(theta: FloatArray, radius: float) -> FloatArray:
    """Return the nearest point of the ball around 0."""
    return theta / max(1.0, float(np.linalg.norm(theta)) / radius)


def minimiser_radius(problem: Problem) -> float:
    """Return ``C / l2``, a ball of which holds the minimiser over the whole space; ``inf`` if none is known.

    At the minimiser ``l2 * theta`` balances the gradient of the loss, which is at most ``C``. Where the ridge
    spares a column, as it spares the intercept by default, no ball follows from public facts: if all
    responses are equal, a logistic intercept has its optimum at infinity.
    """
    if problem.l2 == 0.0 or not all(problem.penalised):
        return math.inf
    return problem.gradient_bound / problem.l2


def _root_mean_square(problem: Problem, radius: float, planned: Sequence[PlannedRelease]) -> float:
    """Return ``B = sqrt(C**2 + (1 - 1/T) q sd**2)``."""
    noise = math.fsum(one.size * one.sd**2 for one in planned) / (len(planned) + 1)
    return math.hypot(problem.ridged_gradient_bound(radius), math.sqrt(noise))


def _noise_growth(problem: Problem, allowance: Allowance, asked: int) -> float:
    """Return the length of the noise of ``asked`` equal gradients, over sensitivity and ``sqrt(asked)``."""
    q, amount = problem.size, allowance.amount
    if math.isinf(amount):
        return 0.0
    return math.sqrt(q * (q + 1.0) * asked) / amount if allowance.pure else math.sqrt(q) / amount
