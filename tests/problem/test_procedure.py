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
from privfit.problem.rows import Rows
from privfit.problem.schedule import planned_noise, planned_release

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


def oracle_of(rng, plan_mu, *, seed=0):
    problem = make_problem(LOSSES[0], n_rows=N)
    x = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
    source = ArraySource(x, (x[:, 1] > 0).astype(float), norm_bound=1.5)
    planned = NoisyGradientAtZero(plan_mu).planned(problem)
    plan = Plan("m", "s", N, problem.columns, "replace", plan_mu, (planned,), ())
    return Oracle(problem, plan, source, make_source(seed)), problem, source


def test_a_planned_procedure_is_carried_out_once(rng):
    oracle, problem, source = oracle_of(rng, 1e6)
    release = oracle.carry_out(NoisyGradientAtZero(1e6), np.zeros(3))
    exact = problem.mean("gradient", source.sum(problem.kernel("gradient", np.zeros(3)), 3))
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
