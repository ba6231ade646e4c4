"""Rows that are kept as numbers alone give the sums of the same rows written out, and are bounded as kept."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privfit.data.blocks import CodedKernel
from privfit.data.clamp import schweppe_weights
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, summation_error
from privfit.data.source import ArraySource
from privfit.losses import Logistic
from privfit.problem.query_kernels import query_kernel
from privfit.problem.steep import SteepRows, steepens

from .conftest import LOSSES, OF_EVERY_KIND, asked, make_problem
from .test_coded_rows import KINDS, point, released, responses
from .test_neighbours import TIGHT, P, bases, extreme_rows, largest_parts, parameters

STORED = ("float64", "float32")


def numbers(x, storage="float32", *, constant=True):
    """Return rows (n, k), behind a constant or not, as they are kept."""
    size = x.shape[1] + constant
    layout = Layout(size, constant, tuple(range(int(constant), size)))
    with np.errstate(over="ignore"):
        stored = x.astype(storage)
    return CodedMatrix(layout, stored, np.empty((len(x), 0), np.uint8))


@pytest.mark.parametrize(("loss", "kind"), asked(*KINDS))
@pytest.mark.parametrize("turn", [None, "moved", "turned"])
def test_sums_are_those_of_rows_written_out(loss, kind, turn, rng):
    if kind == "marginals" and turn is not None:
        pytest.skip("marginals are asked for in encoded coordinates")
    n, p = CHUNK_ROWS + 77, int(rng.integers(2, 12))
    raw = rng.normal(size=(n, p - 1))
    raw[3, 0], raw[5, -1] = np.nan, np.inf
    x, y = numbers(raw, rng.choice(STORED)), responses(loss, rng, n)
    weighting = {"weighting": schweppe_weights} if loss.scales_rows else {}
    sources = [ArraySource(rows, y, norm_bound=1.8, **weighting) for rows in (x, x.dense())]
    problem = make_problem(loss, p=p, n_rows=n, norm_bound=1.8)
    if turn is not None:
        basis = np.diag(rng.uniform(0.5, 2.0, p))
        basis[0, 1:] = rng.normal(size=p - 1)
        basis = basis if turn == "moved" else basis @ rng.normal(size=(p, p))
        problem = replace(problem, basis=basis, norm_bound=2.0, amplification=30.0)
        sources = [one.reweighted(basis, norm_bound=2.0, amplification=30.0) for one in sources]
    at = point(problem, rng, kind)
    kept, whole = (released(problem, kind, at, source) for source in sources)
    rounding = 1e-6 if loss.scales_rows else 1e-10  # rows that are scaled are stored once more
    np.testing.assert_allclose(kept, whole, rtol=rounding, atol=rounding * np.abs(whole).max())


STORED_AND_TURNED = [
    pytest.param(*case.values, which, storage, id=f"{name}-{storage}-{case.id}")
    for name, which, storage in [("encoded", 0, "float32"), *(("skewed", 2, one) for one in STORED)]
    for case in asked(*KINDS)
    if (name, storage) == ("skewed", "float32") or case.values[0] in OF_EVERY_KIND
    if which == 0 or case.values[1] != "marginals"
]
"""All losses in other coordinates and single precision, a few without either; marginals as encoded only."""


@pytest.mark.parametrize(("loss", "kind", "which", "storage"), STORED_AND_TURNED)
def test_no_neighbour_exceeds_the_sensitivity(loss, kind, which, storage, rng):
    """Cells include such as single precision makes infinite, rows such as it moves beyond the bound."""
    problem = make_problem(loss, n_rows=7)
    basis = bases()[which]
    if basis is not None:
        problem = replace(problem, basis=basis, norm_bound=2.0, amplification=40.0)
    rows = [*extreme_rows(problem), (np.array([3.0e38, 3.0e38, -3.0e38]), 1.0), (np.full(P, 1e39), 1.0)]
    x = numbers(np.array([row for row, _ in rows]), storage, constant=False)
    source = ArraySource(x, np.array([y for _, y in rows]), norm_bound=make_problem(loss).norm_bound)
    if basis is not None:
        source = source.reweighted(basis, norm_bound=2.0, amplification=40.0)
    stored = [source._block.part(slice(i, i + 1)) for i in range(source.n_rows)]
    written = [row.written_out() for row in stored]
    largest: dict = {}
    for at in parameters(problem, rng, kind):
        kernel = query_kernel(problem, kind, at)
        alone = stored if isinstance(kernel, CodedKernel) else written
        parts = largest_parts(problem, kind, [at], alone, kernel)
        largest = {relation: max(part, largest.get(relation, 0.0)) for relation, part in parts.items()}
    assert min(largest.values()) >= TIGHT.get(kind, 0.75), "the bound is not tight"


@pytest.mark.parametrize("norm_bound", [0.7, 1.9, 5.0])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if steepens(loss)][:2], ids=lambda loss: loss.name)
def test_rows_are_bounded_as_they_are_kept(norm_bound, loss, rng):
    """In exact arithmetic, where rounding to what is kept moves rows beyond the bound."""
    directions = rng.normal(size=(300, 4))
    raw = directions * (norm_bound / np.linalg.norm(directions, axis=1))[:, None]
    source = ArraySource(numbers(raw, constant=False), np.zeros(300), norm_bound=norm_bound)
    basis = rng.normal(size=(4, 4))
    limits = [("influence", np.eye(4), norm_bound, source._block)]
    turned = source.reweighted(
        basis,
        norm_bound=1.1,
        amplification=1e9,
        slopes=SteepRows(0.5, np.ones(4), 0.1).bounds(loss, 0.5 * loss.constants.slope * 1.1),
    )
    limits.append(("turned", basis, 1.1, turned._block))
    for _, coordinates, bound, block in limits:
        rows = block.written_out()
        exact = [[Fraction(v) for v in row] for row in coordinates.T]
        for x, weight in zip(rows.x[:100], rows.weight[:100], strict=True):
            assert (x == x.astype(np.float32)).all()
            turned_row = [sum(a * Fraction(b) for a, b in zip(line, x, strict=True)) for line in exact]
            assert Fraction(weight) * sum(v * v for v in turned_row) <= Fraction(bound) ** 2


def test_cells_beyond_single_precision_make_a_row_unusable_as_infinite_ones_do(rng):
    raw = rng.normal(size=(6, 3))
    raw[1, 2], raw[2, 0], raw[4, 1] = 1e39, -1e300, np.inf
    source = ArraySource(numbers(raw), np.ones(6), norm_bound=2.0)
    np.testing.assert_array_equal(source._block.weight > 0, [True, False, False, True, False, True])
    unusable = source._block.part(np.array([1, 2, 4])).written_out()
    np.testing.assert_array_equal(unusable.x[:, 1:], 0.0)


@pytest.mark.parametrize("storage", STORED)
def test_the_sum_of_gradients_is_within_the_bound_on_rounding(storage):
    """Equal terms of one sign, so that every rounding of a running sum goes the same way."""
    n, p = 5 * CHUNK_ROWS + 11, 6
    x = numbers(np.full((n, p - 1), 1.0 / 3.0), storage)
    third = np.longdouble(x.numbers[0, 0])
    source, theta = ArraySource(x, np.zeros(n), norm_bound=2.0), np.full(p, 0.1)
    problem = make_problem(Logistic(), p=p, n_rows=n, norm_bound=2.0)
    found = source.sum(query_kernel(problem, "gradient", theta), p)
    slope = 1.0 / (1.0 + np.exp(-np.longdouble(0.1) * (1.0 + (p - 1) * third)))
    exact = n * slope * np.array([1.0, *[third] * (p - 1)], dtype=np.longdouble)
    off = np.linalg.norm((found - exact).astype(float))
    of_slope = n * 4.0 * 2.0**-53 * np.sqrt(p)
    assert off <= summation_error(n, GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS) * n * 1.5 + of_slope


def test_rows_times_factors_stay_numbers(rng):
    x, factor = numbers(rng.normal(size=(5, 3))), rng.uniform(0.1, 2.0, 5)
    scaled = x.scaled(factor)
    assert scaled.layout.numeric
    assert scaled.numbers.dtype == np.float32
    np.testing.assert_allclose(scaled.dense(), x.dense() * factor[:, None], rtol=1e-6)
