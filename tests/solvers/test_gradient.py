"""Noisy gradient descent takes steps enough to arrive, and no more where each adds noise."""

import math

import numpy as np
import pytest

import privfit as pf
from privfit.data.declarations import NumericColumn
from privfit.data.shares import ShareRule
from privfit.losses import Logistic, Poisson, Quantile, SmoothedQuantile
from privfit.privacy.allowance import Allowance
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers import NoisyGradientDescent

N = 10_000
LOGARITHM = math.log(N)


def steps(loss=None, *, bound=2.0, allowance=None, **options):
    loss = Logistic() if loss is None else loss
    problem = Problem(loss, ("a", "b"), bound, N, Relation.REPLACE, 0.0, (0.0, 0.0), (False, True))
    allowance = Allowance(1.0) if allowance is None else allowance
    return len(NoisyGradientDescent(**options).plan(problem, allowance))


def test_the_last_iterate_and_pure_budgets_get_few_steps():
    few = round(6 * LOGARITHM)
    assert steps(report="last") == steps(report="last", bound=9.0) == few
    assert steps(allowance=Allowance(1.0, pure=True)) == few
    assert steps(n_steps=7) == 7


def test_one_newton_step_gets_more_the_longer_rows_can_be_and_the_flatter_the_loss():
    assert steps() == round(30 * LOGARITHM)
    assert steps(bound=4.0) == round(3.5 * 16.0 * LOGARITHM)
    assert steps(bound=40.0) == round(100 * LOGARITHM)
    assert steps(SmoothedQuantile(0.5, 0.1), bound=4.0) > 1.5 * steps(bound=4.0)
    assert steps(Poisson(3.0, 20.0)) == round(100 * LOGARITHM)
    assert steps(Quantile(0.5), step_size=0.1) == round(30 * LOGARITHM)


def test_noise_bounds_the_number_of_steps():
    by_budget = [steps(bound=4.0, allowance=Allowance(mu)) for mu in (1e-3, 0.03, 0.1, 1.0, math.inf)]
    few, some, more, all_of_them, without_noise = by_budget
    assert few == round(6 * LOGARITHM)
    assert few < some < more < all_of_them
    assert all_of_them == without_noise


@pytest.mark.parametrize(
    ("estimator", "longest"), [(pf.LogisticRegression, math.sqrt(27.0)), (pf.QuantileRegressor, 2.98)]
)
def test_it_arrives_with_correlated_columns(estimator, longest):
    """Where five times as many steps lead; a tenth of a standard error is near."""
    rng = np.random.default_rng(3)
    k = 8
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    x = rng.normal(size=(5_000, k)) @ np.linalg.cholesky(0.7**apart).T
    score = 0.5 + x @ (0.5 * (-1.0) ** np.arange(k))
    noise = rng.logistic(size=len(x)) if estimator is pf.LogisticRegression else rng.normal(size=len(x))
    y = (score + noise > 0).astype(int) if estimator is pf.LogisticRegression else score + noise

    def fit(solver):
        model = estimator(budget=pf.Budget.gdp(1e5), solver=solver, norm_bound=longest, random_state=0)
        return model.fit(x, y).result_

    found, exact = fit("gradient-descent"), fit(NoisyGradientDescent(n_steps=4_000))
    assert (np.abs(found.params - exact.params) < 0.1 * exact.bse).all()
    short = fit(NoisyGradientDescent(n_steps=round(6 * math.log(len(x)))))
    assert (np.abs(short.params - exact.params) > 0.1 * exact.bse).any()


def test_a_look_says_how_much_of_the_rows_counts_where_they_do_not_count_alike():
    def kinds(shares, **options):
        bounds = (2.0, N, Relation.REPLACE, 0.0, (0.0, 0.0), (False, True))
        problem = Problem(Logistic(), ("a", "b"), *bounds, shares=shares)
        return [planned.kind for planned in NoisyGradientDescent(**options).plan(problem, Allowance(1.0))]

    weighted = ShareRule(weights=("w", NumericColumn(0.0, 1.0)))
    for shares in (weighted, ShareRule("person"), ShareRule("person", 20)):
        assert kinds(shares)[:2] == ["norms", "gradient"]
        assert set(kinds(shares)[1:]) == set(kinds(shares, step_size=0.1)) == {"gradient"}
    assert set(kinds(ShareRule())) == {"gradient"}


@pytest.mark.parametrize("report", ["one-step", "last"])
@pytest.mark.parametrize("by", ["weights", "rows_per_unit"])
def test_it_arrives_where_rows_count_for_little(by, report):
    """Where rows that count in full lead; steps for those were twenty times too short."""
    rng = np.random.default_rng(4)
    n, budget, solver = 5_000, pf.Budget.gdp(1e4), NoisyGradientDescent(report=report)
    x = rng.normal(size=(n, 2))
    y = (0.5 + x @ [1.0, -1.0] + rng.logistic(size=n) > 0).astype(int)

    def fit(beside, **options):
        model = pf.LogisticRegression(budget=budget, solver=solver, norm_bound=2.0, random_state=0, **options)
        return model.fit(x, y, **beside).result_

    full = fit({})
    if by == "weights":
        light = fit({"sample_weight": np.full(n, 0.05)}, weight_bound=1.0)
    else:
        light = fit({"groups": np.arange(n)}, rows_per_unit=20)
    assert (np.abs(light.params - full.params) < 0.1 * full.bse).all()


def test_where_rows_count_for_little_noise_bounds_the_length_of_the_steps():
    """Steps by the released share alone would carry the last iterate further."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(5_000, 2)), rng.integers(0, 2, size=5_000)
    solver = NoisyGradientDescent(report="last")
    model = pf.LogisticRegression(
        budget=pf.Budget.gdp(1.0), solver=solver, norm_bound=2.0, rows_per_unit=500, random_state=0
    )
    found = model.fit(x, y, groups=np.arange(5_000)).result_
    assert np.abs(found.params).max() < 3.0
