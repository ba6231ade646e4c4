"""Solvers: what they plan, where they converge, and how far the noise moves them."""

import dataclasses
import math

import numpy as np
import pytest

from privfit.errors import Incompatible, InvalidArgument
from privfit.losses import ConcomitantHuber, Huber, Logistic, Poisson, SmoothedQuantile, Squared
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import GaussianEvent, compose
from privfit.solvers import (
    EmpiricalBayesDescent,
    NoisyGradientDescent,
    NoisyNewton,
    NonPrivate,
    WhitenedGradientDescent,
    resolve,
)
from privfit.solvers.row_bound import squared_bound

from .simulated import inferred, oracle_for, plan_once, problem_for, rows

LOSSES = [Logistic(), Squared(3.0), Huber(0.8), ConcomitantHuber()]
PRIVATE = [
    WhitenedGradientDescent(),
    NoisyGradientDescent(),
    NoisyGradientDescent(n_steps=5, growth=1.5),
    NoisyNewton(),
    NoisyNewton(n_steps=3, hessian_share=0.2, damping=1.0),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("solver", PRIVATE, ids=repr)
@pytest.mark.parametrize("mu", [0.05, 1.0, 30.0])
def test_plans_cost_at_most_the_budget_and_nearly_all_of_it(solver, loss, mu, rng):
    problem = problem_for(loss, rows(loss, 2000, rng)[0])
    plan = plan_once(problem, solver, Allowance.gaussian(mu), inference=True)
    total = compose([GaussianEvent(release.mu) for release in plan.releases]).mu
    assert total <= mu
    assert total > mu * (1 - 1e-6)
    assert plan.mu == total


@pytest.mark.parametrize("solver", PRIVATE, ids=repr)
def test_the_plan_does_not_depend_on_the_data(solver, rng):
    plans = []
    for seed in (1, 2):
        x, y = rows(Logistic(), 400, np.random.default_rng(seed))
        problem = problem_for(Logistic(), x)
        oracle = oracle_for(problem, solver, x, y, mu=1.0, seed=seed)
        solver.run(problem, oracle)
        used = [release.planned for release in oracle.released]
        planned = oracle.plan.solver_releases
        for kind in {release.kind for release in planned}:  # what is bounded more tightly has less noise
            asked = [release for release in used if release.kind == kind]
            promised = [release for release in planned if release.kind == kind]
            assert len(asked) == len(promised)
            for one, other in zip(asked, promised, strict=True):
                assert one.sensitivity <= other.sensitivity
                assert one == dataclasses.replace(other, sensitivity=one.sensitivity, sd=one.sd)
                assert one.sd / one.sensitivity == pytest.approx(other.sd / other.sensitivity, rel=1e-6)
        assert len(used) == len(planned)
        plans.append(oracle.plan)
    assert plans[0] == plans[1]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize(
    "solver",
    [
        WhitenedGradientDescent(n_steps=80, spread=1e6),
        NoisyGradientDescent(n_steps=3000),
        NoisyNewton(n_steps=40),
    ],
    ids=repr,
)
def test_without_noise_a_solver_finds_the_m_estimator(solver, loss, rng):
    """As the budget grows the private fit becomes the non-private one, to 1e-6."""
    x, y = rows(loss, 1500, rng)
    problem = problem_for(loss, x, norm_bound=100.0 if isinstance(solver, WhitenedGradientDescent) else 1.6)
    reference = inferred(problem, NonPrivate(), x, y, mu=math.inf)
    found = inferred(problem, solver, x, y, mu=math.inf)
    np.testing.assert_allclose(found.theta, reference.theta, atol=1e-6)
    if loss.has_scale:
        assert found.scale == pytest.approx(reference.scale, abs=1e-6)
    np.testing.assert_allclose(found.cov_sampling, reference.cov_sampling, rtol=1e-4, atol=1e-9)
    assert np.abs(found.cov_noise).max() == 0.0


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("solver", [WhitenedGradientDescent(), NoisyNewton(n_steps=40)], ids=repr)
def test_a_huge_budget_gives_the_non_private_fit(solver, loss, rng):
    x, y = rows(loss, 1500, rng)
    problem = problem_for(loss, x, norm_bound=100.0 if isinstance(solver, WhitenedGradientDescent) else 1.6)
    reference = inferred(problem, NonPrivate(), x, y, mu=math.inf)
    found = inferred(problem, solver, x, y, mu=1e7)
    np.testing.assert_allclose(found.theta, reference.theta, atol=1e-6)


def test_the_reference_solves_the_estimating_equation(rng):
    for loss in LOSSES:
        x, y = rows(loss, 700, rng)
        problem = problem_for(loss, x)
        oracle = oracle_for(problem, NonPrivate(), x, y, mu=math.inf)
        solution = NonPrivate().run(problem, oracle)
        assert np.linalg.norm(solution.steps[-1].gradient) < 1e-11


def test_the_reference_refuses_a_budget(rng):
    problem = problem_for(Logistic(), rows(Logistic(), 50, rng)[0])
    with pytest.raises(Incompatible, match="NonPrivate"):
        make_plan(problem, NonPrivate(), Allowance.gaussian(1.0), inference=True)


def test_ridge_shrinks_all_but_the_intercept(rng):
    x, y = rows(Squared(50.0), 500, rng)
    plain = problem_for(Squared(50.0), x, norm_bound=100.0)
    heavy = problem_for(Squared(50.0), x, norm_bound=100.0, l2=1e4)
    for solver in (NonPrivate(), WhitenedGradientDescent(spread=1e6), NoisyNewton(n_steps=30)):
        theta = inferred(heavy, solver, x, y, mu=math.inf).theta
        assert np.abs(theta[1:]).max() < 1e-3
        assert theta[0] == pytest.approx(y.mean(), abs=1e-3)
    free = inferred(plain, NonPrivate(), x, y, mu=math.inf).theta
    np.testing.assert_allclose(free, np.linalg.lstsq(x, y)[0], atol=1e-9)


def test_whitening_makes_the_fit_equivariant(rng):
    """Rescaling a column by 20 rescales its coefficient and leaves the noise in the predictions alone."""
    x, y = rows(Logistic(), 4000, rng)
    wide = x * np.array([1.0, 20.0, 1.0])
    errors = []
    for table in (x, wide):
        problem = problem_for(Logistic(), table, norm_bound=100.0)
        reference = inferred(problem, NonPrivate(), table, y, mu=math.inf).theta
        fits = [
            inferred(problem, WhitenedGradientDescent(), table, y, mu=20.0, seed=s).theta for s in range(20)
        ]
        errors.append(np.sqrt(np.mean([(table @ (fit - reference)) ** 2 for fit in fits])))
    assert errors[1] < 1.5 * errors[0]


def test_rows_are_weighted_down_only_as_far_as_the_budget_requires(rng):
    """The norm bound grows with the budget, and a bounded table gets more of it; always at least 1.2 p.

    By hand: what noise in the bread allows is up to three times as much, and twice itself over 3.6, with
    levels five times; of counts with levels it may be more than three times as much.
    """
    x, _ = rows(Logistic(), 2000, rng)
    problem = problem_for(Logistic(), x)
    bounded = dataclasses.replace(problem, bounded=True)

    def bound(problem, mu):
        return squared_bound(problem, 3.0, 0.0, signal=mu, bread=mu, slack=(1.0, 1.0, 1.0))

    budgets = (1e-3, 0.1, 0.5, 1.0, 5.0, 1e4)
    plain = [bound(problem, mu) for mu in budgets]
    faithful = [bound(bounded, mu) for mu in budgets]
    assert plain == sorted(plain)
    assert plain[0] == faithful[0] == pytest.approx(1.2 * 3)
    assert plain[-1] == faithful[-1] == pytest.approx(2000)
    for_bread = 0.015 * 2000 / math.sqrt(3)
    assert plain[2] == pytest.approx(0.006 * 2000 * 0.5**2 * (1 + 4 / 3), rel=1e-6)  # noise of the steps
    assert bound(bounded, 0.1) == pytest.approx(1.2 * 3)
    assert bound(bounded, 0.2) == pytest.approx(0.2**2 * for_bread**2 / 1.8, rel=1e-6)  # and of the bread
    assert faithful[3] == pytest.approx(3.0 * for_bread, rel=1e-6)
    steps = squared_bound(bounded, 3.0, 0.0, signal=0.1, bread=10.0, slack=(1.0, 1.0, 1.0))
    assert steps == pytest.approx(0.006 * 2000 * 0.1**2 * (1 + 100 / 3), rel=1e-6)
    columns = tuple(f"x{k}" for k in range(20))
    wide = dataclasses.replace(bounded, columns=columns, penalised=(True,) * 20)
    assert bound(wide, 1.0) == pytest.approx(0.015 * 2000 / math.sqrt(20) * (1 + 15 / 20), rel=1e-6)
    levels = dataclasses.replace(bounded, indicators=(True, False, True))
    assert bound(levels, 10.0) == pytest.approx(3.0 * 10.0 * for_bread, rel=1e-6)
    counts = dataclasses.replace(levels, loss=Poisson(1.0, 5.0))
    assert bound(counts, 10.0) == pytest.approx((1 + 15 / 3) * 10.0 * for_bread, rel=1e-6)
    assert bound(dataclasses.replace(bounded, indicators=(True, False, False)), 10.0) == bound(bounded, 10.0)
    hidden = squared_bound(levels, 3.0, 0.0, signal=1.0, bread=0.1, slack=(1.0, 1.0, 1.0))
    assert hidden == pytest.approx(0.1**2 * 5.0 * for_bread**2 / 3.6, rel=1e-6)
    for problem in (bounded, levels):
        quantile = dataclasses.replace(problem, loss=SmoothedQuantile(0.5, 0.4))
        assert bound(quantile, 10.0) == pytest.approx(2.25 * 10.0 * for_bread, rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_too_little_budget_never_diverges(seed, rng):
    for loss in LOSSES:
        x, y = rows(loss, 100, rng)
        for solver in PRIVATE:
            found = inferred(problem_for(loss, x), solver, x, y, mu=0.05, seed=seed)
            assert np.isfinite(found.theta).all()
            assert np.abs(x @ found.theta).max() < 1e4
            assert not np.isnan(found.cov_noise).any()
            if loss.has_scale:
                assert found.scale > 0


def test_names_resolve_and_arguments_are_checked():
    assert resolve("auto", inference=True) == WhitenedGradientDescent()
    assert resolve("auto", inference=False) == EmpiricalBayesDescent()
    assert resolve(NoisyNewton(n_steps=2), inference=True).n_steps == 2
    for bad in ("nope", None, 3, NoisyNewton):
        with pytest.raises(InvalidArgument, match="solver must be"):
            resolve(bad, inference=True)
    for make in (
        lambda: NoisyGradientDescent(n_steps=0),
        lambda: NoisyGradientDescent(step_size=-1.0),
        lambda: NoisyGradientDescent(report="best"),
        lambda: NoisyNewton(damping=1.5),
        lambda: NoisyNewton(hessian_share=1.0),
        lambda: WhitenedGradientDescent(geometry_share=0.0),
        lambda: WhitenedGradientDescent(spread=-1.0),
        lambda: NonPrivate(tolerance=0.0),
    ):
        with pytest.raises(InvalidArgument):
            make()
