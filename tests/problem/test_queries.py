"""Sensitivities against the formulas of docs/method.md, section 3, in exact arithmetic."""

import math
from dataclasses import replace
from decimal import Decimal, getcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privfit.data.source import MOST_ROWS
from privfit.errors import Incompatible, PlanViolation
from privfit.losses import (
    ConcomitantHuber,
    Custom,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Sigmoid,
    SmoothedQuantile,
    Squared,
)
from privfit.privacy.relation import Relation
from privfit.problem.queries import BoundedQuery, mean_sensitivity, need_hessian
from privfit.problem.turning import vector_rounding

from .conftest import make_problem

getcontext().prec = 60

VECTORS = ("gradient", "bounded_gradient", "marginals", "secant")
GROUPED = ("gradient", "bounded_gradient", "marginals")
MATRICES = ("hessian", "second_moment", "meat")
SHARES = ("sizes", "norms", "counts", "residuals", "labels")
SIDES = [(0.0, 0.0), (-0.7, 0.2), (-0.1, 0.9), (0.0, 3.0), (-2.0, 0.0)]
"""Of scales; matrices and shares have none."""

MARGIN = Decimal(1) + Decimal(2) ** -39
"""More than a query may add for the rounding of its own few operations."""


def exact_squared(query, relation, *, pure=False):
    """The squared sensitivity of the exact sum: what one row, or two, can do at worst; of shares in L1."""
    bound, (low, high) = Decimal(query.bound), map(Decimal, query.side)
    replaced = relation is Relation.REPLACE
    if query.kind in VECTORS:
        return (4 * bound**2 + (high - low) ** 2) if replaced else (bound**2 + max(-low, high) ** 2)
    two = 4 if pure and query.kind in SHARES else 2
    return (two if replaced else 1) * bound**2


def rounding(query, n_rows, rows):
    """Twice the error bound of one sum of up to ``2 * n_rows`` terms (Higham 2002, section 4.2)."""
    within = 32 + 4096 // 32 if query.kind in GROUPED else 4096
    levels = 0
    while 4096 * 2**levels < rows:
        levels += 1
    additions = min(rows, within) + levels + 1
    low, high = map(Decimal, query.side)
    term = (Decimal(max(query.bound, query.summed)) ** 2 + max(-low, high) ** 2).sqrt()
    return 2 * (2 * additions * Decimal(2) ** -53) * 2 * n_rows * term


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize(
    ("kind", "side"),
    [*product(VECTORS, SIDES), *product((*MATRICES, *SHARES), SIDES[:1])],
)
@pytest.mark.parametrize("summed", [0.0, 0.01, 3e6, 1e9])
@pytest.mark.parametrize("pure", [False, True])
def test_a_sensitivity_is_its_formula_rounded_up(kind, relation, side, summed, pure):
    query = BoundedQuery(kind, 4, 1.3, side, summed)
    for n_rows, most_rows in ((1, None), (10, None), (3000, None), (10**9, None), (10, 10**10), (100, 8193)):
        found = Decimal(query.sensitivity(relation, n_rows, pure=pure, most_rows=most_rows))
        rows = 2 * n_rows if most_rows is None else most_rows
        exact = exact_squared(query, relation, pure=pure).sqrt()
        needed = (exact + rounding(query, n_rows, rows)) / n_rows
        assert needed <= found <= needed * MARGIN


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("n", [100, 10**5, 10**9])
def test_a_matrix_that_is_turned_keeps_room_for_rounding_and_nothing_else(n, kind, relation):
    plain, turned = BoundedQuery(kind, 36, 3.0), BoundedQuery(kind, 36, 3.0, turned=8)
    part = min(Decimal(n) * Decimal(2) ** -31, Decimal(2) ** -10)
    room = float(part * exact_squared(plain, relation).sqrt())
    assert turned.room(relation, n) == pytest.approx(room, rel=1e-15, abs=0.0)
    more = n * (turned.sensitivity(relation, n) - plain.sensitivity(relation, n))
    assert more == pytest.approx(room, rel=1e-7, abs=0.0)


@pytest.mark.parametrize("n", [10**4, 10**6])
def test_a_vector_that_is_turned_may_be_rounded_once_more(n):
    plain, turned = BoundedQuery("gradient", 8, 3.0), BoundedQuery("gradient", 8, 3.0, turned=8)
    more = turned.sensitivity(Relation.REPLACE, n) - plain.sensitivity(Relation.REPLACE, n)
    assert more == pytest.approx(2.0 * vector_rounding(8) * 2.0 * 3.0, rel=0.05, abs=0.0)


def test_only_a_smooth_convex_loss_has_a_hessian():
    need_hessian(Logistic())
    with pytest.raises(Incompatible, match="kinks"):
        need_hessian(Hinge())
    with pytest.raises(Incompatible, match="not convex"):
        need_hessian(Sigmoid())


def test_a_query_of_no_scale_has_no_side_and_sums_what_it_bounds():
    query = BoundedQuery("gradient", 3, 1.0)
    assert (query.side, query.summed) == ((0.0, 0.0), 0.0)


@pytest.mark.parametrize("exact", [1e-9, 2.0])
@pytest.mark.parametrize("terms", [None, 7, 160])
def test_the_rounding_of_a_mean_is_that_of_two_sums(exact, terms):
    """A default of 4096 terms a chunk; the rows of two tables, each of up to twice the public number."""
    chosen = {} if terms is None else {"terms": terms}
    for n_rows in (2, 5000):
        found = mean_sensitivity(exact, largest=1e7, n_rows=n_rows, **chosen)
        levels = 2 if 2 * n_rows > 2 * 4096 else 0
        additions = min(2 * n_rows, terms or 4096) + levels + 1
        error = 2 * additions * 2.0**-53 * 2 * n_rows * 1e7
        assert found == pytest.approx((exact + 2 * error) / n_rows, rel=1e-11)
        assert found >= (exact + 2 * error) / n_rows


C = 1.5
"""Bound on the norm of a row in `make_problem`."""


def fields(query):
    return query.size, query.bound, query.side, query.summed


def test_the_bounds_of_a_logit():
    problem = make_problem(Logistic(), amplification=40.0)
    no_side = (0.0, 0.0)
    assert fields(problem.query("gradient")) == (3, C, no_side, 40.0)
    assert fields(problem.query("bounded_gradient")) == (3, 1.0, no_side, 40.0 / C)
    assert fields(problem.query("secant")) == (1, C, no_side, 40.0)
    assert fields(problem.query("second_moment")) == (6, C**2, no_side, 0.0)
    assert fields(problem.query("hessian")) == (6, C**2 / 4, no_side, 0.0)
    assert fields(problem.query("meat")) == (6, C**2, no_side, 0.0)
    assert fields(problem.query("marginals")) == (8, 2 * C, no_side, 0.0)
    assert fields(problem.query("sizes")) == (18, 1.0, no_side, 0.0)
    assert fields(problem.query("norms")) == (40, 1.0, no_side, 0.0)
    assert fields(problem.query("labels")) == (2, 1.0, no_side, 0.0)
    assert fields(make_problem(Multinomial(7)).query("labels")) == (7, 1.0, no_side, 0.0)


def test_the_bounds_of_losses_with_steeper_slopes():
    squared = make_problem(Squared(0.8))
    assert squared.query("gradient").bound == squared.query("secant").bound == 0.8 * C
    assert squared.query("meat").bound == pytest.approx((0.8 * C) ** 2, rel=1e-15)
    assert squared.query("hessian").bound == C**2
    assert fields(squared.query("residuals")) == (42, 1.0, (0.0, 0.0), 0.0)
    poisson = make_problem(Poisson(1.2, 4.0), amplification=2.0)
    assert poisson.query("gradient").summed == poisson.loss.constants.slope * 2.0
    assert fields(poisson.query("counts")) == (40, 1.0, (0.0, 0.0), 0.0)


def test_the_bounds_of_a_loss_with_a_scale():
    """The slope in the scale lies in an interval [a, b]; rows of Hessians have a further entry."""
    loss = ConcomitantHuber()
    problem, (low, high) = make_problem(loss), loss.constants.scale_slope
    d, k = loss.constants.scale_direction, loss.constants.slope
    assert low < 0 < high
    assert d > 0
    assert problem.query("gradient").side == problem.query("bounded_gradient").side == (low, high)
    assert problem.query("secant").side == (0.0, 0.0)
    assert problem.query("gradient").size == 4
    assert problem.query("hessian").size == problem.query("meat").size == 10
    assert problem.query("second_moment").size == 6
    hessian, meat = problem.query("hessian").bound, problem.query("meat").bound
    assert hessian == pytest.approx(loss.constants.curvature * (C**2 + d**2), rel=1e-15)
    assert meat == pytest.approx((k * C) ** 2 + max(low**2, high**2), rel=1e-15)


def test_the_bounds_of_several_classes():
    problem = make_problem(Multinomial(4))
    assert math.sqrt(2) * C <= problem.query("gradient").bound <= math.sqrt(2) * C * (1 + 2e-9)
    assert problem.query("gradient").size == 9
    assert problem.query("hessian").bound == pytest.approx(C**2 / 2, rel=2e-9)
    assert problem.query("hessian").size == problem.query("meat").size == 45
    assert fields(problem.query("marginals"))[:2] == (2 * 3 + 4, math.sqrt(3) * C)


@given(st.lists(st.floats(-1.0, 1.0), min_size=10, max_size=10), st.integers(2, 5))
def test_marginals_of_two_rows_are_no_farther_apart_than_is_proved(entries, columns):
    one, other = (np.array(part[:columns]) for part in (entries[:5], entries[5:]))
    one, other = (row / max(1.0, float(np.linalg.norm(row))) for row in (one, other))
    apart = np.sum((one - other) ** 2) + np.sum((one**2 - other**2) ** 2)
    assert apart <= 4.5 * (1.0 + 1e-12)


def test_the_sensitivity_of_marginals_is_the_distance_of_two_rows_or_the_length_of_one():
    for loss, apart, alone in ((Logistic(), 8.5, 4.0), (Multinomial(4), 6.5, 3.0)):
        for relation, squared in ((Relation.REPLACE, apart), (Relation.ADD_REMOVE, alone)):
            found = make_problem(loss).query("marginals").sensitivity(relation, 100)
            assert math.sqrt(squared) * C / 100 <= found <= math.sqrt(squared) * C / 100 * (1.0 + 1e-9)


@pytest.mark.parametrize("kind", ["gradient", "hessian", "norms"])
def test_a_problem_asks_for_the_rounding_of_as_many_rows_as_there_can_be(kind):
    rows = make_problem(Logistic(), n_rows=50, amplification=1e7)
    units = replace(rows, shares=replace(rows.shares, unit="person"))
    query = rows.query(kind)
    assert (rows.most_rows, units.most_rows) == (100, MOST_ROWS)
    assert rows.sensitivity(kind) == query.sensitivity(Relation.REPLACE, 50, most_rows=100)
    assert units.sensitivity(kind) == query.sensitivity(Relation.REPLACE, 50, most_rows=MOST_ROWS)
    assert units.sensitivity(kind) > rows.sensitivity(kind)


def test_the_ridge_acts_on_what_it_is_told_to():
    problem = make_problem(ConcomitantHuber(), l2=0.3)
    assert np.array_equal(np.diag(problem.ridge), [0.0, 0.3, 0.3, 0.0])
    assert problem.ridged_smoothness == pytest.approx(problem.smoothness + 0.3, rel=1e-15)
    assert np.array_equal(np.diag(make_problem(Multinomial(3), l2=0.3).ridge), [0.0, 0.3, 0.3] * 2)
    basis = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 1.0, 1.0]])
    turned = replace(problem, basis=basis)
    full = np.eye(4)
    full[:3, :3] = basis
    assert np.allclose(turned.ridge, full.T @ problem.ridge @ full, rtol=1e-14)


def test_responses_are_moved_into_their_declared_range():
    assert make_problem(Logistic()).response_range == (0.0, 1.0)
    assert make_problem(Poisson(1.2, 4.0)).response_range == (0.0, 4.0)
    assert make_problem(Poisson(9.0, 4.0)).response_range == (0.0, 4.0)  # not up to the bound on log means
    counted = Custom(
        lambda y, eta: eta, lambda y, eta: eta**0, slope_bound=1.0, target_kind="count", vectorized=True
    )
    assert make_problem(counted, response_bound=7.0).response_range == (0.0, 7.0)
    assert make_problem(Squared(0.8)).response_range == (-3.0, 3.0)
    assert make_problem(Squared(0.8), response_bound=1.0).response_range == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("loss", "most"),
    [
        (Huber(1.2), 3.0),
        (Huber(5.0), 5.0),
        (ConcomitantHuber(5.0), 3.0),
        (SmoothedQuantile(0.5, 0.2), 3.0),
        (SmoothedQuantile(0.25, 0.8), 6.0),
        (Custom(lambda y, eta: eta, lambda y, eta: eta**0, slope_bound=9.0, vectorized=True), 3.0),
    ],
)
def test_responses_without_bounds_are_as_large_as_the_loss_expects(loss, most):
    """Those of a loss of residuals up to where it bends; others, in whose unit nothing is known, up to 3."""
    assert make_problem(loss).response_range == pytest.approx((-most, most), rel=1e-12)


def test_curvatures_of_classes_are_not_cut():
    cut = make_problem(Multinomial(3), most_curved=0.1)
    with pytest.raises(PlanViolation, match="curvatures of classes are not cut row by row"):
        cut.query("hessian")
    assert cut.query("meat").size == 21
