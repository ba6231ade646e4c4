"""Differences are what they are said to be; a row's is within its ball in exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from privfit.data.blocks import Block
from privfit.losses import Huber
from privfit.procedures.differences import Bounds, RoundRows, WeightedDifference, _predictors

from .one_pass import Linear, Wild


def exact_norm_power(vector, norm):
    """Return the sum of the entries' powers, or the largest entry."""
    entries = [abs(entry) for entry in vector]
    return max(entries) if norm == np.inf else sum(entry ** int(norm) for entry in entries)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, np.inf])
def test_a_difference_that_is_too_large_ends_inside_of_its_ball(norm):
    """With a limit at the very radius, rounding would leave some of these outside."""
    rng, size, nothing = np.random.default_rng(3), 7, np.zeros(7)
    difference = WeightedDifference(Linear(), size, 1, norm)
    for _ in range(400):
        row = rng.normal(size=(1, size)) * 10.0 ** rng.uniform(1, 6)
        radius, center = rng.uniform(0.1, 3.0), nothing
        if norm == 2.0:
            center = rng.normal(size=size)
            center *= rng.uniform(0.0, radius) / np.linalg.norm(center)
        one = RoundRows(Block(row, np.ones(1), np.ones(1)), 0, 1)
        held = difference.mean(one, (nothing, nothing), (1.0, 0.0), (center, radius))
        apart = [Fraction(a) - Fraction(b) for a, b in zip(held.tolist(), center.tolist(), strict=True)]
        limit = Fraction(radius) ** (1 if norm == np.inf else int(norm))
        size_of_it = exact_norm_power(apart, norm)
        assert size_of_it <= limit
        assert size_of_it >= limit * (1 - Fraction(1, 10**9))


NORMS = [1.0, 1.5, 2.0, 3.0, np.inf]


@pytest.mark.parametrize("norm", NORMS)
def test_a_mean_is_that_of_the_rows_of_a_round_each_held_to_the_ball(norm):
    rng, loss = np.random.default_rng(0), Huber(3.0)
    x, y, weight = rng.normal(size=(9, 3)), rng.normal(size=9), rng.uniform(0.2, 0.9, size=9)
    x[3], (point, before) = 0.0, rng.normal(size=(2, 3))
    x[4], x[5], y[5], weight[5] = [0.0, -1.5, 0.0], [0.3, -0.2, 0.1], 9.0, 0.7
    center = np.array([0.04, -0.03, 0.0]) if norm == 2.0 else np.zeros(3)
    terms, outside = [], []
    for i in range(2, 8):
        new, old = (loss.functions.slope(y[i], x[i] @ at, 1.0, *loss.parameters) for at in (point, before))
        away = weight[i] * (0.7 * new - 0.4 * old) * x[i] - center
        factor = min(1.0, 0.1 / max(np.linalg.norm(away, norm), 1e-300))
        terms.append(center + factor * away)
        outside.append(factor < 1.0)
    assert outside[3]
    assert not all(outside)
    rows = RoundRows(Block(x, y, weight), 2, 8)
    difference = WeightedDifference(loss, 3, 6, norm)
    for _ in range(2):
        found = difference.mean(rows, (point, before), (0.7, 0.4), (center, 0.1))
        np.testing.assert_allclose(found, np.mean(terms, axis=0), rtol=1e-11, atol=1e-15)


def test_predictors_are_those_of_the_rows_of_a_round_alone():
    x, out = np.arange(20.0).reshape(10, 2), np.full((20, 2), np.nan)
    _predictors(x, 3, 5, np.array([1.0, 10.0]), np.array([-1.0, 100.0]), out)
    np.testing.assert_array_equal(out[:2], [[6.0 + 70.0, -6.0 + 700.0], [8.0 + 90.0, -8.0 + 900.0]])
    assert np.isnan(out[2:]).all()


@pytest.mark.parametrize("norm", NORMS)
def test_slopes_are_held_to_their_bound_and_none_is_taken_for_nothing(norm):
    """Slopes are steep on either side of 0, where sin(50 eta) is -1 or 1, and no number beyond 2."""
    difference, ball = WeightedDifference(Wild(), 1, 3, norm), (np.zeros(1), 10.0)
    etas = np.array([[-0.5 * np.pi / 50.0], [0.5 * np.pi / 50.0], [3.0]])
    for first, expected in enumerate((-0.7, 0.7, 0.0)):
        rows = RoundRows(Block(etas / etas[first], np.ones(3), np.ones(3)), first, first + 1)
        at = etas[first], np.zeros(1)
        assert difference.mean(rows, at, (1.0, 0.0), ball)[0] == pytest.approx(expected, rel=1e-12)


def test_balls_by_hand():
    """Bounds 2 and 4 of gradients and of their change; the latter gains if it is half as large as both."""
    convex, other = Bounds(2.0, 4.0, centred=True), Bounds(2.0, 4.0, centred=False)
    near, edge, far = np.array([0.3, -0.4]), np.array([1.2, -1.6]), np.array([30.0, -40.0])
    for bounds, move, before, center, radius in (
        (convex, near, 0.5, near, 1.0 + 0.5),
        (other, near, 0.5, np.zeros(2), 1.0 + 1.0),
        (convex, edge, 1.0, np.zeros(2), 4.0),
        (convex, 0.999 * edge, 1.0, 2.0 * 0.999 * edge, 4.0 * 0.999),
        (convex, far, 0.5, np.zeros(2), 3.0),
        (other, far, 0.5, np.zeros(2), 3.0),
    ):
        found = bounds.ball(move, 1.0, before)
        np.testing.assert_allclose(found[0], center, rtol=1e-14)
        assert found[1] == pytest.approx(radius, rel=1e-14)
