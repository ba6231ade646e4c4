"""Minimisers without noise: how far one replaced row can move them, and what they promise to reach."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.losses import Huber, Logistic
from privfit.privacy.allowance import Allowance
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.rows import Rows
from privfit.problem.schedule import planned_noise
from privfit.procedures.landscape import Landscape, Objective, fully_penalised
from privfit.procedures.minimise import CertifiedMinimiser, GradientDescent
from privfit.procedures.output_perturbation import PerturbedOutput

P = 3


def problem_of(loss, *, n, l2=0.0, norm_bound=1.5, p=P):
    names = tuple(f"x{k}" for k in range(p))
    bare = Problem(loss, names, norm_bound, n, Relation.REPLACE, l2, (0.0,) * p, (False,) + (True,) * (p - 1))
    return fully_penalised(bare)


def objective_of(problem, x, y, tilt=None):
    return Objective(problem, Rows(problem, ArraySource(x, y, norm_bound=problem.norm_bound)), tilt)


def outcome(minimiser, problem, x, y):
    return minimiser.minimise(Landscape.of(problem), objective_of(problem, x, y))


def extreme_rows(norm_bound):
    directions = [
        *np.eye(P),
        *(-np.eye(P)),
        np.ones(P) / math.sqrt(P),
        np.array([1.0, -1.0, 0.0]) / math.sqrt(2),
    ]
    return [
        (length * norm_bound * d, y)
        for d in directions
        for length, y in itertools.product((0.0, 0.5, 1.0, 40.0, 1e200), (-1e9, 0.0, 0.3, 1.0, 1e9))
    ]


MINIMISERS = [
    (GradientDescent(n_steps=7), 0.0),
    (GradientDescent(n_steps=25, radius=0.7), 0.0),
    (GradientDescent(n_steps=40), 0.05),
    (GradientDescent(n_steps=12, radius=0.4), 0.3),
    (CertifiedMinimiser(), 0.05),
    (CertifiedMinimiser(radius=0.5), 0.05),
    (CertifiedMinimiser(newton_steps=1), 0.3),
]


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("minimiser", "l2"), MINIMISERS, ids=str)
def test_no_replaced_row_moves_the_outcome_further_than_the_sensitivity(minimiser, l2, loss):
    rng = np.random.default_rng(7)
    problem = problem_of(loss, n=6, l2=l2)
    landscape = Landscape.of(problem)
    settled = minimiser.settled(landscape, distance=2.0, spread=3.0)
    rows = extreme_rows(problem.norm_bound)
    for _ in range(4):
        base = [rows[k] for k in rng.choice(len(rows), 5)]
        ends = []
        for k in rng.choice(len(rows), 12, replace=False):
            x, y = map(np.array, zip(*[*base, rows[k]], strict=True))
            ends.append(outcome(settled, problem, x, y))
        gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(ends, 2)]
        assert max(gaps) <= settled.sensitivity(landscape)


@pytest.mark.parametrize("l2", [0.0, 0.2])
def test_linear_losses_attain_the_sensitivity_of_gradient_descent(l2):
    """The derived constants are attained; the published 3 and 5 are larger than needed."""
    problem = problem_of(Huber(0.5), n=8, l2=l2, norm_bound=1.0)
    landscape = Landscape.of(problem)
    descent = GradientDescent(n_steps=9, step_size=0.8).settled(landscape, distance=1.0, spread=1.0)
    x = np.tile(np.eye(P)[0], (8, 1))
    far = np.full(8, 1e6)  # residuals beyond the threshold: the loss is linear there
    other = far.copy()
    other[3] = -1e6
    gap = np.linalg.norm(outcome(descent, problem, x, far) - outcome(descent, problem, x, other))
    decay = (1 - (1 - 0.8 * l2) ** 9) / l2 if l2 else 0.8 * 9
    assert gap == pytest.approx(2 * 0.5 / 8 * decay, rel=1e-9)
    assert gap <= descent.sensitivity(landscape) < gap * (1 + 1e-6)
    published = 5 * 0.5 * (2 * l2 + 1) / (8 * l2 * (l2 + 1)) if l2 else 3 * 0.5 * 0.8 * 9 / 8
    assert published >= 1.4999 * descent.sensitivity(landscape)


def test_the_ridge_bound_is_attained_in_the_limit():
    problem = problem_of(Huber(0.5), n=8, l2=0.2, norm_bound=1.0)
    landscape = Landscape.of(problem)
    minimiser = CertifiedMinimiser(radius=50.0).settled(landscape, distance=1.0, spread=1.0)
    x, y = np.tile(np.eye(P)[0], (8, 1)), np.full(8, 1e6)
    other = y.copy()
    other[0] = -1e6
    gap = np.linalg.norm(outcome(minimiser, problem, x, y) - outcome(minimiser, problem, x, other))
    assert gap == pytest.approx(2 * 0.5 / (8 * 0.2), rel=1e-4)
    assert gap <= minimiser.sensitivity(landscape) < gap * 1.001


@pytest.mark.parametrize("tolerance", [1e-3, 0.2])
def test_outcomes_of_neighbours_may_be_off_by_the_tolerance_in_opposite_directions(tolerance, monkeypatch):
    """Any point with a gradient within the tolerance is accepted, so the bound counts it on both tables."""
    problem = problem_of(Huber(0.5), n=8, l2=0.2, norm_bound=1.0)
    landscape = Landscape.of(problem)
    minimiser = CertifiedMinimiser(tolerance, 50.0).settled(landscape, distance=1.0, spread=1.0)
    x, y = np.tile(np.eye(P)[0], (8, 1)), np.full(8, 1e6)
    other = y.copy()
    other[0] = -1e6
    exact, ends = CertifiedMinimiser._newton, []
    for response, side in ((y, 1.0), (other, -1.0)):
        off = side * (1.0 - 1e-6) * tolerance / problem.l2 * np.eye(P)[0]
        tight = dataclasses.replace(minimiser, tolerance=1e-12)
        monkeypatch.setattr(
            CertifiedMinimiser, "_newton", lambda _, *rest, tight=tight, off=off: exact(tight, *rest) + off
        )
        ends.append(outcome(minimiser, problem, x, response))
    gap = np.linalg.norm(ends[0] - ends[1])
    assert gap == pytest.approx((2 * 0.5 / 8 + 2 * tolerance) / 0.2, rel=1e-5)
    assert gap <= minimiser.sensitivity(landscape) < gap * (1 + 1e-4)


class OffByRounding:
    """The steepest linear objective, its gradient off by as much as rounding may make it."""

    def __init__(self, landscape, radius, side):
        self.steepest = side * (0.5 * landscape.sensitivity + landscape.rounding(radius)) * np.eye(P)[0]
        self.l2 = landscape.l2

    def gradient(self, at):
        return self.steepest + self.l2 * at


@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_the_sensitivity_of_gradient_descent_covers_rounding_in_every_step(l2, monkeypatch):
    """So many rows that one of them counts little more than rounding; steps are off as the gradients are."""
    problem = problem_of(Huber(0.5), n=10**9, l2=l2, norm_bound=1.0)
    landscape = Landscape.of(problem)
    descent = GradientDescent(n_steps=40, step_size=0.5, radius=1e-5)
    radius, ends = descent._farthest(landscape), []
    for side in (1.0, -1.0):
        off = side * landscape.update_rounding(radius, 0.5) * np.eye(P)[0]
        monkeypatch.setattr("privfit.procedures.minimise.project", lambda at, *_, off=off: at - off)
        ends.append(descent.minimise(landscape, OffByRounding(landscape, radius, side)))
    gap = np.linalg.norm(ends[0] - ends[1])
    assert gap > 1.000001 * 0.5 * landscape.sensitivity * sum((1 - 0.5 * l2) ** k for k in range(40))
    assert gap <= descent.sensitivity(landscape) < gap * (1 + 1e-6)


@pytest.mark.parametrize("factor", [1.25, 1.5])
def test_steps_beyond_the_limit_would_break_the_sensitivity_and_are_refused(factor):
    """On a Huber loss with eta * beta of 2.5 and 3 tables drift apart more than twice as far as bounded."""
    n, steps, c = 1000, 12, 0.5
    problem = problem_of(Huber(c), n=n, norm_bound=1.0, p=1)
    landscape = Landscape.of(problem)
    limit = landscape.longest_step
    assert limit == pytest.approx(2.0)
    size = factor * limit
    x, y = np.ones((n, 1)), np.full(n, 1e-3)
    other = y.copy()
    y[0], other[0] = 1e6, -1e6
    ends = []
    for response in (y, other):
        objective, at = objective_of(problem, x, response), np.zeros(1)
        for _ in range(steps):
            at = at - size * objective.gradient(at)
        ends.append(at)
    assert np.linalg.norm(ends[0] - ends[1]) > 2.0 * (2 * c * size * steps / n)
    with pytest.raises(InvalidArgument, match="step_size must be at most"):
        GradientDescent(steps, size).settled(landscape, distance=1.0, spread=1.0)
    with pytest.raises(PlanViolation):
        GradientDescent(steps, size).sensitivity(landscape)


def test_the_default_step_and_count_are_those_of_the_theorem():
    """Convex: T* = (beta^2 D^2 n^2 / (8 L^2 c^2))^(1/3), c^2 the mean square of noise over Delta."""
    problem = problem_of(Logistic(), n=5000)
    landscape = Landscape.of(problem)
    spread, distance = math.sqrt(3 * 4) / 0.8, 1.7
    settled = GradientDescent().settled(landscape, distance=distance, spread=spread)
    beta, slope = landscape.smoothness, landscape.slope
    ideal = (beta**2 * distance**2 * 5000**2 / (8 * slope**2 * spread**2)) ** (1 / 3)
    assert settled.n_steps == math.ceil(ideal)
    assert settled.n_steps * settled.step_size == pytest.approx(ideal / beta, rel=1e-6)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.3)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("route", ["newton", "accelerated", "descend"])
def test_every_route_ends_within_the_stated_distance(loss, route, monkeypatch):
    """A failing certificate leads to another method, never to another guarantee."""
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(200), rng.normal(size=(200, 2))])
    y = (rng.random(200) < 0.4).astype(float)
    problem = problem_of(loss, n=200, l2=0.02)
    landscape = Landscape.of(problem)
    minimiser = CertifiedMinimiser(tolerance=1e-9).settled(landscape, distance=1.0, spread=1.0)
    objective = objective_of(problem, x, y)
    if route == "newton":
        found = minimiser._newton(landscape, objective)
    elif route == "accelerated":
        found = minimiser._accelerated(landscape, objective)
    else:
        found = minimiser._descend(landscape, objective)
    tight = dataclasses.replace(minimiser, tolerance=1e-13)
    exact = tight._newton(landscape, objective)
    assert np.linalg.norm(objective.gradient(exact)) < 1e-13
    assert np.linalg.norm(found - exact) <= minimiser.error(landscape)


def test_a_failing_certificate_is_not_an_error(monkeypatch):
    problem = problem_of(Logistic(), n=50, l2=0.2)
    landscape = Landscape.of(problem)
    minimiser = CertifiedMinimiser().settled(landscape, distance=1.0, spread=1.0)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(50, P)), (rng.random(50) < 0.5).astype(float)
    wanted = outcome(minimiser, problem, x, y)
    monkeypatch.setattr(CertifiedMinimiser, "_certified", lambda *_: False)
    fallback = outcome(minimiser, problem, x, y)
    assert np.linalg.norm(fallback - wanted) <= 2 * minimiser.error(landscape)
    assert not np.array_equal(fallback, wanted)


@pytest.mark.parametrize("route", ["accelerated", "descend"])
def test_more_rows_than_were_told_get_shorter_steps(route, monkeypatch):
    """With seven times the public number, for which steps that suit the public one would not end.

    All rows have the largest curvature, in one direction.
    """
    x, y = np.tile([1.5, 0.0, 0.0], (350, 1)), np.full(350, 0.2)
    problem = dataclasses.replace(problem_of(Huber(0.3), n=50, l2=0.02), relation=Relation.ADD_REMOVE)
    landscape, objective = Landscape.of(problem), objective_of(problem, x, y)
    assert (landscape.crowd, objective.crowd) == (2.0, 7.0)
    minimiser = CertifiedMinimiser(tolerance=1e-9).settled(landscape, distance=1.0, spread=1.0)
    exact = dataclasses.replace(minimiser, tolerance=1e-13)._newton(landscape, objective)
    assert np.linalg.norm(objective.gradient(exact)) < 1e-13
    accelerated, descend = CertifiedMinimiser._accelerated, CertifiedMinimiser._descend
    monkeypatch.setattr(CertifiedMinimiser, "_newton", lambda *_: np.array(problem.start))
    if route == "descend":
        monkeypatch.setattr(CertifiedMinimiser, "_accelerated", lambda *_: np.array(problem.start))
    found = minimiser.minimise(landscape, objective)
    assert np.linalg.norm(found - exact) <= minimiser.error(landscape)
    long = (accelerated if route == "accelerated" else descend)(minimiser, landscape, objective)
    assert np.linalg.norm(long - exact) > 1e6 * minimiser.error(landscape)


def test_outside_the_ball_the_outcome_is_the_constrained_minimiser():
    problem = problem_of(Logistic(), n=40, l2=0.01)
    landscape = Landscape.of(problem)
    rng = np.random.default_rng(11)
    x = rng.normal(size=(40, P))
    y = (x[:, 0] > 0).astype(float)
    minimiser = CertifiedMinimiser(radius=0.3).settled(landscape, distance=1.0, spread=1.0)
    objective = objective_of(problem, x, y)
    found = minimiser.minimise(landscape, objective)
    gradient = objective.gradient(found)
    assert np.linalg.norm(found) == pytest.approx(0.3, rel=1e-6)
    assert gradient @ found == pytest.approx(-np.linalg.norm(gradient) * 0.3, rel=1e-6)


def test_what_the_certificate_needs_is_refused_in_words():
    problem = problem_of(Logistic(), n=40)
    with pytest.raises(Incompatible, match="needs a ridge"):
        CertifiedMinimiser().settled(Landscape.of(problem), distance=1.0, spread=1.0)
    ridged = Landscape.of(problem_of(Logistic(), n=40, l2=0.1))
    with pytest.raises(InvalidArgument, match="tolerance must be at least"):
        CertifiedMinimiser(tolerance=1e-18).settled(ridged, distance=1.0, spread=1.0)
    faint = Landscape.of(problem_of(Logistic(), n=40, l2=1e-13))
    with pytest.raises(InvalidArgument, match="l2 must be at least"):
        CertifiedMinimiser().settled(faint, distance=1.0, spread=1.0)
    with pytest.raises(PlanViolation):
        CertifiedMinimiser(tolerance=1e-18, radius=1.0).sensitivity(ridged)
    with pytest.raises(PlanViolation):
        GradientDescent().sensitivity(ridged)


def test_rounding_is_bounded_as_stated():
    """The computed gradient against one in 80-bit arithmetic."""
    rng = np.random.default_rng(2)
    problem = problem_of(Logistic(), n=3000, l2=0.1, norm_bound=2.0)
    landscape = Landscape.of(problem)
    x, y = rng.normal(size=(3000, P)), (rng.random(3000) < 0.5).astype(float)
    at = rng.normal(size=P) * 20
    computed = objective_of(problem, x, y).gradient(at)
    source = ArraySource(x, y, norm_bound=2.0)
    block = next(source.blocks())
    wide = block.x.astype(np.longdouble)
    slope = 1 / (1 + np.exp(-(wide @ at.astype(np.longdouble)))) - block.y
    exact = (block.weight[:, None] * slope[:, None] * wide).sum(axis=0) / 3000 + problem.l2 * at
    off = float(np.linalg.norm((computed - exact).astype(float)))
    assert 0 < off <= landscape.rounding(float(np.linalg.norm(at)))


@pytest.mark.parametrize("minimiser", [GradientDescent(n_steps=7), CertifiedMinimiser(radius=0.5)], ids=str)
def test_a_plan_that_understates_how_far_the_outcome_moves_is_refused(minimiser):
    problem = problem_of(Logistic(), n=6, l2=0.05)
    settled = minimiser.settled(Landscape.of(problem), distance=2.0, spread=3.0)
    needed = settled.sensitivity(Landscape.of(problem))
    allowance = Allowance.gaussian(1.0)
    for part in (1.0, 1.5):
        release = planned_noise("minimiser", problem.size, part * needed, allowance)
        assert PerturbedOutput(settled, release).planned(problem) == release
    release = planned_noise("minimiser", problem.size, math.nextafter(needed, 0.0), allowance)
    with pytest.raises(PlanViolation, match="understates the sensitivity"):
        PerturbedOutput(settled, release).planned(problem)
