"""Bounds of gradient steps, held against objectives in closed form that attain them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privfit.errors import PlanViolation
from privfit.procedures.landscape import Landscape
from privfit.procedures.minimise import MOST_STEPS, GradientDescent


def landscape_of(*, start=(0.0,), slope=1.0, curvature=1.0, l2=0.0, n_rows=1000, **more):
    return Landscape(len(start), slope, curvature, l2, 2.0 * slope / n_rows, n_rows, start, **more)


def test_a_ridge_that_takes_all_of_a_step_leaves_its_last_one():
    for l2 in (1e15, 1e16, 1e300):
        landscape = landscape_of(l2=l2)
        one = GradientDescent(n_steps=5, step_size=1.0 / (1.0 + l2))
        assert one.sensitivity(landscape) == pytest.approx(landscape.sensitivity / l2, rel=1e-2)


def test_a_start_next_to_the_minimum_needs_a_step():
    settled = GradientDescent().settled(landscape_of(), distance=1e-170, spread=1.0)
    assert settled.n_steps >= 1


class Quadratic:
    """``sum(values * (at - center)**2) / 2``, asked no more often than is said."""

    def __init__(self, values, center, most=10**6):
        self.values, self.center, self.left = np.array(values), np.array(center), most

    def __call__(self, at):
        return 0.5 * float(self.values @ (at - self.center) ** 2)

    def gradient(self, at):
        self.left -= 1
        assert self.left >= 0
        return self.values * (at - self.center)

    def hessian(self, at):
        return np.diag(self.values) + 0.0 * at


class Flattened(Quadratic):
    """Quadratic up to ``width`` from the center, and linear beyond."""

    def __init__(self, value, width):
        super().__init__([value], [0.0])
        self.width = width

    def __call__(self, at):
        beyond = max(abs(float(at[0])) - self.width, 0.0)
        return super().__call__(np.clip(at, -self.width, self.width)) + self.values[0] * self.width * beyond

    def gradient(self, at):
        return self.values * np.clip(at, -self.width, self.width)


class Steepest:
    """A linear loss as steep as rows and tilt may be, with the ridge; every gradient is off by ``off``."""

    def __init__(self, landscape, side=-1.0, off=0.0):
        self.l2 = landscape.l2
        self.slope = side * (landscape.slope + landscape.tilt) + off

    def gradient(self, at):
        return self.slope + self.l2 * at


WALKS = [
    ({"slope": 0.3, "tilt": 2.0}, {"n_steps": 7, "step_size": 0.5}),
    ({"slope": 0.3, "tilt": 2.0, "l2": 0.1}, {"n_steps": 7, "step_size": 0.5}),
    ({"slope": 3.0, "l2": 0.5, "curvature": 0.01}, {"n_steps": 300, "step_size": 0.25}),
    ({"slope": 3.0}, {"n_steps": 300, "step_size": 0.25, "radius": 0.7}),
    ({"slope": 2.0, "tilt": 0.5, "start": (0.1,)}, {"n_steps": 3, "step_size": 0.25}),
    ({"slope": 2.0, "l2": 0.5, "start": (0.1,)}, {"n_steps": 3, "step_size": 0.25}),
    ({"slope": 2.0, "l2": 0.5, "start": (3.0,)}, {"n_steps": 1, "step_size": 0.25}),
    ({"slope": 2.0, "l2": 0.5, "start": (30.0,)}, {"n_steps": 1, "step_size": 0.25}),
]


@pytest.mark.parametrize(("facts", "setting"), WALKS, ids=str)
def test_no_iterate_is_farther_than_where_the_steepest_objective_leads_and_its_way_again(facts, setting):
    landscape, descent = landscape_of(**facts), GradientDescent(**setting)
    farthest, start = descent._farthest(landscape), landscape.start[0]
    ends = [descent.minimise(landscape, Steepest(landscape, side))[0] for side in (-1.0, 1.0)]
    way = max(abs(end - start) for end in ends)
    first = setting["step_size"] * abs(Steepest(landscape, 1.0).gradient(start))
    assert max(start, *map(abs, ends)) <= farthest
    assert farthest <= start + 2.0 * way * (1.0 + 1e-9) or landscape.l2
    assert farthest <= start + 2.0 * min(setting["n_steps"] * first, landscape.reach) * (1.0 + 1e-9)


def test_iterates_far_from_the_origin_go_as_far_as_their_rounding_leads():
    """There a step of 0.6 units in the last place is one of 1."""
    unit = np.spacing(1e8)
    landscape = landscape_of(start=(1e8,), slope=1.2 * unit)
    descent = GradientDescent(n_steps=40, step_size=0.5)
    end = descent.minimise(landscape, Steepest(landscape))[0]
    assert end == 1e8 + 40 * unit
    assert descent._farthest(landscape) >= end


@pytest.mark.parametrize(("curvature", "l2"), [(1.0, 0.1), (3.0, 2.0), (0.2, 0.05)])
@pytest.mark.parametrize("n_steps", [1, 2, 5])
def test_the_longest_step_is_allowed_and_leaves_what_is_said(curvature, l2, n_steps):
    """Steps overshoot the minimiser where curvature is largest, by as much as they fall short elsewhere."""
    landscape = landscape_of(curvature=curvature, l2=l2, slope=30.0)
    descent = GradientDescent(n_steps, landscape.longest_step)
    assert descent.settled(landscape, distance=1.0, spread=1.0) == descent
    assert descent.sensitivity(landscape) > 0.0
    for distance in (0.25, 1.5):
        objective = Quadratic([landscape.smoothness], [distance])
        left = objective(descent.minimise(landscape, objective))
        assert descent.gap(landscape, distance=distance) == pytest.approx(left, rel=1e-9, abs=0.0)


def test_short_steps_on_a_ridge_leave_what_is_said():
    landscape = landscape_of(curvature=1e-9, l2=0.5, slope=30.0)
    for n_steps, size in ((1, 1.9), (3, 0.5), (9, 1.0)):
        descent, objective = GradientDescent(n_steps, size), Quadratic([0.5], [1.5])
        left = objective(descent.minimise(landscape, objective))
        assert descent.gap(landscape, distance=1.5) == pytest.approx(left, rel=1e-6, abs=0.0)
    whole = GradientDescent(1, 1.0 / landscape_of(curvature=1e-20, l2=1.0).smoothness)
    assert 0.0 <= whole.gap(landscape_of(curvature=1e-20, l2=1.0), distance=1.0) < 1e-30


@pytest.mark.parametrize("curvature", [0.3, 4.0])
@pytest.mark.parametrize("n_steps", [1, 4, 20])
@pytest.mark.parametrize("part", [0.3, 1.0])
def test_without_a_ridge_the_slowest_function_keeps_half_of_what_is_said(curvature, n_steps, part):
    """That of Drori and Teboulle 2014, section 3: ``L D**2 / (4 part T + 2)`` are left over."""
    landscape, distance = landscape_of(curvature=curvature, start=(1.7,)), 1.7
    descent = GradientDescent(n_steps, part / curvature)
    slowest = Flattened(curvature, distance / (2.0 * part * n_steps + 1.0))
    left = slowest(descent.minimise(landscape, slowest))
    assert left == pytest.approx(curvature * distance**2 / (4.0 * part * n_steps + 2.0))
    gap = descent.gap(landscape, distance=distance)
    assert left <= gap <= left * (2.0 + 1.0 / (part * n_steps)) * (1.0 + 1e-9)
    assert gap <= 0.5 * curvature * distance**2


@pytest.mark.parametrize("n_steps", [1, 2])
def test_a_step_beyond_the_inverse_of_the_curvature_leaves_more(n_steps):
    landscape, descent = landscape_of(), GradientDescent(n_steps, 1.95)
    objective = Quadratic([1.0], [1.0])
    assert descent.gap(landscape, distance=1.0) >= objective(descent.minimise(landscape, objective))


def test_the_minimiser_is_no_farther_than_the_ridge_lets_it_be():
    landscape, descent = landscape_of(slope=0.5, l2=0.25), GradientDescent(5, 0.5)
    assert descent.gap(landscape, distance=1e9) == descent.gap(landscape, distance=2.0)
    assert descent.gap(landscape, distance=1.0) == pytest.approx(descent.gap(landscape, distance=2.0) / 4.0)
    assert replace(descent, radius=2.0).gap(landscape, distance=1e9) == descent.gap(landscape, distance=2.0)
    assert replace(descent, radius=1.9).gap(landscape, distance=1e9) == math.inf
    assert replace(descent, radius=1.9).gap(landscape, distance=1.5) == descent.gap(landscape, distance=1.5)


def bound(descent, landscape, distance, spread):
    """Return what `GradientDescent.settled` is said to minimise."""
    noise = spread * descent.sensitivity(landscape)
    return descent.gap(landscape, distance=distance) + 0.5 * landscape.smoothness * noise**2


@pytest.mark.parametrize("curvature", [0.2, 1.0, 30.0])
@pytest.mark.parametrize("l2", [0.0, 0.003, 0.3])
@pytest.mark.parametrize("spread", [1e-6, 1.0, 5.0, 30.0])
@pytest.mark.parametrize("given", [{}, {"n_steps": 1}, {"n_steps": 6}, {"step_size": 0.02}], ids=str)
def test_no_other_step_promises_less_error(curvature, l2, spread, given):
    """All of 40 sizes and 40 counts, within what their spacing leaves."""
    landscape, facts = landscape_of(curvature=curvature, l2=l2), {"distance": 1.5, "spread": spread}
    settled = GradientDescent(**given).settled(landscape, **facts)
    counts = {given.get("n_steps", round(count)) for count in np.geomspace(1, MOST_STEPS, 40)}
    smallest = 1e-5 * landscape.longest_step
    sizes = {*np.geomspace(smallest, 1.0 / landscape.smoothness, 40), landscape.longest_step}
    sizes = {given.get("step_size", size) for size in sizes}
    best = min(bound(GradientDescent(t, s), landscape, **facts) for t in counts for s in sizes)
    assert bound(settled, landscape, **facts) <= 1.05 * best
    assert all(getattr(settled, name) == value for name, value in given.items())


def test_without_noise_steps_are_as_long_and_many_as_they_may_be():
    for curvature in (0.5, 8.0):
        flat, ridged = landscape_of(curvature=curvature), landscape_of(curvature=curvature, l2=1e-3)
        facts = {"distance": 1.0, "spread": 0.0}
        assert GradientDescent().settled(flat, **facts) == GradientDescent(MOST_STEPS, 1.0 / curvature)
        assert GradientDescent(n_steps=3).settled(flat, **facts) == GradientDescent(3, 1.0 / curvature)
        longest = GradientDescent(n_steps=10**5).settled(ridged, **facts)
        assert longest.step_size == pytest.approx(ridged.longest_step)


@pytest.mark.parametrize("part", [0.7, 0.8, 0.95])
def test_the_length_that_theory_asks_for_is_no_step_beyond_the_limit(part):
    """One step, and noise that balances a step of ``part / curvature``; the limit is 2 / 3 of that unit."""
    landscape = landscape_of(curvature=1.0, l2=1.0)
    spread = math.sqrt(1.0 / (2.0 * landscape.smoothness * part**3)) / landscape.sensitivity
    settled = GradientDescent(n_steps=1).settled(landscape, distance=1.0, spread=spread)
    assert settled.step_size <= landscape.longest_step


@pytest.mark.parametrize("n_steps", [1, 6])
def test_a_given_number_of_steps_has_the_length_that_theory_asks_for(n_steps):
    """What is left over, ``D**2 / (2 s)``, and noise in proportion to the length ``s`` are in balance."""
    landscape, spread = landscape_of(curvature=1.0), 500.0
    settled = GradientDescent(n_steps=n_steps).settled(landscape, distance=1.0, spread=spread)
    length = (1.0 / (2.0 * (spread * landscape.sensitivity) ** 2)) ** (1 / 3)
    assert settled.step_size == pytest.approx(length / n_steps)


def test_one_step_is_taken_where_it_leads_all_the_way():
    landscape = landscape_of(curvature=1e-6, l2=1.0)
    assert GradientDescent().settled(landscape, distance=1.0, spread=5.0).n_steps == 1


def test_half_settled_steps_have_no_sensitivity():
    for half in (GradientDescent(n_steps=3), GradientDescent(step_size=0.1)):
        with pytest.raises(PlanViolation, match="before its steps were settled"):
            half.sensitivity(landscape_of())
