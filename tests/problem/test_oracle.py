"""The one door: planned queries only, each once, with its noise, and nothing else gets out."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.problem.schedule import growing_shares, planned_release

from .conftest import LOSSES, make_problem

N = 50


def plan_of(problem, kinds, mu=1.0):
    releases = tuple(
        planned_release(problem, kind, part)
        for kind, part in zip(kinds, Allowance.gaussian(mu).split([1.0] * len(kinds)), strict=True)
    )
    return Plan("m", "s", problem.n_rows, problem.columns, problem.relation.value, mu, releases, ())


def source_of(rng, n=N):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    return ArraySource(x, (x[:, 1] > 0).astype(float), norm_bound=1.5)


def oracle_of(rng, kinds, *, seed=0, problem=None):
    problem = make_problem(LOSSES[0], n_rows=N) if problem is None else problem
    return Oracle(problem, plan_of(problem, kinds), source_of(rng), make_source(seed))


def test_answers_each_planned_release_once(rng):
    oracle = oracle_of(rng, ["gradient", "hessian", "gradient"])
    oracle.release("gradient", np.zeros(3))
    oracle.release("hessian", np.zeros(3))
    oracle.release("gradient", np.ones(3))
    assert [release.planned.kind for release in oracle.released] == ["gradient", "hessian", "gradient"]
    for kind in ("gradient", "hessian", "meat"):
        with pytest.raises(PlanViolation, match="no further"):
            oracle.release(kind, np.zeros(3))


def test_refuses_a_plan_that_understates_a_sensitivity(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, ["gradient"])
    (planned,) = plan.solver_releases
    short = replace(plan, solver_releases=(replace(planned, sensitivity=0.999 * planned.sensitivity),))
    with pytest.raises(PlanViolation, match="understates"):
        Oracle(problem, short, source_of(rng), make_source(0)).release("gradient", np.zeros(3))


def test_refuses_a_plan_with_too_little_noise(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, ["gradient"])
    (planned,) = plan.solver_releases
    quiet = replace(plan, solver_releases=(replace(planned, sd=0.99 * planned.sd),))
    for source in (make_source(0), make_source(None)):
        with pytest.raises(PlanViolation, match="noise of sd"):
            Oracle(problem, quiet, source_of(rng), source).release("gradient", np.zeros(3))


def test_refuses_tables_that_do_not_fit_the_problem(rng):
    problem = make_problem(LOSSES[0], n_rows=N + 1)
    with pytest.raises(PlanViolation, match="number of rows"):
        Oracle(problem, plan_of(problem, ["gradient"]), source_of(rng), make_source(0))
    tight = make_problem(LOSSES[0], n_rows=N, norm_bound=1.0)
    with pytest.raises(PlanViolation, match="bounded less tightly"):
        Oracle(tight, plan_of(tight, ["gradient"]), source_of(rng), make_source(0))


def test_private_noise_refuses_a_plan_without_noise(rng):
    problem = make_problem(LOSSES[0], n_rows=N)
    exact = plan_of(problem, ["gradient"], mu=np.inf)
    with pytest.raises(PlanViolation, match="not private"):
        Oracle(problem, exact, source_of(rng), make_source(None))
    assert not Oracle(problem, exact, source_of(rng), NoNoise()).private


def test_refuses_parameters_that_are_not_finite(rng):
    for at in (np.zeros(2), np.array([0.0, np.nan, 0.0]), np.array([np.inf, 0.0, 0.0])):
        oracle = oracle_of(rng, ["gradient"])
        with pytest.raises(PlanViolation, match="wrong shape or not finite"):
            oracle.release("gradient", at)
        assert oracle.remaining("gradient") == 1


def test_a_change_of_basis_changes_nothing_but_the_coordinates(rng):
    oracle = oracle_of(rng, ["gradient"])
    for other in (replace(oracle.problem, n_rows=N + 1, basis=np.eye(3)), oracle.problem):
        with pytest.raises(PlanViolation, match="change of basis"):
            oracle.change_basis(other)
    oracle.change_basis(replace(oracle.problem, basis=np.eye(3), norm_bound=9.0, amplification=9.0))
    with pytest.raises(PlanViolation, match="understates"):
        oracle.release("gradient", np.zeros(3))


def test_rows_do_not_get_out(rng):
    oracle = oracle_of(rng, ["gradient"])
    for dump in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private rows"):
            dump(oracle)
    assert repr(oracle) == "Oracle(m, 0 of 1 releases)"
    assert not hasattr(oracle, "__dict__")


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["gradient", "hessian"])
@pytest.mark.parametrize("seed", [3, None], ids=["seeded", "secure"])
def test_noise_has_the_planned_law(kind, seed, rng):
    """Chi-square test of the noise, false-alarm rate 1e-8; it rejects 2/3 and 3/2 of the planned sd."""
    draws = 400
    problem = make_problem(LOSSES[0], n_rows=N)
    plan = plan_of(problem, [kind] * draws)
    source, at = source_of(rng), np.array([0.1, -0.4, 0.3])
    exact = problem.mean(kind, source.sum(problem.kernel(kind, at), problem.sum_length(kind)))
    oracle = Oracle(problem, plan, source, make_source(seed))
    sd = plan.solver_releases[0].sd
    noise = np.array([oracle.release(kind, at).value - exact for _ in range(draws)]) / sd
    if kind == "hessian":
        upper = np.triu_indices(3, 1)
        off = np.sqrt(2) * noise[:, upper[0], upper[1]]
        np.testing.assert_array_equal(noise, np.swapaxes(noise, 1, 2))
        noise = np.column_stack([np.diagonal(noise, axis1=1, axis2=2), off])
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], noise.size)
    statistic = float(np.sum(noise**2))
    assert low <= statistic <= high
    assert not low <= statistic * 1.5**2 <= high
    assert not low <= statistic / 1.5**2 <= high
    assert np.abs(noise.mean(axis=0)).max() < 6.5 / np.sqrt(draws)


@pytest.mark.parametrize("mu", [1e-3, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("n_steps", [1, 7, 60])
@pytest.mark.parametrize("growth", [1.0, 1.3])
def test_budgets_are_split_on_the_safe_side(mu, n_steps, growth):
    parts = [part.amount for part in Allowance.gaussian(mu).split(growing_shares(n_steps, growth))]
    assert np.sqrt(np.sum(np.square(parts))) <= mu
    assert np.sqrt(np.sum(np.square(parts))) >= mu * (1 - 1e-9)
    if n_steps > 1:
        assert parts[1] / parts[0] == pytest.approx(np.sqrt(growth))
