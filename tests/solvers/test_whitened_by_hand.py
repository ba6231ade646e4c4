"""Coordinates, bounds on rows and the gradient that a perturbed minimiser stands for, worked out by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.errors import InvalidArgument
from privfit.losses import Huber, Logistic, Multinomial, Poisson, SmoothedQuantile
from privfit.losses.typical import typical_curvature, usual_residual
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.procedures.landscape import Landscape, fully_penalised
from privfit.procedures.objective_perturbation import calibrate_spread, settled
from privfit.solvers import WhitenedObjectivePerturbation, whitened_perturbation
from privfit.solvers.base import Step
from privfit.solvers.drawn import denoised
from privfit.solvers.hessian_model import norm_limit
from privfit.solvers.perturbation_rows import row_bound
from privfit.solvers.pure_looks import labels_seen
from privfit.solvers.slack import slack_at
from privfit.solvers.whitened_perturbation import (
    Whitening,
    _as_gradient,
    _optimum,
    even_hessian,
    expected_hessian,
    perturbed,
)

from .simulated import plan_once, problem_for, rows

SOLVER = WhitenedObjectivePerturbation()
SECOND = np.array([[1.0, 0.3, -0.1], [0.3, 0.5, 0.2], [-0.1, 0.2, 0.8]])
SD = 0.01
EVEN = (1.0, 1.0)
"""How generous the bounds of a logit at even odds are."""


def released(moment, sd):
    size = len(moment)
    planned = PlannedRelease("second_moment", size * (size + 1) // 2, 1.0, math.inf, sd, epsilon=1.0)
    return Release(planned, np.zeros(size), moment)


def logit_problem(n=10_000, **changes):
    return replace(problem_for(Logistic(), np.ones((n, 3)), norm_bound=3.0), **changes)


def test_coordinates_are_even_in_what_is_released_and_two_deviations_more():
    problem = logit_problem()
    whitening = Whitening.of(problem, released(SECOND, SD), 1.0, EVEN)
    basis, unit = whitening.basis, whitening.unit
    more = SECOND + 2.0 * SD * np.eye(3)
    np.testing.assert_allclose(basis.T @ more @ basis, unit**2 * np.eye(3), atol=1e-3 * unit**2)
    np.testing.assert_allclose(whitening.moment, basis.T @ SECOND @ basis, atol=1e-3 * unit**2)
    np.testing.assert_allclose(whitening.center, basis.T @ SECOND[0])
    assert whitening.frame.basis is basis
    moments = whitening.moments()
    np.testing.assert_array_equal(moments.second, whitening.moment)
    np.testing.assert_allclose(moments.doubt, SD * basis.T @ basis, rtol=1e-2, atol=1e-3 * SD * unit**2)
    dimension = 3.0 - 2.0 * SD * np.trace(np.linalg.inv(more))
    bound = row_bound(problem, basis / unit, dimension, epsilon=1.0, square=np.trace(SECOND), slack=EVEN)
    assert unit * bound == pytest.approx(norm_limit(problem), rel=1e-3)


def test_rows_are_bounded_by_the_dimension_and_the_size_that_are_seen(monkeypatch):
    asked = []

    def bound(problem, basis, dimension, **known):
        asked.append((dimension, known))
        return row_bound(problem, basis, dimension, **known)

    monkeypatch.setattr(whitened_perturbation, "row_bound", bound)
    Whitening.of(logit_problem(), released(SECOND, SD), 1.0, EVEN)
    ((dimension, known),) = asked
    seen = denoised(np.linalg.eigvalsh(SECOND), SD)
    assert dimension == pytest.approx(np.sum(seen / (seen + 2.0 * SD)), rel=1e-12)
    assert known == {"epsilon": 1.0, "square": pytest.approx(seen.sum()), "slack": EVEN}


@pytest.mark.parametrize("norm_bound", [0.5, 3.0])
def test_without_noise_little_is_added_beside_the_bound_on_rows(norm_bound):
    problem = logit_problem(norm_bound=norm_bound)
    whitening = Whitening.of(problem, released(SECOND, 0.0), 1.0, EVEN)
    values, added = np.linalg.eigvalsh(SECOND), 1e-8 * norm_bound**2
    expected = 0.5 * added / (values + added)
    found = np.linalg.eigvalsh(whitening.moments().doubt) / whitening.unit**2
    np.testing.assert_allclose(found, np.sort(expected), rtol=1e-6)


def test_as_much_is_added_as_keeps_rows_short_in_encoded_coordinates():
    """Four times as much again and again, until they are: a quarter would be too little."""
    problem, second, sd = logit_problem(bounded=True), np.diag([1.0, 1e-7, 1e-7]), 1e-9
    whitening = Whitening.of(problem, released(second, sd), 1.0, EVEN)
    in_units = np.linalg.eigvalsh(whitening.basis / whitening.unit)
    power = math.log((in_units[-1] ** -2 - denoised(np.diag(second), sd)[1]) / 9e-8, 4.0)
    assert power == pytest.approx(round(power), abs=1e-6)
    assert power > 1.0
    assert 32.0 < whitening.stretch <= 64.0
    assert whitening.stretch * math.sqrt(2.0) < 64.0  # half would do as well


def test_persons_with_several_rows_are_served():
    problem = logit_problem(shares=ShareRule("person"))
    plan = plan_once(problem, SOLVER, Allowance(1.0, pure=True), inference=False)
    assert plan.unit == "person"


def test_noise_on_the_outcome_comes_to_that_of_the_linear_term():
    problem = perturbed(logit_problem(), None)
    whitening = Whitening(np.eye(3), 0.5, 0.2 * np.eye(3), np.zeros(3), 2.0)
    procedure = SOLVER.procedure(problem, 1.0, whitening)
    procedure = replace(procedure, l2=1e-4 * procedure.l2)
    outcome = 0.5 * 0.5**2 * procedure.output_scale(problem)
    assert outcome > procedure.spread
    step = _as_gradient(problem, procedure, released(np.zeros(3), SD), whitening)
    assert step.release.sd == pytest.approx(2.0 * math.hypot(procedure.spread, outcome))


def test_without_a_constant_the_mean_of_rows_is_not_known():
    problem = logit_problem(penalised=(True,) * 3)
    np.testing.assert_array_equal(Whitening.of(problem, released(SECOND, SD), 1.0, EVEN).center, 0.0)


@pytest.mark.parametrize("bounded", [True, False])
def test_what_noise_hides_counts_as_half_of_what_was_added_to_it(bounded):
    problem = logit_problem(bounded=bounded)
    whitening = Whitening.of(problem, released(np.diag([1.0, 0.5, -0.1]), 0.05), 1.0, EVEN)
    unit = whitening.unit**2
    np.testing.assert_allclose(np.diag(whitening.moment)[2], 0.5 * unit, rtol=1e-9)
    stretch = problem.norm_bound * np.linalg.norm(whitening.basis, 2) / norm_limit(problem)
    assert whitening.stretch == pytest.approx(max(stretch, 1.0) if bounded else 64.0)
    assert whitening.stretch == (stretch * (1.0 + 1e-9) if bounded else 64.0)
    assert whitening.stretch > stretch
    short = logit_problem(bounded=bounded, norm_bound=0.1)
    found = Whitening.of(short, released(np.eye(3), 0.05), 1.0, EVEN).stretch
    assert found == (1.0 + 1e-9 if bounded else 64.0)


def normal_rows(unit=0.4, mean=0.5, sd=0.8):
    """Coordinates of rows (1, x), x normal, times a unit, and many of those by their chances."""
    second = unit**2 * np.array([[1.0, mean], [mean, mean**2 + sd**2]])
    x = np.linspace(-8.0, 8.0, 4001)
    chance = np.exp(-0.5 * x**2)
    z = unit * np.column_stack([np.ones(4001), mean + sd * x])
    whitening = Whitening(np.eye(2), unit, second, unit**2 * np.array([1.0, mean]) / unit, 2.0)
    return whitening, z, chance / chance.sum()


@pytest.mark.parametrize("at", [(0.0, 0.0), (-2.0, 1.5), (1.0, -4.0)])
def test_curvature_is_that_of_normal_rows(at):
    whitening, z, chance = normal_rows()
    problem = problem_for(Logistic(), np.ones((100, 2)))
    odds = 1.0 / (1.0 + np.exp(-z @ at))
    curved = chance * odds * (1.0 - odds)
    even = even_hessian(problem, whitening, np.array(at))
    np.testing.assert_allclose(even, curved.sum() * whitening.moment, rtol=1e-3)
    found = expected_hessian(problem, whitening, np.array(at))
    np.testing.assert_allclose(found, (z.T * curved) @ z, rtol=5e-3)


@pytest.mark.parametrize("at", [(0.0,) * 4, (-1.0, 0.8, 0.5, -0.6)])
def test_curvature_of_classes_is_that_of_normal_rows_in_each_pair_of_predictors(at):
    """But for the least curvature that is claimed, a fiftieth of the bound, which is added."""
    whitening, z, chance = normal_rows()
    loss = Multinomial(3)
    problem = replace(problem_for(loss, np.ones((100, 2))), start=(0.0,) * 4)
    curved = loss.curvatures(np.array(at).reshape(2, 2) @ z.T)
    mean = np.tensordot(chance, curved, 1)
    found = even_hessian(problem, whitening, np.array(at))
    np.testing.assert_allclose(found, np.kron(mean, whitening.moment), rtol=0.04, atol=1e-4)
    found = expected_hessian(problem, whitening, np.array(at))
    wanted = np.einsum("i,iab,ij,ik->ajbk", chance, curved, z, z).reshape(4, 4)
    np.testing.assert_allclose(found, wanted, rtol=0.05, atol=0.01 * np.abs(wanted).max())


def test_curvature_of_residuals_is_that_of_their_loss():
    whitening, _, _ = normal_rows()
    at = np.array([0.3, 2.0])
    huber = replace(problem_for(Huber(0.8), np.ones((100, 2))), response_bound=2.0)
    usual = typical_curvature(huber.loss, residual=usual_residual(2.0))
    assert usual > 0.02
    for hessian in (even_hessian, expected_hessian):
        np.testing.assert_allclose(hessian(huber, whitening, at), usual * whitening.moment)
    far = replace(huber, response_bound=1e6)
    least = 0.02 * far.loss.constants.curvature
    np.testing.assert_allclose(even_hessian(far, whitening, at), least * whitening.moment)
    wide = replace(far, loss=SmoothedQuantile(0.5, 0.4))
    assert wide.loss.constants.curvature != 1.0
    least = 0.02 * wide.loss.constants.curvature
    np.testing.assert_allclose(even_hessian(wide, whitening, at), least * whitening.moment)
    quantile = replace(huber, loss=SmoothedQuantile(0.5, 0.4, within=0.2))
    np.testing.assert_allclose(even_hessian(quantile, whitening, at), 0.2 / 0.8 * whitening.moment)


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("epsilon", [1.0, 1e3, math.inf])
def test_a_perturbed_minimiser_stands_for_a_gradient_with_the_noise_of_its_linear_term(epsilon, l2):
    x, y = rows(Logistic(), 2000, np.random.default_rng(1))
    problem = problem_for(Logistic(), x, l2=l2, norm_bound=10.0)
    allowance = Allowance.unlimited() if math.isinf(epsilon) else Allowance(epsilon, pure=True)
    plan = plan_once(problem, SOLVER, allowance, inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=10.0), make_source(3))
    solution = SOLVER.run(problem, oracle)
    paid, final, (step,) = plan.solver_releases[-1].epsilon or math.inf, solution.problem, solution.steps
    looks = [release for release in oracle.released if release.planned.kind == "labels"]
    seen = labels_seen(problem, SimpleNamespace(remaining=lambda _: 1, release=lambda *_: looks[0]))
    slack, center = slack_at(problem.loss, seen), np.zeros(3)
    center[0] = math.log(seen.mean / (1.0 - seen.mean))
    whitening = Whitening.of(problem, oracle.released[0], paid, slack)
    center = np.linalg.solve(whitening.basis, center)
    procedure, at = SOLVER.procedure(final, paid, whitening), step.release.at
    outcome = 0.5 * whitening.unit**2 * procedure.output_scale(final) if math.isfinite(paid) else 0.0
    assert step.release.sd == pytest.approx(math.hypot(procedure.spread, outcome) * 2.0)
    pull = -procedure.l2 * (at - center)
    np.testing.assert_allclose(step.gradient, pull, rtol=1e-6)
    np.testing.assert_allclose(step.release.value, pull - final.ridge @ at, rtol=1e-6)
    hessian = even_hessian(final, whitening, at)
    hessian += procedure.l2 * np.eye(3) + final.ridge
    np.testing.assert_allclose(step.preconditioner @ hessian, np.eye(3), atol=1e-9)


@pytest.mark.parametrize(
    "shares",
    [
        {"geometry_share": 0.0},
        {"geometry_share": 0.5},
        {"curvature_share": 0.0},
        {"curvature_share": 0.9},
        {"output_share": 0.9e-6},
        {"output_share": 0.51},
    ],
    ids=str,
)
def test_shares_that_leave_nothing_for_the_rest_are_refused(shares):
    with pytest.raises(InvalidArgument):
        WhitenedObjectivePerturbation(**shares)


def test_shares_within_their_limits_are_taken():
    for shares in (
        {"geometry_share": 0.49, "curvature_share": 0.89, "output_share": 0.5},
        {"output_share": 1e-6},
    ):
        found = WhitenedObjectivePerturbation(**shares)
        assert {name: getattr(found, name) for name in shares} == shares


def test_the_ball_grows_where_coordinates_are_short_and_the_stretch_is_that_of_a_whole_basis():
    final = perturbed(logit_problem(), None)
    unknown = SOLVER.procedure(final, 1.0)
    radius = 4.0 * math.sqrt(3)
    assert (unknown.radius, unknown.stretch) == pytest.approx((radius, 64.0 * math.sqrt(3)))
    for unit, times in ((0.25, 4.0), (4.0, 1.0)):
        found = SOLVER.procedure(final, 1.0, Whitening(np.eye(3), unit, np.eye(3), np.zeros(3), 2.0))
        assert (found.radius, found.stretch) == pytest.approx((times * radius, 2.0 * math.sqrt(3)))
        assert (found.epsilon, found.output_epsilon, found.delta) == (1.0, pytest.approx(0.04), 0.0)
    far = SOLVER.procedure(final, 1.0, None, (6.0, 0.0, 8.0))
    assert (far.radius, far.center) == (pytest.approx(radius + 10.0), (6.0, 0.0, 8.0))
    for loss, constant in ((Poisson(3.5, 30.0), 3.5), (Huber(0.8), 0.0)):
        other = SOLVER.procedure(replace(final, loss=loss), 1.0)
        assert other.radius == pytest.approx(radius + constant)
    without = SOLVER.procedure(final, math.inf)
    curvature = Landscape.of(fully_penalised(final, 0.0), stretch=64.0).curvature
    assert (without.spread, without.output_epsilon) == (0.0, 0.0)
    assert without.l2 == pytest.approx(1e-4 / 4**6 * curvature)


QUANTILES = [SmoothedQuantile(0.3, 0.2), *(SmoothedQuantile(0.3, 0.2, within=part) for part in (0.02, 0.6))]


def with_ridges(final, found, whitening):
    """Return ridges and linear terms, whether noise on the outcome is small and if ridges end there."""
    loss, left, unit = final.loss, 0.96 * found.epsilon, whitening.unit
    bare = Landscape.of(fully_penalised(final, 0.0), stretch=whitening.stretch * math.sqrt(3))
    sampling, part, share = 0.5 * loss.constants.slope * unit / math.sqrt(4.0 * final.n_rows), 1.0, 0.15
    if isinstance(loss, SmoothedQuantile):
        part = min(4.0 * (loss.within or 1.0), 1.0)
        free = calibrate_spread(bare, epsilon=left, delta=0.0) / (0.35 * sampling)
        share = max(0.15, min(1.0 - free, 0.6))
    tried = []
    for least in bare.curvature * 1e-4 / 4.0 ** np.arange(7):
        l2, spread = settled(bare, epsilon=left, delta=0.0, curvature_share=share, least=least)
        scale = replace(found, l2=l2, spread=spread).output_scale(final)
        outcome = 2.0 * part * loss.constants.curvature * unit**2 * scale
        tried.append((l2, spread, outcome <= 0.15 * math.hypot(spread, sampling), l2 > least))
    return tried


@pytest.mark.parametrize("n", [10**4, 10**6, 10**8])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8), *QUANTILES], ids=str)
def test_the_ridge_is_the_smallest_that_noise_on_the_outcome_allows(loss, n):
    """Of a quarter each; more of the budget pays for curvature where a quantile's noise is small anyway."""
    names = ("const", "x1", "x2")
    problem = Problem(loss, names, 3.0, n, Relation.REPLACE, 0.0, (0.0,) * 3, (False, True, True))
    final = perturbed(problem, None)
    for epsilon in (0.1, 1.0, 10.0):
        for unit, stretch in ((0.3, 2.0), (0.05, 40.0)):
            whitening = Whitening(np.eye(3), unit, np.eye(3), np.zeros(3), stretch)
            found = SOLVER.procedure(final, epsilon, whitening)
            tried, last = with_ridges(final, found, whitening), 0
            while last < 6 and not tried[last][3] and tried[last + 1][2]:
                last += 1
            assert (found.l2, found.spread) == pytest.approx(tried[last][:2], rel=1e-9)


@pytest.mark.parametrize(
    ("at", "sd", "l2"),
    [
        ((-2.0, 1.5), 1e-4, 0.02),
        ((-2.0, 1.5), 6e-3, 0.02),
        ((-2.0, 1.5), 1e-4, 2e-4),
        ((-5.0, 3.0), 1e-4, 0.2),
        ((0.1, 0.0), 0.05, 0.02),
    ],
    ids=["far", "noisy", "near", "held to its length", "hidden"],
)
def test_the_way_to_the_optimum_is_that_of_the_hessian_half_way(at, sd, l2):
    """In two rounds, no longer than from the center of the ridge, less where noise is or nothing is felt."""
    whitening, _, _ = normal_rows()
    problem = problem_for(Logistic(), np.ones((4000, 2)), l2=1e-3)
    at, center = np.array(at), np.array([-0.7, 0.2])
    gradient, inverse = -l2 * (at - center), np.array([[30.0, -4.0], [-4.0, 25.0]])
    planned = PlannedRelease("gradient", 2, 1.0, math.inf, sd, epsilon=1.0)
    step = Step(Release(planned, at, gradient - problem.ridge @ at), gradient, inverse)

    def bread(point):
        return expected_hessian(problem, whitening, point) + problem.ridge

    move, length = inverse @ gradient, np.linalg.norm(at - center)
    for _ in range(2):
        half_way = bread(at - move / 2.0)
        move = np.linalg.solve(half_way, gradient)
        if np.linalg.norm(move) > length:
            move *= length / np.linalg.norm(move)
    sampling = math.sqrt(np.diag(half_way).mean() / 4000)
    off = np.linalg.norm((bread(at) - half_way) @ move) / math.sqrt(sd**2 + sampling**2)
    seen = max(1.0 - (6.0 * sd * np.linalg.norm(inverse) / length) ** 2, 0.0)
    wanted = at - seen * min(25.0 * off**2, 1.0) * move
    np.testing.assert_allclose(_optimum(problem, step, whitening, center), wanted, rtol=1e-9)
