"""What "auto" stands for, and what of a budget it spends."""

from dataclasses import replace

import numpy as np
import pytest

import privfit as pf
from privfit.data.shares import ShareRule
from privfit.losses import ConcomitantHuber, Huber, Logistic, Multinomial, Poisson, SmoothedQuantile, Squared
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.relation import Relation
from privfit.solvers import (
    EmpiricalBayesDescent,
    WhitenedGradientDescent,
    WhitenedObjectivePerturbation,
    resolve,
    settle,
)

from .simulated import problem_for, rows

SOLVER, USUAL, PURE = WhitenedObjectivePerturbation(), WhitenedGradientDescent(), Budget(2.0)
LOSSES = [Logistic(), Huber(0.8), Squared(2.0)]
SMALL = Budget(1.0, 1e-6)
"""Of which mu is 0.2368."""

SCHEMA = pf.Schema(
    {
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "y": {"type": "categorical", "levels": ["no", "yes"]},
    }
)


@pytest.mark.parametrize("inference", [True, False])
def test_pure_budgets_buy_a_perturbed_minimiser_where_one_can_serve(inference):
    x = rows(Logistic(), 400, np.random.default_rng(4))[0]
    usual = WhitenedGradientDescent() if inference else EmpiricalBayesDescent()

    def chosen(loss, budget, **changes):
        solver, spent = settle("auto", replace(problem_for(loss, x), **changes), budget, inference=inference)
        assert spent is budget
        return solver

    for loss in (*LOSSES, Poisson(1.0, 5.0), SmoothedQuantile(0.5, 0.4)):
        assert chosen(loss, PURE) == SOLVER
        assert chosen(loss, Budget(2.0, 1e-6)) == chosen(loss, Budget.gdp(1.0)) == usual
    little = chosen(Logistic(), Budget(0.1))
    assert little == (SOLVER if inference else usual)
    assert chosen(ConcomitantHuber(1.345), PURE, start=(0.0, 0.0, 0.0, 1.0)) == usual
    assert chosen(Multinomial(3), PURE, start=(0.0,) * 6) == SOLVER
    assert chosen(Logistic(), PURE, relation=Relation.ADD_REMOVE) == SOLVER
    assert chosen(SmoothedQuantile(0.5, 0.4), PURE, relation=Relation.ADD_REMOVE) == usual
    assert chosen(Logistic(), PURE, shares=ShareRule(unit="person")) == SOLVER
    other = settle("newton", problem_for(Logistic(), x), PURE, inference=inference)
    assert other == (resolve("newton", inference=inference), PURE)


@pytest.mark.parametrize(("n", "clear"), [(159, False), (160, True)])
def test_without_inference_noise_has_to_be_small_beside_usual_signals(n, clear):
    """By hand: of 4 columns from ``4**1.5 = 0.05 n epsilon`` on."""
    problem = problem_for(Logistic(), np.ones((n, 4)))
    assert settle("auto", problem, Budget(1.0), inference=True)[0] == SOLVER
    assert (settle("auto", problem, Budget(1.0), inference=False)[0] == SOLVER) == clear
    added = replace(problem, relation=Relation.ADD_REMOVE)
    assert settle("auto", added, Budget(1.0), inference=False)[0] == SOLVER
    assert (settle("auto", added, Budget(0.5), inference=False)[0] == SOLVER) == clear


def few(n=800, columns=3, loss=None, **changes):
    """Return the problem of few rows and columns within declared bounds."""
    problem = problem_for(loss or Logistic(), np.ones((n, columns)))
    return replace(problem, bounded=True, **changes)


@pytest.mark.parametrize(("n", "columns"), [(20, 3), (844, 3), (1267, 2), (2534, 1)])
def test_a_logit_of_few_rows_and_columns_spends_no_delta(n, columns):
    assert settle("auto", few(n, columns), SMALL, inference=True) == (SOLVER, Budget(1.0))
    assert settle("whitened", few(n, columns), SMALL, inference=True) == (USUAL, SMALL)
    without = settle("auto", few(n, columns), SMALL, inference=False)
    assert without == (EmpiricalBayesDescent(), SMALL)
    added = few(n, columns, relation=Relation.ADD_REMOVE)
    assert settle("auto", added, SMALL, inference=True) == (SOLVER, Budget(1.0))


@pytest.mark.parametrize(
    ("problem", "budget"),
    [
        (few(845), SMALL),
        (few(1268, 2), SMALL),
        (few(500, 4), SMALL),
        (replace(few(), bounded=False), SMALL),
        (few(loss=Squared(2.0)), SMALL),
        (few(loss=Poisson(1.0, 5.0)), SMALL),
        (few(shares=ShareRule(unit="person")), SMALL),
        (few(500), Budget(1.0, 1e-3)),
        (few(300), Budget(1.0, 1e-3)),
        (few(500), Budget.gdp(0.1)),
        (few(500), Budget.zcdp(0.01)),
    ],
    ids=[
        "rows",
        "more rows",
        "columns",
        "bounds",
        "residuals",
        "counts",
        "unit",
        "delta",
        "delta of few",
        "mu",
        "rho",
    ],
)
def test_others_spend_it(problem, budget):
    """There Gaussian releases tell more, or pure ones cannot serve."""
    assert settle("auto", problem, budget, inference=True) == (USUAL, budget)


@pytest.mark.parametrize("columns", [1, 3])
def test_three_hundred_rows_are_few_whatever_the_budget(columns):
    large = Budget(10.0, 1e-6)
    assert settle("auto", few(300, columns), large, inference=True) == (SOLVER, Budget(10.0))
    wide = few(301, columns), Budget(100.0, 1e-6)
    assert settle("auto", *wide, inference=True) == (USUAL, wide[1])


def test_delta_buys_something_from_where_epsilon_is_three_and_a_half_times_mu():
    """At epsilon = 1 between a delta of 2e-5 and 4e-5, by the curve of Gaussian releases."""
    for delta, spent in ((2e-5, 0.0), (4e-5, 4e-5)):
        budget = Budget(1.0, delta)
        assert (3.5 * budget.mu <= 1.0) == (spent == 0.0)
        assert settle("auto", few(500), budget, inference=True)[1].delta == spent


def test_where_others_have_a_part_in_the_budget_releases_are_gaussian():
    assert settle("auto", few(), SMALL, inference=True, alone=False) == (USUAL, SMALL)
    assert settle("auto", few(), PURE, inference=True, alone=False) == (SOLVER, PURE)


def table(n, seed=0):
    """Return a table of few rows."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, n)
    return {"x": x, "y": np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * x)), "yes", "no")}


def test_a_result_states_that_no_delta_was_spent():
    result = pf.logit("y ~ x", table(800), schema=SCHEMA, budget=SMALL)
    assert (result.privacy.epsilon, result.privacy.delta, result.privacy.private) == (1.0, 0.0, True)
    assert "δ = 0)" in str(result.summary())
    assert "except with probability" not in result.privacy.sentence
    assert compose(result.plan.events).within(Budget(1.0))
    whitened = pf.logit("y ~ x", table(800), schema=SCHEMA, budget=SMALL, solver="whitened")
    assert (whitened.privacy.epsilon, whitened.privacy.delta) == (1.0, 1e-6)


def test_a_plan_is_that_of_the_fit():
    planned = pf.plan(n=800, schema=SCHEMA, formula="y ~ x", model="logit", budget=SMALL)
    result = pf.logit("y ~ x", table(800), schema=SCHEMA, budget=SMALL, random_state=1)
    assert planned.plan == result.plan
    assert planned.statement.delta == 0.0
    for field in ("notion", "epsilon", "delta", "mu"):
        assert getattr(planned.statement, field) == getattr(result.privacy, field)


def test_a_ledger_pays_for_gaussian_releases(tmp_path):
    """Which cost less beside others: four fits of (1, 1e-6) cost less than (2.2, 1e-6) together."""
    ledger = pf.Ledger(tmp_path / "ledger.db")
    ledger.grant("people", Budget(2.2, 1e-6))
    for seed in range(4):
        result = pf.logit(
            "y ~ x",
            table(800),
            schema=SCHEMA,
            budget=SMALL,
            ledger=ledger,
            dataset="people",
            random_state=seed,
        )
        assert result.plan.solver == USUAL.name
        assert result.privacy.delta == 1e-6


def test_bounds_that_are_learned_have_a_part_in_the_budget():
    draft = {"x": {"type": "numeric"}, "y": SCHEMA["y"]}
    asked = {"budget": Budget(3.0, 1e-6), "random_state": 1}
    result = pf.logit("y ~ x", table(380), schema=draft, scale="private", scale_share=0.5, **asked)
    assert result.plan.solver == USUAL.name
    assert pf.logit("y ~ x", table(380), schema=SCHEMA, **asked).plan.solver == SOLVER.name
