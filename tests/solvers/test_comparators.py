"""Sufficient statistics, AdaSSP and clipped gradient descent, from the plan to the estimators."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import chi2

from privfit import Budget, HuberRegressor, LinearRegression, LogisticRegression, Schema
from privfit.data.clamp import UNWEIGHTED
from privfit.errors import Incompatible, InvalidArgument
from privfit.losses import ConcomitantHuber, Huber, Logistic, Squared
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.relation import Relation
from privfit.solvers import AdaSSP, ClippedGradientDescent, NonPrivate, SufficientStatistics, resolve

from .simulated import inferred, oracle_for, plan_once, problem_for, rows

STATISTICS = [SufficientStatistics(response_bound=8.0), AdaSSP(response_bound=8.0)]
CLIPPED = ClippedGradientDescent(clip=0.8)
ALL = [*STATISTICS, CLIPPED]
FALSE_ALARM = 1e-8


def estimate(problem, solver, x, y, *, mu, seed=0):
    """Return the solver's point alone, from a plan without inference."""
    from privfit.data.source import ArraySource
    from privfit.inference.infer import estimate_only
    from privfit.privacy.mechanisms import NoNoise, make_source
    from privfit.problem.oracle import Oracle

    plan = plan_once(problem, solver, Allowance.gaussian(mu), inference=False)
    noise = make_source(seed) if np.isfinite(mu) else NoNoise()
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), noise)
    return estimate_only(solver.run(problem, oracle)).theta


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("solver", ALL, ids=repr)
@pytest.mark.parametrize("budget", [Budget.gdp(0.7), Budget(0.7, 0.0), Budget(1.0, 1e-6)], ids=str)
def test_plans_stay_within_every_budget_and_use_it(solver, budget, relation, rng):
    problem = dataclasses.replace(
        problem_for(Squared(3.0), rows(Squared(3.0), 500, rng)[0]), relation=relation
    )
    for inference in (False, True):
        if inference and solver.no_inference:
            continue
        plan = make_plan(problem, solver, Allowance.of(budget), inference=inference)
        assert plan.private
        assert compose(plan.events).within(budget)
        larger = Budget.gdp(0.69) if budget.notion == "gdp" else None
        if larger:
            assert not compose(plan.events).within(larger)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [Budget.gdp(2.0), Budget(20.0, 0.0)], ids=["gdp", "pure"])
@pytest.mark.parametrize("solver", ALL, ids=repr)
def test_fits_end_to_end_with_private_noise(solver, budget, relation, rng):
    x, y = rows(Squared(3.0), 4000, rng)
    extra = {"n_rows": 4000} if relation == "add_remove" else {}
    inference = solver.no_inference is None
    fit = LinearRegression(budget=budget, solver=solver, relation=relation, inference=inference, **extra)
    fit.fit(x[:, 1:], y)
    np.testing.assert_allclose([fit.intercept_, *fit.coef_], [0.5, -1.0, 0.7], atol=0.4)
    assert fit.result_.private


@pytest.mark.parametrize("solver", STATISTICS, ids=repr)
@pytest.mark.parametrize("mu", [math.inf, 1e8])
def test_without_noise_the_statistics_give_least_squares(solver, mu, rng):
    x, y = rows(Squared(50.0), 1500, rng)
    problem = problem_for(Squared(50.0), x, norm_bound=10.0)
    wanted = np.linalg.lstsq(x, y)[0]
    np.testing.assert_allclose(estimate(problem, solver, x, y, mu=mu), wanted, atol=1e-6)
    found = inferred(problem, solver, x, y, mu=mu)
    np.testing.assert_allclose(found.theta, wanted, atol=1e-6)
    reference = inferred(problem, NonPrivate(), x, y, mu=math.inf)
    np.testing.assert_allclose(found.cov_sampling, reference.cov_sampling, rtol=1e-3, atol=1e-7)


@pytest.mark.parametrize("solver", STATISTICS, ids=repr)
def test_the_ridge_of_the_problem_is_added(solver, rng):
    x, y = rows(Squared(50.0), 800, rng)
    problem = problem_for(Squared(50.0), x, norm_bound=10.0, l2=0.3)
    wanted = np.linalg.solve(x.T @ x / 800 + np.diag([0.0, 0.3, 0.3]), x.T @ y / 800)
    np.testing.assert_allclose(estimate(problem, solver, x, y, mu=math.inf), wanted, atol=1e-9)


def test_clipping_that_never_binds_gives_least_squares(rng):
    x, y = rows(Squared(50.0), 1500, rng)
    problem = problem_for(Squared(50.0), x, norm_bound=10.0)
    solver = ClippedGradientDescent(clip=1e3, n_steps=400, step_size=0.5)
    wanted = np.linalg.lstsq(x, y)[0]
    np.testing.assert_allclose(estimate(problem, solver, x, y, mu=math.inf), wanted, atol=1e-9)


@pytest.mark.statistical
def test_clipping_is_consistent_for_least_squares_and_not_for_a_logit():
    """Without noise, 200,000 rows: standard errors are below 0.01; false alarm below 1e-9."""
    generator = np.random.default_rng(7)
    solver = ClippedGradientDescent(clip=1.0, n_steps=75, step_size=1.0)
    beta = np.array([1.5, 1.0, -1.0, 0.5])
    x = np.column_stack([np.ones(200_000), generator.normal(size=(200_000, 3))])
    labels = (generator.random(200_000) < 1 / (1 + np.exp(-x @ beta))).astype(float)
    numbers = x @ beta + 2.0 * generator.normal(size=200_000)

    def fit(loss, y):
        return estimate(problem_for(loss, x, norm_bound=UNWEIGHTED), solver, x, y, mu=math.inf)

    assert np.abs(fit(Squared(1e6), numbers) - beta).max() < 0.06
    assert np.all(np.abs(fit(Logistic(), labels)) > 1.1 * np.abs(beta))


@pytest.mark.parametrize("solver", ALL, ids=repr)
@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, math.inf])
def test_collinear_columns_and_too_little_budget_never_diverge(solver, mu, rng):
    x, y = rows(Squared(3.0), 300, rng, p=4)
    x[:, 3] = x[:, 2]
    x[:, 1] = 0.0
    problem = problem_for(Squared(3.0), x, norm_bound=2.0)
    for seed in range(20):
        theta = estimate(problem, solver, x, y, mu=mu, seed=seed)
        assert np.isfinite(theta).all()
        assert np.abs(theta).max() < (1e4 if solver is CLIPPED and mu < 0.01 else 100.0)


def test_the_ridge_of_adassp_follows_its_formula():
    solver = AdaSSP(response_bound=1.0, failure=0.1)
    problem = problem_for(Squared(1.0), np.ones((100, 3)))
    full = 0.02 * math.sqrt(3 * math.log(2 * 9 / 0.1))
    margin = 0.01 * math.sqrt(2 * math.log(2 / 0.1))
    assert solver.added_ridge(problem, -1.0, 0.01, 0.02) == pytest.approx(full)
    assert solver.added_ridge(problem, margin + 0.03, 0.01, 0.02) == pytest.approx(full - 0.03)
    assert solver.added_ridge(problem, 10.0, 0.01, 0.02) == 0.0
    assert solver.added_ridge(problem, 0.3, 0.0, 0.0) == 0.0


def test_adassp_spends_a_third_on_the_eigenvalue(rng):
    x, _ = rows(Squared(3.0), 400, rng)
    problem = problem_for(Squared(3.0), x, norm_bound=2.0)
    solver = AdaSSP(response_bound=8.0)
    eigenvalue, moments = solver.plan(problem, Allowance.gaussian(0.9))
    assert (eigenvalue.kind, moments.kind) == ("eigenvalue", "moments")
    assert eigenvalue.mu**2 == pytest.approx(0.81 / 3)


@pytest.mark.statistical
def test_the_noise_of_the_statistics_reaches_the_estimate_as_derived(rng):
    """cov = M^-1 (s_v**2 I + s**2 / 2 (|b|**2 I + b b')) M^-1 for small noise; false alarm 1e-8."""
    x, y = rows(Squared(3.0), 2000, rng)
    problem = problem_for(Squared(3.0), x, norm_bound=5.0)
    solver = SufficientStatistics(response_bound=8.0)
    exact = estimate(problem, solver, x, y, mu=math.inf)
    draws = np.array([estimate(problem, solver, x, y, mu=100.0, seed=s) for s in range(600)]) - exact
    (planned,) = solver.plan(problem, Allowance.gaussian(100.0))
    of_cross = planned.sd / (math.sqrt(2 * 0.5) * 5.0 / 8.0)
    core = (of_cross**2 + 0.5 * planned.sd**2 * exact @ exact) * np.eye(3)
    core += 0.5 * planned.sd**2 * np.outer(exact, exact)
    moment = x.T @ x / 2000
    whitened = draws @ moment @ np.linalg.inv(np.linalg.cholesky(core)).T
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], whitened.size)
    assert 0.99 * low < float(np.sum(whitened**2)) < 1.01 * high


@pytest.mark.statistical
@pytest.mark.parametrize("solver", STATISTICS, ids=repr)
def test_intervals_cover(solver):
    """95 % intervals of 300 fits of 3 coefficients cover between 91 and 98.5 %; false alarm below 1e-6."""
    hits = []
    for seed in range(300):
        x, y = rows(Squared(3.0), 2000, np.random.default_rng(seed))
        fit = LinearRegression(budget=Budget.gdp(1.0), solver=solver, random_state=seed)
        interval = fit.fit(x[:, 1:], y).result_.conf_int().to_numpy()
        truth = np.array([0.5, -1.0, 0.7])
        hits.append((interval[:, 0] <= truth) & (truth <= interval[:, 1]))
    assert 0.91 < np.mean(hits) < 0.985


def test_rows_are_not_weighted_for_clipping(rng):
    x, y = 10.0 * rng.normal(size=(500, 2)), rng.normal(size=500)
    arguments = {"budget": Budget.gdp(1.0), "inference": False, "random_state": 0}
    for solver in (CLIPPED, NonPrivate()):
        weighted, plain, far = (
            LinearRegression(solver=solver, norm_bound=bound, **arguments).fit(x, y).coef_
            for bound in (2.0, None, UNWEIGHTED)
        )
        np.testing.assert_array_equal(plain, far)
        assert not np.allclose(weighted, plain)
    fit = LinearRegression(solver=CLIPPED, **arguments).fit(x, y)
    assert np.isfinite(fit.coef_).all()


def test_a_schema_bounds_the_response(rng):
    columns = {"a": {"type": "numeric", "lower": -1, "upper": 1}}
    columns["y"] = {"type": "numeric", "lower": -10, "upper": 30, "target": True}
    x = rng.uniform(-1, 1, size=(3000, 1))
    y = 10.0 + 6.0 * x[:, 0] + rng.normal(size=3000)
    for name in ("sufficient-statistics", "adassp"):
        fit = LinearRegression(budget=Budget.gdp(2.0), schema=Schema(columns), solver=name).fit(x, y)
        np.testing.assert_allclose([fit.intercept_, *fit.coef_], [10.0, 6.0], atol=0.6)
        assert fit.result_.plan.solver_releases[-1].kind == "moments"


def test_combinations_that_cannot_work_are_refused_with_a_remedy(rng):
    for loss in (Logistic(), Huber(0.8), ConcomitantHuber()):
        problem = problem_for(loss, rows(loss, 100, rng)[0])
        for solver in STATISTICS:
            with pytest.raises(Incompatible, match=r"least squares only.*LinearRegression\(\)"):
                solver.plan(problem, Allowance.gaussian(1.0))
    squared = problem_for(Squared(3.0), rows(Squared(3.0), 100, rng)[0])
    for solver in (SufficientStatistics(), AdaSSP()):
        with pytest.raises(Incompatible, match=r"response_bound=\.\.\."):
            solver.plan(squared, Allowance.gaussian(1.0))
    with pytest.raises(Incompatible, match="scale"):
        CLIPPED.plan(problem_for(ConcomitantHuber(), np.ones((100, 3))), Allowance.gaussian(1.0))
    for model in (LinearRegression, LogisticRegression):
        x, y = rng.normal(size=(50, 2)), np.arange(50) % 2
        with pytest.raises(Incompatible, match=r"bias stays.*inference=False"):
            model(solver=CLIPPED).fit(x, y)
    assert HuberRegressor(solver=CLIPPED, scale=1.0, inference=False, random_state=0).fit(x, y).coef_.size


def test_the_plan_does_not_depend_on_the_data_and_is_used_up():
    for solver in STATISTICS:
        plans = []
        for seed in (1, 2):
            x, y = rows(Squared(3.0), 400, np.random.default_rng(seed))
            oracle = oracle_for(problem_for(Squared(3.0), x), solver, x, y, mu=1.0, seed=seed)
            solver.run(oracle.problem, oracle)
            assert [release.planned for release in oracle.released] == list(oracle.plan.solver_releases)
            plans.append(oracle.plan)
        assert plans[0] == plans[1]


def test_names_resolve_and_arguments_are_checked():
    assert resolve("sufficient-statistics", inference=True) == SufficientStatistics()
    assert resolve("adassp", inference=True) == AdaSSP()
    assert resolve("clipped-gradient-descent", inference=True) == ClippedGradientDescent()
    for make in (
        lambda: SufficientStatistics(response_bound=0.0),
        lambda: SufficientStatistics(balance=1.5),
        lambda: AdaSSP(failure=0.0),
        lambda: AdaSSP(eigenvalue_share=1.0),
        lambda: ClippedGradientDescent(clip=-1.0),
        lambda: ClippedGradientDescent(n_steps=0),
        lambda: ClippedGradientDescent(step_size=0.0),
    ):
        with pytest.raises(InvalidArgument):
            make()
