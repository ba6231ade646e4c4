"""Rows that are weighted down by how steep a logit can be: where, and what it does to intervals."""

import numpy as np
import pytest
from scipy.special import expit

from privfit.data.clamp import default_norm_bound
from privfit.losses import Huber, Logistic, Multinomial, Poisson, Squared
from privfit.problem import steep
from privfit.solvers import WhitenedGradientDescent

from .simulated import inferred, oracle_for, problem_for, rows


def solved(loss, n, mu, *, shift=0.0):
    rng = np.random.default_rng(5)
    x, y = rows(loss if loss.target_kind != "count" else Squared(3.0), n, rng)
    if loss.target_kind == "binary":
        y = (rng.random(n) < expit(shift + x @ np.array([0.5, -1.0, 0.7]))).astype(float)
    if loss.target_kind == "count":
        y = rng.poisson(1.0, n).astype(float)
    problem = problem_for(loss, x)
    oracle = oracle_for(problem, WhitenedGradientDescent(), x, y, mu=mu)
    return WhitenedGradientDescent().run(problem, oracle), oracle


def test_a_logit_with_little_budget_has_less_noise_than_planned():
    solution, oracle = solved(Logistic(), 1000, 0.5)
    steep = solution.problem.steep
    assert 0.55 < steep.part < 0.85
    planned = [release for release in oracle.plan.solver_releases if release.kind == "gradient"]
    asked = [release for release in oracle.released if release.planned.kind == "gradient"]
    factors = [one.sd / other.sd for one, other in zip(asked, planned, strict=True)]
    half = len(factors) // 2
    np.testing.assert_allclose(factors[:half], 1.0)
    np.testing.assert_allclose(factors[half:], steep.part, rtol=1e-6)
    assert oracle.release("meat", solution.theta).planned.sd < 0.8 * oracle.plan.releases[-1].sd
    assert oracle.release("hessian", solution.theta).planned.sd == oracle.plan.releases[-2].sd


@pytest.mark.parametrize(
    ("loss", "n", "mu", "shift"),
    [
        (Logistic(), 20_000, 20.0, 0.0),
        (Logistic(), 20_000, np.inf, 0.0),
        (Logistic(), 2000, 0.5, -5.0),
        (Squared(3.0), 1000, 0.5, 0.0),
        (Huber(0.8), 1000, 0.5, 0.0),
        (Poisson(2.0, 12.0), 1000, 0.05, 0.0),
    ],
    ids=["ample", "no noise", "rare", "least squares", "huber", "counts"],
)
def test_others_are_left_alone(loss, n, mu, shift):
    assert solved(loss, n, mu, shift=shift)[0].problem.steep is None


def test_counts_are_held_where_the_bound_on_them_is_below_ten_means():
    """Their slope is at most the bound less the mean; a look has lowered the bound on counts of mean 1."""
    problem = solved(Poisson(2.0, 12.0), 1000, 0.7)[0].problem
    assert problem.loss.count_bound < 10.0
    assert 0.9 < problem.steep.part <= 0.95


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(2), Multinomial(4)], ids=lambda loss: loss.name)
def test_no_response_makes_a_steeper_slope_near_a_point(loss):
    """For two classes up to what is taken for how it changes."""
    rng = np.random.default_rng(1)
    eta = 2.0 * rng.normal(size=(loss.n_outputs, 200))
    distance = 0.75 if loss.target_kind == "binary" else 0.75 / np.sqrt(2.0)
    largest = steep.steepest(loss, eta, 0.75)
    for _ in range(50):
        away = rng.normal(size=eta.shape)
        near = eta + distance * away / np.linalg.norm(away, axis=0)
        assert (steep.steepest(loss, near, 0.0) <= largest * (1.0 + 1e-12)).all()
    assert (largest <= loss.constants.slope).all()
    assert largest.min() < 0.8 * loss.constants.slope


ETA = 3.0 * np.random.default_rng(2).normal(size=(1, 700))
"""More predictors than are looked at together, of either sign."""

SLACK = 0.4


@pytest.mark.parametrize("loss", [Logistic(), Poisson(1.2, 4.0), Poisson(0.7, 1.1), Huber(0.8)], ids=repr)
def test_the_largest_slope_is_that_of_any_response_at_either_end(loss):
    ends, constants = np.concatenate([ETA - SLACK, ETA + SLACK]), loss.constants
    if loss.target_kind == "binary":
        largest = np.maximum(expit(ends), expit(-ends))
    elif loss.target_kind == "count":
        means = np.exp(np.minimum(ends, loss.bound))
        largest = np.maximum(means, loss.count_bound - means)
    else:
        largest = np.full(ends.shape, np.inf)
    expected = np.minimum(largest.max(axis=0), constants.slope)
    np.testing.assert_allclose(steep.steepest(loss, ETA, SLACK), expected, rtol=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), Multinomial(2), Multinomial(4)], ids=lambda loss: loss.name)
def test_rows_are_as_steep_as_their_predictors_at_the_point(loss):
    rng = np.random.default_rng(3)
    x, at = rng.normal(size=(60, 3)), rng.normal(size=(loss.n_outputs, 3))
    near = steep.SteepRows(0.5, at.ravel(), SLACK)
    bounds = near.bounds(loss, 0.3)
    assert (bounds.bound, bounds.most) == (0.3, loss.constants.slope)
    expected = steep.steepest(loss, at @ x.T, SLACK)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(bounds.steepness(x, None), expected, rtol=1e-12)


def test_rows_that_are_too_long_say_nothing_while_it_is_found_how_steep_they_are():
    x = np.array([[1e200, 1e200], [1e200, -1e200], [np.inf, np.inf], [1.0, 1e-300]])
    reach = steep.Reach(Logistic(), steep.SteepRows(0.5, np.array([1e200, -1e200]), SLACK))
    with np.errstate(all="raise"):
        assert (reach(x) <= 1.0).sum() >= 2


def errors_of_fits(strength, tables):
    """Return errors of a right logit of two covariates in standard errors, with mu = 0.5."""
    away, solver = [], WhitenedGradientDescent()
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        x = np.column_stack([np.ones(1000), rng.normal(size=(1000, 2))])
        theta = np.array([0.4, strength / np.sqrt(2.0), -strength / np.sqrt(2.0)])
        y = (rng.random(1000) < expit(x @ theta)).astype(float)
        problem = problem_for(Logistic(), x, norm_bound=default_norm_bound(3))
        found = inferred(problem, solver, x, y, mu=0.5, seed=seed)
        errors = np.sqrt(np.diag(found.cov_sampling + found.cov_noise))
        away.append(np.where(np.isfinite(errors), (found.theta - theta) / errors, np.nan))
    return np.array(away)


@pytest.mark.statistical
def test_intervals_have_the_stated_size_where_rows_are_weighted_and_slack_keeps_slopes_from_being_cut(
    monkeypatch,
):
    """Noise is most of the error; squared errors over their variances have a mean of about 1.

    Over 200 tables its standard error is at most 0.113 (t with ten degrees of freedom, three coefficients
    that are taken for one), and over the half of them at most 0.16. Six of them. Slopes that are cut at the
    anchor itself lead estimates away along the signal, in the same tables with the same noise: by 7.9
    standard errors of that, in 40 tables.
    """
    away = {strength: errors_of_fits(strength, 100) for strength in (1.0, 3.0)}
    squares = np.array([np.nanmean(one**2) for one in away.values()])
    assert all(np.isfinite(one).mean() > 0.9 for one in away.values())
    assert abs(squares.mean() - 1.0) < 0.68
    assert np.abs(squares - 1.0).max() < 0.96
    steepest = steep.steepest
    monkeypatch.setattr(steep, "steepest", lambda loss, eta, slack: steepest(loss, eta, 0.0))
    more = (errors_of_fits(3.0, 40) - away[3.0][:40]) @ [0.0, 0.5, -0.5]
    more = more[np.isfinite(more)]
    assert np.mean(more) > 5.0 * np.std(more) / np.sqrt(more.size)
