"""What it does to an estimate that its gradients are from points apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

import privfit as pf
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread
from privfit.inference.points_apart import _Rows, straightened
from privfit.losses import Huber, Logistic, Poisson
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.base import Moments, Solution, Step
from tests.solvers.simulated import problem_for

N = 400_000
MEAN, COVARIANCE = np.array([1.0, 0.3, -0.2]), np.diag([0.0, 0.5, 0.8])
COUNTS = Poisson(8.0, 1e4)
CLEAR = Bread(np.eye(3), np.eye(3), 0.0, np.zeros((3, 0)))
TRUTH = {"counts": np.array([-0.4, 0.5, -0.3]), "labels": np.array([-3.0, 0.6, 0.4])}
LOSSES = {"counts": (COUNTS, np.exp, np.exp), "labels": (Logistic(), expit, lambda t: expit(t) * expit(-t))}


def normal_rows(rng):
    """Rows with exactly these moments."""
    z = rng.normal(size=(N // 2, 2))
    z = np.concatenate([z, -z])
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / N)).T
    return np.column_stack([np.ones(N), MEAN[1:] + z * np.sqrt(np.diag(COVARIANCE)[1:])])


def solution_of(loss, points, parts, **changes):
    problem = replace(problem_for(loss, np.ones((1000, 3))), norm_bound=10.0)
    planned = PlannedRelease("gradient", 3, 1.0, 1.0, 1e-9)
    steps = tuple(Step(Release(planned, point, np.zeros(3)), np.zeros(3), np.eye(3)) for point in points)
    second = COVARIANCE + np.outer(MEAN, MEAN)
    moments = {"moments": lambda: Moments(0.7 * second, np.zeros((3, 3)))} | changes
    estimate = Estimate(np.zeros(3), 1e-6 * np.eye(3), steps, np.array(parts))
    return Solution(problem, np.zeros(3), steps, (), "one-step", **moments), estimate


@pytest.mark.parametrize("name", LOSSES)
def test_the_estimate_is_that_of_gradients_at_one_point(name):
    """Exact gradients of many normal rows at points apart, and the Hessian between: what is left is small."""
    rng = np.random.default_rng(2)
    loss, mean_of, curvature_of = LOSSES[name]
    x, truth = normal_rows(rng), TRUTH[name]
    y = mean_of(x @ truth)  # the optimum is the truth
    points = truth + 0.35 * rng.normal(size=(6, 3))
    parts = np.array([0.1, 0.1, 0.2, 0.2, 0.1, 0.3])
    gradient = parts @ np.array([x.T @ (mean_of(x @ point) - y) / N for point in points])
    center = parts @ points
    hessian = (x.T * curvature_of(x @ center)) @ x / N
    theta = center - np.linalg.solve(hessian, gradient)
    solution, estimate = solution_of(loss, points, parts)
    found = straightened(replace(estimate, theta=theta), solution, center, CLEAR)
    before, after = (np.linalg.norm(one - truth) for one in (theta, found.theta))
    assert before > 0.05
    assert after < 0.3 * before
    move = found.theta - theta
    np.testing.assert_allclose(found.cov_noise, 1e-6 * np.eye(3) + np.outer(move, move) / 9.0)


@pytest.mark.parametrize("at", [(-0.5, 0.4), (-0.5, 1.2), (-3.0, -0.8)])
@pytest.mark.parametrize("norm_bound", [1.3, 2.5])
def test_rows_count_as_they_do_in_the_fit(at, norm_bound):
    """Long ones less: with one column that is all that sets a row's length apart."""
    at, x = np.array(at), np.linspace(-8.0, 8.0, 40_001)
    rows = np.column_stack([np.ones(x.size), 0.3 + math.sqrt(2.0) * x])
    chance = np.exp(-0.5 * x**2)
    chance *= np.minimum(1.0, norm_bound**2 / np.sum(rows**2, axis=1)) / chance.sum()
    mean, slope = np.exp(rows @ at), np.exp(rows @ at)
    none = np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(2)
    known = _Rows(COUNTS, np.array([1.0, 0.3]), np.diag([0.0, 2.0]), norm_bound, *none)
    np.testing.assert_allclose(known.gradient(at), rows.T @ (chance * mean), rtol=2e-3)
    np.testing.assert_allclose(known.hessian(at), (rows.T * (chance * slope)) @ rows, rtol=2e-3)


def turned_rows(seed):
    """Rows in turned coordinates, where the variance of the constant is one of rounding."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    second = basis.T @ (COVARIANCE + np.outer(MEAN, MEAN)) @ basis
    constant = basis.T[:, 0]
    moments = Moments(second, np.zeros((3, 3)))
    return moments.of_rows(constant), constant


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("at", [-0.4, 1e-3])
def test_a_predictor_that_is_constant_moves_no_row(seed, at):
    """Whatever rounding has left of its variance."""
    (mean, covariance), constant = turned_rows(seed)
    none = np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3)
    known = _Rows(COUNTS, mean, covariance, 1.2, *none)
    weight = 1.2**2 / (np.trace(COVARIANCE) + MEAN @ MEAN)
    found = known.gradient(at * constant)
    np.testing.assert_allclose(found, math.exp(at) * weight * mean, rtol=1e-12)
    nudged = at * constant + 1e-17 * np.random.default_rng(seed).normal(size=3)
    np.testing.assert_allclose(known.gradient(nudged), found, rtol=1e-12)
    np.testing.assert_allclose(
        known.hessian(nudged), math.exp(at) * weight * (covariance + np.outer(mean, mean)), atol=1e-12
    )


def test_a_single_point_with_a_bread_half_way_is_left_about_where_it_is():
    point = TRUTH["counts"] + np.array([0.2, -0.1, 0.1])
    solution, estimate = solution_of(COUNTS, [point], [1.0])
    estimate = replace(estimate, theta=TRUTH["counts"])
    found = straightened(estimate, solution, 0.5 * (point + TRUTH["counts"]), CLEAR)
    assert np.linalg.norm(found.theta - estimate.theta) < 5e-3
    far = straightened(estimate, solution, point, CLEAR)
    assert np.linalg.norm(far.theta - estimate.theta) > 2e-2


def test_no_more_is_taken_away_than_second_order_tells_of():
    points = [np.array([3.0, 0.0, 0.0]), np.array([-3.0, 0.0, 0.0])]
    solution, estimate = solution_of(COUNTS, points, [0.5, 0.5])
    move = straightened(estimate, solution, np.zeros(3), CLEAR).theta
    assert math.sqrt(move @ COVARIANCE @ move + (MEAN @ move) ** 2) == pytest.approx(0.5)


def test_means_beyond_their_bound_have_no_curvature_to_go_by():
    points = [np.array([30.0, 0.0, 0.0]), np.array([40.0, 0.1, 0.0])]
    solution, estimate = solution_of(COUNTS, points, [0.5, 0.5])
    estimate = replace(estimate, theta=np.array([35.0, 0.0, 0.0]))
    np.testing.assert_array_equal(straightened(estimate, solution, points[0], CLEAR).theta, estimate.theta)


def test_without_noise_points_are_where_exact_steps_end():
    solution, estimate = solution_of(COUNTS, [np.ones(3), -np.ones(3)], [0.5, 0.5])
    exact = replace(estimate, cov_noise=np.zeros((3, 3)))
    assert straightened(exact, solution, np.zeros(3), CLEAR) is exact


@pytest.mark.parametrize(
    ("loss", "changes"),
    [(Huber(0.8), {}), (COUNTS, {"moments": None}), (COUNTS, {"model": lambda _: np.eye(3)})],
    ids=["residuals", "no moments", "one perturbed minimiser"],
)
def test_what_nothing_is_known_of_is_left_alone(loss, changes):
    solution, estimate = solution_of(loss, [np.ones(3), -np.ones(3)], [0.5, 0.5], **changes)
    assert straightened(estimate, solution, np.zeros(3), CLEAR) is estimate
    solution, estimate = solution_of(COUNTS, [np.ones(3), -np.ones(3)], [0.5, 0.5])
    alone = replace(estimate, parts=np.zeros(0))
    assert straightened(alone, solution, np.zeros(3), CLEAR) is alone
    without = replace(solution, problem=replace(solution.problem, penalised=(True,) * 3))
    assert straightened(estimate, without, np.zeros(3), CLEAR) is estimate


def test_coefficients_of_rare_levels_are_held_to_their_average():
    """A column of 0 and few 1 is not normal: points apart in its coefficient alone change nothing."""
    points = [np.array([-0.4, 0.5, 8.0]), np.array([-0.4, 0.5, -4.0])]
    rare = np.diag([0.0, 0.5, 0.005]) + np.outer([1.0, 0.3, 0.005], [1.0, 0.3, 0.005])
    moments = {"moments": lambda: Moments(rare, np.zeros((3, 3)))}
    solution, estimate = solution_of(COUNTS, points, [0.5, 0.5], **moments)
    estimate = replace(estimate, theta=np.array([-0.4, 0.5, -8.0]))
    center = np.array([-0.4, 0.5, 2.0])
    as_numbers = straightened(estimate, solution, center, CLEAR)
    assert abs(as_numbers.theta[0] + 0.4) > 0.05
    levels = replace(solution, problem=replace(solution.problem, indicators=(True, False, True)))
    for known in (levels, replace(solution, at_bounds=(2,))):
        found = straightened(estimate, known, center, CLEAR)
        np.testing.assert_allclose(found.theta, estimate.theta, atol=1e-12)
        np.testing.assert_allclose(found.cov_noise, estimate.cov_noise, atol=1e-12)
    hidden = replace(CLEAR, unresolved=np.eye(3)[:, 2:])
    found = straightened(estimate, solution, center, hidden)
    np.testing.assert_allclose(found.theta, estimate.theta, atol=1e-12)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_beside_levels_numbers_are_straightened_as_without_them(name, turned):
    """In whatever coordinates: the level is a part of the constant, with the coefficient that points have.

    Its own coefficient stays, also where the level goes with a number.
    """
    rng = np.random.default_rng(4)
    loss = LOSSES[name][0]
    points = TRUTH[name] + 0.35 * rng.normal(size=(6, 3))
    parts = np.full(6, 1.0 / 6.0)
    center = parts @ points
    theta = center + np.array([0.05, -0.1, 0.02])
    solution, estimate = solution_of(loss, points, parts)
    share, level = 0.3, 0.8
    mean = np.append(MEAN, share)
    second = np.zeros((4, 4))
    second[:3, :3] = COVARIANCE
    second[3, 3] = share * (1.0 - share)
    second += np.outer(mean, mean)
    basis = np.eye(4) + 0.3 * rng.normal(size=(4, 4)) if turned else np.eye(4)
    to_phi = np.linalg.inv(basis)

    def wide(one, own):
        return to_phi @ np.append(one - [share * level, 0.0, 0.0], own)

    levels = level + rng.normal(size=6)
    levels -= levels.mean() - level
    apart = [wide(point, own) for point, own in zip(points, levels, strict=True)]
    problem = replace(
        problem_for(loss, np.ones((1000, 4))),
        norm_bound=1e4,
        basis=basis,
        amplification=1e6,
        indicators=(True, False, False, True),
    )
    planned = PlannedRelease("gradient", 4, 1.0, 1.0, 1e-9)
    steps = tuple(Step(Release(planned, one, np.zeros(4)), np.zeros(4), np.eye(4)) for one in apart)
    moments = Moments(0.7 * basis.T @ second @ basis, np.zeros((4, 4)))
    beside = Solution(problem, np.zeros(4), steps, (), "one-step", moments=lambda: moments)
    clear = Bread(np.eye(4), np.eye(4), 0.0, np.zeros((4, 0)))
    start = Estimate(wide(theta, -5.0), 1e-6 * np.eye(4), steps, parts)
    found = straightened(start, beside, wide(center, level), clear)
    long = replace(solution, problem=replace(solution.problem, norm_bound=1e4))
    expected = straightened(replace(estimate, theta=theta), long, center, CLEAR).theta - theta
    np.testing.assert_allclose(basis @ (found.theta - start.theta), [*expected, 0.0], rtol=1e-6, atol=1e-9)
    second[1, 3] = second[3, 1] = second[1, 3] + 0.2
    beside = replace(beside, moments=lambda: Moments(0.7 * basis.T @ second @ basis, np.zeros((4, 4))))
    move = basis @ (straightened(start, beside, wide(center, level), clear).theta - start.theta)
    assert abs(move[3]) < 1e-9
    assert np.abs(move[:3]).max() > 1e-3


@pytest.mark.statistical
def test_the_intercept_of_counts_beside_a_rare_level_is_near_the_truth():
    """A level of 0.5 %, hidden by noise, leads points far apart; twenty intercepts within five deviations.

    Their standard errors are .025 mostly. One in twenty is above 0.1, where noise hides more.
    """
    errors = []
    rng, n = np.random.default_rng(3), 20_000
    schema = {
        "x": {"type": "numeric", "lower": -4, "upper": 4},
        "g": {"type": "categorical", "levels": ["usual", "rare"]},
        "y": {"type": "numeric", "lower": 0, "upper": 20},
    }
    for seed in range(20):
        g, x = np.where(rng.random(n) < 0.005, "rare", "usual"), rng.normal(size=n).clip(-4.0, 4.0)
        rows = {"x": x, "g": g, "y": rng.poisson(np.exp(0.3 * x - 0.7)).astype(float)}
        fit = pf.poisson("y ~ x + C(g)", rows, schema=schema, random_state=seed)
        assert abs(fit.params["Intercept"] + 0.7) < 0.125
        errors.append(fit.bse["Intercept"])
    assert np.median(errors) < 0.05
