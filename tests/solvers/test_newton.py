"""Noisy Newton: its damping rules, private backtracking, and the source's budgeting."""

import dataclasses
import math

import numpy as np
import pytest

from privfit import Budget
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, InvalidArgument
from privfit.losses import ConcomitantHuber, Huber, Logistic, Squared
from privfit.losses.base import evaluate
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoNoise, gaussian_mu, make_source
from privfit.privacy.relation import Relation
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, Release
from privfit.problem.schedule import planned_release
from privfit.solvers import (
    Backtracking,
    ConstantStep,
    FixedDamping,
    NoisyNewton,
    NonPrivate,
    RidgeTwoStep,
    SelfConcordantDamping,
)
from privfit.solvers.damping import Move, Proposal, default_damping, in_basin, trust
from privfit.solvers.self_concordance import along_rows, second_kind, self_concordance

from .simulated import inferred, plan_once, problem_for, rows

RULES = [FixedDamping(0.3), SelfConcordantDamping(), RidgeTwoStep(), Backtracking(), ConstantStep(0.5)]


class NoTests:
    """An oracle without planned tests."""

    @staticmethod
    def remaining(kind):
        return 0


class Answers:
    """An oracle whose tests give fixed slopes; it keeps where they were asked."""

    def __init__(self, *slopes):
        self.slopes, self.asked = list(slopes), []

    def remaining(self, kind):
        return len(self.slopes) if kind == "secant" else 0

    def release(self, kind, at):
        self.asked.append(at)
        return Release(None, at, np.array([self.slopes.pop(0)]))


def proposal(loss=None, *, gradient, theta=None, matrix=None, l2=0.0, n=100):
    problem = problem_for(loss or Logistic(), np.ones((n, 3)), l2=l2)
    start = np.zeros(problem.size) if theta is None else theta
    square = np.eye(problem.size) if matrix is None else matrix
    return Proposal(problem, start, np.asarray(gradient, dtype=float), square, 1e-6)


def newton_run(problem, solver, x, y, *, mu, seed=0):
    plan = plan_once(problem, solver, Allowance.gaussian(mu), inference=False)
    noise = make_source(seed) if np.isfinite(mu) else NoNoise()
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), noise)
    return solver.run(problem, oracle), oracle


def risk_of(problem, x, y, theta):
    weight = np.minimum(1.0, problem.norm_bound**2 / np.sum(x**2, axis=1))
    losses = evaluate(problem.loss.functions.value, y, x @ theta, s=1.0, loss=problem.loss)
    return float(np.mean(weight * losses)) + 0.5 * float(theta @ problem.ridge @ theta)


def test_self_concordant_damping_far_from_the_optimum_and_pure_near_it():
    gamma = 1.6
    small = np.array([1.0 / (16 * gamma) * 0.999, 0.0, 0.0])
    assert in_basin(proposal(gradient=small))
    assert not in_basin(proposal(gradient=1.01 * small))
    far = proposal(gradient=[3.0, 0.0, 0.0])
    beta = gamma * 3.0
    move = SelfConcordantDamping().move(far, None, done=0.0, oracle=NoTests())
    assert move.eta == pytest.approx(math.log1p(beta) / beta)
    np.testing.assert_allclose(move.change, move.eta * far.direction)
    assert not move.pure
    near = SelfConcordantDamping().move(proposal(gradient=small), move, done=0.1, oracle=NoTests())
    assert (near.eta, near.pure) == (1.0, True)
    assert SelfConcordantDamping().move(far, near, done=0.2, oracle=NoTests()).eta == 1.0
    assert FixedDamping(0.3).move(far, None, done=0.0, oracle=NoTests()).eta == 0.3
    assert ConstantStep(0.3).move(proposal(gradient=small), None, done=0.0, oracle=NoTests()).eta == 0.3


@pytest.mark.parametrize("gamma", [0.5, 1.6, 5.0])
def test_the_self_concordant_step_decreases_the_loss_from_any_point(gamma, rng):
    """Without noise; full steps from the same points do not."""
    x, y = rows(Logistic(), 200, rng)
    x *= np.minimum(1.0, gamma / np.linalg.norm(x, axis=1))[:, None]
    problem = dataclasses.replace(problem_for(Logistic(), x, norm_bound=gamma), l2=1e-4)
    increased = 0
    for _ in range(30):
        theta = rng.normal(size=3) * 30 / gamma
        probability = 1 / (1 + np.exp(-x @ theta))
        gradient = x.T @ (probability - y) / 200 + problem.ridge @ theta
        hessian = (x.T * probability * (1 - probability)) @ x / 200 + problem.ridge
        here = Proposal(problem, theta, gradient, hessian, 0.0)
        move = SelfConcordantDamping().move(here, None, done=0.0, oracle=NoTests())
        assert risk_of(problem, x, y, theta - move.change) < risk_of(problem, x, y, theta)
        increased += risk_of(problem, x, y, theta - here.direction) > risk_of(problem, x, y, theta)
    assert increased > 0


def test_conversions_of_self_concordance_hold_for_known_losses():
    """``|rho'''| <= gamma rho''`` for the logistic along rows, and for a loss of the third kind."""
    t = np.linspace(-20, 20, 2001)
    c = 1.5
    third_kind = 2.0 / c
    u = t / c
    root = np.sqrt(1 + 4 * u**2)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = 0.5 * c**2 * (root - 1 + np.log((root - 1) / (2 * u**2)))
    value[1000] = 0.0
    step = t[1] - t[0]
    second = np.gradient(np.gradient(value, step), step)[3:-3]
    third = np.gradient(np.gradient(np.gradient(value, step), step), step)[3:-3]
    assert (np.abs(third) <= second_kind(third_kind, 1.0) * second * (1 + 1e-2) + 1e-6).all()
    p = 1 / (1 + np.exp(-t))
    for bound in (0.3, 1.0, 4.0):
        second = p * (1 - p) * bound**2
        third = np.abs(p * (1 - p) * (1 - 2 * p)) * bound**3
        assert (third <= along_rows(1.0, bound) * second).all()
        assert (third > 0.9 * along_rows(1.0, bound) * second).any()
    assert self_concordance(problem_for(Logistic(), np.ones((9, 3)))) == 1.6
    assert self_concordance(problem_for(Huber(), np.ones((9, 3)))) is None
    with pytest.raises(InvalidArgument):
        along_rows(-1.0, 1.0)


def test_damped_steps_on_huber_keep_within_the_region_of_trust():
    far = proposal(Huber(0.5), gradient=[100.0, 0.0, 0.0])
    change = far.direction
    kept = trust(far, change)
    assert 1.6 * np.linalg.norm(kept * change) == pytest.approx(4 * 0.5)
    assert trust(far, 1e-3 * change) == 1.0
    move = FixedDamping(0.5).move(far, None, done=0.0, oracle=NoTests())
    assert 1.6 * np.linalg.norm(move.change) == pytest.approx(4 * 0.5)
    np.testing.assert_allclose(move.preconditioner @ far.gradient, move.change)
    assert in_basin(proposal(Huber(0.5), gradient=[1e-3, 0, 0]))
    assert not in_basin(proposal(Huber(0.5), gradient=[0.1, 0, 0]))
    assert trust(proposal(gradient=[100.0, 0, 0]), change) == 1.0


def test_the_ridge_two_step_solves_two_problems_in_turn():
    rule = RidgeTwoStep(l2=0.5, first=0.4)
    theta = np.array([1.0, -2.0, 3.0])
    far = proposal(gradient=[3.0, 1.0, -1.0], theta=theta, matrix=np.diag([1.0, 0.1, 2.0]))
    move = rule.move(far, None, done=0.0, oracle=NoTests())
    ridged_gradient, ridged = far.gradient + 0.5 * theta, np.diag([1.5, 0.6, 2.5])
    full = np.linalg.solve(ridged, ridged_gradient)
    beta = 1.6 * np.linalg.norm(full)
    np.testing.assert_allclose(move.change, math.log1p(beta) / beta * full)
    assert not move.pure
    later = rule.move(far, move, done=0.4, oracle=NoTests())
    np.testing.assert_allclose(later.change, far.direction)
    flat = proposal(Huber(0.5), gradient=[100.0, 0.0, 0.0])
    assert 1.6 * np.linalg.norm(rule.move(flat, None, done=0.4, oracle=NoTests()).change) <= 4 * 0.5 + 1e-12
    near = proposal(gradient=[1e-3, 0, 0], theta=theta)
    np.testing.assert_allclose(rule.move(near, None, done=0.0, oracle=NoTests()).change, near.direction)
    by_default, stated = (
        one.move(far, None, done=0.0, oracle=NoTests()).change
        for one in (RidgeTwoStep(), RidgeTwoStep(l2=0.25 * 1.6**2 * 100**-0.25))
    )
    np.testing.assert_allclose(by_default, stated)
    spared = proposal(ConcomitantHuber(), gradient=np.ones(4), theta=np.array([1.0, 1.0, 1.0, 2.0]))
    added = spared.with_ridge(3.0)
    np.testing.assert_allclose(added.gradient, [4.0, 4.0, 4.0, 1.0])
    np.testing.assert_allclose(np.diag(added.matrix), [4.0, 4.0, 4.0, 1.0])


def test_backtracking_asks_the_test_of_armijo():
    """Accepts where the noisy fall reaches ``a eta g'd``; asks at ``theta - eta d``, eta = 1, 1/2, ..."""
    here = proposal(gradient=[3.0, 4.0, 0.0], theta=np.ones(3))
    rule, norm, decrease = Backtracking(armijo=0.2), 5.0, 25.0
    limit = -0.2 * decrease / norm
    answers = Answers(limit + 1e-9, limit - 1e-9, -9.0)
    move = rule.move(here, None, done=0.0, oracle=answers)
    assert (move.eta, move.pure, len(answers.slopes)) == (0.5, False, 1)
    np.testing.assert_allclose(answers.asked[0], np.concatenate([np.ones(3), np.ones(3) - here.direction]))
    np.testing.assert_allclose(answers.asked[1][3:], np.ones(3) - 0.5 * here.direction)
    following = rule.move(here, move, done=0.1, oracle=answers)
    assert (following.eta, following.pure) == (1.0, True)
    unasked = Answers(9.0)
    assert rule.move(here, following, done=0.2, oracle=unasked).eta == 1.0
    assert len(unasked.slopes) == 1


def test_backtracking_keeps_its_last_step_when_the_tests_are_used_up():
    here = proposal(gradient=[3.0, 4.0, 0.0])
    rule = Backtracking(shrink=0.25)
    move = rule.move(here, None, done=0.0, oracle=Answers(1.0, 1.0))
    assert (move.eta, move.pure) == (0.0625, False)
    assert rule.move(here, move, done=0.1, oracle=NoTests()).eta == 0.0625
    still = proposal(gradient=np.zeros(3))
    unasked = Answers(9.0)
    assert rule.move(still, None, done=0.0, oracle=unasked).pure
    assert len(unasked.slopes) == 1


def test_backtracking_counts_the_ridge_exactly():
    """The difference of the ridge is public: it is added to the noisy difference of the loss."""
    theta = np.array([0.0, 2.0, 0.0])
    here = proposal(gradient=[0.0, 2.0, 0.0], theta=theta, l2=0.3)
    fall = 0.5 * 0.3 * 2.0**2
    needed = (-0.1 * 4.0 + fall) / 2.0
    for slack, eta in ((-1e-9, 1.0), (1e-9, 0.5)):
        move = Backtracking().move(here, None, done=0.0, oracle=Answers(needed + slack, -9.0))
        assert move.eta == eta


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("tests", [1, 7])
def test_tests_have_the_noise_of_the_source_at_every_distance(relation, tests):
    """In units of the loss: sd ``Delta eta norm(d) sqrt(T) / mu`` with ``Delta = 2 B / n`` for replace."""
    problem = dataclasses.replace(problem_for(Logistic(), np.ones((500, 3))), relation=relation)
    solver = NoisyNewton(n_steps=4, damping=Backtracking(max_tests=tests, share=0.3))
    planned = [one for one in solver.plan(problem, Allowance.gaussian(0.9)) if one.kind == "secant"]
    assert len(planned) == tests
    mu = 0.9 * math.sqrt(0.3)
    change = (2.0 if relation is Relation.REPLACE else 1.0) * 1.6 / 500
    for one in planned:
        assert one.sd == pytest.approx(change * math.sqrt(tests) / mu, rel=1e-5)
        assert gaussian_mu(1, problem.sensitivity("secant"), one.sd) <= one.mu
    assert math.sqrt(math.fsum(one.mu**2 for one in planned)) <= mu


@pytest.mark.statistical
def test_a_difference_of_the_loss_carries_the_planned_noise(rng):
    """2,000 draws at two distances: chi-square within its 1e-8 quantiles; rejects sd off by 1.2."""
    from scipy import stats

    x, y = rows(Logistic(), 60, rng)
    problem = problem_for(Logistic(), x)
    planned = planned_release(problem, "secant", Allowance.gaussian(0.7))
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], 2000)
    assert high / low < 1.2**4
    for distance, source in ((0.01, make_source(3)), (30.0, make_source(4))):
        ends = np.concatenate([np.zeros(3), np.array([distance, 0.0, 0.0])])
        plan = Plan("m", "s", 60, problem.columns, "replace", 99.0, (planned,) * 2000, ())
        oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=1.6), source)
        exact = (risk_of(problem, x, y, ends[3:]) - risk_of(problem, x, y, ends[:3])) / distance
        noise = np.array([oracle.release("secant", ends).value[0] for _ in range(2000)]) - exact
        assert low <= np.sum((noise / planned.sd) ** 2) <= high


@pytest.mark.parametrize("budget", [Budget.gdp(0.8), Budget(3.0), Budget(1.0, 1e-7)], ids=repr)
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("constants", ["proven", "source"])
@pytest.mark.parametrize("rule", [None, *RULES], ids=repr)
def test_plans_cost_at_most_the_budget_and_nearly_all_of_it(rule, constants, relation, budget):
    problem = dataclasses.replace(problem_for(Logistic(), np.ones((700, 3))), relation=relation)
    solver = NoisyNewton(n_steps=5, damping=rule, constants=constants)
    plan = make_plan(problem, solver, Allowance.of(budget), inference=True)
    assert compose(plan.events).within(budget)
    if budget.notion == "pure":
        assert sum(one.epsilon for one in plan.releases) > budget.epsilon * (1 - 1e-6)
    else:
        assert plan.mu > budget.mu * (1 - 1e-6)


def test_the_budgeting_of_the_source_is_never_less_private():
    """``mu / sqrt(2K)`` for each release, sd ``2 Bbar sqrt(2K) / (n mu)`` for a Hessian: sqrt(2) too much."""
    n, steps, mu = 400, 6, 1.3
    problem = problem_for(Logistic(), np.ones((n, 3)))
    plan = NoisyNewton(n_steps=steps, constants="source").plan(problem, Allowance.gaussian(mu))
    assert [one.kind for one in plan] == ["hessian", "gradient"] * steps
    for one in plan:
        assert one.mu == pytest.approx(mu / math.sqrt(2 * steps), rel=1e-9)
        bound = 0.25 * 1.6**2 if one.kind == "hessian" else 1.6
        assert one.sd == pytest.approx(2 * bound * math.sqrt(2 * steps) / (n * mu), rel=1e-4)
        assert gaussian_mu(one.size, problem.sensitivity(one.kind), one.sd) <= one.mu
        assert one.sensitivity >= problem.sensitivity(one.kind)
    ours = NoisyNewton(n_steps=steps, growth=1.0, hessian_share=0.5).plan(problem, Allowance.gaussian(mu))
    assert plan[0].sd / ours[0].sd == pytest.approx(math.sqrt(2), rel=1e-6)
    assert plan[1].sd == ours[1].sd


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8), ConcomitantHuber()], ids=lambda loss: loss.name)
def test_every_rule_reaches_the_optimum_without_noise_or_is_refused(rule, loss, rng):
    x, y = rows(loss, 800, rng)
    problem, solver = problem_for(loss, x), NoisyNewton(n_steps=40, damping=rule)
    refused = isinstance(rule, SelfConcordantDamping) and loss.constants.self_concordance is None
    if refused or (isinstance(rule, Backtracking) and loss.has_scale):
        with pytest.raises(Incompatible, match=r"FixedDamping|scale"):
            solver.plan(problem, Allowance.gaussian(1.0))
        return
    if isinstance(rule, ConstantStep) and loss.has_scale:
        return  # it may diverge, and from this start it does
    reference = inferred(problem, NonPrivate(), x, y, mu=math.inf)
    found = inferred(problem, solver, x, y, mu=math.inf)
    np.testing.assert_allclose(found.theta, reference.theta, atol=1e-6)
    if loss.has_scale:
        assert found.scale == pytest.approx(reference.scale, abs=1e-6)


def test_backtracking_and_the_ridge_converge_where_pure_newton_diverges(rng):
    """Linear data with the source's far start; without noise, and with a budget of 2."""
    x = np.column_stack([np.ones(2000), rng.normal(size=(2000, 3))])
    y = x @ np.ones(4) + rng.normal(size=2000)
    problem = dataclasses.replace(
        problem_for(Huber(), x, norm_bound=math.sqrt(2.0)), start=(4.0, -2.0, 0.0, 4.0)
    )
    for mu, allowed in ((math.inf, 0.1), (2.0, 0.5)):
        for rule in (Backtracking(), RidgeTwoStep(), FixedDamping()):
            solution, _ = newton_run(problem, NoisyNewton(n_steps=12, damping=rule), x, y, mu=mu)
            assert np.abs(solution.theta - 1.0).max() < allowed
    pure, _ = newton_run(problem, NoisyNewton(n_steps=12, damping=ConstantStep()), x, y, mu=math.inf)
    assert np.abs(pure.theta - 1.0).max() > 1.0


def test_unspent_tests_cost_what_was_planned(rng):
    x, y = rows(Logistic(), 500, rng)
    problem, solver = problem_for(Logistic(), x), NoisyNewton(n_steps=4, damping=Backtracking(max_tests=9))
    solution, oracle = newton_run(problem, solver, x, y, mu=1e4)
    assert oracle.remaining("secant") == 8
    assert oracle.plan.mu == pytest.approx(1e4, rel=1e-6)
    assert len(solution.steps) == 4
    assert not oracle.remaining("gradient")
    assert not oracle.remaining("hessian")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("mu", [0.05, 0.3])
def test_an_estimated_scale_stays_positive_and_bounded_under_heavy_noise(mu, seed, rng):
    """From a start 4 and 1/4 times the truth; the scale moves by a factor 2 a step at most."""
    x, y = rows(ConcomitantHuber(), 150, rng)
    for start in (0.125, 2.0):
        problem = dataclasses.replace(problem_for(ConcomitantHuber(), x), start=(0.0, 0.0, 0.0, start))
        for rule in (None, FixedDamping(1.0), RidgeTwoStep()):
            solver = NoisyNewton(n_steps=8, damping=rule)
            solution, _ = newton_run(problem, solver, x, y, mu=mu, seed=seed)
            scales = [step.release.at[-1] for step in solution.steps] + [solution.theta[-1]]
            ratios = np.array(scales[1:]) / np.array(scales[:-1])
            assert (ratios >= 0.5 - 1e-12).all()
            assert (ratios <= 2.0 + 1e-12).all()
            assert np.isfinite(solution.theta).all()


def test_arguments_are_checked():
    for make in (
        lambda: NoisyNewton(damping=1.5),
        lambda: NoisyNewton(constants="proved"),
        lambda: NoisyNewton(constants="source", growth=1.0),
        lambda: ConstantStep(0.0),
        lambda: FixedDamping(1.01),
        lambda: RidgeTwoStep(l2=-1.0),
        lambda: RidgeTwoStep(first=1.0),
        lambda: Backtracking(max_tests=0),
        lambda: Backtracking(armijo=0.5),
        lambda: Backtracking(shrink=1.0),
        lambda: Backtracking(share=0.0),
    ):
        with pytest.raises(InvalidArgument):
            make()
    problem = problem_for(Logistic(), np.ones((9, 3)))
    assert NoisyNewton(damping=0.3).rule(problem) == FixedDamping(0.3)
    assert NoisyNewton().rule(problem) == default_damping(problem) == SelfConcordantDamping()
    assert default_damping(problem_for(Huber(), np.ones((9, 3)))) == FixedDamping(0.5)
    assert Move.along(proposal(gradient=np.ones(3)), 0.25).eta == 0.25


def test_rules_have_the_constants_that_they_state():
    assert (ConstantStep().eta, FixedDamping().eta, RidgeTwoStep().first) == (1.0, 0.5, 0.35)
    assert (RidgeTwoStep().l2, Backtracking().armijo, Backtracking().shrink) == (None, 0.1, 0.5)
    assert (Backtracking().tests, Backtracking().test_share) == (10, 0.2)
    assert (FixedDamping().tests, FixedDamping().test_share) == (0, 0.0)
    assert Backtracking().move(proposal(gradient=np.ones(3)), None, done=0.0, oracle=NoTests()).eta == 1.0


def test_the_basin_of_a_self_concordant_loss_to_the_digit():
    """Of eigenvalues 1, 1/10 and 2 the least counts, and the decrement along the last is c / sqrt(2)."""
    edge = math.sqrt(2.0) / (math.sqrt(10.0) * 16.0 * 1.6)
    for part, near in ((0.9999, True), (1.0001, False)):
        here = proposal(gradient=[0.0, 0.0, part * edge], matrix=np.diag([1.0, 0.1, 2.0]))
        assert in_basin(here) == near


def test_the_basin_and_the_region_of_trust_of_other_losses_to_the_digit():
    """Eighths of a threshold that a row of norm 1.6 crosses, and four thresholds; not the step of a scale."""
    scaled = ConcomitantHuber()
    threshold = scaled.constants.slope / scaled.constants.curvature
    for loss, one, scale in ((Huber(0.5), 0.5, 1.0), (scaled, threshold, 2.0)):
        rest = [9.0] * loss.has_scale
        at = np.append(np.zeros(3), [scale] * loss.has_scale)
        for part, near in ((0.9999, True), (1.0001, False)):
            change = part * 0.125 * one * scale / 1.6
            here = proposal(loss, gradient=[0.6 * change, 0.0, 0.8 * change, *rest], theta=at)
            assert in_basin(here) == near
        far = proposal(loss, gradient=[3.0 * one * scale, 0.0, 4.0 * one * scale, *rest], theta=at)
        assert trust(far, far.direction) == pytest.approx(4.0 / (5.0 * 1.6))
        assert trust(far, np.zeros(3 + loss.has_scale)) == 1.0
    assert trust(proposal(gradient=[1e3, 0.0, 0.0]), np.array([1e3, 0.0, 0.0])) == 1.0


def rare_events(n=20_000, constant=-4.5):
    """Rows with a constant, and a response that few have."""
    rng = np.random.default_rng(11)
    x = np.column_stack([np.ones(n), 0.2 * rng.normal(size=n).clip(-5.0, 5.0)])
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-constant - x @ [0.0, 5.0]))).astype(float)
    return problem_for(Logistic(), x, norm_bound=math.sqrt(2.0)), x, y


def test_curvature_on_the_way_to_rare_events_does_not_count():
    """It is larger there: averaged with the rest it made intervals too short."""
    problem, x, y = rare_events()
    solution, _ = newton_run(problem, NoisyNewton(), x, y, mu=100.0)
    late = np.array([step.release.at for step in solution.late])
    assert 1 <= len(late) < 7
    assert len(solution.curvature) == len(late)
    assert [hessian.at.tolist() for hessian in solution.curvature] == late.tolist()
    chances = 1.0 / (1.0 + np.exp(-x @ solution.theta))
    at_end = np.mean(chances * (1.0 - chances))
    assert np.mean([hessian.value[0, 0] for hessian in solution.curvature]) == pytest.approx(at_end, rel=0.03)


def test_all_late_steps_count_where_noise_hides_the_way_or_the_curvature_does_not_change():
    rare, even = rare_events(), rare_events(constant=0.0)
    squared = dataclasses.replace(even[0], loss=Squared(4.0))
    for (problem, x, y), mu in ((rare, 0.01), (even, 100.0), ((squared, *even[1:]), 100.0)):
        solution, _ = newton_run(problem, NoisyNewton(), x, y, mu=mu)
        assert len(solution.late) == len(solution.curvature) == 7
    odd, _ = newton_run(even[0], NoisyNewton(n_steps=5), *even[1:], mu=100.0)
    assert len(odd.late) == len(odd.curvature) == 3
