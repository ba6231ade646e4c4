"""The public numbers of an exponential mechanism."""

import math
from fractions import Fraction

import numpy as np
import pytest

from privfit.data.reduction import summation_error
from privfit.losses import Logistic, Squared, ZeroOne
from privfit.privacy.relation import Relation
from privfit.problem.plan import PlannedRelease
from privfit.procedures.exponential_candidates import ExponentialSelection
from privfit.procedures.exponential_draw import ExponentialDraw, scaled_objective
from privfit.procedures.score import lattice_bits, range_over_ball, score_range

from .exponential_cases import problem_of, rows_of


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("n", [10, 10**6])
def test_a_range_covers_what_rounding_can_do_to_two_sums(relation, n):
    """Of up to ``2 n`` terms within ``span / 2`` of 0, each sum is off by ``e``, at either of two points."""
    problem = problem_of(Logistic(), n, relation=relation)
    relative = Fraction(summation_error(2 * n))
    for span in np.random.default_rng(20240503).uniform(0.01, 100.0, 50):
        exact = Fraction(span) * (2 if relation is Relation.REPLACE else 1)
        error = relative * 2 * n * Fraction(span) / 2
        room = Fraction(score_range(problem, span)) - exact - 4 * error
        assert 0 <= room <= 2e-12 * (exact + 4 * error)


def test_the_range_of_a_row_is_no_less_than_that_of_the_loss():
    for radius in np.random.default_rng(20240504).uniform(0.01, 10.0, 50):
        problem = problem_of(Squared(2.0), 100, norm_bound=1.7)
        assert 0 < range_over_ball(problem, radius) / problem.loss.span(1.7 * radius) - 1 < 2e-12


@pytest.mark.parametrize("radius", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("steepest", [1e-3, 0.7, 1.0, 3.0, 64.0, 1e4])
def test_the_lattice_is_as_fine_as_the_exponent_is_steep(radius, steepest):
    """Neighbours on it differ by ``radius * 2**-b``, and the exponent by ``2**-6`` at most, twice finer."""
    bits = lattice_bits(steepest, radius)
    change = steepest * radius * 2.0**-bits
    assert change <= 2.0**-6
    assert bits == 6 or change > 2.0**-7


def test_the_lattice_leaves_bits_for_the_rounding_of_a_draw():
    assert lattice_bits(1e6, 1e6) == lattice_bits(1e300, 1.0) == 30


@pytest.mark.parametrize("epsilon", [0.1, 4.0])
def test_between_neighbours_on_the_lattice_of_a_draw_its_density_changes_little(epsilon):
    problem, draw = problem_of(Logistic(), 2000, 2, norm_bound=1.7, l2=3.0), ExponentialDraw(epsilon, 0.6)
    steepest = draw.rate(problem) * 2000 * (1.7 + 3.0 * 0.6)
    assert 2.0**-7 < steepest * 0.6 * 2.0 ** -draw.bits(problem) <= 2.0**-6


@pytest.mark.parametrize("relation", list(Relation))
def test_the_plan_says_that_draws_are_pure_and_how_far_a_row_moves_a_mean(relation):
    problem = problem_of(Logistic(), 50, 2, relation=relation)
    moved = score_range(problem, range_over_ball(problem, 0.6)) / 50
    said = PlannedRelease("draw", 2, moved, math.inf, 0.0, epsilon=0.5)
    assert ExponentialDraw(0.5, 0.6).planned(problem) == said
    moved = score_range(problem, 1.0) / 50
    said = PlannedRelease("draw", 2, moved, math.inf, 0.0, epsilon=0.5)
    assert ExponentialSelection(0.5, ((0.0, 1.0),), ZeroOne()).planned(problem) == said


def test_the_exponent_of_a_draw_holds_the_ridge_and_its_gradient():
    rng = np.random.default_rng(20240505)
    x, y, points = rng.uniform(-1, 1, (12, 2)), rng.integers(0, 2, 12), rng.uniform(-1, 1, (7, 2))
    exponents = []
    for l2 in (0.0, 0.8):
        problem = problem_of(Logistic(), 12, 2, norm_bound=1.5, l2=l2)
        rows = rows_of(problem, x, y)
        span = range_over_ball(problem, 1.5)
        exponents.append(scaled_objective(problem, rows, rate=0.3, radius=1.5, span=span)(points))
    (value, gradient), (ridged, slope) = exponents
    np.testing.assert_allclose(ridged - value, 0.3 * 12 * 0.4 * points[:, 1] ** 2, atol=1e-12)
    np.testing.assert_allclose(slope - gradient, 0.3 * 12 * 0.8 * points * [0.0, 1.0], atol=1e-12)
