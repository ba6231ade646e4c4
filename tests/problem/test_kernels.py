"""Kernels against plain NumPy, and against the derivative of the objective."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from privfit.data.blocks import Block
from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, summation_error
from privfit.data.source import ArraySource
from privfit.errors import Incompatible, PlanViolation
from privfit.losses import ConcomitantHuber, Custom, Hinge, Huber, Logistic, Quantile, Sigmoid, Squared
from privfit.losses.base import evaluate
from privfit.problem.bounded_kernels import bounded_gradient_kernel
from privfit.problem.kernels import gradient_kernel, second_moment_kernel
from privfit.problem.query_kernels import query_kernel
from privfit.problem.share_kernels import (
    CLASSES,
    NORM_CLASSES,
    SIDE_CLASSES,
    SIZE_CLASSES,
    SIZE_ORIGIN,
    counts_kernel,
    labels_kernel,
    norms_kernel,
    residuals_kernel,
    sizes_kernel,
)

from .conftest import HESSIANS, LOSSES, asked, make_problem


def table(loss, rng, n):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = {
        "binary": lambda: rng.integers(0, 2, n).astype(float),
        "numeric": lambda: rng.normal(size=n),
        "count": lambda: rng.poisson(1.0, n).astype(float),
    }[loss.target_kind]()
    return x, y


def objective(problem, source, x, y, parameter):
    weight = np.minimum(1.0, (1.5**2) / np.sum(x * x, axis=1))
    theta, s = problem.split(parameter)
    values = evaluate(problem.loss.functions.value, y, x @ theta, s=s, loss=problem.loss)
    return float(np.mean(weight * values))


@pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if not isinstance(loss, Custom)], ids=lambda loss: loss.name
)
@pytest.mark.parametrize("n", [1, CHUNK_ROWS, CHUNK_ROWS + 1, 3 * CHUNK_ROWS + 17])
def test_gradient_is_the_derivative_of_the_objective(loss, n, rng):
    x, y = table(loss, rng, n)
    source, problem = ArraySource(x, y, norm_bound=1.5), make_problem(loss, n_rows=n)
    at = 0.3 * rng.normal(size=problem.size)
    if loss.has_scale:
        at[-1] = 0.8
    gradient = problem.mean("gradient", source.sum(query_kernel(problem, "gradient", at), problem.size))
    h = 1e-6
    numeric = [
        (objective(problem, source, x, y, at + h * e) - objective(problem, source, x, y, at - h * e))
        / (2 * h)
        for e in np.eye(problem.size)
    ]
    np.testing.assert_allclose(gradient, numeric, atol=2e-6 * (1 if n > 1 else 10))


@pytest.mark.parametrize("columns", [1, 5, 7, 8, 9, 15, 16, 17, 50])
@pytest.mark.parametrize("n", [1, 7, 8, 64 + 13, CHUNK_ROWS + 71])
def test_gradient_matches_numpy_at_any_width(columns, n, rng):
    x, y = rng.normal(size=(n, columns)), rng.integers(0, 2, n).astype(float)
    theta = rng.normal(size=columns) / columns
    source = ArraySource(x, y, norm_bound=2.0)
    weight = next(source.blocks()).weight
    expected = x.T @ (weight * (1.0 / (1.0 + np.exp(-x @ theta)) - y))
    found = source.sum(gradient_kernel(Logistic(), theta, 1.0), columns)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-13 * n)


@pytest.mark.parametrize("columns", [3, 8, 13, 50])
def test_gradient_loses_no_more_than_the_bound_on_rounding_says(columns, rng):
    n = 3 * CHUNK_ROWS + 17
    x = rng.normal(size=(n, columns)) * np.exp(3.0 * rng.normal(size=(n, 1)))
    y, bound = np.full(n, 1e9), 2.0  # every slope is at the bound, -1
    source = ArraySource(x, y, norm_bound=bound)
    block = next(source.blocks())
    found = source.sum(gradient_kernel(Huber(1.0), np.zeros(columns), 1.0), columns)
    terms = -block.weight[:, None] * block.x
    exact = np.array([math.fsum(column) for column in terms.T])
    error = summation_error(n, GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS) * n * bound
    assert np.linalg.norm(found - exact) <= error


def _sizes(order, n, rng):
    """Lengths of rows in orders that are hard on sums: their bits fall off the end as the sum grows."""
    one = np.ones(n)
    spread = np.exp(rng.uniform(-40.0, 0.0, n))
    match order:
        case "equal":
            return one / 3.0
        case "growing":
            return np.sort(spread)
        case "shrinking":
            return np.sort(spread)[::-1]
        case "cancelling":
            return np.where(np.arange(n) % 2, -1.0, 1.0) * (1.0 + np.repeat(spread, 2)[:n] / 3.0) / 2.0
        case "one large, then small":
            return np.where(np.arange(n) % CHUNK_ROWS == 0, 1.0, 2.0**-54)
        case _:
            return np.where(np.arange(n) % GROUP_ROWS < GROUP_ROWS // 2, 1.0 / 3.0, -1.0 / 3.0)


ORDERS = ("equal", "growing", "shrinking", "cancelling", "one large, then small", "cancelling in blocks")


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("columns", [3, 13])
def test_no_order_of_the_rows_loses_more_than_the_bound_on_rounding_says(order, columns, rng):
    n, bound = 3 * CHUNK_ROWS + 17, 1.0
    direction = rng.normal(size=columns)
    x = _sizes(order, n, rng)[:, None] * (direction / np.linalg.norm(direction) * (1.0 - 1e-9))
    source = ArraySource(x, np.full(n, 1e9), norm_bound=bound)
    assert next(source.blocks()).weight.min() == 1.0
    gradient = source.sum(gradient_kernel(Huber(1.0), np.zeros(columns), 1.0), columns)
    exact = np.array([math.fsum(-column) for column in x.T])
    few = summation_error(n, GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS) * n * bound
    assert np.linalg.norm(gradient - exact) <= few
    moments = source.sum(second_moment_kernel(None), columns**2)
    products = (x[:, :, None] * x[:, None, :]).reshape(n, -1)
    exact = np.array([math.fsum(column) for column in products.T])
    assert np.linalg.norm(moments - exact) <= summation_error(n) * n * bound**2


CLAMPS = {"slope": lambda c: (-c.slope, c.slope), "curvature": lambda c: (0.0, c.curvature)}


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_matrices_match_numpy(loss, rng):
    n = CHUNK_ROWS + 100
    x, y = table(loss, rng, n)
    source, problem = ArraySource(x, y, norm_bound=1.5), make_problem(loss, n_rows=n)
    at = 0.3 * rng.normal(size=problem.size)
    if loss.has_scale:
        at[-1] = 0.8
    theta, s = problem.split(at)
    weight = np.minimum(1.0, 1.5**2 / np.sum(x * x, axis=1))

    def of(name):
        values = evaluate(getattr(loss.functions, name), y, x @ theta, s=s, loss=loss)
        return np.nan_to_num(np.clip(values, *CLAMPS[name](loss.constants)) if name in CLAMPS else values)

    def rows(main, side):
        return np.column_stack([main[:, None] * x, side]) if loss.has_scale else main[:, None] * x

    def released(kind):
        return problem.mean(kind, source.sum(query_kernel(problem, kind, at), problem.sum_length(kind)))

    if loss in HESSIANS:
        root = np.sqrt(weight * of("curvature"))
        a = rows(root, root * of("scale_direction"))
        np.testing.assert_allclose(released("hessian"), a.T @ a / n, atol=1e-12)
    b = rows(weight * of("slope"), weight * of("scale_slope"))
    np.testing.assert_allclose(released("meat"), b.T @ b / n, atol=1e-12)
    np.testing.assert_allclose(released("gradient"), b.mean(axis=0), atol=1e-12)
    z = np.sqrt(weight)[:, None] * x
    np.testing.assert_allclose(released("second_moment"), z.T @ z / n, atol=1e-12)


def slow_step(loss, y, eta, s, room):
    """The factor of one row in a bounded gradient, a step at a time."""
    most, (c, k) = loss.constants.slope, loss.parameters
    slope = float(loss.functions.slope(y, eta, s, c, k))
    if math.isnan(slope):
        return 0.0
    slope = min(max(slope, -most), most)
    if loss.symmetric:
        return math.copysign(min(abs(slope), room), slope)
    reach = min(float(loss.functions.reach(y, eta, s, c, k)), most)
    return slope if reach <= room else slope * room / reach


@pytest.mark.parametrize("p", [7, 8, 9, 16, 51])
@pytest.mark.parametrize("n", [5, 71, CHUNK_ROWS + 45])
@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8), ConcomitantHuber()], ids=lambda loss: loss.name)
def test_gradients_of_wide_rows_match_a_loop_over_rows(loss, n, p, rng):
    """Rows of eight columns and more are taken eight at a time."""
    _, y = table(loss, rng, n)
    x, norm_bound = rng.normal(size=(n, p)), 0.6 * math.sqrt(p)
    x[n // 2, 1] = np.inf
    problem = make_problem(loss, p=p, n_rows=n, norm_bound=norm_bound)
    source = ArraySource(x, y, norm_bound=norm_bound)
    at = np.append(0.3 * rng.normal(size=p), [0.7] * loss.has_scale)
    usable = np.isfinite(x).all(axis=1)
    rows, weight = x[usable], np.minimum(1.0, norm_bound**2 / np.sum(x[usable] ** 2, axis=1))
    s = problem.split(at)[1]
    predicted = zip(y[usable], rows @ at[:p], strict=True)
    pairs = [(a, slow_step(loss, a, b, s, np.inf), b) for a, b in predicted]
    room = np.sqrt(weight) / norm_bound
    bounded = [slow_step(loss, a, b, s, one) for (a, _, b), one in zip(pairs, room, strict=True)]
    for kind, steps in (("gradient", weight * [step for _, step, _ in pairs]), ("bounded_gradient", bounded)):
        found = source.sum(query_kernel(problem, kind, at), problem.sum_length(kind))
        np.testing.assert_allclose(found[:p], rows.T @ steps, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("norm_bound", [2.0**-8, 1.3, 6.0])
def test_bounded_gradients_match_a_loop_over_rows(loss, norm_bound, rng):
    n = CHUNK_ROWS + 300
    x, y = table(loss, rng, n)
    x[:40] *= 1e4
    basis = rng.normal(size=(3, 3))
    problem = replace(
        make_problem(loss, n_rows=n), basis=basis, norm_bound=norm_bound, amplification=1e9 * norm_bound
    )
    source = ArraySource(x, y, norm_bound=1e9).reweighted(
        basis, norm_bound=norm_bound, amplification=problem.amplification
    )
    phi = 0.2 * rng.normal(size=problem.size)
    if loss.has_scale:
        phi[-1] = 0.7
    s = problem.split(phi)[1]
    expected = np.zeros(problem.size)
    for row, response in zip(x, y, strict=True):
        z = basis.T @ row
        room = 1.0 / max(float(np.linalg.norm(z)), norm_bound)
        if not loss.compiled:  # such losses take arrays
            arrays = np.array([response]), np.array([z @ phi[:3]])
            with np.errstate(all="ignore"):
                slope = float(loss.functions.slope(*arrays, s, *loss.parameters)[0])
            most = loss.constants.slope
            step = 0.0 if math.isnan(slope) else min(max(slope, -most), most) * min(1.0, room / most)
        else:
            step = slow_step(loss, response, float(z @ phi[:3]), s, room)
        expected[:3] += step * z / n
        if loss.has_scale:
            expected[3] += loss.functions.scale_slope(response, float(z @ phi[:3]), s, *loss.parameters) / n
    total = source.sum(query_kernel(problem, "bounded_gradient", phi), problem.size)
    np.testing.assert_allclose(problem.mean("bounded_gradient", total), expected, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_marginals_match_numpy(loss, rng):
    n, bound = CHUNK_ROWS + 300, 1.5
    x, y = table(loss, rng, n)
    problem = make_problem(loss, n_rows=n, norm_bound=bound)
    source = ArraySource(x, 3.0 * y, norm_bound=bound)
    weight = np.minimum(1.0, bound**2 / np.sum(x * x, axis=1))
    low, high = problem.response_range
    u = np.clip((3.0 * y - 0.5 * (low + high)) / (0.5 * (high - low)), -1.0, 1.0)
    expected = weight @ np.column_stack([x, x * x / bound, bound * u, bound * u * u]) / n
    total = source.sum(query_kernel(problem, "marginals", np.array(problem.start)), 2 * 3 + 2)
    np.testing.assert_allclose(problem.mean("marginals", total), expected, atol=1e-12)


@pytest.mark.parametrize("eta", [-4.0, -0.3, 0.0, 1.5, 12.0])
@pytest.mark.parametrize("room", [2.0, 0.7, 0.05, 1e-4])
def test_a_bounded_score_has_no_bias_where_a_logit_is_right(eta, room):
    """Its weight depends on the predictor alone; a cut of the slope at the same room would be biased."""
    share, row = 1.0 / (1.0 + math.exp(-eta)), np.array([[1.0 / room]])
    problem = make_problem(Logistic(), p=1, n_rows=1, norm_bound=2.0**-20)
    mean = 0.0
    for y, chance in ((0.0, 1.0 - share), (1.0, share)):
        source = ArraySource(row, np.array([y]), norm_bound=2.0**-20)
        step = room * source.sum(query_kernel(problem, "bounded_gradient", np.array([eta * room])), 1)[0]
        assert step == pytest.approx(slow_step(Logistic(), y, eta, 1.0, room), rel=1e-9)
        mean += chance * step
    assert abs(mean) < 1e-13
    if room < 0.05 and 0.1 < abs(eta) < 5.0:
        cut = (1.0 - share) * min(share, room) - share * min(1.0 - share, room)
        assert abs(cut) > 0.1 * room


@pytest.mark.parametrize(("loss", "kind"), asked("gradient", "hessian", "meat", "second_moment"))
def test_a_basis_is_the_same_as_transformed_rows(loss, kind, rng):
    """Sums in a basis equal the plain sums of the rows ``P'x``."""
    n = 200
    x, y = table(loss, rng, n)
    basis = rng.normal(size=(3, 3))
    bound, far = 1.3, 1e6
    problem = replace(make_problem(loss, n_rows=n), basis=basis, norm_bound=bound, amplification=far)
    source = ArraySource(x, y, norm_bound=1e3).reweighted(basis, norm_bound=bound, amplification=far)
    plain = make_problem(loss, n_rows=n, norm_bound=bound)
    turned = ArraySource(x @ basis, y, norm_bound=bound)
    phi = 0.2 * rng.normal(size=problem.size)
    if loss.has_scale:
        phi[-1] = 0.7
    in_basis = problem.mean(kind, source.sum(query_kernel(problem, kind, phi), problem.sum_length(kind)))
    direct = plain.mean(kind, turned.sum(query_kernel(plain, kind, phi), plain.sum_length(kind)))
    np.testing.assert_allclose(in_basis, direct, atol=1e-9)


@pytest.mark.parametrize("threads", ["1", "2", "3"])
def test_sums_do_not_depend_on_the_number_of_threads(threads, monkeypatch, rng):
    loss = LOSSES[0]
    x, y = table(loss, rng, 5 * CHUNK_ROWS + 3)
    problem = make_problem(loss, n_rows=len(y))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    source = ArraySource(x, y, norm_bound=1.5)
    one = source.sum(query_kernel(problem, "gradient", np.ones(3)), 3)
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    np.testing.assert_array_equal(source.sum(query_kernel(problem, "gradient", np.ones(3)), 3), one)


@pytest.mark.parametrize(
    ("loss", "remedy"),
    [
        (Hinge(), "SmoothedHinge"),
        (Quantile(), "SmoothedQuantile"),
        (
            Custom(lambda y, eta: abs(eta), lambda y, eta: np.sign(eta), slope_bound=1.0, vectorized=True),
            "finite curvature",
        ),
        (Sigmoid(), "RandomRoundSGD"),
    ],
)
def test_a_loss_without_a_hessian_says_what_to_take(loss, remedy):
    problem = make_problem(loss)
    with pytest.raises(Incompatible, match=remedy):
        problem.query("hessian")
    with pytest.raises(Incompatible, match="inference=False"):
        problem.sensitivity("hessian")
    assert np.isfinite([problem.sensitivity(kind) for kind in ("gradient", "meat", "second_moment")]).all()


def test_array_and_compiled_functions_give_the_same_sums(rng):
    compiled, arrays = LOSSES[-2:]
    x, y = table(compiled, rng, CHUNK_ROWS + 130)
    source, at = ArraySource(x, y, norm_bound=1.5), np.array([0.2, -0.4, 0.1])
    for kind in ("gradient", "hessian", "meat", "secant"):
        at = np.concatenate([at, -at]) if kind == "secant" else at
        sums = []
        for loss in (compiled, arrays):
            problem = make_problem(loss, n_rows=len(y))
            sums.append(source.sum(query_kernel(problem, kind, at), problem.sum_length(kind)))
        np.testing.assert_allclose(sums[0], sums[1], rtol=1e-12, atol=1e-12)


def test_norms_are_counted_in_the_class_that_their_weight_belongs_to_exactly():
    edges = np.array([2.0 ** (-0.5 * k) for k in range(2 * NORM_CLASSES)])
    weights = np.concatenate([edges, np.nextafter(edges, 0.0), np.nextafter(edges[1:], 1.0), [1e-300]])
    kernel = norms_kernel()
    for weight in weights:
        block = Block(np.zeros((1, 1)), np.zeros(1), np.array([weight]))
        counts = np.zeros((1, NORM_CLASSES))
        kernel(block, counts)
        k = int(np.argmax(counts[0]))
        inverse = Fraction(float(weight)) ** -2  # the fourth power of how long the row is
        assert counts.sum() == 1.0
        assert Fraction(2) ** k <= inverse
        assert inverse < Fraction(2) ** (k + 1) or k == NORM_CLASSES - 1
    kernel(Block(np.zeros((1, 1)), np.zeros(1), np.zeros(1)), counts[:])
    assert counts.sum() == 1.0


def classes_of(kernel, classes, y, influence=1.0):
    """Return the classes of rows with predictor 1, None for those in none."""
    found = []
    for response in y:
        counts = np.zeros((1, classes))
        kernel(Block(np.ones((1, 1)), np.array([response]), np.array([influence])), counts)
        assert counts.sum() in (0.0, 1.0)
        found.append(int(np.argmax(counts)) if counts.any() else None)
    return found


def around(edges):
    """Return numbers just below, on and just above edges that are doubles."""
    return np.concatenate([np.nextafter(edges, 0.0), edges, np.nextafter(edges, np.inf)])


@pytest.mark.parametrize("influence", [1.0, 2.0**-6, 2.0**-12])
def test_sizes_are_counted_from_a_power_of_2_on_to_the_next(influence):
    """With a norm bound of 2 the room of a row is half the root of its influence."""
    kernel = sizes_kernel(Squared(8.0), np.zeros(1), 1.0, 2.0)
    unit = 8.0 * 0.5 * influence**0.5
    sizes = around(2.0 ** np.arange(-15.0, 9.0))
    sizes = sizes[sizes * unit <= 8.0]
    wanted = np.clip(np.frexp(sizes)[1] + SIZE_ORIGIN, 0, SIZE_CLASSES - 1).tolist()
    assert classes_of(kernel, SIZE_CLASSES, unit * sizes, influence) == wanted
    assert classes_of(kernel, SIZE_CLASSES, [-3.0, 0.0, 1e300, -1e300], influence) == [
        *classes_of(kernel, SIZE_CLASSES, [3.0], influence),
        0,
        *classes_of(kernel, SIZE_CLASSES, [8.0, 8.0], influence),
    ]


def test_counts_are_counted_up_to_edges_that_end_at_the_bound():
    kernel = counts_kernel(1024.0)
    edges = 1024.0 * 2.0 ** np.arange(-9.0, 0.0)
    last = NORM_CLASSES - 1 + 4 * np.arange(-9, 0)
    assert classes_of(kernel, NORM_CLASSES, edges * 0.999) == last.tolist()
    assert classes_of(kernel, NORM_CLASSES, edges * 1.001) == (last + 1).tolist()
    assert classes_of(kernel, NORM_CLASSES, edges * 1.001 * 2.0**0.25) == (last + 2).tolist()
    ends = [-7.0, 0.0, 1e-300, 1.0, 1000.0, 1025.0, 1e300]
    assert classes_of(kernel, NORM_CLASSES, ends) == [0, 0, 0, 0, *[NORM_CLASSES - 1] * 3]


def test_residuals_are_counted_on_either_side_up_to_edges_that_end_beyond_half_the_range():
    """Edges that are doubles are every second one; the last class begins beyond half the range, 8."""
    kernel = residuals_kernel(np.ones(1), (-6.0, 10.0))
    last = SIDE_CLASSES - 2
    for exponent in range(9):
        edge, order = 8.0 * 2.0**-exponent, last - 2 * exponent
        for size, beyond in ((0.99 * edge, 0), (1.01 * edge, 1), (1.01 * edge * 2.0**0.5, 2)):
            k = min(order + beyond, SIDE_CLASSES - 1)
            both = classes_of(kernel, 2 * SIDE_CLASSES, [1.0 + size, 1.0 - size])
            assert both == [SIDE_CLASSES + k, SIDE_CLASSES - 1 - k]
    ends = classes_of(kernel, 2 * SIDE_CLASSES, [1.0, 1.0 - 1e-9, 1e300, -1e300])
    assert ends == [SIDE_CLASSES, SIDE_CLASSES - 1, 2 * SIDE_CLASSES - 1, 0]


def test_labels_are_counted_each_in_its_class():
    assert classes_of(labels_kernel(), 2, [0.0, 1.0, 1.0, -7.0, 1e300]) == [0, 1, 1, 0, 1]
    assert classes_of(labels_kernel(), 2, [0.4, 0.6]) == [0, 1]
    assert classes_of(labels_kernel(), 4, [3.0, 0.0, 2.0, 1.0, 9.0]) == [3, 0, 2, 1, 3]
    assert classes_of(labels_kernel(), 2, [0.0, 1.0], influence=0.0) == [None, None]


@pytest.mark.parametrize("kind", ["sizes", "norms", "counts", "residuals", "labels"])
def test_every_row_adds_its_share_to_one_class_and_one_of_weight_0_to_none(kind, rng):
    kernel = {
        "sizes": lambda: sizes_kernel(Squared(0.8), np.array([0.3, -0.2]), 1.0, 1.5),
        "norms": norms_kernel,
        "counts": lambda: counts_kernel(30.0),
        "residuals": lambda: residuals_kernel(np.array([0.3, -0.2]), (-1.0, 1.0)),
        "labels": labels_kernel,
    }[kind]()
    n = CHUNK_ROWS + 150
    x, y = rng.normal(size=(n, 2)), np.exp(rng.normal(size=n))
    x[:200:3], y[1:200:3] = 0.0, 0.0
    influence, share = np.exp2(-rng.uniform(0.0, 30.0, n)), rng.integers(1, 9, n) / 8.0
    influence[::5] = 0.0
    counting = influence > 0.0
    size = CLASSES.get(kind, 5)
    out = np.full((2, size), 0.5)
    kernel(Block(x, y, influence * share, (influence, share)), out)
    per_chunk = [share[rows][counting[rows]].sum() for rows in (slice(CHUNK_ROWS), slice(CHUNK_ROWS, n))]
    assert (out.sum(axis=1) - 0.5 * size).tolist() == per_chunk
    assert (out >= 0.5).all()


@pytest.mark.parametrize("width", [1, 20, 70, 300])
def test_derivatives_by_the_scale_are_rounded_once_a_group_however_wide_rows_are(width):
    """After a first group shares of a few rows are too small to be seen beside it, those of a group not."""
    kernel = bounded_gradient_kernel(ConcomitantHuber(), np.zeros(width), 0.8, 1.0)

    def along(share):
        ones, out = np.ones(share.size), np.zeros((1, width + 1))
        kernel(Block(np.zeros((share.size, width)), 5.0 * ones, share, (ones, share)), out)
        return out[0, width]

    one = along(np.ones(1))
    last_digit = np.spacing(abs(GROUP_ROWS * one))
    share = np.full(CHUNK_ROWS, 0.05 * last_digit / abs(one))
    share[:GROUP_ROWS] = 1.0
    exact = one * math.fsum(share)
    assert abs(along(share) - exact) <= 0.5 * last_digit * CHUNK_ROWS / GROUP_ROWS


@pytest.mark.parametrize("move", [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.1), (0.2, 0.0, 0.0, 0.1)])
def test_a_secant_needs_two_points_of_one_scale(move):
    at = np.array([0.1, -0.3, 0.2, 0.7])
    with pytest.raises(PlanViolation, match="two different points"):
        query_kernel(make_problem(ConcomitantHuber()), "secant", np.concatenate([at, at + move]))
