"""Walks on sampled rows: the law of their length, their steps, their noise, and what gives them away."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.losses import Huber, Logistic, SmoothedQuantile
from privfit.losses.base import evaluate
from privfit.privacy.composition import SampledGaussianEvent, compose
from privfit.privacy.mechanisms import calibrate_gaussian, make_source
from privfit.privacy.relation import Relation
from privfit.privacy.steps import gaussian_steps
from privfit.problem.objective import Problem
from privfit.problem.rows import Rows
from privfit.procedures.noisy_sgd import SampledDescent
from privfit.procedures.random_round import RandomRoundWalk

QUIET = 1e7
"""A ratio at which noise is far below what these tests look at."""


def problem_of(loss, x, *, norm_bound=2.0, l2=0.0, relation=Relation.REPLACE):
    n, p = x.shape
    names = tuple(f"x{k}" for k in range(p))
    return Problem(loss, names, norm_bound, n, relation, l2, (0.0,) * p, (False,) + (True,) * (p - 1))


def rows_of(problem, x, y):
    return Rows(problem, ArraySource(x, y, norm_bound=problem.norm_bound))


def walk_of(problem, *, n_steps=50, step_size=0.3, decay=0.0, ratio=QUIET):
    return RandomRoundWalk(n_steps, step_size, decay, problem.smoothness + problem.l2, ratio, problem.start)


def descent_of(problem, *, n_steps=30, rate=1.0, step_size=0.3, averaged=1, ratio=QUIET, **changes):
    options = {"decay": 0.0, "radius": math.inf, **changes}
    return SampledDescent(
        n_steps, rate, step_size, averaged=averaged, ratio=ratio, start=problem.start, **options
    )


def table(rng, n=60, p=3):
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, size=(n, p - 1))])
    return x, (rng.random(n) < 0.5).astype(float)


@pytest.fixture
def rng():
    return np.random.default_rng(20240509)


@pytest.mark.statistical
@pytest.mark.parametrize("decay", [0.0, 0.6])
@pytest.mark.parametrize("seed", [5, None], ids=["seeded", "secure"])
def test_the_round_has_its_law(decay, seed, rng):
    """Chi-square test, false-alarm rate 1e-8 each; the other decay's law is rejected."""
    problem = problem_of(Logistic(), table(rng)[0])
    laws = {}
    for other in (0.0, 0.6):
        sizes = 1.2 * np.arange(1.0, 9.0) ** -other
        weights = 2 * sizes - problem.smoothness * sizes**2
        laws[other] = weights / weights.sum()
    walk, source = walk_of(problem, n_steps=8, step_size=1.2, decay=decay), make_source(seed)
    np.testing.assert_allclose(walk.step_sizes(), 1.2 * np.arange(1.0, 9.0) ** -decay)
    count = Counter(walk.draw_round(source) for _ in range(6000))
    observed = np.array([count[k] for k in range(1, 9)])
    assert observed.sum() == 6000

    def statistic(law):
        return float(np.sum((observed - 6000 * law) ** 2 / (6000 * law)))

    critical = stats.chi2.isf(1e-8, 7)
    assert statistic(laws[decay]) < critical
    assert statistic(laws[0.6 - decay]) > critical


@pytest.mark.parametrize("n_steps", [1, 2, 50])
def test_a_walk_is_charged_for_its_longest_course_with_one_row_in_n_a_step(n_steps, rng):
    """A walk ends before update R, so that one of at most N rounds takes N - 1 steps."""
    problem = problem_of(Logistic(), table(rng)[0])
    planned = walk_of(problem, n_steps=n_steps, ratio=0.7).planned(problem)
    steps = max(n_steps - 1, 1)
    assert planned.sampled == SampledGaussianEvent("one", "replace", 0.7, 1.0 / 60, steps)
    assert planned.mu == math.inf


def test_the_outcome_is_the_point_before_update_r_and_equals_gradient_descent(rng):
    """Identical rows, next to no noise: R - 1 steps of gradient descent, ridge included."""
    x, y = np.tile([1.0, 0.5, -0.7], (40, 1)), np.ones(40)
    problem = problem_of(Logistic(), x, l2=0.1)
    step = 1 / (problem.smoothness + problem.l2)
    walk = walk_of(problem, n_steps=25, step_size=step)
    seen = set()
    for seed in range(12):
        end = walk.draw_round(make_source(seed))
        seen.add(end)
        outcome = walk.carry_out(problem, rows_of(problem, x, y), make_source(seed))
        point = np.zeros(3)
        for _ in range(end - 1):
            pull = 1 / (1 + math.exp(-x[0] @ point)) - 1
            point = point - step * (pull * x[0] + problem.ridge @ point)
        np.testing.assert_allclose(outcome, point, atol=1e-5)
    assert len(seen) > 5


def test_a_walk_takes_a_loss_with_all_its_constants():
    x, y, loss = np.tile([1.0, 0.5, -0.7], (40, 1)), np.full(40, 0.3), SmoothedQuantile(0.3, 0.5)
    problem = problem_of(loss, x)
    walk = walk_of(problem, n_steps=25)
    end = walk.draw_round(make_source(1))
    point = np.zeros(3)
    for _ in range(end - 1):
        point -= 0.3 * x[0] * evaluate(loss.functions.slope, y[:1], x[:1] @ point, s=1.0, loss=loss)
    assert end > 5
    outcome = walk.carry_out(problem, rows_of(problem, x, y), make_source(1))
    np.testing.assert_allclose(outcome, point, atol=1e-5)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_all_rows_at_rate_one_are_gradient_descent(decay, rng):
    x, y = table(rng)
    problem = problem_of(Logistic(), x, l2=0.1)
    for averaged in (1, 10):
        points, point = [], np.zeros(3)
        for t in range(1, 31):
            gradient = x.T @ (1 / (1 + np.exp(-x @ point)) - y) / 60 + problem.ridge @ point
            point = point - 0.3 * t**-decay * gradient
            points.append(point)
        outcome = descent_of(problem, averaged=averaged, decay=decay).carry_out(
            problem, rows_of(problem, x, y), make_source(3)
        )
        np.testing.assert_allclose(outcome, np.mean(points[-averaged:], axis=0), atol=1e-5)
    for start in (problem.start, (0.5, -0.5, 1.0)):
        held = replace(descent_of(problem, radius=0.05), start=start)
        near = held.carry_out(problem, rows_of(problem, x, y), make_source(3))
        assert np.linalg.norm(near - start) == pytest.approx(0.05, rel=1e-9)


@pytest.mark.statistical
def test_samples_are_independent_and_of_their_rate(rng):
    """A step's sum on rows of a known gradient: binomial, chi-square on 5 cells, false-alarm rate 1e-8."""
    n, rate, draws = 30, 0.125, 1500
    x, y = np.ones((n, 1)), np.ones(n)
    problem = problem_of(Logistic(), x)
    source = make_source(17)
    drawn = []
    for _ in range(draws):
        outcome = descent_of(problem, n_steps=1, rate=rate, step_size=1.0).carry_out(
            problem, rows_of(problem, x, y), source
        )
        drawn.append(round(float(outcome[0]) * rate * n / 0.5))
    law = stats.binom.pmf([0, 1, 2, 3, 4, 5, 6], n, rate)
    law = np.append(law, 1 - law.sum())
    observed = np.bincount(np.minimum(drawn, 7), minlength=8)
    assert np.sum((observed - draws * law) ** 2 / (draws * law)) < stats.chi2.isf(1e-8, 7)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["walk", "descent"])
@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "secure"])
def test_every_step_has_its_noise(kind, seed):
    """Chi-square test of a step's noise, false-alarm rate 1e-8; it rejects 4/5 and 5/4 of the planned sd."""
    x, y = np.tile([1.0, 0.0, 0.0, 0.0], (20, 1)), np.ones(20)
    problem = problem_of(Logistic(), x)
    source, rows, step = make_source(seed), rows_of(problem, x, y), 0.5
    if kind == "walk":
        procedure, divisor = walk_of(problem, n_steps=2, step_size=step, ratio=0.7), 1.0
    else:
        procedure, divisor = descent_of(problem, n_steps=1, rate=1.0, step_size=step, ratio=0.7), 20.0
    planned = procedure.planned(problem)
    assert planned.sd >= planned.sensitivity / 0.7
    assert planned.sd == pytest.approx(planned.sensitivity / 0.7, rel=1e-4)
    moves = np.array([procedure.carry_out(problem, rows, source) for _ in range(700)])
    moves = moves[np.abs(moves).sum(axis=1) > 0]  # a walk of no steps stays at the start
    noise = (moves - step * np.array([0.5, 0, 0, 0])) * divisor / (step * planned.sd)
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], noise.size)
    statistic = float(np.sum(noise**2))
    assert low <= statistic <= high
    assert not low <= statistic * 1.25**2 <= high
    assert not low <= statistic / 1.25**2 <= high
    assert np.abs(noise.mean(axis=0)).max() < 6.5 / math.sqrt(len(noise))


def test_noise_is_checked_and_lies_on_the_lattice():
    sd = calibrate_gaussian(sensitivity=2.0, mu=0.5, size=3)
    noise, spacing = gaussian_steps(50, 3, sensitivity=2.0, mu=0.5, sd=sd, source=make_source(None))
    assert noise.shape == (50, 3)
    assert math.frexp(spacing)[0] == 0.5
    assert 2.0**-41 < spacing / sd <= 2.0**-40
    np.testing.assert_array_equal(noise, np.rint(noise / spacing) * spacing)
    for source in (make_source(0), make_source(None)):
        with pytest.raises(PlanViolation, match="does not give"):
            gaussian_steps(5, 3, sensitivity=2.0, mu=0.5, sd=0.99 * sd, source=source)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.5)], ids=lambda loss: loss.name)
def test_no_row_moves_a_step_by_more_than_planned(loss, rng):
    """One step on one row, for rows on and far beyond every bound: at most half of the sensitivity."""
    lengths = (0.0, 1.0, 2.0, 50.0, 1e150)
    directions = [
        np.eye(3)[0],
        -np.eye(3)[0],
        np.ones(3) / math.sqrt(3),
        np.array([0.0, 1.0, -1.0]) / math.sqrt(2),
    ]
    responses = (0.0, 1.0) if loss.target_kind == "binary" else (-1e9, -0.2, 0.0, 1e9)
    largest, moves = 0.0, []
    for direction in directions:
        for length in lengths:
            for response in responses:
                x, y = np.array([direction * length] * 2), np.full(2, response)
                problem = problem_of(loss, x)
                walk = walk_of(problem, n_steps=2, step_size=1.0)
                seed = next(s for s in range(99) if walk.draw_round(make_source(s)) == 2)
                moves.append(walk.carry_out(problem, rows_of(problem, x, y), make_source(seed)))
                planned = walk.planned(problem)
    largest = max(float(np.linalg.norm(a - b)) for a in moves for b in moves)
    noise = 20 * planned.sd
    assert max(float(np.linalg.norm(a)) for a in moves) <= planned.sensitivity / 2 + noise
    assert 0.49 * planned.sensitivity <= largest <= planned.sensitivity + noise


def test_a_walk_in_another_basis_is_refused(rng):
    x, y = table(rng)
    problem = problem_of(Logistic(), x)
    turned = Problem(**{**problem.__dict__, "basis": np.eye(3), "amplification": 2.0})
    with pytest.raises(PlanViolation, match="encoded coordinates"):
        walk_of(turned).carry_out(turned, rows_of(problem, x, y), make_source(0))


def test_a_step_size_that_diverges_raises_nothing(rng):
    x, y = table(rng)
    problem = problem_of(Logistic(), x, l2=1e3)
    for procedure in (
        walk_of(problem, n_steps=400, step_size=1e3),
        descent_of(problem, n_steps=400, step_size=1e3),
    ):
        with np.errstate(all="ignore"):
            assert procedure.carry_out(problem, rows_of(problem, x, y), make_source(1)).shape == (3,)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["walk", "descent"])
def test_nobody_tells_neighbours_apart_better_than_claimed(kind):
    """Worst neighbours on a line, whose slopes are at opposite bounds wherever the walk is.

    The lower confidence bound on delta, from the event that the outcome is positive, stays below the claim
    (Clopper and Pearson, 1e-7 a side); a claim with a sixteenth of the ratio is refuted.
    """
    n, runs, ratio = 2, 700, 6.0
    x, hits = np.full((n, 1), 2.0), []
    problem = problem_of(Huber(1e-3), x)
    if kind == "walk":
        procedure = walk_of(problem, n_steps=2, step_size=1e-3, ratio=ratio)
    else:
        procedure = descent_of(problem, n_steps=1, rate=0.5, step_size=1e-3, ratio=ratio)
    for changed in (-1e6, 1e6):
        rows = rows_of(problem, x, np.array([changed, -1e6]))
        source = make_source(0 if changed > 0 else 1)
        hits.append(sum(procedure.carry_out(problem, rows, source)[0] > 0 for _ in range(runs)))
    event = procedure.planned(problem).sampled
    weaker = SampledGaussianEvent(event.scheme, event.relation, ratio / 16, event.rate, event.steps)
    low = stats.beta.ppf(1e-7, hits[1], runs - hits[1] + 1)
    high = stats.beta.isf(1e-7, hits[0] + 1, runs - hits[0])
    found = {epsilon: low - math.exp(epsilon) * high for epsilon in (0.0, 0.3, 1.0)}
    assert all(found[epsilon] <= compose([event]).delta_at(epsilon) for epsilon in found)
    assert found[0.0] > compose([weaker]).delta_at(0.0)


@pytest.mark.parametrize(("relation", "rows"), [(Relation.REPLACE, 2), (Relation.ADD_REMOVE, 1)])
def test_a_sum_over_a_sample_is_as_sensitive_as_one_over_all_rows(relation, rows, rng):
    """The slope of a logit is 1 at most and rows are 2 long: whatever the rate, and however many rows."""
    for n in (60, 600):
        problem = problem_of(Logistic(), table(rng, n)[0], relation=relation)
        for rate in (0.01, 1.0):
            planned = descent_of(problem, rate=rate, ratio=0.7).planned(problem)
            mean = n * problem.sensitivity("gradient")
            assert mean < planned.sensitivity < mean * (1.0 + 1e-12)
            assert planned.sensitivity == pytest.approx(2.0 * rows, rel=1e-9)
            assert planned.sensitivity > 2.0 * rows
            assert planned.mu == math.inf


@pytest.mark.statistical
def test_every_step_of_a_long_descent_has_noise_of_its_own():
    """Rows of 0, so that the end is the sum of 600 draws, 200 times: chi-square, false-alarm rate 1e-8.

    Were the first 256 draws used again, its variance would be 2.4 times that.
    """
    x, y, steps = np.zeros((20, 200)), np.zeros(20), 600
    problem = problem_of(Logistic(), x)
    descent = descent_of(problem, n_steps=steps, rate=0.5, step_size=1.0, ratio=0.5)
    end = descent.carry_out(problem, rows_of(problem, x, y), make_source(4))
    sd = descent.planned(problem).sd / (0.5 * 20)
    squares = float(np.sum(end**2)) / (steps * sd**2)
    low, high = stats.chi2.ppf([5e-9, 1.0 - 5e-9], 200)
    assert low < squares < high
