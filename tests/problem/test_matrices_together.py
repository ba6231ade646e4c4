"""Hessian and meat of one pass are those of two, bit by bit, so that what holds of one holds of both."""

from dataclasses import replace

import numpy as np
import pytest

from privfit.data.coded import CodedMatrix, Layout
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.losses import Logistic, Multinomial, Poisson, Squared
from privfit.losses.base import evaluate
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.problem import coded_moments
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.problem.query_kernels import matrices_kernel, query_kernel, share_rows
from privfit.problem.schedule import planned_release
from privfit.problem.totals import HESSIAN_AND_MEAT, matrices_total, query_total

from .conftest import HESSIANS, LOSSES, make_problem
from .test_coded_rows import coded, point, responses

N = 2 * CHUNK_ROWS + 77
OF_CLASSES = Multinomial(3)


class Counting:
    """Rows that count how often they are summed."""

    def __init__(self, source):
        self.source, self.passes = source, 0

    def __getattr__(self, name):
        return getattr(self.source, name)

    def sum(self, kernel, size):
        self.passes += 1
        return self.source.sum(kernel, size)


def together(problem, at, source):
    counting = Counting(source)
    found = matrices_total(problem, at)(counting)
    for kind, total in zip(HESSIAN_AND_MEAT, found, strict=True):
        np.testing.assert_array_equal(total, query_total(problem, kind, at)(source))
    return counting.passes


@pytest.mark.parametrize("loss", [*HESSIANS, OF_CLASSES], ids=lambda loss: loss.name)
@pytest.mark.parametrize("by_code", [False, True], ids=["dense", "by code"])
def test_they_are_the_sums_of_each(loss, by_code, rng):
    x, y = coded(rng, N), responses(loss, rng, N)
    source = ArraySource(x if by_code else x.dense(), y, norm_bound=1.8)
    problem = make_problem(loss, p=8, n_rows=N, norm_bound=1.8)
    one = loss.compiled and loss is not OF_CLASSES
    assert together(problem, point(problem, rng, "hessian"), source) == (1 if one else 2)


@pytest.mark.parametrize("loss", [loss for loss in HESSIANS if loss.compiled], ids=lambda loss: loss.name)
@pytest.mark.parametrize("by_code", [False, True], ids=["dense", "by code"])
@pytest.mark.parametrize("far", [0.1, 1e6], ids=["turned sums", "turned rows"])
def test_in_other_coordinates_too(loss, by_code, far, rng):
    x, y = coded(rng, N), responses(loss, rng, N)
    basis = np.eye(8) + far * np.triu(rng.normal(size=(8, 8)), 1)
    limits = {"norm_bound": 2.0, "amplification": 30.0 + 30.0 * far}
    rows = ArraySource(x if by_code else x.dense(), y, norm_bound=1.8).reweighted(basis, **limits)
    problem = replace(make_problem(loss, p=8, n_rows=N, norm_bound=1.8), basis=basis, **limits)
    assert (problem.row_basis("meat") is None) == (far == 0.1)
    assert together(problem, point(problem, rng, "hessian"), rows) == 1


@pytest.mark.parametrize("loss", [Logistic(), Poisson(2.0, 8.0)], ids=lambda loss: loss.name)
def test_curvatures_are_cut_in_both(loss, rng):
    x, y = coded(rng, N).dense(), responses(loss, rng, N)
    rows, most = ArraySource(x, y, norm_bound=1.8), 0.3 * loss.constants.curvature
    problem = make_problem(loss, p=8, n_rows=N, norm_bound=1.8, most_curved=most)
    at = point(problem, rng, "hessian")
    assert together(problem, at, rows) == 1
    (block,) = rows.blocks()
    curved = evaluate(loss.functions.curvature, block.y, block.x @ at, s=1.0, loss=loss)
    assert (curved > most).any()
    expected = (block.x.T * (block.weight * np.minimum(curved, most))) @ block.x / N
    found = problem.mean("hessian", rows.sum(query_kernel(problem, "hessian", at), 64))
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("p", "passes"), [(256, 1), (257, 2)])
def test_long_rows_are_summed_twice(p, passes, rng):
    x, y = rng.normal(size=(300, p)), rng.normal(size=300)
    problem = make_problem(Squared(1.0), p=p, n_rows=300, norm_bound=20.0)
    assert together(problem, point(problem, rng, "hessian"), ArraySource(x, y, norm_bound=20.0)) == passes


def test_scores_of_units_are_summed_on_their_own(rng):
    shares = RowShares(ShareRule("id"), np.ones(9), np.arange(9) // 2, 5)
    source = ArraySource(rng.normal(size=(9, 3)), np.zeros(9), norm_bound=1.5, shares=shares)
    problem = make_problem(Logistic(), n_rows=5, shares=ShareRule("id"))
    assert not share_rows(problem)
    assert together(problem, np.zeros(3), source) == 1  # of Hessians; of units by `ArraySource.sum_units`


@pytest.mark.parametrize("at", [np.zeros(4), np.zeros(2), np.array([0.0, np.nan, 0.0])])
def test_a_point_that_is_none_is_refused(at):
    with pytest.raises(PlanViolation, match="wrong shape or not finite"):
        matrices_kernel(make_problem(Logistic()), at)


def oracle_of(problem, source, noise, mu=1.0):
    parts = Allowance.gaussian(mu).split([1.0, 1.0, 2.0])
    kinds = ("hessian", "hessian", "meat")
    releases = tuple(planned_release(problem, kind, part) for kind, part in zip(kinds, parts, strict=True))
    columns, relation = problem.columns, problem.relation.value
    return Oracle(problem, Plan("m", "s", problem.n_rows, columns, relation, mu, releases, ()), source, noise)


def test_the_oracle_answers_each_with_its_own_noise(rng):
    x, y = rng.normal(size=(50, 3)), (rng.random(50) < 0.5).astype(float)
    problem, source, at = make_problem(Logistic(), n_rows=50), ArraySource(x, y, norm_bound=1.5), np.ones(3)
    first, second = (oracle_of(problem, source, make_source(7)) for _ in range(2))
    found = first.release_matrices(at)
    expected = [second.release(kind, at) for kind in HESSIAN_AND_MEAT]
    for one, other in zip(found, expected, strict=True):
        assert one.planned == other.planned
        np.testing.assert_array_equal(one.value, other.value)
        np.testing.assert_array_equal(one.at, at)
    assert first.released == tuple(found)
    assert first.remaining("hessian") == 1
    with pytest.raises(PlanViolation, match="no further meat"):
        first.release_matrices(at)
    assert first.remaining("hessian") == 1, "what is refused costs nothing"


@pytest.mark.parametrize("kind", HESSIAN_AND_MEAT)
def test_a_plan_that_understates_either_is_refused(kind, rng):
    problem = make_problem(Logistic(), n_rows=50)
    source = ArraySource(rng.normal(size=(50, 3)), np.zeros(50), norm_bound=1.5)
    plan = oracle_of(problem, source, NoNoise(), mu=np.inf).plan
    short = tuple(
        replace(one, sensitivity=0.999 * one.sensitivity) if one.kind == kind else one
        for one in plan.solver_releases
    )
    oracle = Oracle(problem, replace(plan, solver_releases=short), source, NoNoise())
    with pytest.raises(PlanViolation, match=f"understates the sensitivity of a {kind}"):
        oracle.release_matrices(np.zeros(3))
    assert not oracle.released


LAYOUTS = [
    (Layout(8, True, (2, 1), plain=1, paired=1), [(3, 4, 5), (6, 7)]),
    (Layout(8, False, (0, 5), plain=1, paired=2), [(1, 2), (3, 4), (6, 7)]),
    (Layout(9, True, (), plain=3, paired=0), [(7, 8), (1, 2, 3), (4, 5, 6)]),
    (Layout(9, False, (), plain=2, paired=0), [(0, 1, 2, 3, 4), (5, 6, 7, 8)]),
    (Layout(6, True, (4, 2, 3), plain=0, paired=1), [(1, 5)]),
    (Layout(6, False, (0, 1, 2), plain=2, paired=0), [(3,), (5, 4)]),
]
"""With the encoded columns of each code: a column has one code."""


@pytest.mark.parametrize(("layout", "columns"), LAYOUTS, ids=range(len(LAYOUTS)))
@pytest.mark.parametrize("rows", [1, 255, 4096])
def test_both_sums_of_products_are_those_of_rows_written_out(layout, columns, rows, rng):
    """Whatever the number of heads: none, odd, even."""
    x = CodedMatrix.empty(layout, rows, "float64")
    x.numbers[:] = rng.normal(size=x.numbers.shape)
    for k, places in enumerate(columns):
        x.codes[:, k] = rng.choice([*places, layout.none], rows)
    factors = [(rng.random(rows), None), (rng.random(rows), rng.normal(size=rows))]
    p, written = layout.size, x.dense()
    ((root, _), (other, last)) = factors
    ends = np.column_stack([other[:, None] * written, last])
    expected = (root[:, None] * written).T @ (root[:, None] * written), ends.T @ ends
    for given, wanted in ((factors[:1], expected[0]), (factors[1:], expected[1])):
        (found,) = coded_moments.coded_products(x, given)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    plain = coded_moments.coded_products(x, [(root, None), (other, None)])
    np.testing.assert_allclose(plain[0], expected[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(plain[1], expected[1][:p, :p], rtol=1e-12, atol=1e-12)


def test_every_loss_with_a_hessian_is_tried():
    assert {loss.compiled for loss in HESSIANS} == {True, False}
    assert any(loss.has_scale for loss in HESSIANS)
    assert len(HESSIANS) < len(LOSSES)
