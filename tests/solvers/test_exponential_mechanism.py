"""The exponential mechanisms as solvers: what they plan, what they refuse, and what they deliver."""

import math

import numpy as np
import pytest

import privfit as pf
from privfit import LinearRegression, LogisticRegression, Schema, ols
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument
from privfit.losses import ConcomitantHuber, Logistic, Squared, ZeroOne
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import PureEvent, compose
from privfit.privacy.mechanisms import make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers import ExponentialMechanism, RegularisedExponentialMechanism
from privfit.solvers.exponential import largest_epsilon

from .simulated import problem_for, rows

BUDGETS = [Budget(1.0), Budget(1.0, 1e-6), Budget.gdp(0.5), Budget.zcdp(0.1)]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("solver", [ExponentialMechanism(), RegularisedExponentialMechanism()], ids=repr)
def test_plans_are_within_the_budget_and_use_nearly_all_of_it(solver, budget, inference):
    problem = problem_for(Logistic(), np.ones((2000, 3)))
    if isinstance(solver, RegularisedExponentialMechanism) and budget.notion == "pure":
        with pytest.raises(Incompatible, match="pure"):
            make_plan(problem, solver, Allowance.of(budget), inference=inference)
        return
    plan = make_plan(problem, solver, Allowance.of(budget), inference=inference)
    assert plan.private
    assert compose(plan.events).within(budget)
    if isinstance(solver, ExponentialMechanism):
        drawn, *others = plan.events
        assert not compose([PureEvent(1.03 * drawn.epsilon), *others]).within(budget)


def test_a_gaussian_budget_without_inference_goes_to_one_pure_release():
    epsilon = largest_epsilon(Allowance.of(Budget(2.0, 1e-6)))
    assert 1.99 <= epsilon <= 2.001
    assert compose([PureEvent(epsilon)]).within(Budget(2.0, 1e-6))
    assert largest_epsilon(Allowance.of(Budget(0.3))) == 0.3


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_estimators_take_it_under_any_budget_and_relation(relation, inference, delta):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(4000, 2))
    y = (rng.random(4000) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(int)
    options = {"n_rows": 4000} if relation == "add_remove" else {}
    fit = LogisticRegression(
        epsilon=20.0,
        delta=delta,
        norm_bound=math.sqrt(3),
        relation=relation,
        inference=inference,
        solver=ExponentialMechanism(),
        random_state=1,
        **options,
    ).fit(x, y)
    np.testing.assert_allclose(fit.coef_[0], [2.0, 0.0], atol=0.6)


def test_an_intercept_only_formula_gives_the_location_of_a_bounded_column():
    """The mean here; a quantile loss gives the median in the same way."""
    y = np.random.default_rng(1).uniform(20, 60, size=5000)
    schema = Schema({"y": {"type": "numeric", "lower": 0, "upper": 100}})
    result = ols(
        "y ~ 1",
        {"y": y},
        schema=schema,
        epsilon=1.0,
        delta=0.0,
        solver=ExponentialMechanism(),
        inference=False,
        random_state=2,
    )
    assert float(np.asarray(result.estimate)[0]) == pytest.approx(y.mean(), abs=3.0)


def drawn(problem, solver, x, y, *, allowance, seed):
    plan = make_plan(problem, solver, allowance, inference=False)
    source = ArraySource(x, y, norm_bound=problem.norm_bound)
    return solver.run(problem, Oracle(problem, plan, source, make_source(seed))).theta


@pytest.mark.statistical
@pytest.mark.parametrize(
    "solver", [ExponentialMechanism(), ExponentialMechanism(candidates=[[0, 0], [1, -1], [-1, 1], [2, 2]])]
)
def test_the_bound_on_the_excess_holds(solver, rng):
    """Mean of 150 draws against the bound on the expectation, and none beyond the 1 - 1e-9 bound."""
    x, y = rows(Logistic(), 120, rng, p=2)
    problem = problem_for(Logistic(), x, norm_bound=100.0)
    allowance = Allowance.of(Budget(60.0))

    def loss(theta):
        eta = x @ theta
        return np.mean(np.logaddexp(0, eta) - y * eta)

    if solver.candidates is None:
        side = np.linspace(-4, 4, 161)
        points = [(a, b) for a in side for b in side if a * a + b * b <= 16]
    else:
        points = solver.candidates
    least = min(loss(np.array(point)) for point in points)
    found = [
        loss(drawn(problem, solver, x, y, allowance=allowance, seed=seed)) - least for seed in range(150)
    ]
    expected = solver.expected_excess(problem, allowance)
    assert np.mean(found) <= expected
    assert max(found) <= solver.expected_excess(problem, allowance, level=1 - 1e-9)
    assert np.mean(found) > 0.001 * expected


def test_the_bound_of_the_lecture_without_its_logarithm():
    problem = problem_for(Squared(1.0), np.ones((1000, 3)))
    bound = ExponentialMechanism(radius=2.0).expected_excess(problem, Allowance.of(Budget(0.5)))
    assert bound == pytest.approx(4 * 3 * 1.6 * 2.0 / (0.5 * 1000), rel=1e-3)


def test_a_tail_bound_exceeds_the_mean_and_shrinks_with_the_level():
    problem = problem_for(Logistic(), np.ones((1000, 3)))
    for solver in (ExponentialMechanism(), ExponentialMechanism(candidates=np.eye(3))):
        bounds = [solver.expected_excess(problem, Allowance.of(Budget(1.0)), level=q) for q in (0.9, 0.99)]
        assert solver.expected_excess(problem, Allowance.of(Budget(1.0))) < bounds[0] < bounds[1]


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
@pytest.mark.parametrize("solver", [ExponentialMechanism(), ExponentialMechanism(candidates=np.eye(3))])
def test_a_tail_bound_asks_for_a_probability(solver, level):
    problem = problem_for(Logistic(), np.ones((1000, 3)))
    with pytest.raises(InvalidArgument, match="level"):
        solver.expected_excess(problem, Allowance.of(Budget(1.0)), level=level)


@pytest.mark.parametrize(
    ("solver", "loss", "p", "match"),
    [
        (ExponentialMechanism(), Logistic(), 7, "up to 6 encoded columns"),
        (ExponentialMechanism(), ConcomitantHuber(), 3, "residual scale"),
        (ExponentialMechanism(candidates=np.eye(3)), ConcomitantHuber(), 3, "residual scale"),
        (ExponentialMechanism(candidates=np.eye(3), score=ZeroOne()), Squared(1.0), 3, "ZeroOne"),
        (RegularisedExponentialMechanism(), Logistic(), 9, "strength= at least"),
        (RegularisedExponentialMechanism(), ConcomitantHuber(), 3, "residual scale"),
    ],
)
def test_refusals_say_what_would_work(solver, loss, p, match):
    problem = problem_for(loss, np.ones((20_000, p)))
    with pytest.raises(Incompatible, match=match):
        solver.plan(problem, Allowance.of(Budget(1.0, 1e-6)))


def test_the_strength_that_a_refusal_names_is_enough():
    problem = problem_for(Logistic(), np.ones((20_000, 9)))
    with pytest.raises(Incompatible, match="strength= at least") as refusal:
        RegularisedExponentialMechanism().plan(problem, Allowance.gaussian(1.0))
    named = float(str(refusal.value).split("strength= at least ")[1].split(",")[0])
    RegularisedExponentialMechanism(strength=named).plan(problem, Allowance.gaussian(1.0))
    with pytest.raises(Incompatible):
        RegularisedExponentialMechanism(strength=0.95 * named).plan(problem, Allowance.gaussian(1.0))


def test_arguments_are_checked():
    for make in (
        lambda: ExponentialMechanism(radius=0.0),
        lambda: ExponentialMechanism(score=ZeroOne()),
        lambda: ExponentialMechanism(candidates=[1.0, 2.0]),
        lambda: ExponentialMechanism(candidates=[[math.nan]]),
        lambda: ExponentialMechanism(candidates=[[1.0, 2.0], [3.0]]),
        lambda: ExponentialMechanism(candidates=[["1", "2"]]),
        lambda: ExponentialMechanism(candidates=[[1j, 2.0]]),
        lambda: ExponentialMechanism(candidates=[[1e200, 0.0]]),
        lambda: ExponentialMechanism(radius=1e300),
        lambda: ExponentialMechanism(candidates=[[1.0]], radius=1.0),
        lambda: ExponentialMechanism(candidates=[[1.0]], score="0/1"),
        lambda: RegularisedExponentialMechanism(strength=-1.0),
        lambda: RegularisedExponentialMechanism(strength=1e300),
        lambda: RegularisedExponentialMechanism(radius=math.inf),
    ):
        with pytest.raises(InvalidArgument):
            make()
    problem = problem_for(Logistic(), np.ones((100, 3)))
    with pytest.raises(InvalidArgument, match="one number per encoded column"):
        ExponentialMechanism(candidates=[[1.0, 2.0]]).plan(problem, Allowance.of(Budget(1.0)))
    with pytest.raises(Incompatible, match="candidates"):
        make_plan(
            problem, ExponentialMechanism(candidates=np.eye(3)), Allowance.of(Budget(1.0)), inference=True
        )
    with pytest.raises(Incompatible, match="NonPrivate"):
        ExponentialMechanism().plan(problem, Allowance.unlimited())
    assert hash(ExponentialMechanism(candidates=np.eye(2))) == hash(
        ExponentialMechanism(candidates=np.eye(2))
    )


def test_the_answer_lies_in_the_ball_on_a_public_lattice(rng):
    x, y = rows(Logistic(), 50, rng, p=2)
    names = ("a", "b")
    problem = Problem(Logistic(), names, 2.0, 50, Relation.REPLACE, 0.0, (0.0, 0.0), (False, True))
    for seed in range(20):
        for solver in (ExponentialMechanism(radius=0.5), RegularisedExponentialMechanism(radius=0.5)):
            theta = drawn(problem, solver, x, y, allowance=Allowance.of(Budget(0.2, 1e-6)), seed=seed)
            assert np.linalg.norm(theta) <= 0.5 + 2.0**-6
            assert (theta * 2.0**31 == np.rint(theta * 2.0**31)).all()


def test_linear_regression_with_inference_reports_intervals(rng):
    x = rng.uniform(-1, 1, size=(5000, 1))
    y = 0.5 * x[:, 0] + 0.1 * rng.normal(size=5000)
    solver = RegularisedExponentialMechanism()
    fit = LinearRegression(5.0, 1e-6, norm_bound=1.5, solver=solver, random_state=0).fit(x, y)
    assert (fit.result_.bse > 0).all()
    assert np.isfinite(fit.result_.bse).all()
    assert fit.coef_[0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("level", [0.1, 0.5, 0.9])
def test_a_private_quantile_by_formula_and_by_estimator(level):
    """At epsilon = 2 and 5,000 rows within 2 % of the rows of the exact quantile; seeded."""
    income = np.minimum(np.random.default_rng(0).lognormal(10.3, 0.6, 5000), 200_000)
    schema = pf.Schema({"income": {"type": "numeric", "lower": 0, "upper": 200_000}})
    solver = pf.solvers.ExponentialMechanism(radius=1.0)
    options = {"epsilon": 2.0, "delta": 0.0, "solver": solver, "inference": False, "random_state": 4}
    by_formula = pf.quantile(
        "income ~ 1", {"income": income}, schema=schema, quantile=level, width=100.0, **options
    )
    model = pf.MEstimator(loss=pf.losses.Quantile(level), fit_intercept=False, norm_bound=1.0, **options)
    by_estimator = model.fit(np.ones((5000, 1)), income / 100_000 - 1.0)
    for found in (by_formula.params["Intercept"], 100_000 * (1.0 + by_estimator.coef_[0])):
        assert abs(np.mean(income <= found) - level) < 0.02
