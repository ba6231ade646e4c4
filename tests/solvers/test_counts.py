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
from privfit.problem.plan import Plan
from privfit.problem.query_kernels import query_kernel
from privfit.problem.schedule import planned_release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.solvers.counts import held_to_counts, look_share, slack_at
from privfit.solvers.response import MeanResponse
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
            for seed in range(5)
        ]
        if inference:
            return float(np.median([fit.result_.bse.to_numpy() for fit in fits]))
        return float(np.median([np.linalg.norm(fit.coef_ - [0.3, 0.0]) for fit in fits]))

    assert error(1000) < 3.0 * error(20)


def test_bounds_are_beside_what_is_usual_of_the_counts_that_were_released():
    """Large counts vary more than a count of 1, from which public facts alone must start, and rare ones less.

    A mean that noise hides is as large as the noise, but no larger than 1.
    """
    loss = Poisson(math.log(BOUND), BOUND)
    problem = problem_of(10_000, loss)

    def slack(mean, spread, error=0.0):
        return slack_at(loss, MeanResponse(problem, mean=mean, spread=spread, error=error))

    assert slack(1.0, 1.0) == loss.slack == pytest.approx((0.5 * BOUND, BOUND))
    assert slack(0.04, 0.2) == pytest.approx((2.5 * BOUND, 25.0 * BOUND))
    assert slack(0.04, 0.2, error=0.1) == pytest.approx((0.5 * BOUND / math.sqrt(0.1), 10.0 * BOUND))
    assert slack(100.0, 10.0) == pytest.approx((0.05 * BOUND, 0.01 * BOUND))
    assert slack(100.0, 50.0) == pytest.approx((0.02 * BOUND, 0.01 * BOUND))
    assert slack(100.0, 50.0, error=49.5) == loss.slack
    assert slack_at(Logistic(), MeanResponse(problem, mean=0.5, spread=0.5, error=0.0)) == Logistic().slack


def test_a_look_has_the_more_of_a_budget_the_less_that_shows():
    parts = [look_share(problem_of(10_000), mu) for mu in (1e-3, 0.09, 0.25, 1e3)]
    assert parts == [0.05, pytest.approx(0.03), pytest.approx(0.018), 0.01]


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
    else:
        assert result.model == "Poisson regression"
