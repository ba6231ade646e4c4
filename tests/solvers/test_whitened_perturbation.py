"""The default for pure budgets: guarantee, noise, coordinates, intervals, and where it is chosen."""

import itertools
import json
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import privfit as pf
from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, PlanViolation
from privfit.inference.infer import estimate_only, infer
from privfit.losses import ConcomitantHuber, Huber, Logistic, Multinomial, Poisson, SmoothedQuantile, Squared
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, PlannedRelease, Release
from privfit.procedures.landscape import Landscape, fully_penalised
from privfit.solvers import (
    NonPrivate,
    WhitenedObjectivePerturbation,
)
from privfit.solvers.hessian_model import norm_limit
from privfit.solvers.perturbation_rows import row_bound
from privfit.solvers.response import MeanResponse
from privfit.solvers.whitened_perturbation import MOST_STRETCH, Whitening, perturbed

from .simulated import plan_once, problem_for, rows

SOLVER, PURE = WhitenedObjectivePerturbation(), Budget(2.0)
LOSSES = [Logistic(), Huber(0.8), Squared(2.0)]


def solved(problem, x, y, *, budget=PURE, seed=0, inference=False):
    plan = plan_once(problem, SOLVER, Allowance.of(budget), inference=inference)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), make_source(seed))
    return SOLVER.run(problem, oracle), oracle


def exact(problem, x, y):
    """Return the fit without noise, and its inference."""
    plan = plan_once(problem, NonPrivate(), Allowance.unlimited(), inference=True)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), NoNoise())
    return infer(NonPrivate().run(problem, oracle), oracle, directions=np.eye(problem.n_coef))


def uneven(n, seed, loss=None):
    """Rows within declared bounds of [-1, 1], of which one column uses a tenth, and their problem."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.uniform(-1.0, 1.0, n), 0.3 + 0.1 * rng.uniform(-1.0, 1.0, n)])
    eta = x @ [0.2, 1.0, 0.8]
    loss = Logistic() if loss is None else loss
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float) if loss.target_kind == "binary" else eta
    problem = replace(
        problem_for(loss, x, norm_bound=math.sqrt(3.0)), bounded=True, indicators=(True, False, False)
    )
    return problem, x, y


def turned(problem, x):
    """Return the rows in the problem's coordinates, and their weights; written anew with NumPy."""
    z, limit = x @ problem.basis, problem.norm_bound
    size = np.linalg.norm(z, axis=1)
    reach = np.linalg.norm(x, axis=1) * np.linalg.norm(problem.basis, 2)
    return z, np.minimum(1.0, np.minimum(limit / size, problem.amplification / reach) ** 2)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("budget", [PURE, Budget(1.0, 1e-6), Budget.gdp(0.5)], ids=lambda b: b.notion)
@pytest.mark.parametrize("inference", [False, True])
def test_plans_are_within_the_budget_and_use_it_up(loss, budget, inference):
    x, y = rows(loss, 2000, np.random.default_rng(1))
    problem = problem_for(loss, x)
    plan = plan_once(problem, SOLVER, Allowance.of(budget), inference=inference)
    assert compose(plan.events).within(budget)
    if budget.notion != "gdp":  # in which two pure releases cost less than one of the same sum
        assert not compose(plan.events).within(Budget(0.95 * budget.epsilon, budget.delta))
    planned = [release.kind for release in plan.solver_releases]
    seen = 0.02 * 2000 * sum(release.epsilon for release in plan.solver_releases) >= 20.0
    looks = ["labels"] if isinstance(loss, Logistic) and seen else []
    assert planned == ["second_moment", *looks, "perturbed_minimiser"]
    assert [release.kind for release in plan.inference_releases] == (["hessian", "meat"] if inference else [])
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=True))) == plan
    solution, oracle = solved(problem, x, y, budget=budget, inference=inference)
    assert np.isfinite(solution.theta).all()
    assert solution.problem.basis is not None
    if inference:
        infer(solution, oracle, directions=np.eye(3))
        assert len(oracle.released) == len(plan.releases)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("together", [1, 4])
def test_the_privacy_loss_of_an_outcome_is_within_the_claim(together, relation):
    """The density of the exact minimiser, for neighbours that differ in random and in the worst rows.

    ``log p(phi) = -norm(b) / scale + log det H`` with ``b = -grad F(phi)``. The claim holds for all, and at
    least 80 % of it is real: a row at the bound in the direction of b, with the largest slope of either sign;
    and so of several rows of one person. A row that is there in one table alone is compared with
    none.
    """
    rng, n, p = np.random.default_rng(3), 30, 3
    base = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    responses = base @ [0.5, -1.0, 0.7] + 0.5 * rng.normal(size=n)
    problem = replace(problem_for(Huber(0.8), base, l2=0.01), relation=relation)
    problem = replace(problem, shares=ShareRule(unit="person")) if together > 1 else problem
    final = perturbed(problem, np.array([[0.6, 0.1, 0.0], [0.0, 1.5, -0.4], [0.2, 0.0, 3.0]]))
    procedure = SOLVER.procedure(final, 1.0)
    ridge = procedure.l2 * np.eye(p) + final.ridge

    def terms(x, y, phi):
        """Return what rows add to the gradient (k, p) and to the Hessian (k, p, p)."""
        z, weight = turned(final, x)
        slopes = weight * np.clip(z @ phi - y, -0.8, 0.8)
        curved = weight * (np.abs(z @ phi - y) <= 0.8)
        return slopes[:, None] * z / n, curved[:, None, None] * z[:, :, None] * z[:, None, :] / n

    def log_density(gradients, hessians):
        norms = np.linalg.norm(gradients, axis=-1)
        return -norms / procedure.spread + np.linalg.slogdet(hessians)[1]

    worst = 0.0
    for _ in range(300):
        phi = rng.normal(size=p) * 10.0 ** rng.uniform(-2, 2)
        gradient, hessian = (one.sum(axis=0) for one in terms(base[1:], responses[1:], phi))
        gradient, hessian = gradient + ridge @ phi, hessian + ridge
        absent = log_density(gradient, hessian)
        along = np.linalg.solve(final.basis.T, -final.norm_bound * gradient / np.linalg.norm(gradient))
        x, y = np.empty((8, together, p)), np.empty((8, together))
        rows_of_one = (along, 1e6 * rng.normal(size=p), 1e-3 * rng.normal(size=p), np.eye(p)[0])
        for at, (sign, row) in enumerate(itertools.product((-1.0, 1.0), rows_of_one)):
            x[at] = row * rng.uniform(0.5, 1.5, size=(together, 1)) if rng.random() < 0.5 else row
            y[at] = sign * 1e12 if rng.random() < 0.7 else rng.normal(size=together)
        slopes, curved = terms(x.reshape(-1, p), y.ravel(), phi)
        slopes = slopes.reshape(8, together, p).mean(axis=1)
        curved = curved.reshape(8, together, p, p).mean(axis=1)
        found = log_density(gradient + slopes, hessian + curved)
        apart = np.ptp(found) if relation is Relation.REPLACE else np.max(np.abs(found - absent))
        worst = max(worst, apart)
    assert 0.8 * procedure.epsilon <= worst <= procedure.epsilon - procedure.output_epsilon


@pytest.mark.parametrize("n_classes", [3, 6])
def test_the_privacy_loss_of_an_outcome_is_within_the_claim_with_classes(n_classes):
    """The same density where a row has curvature in several directions.

    Less of the claim is real, 40 % or more: the largest slopes of two rows are not opposite anywhere.
    """
    loss, n, p = Multinomial(n_classes), 20, 2
    rng, m, contrasts = np.random.default_rng(5), n_classes - 1, loss.contrasts
    base, classes = np.column_stack([np.ones(n), rng.normal(size=n)]), rng.integers(n_classes, size=n)
    problem = replace(problem_for(loss, base, l2=0.01), start=(0.0,) * (m * p))
    final = perturbed(problem, np.array([[0.7, 0.2], [0.0, 1.6]]))
    procedure = SOLVER.procedure(final, 1.0)
    ridge = procedure.l2 * np.eye(m * p) + final.ridge

    def parts(x, y, phi):
        """Return the gradient (k, m p) and the Hessian (k, m p, m p) of each of k rows."""
        z, weight = turned(final, x)
        eta = phi.reshape(m, p) @ z.T
        slopes = weight * (contrasts.T @ (loss.chances(eta) - np.eye(n_classes)[:, y]))
        curved = weight[:, None, None] * loss.curvatures(eta)
        hessians = np.einsum("iab,ij,ik->iajbk", curved, z, z).reshape(len(x), m * p, m * p)
        return np.einsum("ai,ij->iaj", slopes, z).reshape(len(x), m * p) / n, hessians / n

    worst = 0.0
    for _ in range(400):
        phi = rng.normal(size=m * p) * 10.0 ** rng.uniform(-2, 3)
        gradients, hessians = parts(base[1:], classes[1:], phi)
        gradient, hessian = gradients.sum(axis=0) + ridge @ phi, hessians.sum(axis=0) + ridge
        steepest = np.linalg.svd(gradient.reshape(m, p))[2][0]
        along = np.linalg.solve(final.basis.T, steepest * final.norm_bound)
        row = np.array([along, -along, 1e6 * rng.normal(size=p), 1e-3 * rng.normal(size=p)])
        own = parts(np.repeat(row, n_classes, axis=0), np.tile(np.arange(n_classes), len(row)), phi)
        norms = np.linalg.norm(gradient + own[0], axis=1)
        worst = max(worst, np.ptp(np.linalg.slogdet(hessian + own[1])[1] - norms / procedure.spread))
    assert 0.4 * procedure.epsilon <= worst <= procedure.epsilon - procedure.output_epsilon


@pytest.mark.statistical
def test_the_linear_term_has_the_planned_law():
    """At the outcome the gradient is -b, but for the small noise; KS on its norm, 300 draws, 1e-7."""
    x, y = rows(Logistic(), 500, np.random.default_rng(6))
    problem = problem_for(Logistic(), x, l2=0.02)
    norms = []
    for seed in range(300):
        solution, oracle = solved(problem, x, y, seed=seed)
        final, phi = solution.problem, solution.theta
        procedure = SOLVER.procedure(final, oracle.plan.releases[-1].epsilon)
        z, weight = turned(final, x)
        slope = 1.0 / (1.0 + np.exp(-z @ phi)) - y
        norms.append(np.linalg.norm((weight * slope) @ z / 500 + final.ridge @ phi + procedure.l2 * phi))
    law = stats.gamma(3, scale=procedure.spread)
    assert stats.kstest(norms, law.cdf).pvalue > 1e-7
    for factor in (1.5, 1 / 1.5):
        assert stats.kstest(factor * np.array(norms), law.cdf).pvalue < 1e-7


@pytest.mark.statistical
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8)], ids=lambda loss: loss.name)
def test_errors_from_noise_have_the_stated_size(loss):
    """300 draws on one table without weights: mean standardised square within 1e-7 limits of chi-square.

    With the variances of the noise off by a third it fails either way. The law is that of sums of squares of
    radial noise, of variance 18 for 3 coefficients (kurtosis (p + 3) / (p + 1) times the normal's).
    """
    problem, x, y = uneven(1_250, 7, loss)
    truth = exact(problem, x, y)
    squares = []
    for seed in range(300):
        solution, oracle = solved(problem, x, y, budget=Budget(12.0), seed=seed, inference=True)
        found = infer(solution, oracle, directions=np.eye(3))
        away = found.theta - truth.theta
        squares.append(away @ np.linalg.solve(found.cov_noise, away))
    half = stats.norm.isf(5e-8) * math.sqrt(18.0 / 300)
    assert 3.0 - half <= np.mean(squares) <= 3.0 + half
    assert half < 1.4


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "epsilon", "given"), [(800, 1.0, None), (3000, 4.0, None), (800, 1.0, 1000)])
def test_intervals_cover(n, epsilon, given):
    """200 tables: finite intervals hold the truth in 91 to 98.5 %, binomial limits of 1e-7 on each side.

    Also where the number of rows is private, and another one is given in its place.
    """
    hits, finite = 0, 0
    for seed in range(200):
        problem, x, y = uneven(n, 1000 + seed)
        if given:
            problem = replace(problem, relation=Relation.ADD_REMOVE, n_rows=given)
        solution, oracle = solved(problem, x, y, budget=Budget(epsilon), seed=seed, inference=True)
        found = infer(solution, oracle, directions=np.eye(3)[1:2])
        variance = float(found.cov_sampling[0, 0] + found.cov_noise[0, 0])
        if math.isfinite(variance):
            half = stats.t.ppf(0.975, found.dof[0]) * math.sqrt(variance)
            hits += abs(found.theta[1] - 1.0) <= half
            finite += 1
    assert finite >= 133
    assert stats.binom.cdf(hits, finite, 0.91) > 1e-7
    assert stats.binom.sf(hits - 1, finite, 0.985) > 1e-7


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_without_inference_most_of_the_ridge_of_the_method_is_taken_away(loss):
    """With little noise the released point is off by its ridge, the estimate by less than 0.7 of that."""
    x, y = rows(loss, 3000, np.random.default_rng(2))
    problem = problem_for(loss, x, norm_bound=20.0)
    solution, _ = solved(problem, x, y, budget=Budget(200.0))
    wanted = exact(problem, x, y).theta
    basis = solution.problem.basis
    point, estimate = basis @ solution.steps[0].release.at, estimate_only(solution).theta
    assert np.linalg.norm(x @ (estimate - wanted)) < 0.7 * np.linalg.norm(x @ (point - wanted))


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_huge_budget_gives_the_fit_that_was_asked_for(loss, l2):
    """The problem's own ridge stays, the method's is taken away; the intercept is not penalised."""
    x, y = rows(loss, 3000, np.random.default_rng(2))
    problem = problem_for(loss, x, l2=l2, norm_bound=20.0)
    solution, oracle = solved(problem, x, y, budget=Budget(1e6), inference=True)
    found = infer(solution, oracle, directions=np.eye(3))
    wanted = exact(problem, x, y)
    np.testing.assert_allclose(found.theta, wanted.theta, atol=1e-3)
    np.testing.assert_allclose(np.diag(found.cov_sampling), np.diag(wanted.cov_sampling), rtol=0.05)


def test_columns_that_use_a_part_of_their_bounds_are_as_well_known():
    """In encoded coordinates noise in the narrow column is ten times as large as in the wide one."""
    problem, x, y = uneven(30_000, 5)
    _, oracle = found = solved(problem, x, y, budget=Budget(1.0), inference=True)
    spread = np.sqrt(np.diag(infer(found[0], oracle, directions=np.eye(3)).cov_noise))
    deviations = x.std(axis=0)
    assert 0.4 < (spread[2] * deviations[2]) / (spread[1] * deviations[1]) < 2.5


def released(moment, sd):
    size = len(moment)
    planned = PlannedRelease("second_moment", size * (size + 1) // 2, 1.0, math.inf, sd, epsilon=1.0)
    return Release(planned, np.zeros(size), moment)


def test_rows_within_declared_bounds_are_not_weighted_down_needlessly():
    problem, x, _ = uneven(4000, 5)
    whitening = Whitening.of(problem, released(x.T @ x / len(x), 1e-6), 1e3, (1.0, 1.0))
    final = perturbed(problem, whitening.basis)
    assert (turned(final, x)[1] == 1.0).all()
    square = float(np.mean(np.sum(x**2, axis=1)))
    bound = row_bound(
        problem, whitening.basis / whitening.unit, 3.0, epsilon=1e3, square=square, slack=(1.0, 1.0)
    )
    assert bound == pytest.approx(norm_limit(problem) / whitening.unit, rel=1e-3)
    moment = whitening.basis.T @ (x.T @ x / len(x)) @ whitening.basis
    np.testing.assert_allclose(moment, whitening.unit**2 * np.eye(3), atol=0.02 * whitening.unit**2)


@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1.0])
@pytest.mark.parametrize("sd", [1e-12, 1e-3, 10.0])
def test_no_basis_stretches_rows_beyond_the_bound(scale, sd):
    """Collinear columns, or a moment that noise hides: the basis stays finite and its stretch bounded."""
    problem, x, _ = uneven(500, 5)
    x[:, 2] = x[:, 1] * (1.0 + scale)
    whitening = Whitening.of(problem, released(x.T @ x / len(x), sd), 1.0, (1.0, 1.0))
    stretch = problem.norm_bound * np.linalg.norm(whitening.basis, 2) / norm_limit(problem)
    assert np.isfinite(whitening.basis).all()
    assert stretch <= MOST_STRETCH * (1.0 + 1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_an_outcome_is_as_near_to_the_minimiser_as_its_noise_says(scale):
    """Without noise, in a stretched basis: the gradient, in extended precision, proves the distance."""
    x, y = rows(Logistic(), 800, np.random.default_rng(4))
    problem = problem_for(Logistic(), x)
    final = perturbed(problem, np.diag([0.5, 0.5, 0.5 * MOST_STRETCH * scale]))
    plan = make_plan(problem, SOLVER, Allowance.of(PURE), inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=1.6), NoNoise())
    oracle.change_basis(final)
    procedure = SOLVER.procedure(final, plan.releases[-1].epsilon)
    phi = oracle.carry_out(procedure, np.zeros(3)).value
    z, weight = turned(final, x)
    wide = z.astype(np.longdouble)
    slope = 1.0 / (1.0 + np.exp(-wide @ phi)) - y
    gradient = (weight * slope) @ wide / 800 + procedure.l2 * phi
    assert float(np.linalg.norm(gradient)) <= procedure.l2 * procedure.error(final)


@pytest.mark.parametrize(
    ("n", "part", "in_use"), [(10**4, 0.01, 0.0025), (10**6, 0.1, 0.2), (10**8, 1.0, 0.25)]
)
def test_the_noise_on_the_outcome_is_far_below_what_sampling_leaves(n, part, in_use):
    """Ten logit columns at epsilon = 1, in gradients: its deviation is at most a part of sampling's.

    With declared bounds that rows make use of it is a quarter of that, or a fifth of sampling's beside a
    smaller ridge.
    """
    names = tuple(f"x{k}" for k in range(10))
    problem = Problem(Logistic(), names, 3.0, n, Relation.REPLACE, 0.0, (0.0,) * 10, (True,) * 10)
    final = perturbed(problem, None)
    planned = make_plan(problem, SOLVER, Allowance.of(Budget(1.0)), inference=True).solver_releases[-1]
    unit = norm_limit(problem) / math.sqrt(10.0 * 10)  # rows of up to ten times the expected squared norm
    sampling = 0.4 * unit / math.sqrt(n)
    for stretch, most in ((MOST_STRETCH, part), (3.0, in_use)):
        whitening = Whitening(np.eye(10), unit, np.eye(10), np.zeros(10), stretch)
        procedure = SOLVER.procedure(final, planned.epsilon, whitening)
        outcome = 2.0 * 0.25 * unit**2 * procedure.output_scale(final) * math.sqrt(11.0)
        assert outcome < most * sampling


def test_other_coordinates_need_their_stretch():
    x, _ = rows(Logistic(), 800, np.random.default_rng(4))
    final = perturbed(problem_for(Logistic(), x), np.eye(3))
    with pytest.raises(PlanViolation, match="stretch"):
        Landscape.of(fully_penalised(final, 0.1))
    assert Landscape.of(fully_penalised(final, 0.1), stretch=2.0).rounding(1.0) > 0.0


def test_bounds_grow_with_the_stretch_and_the_penalty():
    x, _ = rows(Logistic(), 800, np.random.default_rng(4))
    plain = Landscape.of(fully_penalised(problem_for(Logistic(), x), 0.1))
    more = replace(plain, penalty=0.5, stretch=7.0)
    assert more.smoothness == pytest.approx(plain.smoothness + 0.5)
    assert more.longest_step == pytest.approx(2.0 / (more.smoothness + 0.1))
    curved = replace(plain, stretch=7.0)
    assert more.rounding(3.0) > curved.rounding(3.0) > plain.rounding(3.0)
    assert more.update_rounding(3.0, 1.0) > plain.update_rounding(3.0, 1.0)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_row_more_or_less_asks_for_half_the_linear_term(loss):
    problem = problem_for(loss, np.ones((4000, 3)))
    replaced = SOLVER.procedure(perturbed(problem, None), 1.0)
    added = SOLVER.procedure(perturbed(replace(problem, relation=Relation.ADD_REMOVE), None), 1.0)
    assert added.spread == pytest.approx(0.5 * replaced.spread, rel=1e-6)
    assert added.l2 == pytest.approx(replaced.l2, rel=1e-12)


def test_what_it_cannot_serve_is_refused():
    loss = ConcomitantHuber(1.345)
    problem = replace(problem_for(loss, np.ones((400, 3))), start=(0.0, 0.0, 0.0, 1.0))
    with pytest.raises(Incompatible, match="auto"):
        make_plan(problem, SOLVER, Allowance.of(PURE), inference=False)


def test_a_pure_fit_of_a_file_is_that_of_the_table(tmp_path):
    rng = np.random.default_rng(8)
    table = pd.DataFrame({"x": rng.uniform(-1, 1, 3000), "g": rng.choice(["a", "b", "c"], 3000)})
    table["y"] = np.where(rng.random(3000) < 1 / (1 + np.exp(-table["x"])), "yes", "no")
    table.to_parquet(tmp_path / "rows.parquet")
    schema = pf.Schema(
        {
            "x": {"type": "numeric", "lower": -1, "upper": 1},
            "g": {"type": "categorical", "levels": ["a", "b", "c"]},
            "y": {"type": "categorical", "levels": ["no", "yes"]},
        }
    )
    options = {"schema": schema, "epsilon": 2.0, "delta": 0.0, "random_state": 4}
    there = pf.logit("y ~ x + g", pf.RowCache(tmp_path / "rows.parquet", storage="float64"), **options)
    here = pf.logit("y ~ x + g", table, **options)
    np.testing.assert_allclose(there.params, here.params, rtol=1e-6)
    assert here.privacy.epsilon == 2.0
    assert "whitened objective perturbation" in here.summary().as_text()


def test_with_few_positives_the_way_from_the_perturbed_minimiser_is_gone_to_its_end():
    """40 fits at epsilon = 1, two positives in a hundred, in standard errors from the fit without privacy.

    The mean's standard deviation is 0.16. A ridge that one Newton step by the curvature where it led did not
    undo left the intercept more than 0.9 off, and the slope as much the other way.
    """
    rng = np.random.default_rng(8)
    x = rng.normal(size=50_000).clip(-5.0, 5.0)
    y = (rng.random(50_000) < 1.0 / (1.0 + np.exp(4.5 - x))).astype(int)
    schema = {
        "x": {"type": "numeric", "lower": -5.0, "upper": 5.0},
        "y": {"type": "categorical", "levels": [0, 1]},
    }
    data = pd.DataFrame({"x": x, "y": y})
    exact = pf.logit("y ~ x", data, schema=schema, solver="non-private")
    off = []
    for seed in range(40):
        fit = pf.logit("y ~ x", data, schema=schema, budget=Budget(1.0), random_state=seed)
        off.append((fit.params - exact.params) / fit.bse)
    assert np.all(np.abs(np.mean(off, axis=0)) < 0.6)


def test_intervals_of_rare_events_are_as_long_as_those_of_the_exact_fit(monkeypatch):
    """Bread is asked on the way from a point that the method's ridge may draw to even odds, where a logit of
    few positives has more curvature: intervals were too short, whatever the budget."""
    monkeypatch.setattr(MeanResponse, "constant", lambda _: np.zeros(1))
    n, rng = 50_000, np.random.default_rng(3)
    x = np.column_stack([np.ones(n), 0.2 * rng.normal(size=n).clip(-5.0, 5.0), rng.random(n) < 0.4])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(4.5 - x @ [0.0, 5.0, -0.5]))).astype(float)
    problem = replace(
        problem_for(Logistic(), x, norm_bound=math.sqrt(3.0)), bounded=True, indicators=(True, False, True)
    )
    solution, oracle = solved(problem, x, y, budget=Budget(1e4), inference=True)
    private = infer(solution, oracle, directions=np.eye(3))
    unmoved, oracle = solved(problem, x, y, budget=Budget(1e4), inference=True)
    before = infer(replace(unmoved, model=None), oracle, directions=np.eye(3))
    plain = np.sqrt(np.diag(exact(problem, x, y).cov_sampling))
    assert np.sqrt(np.diag(before.cov_sampling))[0] < 0.96 * plain[0]
    np.testing.assert_allclose(np.sqrt(np.diag(private.cov_sampling)), plain, rtol=0.035)


@pytest.mark.parametrize("loss", [Huber(0.8), Squared(2.0)], ids=lambda loss: loss.name)
def test_residuals_say_nothing_of_how_a_hessian_changes(loss):
    problem, x, y = uneven(500, 0, loss)
    assert solved(problem, x, y)[0].model is None


@lru_cache
def rare_events(n):
    """Return rows with four columns, labels of a rare event and the plain fit of them."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(n, 4)).clip(-5.0, 5.0)
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(4.5 - x @ [1.0, 0.5, 0.0, -0.5]))).astype(int)
    return x, y, pf.LogisticRegression(solver="non-private").fit(x, y).result_.params


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_many_rows_of_rare_events_have_an_interval_that_holds_or_none(epsilon):
    """The ridge that rounding asks for draws the minimiser far, whatever the number of rows: intercepts were
    several standard errors off the exact fit."""
    x, y, plain = rare_events(500_000)
    for seed in range(2):
        budget = Budget(epsilon)
        private = pf.LogisticRegression(budget=budget, random_state=seed).fit(x, y).result_
        assert (np.abs(private.params - plain) <= 2.5 * private.bse).all()


def pure_plan(problem, epsilon, inference):
    """Return what the solver plans for all of epsilon."""
    plan = plan_once(problem, SOLVER, Allowance(epsilon, pure=True), inference=inference)
    assert compose(plan.events).within(Budget(epsilon))
    assert not compose(plan.events).within(Budget(0.98 * epsilon))
    return plan.solver_releases


@pytest.mark.parametrize("inference", [False, True])
def test_a_look_at_labels_is_planned_where_a_fiftieth_of_epsilon_tells_anything(inference):
    """From ``n epsilon`` of 1,000 on, for the solver's epsilon."""
    problem = problem_for(Logistic(), np.ones((20_000, 3)))

    of_solver = sum(release.epsilon for release in pure_plan(problem, 1e-3, inference)) / 1e-3
    for factor, looks in ((0.99, []), (1.01, ["labels"]), (100.0, ["labels"])):
        releases = pure_plan(problem, factor * 1000.0 / 20_000 / of_solver, inference)
        assert [release.kind for release in releases] == ["second_moment", *looks, "perturbed_minimiser"]
        if looks:
            spent = sum(release.epsilon for release in releases)
            assert releases[1].epsilon == pytest.approx(
                0.02 / (math.sqrt(0.05) + math.sqrt(0.95) + 0.02) * spent, rel=1e-6
            )


def test_rows_are_weighted_down_the_sooner_the_rarer_a_label_is():
    """By the generosity of the bounds that a look shows: what noise in the bread allows is as much less."""
    x, _ = rows(Logistic(), 20_000, np.random.default_rng(1))
    problem = replace(problem_for(Logistic(), x, norm_bound=10.0), bounded=True)
    lengths = []
    for share in (0.5, 0.05):
        y = (np.arange(20_000) < share * 20_000).astype(float)
        found, _ = solved(problem, x, y, budget=Budget(0.5), seed=2)
        even = np.sqrt(np.diag(found.problem.basis.T @ (x.T @ x / 20_000) @ found.problem.basis))
        lengths.append(norm_limit(found.problem) / np.median(even))
    assert lengths[1] < 0.8 * lengths[0]


COUNT = Poisson(math.log(50.0), 50)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(
    ("loss", "least", "kinds"),
    [
        (COUNT, 310.0, ["counts"]),
        (Squared(50.0, adapts=True), 1150.0, ["residuals"] * 3),
        (SmoothedQuantile(0.75, 5.0, least=0.005), 1150.0, ["residuals"] * 3),
        (Squared(50.0), 1150.0, []),
        (SmoothedQuantile(0.75, 5.0), 1150.0, []),
        (Huber(0.8), 310.0, []),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_looks_at_the_response_are_planned_where_a_small_part_of_epsilon_shows_enough(
    loss, least, kinds, inference
):
    """They are shown enough by ``least / (n epsilon)`` of the solver's epsilon, if that is 0.2 at most."""
    problem = replace(problem_for(loss, np.ones((200_000, 3))), response_bound=50.0)

    of_solver = sum(release.epsilon for release in pure_plan(problem, 1e-3, inference)) / 1e-3
    edge = least / 0.2 / 200_000 / of_solver
    little, enough, much = (pure_plan(problem, factor * edge, inference) for factor in (0.99, 1.01, 100.0))
    one = ["residuals"] if isinstance(loss, Squared) and kinds else []  # whether responses are at the ends
    assert [release.kind for release in little] == ["second_moment", *one, "perturbed_minimiser"]
    for releases, part in ((enough, 0.2 / 1.01), (much, 0.06)):
        assert [release.kind for release in releases] == ["second_moment", *kinds, "perturbed_minimiser"]
        looks = [release.epsilon for release in releases[1:-1]]
        whole = math.sqrt(0.05) + math.sqrt(0.95) + (part if kinds else 0.0)
        spent = sum(release.epsilon for release in releases)
        assert sum(looks) == pytest.approx(part / whole * spent if kinds else 0.0, rel=1e-6)
        if len(kinds) == 3:
            np.testing.assert_allclose(looks, np.array([0.15, 0.15, 0.7]) * sum(looks), rtol=1e-6)


def generous(name, seed, n=100_000):
    """Return a table and its schema, whose range of the response is far wider than it is."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, n)
    eta = 0.3 + 0.5 * x
    y = {
        "normal": lambda: 30.0 + eta + rng.normal(size=n),
        "skewed": lambda: 30.0 + eta + rng.exponential(size=n),
        "labels": lambda: (rng.random(n) < 0.1).astype(float),
        "amounts": lambda: np.where(rng.random(n) < 0.1, 60.0 * rng.random(n), 0.0),
        "counts": lambda: np.minimum(rng.poisson(np.exp(eta)), 60).astype(float),
    }[name]()
    low = 0 if name == "counts" else -100
    bounds = {"x": (-1, 1), "y": (low, 100)}
    schema = {name: {"type": "numeric", "lower": low, "upper": high} for name, (low, high) in bounds.items()}
    return {"x": x, "y": y}, schema


@pytest.mark.parametrize("name", ["normal", "skewed", "counts"])
def test_generous_ranges_of_the_response_cost_little_under_pure_budgets(name):
    """Standard errors were several times those without privacy; estimates are within six of them."""
    table, schema = generous(name, 1)
    model = pf.poisson if name == "counts" else pf.ols
    private = model("y ~ x", table, schema=schema, epsilon=2.0, delta=0.0, random_state=3)
    plain = model("y ~ x", table, schema=schema, solver="non-private")
    assert private.privacy.epsilon == 2.0
    assert (private.bse < 2.0 * plain.bse).all()
    assert (np.abs(private.params - plain.params) < 6.0 * private.bse).all()


@pytest.mark.parametrize("name", ["labels", "amounts"])
def test_responses_that_are_mostly_one_number_are_not_cut_under_pure_budgets(name):
    table, schema = generous(name, 2)
    private = pf.ols("y ~ x", table, schema=schema, epsilon=20.0, delta=0.0, random_state=3)
    plain = pf.ols("y ~ x", table, schema=schema, solver="non-private")
    assert (np.abs(private.params - plain.params) < 6.0 * private.bse).all()
    assert private.params["Intercept"] > 0.5 * plain.params["Intercept"]


@pytest.mark.parametrize(("n", "epsilon"), [(1_000, 1.0), (4_000, 1.0), (40_000, 2.0)])
@pytest.mark.parametrize("chance", [0.1, 0.5])
def test_responses_of_0_and_1_are_not_cut_under_pure_budgets(chance, n, epsilon):
    """Residuals of more than half the range were: intercepts were up to twenty standard errors off."""
    rng = np.random.default_rng(n)
    x = rng.uniform(-1.0, 1.0, n)
    table = {"x": x, "y": (rng.random(n) < chance * (1.0 + 0.3 * x)).astype(float)}
    schema = {
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "y": {"type": "numeric", "lower": 0, "upper": 1},
    }
    private = pf.ols("y ~ x", table, schema=schema, epsilon=epsilon, delta=0.0, random_state=3)
    plain = pf.ols("y ~ x", table, schema=schema, solver="non-private")
    assert np.isfinite(private.bse).all()
    assert (np.abs(private.params - plain.params) < 5.0 * private.bse).all()


@pytest.mark.parametrize("half", [4.0, 50.0])
@pytest.mark.parametrize(
    ("tau", "n", "most"),
    [(0.25, 40_000, 2.0), (0.9, 40_000, 3.0), (0.9, 2_000, math.inf), (0.05, 6_000, 4.0)],
)
def test_quantiles_under_pure_budgets_are_not_those_of_a_wide_smoothing(tau, n, most, half):
    """Smoothed by 5 % of a generous range, intercepts were dozens of small standard errors off."""
    rng = np.random.default_rng(n)
    x = rng.uniform(-1.0, 1.0, n)
    y = (0.5 * x + rng.normal(size=n)).clip(-half, half)
    table = {"x": x, "y": y}
    schema = {
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "y": {"type": "numeric", "lower": -half, "upper": half},
    }
    private = pf.quantile("y ~ x", table, schema=schema, quantile=tau, epsilon=2.0, delta=0.0, random_state=3)
    truth = np.array([stats.norm.ppf(tau), 0.5])
    assert (np.abs(private.params - truth) < 5.0 * private.bse).all()
    plain = np.sqrt(tau * (1.0 - tau) / n / np.array([1.0, 1.0 / 3.0])) / stats.norm.pdf(truth[0])
    assert (private.bse < most * plain).all()


def test_the_ridge_of_a_quantile_pulls_to_the_quantile_that_looks_show():
    """It is far from the middle of the range: pulled there, one Newton step did not arrive."""
    table, schema = generous("normal", 5)
    private = pf.quantile("y ~ x", table, schema=schema, epsilon=4.0, delta=0.0, random_state=3)
    assert (private.bse < 0.02).all()
    assert np.abs(private.params["Intercept"] - 30.3) < 5.0 * private.bse["Intercept"]


@pytest.mark.parametrize(
    "loss",
    [Logistic(), SmoothedQuantile(0.5, 1.0, least=0.01), Squared(2.0, adapts=True)],
    ids=lambda loss: loss.name,
)
@pytest.mark.parametrize("constant", [True, False])
def test_the_ridge_pulls_to_a_constant_where_there_is_one(monkeypatch, loss, constant):
    """Without a constant the first column's coefficient would be drawn to the middle of the response."""
    rng, n, asked, carry_out = np.random.default_rng(2), 50_000, [], Oracle.carry_out
    x = np.column_stack([np.ones(n), rng.uniform(-1.0, 1.0, n)])
    y = (rng.random(n) < 0.1).astype(float) if loss.target_kind == "binary" else rng.normal(0.7, 0.1, n)
    problem = problem_for(loss, x)
    problem = problem if constant else replace(problem, penalised=(True, True))

    def watched(oracle, procedure, at):
        asked.append((procedure.center, oracle.problem.basis))
        return carry_out(oracle, procedure, at)

    monkeypatch.setattr(Oracle, "carry_out", watched)
    solved(problem, x, y, budget=Budget(10.0))
    ((center, basis),) = asked
    middle = (math.log(0.1 / 0.9) if loss.target_kind == "binary" else 0.7) if constant else 0.0
    np.testing.assert_allclose(np.array(basis) @ center, [middle, 0.0], atol=0.05 if constant else 0.0)


@pytest.mark.parametrize(("model", "constant"), [("logit", -6.5), ("logit", 6.5), ("poisson", 6.0)])
def test_a_constant_far_from_0_is_within_the_ball(model, constant):
    """At its sphere a minimiser is none: the gradient there is not the linear term's, and it took minutes."""
    rng, n = np.random.default_rng(4), 60_000
    x = rng.uniform(-1.0, 1.0, n)
    mean = np.exp(constant + 0.3 * x)
    y = rng.poisson(mean) if model == "poisson" else (rng.random(n) < mean / (1.0 + mean)).astype(int)
    number = {"type": "numeric", "lower": -1.0, "upper": 1.0}
    label = {"type": "categorical", "levels": [0, 1]}
    schema = {
        "x": number,
        "y": {"type": "numeric", "lower": 0, "upper": 1000} if model == "poisson" else label,
    }
    fit = getattr(pf, model)
    private = fit("y ~ x", pd.DataFrame({"x": x, "y": y}), schema=schema, budget=Budget(20.0), random_state=2)
    assert np.isfinite(private.bse).all()
    assert (np.abs(private.params - [constant, 0.3]) < 4.5 * private.bse).all()
    assert private.bse["Intercept"] < 0.2
