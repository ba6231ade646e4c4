"""Bounds on counts: lowered to what noise shows, with room for what it hides, and never raised."""

import math

import numpy as np
import pytest

import privfit as pf
from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.losses import Logistic, Poisson
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, PlannedRelease, Release
from privfit.problem.query_kernels import query_kernel
from privfit.problem.schedule import planned_release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.solvers.counts import held_to_counts, look_share, share_to_see
from privfit.solvers.whitened import WhitenedGradientDescent

BOUND = 1000.0
EDGE = 2.0 ** (1.0 / NORMS_A_DOUBLING)


def problem_of(n, loss=None):
    loss = Poisson(math.log(BOUND), BOUND) if loss is None else loss
    return Problem(loss, ("x",), 1.0, n, Relation.REPLACE, 0.0, (0.0,), (False,))


def held(y, mu, seed=0):
    """Return the loss after a look at the counts that costs ``mu``."""
    problem = problem_of(len(y))
    planned = planned_release(problem, "counts", Allowance(mu))
    plan = Plan("m", "s", len(y), ("x",), "replace", mu, (planned,), ())
    oracle = Oracle(problem, plan, ArraySource(np.ones((len(y), 1)), y, norm_bound=1.0), make_source(seed))
    found = held_to_counts(problem, oracle)
    assert oracle.problem.loss == found.loss
    assert not oracle.remaining("counts")
    return found.loss


def test_shares_are_those_of_the_counts():
    y = np.concatenate([np.arange(0.0, 3000.0), [np.nan, np.nan]])
    problem = problem_of(len(y))
    source = ArraySource(np.ones((len(y), 1)), y, norm_bound=1.0)
    found = source.sum(query_kernel(problem, "counts", np.zeros(1)), problem.sum_length("counts"))
    edges = BOUND * 2.0 ** (np.arange(1 - NORM_CLASSES, 0.0) / NORMS_A_DOUBLING)
    wanted = np.bincount(np.searchsorted(edges, y[:3000]), minlength=NORM_CLASSES)
    np.testing.assert_allclose(found, wanted, atol=1)  # a count on an edge
    assert found.sum() == 3000
    assert found[-1] >= 2000
    with pytest.raises(PlanViolation, match="not a count"):
        query_kernel(problem_of(5, Logistic()), "counts", np.zeros(1))
    with pytest.raises(PlanViolation, match="not a label"):
        query_kernel(problem_of(5), "labels", np.zeros(1))


class Shown:
    """An oracle whose look at counts shows these shares, by the number of their class, with this noise."""

    def __init__(self, shares, sd):
        value = np.array([shares.get(number, 0.0) for number in range(NORM_CLASSES)])
        self.look = Release(PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, sd), np.zeros(1), value)
        self.changed = None

    def release(self, kind, at):
        assert kind == "counts"
        return self.look

    def change_loss(self, loss):
        self.changed = loss


def shown(shares, sd=0.0, *, declared=1024.0):
    """Return the bound that a look at classes leaves, the first of which ends at a thousandth of it."""
    oracle = Shown(shares, sd)
    found = held_to_counts(problem_of(9, Poisson(math.log(declared), declared)), oracle)
    assert oracle.changed == (None if found.loss.count_bound == declared else found.loss)
    return found.loss.count_bound


def test_bounds_that_a_look_leaves_by_hand():
    """Beyond the last class that shows counts are to be a hundred times rarer than noise may hide there."""
    seen = {8: 0.6, 20: 0.4}
    assert shown(seen) == pytest.approx(2.0 ** (21 / 4))
    hidden = 3.0 * 1e-3 * math.sqrt(19.0)
    room = 1.0 + math.log(100.0) / math.log(1.0 / hidden)
    assert shown(seen, 1e-3) == pytest.approx(room * 2.0 ** (21 / 4))
    most = 0.25 / (3.0 * math.sqrt(19.0))
    assert shown(seen, 0.999 * most) < 1024.0
    assert shown(seen, 1.001 * most) == 1024.0
    at_most = shown({8: 0.6, 23: 0.4}, 1.0 / 48.0)
    assert at_most == pytest.approx((1.0 + math.log(100.0) / math.log(4.0)) * 64.0)


def test_where_next_to_nothing_is_seen_of_counts_the_bound_stays_and_the_least_is_2():
    assert shown({0: 1.0}) == 1024.0
    assert shown({1: 1.0}) == shown({3: 1.0}) == 2.0
    assert shown({3: 1.0}, declared=512.0) == 2.0
    assert shown({2: 1.0}, declared=512.0) == 512.0
    assert shown({4: 1.0}, declared=512.0) == 2.0


@pytest.mark.parametrize("largest", [3.0, 30.0, 300.0])
def test_with_a_large_budget_no_count_is_cut_and_the_bound_is_near_the_largest(largest):
    y = np.linspace(0.0, largest, 10_000)
    loss = held(y, 1e6)
    assert largest <= loss.count_bound <= 1.5 * EDGE * largest
    assert loss.bound == pytest.approx(math.log(loss.count_bound + 0.25))


def test_where_only_zeros_are_seen_the_bound_stays():
    """Noise hides the few rows that make up the mean."""
    y = np.zeros(20_000)
    y[:200] = np.random.default_rng(2).poisson(10.0, size=200)
    assert {held(y, 0.03, seed).count_bound for seed in range(50)} == {BOUND}
    assert held(y, 1.0).count_bound < 0.1 * BOUND


@pytest.mark.statistical
@pytest.mark.parametrize("mu", [0.03, 0.1, 1.0])
@pytest.mark.parametrize("shape", [0.5, 2.0, 1e6])
def test_few_counts_are_beyond_the_bound(mu, shape):
    """Gamma mixtures of Poisson counts, from heavy tails to Poisson's; fifty looks at 20,000 rows.

    What is cut off moves the mean by less than two thirds of the noise in a gradient with five times the
    budget of the look.
    """
    rng = np.random.default_rng(5)
    y = rng.poisson(3.0 * rng.gamma(shape, 1.0 / shape, size=20_000)).astype(float)
    bounds = np.array([held(y, mu, seed).count_bound for seed in range(50)])
    lost = np.array([np.mean(np.maximum(y - bound, 0.0)) for bound in bounds])
    noise = 2.0 * bounds / (20_000 * 5.0 * mu)
    assert (lost < 0.67 * noise).mean() >= 0.9
    assert np.median(bounds) < 0.25 * BOUND


def test_what_noise_hides_altogether_lowers_nothing():
    y = np.random.default_rng(1).poisson(2.0, size=100).astype(float)
    assert {held(y, 1e-3, seed).count_bound for seed in range(20)} == {BOUND}


def test_bounds_are_never_raised():
    loss = Poisson(1.5, 10.0)
    assert loss.up_to(100.0) == loss
    assert loss.up_to(math.inf) == loss
    assert loss.up_to(8.0) == Poisson(1.5, 8.0)
    assert loss.up_to(3.0) == Poisson(math.log(3.25), 3.0)
    assert loss.up_to(0.5) == Poisson(math.log(1.25), 0.5)


@pytest.mark.parametrize("inference", [True, False])
def test_a_generous_bound_costs_little(inference):
    """Fifty times the bound would be fifty times the noise without the look."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(20_000, 2))
    y = rng.poisson(np.exp(0.3 * x[:, 0]))

    def error(bound):
        fits = [
            pf.PoissonRegressor(1.0, count_bound=bound, inference=inference, random_state=seed).fit(x, y)
            for seed in range(3)
        ]
        if inference:
            return float(np.median([fit.result_.bse.to_numpy() for fit in fits]))
        return float(np.median([np.linalg.norm(fit.coef_ - [0.3, 0.0]) for fit in fits]))

    assert error(1000) < 3.0 * error(20)


def test_a_look_has_the_more_of_a_budget_the_less_that_shows():
    parts = [look_share(problem_of(10_000), mu) for mu in (1e-3, 0.09, 0.25, 1e3)]
    assert parts == [0.05, pytest.approx(0.03), pytest.approx(0.018), 0.01]
    to_see = [share_to_see(problem_of(1000), mu) for mu in (0.1, 0.2, 1.0)]
    assert to_see == pytest.approx([0.3, 0.4**2, 0.9 / math.sqrt(1000.0)])


@pytest.mark.parametrize(
    ("solver", "loss", "share"),
    [
        (WhitenedGradientDescent(), None, 0.07),
        (WhitenedGradientDescent(), Logistic(), 0.1),
        (WhitenedGradientDescent(geometry_share=0.2), None, 0.2),
    ],
)
def test_a_second_moment_of_counts_has_less_of_a_budget(solver, loss, share):
    plan = solver.plan(problem_of(1000, loss), Allowance(0.5))
    (moment,) = (release for release in plan if release.kind == "second_moment")
    assert moment.mu**2 == pytest.approx(share * 0.5**2)
    assert sum(release.mu**2 for release in plan) == pytest.approx(0.5**2)


def events(n, seed):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=n), rng.random(n) < 0.2])
    return x, rng.poisson(np.exp(-3.5 + x @ [0.5, 0.7]))


@pytest.mark.parametrize("bound", [2.0, 10.0])
def test_rare_counts_have_intervals_whatever_their_bound(bound):
    """A mean count of 0.04; noise hid the bread of half of such fits, and of most with the tight bound."""
    fits = [
        pf.PoissonRegressor(4.0, delta=1e-5, count_bound=bound, random_state=seed).fit(*events(20_000, seed))
        for seed in range(20)
    ]
    widths = np.array([fit.result_.bse.to_numpy() for fit in fits])
    assert np.isfinite(widths).all(axis=1).mean() >= 0.9


@pytest.mark.parametrize("bound", [1, 3, 10])
def test_a_level_whose_counts_are_nearly_all_at_the_bound_has_an_interval(bound):
    """Noise leads its mean beyond the bound, where there was no curvature."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        level = (rng.random(4000) < 0.2).astype(float)
        y = rng.binomial(bound, np.where(level == 1.0, 0.95, 0.3))
        model = pf.PoissonRegressor(4.0, delta=1e-4, count_bound=bound, random_state=seed)
        result = model.fit(np.column_stack([rng.normal(size=4000), level]), y).result_
        assert np.isfinite(result.bse.to_numpy()).all()
        assert abs(result.params.to_numpy()[-1] - math.log(0.95 / 0.3)) < 0.2


@pytest.mark.parametrize(
    ("bound", "solver", "said"), [(200, "auto", True), (8, "auto", False), (200, "newton", False)]
)
def test_a_title_says_to_what_a_look_lowered_the_bound(bound, solver, said):
    """It is a released number, and where larger counts are moved to."""
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, 5000)
    schema = {
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "y": {"type": "numeric", "lower": 0, "upper": bound},
    }
    data = {"x": x, "y": rng.poisson(np.exp(0.5 * x))}
    result = pf.poisson("y ~ x", data, schema=schema, epsilon=2.0, random_state=0, solver=solver)
    assert result.model.startswith("Poisson regression (counts up to ") == said
    if said:
        assert 6.0 < float(result.model.split()[-1].rstrip(")")) < 30.0
        assert "counts up to" in result.summary().as_text()
        assert "solver='newton' cuts none" in " ".join(result.summary().as_text().split())
        assert (result.form.held.what, result.form.held.possible) == ("counts", bound)
    else:
        assert result.model == "Poisson regression"
        assert result.form.held is None
