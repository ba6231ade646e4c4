"""Coordinates, bounds on rows and the gradient that a perturbed minimiser stands for, worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privfit.data.source import ArraySource
from privfit.losses import Huber, Logistic, SmoothedQuantile
from privfit.losses.typical import typical_curvature, usual_residual
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import make_source
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers import WhitenedObjectivePerturbation
from privfit.solvers.hessian_model import norm_limit
from privfit.solvers.whitened_perturbation import Whitening, expected_hessian, mean_curvature, row_bound

from .simulated import plan_once, problem_for, rows

SOLVER = WhitenedObjectivePerturbation()
SECOND = np.array([[1.0, 0.3, -0.1], [0.3, 0.5, 0.2], [-0.1, 0.2, 0.8]])
SD = 0.01


def released(moment, sd):
    size = len(moment)
    planned = PlannedRelease("second_moment", size * (size + 1) // 2, 1.0, math.inf, sd, epsilon=1.0)
    return Release(planned, np.zeros(size), moment)


def logit_problem(n=10_000, **changes):
    return replace(problem_for(Logistic(), np.ones((n, 3)), norm_bound=3.0), **changes)


def test_coordinates_are_even_in_what_is_released_and_two_deviations_more():
    problem = logit_problem()
    whitening = Whitening.of(problem, released(SECOND, SD), 1.0)
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
    bound = row_bound(problem, basis / unit, dimension, 1.0)
    assert unit * bound == pytest.approx(norm_limit(problem), rel=1e-3)


def test_without_a_constant_the_mean_of_rows_is_not_known():
    problem = logit_problem(penalised=(True,) * 3)
    np.testing.assert_array_equal(Whitening.of(problem, released(SECOND, SD), 1.0).center, 0.0)


@pytest.mark.parametrize("bounded", [True, False])
def test_what_noise_hides_counts_as_half_of_what_was_added_to_it(bounded):
    problem = logit_problem(bounded=bounded)
    whitening = Whitening.of(problem, released(np.diag([1.0, 0.5, -0.1]), 0.05), 1.0)
    unit = whitening.unit**2
    np.testing.assert_allclose(np.diag(whitening.moment)[2], 0.5 * unit, rtol=1e-9)
    stretch = problem.norm_bound * np.linalg.norm(whitening.basis, 2) / norm_limit(problem)
    assert whitening.stretch == pytest.approx(max(stretch, 1.0) if bounded else 64.0)


def test_rows_are_as_long_as_normal_ones_or_longer_where_noise_allows():
    """Of 6 dimensions 12 or 0.006 n (epsilon / 2)^2 where that is more, but 60 at most."""
    for n, squared in ((1_000, 6.0 + 2.0 * math.sqrt(12.0)), (10_000, 0.006 * 10_000 * 0.25), (10**6, 60.0)):
        problem = logit_problem(n)
        slack = problem.loss.slack[0]
        assert row_bound(problem, np.eye(3), 6.0, slack) ** 2 == pytest.approx(squared)
        assert row_bound(problem, np.eye(3), 6.0, math.inf) ** 2 == pytest.approx(60.0)
    quantile = problem_for(SmoothedQuantile(0.5, 0.4), np.ones((10**6, 3)), norm_bound=3.0)
    assert row_bound(quantile, np.eye(3), 6.0, 1.0) ** 2 == pytest.approx(6.0 + 2.0 * math.sqrt(12.0))


def test_rows_are_no_longer_than_declared_bounds_let_them_be():
    basis = np.array([[0.5, 0.1, 0.0], [0.0, 0.3, -0.2], [0.1, 0.0, 0.4]])
    by_norm = logit_problem(10**6, bounded=True)
    norm = 3.0 * np.linalg.norm(basis, 2)
    assert row_bound(by_norm, basis, 6.0, 1.0) == pytest.approx(norm)
    corners = np.array([[1.0, a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    longest = np.linalg.norm(corners @ basis, axis=1).max()
    by_columns = row_bound(replace(by_norm, indicators=(True, False, False)), basis, 6.0, 1.0)
    assert by_columns == pytest.approx(math.sqrt(0.6**2 + 0.4**2 + 0.6**2))
    assert longest <= by_columns < norm
    assert row_bound(replace(by_norm, norm_bound=1e9), basis, 0.1, 1e-6) ** 2 == pytest.approx(
        0.1 + 2.0 * math.sqrt(0.2)
    )


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
    assert mean_curvature(problem, whitening, np.array(at)) == pytest.approx(curved.sum(), rel=1e-3)
    found = expected_hessian(problem, whitening, np.array(at))
    np.testing.assert_allclose(found, (z.T * curved) @ z, rtol=5e-3)


def test_curvature_of_residuals_is_that_of_their_loss():
    whitening, _, _ = normal_rows()
    at = np.array([0.3, 2.0])
    huber = replace(problem_for(Huber(0.8), np.ones((100, 2))), response_bound=2.0)
    usual = typical_curvature(huber.loss, residual=usual_residual(2.0))
    assert usual > 0.02
    assert mean_curvature(huber, whitening, at) == pytest.approx(usual)
    np.testing.assert_allclose(expected_hessian(huber, whitening, at), usual * whitening.moment)
    far = replace(huber, response_bound=1e6)
    assert mean_curvature(far, whitening, at) == pytest.approx(0.02 * far.loss.constants.curvature)
    quantile = replace(huber, loss=SmoothedQuantile(0.5, 0.4, within=0.2))
    assert mean_curvature(quantile, whitening, at) == pytest.approx(0.2 / 0.8)


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
    whitening = Whitening.of(problem, oracle.released[0], paid)
    procedure, at = SOLVER.procedure(final, paid, whitening), step.release.at
    outcome = 0.5 * whitening.unit**2 * procedure.output_scale(final) if math.isfinite(paid) else 0.0
    assert step.release.sd == pytest.approx(math.hypot(procedure.spread, outcome) * 2.0)
    np.testing.assert_allclose(step.gradient, -procedure.l2 * at, rtol=1e-9)
    np.testing.assert_allclose(step.release.value, -(procedure.l2 * np.eye(3) + final.ridge) @ at, rtol=1e-9)
    hessian = mean_curvature(final, whitening, at) * whitening.moment
    hessian += procedure.l2 * np.eye(3) + final.ridge
    np.testing.assert_allclose(step.preconditioner @ hessian, np.eye(3), atol=1e-9)
