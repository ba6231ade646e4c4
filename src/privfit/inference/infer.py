"""Plan and run the inference after a solver: bread, meat, estimate, covariance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, in_range, optional
from privfit.inference.agreement import widened
from privfit.inference.arrival import (
    UNKNOWN,
    Turning,
    far_along,
    left_to_go,
    too_long,
    unfinished,
)
from privfit.inference.asked import Asked, ask
from privfit.inference.combine import Estimate, anchor, last_iterate
from privfit.inference.controls import (
    Shift,
    hidden_numbers,
    hidden_slopes,
    in_parameter,
    shifted,
    spreads_within,
    uncontrolled,
)
from privfit.inference.covariance import Bread, hidden, spread
from privfit.inference.cut_counts import with_cuts
from privfit.inference.cut_levels import may_be_cut
from privfit.inference.cut_numbers import hidden_counts, numbers_may_be_cut
from privfit.inference.density_slope import corrected
from privfit.inference.ends import may_be_without_end
from privfit.inference.found import Found
from privfit.inference.points_apart import straightened
from privfit.inference.polish import GRADIENT_SHARES, HESSIAN_SHARES, of_last_gradients, polished
from privfit.inference.recoded import Recoded, other_references
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.schedule import planned_release
from privfit.solvers.base import AbstractSolver, Solution, floored_inverse, keep_scale_positive
from privfit.solvers.self_concordance import SECOND_ORDER, mean_curvature, turning_at

_SMALLEST = math.sqrt(np.finfo(float).tiny / np.finfo(float).eps)
"""Unit in which a variance may underflow, to a standard error of 0."""


@dataclass(frozen=True, slots=True)
class BudgetSplit:
    """Parts of the squared budget that buy bread and meat; the solver has the rest.

    Give it as ``inference=`` of a fit or a plan, in place of True. A pure budget is split in proportion to
    the square roots.

    Parameters
    ----------
    bread, meat : float, optional
        In (0, 1), with a sum below 1. By default what the solver says: 0.18 and 0.04; after the default
        method from 0.08 to 0.18 and from 0.02 to 0.25, by rows, columns, budget and loss.
    """

    bread: float | None = None
    meat: float | None = None

    def __post_init__(self) -> None:
        bread = optional(in_range, 0.0, 1.0, closed="neither", bread=self.bread) or 0.0
        optional(in_range, 0.0, 1.0 - bread, closed="neither", meat=self.meat)


@dataclass(frozen=True, slots=True, eq=False)
class Inference:
    """Estimate and covariance of ``directions @ theta + shift``, for k reported coefficients.

    Parameters
    ----------
    theta : array of shape (n_linear,)
        Coefficients of the encoded columns, p for each linear predictor of the loss.
    scale : float or None
        Residual scale in units of the encoded response, for losses that estimate one.
    cov_sampling, cov_noise : array of shape (k, k) or None
    dof, joint_dof : array of shape (k,) or None
        Degrees of freedom of each variance, and of the covariance matrix along each coefficient.
    hiding : tuple of int
        Places of numbers that noise hides as a whole, of every row or within a level, so that others are
        given up beside them.
    recoded : Recoded or None
        The same told from other levels of reference, where that tells more.
    """

    theta: FloatArray
    scale: float | None
    cov_sampling: FloatArray | None
    cov_noise: FloatArray | None
    dof: FloatArray | None
    joint_dof: FloatArray | None
    hiding: tuple[int, ...] = ()
    recoded: Recoded | None = None

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Which reported coefficients nothing is known of, (k,); without inference none."""
        return np.isinf(np.diagonal(np.zeros((0, 0)) if self.cov_noise is None else self.cov_noise))

    def recoded_by(self, matrix: FloatArray) -> Recoded | None:
        """Return it as what is known of ``matrix @ reported``."""
        if self.cov_sampling is None or self.cov_noise is None or self.dof is None or self.joint_dof is None:
            return None
        return Recoded(matrix, self.cov_sampling, self.cov_noise, self.dof, self.joint_dof)


def inference_shares(
    split: BudgetSplit, problem: Problem, solver: AbstractSolver, allowance: Allowance
) -> list[float]:
    """Return the parts of a fit's squared budget that inference needs, in the order of `plan_inference`."""
    usual = solver.matrix_shares(problem, allowance)
    bread = usual.bread if split.bread is None else split.bread
    meat = usual.meat if split.meat is None else split.meat
    steps = [*HESSIAN_SHARES, *GRADIENT_SHARES] if solver.releases_a_point else []
    return [bread, meat, *steps]


def plan_inference(problem: Problem, parts: Sequence[Allowance]) -> tuple[PlannedRelease, ...]:
    """Plan bread and meat, after Hessians and gradients for Newton steps if there are parts for them."""
    for_bread, for_meat, *for_steps = parts
    bread, meat = planned_release(problem, "hessian", for_bread), planned_release(problem, "meat", for_meat)
    if not for_steps:
        return (bread, meat)
    count = len(HESSIAN_SHARES)
    hessians = (planned_release(problem, "hessian", part) for part in for_steps[:count])
    gradients = (planned_release(problem, "gradient", part) for part in for_steps[count:])
    return (*hessians, *gradients, bread, meat)


def infer(solution: Solution, oracle: Oracle, *, directions: FloatArray) -> Inference:
    """Ask for bread and meat and return the estimate with its covariance.

    Parameters
    ----------
    solution : Solution
    oracle : Oracle
        Holds the planned bread and meat.
    directions : array of shape (k, n_linear)
        Reported coefficients as linear functions of the encoded ones.
    """
    from_point = solution.report == "point"
    solution, asked = ask_planned(solution, oracle)
    found = _inferred(solution, asked, oracle.released, directions, from_point=from_point)
    matrix = other_references(solution.problem, asked.bread, found.unknown)
    if matrix is None or from_point:  # the estimate from a point depends on what is reported
        return found
    other = _inferred(solution, asked, oracle.released, matrix @ directions, from_point=from_point)
    fewer = np.sum(other.unknown) < np.sum(found.unknown)
    return replace(found, recoded=other.recoded_by(matrix)) if fewer else found


def ask_planned(solution: Solution, oracle: Oracle) -> tuple[Solution, Asked]:
    """Ask for all that is planned for inference: bread and meat, after Newton steps from a released point."""
    from_point = solution.report == "point"
    if from_point:
        solution = polished(solution, oracle)
    return solution, ask(solution, oracle, half_way=not from_point)


def _inferred(
    solution: Solution,
    asked: Asked,
    releases: Sequence[Release],
    directions: FloatArray,
    *,
    from_point: bool,
) -> Inference:
    """Return what released bread and meat say."""
    problem, unit = solution.problem, _unit_of(directions)
    reported = in_parameter(problem, directions) / unit[:, None]
    cov_sampling, of_meat = asked.sampling_of(reported)
    if from_point:
        estimate, astray = of_last_gradients(solution, asked.bread, reported, np.diag(cov_sampling))
    else:
        estimate, astray = _along_steps(solution, directions, asked)
    found = Found(estimate, asked.bread, asked.sampling, asked.most_curved)
    unknown = hidden(reported, asked.bread) | uncontrolled(
        problem, directions, asked.bread, solution.at_bounds
    )
    unknown = unknown | astray | _may_be_far_off(solution, directions, found, releases)
    estimate = with_cuts(solution, found, asked.meat, releases)
    estimate = corrected(estimate, problem, hessian=asked.bread.matrix, center=asked.center)
    cov_noise = reported @ spread(estimate.cov_noise, asked.bread) @ reported.T
    total = np.diag(cov_sampling + cov_noise)
    shifts = hidden_slopes(problem, asked.bread, solution.at_bounds)
    of_row, along = asked.rows * asked.sampling, directions / unit[:, None]
    far = shifted(shifts, along, bread=asked.at_end, sampling=of_row, total=total)
    unknown = unknown | far.any(axis=0) | (unit < _SMALLEST) | asked.bent_too_far(reported, total)
    freedom = asked.freedom(reported, estimate, of_meat=of_meat, noise=np.diag(cov_noise), total=total)
    theta = keep_scale_positive(problem, estimate.theta, asked.center)
    return Inference(
        *_parameter(problem, theta),
        *(_times(unit, each) for each in (cov_sampling, _without(unknown, cov_noise))),
        *(np.where(unknown, np.inf, each) for each in freedom),
        hiding=_hiding(solution, asked.bread, [shifts[k] for k in np.flatnonzero(far.any(axis=1))]),
    )


def _without(unknown: NDArray[np.bool_], cov_noise: FloatArray) -> FloatArray:
    """Return the covariance with infinite variances, and no covariances, of unknown coefficients."""
    found = cov_noise.copy()
    found[unknown], found[:, unknown] = 0.0, 0.0
    found[unknown, unknown] = np.inf
    return found


def _may_be_far_off(
    solution: Solution, directions: FloatArray, found: Found, releases: Sequence[Release]
) -> NDArray[np.bool_]:
    """Return which reported coefficients may be so far off that no interval says anything, (k,)."""
    endless, cut = (of(solution, directions, found) for of in (may_be_without_end, may_be_cut))
    return endless | cut | numbers_may_be_cut(solution, directions, found, hidden=hidden_counts(releases))


def _hiding(solution: Solution, bread: Bread, shifts: Sequence[Shift]) -> tuple[int, ...]:
    """Return the places of numbers that noise hides, of every row or within the levels of these shifts."""
    numbers = solution.problem.numbers
    lost = np.flatnonzero(np.any(hidden_numbers(solution.problem, bread, solution.at_bounds), axis=0))
    return (*(numbers[k][0] for k in lost), *(shift.place for shift in shifts))


def _along_steps(
    solution: Solution, directions: FloatArray, asked: Asked
) -> tuple[Estimate, NDArray[np.bool_]]:
    """Return the estimate that a solver's steps lead to, and along which directions they may not arrive."""
    problem, bread, sampling = solution.problem, asked.on_the_way, asked.sampling
    if solution.report == "last":
        estimate = unfinished(last_iterate(solution, bread), solution, bread)
        return estimate, np.full(len(directions), not estimate.arrived)
    turning = _turning(problem, bread, sampling)
    of_gradients = math.sqrt(float(np.sum((bread.matrix @ sampling) * bread.matrix)) / len(sampling))
    estimate = widened(solution.late, bread, solution.bend, turning, of_gradients)
    estimate = straightened(estimate, solution, asked.center, bread)
    astray = not estimate.arrived or (solution.model is None and too_long(estimate, bread, sampling))
    astray = astray or left_to_go(solution.steps, estimate, bread, turning)
    return estimate, _left_behind(problem, directions, estimate, asked) | astray


def _unit_of(directions: FloatArray) -> FloatArray:
    """Return a power of two about as large as each direction, (k,), in which its square does not underflow.

    Numbers are exact in such units. Coefficients of columns with bounds of 1e80 have variances whose squares,
    which degrees of freedom are found from, would be 0.
    """
    _, exponent = np.frexp(np.max(np.abs(directions), axis=1))
    return np.ldexp(1.0, exponent - 1)


def _times(unit: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the covariance of what is measured in these units; infinite where it is too large."""
    with np.errstate(over="ignore"):
        return covariance * unit[:, None] * unit


def _turning(problem: Problem, bread: Bread, sampling: FloatArray) -> Turning:
    """Return how fast the curvature changes, for models with a constant in encoded coordinates.

    There the bread tells the mean curvature ``h``, and ``v'M v / h`` is the mean square by which predictors
    change over a step ``v``.
    """
    mean, bending = mean_curvature(problem, bread.matrix), problem.loss.bending
    if mean == 0.0 or bending == 0.0:
        return UNKNOWN
    rate = turning_at(problem, bread.matrix) / math.sqrt(mean)
    sampled = float(np.sum(bread.matrix * sampling)) / len(sampling)
    return Turning(rate, sampled, SECOND_ORDER * bending**2 / mean)


def _left_behind(
    problem: Problem, directions: FloatArray, estimate: Estimate, asked: Asked
) -> NDArray[np.bool_]:
    """Return which reported coefficients, (k,), are of levels or slopes within them that are `far_along`."""
    rate, first = problem.loss.turning(0.0), int(problem.has_intercept)
    if not any(problem.indicators[first:]) or rate == 0.0 or problem.loss.n_outputs > 1:
        return np.zeros(len(directions), dtype=np.bool_)
    units = {place: 1.0 for place in range(first, problem.n_coef) if problem.indicators[place]}
    units |= spreads_within(problem, asked.on_the_way)
    places = np.array(list(units), dtype=np.intp)
    along = in_parameter(problem, np.array(list(units.values()))[:, None] * np.eye(problem.n_coef)[places])
    far = far_along(estimate, asked.center, along=along, rate=rate, sampling=asked.sampling)
    return (directions[:, places[far]] != 0.0).any(axis=1)


def estimate_only(solution: Solution) -> Inference:
    """Return the estimate without inference: the solver's geometry stands in for the bread."""
    problem, center = solution.problem, solution.theta
    unknown = hessian = np.eye(center.size)
    estimate = Estimate(center, unknown)
    if solution.report == "one-step":
        around = anchor(solution.late)
        center, inverse = around.theta, around.preconditioner
        estimate = Estimate(center - inverse @ around.gradient, unknown, around.steps, around.parts)
        hessian = floored_inverse(inverse, 0.0)
    estimate = corrected(estimate, problem, hessian=hessian, center=center)
    theta = keep_scale_positive(problem, estimate.theta, center)
    return Inference(*_parameter(problem, theta), None, None, None, None)


def _parameter(problem: Problem, theta: FloatArray) -> tuple[FloatArray, float | None]:
    scale = problem.split(theta)[1] if problem.loss.has_scale else None
    return problem.coefficients(theta), scale
