"""Noisy Newton on releases that are made by hand: what a step knows, and which steps count at the end."""

import dataclasses
import math
from typing import final

import numpy as np
import pytest

from privfit.data.shares import ShareRule
from privfit.errors import InvalidArgument
from privfit.losses import ConcomitantHuber, Logistic
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers import ConstantStep, NoisyNewton
from privfit.solvers.base import Step
from privfit.solvers.damping import AbstractDamping, Move
from privfit.solvers.newton import propose
from privfit.solvers.requirements import need_sums

from .simulated import problem_for

MEAN = 3.0 / 16.0
"""Curvature of a logit whose chances are 1/4: it changes at half the rate of the predictor."""


class Guide:
    """An oracle whose gradients lead along points; its Hessians are unlike in their second coordinate."""

    def __init__(self, points, *, slope=0.0, sds=None):
        self.points = [np.array([point, 0.0]) for point in points]
        self.hessian = np.array([[MEAN, slope], [slope, 1.0]])
        self.sds, self.steps = list(sds or [0.0] * len(points)), 0

    def release(self, kind, at):
        if kind == "hessian":
            return Release(PlannedRelease("hessian", 3, 1.0, 1.0, 0.0), at, self.hessian)
        self.steps += 1
        planned = PlannedRelease("gradient", 2, 1.0, 1.0, self.sds[self.steps - 1])
        return Release(planned, at, self.hessian @ (at - self.points[self.steps]))


def logit(*, penalised=(False, True)):
    return Problem(
        Logistic(), ("x0", "x1"), 1.6, 100, Relation.REPLACE, 0.0, start=(0.0, 0.0), penalised=penalised
    )


def led(points, *, problem=None, **how):
    """Return how many steps count at the end of a way from 0 along points, and all of the solution."""
    solver = NoisyNewton(n_steps=len(points), damping=ConstantStep())
    solution = solver.run(problem or logit(), Guide([0.0, *points], **how))
    assert solution.theta[0] == pytest.approx(points[-1])
    assert len(solution.late) == len(solution.curvature)
    return len(solution.late), solution


@pytest.mark.parametrize(
    ("points", "late"),
    [
        ([9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 4),
        ([9.0, 9.0, 9.0, 8.0, 9.0, 9.0, 9.0, 9.0], 3),
        ([9.0, 9.0, 9.0, 9.0, 8.0, 9.0, 9.0, 9.0], 2),
        ([9.0, 9.0, 9.0, 9.0, 9.0, 8.0, 9.0, 9.0], 1),
        ([9.0, 9.0, 9.0, 8.0, 9.0, 8.0, 9.0, 9.0], 1),
        ([9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 8.0, 9.0], 1),
        ([9.0, 9.0, 9.0, 9.0, 9.0, 10.0, 9.0, 9.0], 1),
        ([0.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0], 4),
        ([9.0, 9.0, 9.0, 9.0, 9.0, 9.09, 9.0, 9.0], 4),
        ([9.0, 9.0, 9.0, 9.0, 9.0, 9.11, 9.0, 9.0], 1),
        ([9.0, 8.0, 9.0, 9.0, 9.0], 2),
        ([9.0, 9.0], 1),
        ([9.0], 1),
    ],
)
def test_steps_count_from_where_the_curvature_is_that_of_the_end(points, late):
    """It changes by half of the way: 0.1 along the constant is a part of 0.05."""
    count, solution = led(points)
    assert count == late
    assert [one.at[0] for one in solution.curvature] == pytest.approx([0.0, *points][-count - 1 : -1])


def test_a_way_counts_in_the_predictor_and_only_where_noise_does_not_explain_it():
    """Three standard deviations of noise at both ends, in units of the Hessian.

    A half of what 0.6 is more than that, and a quarter of what its square is more than six times theirs, for
    two coordinates, is to be 0.05.
    """
    way, four = [9.0, 9.0, 9.0, 9.0, 9.0, 9.6, 9.0, 9.0], [0.0] * 8
    explained = (math.sqrt(1.5**2 + 6.0 * (0.5 * 0.6 + 0.25 * 0.36 - 0.05)) - 1.5) / 3.0 * MEAN
    for factor, late in ((0.99, 1), (1.01, 4)):
        for at in (6, 7):  # of the step that is far, and of the last one
            sds = list(four)
            sds[at] = factor * explained
            assert led(way, sds=sds)[0] == late
        both = [factor * explained / math.sqrt(2.0)] * 8
        assert led(way, sds=both)[0] == late
    steep = 2.0 * math.sqrt(0.05 * MEAN)  # what does not move the mean counts by a quarter of its square
    for slope, last, late in (
        (0.03, [0.0, 2.0], 1),
        (0.0, [0.0, 0.99 * steep], 4),
        (0.0, [0.0, 1.01 * steep], 1),
    ):
        solver = NoisyNewton(n_steps=8, damping=ConstantStep())
        guide = Guide([0.0] * 9, slope=slope)
        guide.points[6] = np.array(last)
        assert len(solver.run(logit(), guide).late) == late


def test_all_late_steps_count_where_nothing_says_how_the_curvature_changes():
    way = [9.0, 9.0, 9.0, 9.0, 9.0, 8.0, 9.0, 9.0]
    assert led(way, problem=logit(penalised=(True, True)))[0] == 4
    assert led(way)[0] == 1


@pytest.mark.parametrize("scale", [1.0, 0.25, 4.0])
def test_a_step_knows_the_hessian_of_loss_and_ridge_in_units_of_the_scale(scale):
    """Hessians of a loss with a scale are released times it."""
    problem = problem_for(ConcomitantHuber(), np.ones((50, 3)), l2=0.3)
    theta, square = np.array([0.5, -1.0, 2.0, scale]), np.diag([1.0, 2.0, 3.0, 4.0]) + 0.5
    gradient = Release(None, theta, np.arange(4.0))
    step = Step(gradient, gradient.value + 7.0, np.eye(4))
    for sd, floor in ((0.2, 0.2 * math.sqrt(8.0)), (0.0, 1e-12 * problem.smoothness)):
        hessian = Release(PlannedRelease("hessian", 10, 1.0, 1.0, sd), theta, square)
        made = propose(problem, hessian, step)
        np.testing.assert_allclose(made.matrix, square / scale + np.diag([0.0, 0.3, 0.3, 0.0]))
        np.testing.assert_array_equal(made.gradient, step.gradient)
        assert made.floor == pytest.approx(floor / scale, abs=0.0)
        assert made.problem is problem
        assert made.theta is theta


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Noting(AbstractDamping):
    """Keeps what part of the way it was told is done."""

    told: list

    def move(self, proposal, last, *, done, oracle):
        self.told.append(done)
        return Move.along(proposal, 1.0)


def test_a_rule_is_told_what_part_of_the_steps_is_done():
    rule = Noting([])
    problem = problem_for(Logistic(), np.ones((50, 2)))
    NoisyNewton(n_steps=4, damping=rule).run(problem, Guide([0.0] * 5))
    assert rule.told == [0.0, 0.25, 0.5, 0.75]


def test_units_of_several_rows_are_protected():
    need_sums(dataclasses.replace(logit(), shares=ShareRule(unit="person", rows_per_unit=3)), NoisyNewton())


def test_arguments_at_their_limits():
    assert NoisyNewton(damping=1.0).damping == 1.0
    for refused in ({"damping": 0.0}, {"hessian_share": 1.0}, {"hessian_share": 1.5}, {"growth": 0.0}):
        with pytest.raises(InvalidArgument):
            NoisyNewton(**refused)
