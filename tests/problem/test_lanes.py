"""Rows in compiled code: dot products and weighted sums, for any number of columns and rows."""

import numpy as np
import pytest
from numba import njit

from privfit.problem.groups import add_rows, close_part, new_part, places, predict_rows
from privfit.problem.lanes import padded


@njit
def predicted(x, first, rows, start, theta):
    steps = np.full(32, np.nan)
    factors = padded(theta)
    at = places(x, steps, new_part(x.shape[1]))
    predict_rows(x, first, rows, start, factors, steps, at, factors.ctypes.data)
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
        assert np.isnan(found[rows:]).all()
        np.testing.assert_allclose(added(x, first, rows, steps), steps[:rows] @ wide, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("p", [1, 2, 4, 7, 12])
def test_padded_factors_are_those_of_each_column_once(p):
    factors = np.arange(1.0, p + 1.0)
    found = padded(factors)
    np.testing.assert_array_equal(found[:p], factors)
    left = p % 4
    np.testing.assert_array_equal(found[p:], [*np.zeros(4 - left), *factors[p - left :]])
