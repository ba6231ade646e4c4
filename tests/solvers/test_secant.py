"""What gradients at several points say of a Hessian."""

import numpy as np
import pytest
from scipy import stats

from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.base import Seen, Step
from privfit.solvers.secant import corrected, steepness

MODEL = np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 2.0]])


def seen(points, gradients, sds):
    return [Seen(at, gradient, sd) for at, gradient, sd in zip(points, gradients, sds, strict=True)]


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("sd", [0.0, 1e-4])
def test_it_is_the_factor_of_a_quadratic_where_moves_exceed_noise(factor, sd):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(6, 3))
    gradients = factor * (points - 0.4) @ MODEL + sd * rng.normal(size=(6, 3))
    assert steepness(MODEL, seen(points, gradients, [sd] * 6)) == pytest.approx(factor, rel=1e-3)


def test_a_scale_beside_the_coefficients_is_left_out():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(5, 4))
    gradients = np.column_stack([2.0 * points[:, :3] @ MODEL, rng.normal(size=5)])
    assert steepness(MODEL, seen(points, gradients, [0.0] * 5)) == pytest.approx(2.0)


def test_of_one_gradient_it_says_nothing_and_it_is_limited():
    point = np.ones((1, 3))
    for sd in (0.0, 0.1):
        assert steepness(MODEL, seen(point, point, [sd])) == 1.0
    points = np.outer([0.0, 1.0], np.ones(3))
    for factor, limited in ((1e6, 8.0), (-1.0, 1.0 / 8.0)):
        assert steepness(MODEL, seen(points, factor * points @ MODEL, [0.0, 0.0])) == limited


@pytest.mark.statistical
@pytest.mark.parametrize("p", [2, 30])
def test_points_that_follow_noise_do_not_pass_for_steepness(p):
    """A descent at its minimum, every point where the gradients before lead: the mean factor is near 1.

    Of 200 descents; its standard deviation is below 0.005, and the mean without doubt is above 2.
    """
    rng, found = np.random.default_rng(3), []
    for _ in range(200):
        points, gradients = [np.zeros(p)], [rng.normal(size=p)]
        for _ in range(14):
            late = slice(len(points) // 2, None)
            points.append(np.mean(points[late], axis=0) - np.mean(gradients[late], axis=0))
            gradients.append(points[-1] + rng.normal(size=p))
        found.append(steepness(np.eye(p), seen(points[7:], gradients[7:], [1.0] * 8)))
    assert 0.9 < np.mean(found) < 1.1


def step_at(point, gradient, sd):
    planned = PlannedRelease("gradient", point.size, 1.0, 1.0, sd)
    return Step(Release(planned, point, gradient), gradient, np.eye(point.size))


def test_a_correction_is_the_hessian_along_the_move_and_the_same_across_it():
    """Without noise: the secant's condition, and the Hessian itself where it is right."""
    rng = np.random.default_rng(4)
    true = MODEL + np.outer([1.0, -2.0, 0.5], [1.0, -2.0, 0.5])
    for _ in range(20):
        one, other = rng.normal(size=(2, 3))
        steps = [step_at(at, at @ true, 0.0) for at in (one, other)]
        found = corrected(MODEL, *steps)
        np.testing.assert_allclose(found @ (other - one), true @ (other - one), rtol=1e-9)
        np.testing.assert_allclose(found, found.T)
        assert np.linalg.eigvalsh(found)[0] > 0.0
        np.testing.assert_allclose(corrected(true, *steps), true, rtol=1e-9)
        across = np.cross(MODEL @ (other - one), true @ (other - one))
        np.testing.assert_allclose(found @ across, MODEL @ across)


@pytest.mark.parametrize("factor", [-5.0, -1.0, 0.0, 1e-3, 1e3])
def test_a_correction_stays_positive_whatever_the_gradients_are(factor):
    rng = np.random.default_rng(5)
    for sd in (0.0, 0.1):
        one, other = rng.normal(size=(2, 3))
        found = corrected(
            MODEL, step_at(one, factor * one @ MODEL, sd), step_at(other, factor * other @ MODEL, sd)
        )
        move = other - one
        assert np.linalg.eigvalsh(found)[0] > 0.0
        assert move @ found @ move >= 0.2 * (move @ MODEL @ move) * (1.0 - 1e-9)


@pytest.mark.statistical
def test_noise_does_not_pass_for_a_correction():
    """Right Hessian, 2,000 pairs: three standard deviations beyond the mean of a chi-squared law are needed.

    The chance to exceed them is 1.7 % with three coefficients: more than 70 of 2,000 have one of 1e-7.
    """
    rng = np.random.default_rng(6)
    assert stats.chi2.sf(3.0 + 3.0 * np.sqrt(6.0), 3) < 0.0175
    assert stats.binom.sf(70, 2000, 0.0175) < 1e-6
    changed = 0
    for _ in range(2000):
        points = rng.normal(size=(2, 3))
        gradients = points @ MODEL + 0.1 * rng.normal(size=(2, 3))
        found = corrected(MODEL, *(step_at(at, g, 0.1) for at, g in zip(points, gradients, strict=True)))
        changed += not np.array_equal(found, MODEL)
    assert 0 < changed <= 70


def test_a_move_that_is_shorter_than_noise_says_nothing():
    """However far apart the gradients are: they say that noise was large once, not that it is steep there."""
    gradients = np.array([[-0.3, 1.3, 0.0], [0.2, -0.9, 0.4]])
    points = 0.01 * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    steps = [step_at(at, gradient, 0.1) for at, gradient in zip(points, gradients, strict=True)]
    assert corrected(MODEL, *steps) is MODEL
    assert corrected(MODEL, *(step_at(100.0 * s.release.at, s.gradient, 0.1) for s in steps)) is not MODEL


def test_a_difference_that_noise_barely_does_not_explain_changes_little():
    """A correction sets in at three standard deviations of the noise, and from there on by degrees."""
    sd, move = 0.01, np.array([1.0, 0.0, 0.0])
    noise = (3.0 + 3.0 * np.sqrt(6.0)) * 2.0 * sd**2
    for times, changed in ((0.99, False), (1.01, False), (100.0, True)):
        gradient = MODEL @ move + np.sqrt(times * noise) * move
        found = corrected(MODEL, step_at(np.zeros(3), np.zeros(3), sd), step_at(move, gradient, sd))
        off = np.abs(found - MODEL).max()
        assert off > 0.1 if changed else off < 0.01


def test_steps_over_a_bend_arrive():
    """A logit of one level, asked where 4 % are positive, when 40 % are."""

    def gradient(theta):
        return 1.0 / (1.0 + np.exp(-theta)) - 0.4

    start, optimum = np.array([-3.2]), np.log(0.4 / 0.6)
    hessian = np.array([[np.exp(-3.2) / (1.0 + np.exp(-3.2)) ** 2]])
    found = {}
    for name, correct in (("with", True), ("without", False)):
        at, known, steps = start, hessian, []
        for _ in range(6):
            steps.append(step_at(at, gradient(at), 1e-6))
            if correct and len(steps) > 1:
                known = corrected(known, *steps[-2:])
            at = at - np.linalg.solve(known, steps[-1].gradient)
        found[name] = abs(at[0] - optimum)
    assert found["with"] < 0.05
    assert found["without"] > 1.0
