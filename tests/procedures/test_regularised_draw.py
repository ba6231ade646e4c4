"""The regularised exponential mechanism by hand: temperatures, what rounding may cost, and one draw."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from privfit.data.reduction import summation_error
from privfit.losses import Logistic, Squared
from privfit.privacy.relation import Relation
from privfit.problem.plan import PlannedRelease
from privfit.procedures.regularised_draw import (
    RegularisedBallDraw,
    RegularisedGaussianDraw,
    inverse_temperature,
    largest_mean_curvature,
)
from privfit.procedures.score import lattice_margin

from .exponential_cases import problem_of, rows_of

N, P, MU, STRENGTH = 1000, 4, 0.8, 0.5


def problem_with(**changes):
    return problem_of(Logistic(), N, P, **({"norm_bound": 2.0, "l2": 0.125} | changes))


def test_the_temperature_spends_all_of_mu_but_a_millionth():
    problem = problem_with()
    k = inverse_temperature(problem, STRENGTH, MU)
    spent = problem.sensitivity("gradient") * math.sqrt(k / STRENGTH)
    assert spent == pytest.approx(MU * (1.0 - 1e-6), rel=1e-13)
    for draw in (RegularisedBallDraw(MU, STRENGTH, 3.0), RegularisedGaussianDraw(MU, STRENGTH)):
        expected = PlannedRelease("draw", P, problem.sensitivity("gradient"), mu=MU, sd=0.0)
        assert draw.planned(problem) == expected


def test_a_draw_from_a_ball_leaves_room_for_its_lattice():
    """The steepest slope of the exponent, ridges at the edge of the ball included, is below 2**11 here."""
    problem, draw = problem_with(), RegularisedBallDraw(MU, STRENGTH, 3.0)
    steepest = inverse_temperature(problem, STRENGTH, MU) * (2.0 + (0.125 + STRENGTH) * 3.0) * 3.0
    assert draw.bits(problem) == 6 + math.ceil(math.log2(steepest))
    room = 4.0 * lattice_margin(P, draw.bits(problem))
    assert draw.temperature(problem) == pytest.approx(inverse_temperature(problem, STRENGTH, MU - room))
    assert draw.temperature(problem) < inverse_temperature(problem, STRENGTH, MU)


@pytest.mark.parametrize(("l2", "strength", "radius"), [(0.0, 0.5, 0.01), (90.0, 0.5, 0.1), (0.0, 90.0, 0.1)])
def test_every_part_of_a_slope_can_make_the_lattice_finer(l2, strength, radius):
    problem, draw = problem_with(l2=l2), RegularisedBallDraw(MU, strength, radius)
    steepest = inverse_temperature(problem, strength, MU) * (2.0 + (l2 + strength) * radius) * radius
    assert draw.bits(problem) == min(30, 6 + max(0, math.ceil(math.log2(steepest))))


@pytest.mark.parametrize(("relation", "rows"), [(Relation.REPLACE, 1.0), (Relation.ADD_REMOVE, 2.0)])
@pytest.mark.parametrize("l2", [0.0, 0.125, 5.0])
@pytest.mark.parametrize("strength", [0.01, 0.5, 20.0])
def test_the_rounding_of_an_exponent_is_counted_at_the_farthest_proposal(relation, rows, l2, strength):
    """Twelve standard deviations and their root number beyond where a tangent leads."""
    problem = problem_with(relation=relation, l2=l2)
    k = inverse_temperature(problem, strength, MU)
    steepest = 2.0 * rows
    at = 2.0 * steepest / strength
    slope = steepest + l2 * at
    far = slope / strength + (2.0 + 12.0) / math.sqrt(k * strength)
    term = 20.0 * 2.0**-53
    value = (far + 1.0) * (slope + l2 * far) * (summation_error(2 * N, 4 + 11) + term)
    tangent = (far + at) * slope * 10.0 * 2.0**-53
    found = RegularisedGaussianDraw(MU, strength).rounding(problem)
    assert found.mu == pytest.approx(6.0 * k * (value + tangent), rel=1e-12, abs=0.0)
    below = 2.0 * (far + at + 1.0) * (slope + l2 * far) * (summation_error(2 * N) + term)
    assert found.below == pytest.approx(k * below, rel=1e-12, abs=0.0)


def test_acceptance_is_least_where_curvature_is_spread_evenly():
    problem = problem_with(norm_bound=3.0)
    assert largest_mean_curvature(problem) == 0.25 * 9.0 / 4.0 + 0.125
    expected = (1.0 + (0.5625 + 0.125) / STRENGTH) ** (-0.5 * P)
    assert RegularisedGaussianDraw(MU, STRENGTH).acceptance(problem) == pytest.approx(expected)


class Proposals:
    """A source whose Gaussian points and patience are given, and which keeps what was asked."""

    def __init__(self, steps, patience):
        self.steps, self.patience, self.asked = steps, patience, []

    def gaussian(self, center, sd):
        self.asked.append((center, sd))
        return center + self.steps.ravel()

    def uniform(self, size):
        coarse = np.exp(-self.patience)
        assert size == 2 * coarse.size
        return np.concatenate([coarse, np.zeros_like(coarse)])


@pytest.mark.parametrize("patient", [0, 1, 63])
def test_the_first_proposal_whose_excess_is_within_its_patience_is_drawn(patient):
    """The others are short of it by a thousandth."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.0, 1.0, (N, P))
    y = (x @ [9.0, -6.0, 3.0, 0.0] > rng.uniform(-1.0, 1.0, N)).astype(float)
    problem, draw = problem_with(), RegularisedGaussianDraw(MU, STRENGTH)
    penalty = np.diag([0.0, 0.125, 0.125, 0.125])

    def objective(theta):
        eta = x @ theta
        return np.mean(np.logaddexp(0.0, eta) - y * eta) + 0.5 * theta @ penalty @ theta

    def slope(theta):
        return x.T @ (1.0 / (1.0 + np.exp(-x @ theta)) - y) / N + penalty @ theta

    found = minimize(
        lambda t: objective(t) + 0.5 * STRENGTH * t @ t,
        np.zeros(P),
        jac=lambda t: slope(t) + STRENGTH * t,
        method="BFGS",
        options={"gtol": 1e-10},
    )
    at, rounding = found.x, draw.rounding(problem)
    k = inverse_temperature(problem, STRENGTH, MU - rounding.mu)
    steps = rng.normal(size=(64, P)) / math.sqrt(k * STRENGTH)
    points = steps - slope(at) / STRENGTH
    excess = [objective(point) - objective(at) - slope(at) @ (point - at) for point in points]
    height = k * np.array(excess) + rounding.below
    patience = height * (1.0 - 1e-3)
    patience[patient:] = height[patient:] * (1.0 + 1e-3)
    noise = Proposals(steps, patience)
    drawn = draw.carry_out(problem, rows_of(problem, x, y), noise)
    ((center, sd),) = noise.asked
    np.testing.assert_allclose(center, np.tile(at, 64), atol=1e-6)  # at the minimum -slope / strength is that
    assert sd == pytest.approx(1.0 / math.sqrt(k * STRENGTH), rel=1e-12)
    np.testing.assert_allclose(drawn, points[patient], atol=1e-6)


def test_next_to_the_line_acceptance_is_below_one_by_what_rounding_can_do():
    """There the excess is 0 but for rounding, which could lift a chance above 1 if nothing were added."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1.0, 1.0, (N, P))
    y = (x @ [9.0, -6.0, 3.0, 0.0] > rng.uniform(-1.0, 1.0, N)).astype(float)
    problem, draw = problem_with(), RegularisedGaussianDraw(MU, STRENGTH)
    below = draw.rounding(problem).below
    steps = 1e-9 * np.arange(64.0)[:, None] * np.ones(P)
    noise = Proposals(steps, below * np.array([0.5] * 40 + [1.5] * 24))
    drawn = draw.carry_out(problem, rows_of(problem, x, y), noise)
    np.testing.assert_allclose(drawn - noise.asked[0][0][:P], 40e-9, rtol=1e-4)


def test_far_from_the_minimum_steps_are_shortened():
    """Newton's full steps overshoot where the loss is nearly flat; heights fall at every step."""
    x, y = np.tile([[1.0, 0.0]], (50, 1)), np.ones(50)
    y[:2] = 0.0
    problem = problem_of(Logistic(), 50, 2, norm_bound=2.0)
    draw = RegularisedGaussianDraw(MU, 1e-6)
    rows = rows_of(problem, 30.0 * x, y)

    def objective(points):
        eta = 30.0 * (points @ x.T)
        weight = (2.0 / 30.0) ** 2
        value = weight * (np.logaddexp(0.0, eta) - y * eta).mean(axis=1)
        slope = weight * 30.0 * ((1.0 / (1.0 + np.exp(-eta)) - y) @ x) / 50.0
        return value, slope

    at = draw._minimum(problem, rows, objective)
    assert at[0] == pytest.approx(math.log(48.0 / 2.0) / 30.0, rel=1e-4)
    assert at[1] == 0.0


def test_a_draw_from_a_ball_is_from_the_objective_and_its_ridges(monkeypatch):
    """Times k; up to a constant, as scores are."""
    asked = {}
    monkeypatch.setattr(
        "privfit.procedures.regularised_draw.rounded_draw",
        lambda problem, rows, exponent, noise, **how: asked.update(how, exponent=exponent),
    )
    rng = np.random.default_rng(4)
    x, y = rng.uniform(-1.0, 1.0, (40, 3)), rng.uniform(-1.0, 1.0, 40)
    problem, draw = (
        problem_of(Squared(50.0), 40, 3, norm_bound=2.0, l2=0.25),
        RegularisedBallDraw(MU, 0.5, 4.0),
    )
    draw.carry_out(problem, rows_of(problem, x, y), None)
    assert (asked["radius"], asked["bits"]) == (4.0, draw.bits(problem))
    points, k = rng.normal(size=(5, 3)), draw.temperature(problem)
    ridge = np.diag([0.0, 0.25, 0.25]) + 0.5 * np.eye(3)
    expected = k * np.array([0.5 * np.mean((x @ one - y) ** 2) + 0.5 * one @ ridge @ one for one in points])
    value, gradient = asked["exponent"](points)
    np.testing.assert_allclose(value - value[0], expected - expected[0], rtol=1e-9)
    slopes = [k * (x.T @ (x @ one - y) / 40.0 + ridge @ one) for one in points]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-9)


class Curved:
    """Rows of a Hessian that is too small by far."""

    @staticmethod
    def mean(kind, at):
        assert kind == "hessian"
        return np.array([[-0.625]])


def test_of_shortened_steps_the_lowest_is_taken_ridge_included():
    """The full step, by curvatures of -0.625, 0.25 and 0.5, leads to 8; ``t**2 / 4 - t`` is lowest at 2."""
    problem = replace(problem_of(Squared(2.0), 9, 1, l2=0.25), penalised=(True,))
    linear = RegularisedGaussianDraw(MU, 0.5)._minimum(
        problem, Curved(), lambda points: (-points[:, 0], -np.ones_like(points))
    )
    assert linear == pytest.approx([2.0])
