"""How fast a Hessian can change."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privfit.losses import Huber, Logistic, Multinomial, Poisson, SelfConcordantHuber, Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers.self_concordance import (
    along_rows,
    mean_curvature,
    second_kind,
    self_concordance,
    turning_at,
)


def test_a_loss_of_the_third_kind_is_one_of_the_second_by_the_root_of_its_curvature():
    assert second_kind(0.6, 0.25) == pytest.approx(0.3)
    assert second_kind(0.6, 9.0) == pytest.approx(1.8)
    assert along_rows(0.0, 2.0) == second_kind(0.0, 2.0) == 0.0


def test_a_loss_of_both_kinds_is_taken_by_what_is_known_of_the_second():
    loss = SelfConcordantHuber()
    problem = Problem(loss, ("1", "x"), 1.5, 9, Relation.REPLACE, 0.0, (0.0, 0.0), (False, True))
    assert self_concordance(problem) == pytest.approx(1.5 * loss.constants.self_concordance)


def test_losses_of_which_no_more_is_known_turn_as_fast_as_any_row_may():
    facts = ("1", "x"), 1.5, 9, Relation.REPLACE, 0.0
    counts = Problem(Poisson(2.0, 8.0), *facts, (0.0, 0.0), (False, True))
    assert (mean_curvature(counts, 0.3 * np.eye(2)), turning_at(counts, 0.3 * np.eye(2))) == (0.3, 1.0)
    classes = Problem(Multinomial(3), *facts, (0.0,) * 4, (False, True))
    hessian = np.diag([0.1, 1.0, 0.3, 2.0])
    assert mean_curvature(classes, hessian) == pytest.approx(0.2)
    assert turning_at(classes, hessian) == pytest.approx(math.sqrt(2.0))
    least_squares = replace(counts, loss=Squared(1.0))
    assert turning_at(least_squares, np.eye(2)) == least_squares.loss.bending == 0.0


def test_the_mean_curvature_of_a_constant_says_how_fast_it_turns():
    problem = Problem(Logistic(), ("1", "x"), 1.5, 9, Relation.REPLACE, 0.0, (0.0, 0.0), (False, True))
    hessian = np.array([[0.09, 0.2], [0.2, 0.25]])
    assert turning_at(problem, hessian) == pytest.approx(0.8)
    assert turning_at(problem, 0.0 * hessian) == 0.0
    assert turning_at(replace(problem, basis=np.eye(2)), hessian) == 0.0
    assert turning_at(replace(problem, loss=Huber()), hessian) == 0.0
    assert turning_at(replace(problem, penalised=(True, True)), hessian) == 0.0
