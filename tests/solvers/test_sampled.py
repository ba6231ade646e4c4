"""Solvers that walk on sampled rows: plans, refusals, accuracy, and what a fit shows."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import privfit as pf
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.inference.infer import estimate_only, infer
from privfit.losses import ConcomitantHuber, Huber, Logistic
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.ledger import Ledger
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.oracle import Oracle
from privfit.problem.query_kernels import query_kernel
from privfit.solvers import NoisySGD, NonPrivate, RandomRoundSGD, resolve

from .simulated import inferred, plan_once, problem_for, rows

BUDGET = Budget(1.0, 1e-6)


@scalar
def _value(y, eta, s, c, k):
    return 1.0 / (1.0 + math.exp(min(700.0, (2.0 * y - 1.0) * eta)))


@scalar
def _slope(y, eta, s, c, k):
    e = math.exp(-abs(eta))
    return -(2.0 * y - 1.0) * e / (1.0 + e) ** 2


@scalar
def _curvature(y, eta, s, c, k):
    m = (2.0 * y - 1.0) * eta
    p = 1.0 / (1.0 + math.exp(min(700.0, m)))
    return p * (1.0 - p) * (1.0 - 2.0 * p)


@dataclass(frozen=True, slots=True)
class Sigmoid(AbstractLoss):
    """``1 / (1 + exp(margin))``: bounded, smooth, not convex."""

    target_kind: ClassVar = "binary"
    convex: ClassVar[bool] = False
    functions: ClassVar = ScalarFunctions(_value, _slope, _curvature)

    @property
    def name(self):
        return "Sigmoid"

    @property
    def constants(self):
        return LossConstants(slope=0.25, curvature=1 / (6 * math.sqrt(3)))

    @property
    def parameters(self):
        return (0.0, 0.0)


def solve(problem, solver, x, y, *, budget=BUDGET, seed=0, inference=False):
    plan = plan_once(problem, solver, Allowance.of(budget), inference=inference)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), make_source(seed))
    solution = solver.run(problem, oracle)
    found = (
        infer(solution, oracle, directions=np.eye(problem.n_coef)) if inference else estimate_only(solution)
    )
    return found, plan


@pytest.mark.parametrize(
    "solver", [RandomRoundSGD(n_steps=500), NoisySGD(), NoisySGD(average=False)], ids=repr
)
@pytest.mark.parametrize("inference", [False, True])
def test_plans_are_within_the_budget_and_use_it(solver, inference, rng):
    problem = problem_for(Logistic(), rows(Logistic(), 1000, rng)[0])
    plan = make_plan(problem, solver, Allowance.of(BUDGET), inference=inference)
    guarantee = compose(plan.events)
    assert guarantee.within(BUDGET)
    assert guarantee.delta_at(BUDGET.epsilon) > 0.9 * BUDGET.delta
    assert plan.private
    assert math.isinf(plan.mu)
    assert plan == make_plan(problem, solver, Allowance.of(BUDGET), inference=inference)
    (walk,) = plan.solver_releases
    assert walk.kind == "walk"
    assert walk.sd * walk.sampled.ratio >= walk.sensitivity
    assert type(plan).from_dict(plan.to_dict()) == plan


def test_the_walk_claims_the_sampling_that_it_does(rng):
    problem = problem_for(Logistic(), rows(Logistic(), 1000, rng)[0])
    (walk,) = make_plan(problem, RandomRoundSGD(n_steps=77), Allowance.of(BUDGET), inference=False).releases
    event = walk.sampled
    assert (event.scheme, event.relation, event.rate, event.steps) == ("one", "replace", 1e-3, 76)
    assert walk.sensitivity >= 2 * problem.loss.constants.slope * problem.norm_bound
    (steps,) = make_plan(
        problem, NoisySGD(n_steps=20, batch_rate=0.1), Allowance.of(BUDGET), inference=False
    ).releases
    event = steps.sampled
    assert (event.scheme, event.relation, event.steps) == ("poisson", "replace", 20)
    assert 0.1 - 2.0**-53 <= event.rate <= 0.1
    assert event.rate * 2.0**53 == round(event.rate * 2.0**53)
    other = replace(problem, relation=Relation.ADD_REMOVE)
    (half,) = make_plan(
        other, NoisySGD(n_steps=20, batch_rate=0.1), Allowance.of(BUDGET), inference=False
    ).releases
    assert half.sampled.relation == "add_remove"
    assert half.sensitivity == pytest.approx(steps.sensitivity / 2)


@pytest.mark.parametrize("solver", [RandomRoundSGD(n_steps=50), NoisySGD(n_steps=50)], ids=repr)
def test_refusals_name_the_remedy(solver, rng):
    problem = problem_for(Logistic(), rows(Logistic(), 400, rng)[0])
    for budget in (Budget.gdp(1.0), Budget.zcdp(0.5)):
        with pytest.raises(Incompatible, match="give epsilon and delta"):
            make_plan(problem, solver, Allowance.of(budget), inference=False)
    with pytest.raises(Incompatible, match="delta > 0"):
        make_plan(problem, solver, Allowance.of(Budget(1.0)), inference=False)
    with pytest.raises(Incompatible, match="no version without noise"):
        make_plan(problem, solver, Allowance.unlimited(), inference=False)
    scaled = problem_for(ConcomitantHuber(), rows(Huber(), 400, rng)[0])
    with pytest.raises(Incompatible, match="residual scale"):
        make_plan(scaled, solver, Allowance.of(BUDGET), inference=False)


def test_random_rounds_need_replace_and_small_steps(rng):
    problem = problem_for(Logistic(), rows(Logistic(), 400, rng)[0])
    with pytest.raises(Incompatible, match="relation='replace'"):
        make_plan(
            replace(problem, relation=Relation.ADD_REMOVE),
            RandomRoundSGD(),
            Allowance.of(BUDGET),
            inference=False,
        )
    with pytest.raises(Incompatible, match="step_size"):
        make_plan(
            problem,
            RandomRoundSGD(step_size=2 / problem.ridged_smoothness),
            Allowance.of(BUDGET),
            inference=False,
        )


def test_a_loss_that_is_not_convex_has_no_standard_errors(rng):
    x, y = rows(Logistic(), 400, rng)
    problem = problem_for(Sigmoid(), x)
    with pytest.raises(Incompatible, match="convex loss"):
        make_plan(problem, RandomRoundSGD(n_steps=500), Allowance.of(BUDGET), inference=True)
    with pytest.raises(Incompatible, match="needs a convex loss"):
        make_plan(problem, NoisySGD(), Allowance.of(BUDGET), inference=False)
    found, _ = solve(problem, RandomRoundSGD(n_steps=500), x, y)
    assert np.isfinite(found.theta).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RandomRoundSGD(n_steps=1),
        lambda: RandomRoundSGD(decay=1.0),
        lambda: RandomRoundSGD(step_size=0.0),
        lambda: RandomRoundSGD(initial_gap=-1.0),
        lambda: RandomRoundSGD(constants="paper"),
        lambda: NoisySGD(batch_rate=0.0),
        lambda: NoisySGD(batch_rate=1.5),
        lambda: NoisySGD(n_steps=0),
        lambda: NoisySGD(average="yes"),
        lambda: NoisySGD(radius=math.inf),
        lambda: NoisySGD(constants="paper"),
    ],
)
def test_arguments_are_checked(wrong):
    with pytest.raises(InvalidArgument):
        wrong()


def test_known_by_name():
    assert resolve("random-round", inference=True) == RandomRoundSGD()
    assert resolve("noisy-sgd", inference=True) == NoisySGD()


def test_the_noise_of_the_sources_is_used_where_it_holds(rng):
    problem = problem_for(Logistic(), rows(Logistic(), 1000, rng)[0])
    allowance = Allowance.of(Budget(1.0, 1e-5))
    (walk,) = RandomRoundSGD(constants="source").plan(problem, allowance)
    assert walk.sampled.steps == 1000**2 - 1
    assert walk.sd / walk.sensitivity == pytest.approx(41, abs=0.3)
    assert compose([walk.event]).epsilon_at(1e-5) < 0.1
    (derived,) = RandomRoundSGD(n_steps=1000**2).plan(problem, allowance)
    assert derived.sd / derived.sensitivity == pytest.approx(4.13, abs=0.02)
    (steps,) = NoisySGD(constants="source").plan(problem, allowance)
    assert (steps.sampled.steps, steps.sampled.rate) == (401, 0.05 - 0.05 % 2.0**-53)
    assert steps.sd / steps.sensitivity == pytest.approx(41, abs=0.3)
    # By its own formula the noise of a single step is that of all of them: far too little at a large epsilon.
    with pytest.raises(Incompatible, match="constants='derived'"):
        RandomRoundSGD(constants="source").plan(problem, Allowance.of(Budget(200.0, 1e-5)))


def test_a_huge_budget_gives_about_the_non_private_fit(rng):
    x, y = rows(Logistic(), 2000, rng)
    problem = problem_for(Logistic(), x)
    reference = inferred(problem, NonPrivate(), x, y, mu=math.inf)
    found, _ = solve(problem, NoisySGD(), x, y, budget=Budget(200.0, 1e-2))
    np.testing.assert_allclose(found.theta, reference.theta, atol=0.02)


@pytest.mark.parametrize("relation", list(Relation))
def test_inference_from_the_point_covers_the_non_private_fit(relation, rng):
    """Five standard errors of noise, three coefficients: false-alarm rate 2e-6 a relation."""
    x, y = rows(Logistic(), 20_000, rng)
    problem = replace(problem_for(Logistic(), x), relation=relation)
    reference = inferred(problem_for(Logistic(), x), NonPrivate(), x, y, mu=math.inf)
    found, _ = solve(problem, NoisySGD(n_steps=200, batch_rate=0.05), x, y, inference=True)
    assert np.all(np.abs(found.theta - reference.theta) < 5 * np.sqrt(np.diag(found.cov_noise)))
    assert np.all(np.diag(found.cov_sampling) > 0)


@pytest.mark.statistical
def test_the_expected_gradient_is_within_the_bound_of_ghadimi_and_lan(rng):
    """Mean of 40 runs plus 6 of its standard errors (false-alarm rate 1e-9) stays below the bound."""
    x, y = rows(Logistic(), 1000, rng)
    problem = problem_for(Sigmoid(), x)
    solver = RandomRoundSGD(n_steps=4000, initial_gap=0.5)  # F(0) = 1/2 and F >= 0
    source = ArraySource(x, y, norm_bound=problem.norm_bound)
    squares = []
    for seed in range(40):
        found, plan = solve(problem, solver, x, y, budget=Budget(4.0, 1e-5), seed=seed)
        kernel = query_kernel(problem, "gradient", found.theta)
        gradient = problem.mean("gradient", source.sum(kernel, problem.size))
        squares.append(float(gradient @ gradient))
    slope = problem.loss.constants.slope * problem.norm_bound
    noise = math.sqrt(slope**2 + problem.size * plan.solver_releases[0].sd ** 2)
    beta, n = problem.ridged_smoothness, 4000
    reach = math.sqrt(2 * 0.5 / beta)
    bound = beta * (beta * reach**2 / n + 2 * reach * noise / math.sqrt(n))
    assert np.mean(squares) + 6 * np.std(squares) / math.sqrt(40) <= bound


def test_a_fit_stores_its_walk_in_result_and_ledger(tmp_path, rng):
    x, y = rows(Logistic(), 500, rng)
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("census", Budget(2.0, 1e-5))
    model = pf.LogisticRegression(
        epsilon=1.0, delta=1e-6, solver=NoisySGD(n_steps=20), inference=False, ledger=ledger, dataset="census"
    ).fit(x[:, 1:], y.astype(int))
    assert model.result_.private
    assert ledger.spent("census") == compose(model.result_.plan.events)
    back = type(model.result_).from_json(model.result_.to_json())
    assert back.plan == model.result_.plan
    assert back.plan.solver_releases[0].sampled == model.result_.plan.solver_releases[0].sampled
    assert "μ" not in model.result_.statement.guarantee


def test_without_noise_there_is_no_walk(rng):
    x, y = rows(Logistic(), 200, rng)
    problem = problem_for(Logistic(), x)
    plan = make_plan(problem, NoisySGD(n_steps=5), Allowance.of(BUDGET), inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), NoNoise())
    with pytest.raises(Incompatible, match="no version without noise"):
        NoisySGD(n_steps=5).run(problem, oracle)
    tampered = replace(plan.solver_releases[0], sd=0.5 * plan.solver_releases[0].sd)
    oracle = Oracle(
        problem,
        replace(plan, solver_releases=(tampered,)),
        ArraySource(x, y, norm_bound=problem.norm_bound),
        make_source(0),
    )
    with pytest.raises(PlanViolation, match="holds another walk"):
        NoisySGD(n_steps=5).run(problem, oracle)
