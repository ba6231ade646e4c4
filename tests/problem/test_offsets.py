"""A known part of the linear predictor: sums are those with one more column, and no larger for a row."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from privfit.data.blocks import stacked
from privfit.data.caps import SlopeBounds
from privfit.data.declarations import NumericColumn
from privfit.data.exposure import Exposure, SeenExposures
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.losses import Logistic, Poisson
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise
from privfit.privacy.relation import Relation
from privfit.problem.clipped_kernels import clipped_gradient_kernel
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.problem.query_kernels import query_kernel
from privfit.problem.schedule import planned_release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.problem.steep import Reach, SteepRows

from .conftest import LOSSES, make_problem
from .test_coded_rows import coded, responses
from .test_neighbours import (
    P,
    answers_of_single_rows,
    bases,
    extreme_rows,
    largest_parts,
    one_by_one,
    parameters,
)

FAR = 1e6
"""Bound on rows that weights none of them down."""

COUNTED = [Poisson(1.2, 4.0), Logistic(), LOSSES[-2], LOSSES[-1]]
"""A loss of counts, one with slopes of its own in the loops, and functions from outside, one not compiled."""

KINDS = ("gradient", "hessian", "meat", "secant", "sizes", "bounded_gradient")


def beside(point, size):
    """Return a point with a coefficient of 1 for one more column, or two of them."""
    return np.concatenate([np.append(one, 1.0) for one in np.split(point, point.size // size)])


def without_last(found, kind, p):
    """Leave out what belongs to the last column."""
    if kind in ("gradient", "bounded_gradient"):
        return found[:p]
    return found[:p, :p] if kind in ("hessian", "meat") else found


@pytest.mark.parametrize("loss", COUNTED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_code", [False, True], ids=["numbers", "codes"])
def test_an_offset_is_one_more_column_with_a_coefficient_of_one(loss, kind, by_code, rng):
    n = CHUNK_ROWS + 77
    x = coded(rng, n) if by_code else np.column_stack([np.ones(n), rng.normal(size=(n, 3))])
    dense = x.dense() if by_code else x
    usable, p = np.isfinite(dense).all(axis=1), dense.shape[1]
    y, offset = responses(loss, rng, n), rng.normal(size=n)
    wide = np.column_stack([np.where(usable[:, None], dense, np.nan), offset])
    problem, wider = (make_problem(loss, p=k, n_rows=n, norm_bound=FAR) for k in (p, p + 1))
    at = 0.4 * rng.normal(size=2 * p if kind == "secant" else p)
    source = ArraySource(x, y, norm_bound=FAR, offset=offset)
    found = problem.mean(kind, source.sum(query_kernel(problem, kind, at), problem.sum_length(kind)))
    at = beside(at, p)
    known = ArraySource(wide, y, norm_bound=FAR).sum(query_kernel(wider, kind, at), wider.sum_length(kind))
    expected = without_last(wider.mean(kind, known), kind, p)
    assert np.abs(expected).max() > 0.0
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("loss", COUNTED, ids=lambda loss: loss.name)
def test_clipped_gradients_know_of_offsets(loss, rng):
    x, y, offset = rng.normal(size=(300, P)), responses(loss, rng, 300), rng.normal(size=300)
    at, clip = rng.normal(size=P), 1e6
    kernel = clipped_gradient_kernel(loss, at, clip)
    found = ArraySource(x, y, norm_bound=FAR, offset=offset).sum(kernel, P)
    kernel = clipped_gradient_kernel(loss, np.append(at, 1.0), clip)
    wide = ArraySource(np.column_stack([x, offset]), y, norm_bound=FAR).sum(kernel, P + 1)
    np.testing.assert_allclose(found, wide[:P], rtol=1e-10)
    without = ArraySource(x, y, norm_bound=FAR).sum(clipped_gradient_kernel(loss, at, clip), P)
    assert np.linalg.norm(found - without) > 0.01 * np.linalg.norm(found)


def with_offsets(problem, held=None):
    """Return the rows on and beyond every bound, each with known parts of every size, held perhaps."""
    rows = [(x, y, known) for x, y in extreme_rows(problem) for known in (-700.0, -2.0, 0.3, 800.0)]
    x, y, offset = (np.array(part) for part in zip(*rows, strict=True))
    source = ArraySource(x, y, norm_bound=make_problem(problem.loss).norm_bound, offset=offset)
    source = source if held is None else source.exposed(*held)
    if problem.basis is None:
        return one_by_one(source)
    bounds = {"norm_bound": problem.norm_bound, "amplification": problem.amplification}
    return one_by_one(source.reweighted(problem.basis, **bounds, slopes=problem.slope_bounds))


@pytest.mark.parametrize("loss", COUNTED, ids=lambda loss: loss.name)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", [0, 2], ids=["encoded", "skewed"])
def test_no_neighbour_exceeds_the_sensitivity_whatever_is_known_of_rows(loss, kind, which, rng):
    problem = make_problem(loss, n_rows=7)
    if which:
        problem = replace(problem, basis=bases()[which], norm_bound=2.0, amplification=40.0)
    largest = largest_parts(problem, kind, parameters(problem, rng, kind)[:2], with_offsets(problem))
    assert min(largest.values()) >= 0.4, "no row comes near the bound"


@pytest.mark.parametrize("kind", ["gradient", "meat"])
def test_no_neighbour_exceeds_the_sensitivity_where_slopes_are_held(kind, rng):
    steep = SteepRows(0.4, np.array([0.4, -1.0, 0.7]), 0.1)
    problem = make_problem(Poisson(1.2, 4.0), n_rows=7, steep=steep)
    problem = replace(problem, basis=bases()[2], norm_bound=2.0, amplification=40.0)
    largest = largest_parts(problem, kind, parameters(problem, rng, kind)[:2], with_offsets(problem))
    assert min(largest.values()) >= 0.4, "no row comes near the bound"


def test_rows_are_as_steep_as_they_are_with_their_known_parts(rng):
    loss, at = Poisson(2.0, 9.0), np.array([0.2, -0.4, 0.1])
    x, offset = rng.normal(size=(50, 3)), rng.normal(size=50)
    alone = Reach(loss, SteepRows(0.5, at, 0.3))
    beside = Reach(loss, SteepRows(0.5, np.append(at, 1.0), 0.3))
    np.testing.assert_allclose(alone(x, offset), beside(np.column_stack([x, offset])), rtol=1e-12)
    seen = []
    source = ArraySource(x, np.zeros(50), norm_bound=FAR, offset=offset)
    slopes = SlopeBounds(0.5, 1.0, lambda rows, known: seen.append(known) or np.ones(len(rows)))
    source.reweighted(np.eye(3), norm_bound=2.0, amplification=40.0, slopes=slopes)
    np.testing.assert_array_equal(np.concatenate(seen), offset)


def test_known_parts_go_with_their_rows(rng):
    x, y, offset = rng.normal(size=(90, 2)), np.zeros(90), rng.normal(size=90)
    source = ArraySource(x, y, norm_bound=FAR, offset=offset)
    (whole,) = source.blocks()
    np.testing.assert_array_equal(whole.offset, offset)
    np.testing.assert_array_equal(source.take(np.array([5, 2])).offset, offset[[5, 2]])
    turned = source.reweighted(np.eye(2), norm_bound=1.0, amplification=9.0)
    np.testing.assert_array_equal(turned.bounded.offset, offset)
    coins = rng.random(90) < 0.5
    np.testing.assert_array_equal(
        source.sampled(lambda size: coins[:size], 0.5).bounded.offset, offset[coins]
    )
    joined = stacked([whole.part(slice(0, 30)), whole.part(slice(30, 90))])
    np.testing.assert_array_equal(joined.offset, offset)
    by_code = ArraySource(coded(rng, 90), y, norm_bound=FAR, offset=offset)
    np.testing.assert_array_equal(by_code.take(np.array([7])).offset, offset[[7]])

    found = whole.predictors(np.array([1.0, -2.0]))
    np.testing.assert_allclose(found, x @ [1.0, -2.0] + offset, rtol=1e-12)


EXPOSURE = Exposure("years", NumericColumn(0.0, 6.0))


def exposed_problem(loss=None, **changes):
    return make_problem(loss or Poisson(1.2, 4.0), n_rows=7, exposure=EXPOSURE, constant=(0,), **changes)


def test_shares_are_those_of_the_exposures(rng):
    years = np.concatenate([6.0 * 2.0 ** rng.uniform(-12.0, 0.0, 4000), [6.0]])
    x = np.ones((4001, P))
    x[:7] = np.nan
    for constant, center in (((0,), 3.0), ((), 1.0)):
        problem = replace(exposed_problem(), constant=constant)
        source = ArraySource(x, np.zeros(4001), norm_bound=FAR, offset=np.log(years / center))
        found = source.sum(query_kernel(problem, "exposures", np.zeros(P)), problem.sum_length("exposures"))
        edges = 6.0 * 2.0 ** (np.arange(1 - NORM_CLASSES, 0.0) / NORMS_A_DOUBLING)
        wanted = np.bincount(np.searchsorted(edges, years[7:]), minlength=NORM_CLASSES)
        np.testing.assert_allclose(found, wanted, atol=1)
        assert found.sum() == 3994
    with pytest.raises(PlanViolation, match="without exposures"):
        query_kernel(make_problem(Poisson(1.2, 4.0), n_rows=7), "exposures", np.zeros(P))


@pytest.mark.parametrize("pure", [False, True])
def test_no_row_changes_shares_of_exposures_by_more_than_the_sensitivity(pure):
    problem = exposed_problem()
    parts = 7.0 * answers_of_single_rows(problem, "exposures", np.zeros(P), with_offsets(problem))
    apart = pdist(parts, "cityblock" if pure else "euclidean").max()
    assert apart / 7 <= problem.sensitivity("exposures", pure=pure) <= (apart / 7) * (1.0 + 1e-6)
    added = replace(problem, relation=Relation.ADD_REMOVE).sensitivity("exposures", pure=pure)
    assert max(np.linalg.norm(one, 1 if pure else 2) for one in parts) / 7 <= added < 0.75 * apart / 7


def test_exposures_are_held_and_their_counts_with_them(rng):
    """As if the events beyond had been left out in proportion; rows that count nothing stay as they are."""
    x, y, years = rng.normal(size=(50, 2)), rng.poisson(3.0, 50).astype(float), rng.uniform(0.1, 6.0, 50)
    x[3] = np.nan
    source = ArraySource(x, y, norm_bound=FAR, offset=np.log(years / 3.0))
    (before,), (found,) = source.blocks(), source.exposed(0.7, math.log(4.0 / 3.0)).blocks()
    held = np.minimum(years, 4.0)
    np.testing.assert_allclose(found.offset, np.log(held / 3.0) + 0.7, rtol=1e-12)
    np.testing.assert_allclose(found.y, before.y * held / years, rtol=1e-12)
    np.testing.assert_array_equal(found.weight, before.weight)
    assert found.weight[3] == 0.0
    same = source.exposed(0.0, math.inf)
    np.testing.assert_array_equal(same.bounded.y, before.y)
    np.testing.assert_array_equal(same.bounded.offset, before.offset)
    with pytest.raises(PlanViolation, match="without exposures"):
        ArraySource(x, y, norm_bound=FAR).exposed(0.0, 1.0)


@pytest.mark.parametrize("kind", ["gradient", "hessian", "meat"])
def test_no_neighbour_exceeds_the_sensitivity_where_exposures_are_held(kind, rng):
    problem = exposed_problem()
    held = with_offsets(problem, (0.4, 0.1))
    largest = largest_parts(problem, kind, parameters(problem, rng, kind)[:2], held)
    assert min(largest.values()) >= 0.4, "no row comes near the bound"


def test_an_oracle_goes_on_with_held_exposures_of_its_problem_alone(rng):
    problem = replace(exposed_problem(), n_rows=60)
    x, years = np.column_stack([np.ones(60), rng.normal(size=(60, P - 1))]), rng.uniform(0.1, 6.0, 60)
    y, at = rng.poisson(years).astype(float), 0.1 * rng.normal(size=P)
    planned = planned_release(problem, "gradient", Allowance(math.inf))
    plan = Plan("m", "s", 60, problem.columns, "replace", math.inf, (planned,) * 2, ())
    norm_bound = problem.norm_bound
    source = ArraySource(x, y, norm_bound=norm_bound, offset=np.log(years / 3.0))
    oracle = Oracle(problem, plan, source, NoNoise())
    before = oracle.release("gradient", at).value
    seen = replace(EXPOSURE, seen=SeenExposures(2.0, 4.0, 0.3, (2.2, 0.4)))
    for wrong in (replace(seen, name="months"), replace(seen, column=NumericColumn(0.0, 7.0))):
        with pytest.raises(PlanViolation, match="held to what is seen"):
            oracle.hold_exposures(wrong)
    oracle.hold_exposures(seen)
    held = np.minimum(years, 4.0)
    again = ArraySource(x, y * held / years, norm_bound=norm_bound, offset=np.log(held / 2.0))
    expected = Oracle(problem, plan, again, NoNoise()).release("gradient", at).value
    found = oracle.release("gradient", at).value
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.abs(found - before).max() > 0.01
    assert oracle.problem.exposure == seen
    oracle.problem = replace(oracle.problem, basis=np.eye(P))
    with pytest.raises(PlanViolation, match="in encoded coordinates"):
        oracle.hold_exposures(seen)
    without = replace(problem, exposure=None)
    with pytest.raises(PlanViolation, match="held to what is seen"):
        Oracle(without, plan, source, NoNoise()).hold_exposures(seen)
