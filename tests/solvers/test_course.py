"""Which rows the steps of the default ask: when a sample of them leads the way, and what comes of it."""

import math
from collections import Counter
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats

import privfit as pf
from privfit import Budget, HuberRegressor, LogisticRegression
from privfit.data.shares import ShareRule
from privfit.data.synthetic import linear_model, logistic_model
from privfit.losses import ConcomitantHuber, Huber, Logistic, SmoothedQuantile, Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers import WhitenedGradientDescent
from privfit.solvers.course import Course, Matrices, usual_growth

BETA = (1.0, -1.0, 0.5)


def problem(n_rows, p=4):
    return Problem(
        loss=Logistic(),
        columns=tuple(f"x{k}" for k in range(p)),
        norm_bound=2.0,
        n_rows=n_rows,
        relation=Relation.REPLACE,
        l2=0.0,
        start=(0.0,) * p,
        penalised=(False, *[True] * (p - 1)),
    )


@pytest.mark.parametrize(
    "course",
    [
        Course.even(17, 36.0),
        Course.even(6, 1.0),
        Course.sampled(problem(10**6), 1.0),
    ],
)
def test_shares_are_a_whole_and_the_last_cost_most(course):
    assert math.isclose(math.fsum(course.shares), 1.0)
    assert min(course.shares) > 0.0
    assert max(course.shares) == course.shares[-1]
    assert 1 <= course.n_late <= len(course.arriving)


def test_the_first_steps_have_more_of_the_budget_where_noise_is_large_or_a_scale_is_to_be_found():
    plain = problem(1000)
    scaled = replace(plain, loss=ConcomitantHuber(), start=(*plain.start, 1.0))
    assert [usual_growth(plain, mu) for mu in (1e-3, 1.0, 1e6)] == [36.0, pytest.approx(100.0), 250.0]
    assert usual_growth(scaled, 1e6) == 36.0
    shares = Course.even(10, 100.0).shares
    assert shares[-1] / shares[0] == pytest.approx(100.0**0.9)


def test_many_rows_are_led_by_a_small_sample_and_few_rows_by_all():
    parts = [Course.sampled(problem(n), 1.0).leading_part(0.0) for n in (10_000, 39_000, 10**5, 10**6, 10**8)]
    assert parts == [1.0, 1.0, 0.2, 0.02, 0.0002]


@pytest.mark.parametrize("harder", [{"mu": 0.01}, {"p": 60}, {"longest": 2000.0}])
def test_noise_columns_and_long_rows_ask_for_more(harder):
    given = {"mu": 1.0, "p": 4, "longest": 10.0}
    usual, more = (
        Course.sampled(problem(10**6, case["p"]), case["mu"]).leading_part(case["longest"])
        for case in (given, {**given, **harder})
    )
    assert usual < more <= 0.5


def test_all_rows_lead_where_lengths_are_open_units_are_protected_or_nothing_is_hidden():
    assert Course.sampled(problem(10**6), 1.0).leading_part(math.inf) == 1.0
    assert Course.sampled(problem(10**6), math.inf).leading_part(0.0) == 1.0
    units = replace(problem(10**6), shares=ShareRule(unit="person", rows_per_unit=3))
    assert Course.sampled(units, 1.0).leading_part(0.0) == 1.0
    assert Course.even(9, 4.0).leading_part(0.0) == 1.0


@pytest.mark.parametrize(
    "loss", [Huber(1.0), Squared(1.0), SmoothedQuantile(0.5, 0.1)], ids=lambda one: one.name
)
def test_all_rows_lead_where_levels_of_numbers_may_be_far_from_others(loss):
    levels = replace(problem(10**6), indicators=(True, False, False, True))
    numbers = replace(problem(10**6), indicators=(True, False, False, False))
    assert Course.sampled(replace(levels, loss=loss), 1.0).leading_part(0.0) == 1.0
    assert Course.sampled(replace(numbers, loss=loss), 1.0).leading_part(0.0) < 0.5
    assert Course.sampled(levels, 1.0).leading_part(0.0) < 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(("model", "shift"), [(pf.quantile, 4.0), (pf.huber, 8.0), (pf.ols, 8.0)])
def test_levels_far_from_others_are_found_with_many_rows(model, shift):
    """Eight intervals of 95 %: 6 are wrong with a chance of 4e-7. They were many times as long."""
    n, share = 40_000, 0.05 if shift == 4.0 else 0.02
    rng, wrong, widths = np.random.default_rng(1), 0, []
    schema = {
        "x": {"type": "numeric", "lower": -5, "upper": 5},
        "g": {"type": "categorical", "levels": ["a", "b"]},
        "y": {"type": "numeric", "lower": -20, "upper": 20},
    }
    for seed in range(8):
        x, far = rng.normal(size=n).clip(-5.0, 5.0), rng.random(n) < share
        y = (1.0 + 0.5 * x + shift * far + rng.normal(size=n)).clip(-20.0, 20.0)
        rows = {"x": x, "g": np.where(far, "b", "a"), "y": y}
        low, high = (
            model("y ~ x + C(g)", rows, schema=schema, epsilon=1.0, random_state=seed).conf_int().iloc[-1]
        )
        widths.append(high - low)
        wrong += math.isfinite(widths[-1]) and not low <= shift <= high
    assert wrong < 6
    assert np.median(widths) < 4.0 * 3.92 / math.sqrt(n * share)


def test_matrices_come_from_as_many_rows_as_lengths_and_noise_ask():
    calm = Matrices(squared_norm=10.0, bread=0.2, meat=0.2, bread_noise=1e-9, meat_noise=1e-9, size=8)
    assert calm.part(10**8) == pytest.approx(2**20 / 10**8)
    assert [calm.part(round(2**20 / part)) for part in (0.59, 0.61)] == [pytest.approx(0.59), 1.0]
    asking = {"bread_noise": 1e-3, "meat_noise": 1e-3, "squared_norm": 1e4}
    for name, value in asking.items():
        assert calm.part(10**8) < replace(calm, **{name: value}).part(10**8) < 0.5
        assert replace(calm, **{name: 1e4 * value}).part(10**8) == 1.0


N_ROWS = 60_000
"""Of which a third leads."""


@lru_cache
def simulated(estimator):
    """Return rows, responses and the plain fit of them."""
    simulate = logistic_model if estimator is LogisticRegression else linear_model
    x, y = simulate(N_ROWS, BETA, seed=5)
    return x, y, estimator(solver="non-private").fit(x, y).result_


def fitted(estimator, x, y, mu, seed, **options):
    return estimator(budget=Budget.gdp(mu), random_state=seed, **options).fit(x, y).result_


def test_a_sample_leads_and_all_rows_decide():
    """Of 100,000 rows a fifth leads; the last gradients and the look at norms before them ask all."""
    result = fitted(LogisticRegression, *logistic_model(100_000, BETA, seed=1), 1.0, 2)
    assert Counter(r.planned for r in result.releases) == Counter(result.plan.releases)
    gradients = [r.part for r in result.releases if r.planned.kind == "gradient"]
    assert gradients == [pytest.approx(0.2, abs=2.0**-15)] * 6 + [1.0] * 4
    assert [r.part for r in result.releases if r.planned.kind in ("marginals", "norms")] == [1.0] * 3
    assert all(planned.kind != "hessian" for planned in result.plan.solver_releases)  # the bread is one


@pytest.mark.statistical
def test_a_sample_leads_without_inference_too():
    """The estimate is as far from the plain fit as the noise of its last gradients: both tails 1e-7."""
    x, y, exact = simulated(LogisticRegression)
    total, alone = 0.0, {"solver": "whitened", "inference": False}
    for seed in range(25):
        result = fitted(LogisticRegression, x, y, 0.8, seed, **alone)
        assert Counter(r.planned for r in result.releases) == Counter(result.plan.releases)
        assert min(release.part for release in result.releases) < 0.5
        assert [planned.kind for planned in result.plan.solver_releases].count("hessian") == 1
        away = np.asarray(result.params) - np.asarray(exact.params)
        total += float(away @ np.linalg.solve(np.asarray(exact.cov_params()), away))
    noise = np.asarray(fitted(LogisticRegression, x, y, 0.8, 0, solver="whitened").cov_noise)
    stated = float(np.trace(np.linalg.solve(np.asarray(exact.cov_params()), noise)))
    low, high = stats.chi2.ppf([1e-7, 1.0 - 1e-7], 25 * exact.params.size) / exact.params.size
    assert 0.5 * low * stated < total < 1.25 * high * stated  # without bread and meat there is less noise


@pytest.mark.parametrize("budget", [Budget.gdp(1.0), Budget(epsilon=4.0, delta=0.0)])
def test_few_rows_and_given_steps_ask_all_rows(budget):
    x, y = logistic_model(100_000, BETA, seed=1)
    for options in ({"solver": WhitenedGradientDescent(n_steps=10)}, {}):
        rows = slice(None) if options else slice(10_000)
        result = LogisticRegression(budget=budget, random_state=3, **options).fit(x[rows], y[rows]).result_
        assert {release.part for release in result.releases} == {1.0}


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("estimator", "budget"),
    [
        (LogisticRegression, Budget.gdp(0.8)),
        (HuberRegressor, Budget.gdp(0.8)),
        (LogisticRegression, Budget(epsilon=3.3, delta=0.0)),
    ],
)
def test_what_a_sample_has_led_to_is_as_far_from_the_plain_fit_as_it_says(estimator, budget):
    """Squared distances over the stated variance of the noise, 25 fits of one table: both tails 1e-7.

    The noise of a bread is common to the coefficients of a fit, and rows are weighted a little: an allowance
    of a quarter on both sides.
    """
    x, y, plain = simulated(estimator)
    exact, total = np.asarray(plain.params), 0.0
    for seed in range(25):
        result = estimator(budget=budget, solver="whitened", random_state=seed).fit(x, y).result_
        assert min(release.part for release in result.releases) < 0.5
        away = np.asarray(result.params) - exact
        total += float(away @ np.linalg.solve(np.asarray(result.cov_noise), away))
    free = 25 * exact.size
    low, high = stats.chi2.ppf([1e-7, 1.0 - 1e-7], free)
    assert 0.8 * low < total < 1.25 * high


@pytest.mark.statistical
def test_rare_levels_are_led_by_more_rows_and_estimated():
    """An indicator of 1 row in 500, which a sample of 20,000 shows 40 times."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=(100_000, 2)), rng.random(100_000) < 0.002])
    y = x @ np.array([1.0, -1.0, 0.5]) + rng.normal(size=100_000)
    exact = HuberRegressor(solver="non-private").fit(x, y).result_
    for seed in range(5):
        result = fitted(HuberRegressor, x, y, 2.0, seed)
        assert min(release.part for release in result.releases) > 0.2
        away = np.asarray(result.params) - np.asarray(exact.params)
        assert np.all(np.abs(away) < 6.0 * np.asarray(result.bse))
