"""Coded rows give the sums of the same rows written out, and no neighbour moves them by more."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from privfit.data.blocks import CodedBlock, CodedKernel
from privfit.data.clamp import schweppe_weights
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, summation_error
from privfit.data.source import ArraySource
from privfit.losses import Logistic, Multinomial, Poisson, Squared
from privfit.problem.coded_kernels import GROUP
from privfit.problem.query_kernels import query_kernel
from privfit.problem.rows import Rows
from privfit.problem.steep import SteepRows, steepens
from privfit.procedures.landscape import Landscape, Objective

from .conftest import LOSSES, asked, make_problem
from .test_neighbours import largest_parts

LAYOUT = Layout(8, True, (2, 1), plain=1, paired=1)
"""Constant, two numbers, a factor of three indicators, a product of a number with two levels."""

KINDS = (
    "gradient", "second_moment", "hessian", "meat", "secant", "bounded_gradient", "marginals", "sizes",
    "norms", "counts", "residuals", "labels",
)  # fmt: skip


def coded(rng, n, storage="float64"):
    x = CodedMatrix.empty(LAYOUT, n, storage)
    x.numbers[:] = rng.normal(size=(n, 3))
    x.codes[:, 0] = rng.choice([3, 4, 5, LAYOUT.none, LAYOUT.missing], n, p=[0.3, 0.3, 0.1, 0.29, 0.01])
    x.codes[:, 1] = rng.choice([6, 7, LAYOUT.none], n)
    return x


def responses(loss, rng, n):
    if loss.target_kind == "binary":
        return (rng.random(n) < 0.5).astype(float)
    if loss.target_kind == "count":
        return rng.poisson(1.0, n).astype(float)
    return rng.integers(0, 3, n).astype(float) if loss.target_kind == "class" else rng.normal(size=n)


def point(problem, rng, kind):
    at = 0.4 * rng.normal(size=problem.size)
    other = at + 0.1 * rng.normal(size=problem.size)
    if problem.loss.has_scale:
        at[-1] = other[-1] = 0.7
    return np.concatenate([at, other]) if kind == "secant" else at


def released(problem, kind, at, source):
    return problem.mean(kind, source.sum(query_kernel(problem, kind, at), problem.sum_length(kind)))


@pytest.mark.parametrize(("loss", "kind"), asked(*KINDS))
@pytest.mark.parametrize("turned", [False, True], ids=["encoded", "turned"])
def test_sums_are_those_of_rows_written_out(loss, kind, turned, rng):
    if kind == "marginals" and turned:
        pytest.skip("marginals are asked for in encoded coordinates")
    n = CHUNK_ROWS + 77
    x, y = coded(rng, n, rng.choice(["float64", "float32"])), responses(loss, rng, n)
    weighting = {"weighting": schweppe_weights} if loss.scales_rows else {}
    sources = [ArraySource(rows, y, norm_bound=1.8, **weighting) for rows in (x, x.dense())]
    problem = make_problem(loss, p=8, n_rows=n, norm_bound=1.8)
    if turned:
        basis = rng.normal(size=(8, 8))
        problem = replace(problem, basis=basis, norm_bound=2.0, amplification=30.0)
        sources = [one.reweighted(basis, norm_bound=2.0, amplification=30.0) for one in sources]
    at = point(problem, rng, kind)
    by_code, whole = (released(problem, kind, at, source) for source in sources)
    np.testing.assert_allclose(by_code, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["gradient", "hessian", "meat"])
@pytest.mark.parametrize("loss", [loss for loss in LOSSES if steepens(loss)], ids=lambda loss: loss.name)
def test_slopes_are_held_in_rows_by_code_too(loss, kind, rng):
    if kind == "hessian" and not loss.constants.smooth:
        pytest.skip("a loss with kinks has no Hessian")
    n, p = CHUNK_ROWS + 77, 8
    x, y, basis = coded(rng, n), responses(loss, rng, n), rng.normal(size=(p, p))
    steep = SteepRows(0.6, rng.normal(size=p), 0.2)
    problem = make_problem(loss, p=p, n_rows=n, basis=basis, steep=steep, amplification=30.0)
    sources = [
        ArraySource(rows, y, norm_bound=1.8).reweighted(
            basis, norm_bound=1.5, amplification=30.0, slopes=problem.slope_bounds
        )
        for rows in (x, x.dense())
    ]
    at = 2.0 * rng.normal(size=p)
    by_code, whole = (released(problem, kind, at, source) for source in sources)
    np.testing.assert_allclose(by_code, whole, rtol=1e-10, atol=1e-12)
    assert np.abs(whole - released(replace(problem, steep=None), kind, at, sources[1])).max() == 0.0


@pytest.mark.parametrize("kind", ["gradient", "meat"])
def test_a_held_gradient_is_that_of_a_loop_over_rows(kind, rng):
    n, p, loss = CHUNK_ROWS + 20, 3, Logistic()
    x, y = 2.0 * rng.normal(size=(n, p)), responses(loss, rng, n)
    basis, at = rng.normal(size=(p, p)), rng.normal(size=p)
    steep = SteepRows(0.6, rng.normal(size=p), 0.2)
    problem = make_problem(loss, p=p, n_rows=n, norm_bound=1.2, basis=basis, steep=steep, amplification=1e3)
    source = ArraySource(x, y, norm_bound=1e3).reweighted(
        basis, norm_bound=1.2, amplification=1e3, slopes=problem.slope_bounds
    )
    z = x @ basis
    size, reach = np.linalg.norm(z, axis=1), expit(np.abs(x @ steep.at) + 0.2)
    weight = np.minimum(np.minimum(1.0, (1.2 / size) ** 2), 0.6 * 1.2 / (size * reach))
    slope = expit(z @ at) - y
    cut = np.clip(slope, -0.6 * 1.2 / (weight * size), 0.6 * 1.2 / (weight * size))
    assert (cut != slope).sum() > 20
    scores = (weight * cut)[:, None] * z
    expected = scores.mean(axis=0) if kind == "gradient" else scores.T @ scores / n
    np.testing.assert_allclose(released(problem, kind, at, source), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "kind", ["gradient", "bounded_gradient", "marginals", "hessian", "meat", "second_moment"]
)
def test_several_classes_take_coded_rows_too(kind, rng):
    loss, n = Multinomial(3), CHUNK_ROWS + 50
    x, y = coded(rng, n), responses(Multinomial(3), rng, n)
    problem = make_problem(loss, p=8, n_rows=n, norm_bound=1.8)
    at = point(problem, rng, kind)
    sources = (ArraySource(rows, y, norm_bound=1.8) for rows in (x, x.dense()))
    by_code, whole = (released(problem, kind, at, source) for source in sources)
    np.testing.assert_allclose(by_code, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_sums_of_most_solvers_do_not_write_rows_out(kind, monkeypatch, rng):
    x, loss = coded(rng, 300), {"counts": Poisson(1.2, 4.0), "residuals": Squared(0.8)}.get(kind, LOSSES[0])
    source = ArraySource(x, responses(loss, rng, 300), norm_bound=1.8)
    monkeypatch.setattr(CodedMatrix, "dense", lambda _: pytest.fail("rows were written out"))
    problem = make_problem(loss, p=8, n_rows=300, norm_bound=1.8)
    kernel = query_kernel(problem, kind, point(problem, rng, kind))
    assert isinstance(kernel, CodedKernel)
    assert np.isfinite(source.sum(kernel, problem.sum_length(kind))).all()


@pytest.mark.parametrize("threads", ["1", "2", "5"])
@pytest.mark.parametrize("kind", ["gradient", "second_moment", "meat"])
def test_coded_sums_do_not_depend_on_the_number_of_threads(kind, threads, monkeypatch, rng):
    n = 9 * CHUNK_ROWS + 3
    source = ArraySource(coded(rng, n), responses(LOSSES[0], rng, n), norm_bound=1.5)
    problem = make_problem(LOSSES[0], p=8, n_rows=n)
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    one = released(problem, kind, np.ones(8), source)
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    np.testing.assert_array_equal(released(problem, kind, np.ones(8), source), one)


def test_a_random_sample_and_an_inner_minimiser_see_the_same_rows(rng):
    n = CHUNK_ROWS + 20
    x, y = coded(rng, n), responses(LOSSES[0], rng, n)
    problem = make_problem(LOSSES[0], p=8, n_rows=n, norm_bound=1.8, l2=0.1)
    problem = replace(problem, penalised=(True,) * 8)
    sample, at = rng.integers(0, n, CHUNK_ROWS + 9), rng.normal(size=8)
    rows = [Rows(problem, ArraySource(one, y, norm_bound=1.8)) for one in (x, x.dense())]
    sums = [one.sum_over(sample, "gradient", at) for one in rows]
    np.testing.assert_allclose(sums[0], sums[1], rtol=1e-10)
    assert not rows[0].sum_over(np.array([], dtype=np.int64), "gradient", at).any()
    objectives = [Objective(problem, one, np.zeros(8)) for one in rows]
    np.testing.assert_allclose(objectives[0].gradient(at), objectives[1].gradient(at), rtol=1e-10)
    assert Landscape.of(problem).size == 8


def extreme(loss, norm_bound):
    """All combinations of numbers on and beyond every bound with codes, and responses at the extremes."""
    layout = replace(LAYOUT, constant=False, size=7, columns=(1, 0))
    numbers = [
        (0.0, 0.0, 0.0),
        (norm_bound, 0, 0),
        (-norm_bound, 0, 0),
        (0, 0, norm_bound),
        (0, 0, -norm_bound),
    ]
    numbers += [
        (0.5, -0.5, 0.5),
        (1e3, 1e3, -1e3),
        (1e200, 0, 0),
        (np.nan, 0, 0),
        (0, np.inf, 0),
        (1e-9, 0, 0),
    ]
    ends = {"binary": (0.0, 1.0), "count": (0.0, 4.0, 1e9)}.get(loss.target_kind, (-1e9, -0.2, 0.3, 1e9))
    cells = [
        (row, code, pair, y)
        for row in numbers
        for code in (2, 4, layout.none, layout.missing)
        for pair in (5, 6, layout.none)
        for y in ends
    ]
    x = CodedMatrix.empty(layout, len(cells))
    x.numbers[:] = [row for row, *_ in cells]
    x.codes[:] = [(code, pair) for _, code, pair, _ in cells]
    x.numbers[x.codes[:, 1] == layout.none, 2] = 0.0
    return x, np.array([y for *_, y in cells])


@pytest.mark.parametrize(("loss", "kind"), asked(*KINDS))
@pytest.mark.parametrize("turned", [False, True], ids=["encoded", "turned"])
def test_no_neighbour_of_coded_rows_exceeds_the_sensitivity(loss, kind, turned, rng):
    if kind == "marginals" and turned:
        pytest.skip("marginals are asked for in encoded coordinates")
    problem = make_problem(loss, p=7, n_rows=5, norm_bound=1.5)
    x, y = extreme(loss, 1.5)
    source = ArraySource(x, y, norm_bound=1.5)
    if turned:
        basis = np.eye(7) + 0.4 * rng.normal(size=(7, 7))
        problem = replace(problem, basis=basis, norm_bound=1.2, amplification=40.0)
        source = source.reweighted(basis, norm_bound=1.2, amplification=40.0)
    alone = [source._block.part(slice(i, i + 1)) for i in range(source.n_rows)]
    at = point(problem, rng, kind)
    kernel = query_kernel(problem, kind, at)

    def of_code(row, out):
        assert isinstance(row, CodedBlock)
        if isinstance(kernel, CodedKernel):
            kernel(row, out)
        else:
            kernel(row.written_out(), out)

    largest = largest_parts(problem, kind, [at], alone, of_code)
    assert min(largest.values()) >= 0.1, "the rows do not come near the bound"


def test_the_compiled_sum_of_coded_gradients_is_within_the_bound_on_rounding(rng):
    """Equal terms of one sign, so that every rounding of a running sum goes the same way."""
    assert GROUP + CHUNK_ROWS // GROUP <= GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS
    n = 5 * CHUNK_ROWS + 11
    layout = Layout(3, True, (1,), plain=1)
    x = CodedMatrix.empty(layout, n)
    x.numbers[:], x.codes[:] = 1.0 / 3.0, 2
    source, theta = ArraySource(x, np.zeros(n), norm_bound=2.0), np.array([0.1, 0.2, 0.3])
    problem = make_problem(Logistic(), p=3, n_rows=n, norm_bound=2.0)
    found = source.sum(query_kernel(problem, "gradient", theta), 3)
    slope = 1.0 / (1.0 + np.exp(-np.longdouble(theta[0] + theta[1] / 3.0 + theta[2])))
    exact = n * slope * np.array([1.0, 1.0 / 3.0, 1.0], dtype=np.longdouble)
    terms = GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS
    of_slope = n * 4.0 * 2.0**-53  # what the slope itself may be off by, the same in every row
    assert np.linalg.norm((found - exact).astype(float)) <= summation_error(n, terms) * n * 1.5 + of_slope
