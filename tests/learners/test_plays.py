"""What every learner plays after one and two vectors, in closed form: its step, weight or stake is exact."""

import math

import numpy as np
import pytest

from privfit.learners import (
    AdaGradNorm,
    Feedback,
    FollowTheRegularizedLeader,
    Game,
    OnlineMirrorDescent,
    OnlineSubgradientDescent,
    OptimisticFTRL,
    ParameterFree,
    StronglyConvexOSD,
)

CENTER, RADIUS = np.array([0.3, -0.7]), 1.5
FIRST, SECOND = np.array([0.6, 0.8]), np.array([-0.5, 0.2])


def game_of(**changes):
    return Game(**{"center": CENTER, "radius": RADIUS, "rounds": 8, **changes})


def played(learner, *vectors, game=None):
    """Return the last play, from the centre."""
    game = game or game_of()
    player = learner.start(game)
    np.testing.assert_array_equal(player.predict(), game.center)
    for vector in vectors:
        player.update(Feedback(vector, game.center))
    return player.predict() - game.center


def test_subgradient_descent_takes_its_step():
    learner = OnlineSubgradientDescent(step_size=0.4)
    np.testing.assert_allclose(played(learner, FIRST, SECOND), -0.4 * (FIRST + SECOND))


def test_adagrad_steps_by_the_diameter_over_the_root_of_twice_the_squares():
    """The first step, ``sqrt(2)`` radii, ends on the edge."""
    np.testing.assert_allclose(played(AdaGradNorm(), FIRST), -RADIUS * FIRST)
    for factor in (0.3, 0.9):
        step = 2 * RADIUS / math.sqrt(2 * (1 + factor**2))
        expected = (step * factor - RADIUS) * FIRST
        np.testing.assert_allclose(played(AdaGradNorm(), FIRST, -factor * FIRST), expected)


@pytest.mark.parametrize(("learner", "memory"), [(FollowTheRegularizedLeader(), 0), (OptimisticFTRL(), 1)])
def test_leaders_weigh_the_distance_by_twice_the_bound_over_the_squared_radius(learner, memory):
    bound = 2 * RADIUS
    weight = 2 * bound / RADIUS**2
    np.testing.assert_allclose(played(learner, FIRST), -(1 + memory) * FIRST / weight)
    surprise = SECOND - memory * FIRST
    bound += surprise @ surprise / (2 * weight)
    expected = -(FIRST + (1 + memory) * SECOND) * RADIUS**2 / (2 * bound)
    np.testing.assert_allclose(played(learner, FIRST, SECOND), expected)


@pytest.mark.parametrize("p", [1.05, 1.2, 1.4])
def test_mirror_descent_steps_by_the_radius_times_the_root_of_twice_p_minus_one_over_the_squares(p):
    """With one coordinate all norms are the same."""
    game = game_of(center=np.array([2.0]))
    learner, vector = OnlineMirrorDescent(p=p), np.array([0.7])
    step = RADIUS * math.sqrt(2 * (p - 1))
    assert played(learner, vector, game=game) == pytest.approx(-step)
    assert played(learner, vector, -vector, game=game) == pytest.approx(-step + step / math.sqrt(2))


def test_strongly_convex_descent_steps_by_one_over_the_strong_convexity_so_far():
    mu, weights, point = 3.0, (0.5, 0.8), CENTER + np.array([0.1, 0.2])
    player = StronglyConvexOSD(strength=mu).start(game_of())
    expected, total = CENTER, 0.0
    for vector, weight in zip((FIRST, SECOND), weights, strict=True):
        total += 0.5 * mu * weight
        expected = expected - (vector + 0.5 * mu * weight * (expected - point)) / total
        player.update(Feedback(vector, point, weight))
        np.testing.assert_allclose(player.predict(), expected)
        assert np.linalg.norm(expected - CENTER) < RADIUS


def test_betting_is_krichevsky_and_trofimovs_on_vectors_over_their_largest():
    learner, coins = ParameterFree(stake=0.5, largest=2.0), (-0.5 * FIRST, -0.5 * SECOND)
    bet = coins[0] * 0.5 / 2
    np.testing.assert_allclose(played(learner, FIRST), bet)
    wealth = 0.5 + coins[1] @ bet
    np.testing.assert_allclose(played(learner, FIRST, SECOND), sum(coins) * wealth / 3)


@pytest.mark.parametrize("rounds", [1, 7, 8, 1000])
def test_the_largest_vector_is_the_gradients_and_the_noise_of_a_full_path(rounds):
    """A sum has up to ``floor(log2 T) + 1`` nodes, whose variances add up."""
    game = Game(np.zeros(5), 0.7, rounds, 2.0, 1.5, 0.4, batch=3, deviation=0.9)
    node = 0.9 * 2 * 3 * (1.5 + 1.4 * 0.4) / (3 * rounds)
    typical = math.sqrt(5) + math.sqrt(2 * math.log(2 * rounds))
    path = math.sqrt(math.floor(math.log2(rounds)) + 1)
    assert game.largest == pytest.approx(1.5 + typical * node * path)
