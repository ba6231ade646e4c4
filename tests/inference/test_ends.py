"""Levels without a positive, or a negative, response as far as can be seen."""

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit import Schema
from privfit.data.tables import open_table
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread
from privfit.inference.ends import may_be_without_end, mean_rows, with_slopes
from privfit.inference.found import Found
from privfit.losses import Huber, Logistic, Poisson
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.base import Solution, Step
from privfit.solvers.levels import moves_of, moves_of_cells
from privfit.terms.encoder import FormulaEncoder
from tests.solvers.simulated import problem_for

HESSIAN = np.array([[0.2, 0.0, 0.03], [0.0, 0.1, 0.0], [0.03, 0.0, 0.03]])
"""Of a constant, a number and an indicator: 0.03 in its rows, 0.17 in the others."""


def lost(
    loss,
    move,
    *,
    noise=0.0,
    of_bread=0.0,
    sampling=0.0,
    basis=None,
    factors=((2,),),
    at_bounds=(),
    constant=-8.0,
    number=-0.2,
    hessian=HESSIAN,
):
    """Which of three coefficients are lost after a Newton step that is ``move``."""
    problem = replace(problem_for(loss, np.ones((1000, 3))), factors=factors)
    turn = np.eye(3) if basis is None else basis
    problem = problem if basis is None else problem.bounded_by(1.6, 1e4, basis)
    matrix = turn.T @ hessian @ turn
    inverse = np.linalg.inv(matrix)
    start = np.linalg.solve(turn, [constant, number, 0.1])
    step = Step(Release(PlannedRelease("gradient", 3, 1.0, 1.0, noise), start, start), start, inverse)
    to = start + np.linalg.solve(turn, move)
    estimate = Estimate(to, np.zeros((3, 3)), (step,), np.ones(1))
    bread = Bread(matrix, inverse, of_bread, np.zeros((3, 0)))
    covariance = sampling**2 * inverse @ inverse
    solution = Solution(problem, to, (step,), (), "one-step", at_bounds=at_bounds)
    found = may_be_without_end(solution, np.eye(3), Found(estimate, bread, covariance))
    return found.tolist()


NONE, LEVEL, REST = [False, False, False], [False, False, True], [True, False, True]
ALL = [True, True, True]
COUNTS = Poisson(3.0, 20.0)


@pytest.mark.parametrize("basis", [None, np.array([[1.0, 0.3, 0.1], [0.0, 2.0, 0.0], [0.0, 0.5, 3.0]])])
def test_a_level_is_lost_where_a_step_uses_up_what_is_left_to_the_end(basis):
    """Along the indicator a step of -1 says that no response of these rows is positive."""
    down, up = np.array([0.0, 0.0, -1.02]), np.array([0.0, 0.0, 1.02])
    for loss in (Logistic(), COUNTS):
        assert lost(loss, 0.95 * down, basis=basis) == NONE
        assert lost(loss, down, basis=basis) == LEVEL
        assert lost(loss, up, basis=basis) == NONE
    assert lost(Logistic(), up, basis=basis, constant=8.0) == LEVEL
    assert lost(Logistic(), down, basis=basis, constant=8.0) == NONE
    without_indicator = np.array([-1.02, 0.0, 1.02])
    assert lost(COUNTS, without_indicator, basis=basis) == REST


def test_a_number_that_is_at_its_bounds_is_a_factor_of_two_levels():
    """Its rows at 1 move by 1 where it and the constant move by a half."""
    upper, both = np.array([-0.51, 0.0, -0.51]), {"factors": (), "at_bounds": (2,)}
    assert lost(COUNTS, 0.9 * upper, **both) == NONE
    assert lost(COUNTS, upper, **both) == REST
    assert lost(COUNTS, np.array([-0.51, 0.0, 0.51]), **both) == REST


def test_of_a_class_the_curvature_is_a_part_of_the_mean():
    """At even odds it is a half of it: a step of -2 uses it up."""
    for step, found in ((-1.95, NONE), (-2.05, LEVEL), (1.95, NONE), (2.05, LEVEL)):
        assert lost(Logistic(), np.array([0.0, 0.0, step]), constant=-0.1) == found


@pytest.mark.parametrize("kind", ["noise", "sampling", "of_bread"])
def test_what_is_left_has_to_exceed_its_deviations(kind):
    """After a step of -0.5 a half of 0.03 is left. Noise is of coordinates in which the step is as long."""
    step = np.array([0.0, 0.0, -0.5])
    for length in (1.0, 2.0):
        basis = np.diag([1.0, 1.0, 1.0 / length])
        least = 0.015 / 1.645 / length ** (2 if kind == "of_bread" else 1)
        assert lost(COUNTS, step, basis=basis, **{kind: 0.98 * least}) == NONE
        assert lost(COUNTS, step, basis=basis, **{kind: 1.02 * least}) == LEVEL


@pytest.mark.parametrize("row", [-2.5, 0.0, 2.5])
def test_what_noise_says_of_the_rows_of_a_rare_level_is_not_believed(row):
    """In coordinates that are even noise sets their mean apart by 2.8 in the number.

    No response is positive: from odds of 0.3 to 1 a step of -1.3 uses up what is left. Where noise said that
    odds are far above 1 that was thought to be a small part of it.
    """
    rare = np.array([[0.2, 0.0, 1e-4], [0.0, 0.1, row * 1e-4], [1e-4, row * 1e-4, 1e-4]])
    even = {"basis": np.diag([1.0, 1.0, 50.0]), "hessian": rare, "of_bread": 0.02, "number": 2.0}
    step = np.array([0.0, 0.0, -1.4])
    assert lost(Logistic(), step, constant=-1.2, **even) == LEVEL
    assert lost(Logistic(), 0.2 * step, constant=-1.2, **even) == NONE


def test_a_table_without_events_loses_all():
    """A step of -1 down the constant uses up the mean of all rows."""
    down = np.array([-1.02, 0.0, 0.0])
    for loss in (Logistic(), COUNTS):
        assert lost(loss, 0.95 * down, factors=()) == NONE
        assert lost(loss, down, factors=()) == ALL
        assert lost(loss, down) == ALL
    assert lost(Logistic(), -down, factors=(), constant=8.0) == ALL


def test_losses_of_residuals_lose_nothing():
    assert lost(Huber(1.0), np.array([0.0, 0.0, -5.0])) == NONE


SCHEMA = {
    "x": {"type": "numeric", "lower": -1.0, "upper": 1.0},
    "a": {"type": "categorical", "levels": ["a", "b"]},
    "y": {"type": "numeric", "lower": 0, "upper": 20},
}


def test_nothing_is_told_from_a_table_without_events():
    """Intercept and slope had an interval in each of these fits."""
    for seed in (0, 1, 3):
        table = pd.DataFrame({"x": np.random.default_rng(seed).uniform(-1.0, 1.0, 5_000), "y": 0})
        fit = pf.poisson("y ~ x", table, schema=SCHEMA, epsilon=1.0, random_state=seed)
        assert np.isinf(fit.bse).all()


def test_of_a_class_that_does_not_occur_nothing_is_told_and_of_others_all():
    """Its slope had an interval in each of these fits."""
    classes = SCHEMA | {"y": {"type": "categorical", "levels": ["a", "b", "c"]}}
    for seed in (0, 1, 4):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame({"x": rng.uniform(-1.0, 1.0, 20_000), "y": rng.choice(["a", "b"], 20_000)})
        fit = pf.logit("y ~ x", table, schema=classes, epsilon=16.0, random_state=seed)
        assert np.isinf(fit.bse).tolist() == [False, False, True, True]


def test_within_a_level_without_events_there_is_no_slope():
    """It had an interval in each of these fits."""
    classes = SCHEMA | {"y": {"type": "categorical", "levels": ["n", "p"]}}
    for seed in (2, 14, 15):
        rng = np.random.default_rng(seed)
        x, level = rng.uniform(-1.0, 1.0, 20_000), rng.random(20_000) < 0.3
        y = np.where((rng.random(20_000) < 0.4) & ~level, "p", "n")
        table = pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})
        fit = pf.logit("y ~ x*a", table, schema=classes, epsilon=16.0, random_state=seed)
        assert np.isinf(fit.bse).tolist() == [False, False, True, True]


@pytest.mark.parametrize("seed", [1, 4, 8])
def test_nor_within_the_reference_level_of_which_it_is_the_slope_of_the_number_itself(seed):
    """Both slopes had intervals in each of these fits."""
    rng = np.random.default_rng(seed)
    x, level = rng.uniform(-1.0, 1.0, 20_000), rng.random(20_000) < 0.3
    y = np.where((rng.random(20_000) < 0.4) & ~level, "p", "n")
    table = pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})
    classes = SCHEMA | {
        "a": {"type": "categorical", "levels": ["b", "a"]},
        "y": {"type": "categorical", "levels": ["n", "p"]},
    }
    assert np.isinf(pf.logit("y ~ x*a", table, schema=classes, epsilon=16.0, random_state=seed).bse).all()


X_BY_G_BY_H = ((), (), (), (), (), (1, 2), (1, 3), (1, 4), (), (), (1, 2, 4, 5, 7, 8), (1, 3, 4, 6, 7, 9))
"""Margins of `x*g*h`: x is 1, levels of g 2 and 3, that of h 4, of both together 8 and 9."""


@pytest.mark.parametrize(
    ("factors", "margins", "level", "expected"),
    [
        pytest.param(((2, 3),), ((), (), (), (), (1, 2), (1, 3)), 0, {1, 4, 5}, id="x*g, reference"),
        pytest.param(((2, 3),), ((), (), (), (), (1, 2), (1, 3)), 2, {5}, id="x*g, another"),
        pytest.param(((1, 2),), ((), (), (), (1, 2), (1,), (2,)), 0, {3}, id="g + x:g, reference"),
        pytest.param(((2, 3), (4,)), ((), (), (), (), (), (1, 2), (1, 3)), 3, set(), id="x*g + h, of h"),
        pytest.param(((2, 3), (4,), (8, 9)), X_BY_G_BY_H, 0, {1, 5, 6, 7, 10, 11}, id="x*g*h, of g"),
        pytest.param(((2, 3), (4,), (8, 9)), X_BY_G_BY_H, 3, {1, 5, 6, 7, 10, 11}, id="x*g*h, of h"),
        pytest.param(((2, 3), (4,), (8, 9)), X_BY_G_BY_H, 6, {10}, id="x*g*h, of both"),
    ],
)
def test_slopes_within_a_level_are_those_of_its_products_or_what_others_are_told_from(
    factors, margins, level, expected
):
    problem = replace(problem_for(COUNTS, np.ones((1000, len(margins)))), factors=factors, margins=margins)
    move = moves_of(problem, ())[[level]]
    changes = with_slopes(problem, move)
    assert changes[:1].tolist() == move.tolist()
    assert set(np.nonzero(changes[1:])[1].tolist()) == expected
    assert (changes[1:].sum(axis=1) == 1.0).all()


FACTORS = Schema.from_dict(
    {
        "g": {"type": "categorical", "levels": ["r", "a", "b"]},
        "h": {"type": "categorical", "levels": ["u", "v"]},
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "z": {"type": "numeric", "lower": -1, "upper": 1},
        "y": {"type": "categorical", "levels": ["n", "p"]},
    }
)


@pytest.mark.parametrize(
    ("formula", "cells"),
    [
        ("y ~ g*h", ["r:u", "a:u", "b:u", "r:v"]),
        ("y ~ h + g:h", ["r:u", "r:v"]),
        ("y ~ x*g + h", []),
        ("y ~ g:x", []),
    ],
)
def test_cells_of_a_product_that_have_no_column_are_asked_as_well(formula, cells):
    """A change of each raises the predictors of its rows by 1, and no others."""
    encoder = FormulaEncoder(formula, FACTORS, target_kind="binary")
    levels = list(product(["r", "a", "b"], ["u", "v"]))
    table = pd.DataFrame(levels, columns=["g", "h"]).assign(x=0.5, z=0.0, y="n")
    design = encoder.design
    asked = replace(problem_for(COUNTS, np.ones((1000, len(design.columns)))), cells=design.cells)
    raised = moves_of_cells(asked) @ encoder.encode_predictors(open_table(table)).T
    expected = [[float(":".join(level) == cell) for level in levels] for cell in cells]
    assert sorted(raised.round(12).tolist()) == sorted(expected)


@pytest.mark.parametrize(
    ("formula", "cell", "expected"),
    [
        ("y ~ x*g*h", ("a", "u"), {"x:g[T.a]", "x:g[T.a]:h[T.v]"}),
        ("y ~ x*g*h", ("r", "v"), {"x:h[T.v]", "x:g[T.a]:h[T.v]", "x:g[T.b]:h[T.v]"}),
        ("y ~ x*g + g*h", ("a", "u"), set()),
        ("y ~ x*g*h + z*g", ("a", "u"), {"x:g[T.a]", "x:g[T.a]:h[T.v]"}),
    ],
)
def test_within_a_cell_slopes_are_those_of_products_with_all_of_its_factors(formula, cell, expected):
    design = FormulaEncoder(formula, FACTORS, target_kind="binary").design
    facts = {"factors": design.factors, "margins": design.margins, "cells": design.cells}
    problem = replace(problem_for(COUNTS, np.ones((1000, len(design.columns)))), **facts)
    first = f"g[T.{cell[0]}]" if cell[1] == "u" else "h[T.v]"
    start = design.names.index(first)
    (move,) = (one for one in moves_of_cells(problem) if not one[0] and one[start] == 1.0)
    changes = with_slopes(problem, move[None])[1:]
    assert {design.names[place] for place in np.nonzero(changes)[1]} == expected


@pytest.mark.parametrize("seed", [0, 2])
def test_a_cell_without_events_has_no_interval_even_if_one_of_its_levels_is_the_reference(seed):
    """The level's coefficient is that of this cell; it had an interval in each of these fits."""
    rng = np.random.default_rng(seed)
    level, other = rng.choice(["r", "a", "b"], 20_000), rng.choice(["u", "v"], 20_000)
    y = np.where((rng.random(20_000) < 0.4) & ~((level == "a") & (other == "u")), "p", "n")
    table = pd.DataFrame({"g": level, "h": other, "y": y})
    errors = pf.logit("y ~ g*h", table, schema=FACTORS, epsilon=8.0, random_state=seed).bse
    assert set(errors.index[np.isinf(errors)]) == {"g[T.a]", "g[T.a]:h[T.v]"}


@pytest.mark.statistical
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_a_level_without_events_has_no_interval(mean):
    """A tenth of 10,000 rows has the level; elsewhere counts have mean 1.

    Of 40 intervals more than 10 are finite with a probability below 1e-5 if one in twenty is; it was one in
    four. Where its counts are as elsewhere all are.
    """
    finite = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 7])
        x, level = rng.uniform(-1.0, 1.0, 10_000), rng.random(10_000) < 0.1
        y = np.minimum(rng.poisson(np.where(level, mean, 1.0) * np.exp(0.5 * x)), 20)
        table = pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})
        fit = pf.poisson("y ~ x + a", table, schema=SCHEMA, epsilon=2.0, random_state=seed)
        assert np.isfinite(fit.bse[:2]).all() or mean == 0.0
        finite += math.isfinite(fit.bse.iloc[2])
    assert finite == 40 if mean else finite <= 10


@pytest.mark.statistical
def test_a_class_that_a_level_has_not_has_no_interval_there():
    """Of three classes the second is missing in the level; its other coefficients and the third's stay.

    Of 20 intervals more than 7 are finite with a probability below 1e-5 if one in twenty is.
    """
    schema, finite = {**SCHEMA, "y": {"type": "categorical", "levels": [0, 1, 2]}}, np.zeros(6)
    for seed in range(20):
        rng = np.random.default_rng([seed, 8])
        x, level = rng.uniform(-1.0, 1.0, 20_000), rng.random(20_000) < 0.2
        y = rng.integers(0, 3, 20_000)
        y = np.where(level & (y == 1), 2 * rng.integers(0, 2, 20_000), y)
        table = pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})
        fit = pf.logit("y ~ x + a", table, schema=schema, epsilon=4.0, random_state=seed)
        finite += np.isfinite(fit.bse.to_numpy())
    assert finite[2] <= 7
    assert (np.delete(finite, 2) == 20).all()


@pytest.mark.statistical
def test_neither_has_it_after_a_method_that_releases_a_point():
    """Of 80 intervals more than 8 are finite with a probability below 1e-6 if one in a hundred is.

    It was one in six: Newton steps go on by 1 each, and noise makes the last two look as if they had arrived.
    """
    schema, finite = {**SCHEMA, "y": {"type": "categorical", "levels": [0, 1]}}, np.zeros(3)
    for seed in range(80):
        rng = np.random.default_rng([seed, 9])
        x, level = rng.uniform(-1.0, 1.0, 4_000), rng.random(4_000) < 0.1
        y = (~level & (rng.random(4_000) < 0.5)).astype(int)
        table = pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": y})
        options = {"solver": "output-perturbation", "epsilon": 20.0, "random_state": seed}
        finite += np.isfinite(pf.logit("y ~ x + a", table, schema=schema, **options).bse.to_numpy())
    assert finite[2] <= 8


@pytest.mark.parametrize("sd", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("outputs", [1, 2])
def test_mean_rows_of_levels_are_drawn_to_that_of_all_as_far_as_noise_sets_them_apart(sd, outputs, rng):
    """In turned coordinates: two levels, of half and of a tenth of the rows; three classes, or two."""
    n, p = 400, 4
    levels = [np.arange(n) % 2 == 0, np.arange(n) % 10 == 1]
    x = np.column_stack([np.ones(n), rng.normal(1.0, 2.0, n), *levels]) @ rng.normal(size=(p, p))
    lift = rng.normal(size=(outputs + 1, outputs))
    matrix = np.zeros((outputs * p, outputs * p))
    total = np.zeros((p, p))
    for row in x:
        root = rng.normal(size=(outputs, outputs))
        matrix += np.kron(root @ root.T, np.outer(row, row)) / n
        total += np.sum((lift @ root) ** 2) * np.outer(row, row) / n
    changes = np.linalg.lstsq(x, np.column_stack([np.ones(n), *levels]), rcond=None)[0].T
    found = mean_rows(SimpleNamespace(lift=lift), SimpleNamespace(matrix=matrix, sd=sd), changes)
    assert found.shape == (2, p)
    means = [total @ change / (change @ total @ change) for change in changes]
    usual = np.trace(total) / p / (changes[0] @ total @ changes[0])
    for change, own, drawn in zip(changes[1:], means[1:], found, strict=True):
        noise = 0.5 * sd**2 * np.sum((lift.T @ lift) ** 2) * change @ change
        part = noise / (usual * (change @ total @ change) ** 2 + noise)
        between = own + part * (means[0] - own)
        both = np.stack([changes[0], change])
        nearest = between + both.T @ np.linalg.solve(both @ both.T, 1.0 - both @ between)
        np.testing.assert_allclose(drawn, nearest, rtol=1e-8, atol=1e-10)
    if sd == 0.0:
        np.testing.assert_allclose(found, means[1:], rtol=1e-8, atol=1e-10)
