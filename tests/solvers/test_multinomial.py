"""Multinomial logistic regression: solvers, agreement with the exact fit, intervals, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from privfit.data.source import ArraySource
from privfit.data.synthetic import multinomial_model
from privfit.errors import Incompatible
from privfit.inference.infer import estimate_only, infer
from privfit.losses import Logistic, Multinomial
from privfit.losses.typical import typical
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.problem.oracle import Oracle
from privfit.solvers import (
    BY_NAME,
    Backtracking,
    EmpiricalBayesDescent,
    NoisyGradientDescent,
    NoisyNewton,
    NonPrivate,
    ProjectedNoisyGradientDescent,
    RidgeTwoStep,
    WhitenedGradientDescent,
    WhitenedObjectivePerturbation,
)
from privfit.solvers.shrinkage import likelier_mean

from .simulated import plan_once, problem_for

BETA = [[1.0, -0.5], [-0.5, 0.8]]
SUPPORTING = [
    WhitenedGradientDescent(),
    NoisyGradientDescent(),
    NoisyNewton(),
    ProjectedNoisyGradientDescent(),
]


def rows(n=4000, seed=0):
    z, y = multinomial_model(n, BETA, intercept=[0.3, -0.2], seed=seed)
    return np.column_stack([np.ones(n), z]), y


def multinomial_problem(loss, x, **options):
    return replace(problem_for(loss, x, **options), start=(0.0,) * (x.shape[1] * loss.n_outputs))


def inferred(problem, solver, x, y, *, mu, seed=0, directions=None):
    plan = plan_once(problem, solver, Allowance.gaussian(mu), inference=True)
    noise = make_source(seed) if np.isfinite(mu) else NoNoise()
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), noise)
    directions = np.eye(problem.n_linear) if directions is None else directions
    return infer(solver.run(problem, oracle), oracle, directions=directions)


@pytest.mark.parametrize(
    "solver",
    [
        *SUPPORTING[:1],
        NoisyGradientDescent(n_steps=300),
        *SUPPORTING[2:],
        NoisyNewton(damping=Backtracking()),
        NoisyNewton(damping=RidgeTwoStep()),
    ],
    ids=lambda one: f"{one.name}, {getattr(one, 'damping', None)}",
)
def test_a_huge_budget_finds_the_minimum(solver):
    x, y = rows()
    far = 9.0 if isinstance(solver, WhitenedGradientDescent) else 1.6
    problem = multinomial_problem(Multinomial(3), x, norm_bound=far)
    exact = inferred(problem, NonPrivate(), x, y, mu=np.inf)
    found = inferred(problem, solver, x, y, mu=1e6)
    np.testing.assert_allclose(found.theta, exact.theta, atol=1e-4)
    np.testing.assert_allclose(found.cov_sampling, exact.cov_sampling, rtol=2e-2, atol=1e-7)


@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_two_classes_agree_with_the_binary_path(l2):
    x, y = rows()
    y = (y > 0).astype(float)
    two = inferred(problem_for(Logistic(), x, l2=l2), NonPrivate(), x, y, mu=np.inf)
    problem = multinomial_problem(Multinomial(2), x, l2=2.0 * l2)
    many = inferred(problem, NonPrivate(), x, y, mu=np.inf)
    reported = float(Multinomial(2).reported[0, 0])
    np.testing.assert_allclose(reported * many.theta, two.theta, atol=1e-9)
    np.testing.assert_allclose(reported**2 * many.cov_sampling, two.cov_sampling, rtol=1e-7)


def test_two_classes_get_the_noise_of_the_binary_path():
    x, _ = rows()
    plans = [
        make_plan(problem, solver, Allowance.gaussian(1.0), inference=True)
        for solver in (WhitenedGradientDescent(),)
        for problem in (problem_for(Logistic(), x), multinomial_problem(Multinomial(2), x))
    ]
    factors = {"gradient": math.sqrt(2.0), "second_moment": 1.0, "norms": 1.0, "hessian": 2.0, "meat": 2.0}
    factors["marginals"] = math.sqrt(6.5 / 8.5)  # no square of the response is summed
    for one, other in zip(plans[0].releases, plans[1].releases, strict=True):
        assert other.kind == one.kind
        assert other.sd == pytest.approx(factors[one.kind] * one.sd, rel=1e-6)


def test_the_noise_does_not_depend_on_which_class_is_the_reference():
    """The sum of the variances of all pairwise differences, in expectation over noise, by the plan alone."""
    x, _ = rows()
    plan = make_plan(
        multinomial_problem(Multinomial(3), x),
        NoisyGradientDescent(),
        Allowance.gaussian(1.0),
        inference=False,
    )
    sd = plan.releases[0].sd
    contrasts = Multinomial(3).contrasts
    covariance = sd**2 * contrasts @ contrasts.T
    pairs = [covariance[a, a] + covariance[b, b] - 2 * covariance[a, b] for a, b in ((0, 1), (0, 2), (1, 2))]
    np.testing.assert_allclose(pairs, 2.0 * sd**2)


@pytest.mark.parametrize("n_classes", [3, 5, 9])
def test_a_reference_class_would_cost_noise(n_classes):
    """At even odds, as `docs/losses.md` says: (K + 2) / 2 times the variance for the same bound."""
    matrix = np.eye(n_classes) / n_classes - 1.0 / n_classes**2
    inverse = np.linalg.inv(matrix[1:, 1:])
    against_first = (inverse @ inverse)[0, 0]
    contrasts = Multinomial(n_classes).contrasts
    alike = np.linalg.pinv(contrasts.T @ matrix @ contrasts)
    way = contrasts[1] - contrasts[0]
    assert way @ alike @ alike @ way == pytest.approx(2.0 * n_classes**2)
    assert against_first / (2.0 * n_classes**2) == pytest.approx(0.5 * (n_classes + 2))


@pytest.mark.statistical
@pytest.mark.parametrize(
    "solver",
    [
        WhitenedGradientDescent(),
        NoisyGradientDescent(n_steps=80),
        NoisyNewton(),
        ProjectedNoisyGradientDescent(n_steps=125),
    ],
    ids=lambda one: one.name,
)
def test_the_covariance_is_that_of_the_estimate(solver):
    """With a third to two fifths of the steps that are planned by default.

    False alarms: 2e-7 for a chi-squared sum; the factor 1.1 is for covariances that are estimates.
    """
    truth = np.array([[0.3, 1.0, -0.5], [-0.2, -0.5, 0.8]])
    theta = np.linalg.solve(Multinomial(3).reported, truth).ravel()
    total = 0.0
    for seed in range(40):
        x, y = rows(n=1000, seed=seed)
        far = 3.0 if isinstance(solver, WhitenedGradientDescent) else 1.6
        problem = multinomial_problem(Multinomial(3), x, norm_bound=far)
        found = inferred(problem, solver, x, y, mu=4.0, seed=seed)
        off = found.theta - theta
        total += off @ np.linalg.solve(found.cov_sampling + found.cov_noise, off)
    low, high = chi2(240).ppf(1e-7), chi2(240).isf(1e-7)
    assert low < total < 1.1 * high


def test_a_plan_is_within_its_budget_and_has_no_class_of_its_own():
    x, _ = rows()
    sds = {}
    for n_classes in (3, 6, 12):
        problem = multinomial_problem(Multinomial(n_classes), x)
        plan = make_plan(problem, NoisyGradientDescent(n_steps=10), Allowance.gaussian(0.7), inference=False)
        assert compose(plan.events).gaussian <= 0.7
        sds[n_classes] = plan.releases[0].sd
        assert plan.releases[0].size == 3 * (n_classes - 1)
    assert sds[3] == pytest.approx(sds[12], rel=1e-9), "one sensitivity, however many classes"


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_typical_rows_are_those_at_even_odds(n_classes, rng):
    loss = Multinomial(n_classes)
    chances = loss.chances(np.zeros((n_classes - 1, n_classes)))
    np.testing.assert_allclose(chances, 1.0 / n_classes)
    scores = (chances - np.eye(n_classes)) @ loss.contrasts
    curvature, score = typical(loss, residual=0.25)
    np.testing.assert_allclose(scores.T @ scores / n_classes, score * np.eye(n_classes - 1), atol=1e-15)
    matrix = (
        loss.contrasts.T @ (np.diag(chances[:, 0]) - np.outer(chances[:, 0], chances[:, 0])) @ loss.contrasts
    )
    np.testing.assert_allclose(matrix, curvature * np.eye(n_classes - 1), atol=1e-15)


def test_self_concordance(rng):
    """The third derivative along h, h and g is at most gamma norm(g) times the second along h."""
    loss, gamma = Multinomial(4), Multinomial(4).constants.self_concordance
    for _ in range(300):
        chances = loss.chances(5.0 * rng.normal(size=(3, 1)))[:, 0]
        h, g = (loss.contrasts @ rng.normal(size=3) for _ in range(2))
        variance = chances @ (h - chances @ h) ** 2
        third = chances @ ((h - chances @ h) ** 2 * (g - chances @ g))
        assert abs(third) <= gamma * np.linalg.norm(g) * variance


@pytest.mark.parametrize("name", sorted(BY_NAME))
def test_a_solver_takes_classes_or_says_what_would(name):
    x, _ = rows()
    solver = BY_NAME[name]
    mu = Allowance.unlimited() if isinstance(solver, NonPrivate) else Allowance.gaussian(1.0)
    for n_classes in (2, 3):
        problem = multinomial_problem(Multinomial(n_classes), x)
        supporting = (*SUPPORTING, EmpiricalBayesDescent(), WhitenedObjectivePerturbation(), NonPrivate())
        if any(isinstance(solver, type(one)) for one in supporting):
            assert solver.plan(problem, mu)
        else:
            with pytest.raises(Incompatible, match="solver"):
                solver.plan(problem, mu)


def test_a_rare_class_is_reached():
    """With the steps of a budget of 1, but hardly any noise, the fit is within a standard error."""
    z, y = multinomial_model(20_000, [[0.5, -0.5], [0.5, 0.5]], intercept=[0.0, -4.0], seed=3)
    x = np.column_stack([np.ones(len(z)), z])
    problem = multinomial_problem(Multinomial(3), x, norm_bound=9.0)
    planned = WhitenedGradientDescent().plan(problem, Allowance.gaussian(1.0))
    n_steps = sum(release.kind == "gradient" for release in planned)
    exact = inferred(problem, NonPrivate(), x, y, mu=np.inf)
    errors = []
    for count in (n_steps, n_steps // 2):
        found = inferred(problem, WhitenedGradientDescent(n_steps=count), x, y, mu=1e6)
        errors.append(np.abs(found.theta - exact.theta) / np.sqrt(np.diag(exact.cov_sampling)))
    assert errors[0].max() < 1.0
    assert errors[1].max() > 2.0 * errors[0].max(), "half as many would do, or more are needed"


@pytest.mark.parametrize("n", [200, 500])
@pytest.mark.parametrize("solver", [WhitenedGradientDescent(), NoisyNewton()], ids=lambda one: one.name)
def test_far_too_little_budget_gives_numbers_that_claim_nothing(solver, n):
    x, y = rows(n=n)
    found = inferred(multinomial_problem(Multinomial(3), x), solver, x, y, mu=0.02)
    assert np.isfinite(found.theta).all()
    total = np.diag(found.cov_sampling + found.cov_noise)
    assert not np.isnan(total).any()
    assert (np.abs(found.theta) < 3.0 * np.sqrt(total)).all()


def point(problem, x, y, *, mu, seed=1):
    """The estimate of an empirical-Bayes descent."""
    plan = make_plan(problem, EmpiricalBayesDescent(), Allowance.gaussian(mu), inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), make_source(seed))
    return estimate_only(EmpiricalBayesDescent().run(problem, oracle)).theta


@pytest.mark.parametrize("n_classes", [2, 3])
def test_empirical_bayes_finds_the_minimum_with_a_huge_budget(n_classes):
    x, y = rows()
    y = np.minimum(y, n_classes - 1.0)
    problem = multinomial_problem(Multinomial(n_classes), x, norm_bound=9.0)
    exact = inferred(problem, NonPrivate(), x, y, mu=np.inf).theta
    np.testing.assert_allclose(point(problem, x, y, mu=1e6), exact, atol=2e-3)


def test_empirical_bayes_with_hardly_any_budget_gives_about_the_even_odds():
    x, y = rows(n=300)
    problem = multinomial_problem(Multinomial(3), x)
    errors = [np.abs(point(problem, x, y, mu=0.01, seed=seed)).max() for seed in range(10)]
    assert np.median(errors) < 1.0
    assert max(errors) < 10.0


def test_shrinkage_does_not_depend_on_the_order_of_the_classes(rng):
    contrasts = Multinomial(4).contrasts
    swapped = contrasts[[2, 0, 3, 1]]
    turn = np.kron(swapped.T @ contrasts, np.eye(5))
    noisy, root = rng.normal(size=15), rng.normal(size=(15, 15))
    noise = 0.1 * root @ root.T
    alike = np.diag([1.0, 1.0, 0.8, 0.5, 0.2])
    given = {"energy": 4.0, "alike": alike, "otherwise": alike}
    one = likelier_mean(noisy, noise, contrasts, **given)
    other = likelier_mean(turn @ noisy, turn @ noise @ turn.T, contrasts, **given)
    np.testing.assert_allclose(other, turn @ one, atol=1e-10)
    assert 0.0 < np.linalg.norm(one) < np.linalg.norm(noisy)
