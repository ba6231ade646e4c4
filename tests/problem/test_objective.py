"""Public facts of a problem and the coordinates it is in, against small examples by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privfit.errors import Incompatible
from privfit.losses import ConcomitantHuber, Hinge, Logistic, Multinomial, Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import LARGEST_RIDGE, Problem
from privfit.problem.queries import SHARES
from privfit.problem.steep import SteepRows

from .conftest import LOSSES, make_problem

BASIS = np.array([[1.25, 0.5, 0.0], [0.0, 1.5, 0.0], [0.0, 0.25, 0.75]])
"""Rounding leaves room to turn sums by it."""


def other(loss, *, basis=BASIS, n_rows=100, norm_bound=1.5, **changes):
    """Return a problem in other coordinates, where rows are bounded by 1.5 and sums by 40."""
    return make_problem(loss, n_rows=n_rows, **changes).bounded_by(norm_bound, 40.0, basis)


def test_a_problem_about_which_nothing_is_known_claims_nothing():
    facts = ("a", "b"), 1.5, 10, Relation.REPLACE, 0.0, (0.0, 0.0), (False, True)
    problem = Problem(Squared(0.8), *facts)
    assert not problem.bounded
    assert not problem.has_levels
    assert problem.amplification == 0.0
    assert problem.query("gradient").summed == 0.0
    assert problem.unit is problem.slope_bounds is problem.basis is None
    assert problem.indicators == problem.factors == problem.numbers == problem.margins == ()


def test_squares_of_the_largest_ridge_are_finite():
    assert 0.0 < 1.0 / LARGEST_RIDGE**2 < LARGEST_RIDGE**2 < math.inf
    assert LARGEST_RIDGE == 1e50  # `tests/estimators` ask for it, and for more


def test_the_constant_comes_first_and_levels_are_among_the_others():
    problem = make_problem(Logistic())
    assert problem.has_intercept
    for penalised in ((True, False, True), (True, True, True)):
        assert not replace(problem, penalised=penalised).has_intercept
    for indicators, found in (
        ((True, False, False), False),
        ((True, True, False), True),
        ((True, False, True), True),
        ((False, False, True), True),
        ((), False),
    ):
        assert replace(problem, indicators=indicators).has_levels == found


def test_bounds_on_derivatives_of_the_objective():
    problem = make_problem(Squared(0.8), l2=0.25)
    assert problem.smoothness == 1.5**2
    assert problem.ridged_smoothness == 1.5**2 + 0.25
    assert problem.gradient_bound == 0.8 * 1.5
    assert problem.ridged_gradient_bound(3.0) == 0.8 * 1.5 + 0.75
    turned = replace(problem, basis=BASIS)
    assert turned.ridged_smoothness == pytest.approx(1.5**2 + 0.25 * (1.5**2 + 0.25**2))


def test_steep_rows_bound_gradients_and_their_squares_alone():
    plain = make_problem(Squared(0.8))
    held = replace(plain, steep=SteepRows(0.5, np.zeros(3), 1.0))
    for kind, part in (("gradient", 0.5), ("meat", 0.25), ("hessian", 1.0), ("secant", 1.0)):
        assert held.query(kind).bound == part * plain.query(kind).bound
    assert held.query("second_moment").bound == plain.query("second_moment").bound
    assert held.gradient_bound == held.slope_bounds.bound == 0.5 * 0.8 * 1.5


def test_only_a_hessian_is_refused_of_a_loss_without_one():
    with pytest.raises(Incompatible, match="kinks"):
        make_problem(Hinge()).query("hessian")
    for kind in ("meat", "second_moment", "gradient"):
        make_problem(Hinge()).query(kind)


def test_sums_of_vectors_are_turned_where_coordinates_may_change():
    for problem, order in (
        (make_problem(Multinomial(3)), 0),
        (make_problem(Multinomial(3)).bounded_by(1.5, 40.0), 3),
        (make_problem(Multinomial(3)).bounded_by(1.5, 0.25), 3),
        (other(Multinomial(3)), 3),
    ):
        for kind in ("gradient", "bounded_gradient", "hessian", "meat", "second_moment"):
            assert problem.query(kind).turned == order
        assert problem.query("secant").turned == problem.query("marginals").turned == 0


@pytest.mark.parametrize(
    ("loss", "kinds"),
    [
        (Logistic(), {"hessian", "meat", "second_moment"}),
        (ConcomitantHuber(), {"hessian", "meat", "second_moment"}),
        (Multinomial(3), {"second_moment"}),
        (LOSSES[-1], {"second_moment"}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_which_sums_of_matrices_are_turned_at_the_end(loss, kinds):
    """Those of classes and of functions that are not compiled are made from turned rows."""
    problem, all_kinds = other(loss, n_rows=10**5), ("hessian", "meat", "second_moment")
    assert {kind for kind in all_kinds if problem.row_basis(kind) is None} == kinds
    for kind in set(all_kinds) - kinds:
        assert problem.row_basis(kind) is problem.basis
    units = replace(problem, shares=replace(problem.shares, unit="person"))
    assert {kind for kind in all_kinds if units.row_basis(kind) is None} == kinds - {"meat"}
    plain = make_problem(loss)
    for kind in all_kinds:
        assert plain.row_basis(kind) is None
        np.testing.assert_array_equal(
            plain.mean(kind, np.arange(9.0)), np.arange(9.0).reshape(3, 3) / plain.n_rows
        )


@pytest.mark.parametrize(("corner", "turned"), [(0.1, True), (1e-3, False)])
def test_sums_are_turned_at_the_end_only_where_rows_are_known_to_be_short_before(corner, turned):
    """The constant is known, whatever the basis says of it."""
    problem = other(Logistic(), basis=np.diag([1.0, 1.0, corner]), n_rows=10**5)
    first = other(Logistic(), basis=np.diag([corner, 1.0, 1.0]), n_rows=10**5)
    for kind in ("second_moment", "hessian"):
        assert (problem.row_basis(kind) is None) == turned
        assert first.row_basis(kind) is None
        free = replace(first, penalised=(True,) * 3)
        assert (free.row_basis(kind) is None) == turned


def test_a_mean_is_turned_as_its_parameter_is():
    """One predictor, and three with the same change for each; a scale keeps its coordinate."""
    total = np.array([100.0, 200.0, 300.0])
    turned = total @ BASIS / 100.0
    np.testing.assert_allclose(other(Logistic()).mean("gradient", total), turned, rtol=1e-14)
    np.testing.assert_allclose(other(Logistic()).mean("bounded_gradient", total), turned, rtol=1e-14)
    scaled = other(ConcomitantHuber()).mean("gradient", np.append(total, 700.0))
    np.testing.assert_allclose(scaled, [*turned, 7.0], rtol=1e-14)
    classes = other(Multinomial(3)).mean("gradient", np.append(total, -2.0 * total))
    np.testing.assert_allclose(classes, [*turned, *(-2.0 * turned)], rtol=1e-14)
    for kind in ("secant", "marginals", *SHARES):
        np.testing.assert_array_equal(other(Logistic()).mean(kind, total), total / 100.0)
    np.testing.assert_array_equal(make_problem(Logistic(), n_rows=100).mean("gradient", total), total / 100.0)


def test_matrices_are_turned_from_both_sides():
    square = np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 2.0], [0.0, 2.0, 9.0]])
    found = other(Logistic(), n_rows=10**5).mean("second_moment", 1e5 * square.ravel())
    np.testing.assert_allclose(found, BASIS.T @ square @ BASIS, rtol=1e-14)
    full = np.eye(4)
    full[:3, :3] = BASIS
    wide = np.arange(16.0).reshape(4, 4)
    scaled = other(ConcomitantHuber(), n_rows=10**5)
    np.testing.assert_allclose(
        scaled.mean("meat", 1e5 * wide.ravel()), full.T @ wide @ full, rtol=1e-14, atol=1e-13
    )
    np.testing.assert_allclose(scaled.to_basis(wide), full.T @ wide @ full, rtol=1e-14)
    assert make_problem(ConcomitantHuber()).to_basis(wide) is wide
    classes = other(Multinomial(3))
    np.testing.assert_array_equal(classes.each_output(BASIS)[:3, :3], BASIS)
    np.testing.assert_array_equal(classes.each_output(BASIS)[3:, 3:], BASIS)
    assert not classes.each_output(BASIS)[3:, :3].any()


def test_the_length_of_sums_and_the_parts_of_a_parameter():
    scaled, classes = make_problem(ConcomitantHuber()), make_problem(Multinomial(3))
    assert [scaled.sum_length(kind) for kind in ("second_moment", "hessian", "meat")] == [9, 16, 16]
    assert [classes.sum_length(kind) for kind in ("second_moment", "hessian", "meat")] == [9, 36, 36]
    assert [scaled.sum_length(kind) for kind in ("gradient", "secant", "norms")] == [4, 1, 40]
    parts, scale = scaled.split(np.array([1.0, 2.0, 3.0, 0.5]))
    np.testing.assert_array_equal(parts, [1.0, 2.0, 3.0])
    assert scale == 0.5
    parts, scale = classes.split(np.arange(6.0))
    np.testing.assert_array_equal(parts, np.arange(6.0))
    assert scale == 1.0
    phi = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(other(ConcomitantHuber()).coefficients(np.append(phi, 0.5)), BASIS @ phi)
    np.testing.assert_array_equal(
        other(Multinomial(3)).coefficients(np.append(phi, -phi)), np.append(BASIS @ phi, -BASIS @ phi)
    )
    np.testing.assert_array_equal(scaled.coefficients(np.append(phi, 0.5)), phi)
