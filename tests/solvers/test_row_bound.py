"""How long rows may be where nothing declares it: what solvers choose from public facts."""

import dataclasses
import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import root
from scipy.special import expit
from scipy.stats import chi2

import privfit as pf
from privfit.data.clamp import UNWEIGHTED, default_norm_bound
from privfit.losses import (
    ConcomitantHuber,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    SmoothedQuantile,
    Squared,
)
from privfit.losses.typical import typical_curvature, usual_residual
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.solvers import BY_NAME, NoisyGradientDescent, NoisyNewton, WhitenedGradientDescent
from privfit.solvers.geometry import Frame, Marginals
from privfit.solvers.hessian_model import HessianModel
from privfit.solvers.response import MeanResponse
from privfit.solvers.row_bound import (
    flatness,
    generosity,
    least_norm,
    longest_usual,
    signal_of_bread,
    squared_bound,
    whole_norm,
)
from tests.solvers.simulated import problem_for

GROWING = (NoisyNewton(), NoisyGradientDescent())


def problem(loss=None, *, n=10_000, p=3):
    empty = problem_for(loss or Logistic(), np.ones((2, p)), norm_bound=default_norm_bound(p))
    return dataclasses.replace(empty, n_rows=n)


def growth(solver, mu, **facts):
    """Return the squared bound over the usual one."""
    asked = problem(**facts)
    return (solver.norm_bound(asked, Allowance.gaussian(mu)) / asked.norm_bound) ** 2


@pytest.mark.parametrize("solver", GROWING, ids=repr)
def test_the_bound_grows_with_rows_and_budget(solver):
    assert growth(solver, 0.1) == growth(solver, 0.1, n=40_000) == 1.0
    assert growth(solver, 0.5) == pytest.approx((10_000 * 0.25 / (160 * 3)) ** (2 / 3))
    assert growth(solver, 0.5, n=20_000) == pytest.approx((20_000 * 0.25 / (160 * 3)) ** (2 / 3))
    assert growth(solver, 2.0) == growth(solver, math.inf) == pytest.approx(6.0)
    found = [growth(solver, 0.5, n=n) for n in (100, 10_000, 10**6, 2**40)]
    assert found == sorted(found)


def test_noise_of_hessians_limits_the_bound():
    """A median smoothed by 0.4 has 3.2 times a typical row's curvature as its bound."""
    asked, allowance = problem(SmoothedQuantile(0.5, 0.4), n=40_000, p=20), Allowance.gaussian(2.0)
    squared = NoisyNewton().norm_bound(asked, allowance) ** 2
    assert squared == pytest.approx(0.003 * 80_000 / (3.217 * math.sqrt(20)), rel=1e-3)
    assert growth(NoisyNewton(), 2.0, p=20) == pytest.approx(0.003 * 20_000 / math.sqrt(20) / 10)


def test_the_signal_of_a_bread_is_less_where_fewer_rows_count():
    plan = make_plan(problem(), WhitenedGradientDescent(), Allowance.gaussian(1.0), inference=True)
    whole, half = (signal_of_bread(plan, math.inf, part) for part in (1.0, 0.5))
    assert math.isfinite(whole)
    assert half == pytest.approx(0.5 * whole)


def test_generous_bounds_leave_less_room_in_whitened_coordinates():
    """By the square of that of slopes, and by that of curvatures; predictors of all classes have noise."""
    asked, kinds = problem(n=20_000, p=5), {"signal": 0.5, "bread": 0.5}
    steps = 0.006 * 20_000 * 0.25 * (1.0 + 4.0 / 5)
    assert squared_bound(asked, 3.0, 0.0, slack=(1.0, 0.1, 1.0), **kinds) == pytest.approx(steps)
    assert squared_bound(asked, 3.0, 0.0, slack=(2.0, 0.1, 1.0), **kinds) == pytest.approx(steps / 4.0)
    bread = 0.015 * 20_000 * 0.5 / math.sqrt(5)
    assert squared_bound(asked, 3.0, 0.0, slack=(0.1, 3.0, 1.0), **kinds) == pytest.approx(bread / 3.0)
    classes = problem(Multinomial(3), n=20_000, p=5)
    assert squared_bound(classes, 3.0, 0.0, slack=(0.1, 1.0, 1.0), **kinds) == pytest.approx(
        bread / math.sqrt(2)
    )
    unlimited = {"signal": math.inf, "bread": math.inf, "slack": (1.0, 1.0, 1.0)}
    assert squared_bound(asked, 3.0, 0.0, **unlimited) == 20_000
    assert squared_bound(asked, 30_000.0, 0.0, **unlimited) == pytest.approx(36_000.0)


def test_generous_bounds_on_residuals_leave_less_room_for_rows_longer_than_usual():
    """As there is without a schema, by their square less, but what rare levels or normal rows ask for."""
    asked, kinds = dataclasses.replace(problem(n=20_000, p=5), bounded=True), {"signal": 0.6, "bread": 1e3}
    noise, usual = 0.006 * 20_000 * 0.36, longest_usual(3.0, 20_000)
    limits = {1.0: 21.0 * noise, 1.1: 1.8 * noise / 1.21, 4.0: usual}
    assert limits[1.1] > usual > 1.8 * noise / 16.0
    for generous, limit in limits.items():
        assert squared_bound(asked, 3.0, 0.0, slack=(1.0, 0.1, generous), **kinds) == pytest.approx(limit)
    for room, limit in ((0.9 * math.sqrt(usual), usual), (7.0, 49.0), (1e9, 21.0 * noise)):
        assert squared_bound(asked, 3.0, room, slack=(1.0, 0.1, 4.0), **kinds) == pytest.approx(limit)
    kinds["signal"] = 0.05
    little = 21.0 * 0.006 * 20_000 * 0.05**2
    assert 3.6 < little < usual
    assert squared_bound(asked, 3.0, 0.0, slack=(1.0, 0.1, 4.0), **kinds) == pytest.approx(little)


@pytest.mark.parametrize("n", [2, 300, 10**6])
@pytest.mark.parametrize("p", [1, 3, 40])
def test_hardly_one_of_the_rows_of_normal_columns_is_longer_than_usual(n, p):
    squared = longest_usual(p, n) / math.sqrt(2.0)
    assert 1e-3 / n <= chi2.sf(squared, p) <= 1.0 / n


def test_a_bound_on_residuals_is_generous_beyond_two_of_their_deviations():
    asked = problem(Squared(0.3, adapts=True), p=4)
    response = MeanResponse(asked, mean=0.0, spread=0.05, error=0.0)
    frame = Frame(np.eye(4), np.zeros(4), 4.0, np.eye(4), 4.0)
    model = HessianModel(asked, frame, Marginals(np.zeros(4), np.ones(4), 0.0, 0.0, response))
    assert generosity(model, np.zeros(4), 2.0) == pytest.approx(3.0, rel=1e-3)
    explained = np.array([0.0, 0.04, 0.0, 0.0])
    assert generosity(model, explained, 2.0) == pytest.approx(5.0, rel=1e-3)
    for loss, found in ((Squared(0.09), 1.0), (Huber(1.0), 1.0), (Poisson(1.0, 9), 2.0)):
        other = dataclasses.replace(model, problem=dataclasses.replace(asked, loss=loss))
        assert generosity(other, np.zeros(4), 2.0) == found
    alike = dataclasses.replace(model.marginals, response=dataclasses.replace(response, spread=0.0))
    assert generosity(dataclasses.replace(model, marginals=alike), np.zeros(4), 2.0) > 1e100


def test_a_bound_on_curvatures_is_as_generous_as_it_is_larger_than_usual():
    assert flatness(problem()) == flatness(problem(Hinge())) == 1.0
    width = SmoothedQuantile(0.5, 0.4)
    usual = typical_curvature(width, residual=1.0)
    assert flatness(problem(width)) == pytest.approx(width.constants.curvature / usual)
    bounded = dataclasses.replace(problem(width), response_bound=2.0)
    other = typical_curvature(width, residual=usual_residual(2.0))
    assert flatness(bounded) == pytest.approx(width.constants.curvature / other) != flatness(problem(width))
    assert flatness(problem(Poisson(12.0, 10**5))) == pytest.approx(1000.0)


def test_generous_bounds_on_slopes_leave_less_room():
    """Counts up to 20 may make ten times the usual slope."""
    counts = Poisson(math.log(20.0), 20)
    for mu in (1.0, 4.0):
        assert growth(NoisyNewton(), mu, n=100_000, loss=counts) == growth(NoisyNewton(), mu / 10, n=100_000)


def test_many_releases_under_a_pure_budget_leave_little_room():
    asked, pure = problem(n=10**6), Allowance(0.5, pure=True)
    found = [NoisyNewton(k).norm_bound(asked, pure) / asked.norm_bound for k in (1, 14, 100)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[1] > 1.0
    released = 2 * 14 * (asked.size + 1.0)
    assert found[1] == pytest.approx((10**6 * 0.25 / (160 * 3 * released)) ** (1 / 3))


@pytest.mark.parametrize(
    "loss",
    [Logistic(), Squared(3.0), Huber(), ConcomitantHuber(), SmoothedQuantile(0.5, 0.1), Poisson(3.0, 20)],
    ids=repr,
)
@pytest.mark.parametrize("p", [2, 5, 20, 60])
def test_gradient_descent_takes_the_steps_that_longer_rows_need(loss, p):
    """Steps of ``1 / L`` that are shorter by a factor are more by it, but for bounds that stay."""
    asked, allowance = problem(loss, n=10**6, p=p), Allowance.gaussian(2.0)
    solver = NoisyGradientDescent()
    longer = dataclasses.replace(asked, norm_bound=solver.norm_bound(asked, allowance))
    before, after = (len(solver.plan(one, allowance)) for one in (asked, longer))
    if longer.norm_bound > asked.norm_bound:
        needed = 3.5 * math.log(10**6) * longer.smoothness / asked.loss.constants.curvature
        assert after >= needed * (1.0 - 1e-3)
    else:
        assert after == before


@pytest.mark.parametrize(
    ("solver", "allowance"),
    [
        (NoisyGradientDescent(n_steps=50), Allowance.gaussian(2.0)),
        (NoisyGradientDescent(report="last"), Allowance.gaussian(2.0)),
        (NoisyGradientDescent(), Allowance(50.0, pure=True)),
    ],
    ids=repr,
)
def test_gradient_descent_with_fewer_steps_keeps_the_usual_bound(solver, allowance):
    asked = problem(n=10**6)
    assert solver.norm_bound(asked, allowance) == asked.norm_bound


def test_other_solvers_have_the_usual_bound_or_none():
    asked = problem(n=10**6)
    others = {name: solver for name, solver in BY_NAME.items() if solver not in GROWING}
    found = {name: solver.norm_bound(asked, Allowance.gaussian(2.0)) for name, solver in others.items()}
    unweighted = {"non-private", "clipped-gradient-descent"}
    assert found == {name: UNWEIGHTED if name in unweighted else asked.norm_bound for name in others}


def norm_bound_of(X, **options):
    """Return the bound of a fit, from the planned sensitivity of its gradient."""
    y = np.arange(len(X)) % 2
    fit = pf.LogisticRegression(solver="newton", random_state=0, **options).fit(X, y).result_
    (sensitivity, *_) = (one.sensitivity for one in fit.plan.releases if one.kind == "gradient")
    rows, moves = (fit.plan.n_rows, 1.0 if options.get("relation") == "add_remove" else 2.0)
    return sensitivity * rows / moves


def test_a_fit_asks_its_solver_unless_a_bound_is_declared(rng):
    X = rng.normal(size=(4000, 2))
    budget = Budget.gdp(0.5)
    usual = default_norm_bound(3)
    assert norm_bound_of(X, budget=budget) == pytest.approx(usual * (4000 * 0.25 / 480) ** (1 / 3), rel=1e-6)
    assert norm_bound_of(1e3 * X, budget=budget) == norm_bound_of(X, budget=budget)
    assert norm_bound_of(X, budget=budget, norm_bound=usual) == pytest.approx(usual, rel=1e-6)
    given = norm_bound_of(X, budget=budget, relation="add_remove", n_rows=3600)
    assert given == pytest.approx(usual * (3600 * 0.25 / 480) ** (1 / 3), rel=1e-6)


def best_slope():
    """Return the slope of the best logit for ``P(y = 1) = 0.1 + 0.8 expit(0.5 + 1.2 z)``, z normal."""
    z = np.linspace(-9.0, 9.0, 6001)
    chance = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    share = 0.1 + 0.8 * expit(0.5 + 1.2 * z)

    def moments(theta):
        gap = chance * (expit(theta[0] + theta[1] * z) - share)
        return gap.sum(), gap @ z

    return root(moments, [0.5, 1.0], tol=1e-12).x[1]


def logit_of_weighted_rows(p, squared):
    """Return the best logit (2,) for these chances if normal rows have Mallows weights, and its sandwich.

    The sandwich, (2, 2), is that of one row, along the predictor.
    """
    z = np.linspace(-9.0, 9.0, 1001)
    others = chi2.ppf((np.arange(500) + 0.5) / 500, p - 2) if p > 2 else np.zeros(1)
    weight = np.minimum(1.0, squared / (1.0 + z[:, None] ** 2 + others)).mean(axis=1)
    chance = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    share, rows = 0.1 + 0.8 * expit(0.5 + 1.2 * z), np.stack([np.ones_like(z), z])
    theta = root(lambda theta: rows @ (weight * chance * (expit(theta @ rows) - share)), [0.5, 1.0]).x
    p_hat = expit(theta @ rows)
    bread = (rows * (weight * chance * p_hat * (1.0 - p_hat))) @ rows.T
    slopes = share * (1.0 - p_hat) ** 2 + (1.0 - share) * p_hat**2
    meat = (rows * (weight**2 * chance * slopes)) @ rows.T
    return theta, np.linalg.inv(bread) @ meat @ np.linalg.inv(bread)


@pytest.mark.parametrize(("p", "away"), [(2, 0.07), (5, 0.13), (20, 0.0)])
def test_the_distance_of_a_weighted_logit_that_is_wrong(p, away):
    """In standard errors of the unweighted one of 10^6 rows, at the longest bound; of 10^5 at the usual."""
    whole, sandwich = logit_of_weighted_rows(p, math.inf)
    usual, longest = (logit_of_weighted_rows(p, factor * max(p / 2, 2.0))[0] for factor in (1.0, 6.0))
    error = math.sqrt(sandwich[1, 1])
    assert abs(longest - whole)[1] / error * 1e3 == pytest.approx(away, abs=0.01)
    if p == 2:
        assert abs(usual - whole)[1] / error * math.sqrt(1e5) == pytest.approx(2.9, abs=0.05)


@pytest.mark.statistical
@pytest.mark.parametrize("solver", ["newton", "gradient-descent"])
def test_intervals_of_a_wrong_logit_hold_the_unweighted_slope(solver):
    """Errors in standard errors: the mean of 5 is beyond 5 of its own with probability below 6e-7.

    With the usual bound, whose slope is that of weighted rows, it is 5.6 of them in the same tables.
    """
    away, target = [], best_slope()
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(100_000, 1))
        y = (rng.random(100_000) < 0.1 + 0.8 * expit(0.5 + 1.2 * z[:, 0])).astype(int)
        fit = pf.LogisticRegression(budget=Budget.gdp(1.0), solver=solver, random_state=seed).fit(z, y)
        away.append((fit.result_.params.iloc[1] - target) / fit.result_.bse.iloc[1])
    assert abs(np.mean(away)) < 5.0 / math.sqrt(5)


def test_no_row_is_weighted_down_beyond_what_is_seen_may_be_hidden_or_suits_levels():
    asked = problem(p=2)
    assert whole_norm(asked, 2.5, longest=3.4, unseen=3.0, room=1.0) == 3.4
    assert whole_norm(asked, 2.5, longest=2.0, unseen=3.0, room=1.0) == pytest.approx(3.3)
    assert whole_norm(asked, 2.0, longest=2.0, unseen=3.0, room=1.0) == 3.0
    assert whole_norm(asked, 2.5, longest=2.0, unseen=1.0, room=5.0) == 5.0


@pytest.mark.parametrize(("p", "longer"), [(2, 1.6), (3, 1.6), (7, math.sqrt(2.0)), (28, math.sqrt(1.25))])
def test_rows_little_longer_than_usual_within_a_schema_count_in_full(p, longer):
    bounded = dataclasses.replace(problem(p=p), bounded=True)
    whole = 2.0 * longer * 0.999
    assert least_norm(bounded, whole, 2.0, 0.0201) == pytest.approx(whole)
    assert least_norm(bounded, whole, 2.0, 0.0199) == 2.0
    assert least_norm(bounded, 2.0 * longer * 1.001, 2.0, 1.0) == 2.0
    assert least_norm(bounded, 1.0, 2.0, 1.0) == 2.0
    assert least_norm(problem(p=p), whole, 2.0, 1.0) == 2.0


CURVED = {
    "counts": (pf.poisson, lambda eta, rng: np.minimum(rng.poisson(np.exp(eta)), 30).astype(float)),
    "labels": (pf.logit, lambda eta, rng: (rng.random(eta.size) < expit(2.0 * eta + 1.0)).astype(int)),
}


def fit_of_curved(kind, n, seed, **options):
    """Return the fit of a table whose model lacks a square."""
    model, draw = CURVED[kind]
    bounds = {"lower": 0.0, "upper": 30.0} if kind == "counts" else {}
    kinds = {"type": "numeric"} if kind == "counts" else {"type": "categorical", "levels": [0, 1]}
    schema = {"x": {"type": "numeric", "lower": -1.0, "upper": 1.0}, "y": {**kinds, **bounds}}
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, n)
    return model("y ~ x", {"x": x, "y": draw(-1.0 + 3.0 * x**2 + 0.5 * x, rng)}, schema=schema, **options)


@lru_cache
def truth_of_curved(kind):
    return fit_of_curved(kind, 400_000, 99, solver="non-private").params.to_numpy()


@pytest.mark.statistical
@pytest.mark.parametrize("kind", CURVED)
@pytest.mark.parametrize(("n", "budget"), [(10_000, {"delta": 1e-6}), (3_000, {"delta": 0.0})])
def test_intervals_of_a_model_that_lacks_a_curve_hold_the_unweighted_fit(kind, n, budget):
    """Thirty of 95 % for each coefficient: 11 or more are wrong with a chance of 1e-6.

    Numbers even within their bounds, and a square that the model has not: weights on long rows led up to 30
    of the 30 astray, with epsilon 1 and either kind of budget.
    """
    truth, wrong = truth_of_curved(kind), np.zeros(2)
    for seed in range(30):
        found = fit_of_curved(kind, n, seed, epsilon=1.0, random_state=seed, **budget)
        low, high = found.conf_int().to_numpy().T
        wrong += np.isfinite(high - low) & ((truth < low) | (truth > high))
    assert (wrong < 11).all()
