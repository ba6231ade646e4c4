"""Sums of matrices that are turned afterwards: those of turned rows, at the same sensitivity."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from privfit.data.reduction import CHUNK_ROWS, slab_rows, slab_terms, slabs, summation_error
from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.losses import Logistic, Multinomial, Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.queries import MATRICES, BoundedQuery, mean_sensitivity
from privfit.problem.query_kernels import query_kernel
from privfit.problem.steep import SteepRows
from privfit.problem.turning import (
    TURNING_EPSILON,
    for_each,
    longest_row,
    matrix_rounding,
    turned_rows,
    vector_rounding,
)

from .conftest import asked, make_problem
from .test_coded_rows import coded, point, responses

N = CHUNK_ROWS + 77
LIMITS = {"norm_bound": 2.0, "amplification": 30.0}


def in_basis(loss, basis, **options):
    problem = make_problem(loss, p=len(basis), n_rows=N, norm_bound=1.8, **options)
    return replace(problem, basis=basis, **LIMITS)


def summed(problem, kind, at, source):
    return source.sum(query_kernel(problem, kind, at), problem.sum_length(kind))


@pytest.fixture
def basis(rng):
    return np.eye(8) + 0.1 * rng.normal(size=(8, 8))


@pytest.fixture
def never(monkeypatch):
    """Have all rows turned from now on."""
    return lambda: monkeypatch.setattr(Problem, "_turns", lambda self, kind: False)


@pytest.mark.parametrize(("loss", "kind"), asked(*MATRICES))
@pytest.mark.parametrize("by_code", [False, True], ids=["dense", "by code"])
def test_they_are_the_sums_of_turned_rows(loss, kind, by_code, never, rng):
    x, y, basis = coded(rng, N), responses(loss, rng, N), np.eye(8) + 0.1 * rng.normal(size=(8, 8))
    source = ArraySource(x if by_code else x.dense(), y, norm_bound=1.8).reweighted(basis, **LIMITS)
    problem = in_basis(loss, basis)
    at = point(problem, rng, kind)
    total, sensitivity = summed(problem, kind, at, source), problem.sensitivity(kind)
    found = problem.mean(kind, total)
    never()
    of_turned = summed(problem, kind, at, source)
    np.testing.assert_allclose(found, problem.mean(kind, of_turned), rtol=1e-10, atol=1e-12)
    if loss.compiled or kind == "second_moment":
        assert np.abs(total - of_turned).max() > 1.0, "rows were turned"
    assert sensitivity == problem.sensitivity(kind)


@pytest.mark.parametrize("kind", MATRICES)
def test_rows_are_turned_where_rounding_would_be_felt(kind, basis):
    total = np.arange(64.0) + np.arange(64.0).reshape(8, 8).T.ravel()

    def before(basis):
        problem = replace(in_basis(Logistic(), basis), penalised=(True,) * 8)
        return np.array_equal(problem.mean(kind, total), total.reshape(8, 8) / N)

    assert not before(basis)
    assert before(basis * np.geomspace(1.0, 1e4, 8))
    assert before(np.ones((8, 8)))
    assert not before(1e4 * basis)


def test_the_rounding_of_encoded_scores_is_that_of_slopes_that_are_not_held(basis):
    """A row at the centre is short in the basis, where alone slopes are held, and may be long in the table.

    So the room for rounding shrinks with the bound, and what rounding takes does not.
    """
    total = np.arange(64.0)

    def before(spread, steep):
        problem = in_basis(Logistic(), basis * np.geomspace(1.0, spread, 8), steep=steep)
        problem = replace(problem, penalised=(True,) * 8)
        return np.array_equal(problem.mean("meat", total), total.reshape(8, 8) / N)

    spreads = np.geomspace(1.0, 1e4, 60)
    free, held = (
        [before(spread, steep) for spread in spreads] for steep in (None, SteepRows(0.5, np.zeros(8), 0.75))
    )
    assert not free[0]
    assert not held[0]
    assert free[-1]
    assert held[-1]
    assert sum(held) > sum(free)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_turn_what_their_terms_are_made_from(classes, basis, never, rng):
    loss = Multinomial(classes)
    y = rng.integers(0, classes, N).astype(float)
    source = ArraySource(coded(rng, N), y, norm_bound=1.8).reweighted(basis, **LIMITS)
    problem = in_basis(loss, basis)
    at = point(problem, rng, "hessian")
    found = {kind: problem.mean(kind, summed(problem, kind, at, source)) for kind in MATRICES}
    never()
    for kind in MATRICES:
        expected = problem.mean(kind, summed(problem, kind, at, source))
        np.testing.assert_allclose(found[kind], expected, rtol=1e-10, atol=1e-12)


def test_the_meat_of_persons_is_a_sum_of_turned_scores(basis, rng):
    total = rng.normal(size=64)
    persons = replace(in_basis(Logistic(), basis), shares=ShareRule(unit="person"))
    np.testing.assert_array_equal(persons.mean("meat", total), total.reshape(8, 8) / N)


@pytest.mark.parametrize("kind", [*MATRICES, "gradient", "bounded_gradient"])
@pytest.mark.parametrize("relation", list(Relation))
def test_what_is_planned_for_unknown_coordinates_holds_in_all(kind, relation, basis):
    planned = make_problem(Squared(0.5), p=8, n_rows=N, relation=relation).bounded_by(2.0, 30.0)
    assert replace(planned, basis=basis).sensitivity(kind) == planned.sensitivity(kind)


@pytest.mark.parametrize("n", [100, 10_000, 10_000_000, 10**9])
@pytest.mark.parametrize("kind", MATRICES)
def test_room_for_rounding_is_small_and_only_in_other_coordinates(kind, n):
    plain, turned = BoundedQuery(kind, 36, 3.0), BoundedQuery(kind, 36, 3.0, turned=8)
    before, after = (one.sensitivity(Relation.REPLACE, n) for one in (plain, turned))
    assert before < after <= before * (1.0 + min(n * 2.0**-31, 2.0**-10))
    assert plain.room(Relation.REPLACE, n) == 0.0


@pytest.mark.parametrize(("width", "n"), [(3, 20_000), (40, 3_000_000)])
@pytest.mark.parametrize("seed", range(4))
def test_rounding_of_matrices_counts_the_sum_and_both_products(width, n, seed):
    basis = np.random.default_rng(seed).normal(size=(width, width))
    found = matrix_rounding(basis, n_rows=n, most_rows=2 * n, term=3.0, width=width)
    norms = 2 * n * 3.0
    summing = summation_error(2 * n, slab_terms(width)) * norms * np.linalg.norm(basis, 2) ** 2
    turning = 2 * width * 2.0**-53 * norms * np.linalg.norm(basis) ** 2
    assert 2.0 * (summing + turning) <= found <= 2.0 * (width * summing + 2.1 * turning)


BASES = [
    (np.eye(4), 1.0),
    (np.outer([3.0, -1.0], [3.0, -1.0]), 10.0),
    (
        np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0], np.zeros(4)]),
        np.sqrt(2.0),
    ),
    (np.diag([8.0, 1.0, 1.0, 1.0]), 8.0),
]
"""And the least of two bounds on their spectral norm: the Frobenius norm, and that from sums of sizes."""


@pytest.mark.parametrize(("basis", "spectral"), [*BASES, *[(basis.T, bound) for basis, bound in BASES]])
@pytest.mark.parametrize(("n", "term"), [(1, 0.2), (1_000_000, 3.0)])
def test_rounding_of_matrices_is_no_larger_than_is_known_without_iterations(basis, spectral, n, term):
    found = matrix_rounding(basis, n_rows=n, most_rows=2 * n, term=term, width=4)
    summing = summation_error(2 * n, slab_terms(4)) * spectral**2
    turning = 4 * len(basis) * 2.0**-53 * np.sum(basis**2)
    needed = 4.0 * (summing + turning) * n * term
    assert needed * (1.0 + 1e-11) <= found <= needed * (1.0 + 1e-8)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("seed", range(5))
def test_no_row_is_longer_than_its_coordinates_allow(size, seed):
    """Of all rows that are as long in the basis, the longest are those of its least singular value."""
    rng = np.random.default_rng([seed, size])
    basis = rng.normal(size=(size, size)) * np.geomspace(1.0, 30.0, size)
    bound = longest_row(basis, 2.0, constant=False)
    longest = 2.0 / np.linalg.svd(basis)[1].min()
    assert longest <= bound * (1.0 + 1e-12)
    assert bound <= longest * size * (1.0 + 1e-6)


@pytest.mark.parametrize("size", [2, 7])
@pytest.mark.parametrize("seed", range(5))
def test_a_constant_may_be_nearly_lost(size, seed):
    rng = np.random.default_rng([seed, size])
    basis = rng.normal(size=(size, size))
    basis[:, 0], basis[0, 0] = 0.0, 1e-6
    bound = longest_row(basis, 2.0, constant=True)
    others, offset = basis[1:, 1:], basis[0, 1:]
    reached = 0.0
    for direction in [*np.linalg.svd(others)[2], *rng.normal(size=(200, size - 1))]:
        for constant, sign in product([-1.0, 1.0], repeat=2):
            z = sign * 1.999 * direction / np.linalg.norm(direction)
            row = np.append(constant, np.linalg.solve(others.T, z - constant * offset))
            assert np.linalg.norm(basis.T @ row) <= 2.0
            reached = max(reached, float(np.linalg.norm(row)))
    assert reached <= bound <= 2.0 * size * reached
    assert longest_row(basis, 2.0, constant=False) > 1e5


def test_what_is_nearly_singular_says_nothing_of_rows():
    assert longest_row(np.ones((3, 3)), 1.0, constant=False) == np.inf
    assert longest_row(np.ones((3, 3)), 1.0, constant=True) == np.inf
    close = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])
    assert longest_row(close, 1.0, constant=False) == np.inf
    assert longest_row(np.array([[1e-9]]), 1.0, constant=True) == 1.0


@pytest.mark.parametrize("scale", [0.125, 1.0, 64.0])
def test_an_inverse_is_found_where_what_rounding_takes_is_less_than_half(scale):
    """Powers of 2, whose inverse is exact: what counts is how far rounding could have led in others."""

    def bound(power):
        return longest_row(scale * np.diag([1.0, 2.0**-power]), 3.0, constant=False)

    assert bound(49) == pytest.approx(3.0 / scale * 2.0**49 / (1.0 - 0.25), rel=1e-8)
    assert bound(50) == np.inf


def exact_product(rows, basis):
    columns = [[Fraction(v) for v in column] for column in basis.T.tolist()]
    return [sum(Fraction(a) * b for a, b in zip(rows, column, strict=True)) for column in columns]


@pytest.mark.parametrize("size", [1, 5, 60])
@pytest.mark.parametrize("seed", range(5))
def test_gradients_are_turned_as_exactly_as_their_sensitivity_says(size, seed):
    """Columns that cancel: what rounding takes is relative to what is added up, not to what is left."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=size)
    basis = rng.normal(size=(size, size))
    basis[-1] = -(rows[:-1] @ basis[:-1]) / rows[-1] if size > 1 else 1.0
    found, exact = turned_rows(rows[None], basis)[0], exact_product(rows.tolist(), basis)
    off = np.sqrt(sum(float(Fraction(a) - b) ** 2 for a, b in zip(found.tolist(), exact, strict=True)))
    last = 2.0**-53 * np.linalg.norm(found)  # rounding of what is released, which the noise's margin covers
    assert off <= size / 2 * TURNING_EPSILON * np.linalg.norm(rows) * np.linalg.norm(basis) + last
    without, counted = (
        mean_sensitivity(0.0, largest=1.0, n_rows=1, terms=1, turned=order) for order in (0, size)
    )
    assert counted - without >= 4.0 * vector_rounding(size) * (1.0 - 1e-6)
    assert vector_rounding(size) * np.linalg.norm(basis, 2) >= size * TURNING_EPSILON * np.linalg.norm(basis)


@pytest.mark.parametrize("size", [1, 5, 60])
def test_room_for_the_rounding_of_gradients_is_that_of_an_orthogonal_basis(size):
    needed = size * TURNING_EPSILON * np.linalg.norm(np.eye(size))
    assert vector_rounding(size) == pytest.approx(needed, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_each_part_of_a_vector_is_turned_alike(times, basis, rng):
    parts = rng.normal(size=(times, 8))
    found = for_each(times, basis) @ parts.ravel()
    np.testing.assert_allclose(found, (parts @ basis.T).ravel(), rtol=1e-12)


@pytest.mark.parametrize("width", [1, 7, 91, 500])
def test_terms_of_a_slab_count_all_additions(width):
    parts = slabs(slice(0, CHUNK_ROWS), width)
    longest = max(part.stop - part.start for part in parts)
    assert slab_terms(width) == longest + len(parts) + 2
    group = min(slab_rows(width), CHUNK_ROWS)  # of a sum by code
    assert group + -(-CHUNK_ROWS // group) + 1 <= slab_terms(width)


@pytest.mark.parametrize("by_code", [False, True], ids=["dense", "by code"])
def test_rounding_of_a_turned_sum_stays_within_the_room(by_code, rng):
    """Equal terms of one sign, so that every rounding of a running sum goes the same way."""
    n, p = 3 * CHUNK_ROWS + 5, 8
    x = coded(rng, n)
    x.numbers[:], x.codes[:] = 1.0 / 3.0, (4, 7)
    basis = np.eye(p) + 0.2 * rng.normal(size=(p, p))
    problem = make_problem(Squared(1.0), p=p, n_rows=n, norm_bound=2.0)
    problem = replace(problem, basis=basis, norm_bound=9.0, amplification=4096.0)
    source = ArraySource(x if by_code else x.dense(), np.zeros(n), norm_bound=2.0)
    source = source.reweighted(basis, norm_bound=9.0, amplification=4096.0)
    total = summed(problem, "second_moment", np.zeros(p), source)
    found = problem.mean("second_moment", total)
    assert not np.array_equal(found.ravel(), total / n), "rows were turned"
    turned = exact_product(x.dense()[0].tolist(), basis)
    off = sum(
        float(Fraction(found[i, j]) - turned[i] * turned[j]) ** 2 for i, j in product(range(p), repeat=2)
    )
    room = problem.query("second_moment").room(Relation.REPLACE, n) / n
    assert 0.0 < 2.0 * np.sqrt(off) <= room
