"""Sums of outer products, whatever the number of columns and rows, by compiled code and by BLAS."""

from itertools import product

import numpy as np
import pytest

from privfit.data.reduction import CHUNK_ROWS, slab_terms
from privfit.problem import products
from privfit.problem.products import add_products, scaled_rows

WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 24, 25, 48, 51, 65]


def case(n, p, storage, constant, with_last):
    rng = np.random.default_rng(p)
    x, root = rng.normal(size=(n, p)).astype(storage), rng.normal(size=n)
    last = rng.normal(size=n) if with_last else None
    columns = [np.ones(n)] * constant + list(x.T.astype(np.float64))
    a = np.array([root * column for column in columns] + ([last] if with_last else [])).T
    return x, root, last, a


@pytest.mark.parametrize("storage", ["float64", "float32"])
@pytest.mark.parametrize("constant", [0, 1])
@pytest.mark.parametrize(("narrow", "with_last"), list(product([0, 256], [False, True])))
@pytest.mark.parametrize("p", WIDTHS)
def test_products_are_those_of_numpy_and_are_added(p, narrow, with_last, constant, storage):
    add_all = add_products if constant + p + with_last <= narrow else products._add_wide
    for n in (0, 1, 7, 8, 63, 64, 65, 200):
        x, root, last, a = case(n, p, storage, constant, with_last)
        q = constant + p + with_last
        total = np.arange(1.0, q * q + 1.0)
        add_all(x, constant, root, last, total[None])
        expected = a.reshape(n, q).T @ a.reshape(n, q)
        found = (total - np.arange(1.0, q * q + 1.0)).reshape(q, q)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-10)
        np.testing.assert_array_equal(scaled_rows(x, constant, root, last), a.reshape(n, q))


@pytest.mark.parametrize("p", [3, 51])
def test_rows_far_out_stay_in_their_places(p):
    """A number that is none reaches its own column's products only, and later rows of a slab none."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(130, p))
    x[70, p - 1] = np.nan
    total = np.zeros(p * p)
    add_products(x, 0, np.ones(130), None, total[None])
    found = np.isnan(total.reshape(p, p))
    assert found[p - 1].all()
    assert found[:, p - 1].all()
    assert not found[: p - 1, : p - 1].any()


@pytest.mark.parametrize("p", WIDTHS)
def test_sums_are_as_exact_as_their_number_of_additions_allows(p):
    rng = np.random.default_rng(p)
    x = rng.uniform(0.5, 1.0, size=(CHUNK_ROWS, p))
    total = np.zeros(p * p)
    add_products(x, 0, np.ones(CHUNK_ROWS), None, total[None])
    wide = x.astype(np.longdouble)
    exact = (wide.T @ wide).ravel()
    assert slab_terms(p) >= products.ROWS + CHUNK_ROWS // products.ROWS
    assert np.abs(total - exact).max() <= slab_terms(p) * 2.0**-53 * exact.max()


@pytest.mark.parametrize("p", [3, 51, 300])
@pytest.mark.parametrize("n", [CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 100])
def test_chunks_are_summed_apart(p, n):
    """By one call as by one for each of them, to the last digit."""
    x, root, last, _ = case(n, p, "float32", 1, with_last=True)
    chunks = -(-n // CHUNK_ROWS)
    together, apart = np.ones((2, chunks, (p + 2) ** 2))
    add_products(x, 1, root, last, together)
    for k in range(chunks):
        rows = slice(k * CHUNK_ROWS, (k + 1) * CHUNK_ROWS)
        add_products(x[rows], 1, root[rows], last[rows], apart[k : k + 1])
    np.testing.assert_array_equal(together, apart)
