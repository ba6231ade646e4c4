"""Certified minimisers, held against objectives in closed form that attain what is said of them."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privfit.errors import InvalidArgument, PlanViolation
from privfit.procedures.minimise import CertifiedMinimiser, project

from .test_minimise_bounds import Quadratic, landscape_of


@pytest.fixture
def coarse(monkeypatch):
    """Bounds on rounding as of numbers with 23 bits, which that of doubles disappears beside."""
    monkeypatch.setattr("privfit.procedures.landscape.UNIT_ROUNDOFF", 2.0**-23)


def exactly_allowed(landscape, radius):
    """Return the minimiser with the smallest tolerance."""
    least = 2.0 * CertifiedMinimiser(radius=radius).floor(landscape)
    return CertifiedMinimiser(least, radius).settled(landscape, distance=1.0, spread=1.0)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize(("slope", "radius"), [(1.0, 500.0), (1.0, 100.0), (1.0, 30.0), (0.05, 20.0)])
@pytest.mark.parametrize(("curvature", "side"), [(1.0, 1.0), (20.0, 1.0), (1.0, -1.0)])
def test_the_last_resort_ends_at_the_stated_distance_where_all_that_can_be_is_off(
    slope, radius, curvature, side, monkeypatch
):
    """The minimiser is as far as it can be, and rounding in every step is what it can be, away from it."""
    landscape = landscape_of(slope=slope, curvature=curvature, l2=0.01 * curvature)
    minimiser = exactly_allowed(landscape, radius)
    target = min(landscape.reach, radius)
    farthest = minimiser._farthest(landscape)
    short = side * landscape.update_rounding(farthest, landscape.longest_step)
    monkeypatch.setattr("privfit.procedures.minimise.project", lambda at, *_: at - short)
    objective = Quadratic([landscape.l2], [side * target])
    objective.center = objective.center - side * landscape.rounding(farthest) / landscape.l2
    off = abs(side * target - minimiser._descend(landscape, objective)[0])
    assert 0.975 * minimiser.error(landscape) <= off <= minimiser.error(landscape)


def test_a_start_near_enough_needs_few_steps_however_close_the_minimiser():
    """The distance to cover is less than the tolerance allows, and at least one order is covered."""
    landscape = landscape_of(slope=1e-3, l2=0.1)
    minimiser = CertifiedMinimiser(tolerance=1.0, radius=5.0)
    assert 1 < minimiser.fallback_steps(landscape) < 10


@pytest.mark.usefixtures("coarse")
def test_a_tolerance_is_at_least_twice_what_rounding_leaves():
    landscape = landscape_of(start=(3.0, 4.0), l2=0.01)
    allowed = exactly_allowed(landscape, 2.0)
    assert allowed.error(landscape) == pytest.approx(allowed.tolerance / 0.01)
    within = replace(allowed, tolerance=allowed.tolerance * (1.0 - 1e-6))
    with pytest.raises(InvalidArgument, match="tolerance must be at least"):
        within.settled(landscape, distance=1.0, spread=1.0)
    with pytest.raises(PlanViolation, match="below what rounding allows"):
        within.error(landscape)
    with pytest.raises(PlanViolation, match="below what rounding allows"):
        allowed.error(replace(landscape, l2=0.0))
    rounding = landscape.rounding(7.0)
    assert 2.0 * rounding < allowed.tolerance < 2.0 * landscape.rounding(7.0) + 2.0 * 17.0 * 2.0**-23 * 10.0


def test_the_default_ball_and_tolerance_are_those_of_the_docstring():
    many, few = landscape_of(start=(0.0,) * 4, l2=0.1, n_rows=10**15), landscape_of(start=(0.0,) * 4, l2=0.1)
    facts = {"distance": 1.0, "spread": 1.0}
    for landscape in (many, few):
        settled = CertifiedMinimiser().settled(landscape, **facts)
        assert settled.radius == 20.0
        rounding = 8.0 * settled.floor(landscape)
        assert settled.tolerance == pytest.approx(max(2e-4 / landscape.n_rows, rounding), abs=0.0)
    assert 8.0 * CertifiedMinimiser(radius=20.0).floor(many) > 2e-4 / 10**15
    assert 8.0 * CertifiedMinimiser(radius=20.0).floor(few) < 2e-4 / 1000


def test_no_rounding_makes_a_certified_sensitivity_smaller():
    """Against rational numbers."""
    for l2, tolerance in itertools.product(np.geomspace(0.01, 3.0, 20), (None, 1e-11)):
        landscape = landscape_of(l2=float(l2))
        minimiser = CertifiedMinimiser(tolerance).settled(landscape, distance=1.0, spread=1.0)
        error = Fraction(minimiser.tolerance) / Fraction(landscape.l2)
        moved = Fraction(landscape.sensitivity) / Fraction(landscape.l2) + 2 * error
        assert error <= Fraction(minimiser.error(landscape)) <= error * Fraction(1 + 1e-8)
        assert moved <= Fraction(minimiser.sensitivity(landscape)) <= moved * Fraction(1 + 1e-8)


def test_no_rounding_takes_projected_points_out_of_what_bounds_them():
    landscape, rng = landscape_of(start=(0.0,) * 3, l2=0.1), np.random.default_rng(1)
    for radius in (0.3, 1.7, 55.0):
        ends = [project(1e3 * rng.normal(size=3), np.zeros(3), radius) for _ in range(50)]
        longest = max(sum(Fraction(float(number)) ** 2 for number in end) for end in ends)
        farthest = Fraction(CertifiedMinimiser(radius=radius)._farthest(landscape))
        assert Fraction(radius) ** 2 < longest <= farthest**2 <= longest * Fraction(1 + 1e-8)


def test_a_ridge_beside_which_the_curvature_vanishes_needs_few_steps():
    landscape = landscape_of(l2=1e18, slope=1e18)
    assert 1 < CertifiedMinimiser(tolerance=1e6, radius=1.0).fallback_steps(landscape) < 10


@pytest.mark.parametrize("curvature", [0.02, 1.0, 50.0])
def test_the_least_ridge_is_in_proportion_to_the_curvature(curvature):
    facts = {"distance": 1.0, "spread": 1.0}
    least = landscape_of(curvature=curvature, l2=1e-10 * curvature)
    assert CertifiedMinimiser().settled(least, **facts).tolerance is not None
    with pytest.raises(InvalidArgument, match="l2 must be at least"):
        CertifiedMinimiser().settled(replace(least, l2=0.99e-10 * curvature), **facts)


@pytest.mark.usefixtures("coarse")
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_certificate_counts_the_rounding_of_the_gradient_and_the_distance_from_the_start(side):
    """Rounding is that at the far end of the ball: 3 from the start, and 8 from the origin."""
    landscape = landscape_of(start=(-3.0, 4.0), l2=0.01)
    minimiser = exactly_allowed(landscape, 3.0)
    start, shortest = np.array(landscape.start), minimiser.tolerance - landscape.rounding(8.0)

    def certified(away, length):
        objective = Quadratic([1.0, 1.0], start + away - side * length * np.array([0.6, 0.8]))
        return minimiser._certified(landscape, objective, start + away)

    inside, outside = side * np.array([0.0, 2.99]), side * np.array([0.0, 3.01])
    assert certified(inside, 0.9999 * shortest)
    assert not certified(inside, 1.0001 * shortest)
    assert not certified(outside, 0.0)
    assert certified(side * np.array([0.0, 3.0]), 0.0)


@pytest.mark.parametrize("curvature", [0.1, 7.0])
def test_a_certified_point_is_worth_what_is_said_if_the_minimiser_is_in_the_ball(curvature):
    landscape = landscape_of(curvature=curvature, l2=0.2 * curvature, slope=0.6 * curvature)  # a reach of 3
    minimiser = CertifiedMinimiser(tolerance=0.05, radius=2.0)
    objective = Quadratic([landscape.smoothness], [0.3])
    worst = objective(objective.center + minimiser.error(landscape))
    assert minimiser.gap(landscape, distance=1.0) == pytest.approx(worst)
    assert minimiser.gap(landscape, distance=2.0) == minimiser.gap(landscape, distance=1.0)
    assert minimiser.gap(landscape, distance=2.1) == math.inf
    wider = replace(minimiser, radius=3.1)
    assert wider.gap(landscape, distance=1e9) == minimiser.gap(landscape, distance=1.0)


NARROW = landscape_of(start=(0.5, -0.5, 0.5), slope=40.0, curvature=4.0 - 4e-4, l2=4e-4)
"""Curvatures between 4e-4 and 4."""


def test_accelerated_steps_are_certified_in_the_number_that_the_square_root_asks_for():
    minimiser = CertifiedMinimiser(tolerance=1e-7, radius=6.0)
    most = math.ceil(2.0 * math.log(2.0 * 4.0 * 6.0 / 1e-7) * 100.0)
    objective = Quadratic([4.0, 0.04, 4e-4], [2.0, 1.0, -3.0], most + 1)
    found = minimiser._accelerated(NARROW, objective)
    assert minimiser._certified(NARROW, objective, found)


def test_accelerated_steps_end_on_the_ball_where_the_minimiser_is_beyond():
    objective = Quadratic([4.0, 0.04, 4e-4], [2.0, 1.0, -30.0])
    found = CertifiedMinimiser(tolerance=1e-7, radius=6.0)._accelerated(NARROW, objective)
    outwards, gradient = found - NARROW.start, objective.gradient(found)
    assert np.linalg.norm(outwards) == pytest.approx(6.0)
    assert gradient @ outwards == pytest.approx(-6.0 * np.linalg.norm(gradient), rel=1e-6)


def test_newton_steps_need_no_more_than_one_on_a_parabola():
    objective = Quadratic([4.0, 0.04, 4e-4], [2.0, 1.0, -3.0], 3)
    minimiser = CertifiedMinimiser(tolerance=1e-7, radius=6.0)
    assert np.array_equal(minimiser.minimise(NARROW, objective), objective.center)


def test_newton_steps_that_overshoot_are_halved():
    """``sqrt(1 + t**2)``, from beyond 1, where steps lead further and further away."""

    class Cone:
        asked = 0

        def gradient(self, at):
            self.asked += 1
            return at / np.sqrt(1.0 + at**2)

        def hessian(self, at):
            return np.diag((1.0 + at**2) ** -1.5)

    for start in (1.05, -2.0, 3.0):
        cone, minimiser = Cone(), CertifiedMinimiser(tolerance=1e-9, radius=1000.0)
        landscape = landscape_of(start=(start,), l2=1e-3)
        assert abs(minimiser._newton(landscape, cone)[0]) < 1e-9
        assert cone.asked < 20


def test_projection_is_to_the_nearest_point_of_the_ball():
    center = np.array([1.0, -2.0])
    for away, wanted in (([3.0, 4.0], [0.6, 0.8]), ([-30.0, 40.0], [-0.6, 0.8]), ([0.3, 0.4], [0.3, 0.4])):
        found = project(center + np.array(away), center, 1.0)
        np.testing.assert_allclose(found - center, wanted, rtol=1e-12)
    assert project(center, -center, None) is center


def test_half_settled_certificates_have_no_sensitivity():
    for half in (CertifiedMinimiser(tolerance=0.1), CertifiedMinimiser(radius=1.0)):
        with pytest.raises(PlanViolation, match="before its tolerance was settled"):
            half.sensitivity(landscape_of(l2=0.1))
