"""The non-private reference: Newton's method on exact answers."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import FloatArray, positive, whole
from privfit.data.clamp import UNWEIGHTED
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
    column_sizes,
    entry_units,
    floored_inverse,
    keep_scale_positive,
    take_step,
    with_loss,
)
from privfit.solvers.residual_bounds import widest
from privfit.solvers.widths import has_widths, narrowed_to, narrowest

_SMALLEST = 1e-9
"""Least part of its bound that is added to a Hessian, so that a step has a length where it is singular."""

_FIRST, _LARGEST = 1e-7, 16.0
"""What is added after the first failure, and the most that is tried: 1 is enough but for rounding."""

_LONG_TRIES = 32
"""Halvings of a long step that the plan allows for, a step."""

_LONG = 1e-3
"""Steps that may move a row's predictor by more than this part of ``slope / curvature`` are long."""

_NEAR, _APPROACH = 1e-3, 60
"""A gradient, in standard deviations of a column, from which on Newton leads, and Huber's steps before it."""

_ARMIJO = 1e-4

_LOOKS = 3
"""Looks at residuals, each of which may narrow the smoothing of a quantile."""


@final
@dataclass(frozen=True, slots=True)
class NonPrivate(AbstractSolver):
    """The M-estimator itself, without noise: what the private solvers approximate. Not private.

    Newton steps until the norm of the gradient is below ``tolerance``, damped by adding a multiple of a bound
    on the Hessian, ``curvature * S`` with ``S`` the second moment of the rows, that falls while steps succeed
    and rises while they fail (Levenberg 1944; Moré 1978, *The Levenberg-Marquardt algorithm*). A long step
    succeeds if it lowers the objective, a short one if it shrinks the gradient; with the whole bound added no
    step climbs (Böhning and Lindsay 1988, *Monotonicity of quadratic-approximation algorithms*). For losses
    with a scale, Huber's steps until they are near the minimum, then Newton steps halved until the gradient
    shrinks. A quantile's smoothing is narrowed to suit the residuals, as the default methods do.

    Parameters
    ----------
    tolerance : float
        On the norm of the mean gradient in coordinates in which columns have a mean square of 1.
    max_steps : int
        Bound on gradient evaluations.
    """

    tolerance: float = 1e-12
    max_steps: int = 400

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(tolerance=self.tolerance)
        whole(max_steps=self.max_steps)

    @property
    def name(self) -> str:
        """Name."""
        return "Newton, without noise"

    def norm_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Weight no row down: no privacy asks for a bound."""
        del problem, allowance
        return UNWEIGHTED

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan exact answers; refuses a finite budget, which it cannot keep."""
        problem = widest(problem)
        if math.isfinite(allowance.amount):
            raise Incompatible("solver: NonPrivate adds no noise and cannot keep a budget")
        gradient = planned_release(problem, "gradient", allowance)
        hessian = planned_release(narrowest(problem), "hessian", allowance)
        moment = planned_release(problem, "second_moment", allowance)
        secant = planned_release(problem, "secant", allowance)
        steps = (gradient,) * self.max_steps + (hessian,) * self.max_steps
        looks = (planned_release(problem, "residuals", allowance),) * _LOOKS if has_widths(problem) else ()
        moments = (moment,) * (1 + len(looks))
        return (*steps, *moments, *looks, *(secant,) * (_LONG_TRIES * self.max_steps))

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem with the least smoothing that may be chosen."""
        del releases
        return narrowest(widest(problem))

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Iterate to convergence, and again with less smoothing where the loss is one that is smoothed."""
        problem = with_loss(problem, oracle, widest(problem).loss)
        step, bound = self._minimised(problem, oracle, np.array(problem.start))
        while oracle.remaining("residuals"):
            problem = narrowed_to(problem, oracle, step.release.at, math.inf)
            step, bound = self._minimised(problem, oracle, step.release.at)
        return Solution(problem, step.release.at, (step,), (), "last", bound=bound)

    def _minimised(self, problem: Problem, oracle: Oracle, theta: FloatArray) -> tuple[Step, FloatArray]:
        """Return the last step from ``theta``, and a bound on the Hessian of the coefficients."""
        step = take_step(problem, oracle, theta, np.zeros((problem.size, problem.size)))
        bound, moment = _hessian_bound(problem, oracle)
        sizes = np.ones(problem.size)
        sizes[: problem.n_linear] = column_sizes(moment)
        damping = _SMALLEST
        if problem.loss.has_scale:
            step = _approach(problem, oracle, step, moment, sizes=sizes)
            theta = step.release.at
        while np.linalg.norm(step.gradient / sizes) > self.tolerance and oracle.remaining("gradient"):
            hessian = oracle.release("hessian", theta).value / problem.split(theta)[1] + problem.ridge
            if problem.loss.has_scale:
                newton = _floored_inverse(hessian)
                following = _shrinking_step(problem, oracle, theta, step, newton)
            else:
                following, damping = _damped_step(
                    problem, oracle, step, hessian, bound=bound, damping=damping
                )
            if following is None:
                break
            step, theta = following, following.release.at
        return step, bound


def _damped_step(
    problem: Problem, oracle: Oracle, step: Step, hessian: FloatArray, *, bound: FloatArray, damping: float
) -> tuple[Step | None, float]:
    """Return the first step with a damped Hessian that succeeds, if any, and the damping to go on with."""
    theta = step.release.at
    while damping <= _LARGEST and oracle.remaining("gradient"):
        inverse = _pseudo_inverse(hessian + damping * bound)
        candidate = theta - inverse @ step.gradient
        descent = float(step.gradient @ inverse @ step.gradient)
        if _descends(problem, oracle, theta, candidate, least=_ARMIJO * descent):
            following = take_step(problem, oracle, candidate, np.zeros(bound.shape))
            left = float(following.gradient @ inverse @ following.gradient)
            if left < descent or _is_long(problem, candidate - theta):
                return following, max(_SMALLEST, 0.1 * damping)
        damping = max(4.0 * damping, _FIRST)
    return None, damping


def _approach(problem: Problem, oracle: Oracle, step: Step, moment: FloatArray, *, sizes: FloatArray) -> Step:
    """Return the last of Huber's steps, which lower the objective wherever they start.

    Coefficients and scale take turns (Huber 1981, *Robust Statistics*, section 7.8, modified residuals).
    Newton's do not arrive where all residuals are far beyond the threshold: there the Hessian is 0, and the
    gradient hardly changes.
    """
    for turn in range(_APPROACH):
        if np.linalg.norm(step.gradient / sizes) <= _NEAR or not oracle.remaining("gradient"):
            break
        following = _scale_moved(problem, step) if turn % 2 else _coefficients_moved(problem, step, moment)
        step = take_step(problem, oracle, following, np.zeros_like(problem.ridge))
    return step


def _coefficients_moved(problem: Problem, step: Step, moment: FloatArray) -> FloatArray:
    moved = step.release.at.copy()
    linear = slice(problem.n_linear)
    bound = problem.loss.constants.curvature * moment / moved[-1] + problem.ridge[linear, linear]
    moved[linear] -= _pseudo_inverse(bound) @ step.gradient[linear]
    return moved


def _scale_moved(problem: Problem, step: Step) -> FloatArray:
    """Return the point with the scale that clipped squared residuals have.

    Their mean share of what it should be is told by the gradient. Rows that count for nothing leave a part
    of the scale where it was.
    """
    moved = step.release.at.copy()
    share = 1.0 - 2.0 * step.gradient[-1] / problem.loss.constants.scale_curvature
    moved[-1] *= math.sqrt(max(share, 0.0))
    return keep_scale_positive(problem, moved, step.release.at)


def _shrinking_step(
    problem: Problem, oracle: Oracle, theta: FloatArray, step: Step, newton: FloatArray
) -> Step | None:
    """Return the step at the first of 1, 1/2, 1/4 ... Newton steps with a smaller gradient, if any.

    For losses with a scale, whose objective cannot be compared at two points by the planned queries.
    """
    size = 1.0
    while size > 1e-9 and oracle.remaining("gradient"):
        candidate = keep_scale_positive(problem, theta - size * newton @ step.gradient, theta)
        following = take_step(problem, oracle, candidate, np.zeros_like(newton))
        if np.linalg.norm(following.gradient) < np.linalg.norm(step.gradient):
            return following
        size /= 2
    return None


def _descends(
    problem: Problem, oracle: Oracle, theta: FloatArray, candidate: FloatArray, *, least: float
) -> bool:
    """Return whether a long step lowers the objective by ``least``; short ones are judged by gradients.

    The gradient of a loss that grows like a line saturates, so that it may shrink on the way up; and the
    difference of the objective drowns in rounding where the step is short.
    """
    if not np.isfinite(candidate).all():
        return False
    length = float(np.linalg.norm(candidate - theta))
    if not _is_long(problem, candidate - theta):
        return True
    if not oracle.remaining("secant"):
        return False
    secant = float(oracle.release("secant", np.concatenate([theta, candidate])).value[0])
    ridge = 0.5 * float(candidate @ problem.ridge @ candidate - theta @ problem.ridge @ theta)
    return length * secant + ridge <= -least


def _is_long(problem: Problem, move: FloatArray) -> bool:
    constants = problem.loss.constants
    reach = float(np.linalg.norm(move)) * problem.norm_bound
    return reach * constants.curvature > _LONG * constants.slope


def _pseudo_inverse(matrix: FloatArray) -> FloatArray:
    """Return a pseudo-inverse that leaves out collinear columns, whatever their units."""
    units = entry_units(matrix)
    return np.linalg.pinv(matrix / units, hermitian=True, rcond=1e-14) / units


def _floored_inverse(matrix: FloatArray) -> FloatArray:
    units = entry_units(matrix)
    return floored_inverse(matrix / units, 1e-12 * len(matrix)) / units


def _hessian_bound(problem: Problem, oracle: Oracle) -> tuple[FloatArray, FloatArray]:
    """Return a bound on the Hessian of the coefficients everywhere, and the second moment; (q, q) each."""
    moment = problem.each_output(oracle.release("second_moment", np.array(problem.start)).value)
    ridge = problem.ridge[: problem.n_linear, : problem.n_linear]
    return problem.loss.constants.curvature * moment + ridge, moment
