"""Sums over rows: exact where they must be, the same for any number of threads, and private."""

import copy
import math
import pickle

import numpy as np
import pytest

from privfit.data.reduction import CHUNK_ROWS, summation_error
from privfit.data.source import ArraySource, Block


def add_rows(block, out):
    """Kernel: sum of weighted rows, chunk by chunk."""
    for k in range(out.shape[0]):
        rows = slice(k * CHUNK_ROWS, (k + 1) * CHUNK_ROWS)
        out[k] += (block.weight[rows, None] * block.x[rows]).sum(axis=0)


def add_rows_one_by_one(block, out):
    """Kernel: the worst order, one rounding per row."""
    for k in range(out.shape[0]):
        rows = slice(k * CHUNK_ROWS, (k + 1) * CHUNK_ROWS)
        out[k] += np.cumsum(block.x[rows], axis=0)[-1]


@pytest.mark.parametrize("n", [1, 2, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1, 5 * CHUNK_ROWS + 17])
@pytest.mark.parametrize("threads", ["1", "2", "3", "16"])
def test_integer_sums_are_exact(monkeypatch, n, threads):
    monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
    x = np.random.default_rng(n).integers(-8, 9, (n, 3)).astype(float)
    source = ArraySource(x, np.zeros(n), norm_bound=100.0)
    assert source.n_rows == n
    np.testing.assert_array_equal(source.sum(add_rows, 3), x.sum(axis=0))


def test_sum_does_not_depend_on_the_thread_count(monkeypatch):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((11 * CHUNK_ROWS + 5, 4)) * np.exp(5 * rng.standard_normal((1, 4)))
    source = ArraySource(x, np.zeros(x.shape[0]), norm_bound=1.0)
    sums = []
    for threads in ("1", "2", "3", "7"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        sums.append(source.sum(add_rows, 4).tobytes())
    assert len(set(sums)) == 1


def test_thread_count_falls_back(monkeypatch):
    from privfit.data.threads import thread_count

    monkeypatch.setenv("NUMBA_NUM_THREADS", "nonsense")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert thread_count() == 5
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert thread_count() >= 1


@pytest.mark.parametrize("n", [1, 3, 100, CHUNK_ROWS, 3 * CHUNK_ROWS + 1, 40 * CHUNK_ROWS])
@pytest.mark.parametrize("kind", ["all ones third", "alternating", "magnitudes", "random"])
def test_summation_error_bounds_the_rounding(monkeypatch, n, kind):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "2")
    rng = np.random.default_rng(n)
    column = {
        "all ones third": np.full(n, 1.0 / 3.0),
        "alternating": np.where(np.arange(n) % 2, -1.0, 1.0) * (1.0 - 2.0**-53),
        "magnitudes": np.exp2(-rng.integers(0, 60, n).astype(float)) * rng.choice([-1.0, 1.0], n),
        "random": rng.uniform(-1, 1, n),
    }[kind]
    source = ArraySource(column[:, None], np.zeros(n), norm_bound=1.0 + 1e-9)
    for kernel in (add_rows, add_rows_one_by_one):
        error = abs(source.sum(kernel, 1)[0] - math.fsum(column))
        assert error <= summation_error(n) * n


def test_rows_beyond_the_bound_are_weighted_in_the_sum():
    source = ArraySource(np.array([[3.0, 4.0], [np.nan, 1.0]]), np.zeros(2), norm_bound=1.0)
    np.testing.assert_allclose(source.sum(add_rows, 2), np.array([3.0, 4.0]) / 25, rtol=1e-11)


def test_source_and_block_show_nothing():
    source = ArraySource(np.full((2, 1), 0.7351), np.full(2, 0.7351), norm_bound=1.0)
    block = Block(np.full((2, 1), 0.7351), np.full(2, 0.7351), np.ones(2))
    for private in (source, block):
        assert "7351" not in repr(private) + str(private)


@pytest.mark.parametrize("action", [pickle.dumps, copy.copy, copy.deepcopy])
def test_source_refuses_to_travel(action):
    source = ArraySource(np.ones((2, 1)), np.ones(2), norm_bound=1.0)
    with pytest.raises(TypeError, match="private rows"):
        action(source)
