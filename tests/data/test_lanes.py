"""Rows in compiled code: dot products, sums and squares, for any number of columns and rows."""

import numpy as np
import pytest
from numba import njit

from privfit.data.blocks import CodedBlock
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.lanes import ROWS, new_rows, padded
from privfit.data.norm_loops import moved_squares
from privfit.data.predictors import places, predict_rows
from privfit.data.reduction import CHUNK_ROWS
from privfit.problem.groups import add_rows, close_part, new_part
from privfit.problem.marginal_kernels import marginals_kernel


@njit
def predicted(x, first, rows, start, theta):
    steps = np.full(32, np.nan)
    factors = padded(theta)
    at = places(x, steps, new_part(x.shape[1]))
    predict_rows(x, first, rows, start, factors, steps, at, factors.ctypes.data, new_rows(x, ROWS))
    return steps


@njit
def added(x, first, rows, steps):
    part, total = new_part(x.shape[1]), np.zeros((1, x.shape[1]))
    add_rows(x, first, rows, steps, part, places(x, steps, part))
    close_part(part, 0, total, 0)
    return total[0]


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("p", [1, 3, 4, 5, 6, 7, 8, 13, 16, 51])
def test_dot_products_and_sums_are_those_of_numpy(p, storage):
    rng = np.random.default_rng(p)
    x, theta, steps = rng.normal(size=(40, p)).astype(storage), rng.normal(size=p), rng.normal(size=32)
    for first, rows in ((0, 32), (8, 32), (3, 8), (39, 1), (5, 7), (0, 15), (24, 16)):
        wide = x[first : first + rows].astype(np.float64)
        found = predicted(x, first, rows, 0.7, theta)
        np.testing.assert_allclose(found[:rows], 0.7 + wide @ theta, rtol=1e-13, atol=1e-13)
        assert np.isnan(found[-(-rows // ROWS) * ROWS :]).all()
        np.testing.assert_allclose(added(x, first, rows, steps), steps[:rows] @ wide, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("p", [1, 2, 4, 7, 12])
def test_padded_factors_are_those_of_each_column_once(p):
    factors = np.arange(1.0, p + 1.0)
    found = padded(factors)
    np.testing.assert_array_equal(found[:p], factors)
    left = p % 4
    np.testing.assert_array_equal(found[p:], [*np.zeros(4 - left), *factors[p - left :]])


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("constant", [0, 1])
@pytest.mark.parametrize("p", [1, 3, 4, 5, 6, 7, 8, 13, 16, 51])
def test_squared_norms_of_moved_rows_are_those_of_numpy(p, constant, storage):
    rng = np.random.default_rng(p)
    scale, shift = rng.normal(size=constant + p), rng.normal(size=constant + p)
    for n in (0, 1, 3, 4, 9, 40):
        x, plain, moved = rng.normal(size=(n, p)).astype(storage), np.empty(n), np.empty(n)
        moved_squares(x, constant, scale, shift, plain, moved)
        rows = np.column_stack([np.ones((n, constant)), x.astype(np.float64)])
        np.testing.assert_allclose(plain, np.sum(rows**2, axis=1), rtol=1e-13)
        turned = scale * rows + rows[:, :1] * shift
        np.testing.assert_allclose(moved, np.sum(turned**2, axis=1), rtol=1e-12)


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("p", [1, 3, 4, 5, 6, 7, 8, 13, 16, 51])
def test_marginals_are_those_of_numpy(p, storage):
    rng = np.random.default_rng(p)
    layout = Layout(p + 1, True, tuple(range(1, p + 1)))
    for n in (1, 7, 8, 31, 33, CHUNK_ROWS + 45):
        numbers, y, weight = rng.normal(size=(n, p)).astype(storage), rng.normal(size=n), rng.random(n)
        rows = CodedMatrix(layout, numbers, np.empty((n, 0), dtype=np.uint8))
        total = np.zeros((-(-n // CHUNK_ROWS), 2 * p + 4))
        marginals_kernel(3.0, (-2.0, 6.0))(CodedBlock(rows, y, weight), total)
        x, u = np.column_stack([np.ones(n), numbers.astype(np.float64)]), np.clip((y - 2.0) / 4.0, -1.0, 1.0)
        expected = [weight @ x, weight @ x**2 / 3.0, [3.0 * weight @ u, 3.0 * weight @ u**2]]
        np.testing.assert_allclose(total.sum(axis=0), np.concatenate(expected), rtol=1e-12, atol=1e-12)
