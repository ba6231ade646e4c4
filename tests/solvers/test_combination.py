"""How much gradients count: by noise where points are near, and by how far off a model may be elsewhere."""

import math

import numpy as np
import pytest

from privfit.solvers.combination import Seen, best_weights, combined

_OFF = 0.75
"""As the module has it."""

MODEL = np.array([[1.0, 0.3, 0.0], [0.3, 0.7, 0.1], [0.0, 0.1, 2.0]])


def test_at_one_point_they_count_by_the_precision_of_their_noise():
    point, sds = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, 0.4])
    for about in (point, point + 1e-6):
        weights = best_weights(MODEL, [point] * 3, sds, about=about)
        np.testing.assert_allclose(weights, sds**-2 / np.sum(sds**-2), rtol=1e-6)


def test_one_that_is_far_away_counts_as_far_as_noise_exceeds_what_the_model_gets_wrong():
    about, far = np.zeros(3), np.array([3.0, -1.0, 2.0])
    wrong = _OFF * np.linalg.norm(MODEL @ far) / math.sqrt(3.0)
    for sd in (1e-4 * wrong, wrong, 1e4 * wrong):
        weights = best_weights(MODEL, [far, about], [sd, sd], about=about)
        expected = sd**2 / (2.0 * sd**2 + wrong**2)
        np.testing.assert_allclose(weights, [expected, 1.0 - expected], rtol=1e-5, atol=1e-8)


def test_points_on_opposite_sides_make_up_for_each_other():
    """A third one on one side only would have to count negatively, and is left out."""
    away = np.array([1.0, 2.0, -1.0])
    for sd in (0.0, 1e-3, 1.0):
        weights = best_weights(MODEL, [away, -away], [sd, sd], about=np.zeros(3))
        np.testing.assert_allclose(weights, 0.5)
    weights = best_weights(MODEL, [0.1 * away, 0.2 * away, 3.0 * away], [1e-3] * 3, about=np.zeros(3))
    assert weights[0] == pytest.approx(1.0)
    assert weights[2] == 0.0


def test_a_scale_beside_the_coefficients_is_left_out():
    rng = np.random.default_rng(2)
    points, sds = rng.normal(size=(5, 4)), [0.1] * 5
    about = np.append(np.zeros(3), 7.0)
    weights = best_weights(MODEL, list(points), sds, about=about)
    without = best_weights(MODEL, list(points[:, :3]), sds, about=np.zeros(3))
    np.testing.assert_allclose(weights, without)


def test_whatever_the_points_and_the_noise_weights_are_those_of_a_mean():
    rng = np.random.default_rng(3)
    for case in range(200):
        k = 1 + case % 40
        points = list(10.0 ** rng.uniform(-12, 3) * rng.normal(size=(k, 3)) * rng.integers(0, 2, (k, 1)))
        sds = list(10.0 ** rng.uniform(-150, 3) * rng.integers(0, 2) * rng.uniform(1.0, 4.0, k))
        weights = best_weights(MODEL, points, sds, about=points[rng.integers(k)])
        assert (weights >= 0.0).all()
        assert weights.sum() == pytest.approx(1.0)


def test_the_mean_has_the_noise_that_it_says():
    rng = np.random.default_rng(4)
    points, sds = 0.1 * rng.normal(size=(4, 3)), [0.1, 0.2, 0.1, 0.3]
    seen = [Seen(at, MODEL @ at, sd) for at, sd in zip(points, sds, strict=True)]
    best = combined(seen, MODEL, about=np.zeros(3))
    weights = best_weights(MODEL, list(points), sds, about=np.zeros(3))
    np.testing.assert_allclose(best.gradient, MODEL @ best.at, atol=1e-12)
    assert best.sd == pytest.approx(math.sqrt(np.sum((weights * np.array(sds)) ** 2)))


@pytest.mark.statistical
@pytest.mark.parametrize(("noise", "less"), [(0.03, (0.2, 0.4)), (0.3, (0.9, 0.95)), (3.0, (1.01, 0.9))])
def test_where_the_model_is_off_it_has_less_error_than_other_means(noise, less):
    """Points come nearer step by step. Compared are means by precision, of all gradients and of a half.

    Over 6 seeds the ratios of mean squared errors are 0.15 and 0.34, 0.81 and 0.87, 1.00 and 0.82, with
    standard deviations below 0.0075: false alarms below 1e-6.
    """
    rng = np.random.default_rng(5)
    n, k = 6, 12
    sds, errors = noise * np.geomspace(2.0, 0.5, k), []
    late = np.where(np.arange(k) < k // 2, 0.0, sds**-2.0)
    for _ in range(2000):
        off = _OFF / math.sqrt(n) * rng.normal(size=(n, n))
        points = 0.6 ** np.arange(k)[:, None] * rng.normal(size=n) + 0.1 * rng.normal(size=(k, n))
        gradients = points @ (np.eye(n) + off) + sds[:, None] * rng.normal(size=(k, n))
        best = best_weights(np.eye(n), list(points), list(sds), about=np.zeros(n))
        means = [weights / weights.sum() @ (points - gradients) for weights in (best, sds**-2.0, late)]
        errors.append([mean @ mean for mean in means])
    ours, *others = np.mean(errors, axis=0)
    assert (ours < np.array(less) * others).all()
