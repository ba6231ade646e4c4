"""Public bounds on an objective, term by term, and the objective itself on rows by hand."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest

from privfit.errors import PlanViolation
from privfit.losses import ConcomitantHuber, Squared
from privfit.privacy.relation import Relation
from privfit.procedures.landscape import Landscape, Objective, fully_penalised

from .exponential_cases import problem_of, rows_of

UNIT = 2.0**-53
FACTS = {"size": 3, "slope": 2.0, "curvature": 5.0, "l2": 0.5, "sensitivity": 1.0, "n_rows": 4}
"""Sums are as exact as can be: replaced rows move their mean by ``2 * 2 / 4``."""


def landscape(**changes):
    return Landscape(**({**FACTS, "start": (0.0, 3.0, -4.0), "tilt": 0.75, "penalty": 0.25} | changes))


def test_a_ridge_on_every_coefficient():
    problem = problem_of(Squared(2.0), 9, 3, l2=0.3)
    assert problem.penalised == (False, True, True)
    for whole, l2 in ((fully_penalised(problem), 0.3), (fully_penalised(problem, 0.0), 0.0)):
        assert (whole.penalised, whole.l2) == ((True,) * 3, l2)
    np.testing.assert_array_equal(fully_penalised(problem, 2.0).ridge, 2.0 * np.eye(3))


def test_the_bounds_of_a_problem():
    problem = problem_of(Squared(2.0), 9, 3, norm_bound=1.5, l2=0.3)
    found = Landscape.of(problem, tilt=0.1, penalty=0.2)
    assert found == Landscape(
        3, 3.0, 2.25, 0.3, problem.sensitivity("gradient"), 9, (0.0, 0.0, 0.0), tilt=0.1, penalty=0.2
    )
    assert (Landscape.of(problem).tilt, Landscape.of(problem).penalty, found.stretch) == (0.0, 0.0, 1.0)
    assert replace(found, tilt=0.0, penalty=0.0) == Landscape.of(problem)
    turned = replace(problem, basis=np.eye(3))
    assert Landscape.of(turned, stretch=7.0).stretch == 7.0
    assert Landscape.of(problem, stretch=7.0).stretch == 7.0
    with pytest.raises(PlanViolation, match="stretch"):
        Landscape.of(turned)
    with pytest.raises(PlanViolation, match="scale"):
        Landscape.of(replace(problem, loss=ConcomitantHuber()))


def test_curvatures_and_how_far_the_minimiser_can_be():
    found = landscape()
    assert found.smoothness == 5.0 + 0.25 + 0.5
    assert found.longest_step == 2.0 / (0.5 + found.smoothness)
    assert found.reach == pytest.approx((2.0 + 0.75 + (0.5 + 0.25) * 5.0) / 0.5)
    assert landscape(l2=0.0).reach == math.inf


def test_the_rounding_of_a_gradient_has_a_part_for_every_operation():
    rest, pulls = 64.0 * 2.0 + 8.0 * 0.75, 8.0 * 0.5 + 2.0 * 7.0 * 0.25
    for radius in (0.0, 10.0):
        for stretch, turned in ((1.0, 1.0), (1.5, 3.0)):
            predictor = 1.01 * 7.0 * 5.0 * turned * radius
            expected = UNIT * (predictor + rest + pulls * radius) * (1.0 + 1e-9)
            assert landscape(stretch=stretch).rounding(radius) == pytest.approx(expected, rel=1e-12, abs=0.0)
            assert landscape(sensitivity=0.5, stretch=stretch).rounding(radius) == pytest.approx(
                expected, rel=1e-12, abs=0.0
            )
    summed = landscape(sensitivity=1.5).rounding(10.0)
    assert summed == pytest.approx(0.25 * (1.0 + 1e-9), rel=1e-12)


def test_a_private_number_of_rows_may_be_twice_the_public_one():
    """What is said of means doubles, what is said of a row does not."""
    problem = fully_penalised(problem_of(Squared(2.0), 9, 3, norm_bound=1.5, l2=0.3))
    found = Landscape.of(replace(problem, relation=Relation.ADD_REMOVE))
    plain = Landscape.of(problem)
    assert (plain.relation, plain.crowd) == (Relation.REPLACE, 1.0)
    assert found == replace(plain, relation=Relation.ADD_REMOVE, crowd=2.0, sensitivity=found.sensitivity)
    assert found.sensitivity == pytest.approx(0.5 * plain.sensitivity, rel=1e-9)
    assert (found.slope, found.curvature) == (3.0, 2.25)
    assert (found.steepest, found.smoothness, found.longest_step) == (6.0, 4.8, pytest.approx(2.0 / 5.1))
    assert found.reach == pytest.approx(6.0 / 0.3)
    assert found.rounding(5.0) == pytest.approx(2.0 * plain.rounding(5.0), rel=0.05)
    assert found.rounding(5.0) < 1e-6 * found.sensitivity
    facts = {"relation": Relation.ADD_REMOVE, "crowd": 2.0, "sensitivity": 0.5}
    summed = landscape(**facts | {"sensitivity": 0.75}).rounding(0.0) - landscape(**facts).rounding(0.0)
    assert summed == pytest.approx(0.125, rel=1e-6)
    predictor = landscape(**facts).rounding(10.0) - landscape(**facts).rounding(0.0)
    ridges = 8.0 * 0.5 + 2.0 * 7.0 * 0.25
    assert predictor == pytest.approx(UNIT * 10.0 * (1.01 * 7.0 * 2.0 * 5.0 + ridges), rel=1e-6, abs=0.0)
    length = 0.125 * (2.0 * 2.0 + 0.75 + 0.75 * 10.0)
    step = landscape(**facts).update_rounding(10.0, 0.125)
    assert step == pytest.approx(16.0 * UNIT * (10.0 + length), rel=1e-12, abs=0.0)


def test_the_rounding_of_a_step_is_that_of_sixteen_operations_on_its_ends():
    length = 0.125 * (2.0 + 0.75 + 0.75 * 10.0)
    found = landscape().update_rounding(10.0, 0.125)
    assert found == pytest.approx(16.0 * UNIT * (10.0 + length), rel=1e-12, abs=0.0)
    wide = landscape(size=2**50).update_rounding(10.0, 0.125)
    assert wide == pytest.approx(found * (1.0 + 2.0**-3), rel=1e-12, abs=0.0)


def test_the_objective_is_the_mean_of_the_rows_with_ridges_and_a_linear_term():
    x, y = np.array([[1.0, 0.0], [1.0, 0.5], [0.5, -1.0], [0.0, 1.0]]), np.array([0.5, -0.5, 0.0, 1.0])
    problem = fully_penalised(problem_of(Squared(9.0), 4, 2, norm_bound=2.0), 0.3)
    rows, at = rows_of(problem, x, y), np.array([0.25, -0.75])
    gradient, hessian = x.T @ (x @ at - y) / 4.0 + 0.3 * at, x.T @ x / 4.0 + 0.3 * np.eye(2)
    tilt, ridge = np.array([1.0, -2.0]), np.array([[2.0, 0.5], [0.5, 1.0]])
    plain, tilted = Objective(problem, rows), Objective(problem, rows, tilt, ridge)
    np.testing.assert_allclose(plain.gradient(at), gradient, rtol=1e-13)
    np.testing.assert_allclose(plain.hessian(at), hessian, rtol=1e-13)
    np.testing.assert_allclose(tilted.gradient(at), gradient + ridge @ at + tilt, rtol=1e-13)
    np.testing.assert_allclose(tilted.hessian(at), hessian + ridge, rtol=1e-13)
    assert repr(plain) == "Objective(<private rows>)"
    assert plain.crowd == 1.0
    assert Objective(replace(problem, n_rows=10), rows).crowd == 0.4
    with pytest.raises(TypeError, match="private rows"):
        pickle.dumps(plain)
