"""Bounds on counts that suit the tail which their means do not explain."""

import math
from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import poisson

import privfit as pf
from privfit.data.declarations import NumericColumn
from privfit.data.exposure import Exposure, SeenExposures
from privfit.losses import Poisson, Squared
from privfit.losses.poisson import predictor_up_to
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES
from privfit.solvers.counts import held_to_counts
from privfit.solvers.curvature import normal_nodes
from privfit.solvers.geometry import Frame
from privfit.solvers.histogram import class_edges, counting_part, farthest_seen, largest_seen
from privfit.solvers.raised_counts import expected_shares, raised_alone, raised_at
from tests.solvers.tails_by_hand import TailsByHand

DECLARED = 100.0
EDGES = class_edges(DECLARED)
FRAME = Frame(np.eye(2), np.array([2.0, 0.0]), 2.0, np.eye(2), 1.0)


class Looked:
    """An oracle that has looked at counts with these shares."""

    def __init__(self, shares, noise):
        planned = PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, noise)
        self.released, self.loss = [Release(planned, np.zeros(1), shares)], None

    def change_loss(self, loss):
        self.loss = loss


def problem_of(n, bound=8.0, *, of_means=None, loss=None, constant=True, declared=DECLARED):
    if loss is None:
        loss = Poisson(predictor_up_to(bound) if of_means is None else of_means, bound)
    facts = ("1", "x"), 1.0, n, Relation.REPLACE, 0.0, (0.0, 0.0), (not constant, True)
    return Problem(loss, *facts, response_bound=declared)


def classes(law):
    """Return the shares of a law of counts by class."""
    last = np.ceil(EDGES[1:-1] * (1.0 - 1e-12)) - 1.0
    return -np.diff(np.concatenate([[1.0], law.sf(last), [0.0]]))


def mixed(share):
    """Return the shares of counts of mean 1, a share of which is gamma mixed."""
    return (1.0 - share) * classes(poisson(1.0)) + share * heavy()


@lru_cache
def heavy():
    """Return the shares of counts whose means are gamma distributed with mean 1."""
    means = np.random.default_rng(0).gamma(0.15, 1.0 / 0.15, 20_000)
    return classes(SimpleNamespace(sf=lambda k: np.mean(poisson(means[:, None]).sf(k), axis=0)))


def by_hand(problem, oracle, middle, variance, mu, *, most_noise=1.0):
    """Return the bound, step by step."""
    look, n, loss = oracle.released[0], problem.n_rows, problem.loss
    part = counting_part(look.value, look.sd)
    nodes, chances = normal_nodes(1)
    expected = sum(
        chance * classes(poisson(math.exp(middle + math.sqrt(variance) * node)))
        for node, chance in zip(nodes[0], chances, strict=True)
    )
    shares, noise = look.value / part, look.sd / part
    tail = TailsByHand(shares, noise, EDGES, whole=True, explained=expected)
    errors = (shares - expected)[tail.first :] / noise
    odds = 0.05 / 0.95 * math.exp(min(tail.evidence + 0.5 * float(errors @ errors), 500.0))
    doubt = odds / (1.0 + odds)
    seen = largest_seen(look).number
    middles = 0.5 * (np.append(0.0, EDGES[1:-1]) + EDGES[1:])[:seen]
    mean, square = float(shares[:seen] @ middles), float(shares[:seen] @ middles**2)
    each = 2.0 * math.sqrt(1.2 * problem.n_coef / n) / (mu * part)
    spread = max(math.sqrt(mean), 0.5 * math.sqrt(square - mean**2))
    most = min(most_noise * spread / each, DECLARED)
    if most <= loss.count_bound:
        return loss.count_bound
    least = min(max(loss.count_bound, farthest_seen(look).below(DECLARED)), most)
    for bound in np.geomspace(least, most, 24):
        if doubt * tail.excess(bound) <= 0.05 * math.hypot(spread, each * bound) / math.sqrt(n):
            return bound
    return most


@pytest.mark.parametrize("share", [0.0, 0.05, 0.2])
@pytest.mark.parametrize(("noise", "mu"), [(5e-4, 2.0), (1.5e-3, 0.8), (5e-3, 0.25)])
def test_bounds_are_those_worked_out_step_by_step(share, noise, mu):
    rng = np.random.default_rng(7)
    problem = problem_of(10_000)
    oracle = Looked(mixed(share) + noise * rng.normal(size=NORM_CLASSES), noise)
    point = np.array([-0.15, 0.4])
    found = raised_at(problem, oracle, FRAME, point, mu)
    wanted = by_hand(problem, oracle, -0.3, 0.16, mu)
    assert found.loss.count_bound == pytest.approx(wanted, rel=1e-9)
    assert found.loss is (problem.loss if oracle.loss is None else oracle.loss)
    alone = raised_alone(problem, oracle, mu)
    mean = float(oracle.released[0].value[: largest_seen(oracle.released[0]).number] @ _middles(oracle))
    assert alone.loss.count_bound == pytest.approx(
        by_hand(problem, oracle, math.log(mean), 0.0, mu, most_noise=0.5), rel=1e-9
    )


@pytest.mark.parametrize(("mean", "mu"), [(1.0, 0.6), (4.0, 0.6), (1.0, 6.0)])
@pytest.mark.parametrize("rare", [0.0, 0.04])
def test_of_rows_that_count_for_less_there_is_more_noise(mean, mu, rare):
    """Those of six tenths, with exposures of which more is known, and counts whose square is much."""
    rng, noise = np.random.default_rng(9), 8e-4
    law = (1.0 - rare) * classes(poisson(mean)) + rare * classes(poisson(40.0))
    oracle = Looked(0.6 * law + noise * rng.normal(size=NORM_CLASSES), noise)
    assert counting_part(oracle.released[0].value, noise) < 0.7
    seen = SeenExposures(2.0, 9.0, 0.2, (2.0 * math.exp(0.5), 0.3))
    exposure = replace(Exposure("years", NumericColumn(0.0, 9.0)), seen=seen)
    problem = replace(problem_of(10_000, 12.0), exposure=exposure)
    found = raised_at(problem, oracle, FRAME, np.array([0.5 * math.log(mean) - 0.2, 0.2]), mu)
    wanted = by_hand(problem, oracle, math.log(mean) - 0.4 + 0.5 - 0.15, 0.04 + 0.3, mu)
    assert found.loss.count_bound == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("declared", [8.0, 100.0, 1000.0])
def test_what_a_law_expects_is_what_its_counts_add_up_to(declared):
    """In classes with edges that may be whole numbers, of which the upper class has the count."""
    edges, (nodes, chances) = class_edges(declared), normal_nodes(1)
    counts = np.arange(3000)
    wanted = np.zeros(NORM_CLASSES)
    for node, chance in zip(nodes[0], chances, strict=True):
        found = np.searchsorted(edges[1:-1] * (1.0 - 1e-9), counts, side="right")
        np.add.at(wanted, found, chance * poisson(math.exp(0.4 + 0.7 * node)).pmf(counts))
    np.testing.assert_allclose(expected_shares(edges, 0.4, 0.49), wanted, rtol=1e-9, atol=1e-15)


def _middles(oracle):
    return (0.5 * (np.append(0.0, EDGES[1:-1]) + EDGES[1:]))[: largest_seen(oracle.released[0]).number]


def test_a_tail_that_few_rows_have_raises_the_bound_and_that_of_a_poisson_law_does_not():
    """Of 100 looks some 95 do, and some 15: less than 80 or more than 40 have a chance below 1e-7."""
    rng, noise, raised = np.random.default_rng(3), 1.5e-3, []
    for share in (0.2, 0.0):
        law = mixed(share)
        looks = [
            Looked(rng.multinomial(10_000, law) / 1e4 + noise * rng.normal(size=NORM_CLASSES), noise)
            for _ in range(100)
        ]
        found = [
            raised_at(problem_of(10_000), oracle, FRAME, np.zeros(2), 0.8).loss.count_bound
            for oracle in looks
        ]
        raised.append(sum(bound > 12.0 for bound in found))
    assert raised[0] >= 80
    assert raised[1] <= 40


def test_means_that_vary_explain_their_tail():
    """Log means with a variance of 1 have counts far beyond the bound: means are held to it, too."""
    nodes, chances = normal_nodes(1)
    law = sum(c * classes(poisson(math.exp(node))) for node, c in zip(nodes[0], chances, strict=True))
    rng = np.random.default_rng(4)
    oracle = Looked(law + 1e-3 * rng.normal(size=NORM_CLASSES), 1e-3)
    known, unknown = (
        raised_at(problem_of(10_000, 20.0), oracle, FRAME, np.array([0.0, slope]), 2.0).loss.count_bound
        for slope in (1.0, 0.0)
    )
    assert known <= 25.0
    assert unknown > 40.0


def test_few_counts_far_beyond_all_others_are_not_cut():
    law = 0.995 * classes(poisson(1.0))
    law[NORM_CLASSES - 4] += 0.005
    oracle = Looked(law, 5e-4)
    assert (
        raised_at(problem_of(50_000), oracle, FRAME, np.zeros(2), 2.0).loss.count_bound
        >= EDGES[NORM_CLASSES - 3]
    )


def test_other_problems_are_left_alone():
    oracle, point = Looked(mixed(0.2), 1e-3), np.zeros(2)
    raised = problem_of(10_000)
    assert raised_at(raised, oracle, FRAME, point, 2.0) is not raised
    for problem in (
        problem_of(10_000, loss=Squared(1.0)),
        problem_of(10_000, constant=False),
        problem_of(10_000, declared=None),
        problem_of(10_000, DECLARED),
    ):
        assert raised_at(problem, Looked(mixed(0.2), 1e-3), FRAME, point, 2.0) is problem
    exact = Looked(mixed(0.2), 0.0)
    assert raised_at(raised, exact, FRAME, point, 2.0) is raised
    nothing = SimpleNamespace(released=[])
    assert raised_at(raised, nothing, FRAME, point, 2.0) is raised
    assert raised_alone(raised, nothing, 2.0) is raised


def test_a_bound_on_log_means_that_was_not_lowered_stays():
    oracle = Looked(mixed(0.2), 1e-3)
    found = raised_at(problem_of(10_000), oracle, FRAME, np.zeros(2), 2.0).loss
    assert found.bound == predictor_up_to(found.count_bound)
    kept = raised_at(problem_of(10_000, of_means=1.5), oracle, FRAME, np.zeros(2), 2.0).loss
    assert (kept.bound, kept.count_bound) == (1.5, found.count_bound)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("budget", "n"), [({"delta": 1e-6, "epsilon": 4.0}, 10_000), ({"delta": 0.0, "epsilon": 8.0}, 10_000)]
)
def test_intervals_of_a_level_whose_counts_vary_most_hold(budget, n):
    """Forty intervals of 95 %: 12 are wrong with a chance of 1e-6. With the lowered bound about 27 were."""
    rng, wrong = np.random.default_rng(11), 0
    schema = {
        "g": {"type": "categorical", "levels": ["a", "b"]},
        "y": {"type": "numeric", "lower": 0.0, "upper": DECLARED},
    }
    for seed in range(40):
        second = rng.random(n) < 0.2
        y = rng.poisson(np.where(second, rng.gamma(0.15, 1.0 / 0.15, n), 1.0)).astype(float)
        rows = {"g": np.where(second, "b", "a"), "y": y}
        low, high = (
            pf.poisson("y ~ C(g)", rows, schema=schema, random_state=seed, **budget).conf_int().iloc[1]
        )
        wrong += math.isfinite(high - low) and not low <= 0.0 <= high
    assert wrong < 12


def test_held_and_raised_is_no_more_than_declared():
    problem = problem_of(10_000, DECLARED)
    oracle = Looked(mixed(0.2), 1e-3)
    oracle.release = lambda kind, at: oracle.released[0]
    held = held_to_counts(problem, oracle)
    found = raised_at(held, oracle, FRAME, np.zeros(2), 50.0)
    assert held.loss.count_bound < found.loss.count_bound <= DECLARED
