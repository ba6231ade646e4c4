"""Projected noisy gradient descent: what it does step by step, and its error bound against simulation."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from privfit import Budget, LogisticRegression
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument
from privfit.inference.infer import estimate_only
from privfit.losses import ConcomitantHuber, Logistic
from privfit.losses.base import evaluate
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.oracle import Oracle
from privfit.problem.query_kernels import query_kernel
from privfit.solvers import (
    NoisyGradientDescent,
    NoisyNewton,
    ProjectedNoisyGradientDescent,
    WhitenedGradientDescent,
    resolve,
)
from privfit.solvers.projected import (
    LARGEST_DEFAULT_STEPS,
    minimiser_radius,
    project,
)

from .kinked import Absolute, PlainHinge, Welsch
from .simulated import plan_once, problem_for, rows

BUDGETS = [Budget.gdp(1.0), Budget(1.0), Budget(2.0, 1e-6)]


def solve(problem, solver, x, y, *, allowance, seed=0):
    plan = plan_once(problem, solver, allowance, inference=False)
    noise = NoNoise() if math.isinf(allowance.amount) else make_source(seed)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), noise)
    return estimate_only(solver.run(problem, oracle)).theta, oracle


def risk_of(problem, x, y):
    weight = np.minimum(1.0, problem.norm_bound**2 / np.sum(x**2, axis=1))

    def risk(theta):
        losses = evaluate(problem.loss.functions.value, y, x @ theta, s=1.0, loss=problem.loss)
        return float(np.mean(weight * losses)) + 0.5 * float(theta @ problem.ridge @ theta)

    return risk


def penalised_everywhere(problem, l2):
    return dataclasses.replace(problem, l2=l2, penalised=(True,) * problem.n_coef)


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("loss", [PlainHinge(), Logistic(), Absolute()], ids=lambda loss: loss.name)
def test_the_plan_costs_at_most_the_budget_and_nearly_all_of_it(loss, relation, budget, rng):
    problem = dataclasses.replace(problem_for(loss, rows(loss, 900, rng)[0]), relation=relation)
    for solver in (ProjectedNoisyGradientDescent(), ProjectedNoisyGradientDescent(n_steps=7, radius=2.0)):
        plan = make_plan(problem, solver, Allowance.of(budget), inference=False)
        assert compose(plan.events).within(budget)
        spent = sum(r.epsilon for r in plan.releases) if budget.notion == "pure" else plan.mu
        assert spent > (budget.epsilon if budget.notion == "pure" else budget.mu) * (1 - 1e-5)
        assert {release.kind for release in plan.releases} == {"gradient"}
    assert len(plan.releases) == 6


@pytest.mark.parametrize("loss", [PlainHinge(), Logistic()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("step_size", [None, 0.3])
def test_it_takes_the_steps_of_the_source(loss, step_size, rng):
    """From 0, T - 1 noisy steps, each projected; the average of all T iterates."""
    x, y = rows(loss, 500, rng)
    problem = problem_for(loss, x, l2=0.1)
    solver = ProjectedNoisyGradientDescent(radius=0.4, n_steps=12, step_size=step_size)
    theta, oracle = solve(problem, solver, x, y, allowance=Allowance.gaussian(0.5))
    released = oracle.released
    assert len(released) == 11
    sd, bound = released[0].planned.sd, problem.norm_bound + 0.1 * 0.4
    eta = step_size or 0.4 / math.sqrt(12 * bound**2 + 11 * 3 * sd**2)  # R / (B sqrt(T))
    iterates = [np.zeros(3)]
    for release in released:
        np.testing.assert_allclose(release.at, iterates[-1], atol=1e-14)
        moved = iterates[-1] - eta * (release.value + problem.ridge @ iterates[-1])
        iterates.append(moved / max(1.0, np.linalg.norm(moved) / 0.4))
    np.testing.assert_allclose(theta, np.mean(iterates, axis=0), atol=1e-14)
    norms = [np.linalg.norm(one) for one in iterates]
    assert max(norms) <= 0.4 * (1 + 1e-12)
    assert step_size is None or max(norms) == pytest.approx(0.4)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("loss", [PlainHinge(), Absolute()], ids=lambda loss: loss.name)
def test_no_neighbour_moves_a_subgradient_by_more_than_its_sensitivity(loss, relation, rng):
    """Rows on and beyond the bound, responses on the kink included; some pair comes within 1 %."""
    n = 5 if relation is Relation.REPLACE else 4
    problem = dataclasses.replace(problem_for(loss, np.ones((n, 3))), relation=relation)
    extreme = [side * length * axis for axis in np.eye(3) for side in (1, -1) for length in (0.5, 1.6, 40.0)]
    targets = (0.0, 1.0) if loss.target_kind == "binary" else (0.0, 1e9, -1e9)
    largest = 0.0
    for theta in (np.zeros(3), np.array([1.0, -2.0, 0.5]), 100 * rng.normal(size=3)):
        kernel = query_kernel(problem, "gradient", theta)
        means = [np.zeros(3)] if relation is Relation.ADD_REMOVE else []
        for row in extreme:
            for y in targets:
                source = ArraySource(row[None, :], np.array([y]), norm_bound=problem.norm_bound)
                means.append(problem.mean("gradient", source.sum(kernel, 3)))
        found = np.array(means)
        pairs = found[:1] if relation is Relation.ADD_REMOVE else found
        largest = max(largest, np.linalg.norm(found[:, None] - pairs[None], axis=2).max())
    assert 0.99 * problem.sensitivity("gradient") <= largest <= problem.sensitivity("gradient")


def optimum_in_ball(problem, x, y, radius):
    """Return the least risk over the ball, by a linear program for a kink and a smooth solver else."""
    risk = risk_of(problem, x, y)
    if problem.loss.constants.smooth:
        inside = {"type": "ineq", "fun": lambda t: radius**2 - t @ t}
        found = minimize(
            risk, np.zeros(x.shape[1]), constraints=[inside], options={"ftol": 1e-12, "maxiter": 500}
        )
        return found.fun
    weight = np.minimum(1.0, problem.norm_bound**2 / np.sum(x**2, axis=1))
    side, (n, p) = (2 * y - 1)[:, None] * x, x.shape
    program = linprog(
        np.concatenate([np.zeros(p), weight / n]),
        A_ub=np.hstack([-side, -np.eye(n)]), b_ub=-np.ones(n), bounds=[(None, None)] * p + [(0, None)] * n,
    )  # fmt: skip
    assert np.linalg.norm(program.x[:p]) < radius
    return program.fun


@pytest.mark.statistical
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("loss", "radius"), [(PlainHinge(), 3.0), (Logistic(), 1.0)], ids=lambda v: getattr(v, "name", v)
)
def test_the_error_bound_holds(loss, radius, relation, pure, rng):
    """Mean excess risk of 30 noises, six standard errors added, is below the bound; never below 0."""
    x, y = rows(loss, 400, rng)
    problem = dataclasses.replace(problem_for(loss, x), relation=relation)
    allowance = Allowance(2.0, pure=pure)
    solver = ProjectedNoisyGradientDescent(radius=radius, n_steps=40)
    least, risk = optimum_in_ball(problem, x, y, radius), risk_of(problem, x, y)
    excess = np.array(
        [risk(solve(problem, solver, x, y, allowance=allowance, seed=s)[0]) - least for s in range(30)]
    )
    assert excess.min() > -1e-9
    assert excess.mean() + 6 * excess.std() / math.sqrt(30) <= solver.error_bound(problem, allowance)


@pytest.mark.parametrize("amount", [math.inf, 3.0, 0.3])
def test_the_error_bound_is_within_a_factor_of_the_worst_case(amount, rng):
    """A linear risk of the largest slope is minimised at the edge; a wrong step size would miss the bound."""
    x, y = np.ones((200, 1)), np.full(200, 100.0)
    problem = problem_for(Absolute(), x, norm_bound=1.0)
    solver, allowance = ProjectedNoisyGradientDescent(radius=2.0, n_steps=100), Allowance.gaussian(amount)
    risk = risk_of(problem, x, y)
    fits = [solve(problem, solver, x, y, allowance=allowance, seed=s)[0] for s in range(30)]
    excess = np.mean([risk(theta) for theta in fits]) - risk(np.array([2.0]))
    bound = solver.error_bound(problem, allowance)
    assert 0.4 * bound < excess < 0.75 * bound


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("relation", list(Relation))
def test_the_error_bound_is_that_of_the_theorem(relation, pure, rng):
    n, mu, radius, steps, bound = 4000, 0.7, 1.5, 60, 1.6
    problem = dataclasses.replace(problem_for(Logistic(), np.ones((n, 3))), relation=relation)
    solver = ProjectedNoisyGradientDescent(radius=radius, n_steps=steps)
    change = (2.0 if relation is Relation.REPLACE else 1.0) * bound / n
    sd = change * math.sqrt(steps - 1) / mu
    if pure:
        sd = change * (steps - 1) / mu * math.sqrt(3 + 1)
    square = bound**2 + (1 - 1 / steps) * 3 * sd**2
    got = solver.error_bound(problem, Allowance(mu, pure=pure))
    assert got == pytest.approx(radius * math.sqrt(square / steps), rel=1e-5)
    if not pure:
        assert got <= radius * bound / math.sqrt(steps) + radius * change * math.sqrt(3) / mu
    other = dataclasses.replace(solver, step_size=0.01).error_bound(problem, Allowance(mu, pure=pure))
    assert other == pytest.approx(radius**2 / (2 * steps * 0.01) + 0.005 * square, rel=1e-5)
    assert other > got


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("accuracy", [0.5, 0.05])
def test_planned_steps_and_rows_reach_the_accuracy(accuracy, relation, pure, rng):
    """Half of the rows, or a quarter of the steps, do not."""
    problem = dataclasses.replace(problem_for(PlainHinge(), np.ones((100, 3))), relation=relation)
    allowance, solver = Allowance(0.8, pure=pure), ProjectedNoisyGradientDescent(radius=2.0)
    steps = solver.steps_for(accuracy, problem)
    n = solver.rows_for(accuracy, problem, allowance)
    assert steps == math.ceil((2 * 2.0 * 1.6 / accuracy) ** 2)
    factor = 4.0 if relation is Relation.REPLACE else 2.0
    growth = math.sqrt(3 * 4 * steps) if pure else math.sqrt(3)
    assert n == pytest.approx(factor * 2.0 * 1.6 * growth / (accuracy * 0.8), rel=1e-4, abs=1)

    def bound(steps, n):
        one = dataclasses.replace(solver, n_steps=max(2, steps))
        return one.error_bound(dataclasses.replace(problem, n_rows=n), allowance)

    assert bound(steps, n) <= accuracy
    assert bound(steps, n // 2) > accuracy
    assert bound(steps // 4, n) > accuracy
    with pytest.raises(InvalidArgument, match="accuracy"):
        solver.steps_for(0.0, problem)


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("n", [50, 1000, 30_000])
@pytest.mark.parametrize("amount", [0.05, 1.0, 20.0])
def test_default_steps_are_near_the_best_of_the_bound(n, amount, pure, rng):
    problem = dataclasses.replace(problem_for(Logistic(), np.ones((100, 3))), n_rows=n)
    allowance, solver = Allowance(amount, pure=pure), ProjectedNoisyGradientDescent()
    chosen = len(solver.plan(problem, allowance)) + 1
    assert 2 <= chosen <= LARGEST_DEFAULT_STEPS
    every = [2, 3, 5, 10, 20, 50, 100, 200, LARGEST_DEFAULT_STEPS]
    bounds = [ProjectedNoisyGradientDescent(n_steps=t).error_bound(problem, allowance) for t in every]
    assert solver.error_bound(problem, allowance) <= 1.051 * min(bounds)


def test_a_ridge_on_all_columns_bounds_the_minimiser(rng):
    """The gradient of the ridge balances that of the loss, so the ball of radius C / l2 is no constraint."""
    x, y = rows(Logistic(), 300, rng)
    x, y = 0.1 * x, np.ones(300)
    problem = penalised_everywhere(problem_for(Logistic(), x), l2=0.8)
    radius = minimiser_radius(problem)
    assert radius == pytest.approx(1.6 / 0.8)
    solver = ProjectedNoisyGradientDescent(n_steps=4000)
    assert solver.ball(problem) == radius
    assert problem.ridged_gradient_bound(radius) == pytest.approx(2 * 1.6)
    theta, _ = solve(problem, solver, x, y, allowance=Allowance.unlimited())
    risk = risk_of(problem, x, y)
    free = minimize(risk, np.zeros(3))
    assert np.linalg.norm(free.x) < radius
    assert risk(theta) - free.fun <= solver.error_bound(problem, Allowance.unlimited())
    spared = problem_for(Logistic(), x, l2=0.8)
    assert minimiser_radius(spared) == minimiser_radius(problem_for(Logistic(), x)) == math.inf
    assert solver.ball(spared) == 4.0
    assert solver.ball(penalised_everywhere(spared, l2=1e-3)) == 4.0


def test_the_projection_is_the_nearest_point(rng):
    for point in rng.normal(size=(50, 4)):
        near = project(point, 1.2)
        candidates = rng.normal(size=(200, 4))
        candidates *= (1.2 * rng.random(200) / np.linalg.norm(candidates, axis=1))[:, None]
        distance = np.linalg.norm(point - near)
        assert distance <= np.linalg.norm(candidates - point, axis=1).min() + 1e-12
        assert np.linalg.norm(near) <= 1.2 * (1 + 1e-12)


def test_losses_that_a_method_cannot_serve_are_refused_with_a_remedy(rng):
    kinked, dented = (problem_for(loss, np.ones((100, 3))) for loss in (PlainHinge(), Welsch()))
    scaled = problem_for(ConcomitantHuber(), np.ones((100, 3)))
    allowance = Allowance.gaussian(1.0)
    for solver in (NoisyGradientDescent(), NoisyNewton(), WhitenedGradientDescent()):
        with pytest.raises(Incompatible, match="ProjectedNoisyGradientDescent"):
            solver.plan(kinked, allowance)
    for solver in (NoisyNewton(), WhitenedGradientDescent(), ProjectedNoisyGradientDescent()):
        with pytest.raises(Incompatible, match="not; use solver="):
            solver.plan(dented, allowance)
    with pytest.raises(Incompatible, match="residual scale"):
        ProjectedNoisyGradientDescent().plan(scaled, allowance)
    assert make_plan(dented, NoisyGradientDescent(), allowance, inference=False).private
    with pytest.raises(Incompatible, match=r"convex.*inference=False"):
        make_plan(dented, NoisyGradientDescent(), allowance, inference=True)
    with pytest.raises(Incompatible, match=r"kink.*inference=False"):
        make_plan(kinked, ProjectedNoisyGradientDescent(), allowance, inference=True)


@pytest.mark.statistical
@pytest.mark.parametrize("budget", [Budget.gdp(3.0), Budget(30.0)], ids=repr)
def test_intervals_cover(budget):
    """95 % intervals of 40 fits hold 160 coefficients at least 132 times: a miss: 2e-9.

    Intervals from one Newton step at the average of all iterates, which keeps part of the way from 0,
    would hold about 117 after 60 steps.
    """
    beta, hits = np.array([0.5, 1.0, -0.5, 0.3]), 0
    solver = ProjectedNoisyGradientDescent(n_steps=150)
    for seed in range(40):
        draws = np.random.default_rng(seed)
        x = draws.normal(size=(2000, 3))
        y = (draws.random(2000) < 1 / (1 + np.exp(-(beta[0] + x @ beta[1:])))).astype(int)
        fit = LogisticRegression(budget=budget, solver=solver, random_state=seed).fit(x, y)
        interval = fit.result_.conf_int().to_numpy()
        hits += int(((interval[:, 0] <= beta) & (beta <= interval[:, 1])).sum())
    assert hits >= 132


def test_arguments_are_checked_and_the_name_resolves():
    assert resolve("projected-gradient-descent", inference=False) == ProjectedNoisyGradientDescent()
    for bad in ({"radius": 0.0}, {"n_steps": 1}, {"step_size": -1.0}, {"radius": math.inf}):
        with pytest.raises(InvalidArgument):
            ProjectedNoisyGradientDescent(**bad)
