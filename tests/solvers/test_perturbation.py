"""Output and objective perturbation as solvers: plans, noise, limits, utility, refusals."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.inference.infer import infer
from privfit.losses import ConcomitantHuber, Huber, Logistic
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.curves import gdp_delta, gdp_mu
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.pure_mechanisms import radial_vector
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.problem.rows import Rows
from privfit.procedures.landscape import Landscape, Objective, fully_penalised
from privfit.procedures.minimise import CertifiedMinimiser, GradientDescent
from privfit.solvers import NonPrivate, ObjectivePerturbation, OutputPerturbation, resolve

from .simulated import inferred, plan_once, problem_for, rows

PURE, APPROXIMATE, GDP = Budget(1.0, 0.0), Budget(1.0, 1e-5), Budget.gdp(0.4)
SOLVERS = [
    (OutputPerturbation(), 0.0),
    (OutputPerturbation(), 0.05),
    (OutputPerturbation(GradientDescent(n_steps=30, radius=3.0)), 0.0),
    (OutputPerturbation(CertifiedMinimiser()), 0.05),
    (ObjectivePerturbation(), 0.0),
    (ObjectivePerturbation(), 0.05),
]


def plan_of(problem, solver, budget, *, inference=False):
    return plan_once(problem, solver, Allowance.of(budget), inference=inference)


def solved(problem, solver, x, y, budget, seed, *, inference=False):  # noqa: PLR0917
    plan = plan_of(problem, solver, budget, inference=inference)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), make_source(seed))
    return solver.run(problem, oracle), oracle


def exact_minimum(problem, x, y):
    plan = make_plan(problem, NonPrivate(), Allowance.unlimited(), inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), NoNoise())
    return NonPrivate().run(problem, oracle).theta


def value(problem, x, y, theta):
    norm = np.linalg.norm(x, axis=1)
    weight = np.minimum(1.0, (problem.norm_bound / norm) ** 2)
    losses = np.array(
        [
            problem.loss.functions.value(b, a, 1.0, *problem.loss.parameters)
            for a, b in zip(x @ theta, y, strict=True)
        ]
    )
    return float(weight @ losses / len(y) + 0.5 * theta @ problem.ridge @ theta)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("budget", [PURE, APPROXIMATE, GDP], ids=lambda b: b.notion)
@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(("solver", "l2"), SOLVERS, ids=str)
def test_plans_are_within_the_budget_and_every_combination_runs(solver, l2, loss, budget, inference):
    x, y = rows(loss, 600, np.random.default_rng(4))
    problem = problem_for(loss, x, l2=l2)
    if isinstance(solver, ObjectivePerturbation) and budget is GDP:
        with pytest.raises(Incompatible, match="OutputPerturbation"):
            plan_of(problem, solver, budget, inference=inference)
        return
    plan = plan_of(problem, solver, budget, inference=inference)
    assert compose(plan.events).within(budget)
    assert len(plan.solver_releases) == 1
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=True))) == plan
    solution, oracle = solved(problem, solver, x, y, budget, 1, inference=inference)
    assert np.isfinite(solution.theta).all()
    if inference:
        found = infer(solution, oracle, directions=np.eye(3))
        assert (np.diag(found.cov_noise) > 0).all()


@pytest.mark.parametrize("budget", [PURE, APPROXIMATE], ids=lambda b: b.notion)
def test_the_whole_budget_is_used(budget):
    problem = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0])
    for solver in (OutputPerturbation(), ObjectivePerturbation()):
        events = plan_of(problem, solver, budget).events
        smaller = Budget(0.99 * budget.epsilon, 0.0 if budget is PURE else 0.99 * budget.delta)
        assert not compose(events).within(smaller)


def test_the_page_says_what_inference_leaves_of_the_budget():
    problem = problem_for(Logistic(), np.ones((600, 2)))
    plan = plan_of(problem, ObjectivePerturbation(), APPROXIMATE, inference=True)
    (release,) = plan.solver_releases
    page = Path(__file__).parents[2] / "docs" / "solvers" / "perturbation.md"
    assert release.delta == APPROXIMATE.delta / 2
    assert f"({release.epsilon:.2f} of 1.0 at δ = 10⁻⁵)" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize("minimiser", [GradientDescent(n_steps=8), CertifiedMinimiser()], ids=repr)
@pytest.mark.statistical
def test_output_noise_has_the_planned_law(minimiser, pure):
    """KS on the norm of the noise, 500 draws: 1e-7 false alarms; 30 % too little or too much is rejected."""
    solver = OutputPerturbation(minimiser)
    x, y = rows(Logistic(), 100, np.random.default_rng(5))
    problem = problem_for(Logistic(), x, l2=0.1)
    budget = PURE if pure else APPROXIMATE
    plan = plan_of(problem, solver, budget)
    planned = plan.releases[0]
    settled = solver.settled_minimiser(problem, planned)
    ridged = fully_penalised(problem)
    exact = settled.minimise(
        Landscape.of(ridged), Objective(ridged, Rows(ridged, ArraySource(x, y, norm_bound=1.6)))
    )
    norms = np.array(
        [np.linalg.norm(solved(problem, solver, x, y, budget, seed)[0].theta - exact) for seed in range(500)]
    )
    if pure:
        law = stats.gamma(3, scale=planned.sensitivity / budget.epsilon)
    else:
        law = stats.chi(3, scale=planned.sensitivity / gdp_mu(1.0, 1e-5))
    assert stats.kstest(norms, law.cdf).pvalue > 1e-7
    assert stats.kstest(1.3 * norms, law.cdf).pvalue < 1e-7
    assert stats.kstest(norms / 1.3, law.cdf).pvalue < 1e-7


def test_independent_laplace_noise_of_the_same_scale_would_not_be_private():
    """A diagonal shift changes its density by exp(sqrt(d) epsilon), that of ours by exp(epsilon)."""
    size, epsilon, sensitivity = 9, 1.0, 1.0
    shift = np.full(size, sensitivity / math.sqrt(size))
    laplace = (np.abs(shift + 5).sum() - np.full(size, 5.0).sum()) * epsilon / sensitivity
    assert laplace == pytest.approx(math.sqrt(size) * epsilon)
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2000, size)) * 10 ** rng.uniform(-3, 3, size=(2000, 1))
    radial = (np.linalg.norm(points + shift, axis=1) - np.linalg.norm(points, axis=1)) * epsilon / sensitivity
    assert np.abs(radial).max() <= epsilon * (1 + 1e-12)
    assert np.abs(radial).max() > 0.5 * epsilon
    with pytest.raises(PlanViolation):
        radial_vector(
            np.zeros(size), sensitivity=sensitivity, epsilon=epsilon, scale=0.99, source=make_source(0)
        )


def test_published_constants_cost_more_noise_and_are_refused_where_false():
    """4.94 against 3.73 at epsilon 1; sqrt(2 ln(2/delta)) / epsilon fails beyond 9.4."""
    problem = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0], l2=0.1)
    source, derived = OutputPerturbation(constants="source"), OutputPerturbation()
    classical = math.sqrt(2 * math.log(2 / 1e-5))
    assert classical == pytest.approx(4.94, abs=0.005)
    assert 1 / gdp_mu(1.0, 1e-5) == pytest.approx(3.73, abs=0.005)
    assert gdp_delta(9.0 / classical, 9.0) <= 1e-5 < gdp_delta(9.8 / classical, 9.8)
    published = plan_of(problem, source, APPROXIMATE).releases[0]
    ours = plan_of(problem, derived, APPROXIMATE).releases[0]
    assert published.sd == pytest.approx(classical * published.sensitivity, rel=1e-9)
    slope, curvature = 1.6, 0.25 * 1.6**2
    beta = curvature + 0.1
    assert published.sensitivity == pytest.approx(5 * slope * (0.1 + beta) / (600 * 0.1 * beta), rel=1e-9)
    assert published.sd > 2.5 * ours.sd
    assert compose(plan_of(problem, source, Budget(8.0, 1e-5)).events).within(Budget(8.0, 1e-5))
    for refused in (Budget(9.8, 1e-5), GDP):
        with pytest.raises(Incompatible, match="constants='source'"):
            plan_of(problem, source, refused)
    with pytest.raises(Incompatible, match="inference=False"):
        plan_of(problem, source, APPROXIMATE, inference=True)
    convex = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0])
    settled = source.settled_minimiser(convex, plan_of(convex, source, PURE).releases[0])
    assert plan_of(convex, source, PURE).releases[0].sensitivity == pytest.approx(
        3 * slope * settled.n_steps * settled.step_size / 600, rel=1e-9
    )
    for one, times in ((convex, 1.5), (problem, 2.5 * (1 + 0.1 / beta))):
        same = GradientDescent(2000, 1 / (beta + 0.1))
        plans = [plan_of(one, OutputPerturbation(same, constants=c), PURE) for c in ("source", "derived")]
        assert plans[0].releases[0].sd == pytest.approx(times * plans[1].releases[0].sd, rel=1e-6)
    with pytest.raises(InvalidArgument, match="step_size"):
        plan_of(problem, OutputPerturbation(GradientDescent(step_size=1.8), constants="source"), PURE)


def test_the_slope_outside_a_ball_is_no_issue():
    """A ridge is not Lipschitz; only the data part's slope enters, and regularisers cancel."""
    problem = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0], l2=10.0)
    release = plan_of(problem, OutputPerturbation(), PURE).releases[0]
    assert release.sensitivity <= 2 * 1.6 / (600 * 10.0) * (1 + 1e-6)


@pytest.mark.parametrize("budget", [PURE, APPROXIMATE], ids=lambda b: b.notion)
@pytest.mark.parametrize(("solver", "l2"), SOLVERS[:4], ids=str)
@pytest.mark.statistical
def test_the_utility_bound_holds(solver, l2, budget):
    """Mean excess of 30 fits plus 6 standard errors: 1e-8 false alarms; at least 1 % of the bound is real."""
    x, y = rows(Logistic(), 2000, np.random.default_rng(8))
    problem = problem_for(Logistic(), x, l2=l2)
    ridged = fully_penalised(problem)
    best = value(ridged, x, y, exact_minimum(ridged, x, y))
    excess = np.array(
        [
            value(ridged, x, y, solved(problem, solver, x, y, budget, seed)[0].theta) - best
            for seed in range(30)
        ]
    )
    bound = solver.utility_bound(problem, Allowance.of(budget))
    assert excess.min() >= -1e-12
    assert excess.mean() + 6 * excess.std() / math.sqrt(30) <= bound
    assert excess.mean() >= 0.01 * bound


def bound_at(n, p, l2, budget, distance=1.0):
    names = tuple(f"x{k}" for k in range(p))
    problem = Problem(Logistic(), names, 1.0, n, Relation.REPLACE, l2, (0.0,) * p, (True,) * p)
    return OutputPerturbation(distance=distance).utility_bound(problem, Allowance.of(budget))


def test_the_bound_has_the_slopes_of_theory():
    """n^-2 with a ridge, n^-2/3 without; d^2 and d^(2*2/3) for pure, d and d^(2/3) for Gaussian noise."""

    def slope(one, other, factor):
        return math.log(other / one) / math.log(factor)

    n = 10**5
    for budget, power in ((PURE, 2.0), (Budget(1.0, 1e-6), 1.0)):
        ridge, none = bound_at(n, 20, 0.1, budget), bound_at(n, 20, 0.0, budget)
        assert slope(ridge, bound_at(10 * n, 20, 0.1, budget), 10) == pytest.approx(-2.0, abs=0.02)
        assert slope(none, bound_at(10 * n, 20, 0.0, budget), 10) == pytest.approx(-2 / 3, abs=0.02)
        assert slope(ridge, bound_at(n, 80, 0.1, budget), 4) == pytest.approx(power, abs=0.06)
        assert slope(none, bound_at(n, 80, 0.0, budget), 4) == pytest.approx(power / 3, abs=0.06)


@pytest.mark.statistical
def test_the_excess_falls_with_the_square_of_the_rows():
    """40 fits a size: the log-log slope from 1000 to 16 000 rows is -2 within 0.35, 6 standard errors."""
    means = []
    for n in (1000, 16000):
        x, y = rows(Logistic(), n, np.random.default_rng(n))
        problem = problem_for(Logistic(), x, l2=0.1)
        ridged = fully_penalised(problem)
        center = exact_minimum(ridged, x, y)
        runs = [solved(problem, OutputPerturbation(), x, y, PURE, seed)[0].theta for seed in range(40)]
        means.append(np.mean([np.sum((run - center) ** 2) for run in runs]))
    assert math.log(means[1] / means[0]) / math.log(16) == pytest.approx(-2.0, abs=0.35)


@pytest.mark.parametrize(
    "solver", [ObjectivePerturbation(), OutputPerturbation(CertifiedMinimiser())], ids=repr
)
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8)], ids=lambda loss: loss.name)
def test_a_huge_budget_gives_the_ridge_fit(solver, loss):
    x, y = rows(loss, 1500, np.random.default_rng(3))
    problem = problem_for(loss, x, l2=1e-3)
    theta = solved(problem, solver, x, y, Budget(1e6, 0.0), 2)[0].theta
    np.testing.assert_allclose(theta, exact_minimum(fully_penalised(problem), x, y), atol=1e-4)


@pytest.mark.parametrize(
    "solver", [ObjectivePerturbation(), OutputPerturbation(GradientDescent(5000))], ids=repr
)
def test_without_noise_the_ridge_fit_is_found(solver):
    x, y = rows(Logistic(), 500, np.random.default_rng(3))
    problem = problem_for(Logistic(), x, l2=0.01)
    plan = make_plan(problem, solver, Allowance.unlimited(), inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=1.6), NoNoise())
    found = solver.run(problem, oracle).theta
    np.testing.assert_allclose(found, exact_minimum(fully_penalised(problem), x, y), atol=1e-8)


@pytest.mark.parametrize("budget", [PURE, APPROXIMATE], ids=lambda b: b.notion)
@pytest.mark.statistical
def test_the_linear_term_has_the_planned_law(budget):
    """At the outcome the gradient is -b, but for the small noise; KS on its norm, 300 draws, 1e-7."""
    x, y = rows(Logistic(), 400, np.random.default_rng(6))
    problem = problem_for(Logistic(), x, l2=0.05)
    solver = ObjectivePerturbation()
    procedure = solver.procedure_of(problem, plan_of(problem, solver, budget).releases[0])
    ridged = fully_penalised(problem, procedure.l2)
    weight = np.minimum(1.0, 1.6**2 / np.sum(x * x, axis=1))
    norms = []
    for seed in range(300):
        theta = solved(problem, solver, x, y, budget, seed)[0].theta
        slope = 1 / (1 + np.exp(-x @ theta)) - y
        norms.append(np.linalg.norm((weight * slope) @ x / 400 + ridged.l2 * theta))
    law = stats.gamma(3, scale=procedure.spread) if budget is PURE else stats.chi(3, scale=procedure.spread)
    assert stats.kstest(norms, law.cdf).pvalue > 1e-7
    for factor in (1.5, 1 / 1.5):
        assert stats.kstest(factor * np.array(norms), law.cdf).pvalue < 1e-7


def test_the_noise_on_the_outcome_is_far_below_that_of_the_linear_term():
    for n in (10**3, 10**5, 10**6):
        names = tuple(f"x{k}" for k in range(20))
        problem = Problem(Logistic(), names, 4.5, n, Relation.REPLACE, 0.0, (0.0,) * 20, (True,) * 20)
        solver = ObjectivePerturbation()
        procedure = solver.procedure_of(problem, plan_of(problem, solver, APPROXIMATE).releases[0])
        outcome = procedure.output_scale(problem) * math.sqrt(21)
        curvature = 0.25 / 3  # of a logit with columns spread evenly over [-1, 1]
        assert outcome < 0.1 * procedure.spread / curvature


def test_the_intercept_is_an_ordinary_coefficient():
    """Perturbed and penalised like the others, and not left out of the noise as in diffprivlib 0.6."""
    x, y = rows(Logistic(), 400, np.random.default_rng(6))
    problem = problem_for(Logistic(), x, l2=0.05)
    fits = np.array([solved(problem, ObjectivePerturbation(), x, y, PURE, s)[0].theta for s in range(60)])
    spread = fits.std(axis=0)
    assert 0.4 < spread[0] / spread[1:].mean() < 2.5
    heavy = problem_for(Logistic(), x, l2=1e3)
    theta = solved(heavy, ObjectivePerturbation(), x, y, Budget(1e3, 0.0), 0)[0].theta
    assert np.abs(theta).max() < 1e-2


def test_the_ridge_is_raised_to_what_the_guarantee_needs_and_no_further():
    problem = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0])
    solver = ObjectivePerturbation()
    releases = plan_of(problem, solver, PURE).solver_releases
    raised = solver.procedure_of(problem, releases[0])
    assert raised.l2 == pytest.approx(0.25 * 1.6**2 / (600 * math.expm1(0.15 * 0.98)), rel=1e-6)
    strong = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0], l2=0.3)
    assert solver.procedure_of(strong, releases[0]).l2 == 0.3


def test_published_objective_perturbation_needs_more_noise():
    problem = problem_for(Logistic(), rows(Logistic(), 600, np.random.default_rng(4))[0], l2=0.01)
    source, derived = ObjectivePerturbation(constants="source"), ObjectivePerturbation()
    for budget in (PURE, APPROXIMATE, Budget(0.1, 1e-6), Budget(0.1, 0.0)):
        plans = [plan_of(problem, solver, budget) for solver in (source, derived)]
        assert all(compose(plan.events).within(budget) for plan in plans)
        spreads = [
            s.procedure_of(problem, plan.releases[0]).spread
            for s, plan in zip((source, derived), plans, strict=True)
        ]
        assert spreads[0] > spreads[1]
    epsilon, ridge = 0.98, 0.01
    published = source.procedure_of(problem, plan_of(problem, source, PURE).releases[0])
    quotient = 0.25 * 1.6**2 / (600 * ridge)
    left = epsilon - math.log1p(2 * quotient + quotient**2)
    assert published.spread == pytest.approx(2 * 1.6 / 600 / left, rel=1e-5)


@pytest.mark.statistical
def test_intervals_around_a_point_hold_the_truth():
    """One-step estimates from a released point: all 5-sigma intervals of 20 fits hold the non-private fit."""
    x, y = rows(Logistic(), 4000, np.random.default_rng(9))
    problem = problem_for(Logistic(), x, l2=1e-3)
    for solver in (OutputPerturbation(), ObjectivePerturbation()):
        budget = Budget(4.0, 1e-6)
        plan = plan_of(problem, solver, budget, inference=True)
        assert solver.final_problem(problem, plan.solver_releases) is problem
        center = inferred(problem, NonPrivate(), x, y, mu=math.inf).theta
        for seed in range(20):
            solution, oracle = solved(problem, solver, x, y, budget, seed, inference=True)
            found = infer(solution, oracle, directions=np.eye(3))
            assert (np.abs(found.theta - center) < 5 * np.sqrt(np.diag(found.cov_noise))).all()


@pytest.mark.parametrize("solver", [OutputPerturbation(), ObjectivePerturbation()], ids=repr)
def test_what_a_solver_cannot_serve_is_refused_in_words(solver):
    x = rows(Logistic(), 300, np.random.default_rng(4))[0]
    with pytest.raises(Incompatible, match="residual scale"):
        plan_of(problem_for(ConcomitantHuber(), x), solver, PURE)
    names = tuple(f"x{k}" for k in range(3))
    added = Problem(Logistic(), names, 1.6, 300, Relation.ADD_REMOVE, 0.1, (0.0,) * 3, (True,) * 3)
    if isinstance(solver, ObjectivePerturbation):
        assert plan_of(added, solver, PURE).relation == "add_remove"
    else:
        with pytest.raises(Incompatible, match="relation='replace'"):
            plan_of(added, solver, PURE)


def test_arguments_are_checked():
    for arguments in ({"minimiser": 3}, {"distance": -1.0}, {"distance": 1e300}, {"constants": "none"}):
        with pytest.raises(InvalidArgument):
            OutputPerturbation(**arguments)
    with pytest.raises(InvalidArgument, match="source"):
        OutputPerturbation(CertifiedMinimiser(), constants="source")
    for arguments in ({"curvature_share": 1.0}, {"output_share": 0.0}, {"radius": 0.0}, {"constants": ""}):
        with pytest.raises(InvalidArgument):
            ObjectivePerturbation(**arguments)
    for name in ("output-perturbation", "objective-perturbation"):
        assert resolve(name, inference=True).releases_a_point
