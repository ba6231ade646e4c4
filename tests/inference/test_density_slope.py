"""What smoothing and distant points add where a density has a slope, and that it is taken away."""

from dataclasses import replace

import numpy as np
import pytest

from privfit.inference.combine import Estimate, anchor, one_step
from privfit.inference.covariance import Bread
from privfit.inference.density_slope import corrected
from privfit.losses import DensitySlope, SmoothedQuantile
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.base import Step

NAMES = ("const", "x1", "x2")
DENSITY, SLOPE = 0.3, 2.0
ROWS = np.array([[1.0, a + 0.4, b - 0.1] for a in (-1.0, 1.0) for b in (-2.0, 0.0, 2.0)])
"""Symmetric about their mean."""


def problem_of(loss, has_intercept=True, basis=None):
    penalised = (not has_intercept, True, True)
    return Problem(
        loss, NAMES, 4.0, 100, Relation.REPLACE, 0.0, (0.0,) * 3, penalised, response_bound=1.0, basis=basis
    )


def loss_of(width, mean=SLOPE, sd=0.0, uneven=0.0):
    return SmoothedQuantile(0.1, width, density_slope=DensitySlope(mean, sd, uneven))


def step_at(at, width, rows):
    """The mean gradient over rows at a distance ``at`` from the quantile, of a density that is a line."""
    predictors = rows @ at
    shares = DENSITY * (predictors + 0.5 * SLOPE * (predictors**2 + width**2 / 3.0))
    value = rows.T @ shares / len(rows)
    release = Release(PlannedRelease("gradient", at.size, 1.0, 1.0, 0.0), at, value)
    return Step(release, value, np.eye(at.size))


def newton_step(points, center, width, rows):
    hessian = (rows.T * (DENSITY * (1.0 + SLOPE * (rows @ center)))) @ rows / len(rows)
    bread = Bread(hessian, np.linalg.inv(hessian), 0.0, np.zeros((3, 0)))
    steps = [step_at(point, width, rows) for point in points]
    return one_step(anchor(steps), bread), hessian


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("width", [0.0001, 0.1])
def test_what_is_left_is_of_third_order(width, turned, rng):
    """An eighth at half the distance and width, where without a correction it is a quarter."""
    basis = np.eye(3) + 0.3 * rng.normal(size=(3, 3)) if turned else np.eye(3)
    rows, points, center = ROWS @ basis, 0.1 * rng.normal(size=(4, 3)), 0.1 * rng.normal(size=3)
    before, after = [], []
    for part in (1.0, 0.5, 0.25):
        problem = problem_of(loss_of(part * width), basis=basis if turned else None)
        found, hessian = newton_step(part * points, part * center, part * width, rows)
        put_right = corrected(found, problem, hessian=hessian, center=part * center)
        before.append(np.linalg.norm(found.theta))
        after.append(np.linalg.norm(put_right.theta))
    assert before[2] > 0.15 * before[1] > 0.02 * before[0]
    assert after[2] < 0.16 * after[1]
    assert after[1] < 0.2 * after[0]
    assert after[2] < 0.25 * before[2]


def test_the_constant_alone_is_moved_by_smoothing_and_widened_by_what_is_not_known():
    point = Estimate(np.array([0.2, 0.1, -0.3]), 0.01 * np.eye(3))
    hessian = DENSITY * ROWS.T @ ROWS / len(ROWS)
    found = corrected(point, problem_of(loss_of(0.3, 1.5, 0.7)), hessian=hessian, center=np.zeros(3))
    np.testing.assert_allclose(found.theta - point.theta, [1.5 * 0.3**2 / 6.0, 0.0, 0.0], atol=1e-15)
    added = found.cov_noise - point.cov_noise
    assert added[0, 0] == pytest.approx((0.7**2 + 0.5**2) * (0.3**2 / 6.0) ** 2)
    assert np.count_nonzero(added) == 1


@pytest.mark.parametrize("turned", [False, True])
def test_slopes_are_widened_by_what_may_follow_the_predictors(turned, rng):
    """As much along the combination of columns that a shift follows as along any other of variance 1."""
    basis = np.eye(3) + 0.3 * rng.normal(size=(3, 3)) if turned else np.eye(3)
    mixed = ROWS @ np.array([[1.0, 0.2, 0.1], [0.0, 1.0, 0.7], [0.0, 0.0, 1.0]])
    rows = mixed @ basis
    point, hessian = Estimate(np.zeros(3), np.zeros((3, 3))), DENSITY * rows.T @ rows / len(rows)
    even, uneven = (
        corrected(
            point,
            problem_of(loss_of(0.3, 1.5, 0.7, part), basis=basis if turned else None),
            hessian=hessian,
            center=np.zeros(3),
        ).cov_noise
        for part in (0.0, 0.4)
    )
    added = rows @ (uneven - even) @ rows.T  # covariance of predictors
    allowed = (0.4 * 0.3**2 / 6.0) ** 2
    np.testing.assert_allclose(added.sum(), 0.0, atol=1e-12 * allowed)
    slopes = basis @ (uneven - even) @ basis.T
    np.testing.assert_allclose(
        slopes[1:, 1:], allowed * np.linalg.inv(np.cov(mixed[:, 1:].T, bias=True)), rtol=1e-9
    )


def test_nothing_is_done_where_nothing_is_known_or_there_is_no_constant():
    point, hessian = Estimate(np.zeros(3), np.eye(3)), ROWS.T @ ROWS
    for problem in (
        problem_of(SmoothedQuantile(0.1, 0.3)),
        problem_of(loss_of(0.3), has_intercept=False),
    ):
        assert corrected(point, problem, hessian=hessian, center=np.ones(3)) is point


@pytest.mark.parametrize("slope", [-1.3, SLOPE])
def test_predictors_are_moved_by_no_more_than_the_density_takes_to_change(slope):
    """Points that are far out tell nothing by a second order; the covariance says so."""
    rng, hessian = np.random.default_rng(3), DENSITY * ROWS.T @ ROWS / len(ROWS)
    steps = tuple(step_at(10.0 * rng.normal(size=3), 0.1, ROWS) for _ in range(3))
    point = Estimate(np.zeros(3), np.zeros((3, 3)), steps, np.full(3, 1.0 / 3.0))
    found = corrected(point, problem_of(loss_of(0.1, slope)), hessian=hessian, center=np.zeros(3))
    assert np.sqrt(np.mean((ROWS @ found.theta) ** 2)) == pytest.approx(1.0 / abs(slope))
    assert np.sqrt(np.trace(found.cov_noise)) > 10.0


def test_it_goes_by_distances_from_the_estimate_wherever_that_is():
    rng, hessian = np.random.default_rng(4), DENSITY * ROWS.T @ ROWS / len(ROWS)
    points, center, away = 0.1 * rng.normal(size=(3, 3)), 0.1 * rng.normal(size=3), np.array([3.0, -2.0, 1.0])
    parts, moved = np.array([0.5, 0.3, 0.2]), []
    for shift in (np.zeros(3), away):
        steps = []
        for one in points:
            step = step_at(one, 0.1, ROWS)
            steps.append(replace(step, release=replace(step.release, at=one + shift)))
        point = Estimate(shift, np.zeros((3, 3)), tuple(steps), parts)
        found = corrected(point, problem_of(loss_of(0.1)), hessian=hessian, center=center + shift)
        moved.append(np.append(found.cov_noise, found.theta - shift))
    np.testing.assert_allclose(moved[1], moved[0], rtol=1e-6, atol=1e-15)
    assert np.abs(moved[0]).max() > 1e-3
