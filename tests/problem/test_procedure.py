"""The door for procedures: only what the plan holds, at the cost that follows from the problem."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest

from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import make_source
from privfit.problem.oracle import Oracle
from privfit.problem.perturb import perturb_vector
from privfit.problem.plan import Plan
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.query_kernels import query_kernel
from privfit.problem.rows import Rows
from privfit.problem.schedule import planned_noise, planned_release
from privfit.problem.steep import SteepRows

from .conftest import LOSSES, make_problem

N = 50
SEEN = []


@dataclass(frozen=True)
class NoisyGradientAtZero(AbstractProcedure):
    mu: float

    def planned(self, problem):
        sensitivity = problem.sensitivity("gradient")
        return planned_noise("walk", problem.size, sensitivity, Allowance.gaussian(self.mu))

    def carry_out(self, problem, rows, noise):
        SEEN.append(rows)
        return perturb_vector(rows.mean("gradient", np.zeros(problem.size)), self.planned(problem), noise)


def oracle_of(rng, plan_mu, *, seed=0, planned_for=None):
    problem = make_problem(LOSSES[0], n_rows=N)
    x = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
    source = ArraySource(x, (x[:, 1] > 0).astype(float), norm_bound=1.5)
    planned = NoisyGradientAtZero(plan_mu).planned(problem if planned_for is None else planned_for)
    plan = Plan("m", "s", N, problem.columns, "replace", plan_mu, (planned,), ())
    return Oracle(problem, plan, source, make_source(seed)), problem, source


def test_a_planned_procedure_is_carried_out_once(rng):
    oracle, problem, source = oracle_of(rng, 1e6)
    release = oracle.carry_out(NoisyGradientAtZero(1e6), np.zeros(3))
    exact = problem.mean("gradient", source.sum(query_kernel(problem, "gradient", np.zeros(3)), 3))
    np.testing.assert_allclose(release.value, exact, atol=1e-4)
    assert oracle.released == (release,)
    with pytest.raises(PlanViolation, match="no further"):
        oracle.carry_out(NoisyGradientAtZero(1e6), np.zeros(3))


def test_a_procedure_with_another_cost_than_planned_is_refused(rng):
    oracle, _, _ = oracle_of(rng, 1.0)
    with pytest.raises(PlanViolation, match="another walk"):
        oracle.carry_out(NoisyGradientAtZero(1.1), np.zeros(3))
    assert oracle.remaining("walk") == 1


def test_a_procedure_is_priced_by_the_present_problem(rng):
    """After a change of coordinates that allows larger gradients, the planned noise no longer fits."""
    oracle, problem, _ = oracle_of(rng, 1.0)
    oracle.change_basis(replace(problem, basis=np.eye(3), norm_bound=9.0, amplification=9.0))
    with pytest.raises(PlanViolation, match="another walk"):
        oracle.carry_out(NoisyGradientAtZero(1.0), np.zeros(3))


@dataclass(frozen=True)
class AtAnyPrice(NoisyGradientAtZero):
    """One whose noise does not follow its sensitivity."""

    def planned(self, problem):
        return replace(NoisyGradientAtZero.planned(self, problem), sd=1.0)


def test_a_procedure_may_have_less_sensitivity_than_planned_but_no_other_cost(rng):
    at, zero = AtAnyPrice(1.0), np.zeros(3)
    for norm_bound, of_cost, allowed in ((1.0, 1.0, True), (2.0, 1.0, False), (1.0, 1.1, False)):
        oracle, problem, source = oracle_of(rng, 1.0)
        plan = replace(oracle.plan, solver_releases=(at.planned(problem),))
        oracle = Oracle(problem, plan, source, make_source(0))
        oracle.change_basis(replace(problem, basis=np.eye(3), norm_bound=norm_bound, amplification=9.0))
        if allowed:
            released = oracle.carry_out(at, zero)
            assert released.planned.sensitivity < at.planned(problem).sensitivity
        else:
            with pytest.raises(PlanViolation, match="another walk"):
                oracle.carry_out(AtAnyPrice(of_cost), zero)


def test_a_procedure_gets_rows_that_are_bounded_in_the_present_coordinates(rng):
    turned = make_problem(LOSSES[0], n_rows=N, norm_bound=0.5, basis=2.0 * np.eye(3), amplification=9.0)
    oracle, _, source = oracle_of(rng, 1e6, planned_for=turned)
    oracle.change_basis(turned)
    found = oracle.carry_out(NoisyGradientAtZero(1e6), np.zeros(3)).value
    bounded = source.reweighted(turned.basis, norm_bound=0.5, amplification=9.0)
    kernel = query_kernel(turned, "gradient", np.zeros(3))
    exact, loose = (turned.mean("gradient", rows.sum(kernel, 3)) for rows in (bounded, source))
    np.testing.assert_allclose(found, exact, atol=1e-5)
    assert np.abs(exact - loose).max() > 0.1


def test_a_procedure_is_refused_where_slopes_are_held_row_by_row(rng):
    """Its cost would be that of gradients that are held, which those of its rows are not."""
    held = make_problem(LOSSES[0], n_rows=N, basis=np.eye(3), amplification=9.0)
    held = replace(held, steep=SteepRows(0.5, np.zeros(3), 0.1))
    oracle, _, _ = oracle_of(rng, 1.0, planned_for=held)
    oracle.change_basis(held)
    with pytest.raises(PlanViolation, match="slopes row by row"):
        oracle.carry_out(NoisyGradientAtZero(1.0), np.zeros(3))
    assert oracle.remaining("walk") == 1
    assert oracle.released == ()


@dataclass(frozen=True)
class TinyGradient(NoisyGradientAtZero):
    def carry_out(self, problem, rows, noise):
        return 1e-300 * (1e-300 * super().carry_out(problem, rows, noise))


def test_what_numpy_says_of_a_procedure_depends_on_no_row(rng):
    oracle, _, _ = oracle_of(rng, 1.0)
    with np.errstate(all="raise"):
        assert not oracle.carry_out(TinyGradient(1.0), np.zeros(3)).value.any()


def test_rows_do_not_get_out(rng):
    oracle, _, _ = oracle_of(rng, 1.0)
    oracle.carry_out(NoisyGradientAtZero(1.0), np.zeros(3))
    rows = SEEN[-1]
    assert isinstance(rows, Rows)
    assert "private" in repr(rows)
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(rows)


def test_a_plan_with_every_kind_of_cost_survives_json(rng):
    import json

    from privfit.privacy.composition import SampledGaussianEvent

    problem = make_problem(LOSSES[0], n_rows=N)
    gaussian = planned_release(problem, "gradient", Allowance.gaussian(0.3))
    pure = planned_release(problem, "hessian", Allowance(0.3, pure=True))
    event = SampledGaussianEvent("one", "replace", 0.4, 0.01, 100)
    sampled = replace(gaussian, kind="walk", mu=np.inf, sampled=event)
    plan = Plan("m", "s", N, problem.columns, "replace", np.inf, (gaussian, pure, sampled), ())
    assert plan.private
    assert plan.events == (gaussian.event, pure.event, event)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    exact = replace(gaussian, mu=np.inf, sd=0.0)
    assert not replace(plan, solver_releases=(gaussian, exact)).private
