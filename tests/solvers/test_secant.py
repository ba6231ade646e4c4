"""The factor by which gradients at several points say that a model of the Hessian is off."""

import numpy as np
import pytest

from privfit.solvers.secant import steepness

MODEL = np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 2.0]])


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("sd", [0.0, 1e-4])
def test_it_is_the_factor_of_a_quadratic_where_moves_exceed_noise(factor, sd):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(6, 3))
    gradients = factor * (points - 0.4) @ MODEL + sd * rng.normal(size=(6, 3))
    assert steepness(MODEL, points, gradients, [sd] * 6) == pytest.approx(factor, rel=1e-3)


def test_a_scale_beside_the_coefficients_is_left_out():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(5, 4))
    gradients = np.column_stack([2.0 * points[:, :3] @ MODEL, rng.normal(size=5)])
    assert steepness(MODEL, points, gradients, [0.0] * 5) == pytest.approx(2.0)


def test_of_one_gradient_it_says_nothing_and_it_is_limited():
    point = np.ones((1, 3))
    for sd in (0.0, 0.1):
        assert steepness(MODEL, point, point, [sd]) == 1.0
    points = np.outer([0.0, 1.0], np.ones(3))
    for factor, limited in ((1e6, 8.0), (-1.0, 1.0 / 8.0)):
        assert steepness(MODEL, points, factor * points @ MODEL, [0.0, 0.0]) == limited


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
        found.append(steepness(np.eye(p), points[7:], gradients[7:], [1.0] * 8))
    assert 0.9 < np.mean(found) < 1.1
