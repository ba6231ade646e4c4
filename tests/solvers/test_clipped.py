"""Clipped gradient descent step by step: what is planned, and where steps lead that are made by hand."""

import dataclasses
import math

import numpy as np
import pytest

from privfit.data.clamp import UNWEIGHTED
from privfit.losses import Logistic, Squared
from privfit.privacy.allowance import Allowance
from privfit.privacy.relation import Relation
from privfit.problem.plan import Release
from privfit.solvers import ClippedGradientDescent

from .simulated import plan_once, problem_for

COLUMNS = np.ones((100, 3))


class Made:
    """An oracle that answers with gradients that are made by hand, and keeps what it was asked."""

    def __init__(self, problem, solver, values):
        self.plan = plan_once(problem, solver, Allowance.gaussian(1.0), inference=False)
        self.values, self.asked = [np.array(value) for value in values], []

    def carry_out(self, procedure, at):
        planned = self.plan.solver_releases[len(self.asked)]
        self.asked.append((procedure, at))
        return Release(planned, at, self.values[len(self.asked) - 1])


@pytest.mark.parametrize("n_steps", [1, 16])
@pytest.mark.parametrize("relation", list(Relation))
def test_all_steps_have_the_noise_of_the_clip_and_equal_parts(relation, n_steps):
    problem = dataclasses.replace(problem_for(Logistic(), COLUMNS), relation=relation)
    plan = ClippedGradientDescent(clip=0.25, n_steps=n_steps).plan(problem, Allowance.gaussian(0.8))
    assert [one.mu for one in plan] == pytest.approx([0.8 / n_steps**0.5] * n_steps)
    change = (2.0 if relation is Relation.REPLACE else 1.0) * 0.25 / 100
    for one in plan:
        assert change < one.sensitivity < change * (1.0 + 1e-9)
        assert one.sd == pytest.approx(change / one.mu, rel=1e-5)


@pytest.mark.parametrize(("n", "steps"), [(1, 2), (2, 4), (100, 28), (10_000, 55)])
def test_the_number_of_steps_is_six_logarithms_of_that_of_rows(n, steps):
    """6 log n is 4.16, 27.6 and 55.3."""
    problem = dataclasses.replace(problem_for(Logistic(), COLUMNS), n_rows=n)
    assert len(ClippedGradientDescent().plan(problem, Allowance.gaussian(1.0))) == steps


@pytest.mark.parametrize(
    ("loss", "columns", "bounds", "given", "length"),
    [
        (Logistic(), 3, {"norm_bound": 1.6}, 0.7, 0.7),
        (Logistic(), 3, {"norm_bound": 1.2}, None, 1.0 / (0.25 * 1.2**2)),
        (Logistic(), 3, {"norm_bound": UNWEIGHTED, "l2": 0.3}, None, 1.0 / (0.25 * 2.0 + 0.3)),
        (Squared(5.0), 9, {"norm_bound": UNWEIGHTED, "l2": 0.3}, None, 1.0 / (4.5 + 0.3)),
    ],
)
def test_steps_by_hand(loss, columns, bounds, given, length):
    """Each is against the released gradient and that of the ridge, which spares the constant."""
    problem = problem_for(loss, np.ones((100, columns)), **bounds)
    solver = ClippedGradientDescent(clip=0.4, n_steps=2, step_size=given)
    first, second = np.arange(1.0, columns + 1.0), np.linspace(-1.0, 1.0, columns)
    oracle = Made(problem, solver, [first, second])
    solution = solver.run(problem, oracle)
    one = -length * first
    ridge = problem.l2 * np.append(0.0, one[1:])
    np.testing.assert_allclose(solution.theta, one - length * (second + ridge), rtol=1e-13)
    np.testing.assert_allclose([at for _, at in oracle.asked], [np.zeros(columns), one])
    for (procedure, at), planned in zip(oracle.asked, oracle.plan.solver_releases, strict=True):
        assert procedure.planned(problem) == planned
        assert procedure.clip == 0.4
        np.testing.assert_array_equal(procedure.at, at)
    np.testing.assert_allclose(solution.steps[1].gradient, second + ridge, rtol=1e-13)
    np.testing.assert_allclose(solution.steps[1].preconditioner, length * np.eye(columns))


def test_weights_are_those_of_all_rows_and_the_name_says_the_clip():
    solver = ClippedGradientDescent(clip=0.25)
    assert solver.norm_bound(problem_for(Logistic(), COLUMNS), Allowance.gaussian(1.0)) == UNWEIGHTED
    assert solver.name == "gradient descent, clipped at 0.25"
    assert solver.sums_rows
    assert ClippedGradientDescent().clip == 1.0
    assert math.isclose(UNWEIGHTED, 2.0**60)
