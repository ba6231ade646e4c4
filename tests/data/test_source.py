"""Sums over rows: exact where they must be, the same for any number of threads, and private."""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest

from privfit.data import source as source_module
from privfit.data.basis_norms import BasisNorms
from privfit.data.blocks import Block, UnitKernel
from privfit.data.coded import CodedMatrix, Layout
from privfit.data.declarations import NumericColumn
from privfit.data.identifiers import NOBODY
from privfit.data.reduction import CHUNK_ROWS, summation_error
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.errors import PlanViolation


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
    from privfit._threads import thread_count

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


def test_rows_of_nobody_are_in_the_sum_of_no_unit():
    shares = RowShares(ShareRule("id"), np.ones(7), np.array([0, NOBODY, 1, NOBODY, 1, 0, NOBODY]), 3)
    source = ArraySource(np.ones((7, 1)), np.zeros(7), norm_bound=1.0, shares=shares)
    counts = []
    counted = UnitKernel(
        lambda: lambda block: np.ones((len(block.y), 1)),
        1,
        10.0,
        lambda: lambda block, out: counts.extend(block.x[:, 0]),
    )
    source.sum_units(counted, 1)
    np.testing.assert_array_equal(counts, [2.0, 2.0, 0.0])


def test_rounding_never_lets_a_row_count_more_than_its_share():
    """Products of tiny numbers have so few bits that rounding to the nearest could double them."""
    factor = np.linspace(2.0**-74, 2.0**-70, 400)
    x = np.full((400, 1), 2.0**500)
    shares = RowShares(ShareRule(weights=("w", None)), factor, None, 400)
    (block,) = ArraySource(x, np.zeros(400), norm_bound=1.0, shares=shares).blocks()
    assert (block.influence > 0.0).all()
    for weight, influence, share in zip(block.weight, block.influence, block.share, strict=True):
        exact = Fraction(float(influence)) * Fraction(float(share))
        assert Fraction(float(weight)) <= exact * (1 + Fraction(1, 2**50))


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


N, P = 3 * CHUNK_ROWS + 100, 6


def dense_rows(rng):
    """Rows within the bound and beyond it, and one that is not usable."""
    x = rng.normal(size=(N, P)) * np.exp(rng.normal(size=(N, 1)))
    x[17, 3] = np.nan
    return x


def coded_rows(rng):
    """A constant, two numbers, a factor of two indicators, a product with one level."""
    x = CodedMatrix.empty(Layout(P, True, (2, 1), plain=1, paired=1), N, "float32")
    x.numbers[:] = dense_rows(rng)[:, :3] * 2.0
    x.codes[:, 0] = rng.choice([3, 4, x.layout.none, x.layout.missing], N, p=[0.3, 0.3, 0.39, 0.01])
    x.codes[:, 1] = rng.choice([5, x.layout.none], N)
    return x


def bounded(x, rng):
    return ArraySource(x, rng.normal(size=N), norm_bound=1.5)


def rows_of(source):
    block = source.take(np.arange(source.n_rows))
    return block.x, block.y, block.weight


def bases(rng):
    basis = rng.normal(size=(P, P))
    return {"same": basis, "multiple": -0.3 * basis, "other": rng.normal(size=(P, P))}


def turned(source, basis):
    return source.reweighted(basis, norm_bound=1.1, amplification=30.0)


BOTH = pytest.mark.parametrize("make", [dense_rows, coded_rows], ids=["dense", "coded"])


@BOTH
@pytest.mark.parametrize("stretch", [1000, CHUNK_ROWS, 5000, N, 64 * CHUNK_ROWS])
def test_a_sample_is_the_rows_whose_coins_are_true(make, stretch, monkeypatch, in_order):
    monkeypatch.setattr(source_module, "_STRETCH", stretch)
    monkeypatch.setattr(source_module, "_TOSSED", 3 * stretch + 7)
    monkeypatch.setattr(source_module, "_AT_ONCE", 0 if stretch == 1000 else 2**24)
    rng = np.random.default_rng(4)
    x, y = make(rng), rng.normal(size=N)
    whole = ArraySource(x, y, norm_bound=1.5)
    for chance in (0.0, 0.001, 0.4, 1.0):
        coins = rng.random(N) < chance
        coins[1000:2000] = chance == 1.0
        sample = whole.sampled(in_order(coins), 0.7)
        alone = ArraySource(x[coins], y[coins], norm_bound=1.5)
        assert sample.n_rows == sample.n_units == coins.sum()
        assert (sample.unit, sample.norm_bound) == (None, 1.5)
        for found, all_rows, chosen in zip(*map(rows_of, (sample, whole, alone)), strict=True):
            np.testing.assert_array_equal(found, all_rows[coins])
            np.testing.assert_array_equal(found, chosen)
        np.testing.assert_array_equal(sample.sum(add_rows, P), alone.sum(add_rows, P))
    assert np.ptp(rows_of(whole)[2]) == 1.0


@BOTH
@pytest.mark.parametrize("known", [None, "same", "multiple", "other"])
def test_weights_of_a_sample_are_those_of_the_whole(make, known, in_order):
    rng = np.random.default_rng(5)
    x, y, coins, asked = make(rng), rng.normal(size=N), rng.random(N) < 0.4, bases(rng)
    whole = ArraySource(x, y, norm_bound=1.5)
    if known is not None:
        turned(whole, asked[known])
    sample = whole.sampled(in_order(coins), 0.4)
    for basis in (*asked.values(), asked["same"]):
        expected = rows_of(turned(ArraySource(x, y, norm_bound=1.5), basis))[2][coins]
        found = rows_of(turned(sample, basis))[2]
        np.testing.assert_allclose(found, expected, rtol=1e-11)
        assert np.ptp(found) > 0.2


@BOTH
def test_a_sample_of_rows_in_other_coordinates_keeps_their_weights(make, in_order):
    rng = np.random.default_rng(6)
    whole, coins, asked = bounded(make(rng), rng), rng.random(N) < 0.4, bases(rng)
    rows = turned(whole, asked["same"])
    sample = rows.sampled(in_order(coins), 0.4)
    assert sample.norm_bound == 1.1
    np.testing.assert_array_equal(rows_of(sample)[2], rows_of(rows)[2][coins])
    for basis in asked.values():
        expected = rows_of(turned(whole, basis))[2][coins]
        np.testing.assert_allclose(rows_of(turned(sample, basis))[2], expected, rtol=1e-11)


@BOTH
@pytest.mark.parametrize("chance", [0.4, 1.0])
def test_a_sample_and_the_whole_leave_each_other_alone(make, chance, in_order):
    """Norms in another basis are written over those in the last one."""
    rng = np.random.default_rng(7)
    whole, coins, asked = bounded(make(rng), rng), rng.random(N) < chance, bases(rng)
    expected = rows_of(turned(whole, asked["same"]))[2]
    sample = whole.sampled(in_order(coins), chance)
    turned(whole, asked["other"])
    np.testing.assert_allclose(rows_of(turned(sample, asked["same"]))[2], expected[coins], rtol=1e-11)
    turned(whole, asked["same"])
    turned(sample, asked["other"])
    np.testing.assert_allclose(rows_of(turned(whole, asked["same"]))[2], expected, rtol=1e-11)
    for name in ("y", "weight"):
        assert not np.shares_memory(getattr(sample.bounded, name), getattr(whole.bounded, name))
    xs = [getattr(rows.bounded.x, "numbers", rows.bounded.x) for rows in (sample, whole)]
    assert not np.shares_memory(*xs)


def test_known_norms_are_not_measured_again(monkeypatch, in_order):
    rng = np.random.default_rng(8)
    whole, asked = bounded(dense_rows(rng), rng), bases(rng)
    turned(whole, asked["same"])
    sample, measured, filled = whole.sampled(in_order(rng.random(N) < 0.4), 0.4), [], BasisNorms.fill
    monkeypatch.setattr(
        BasisNorms, "fill", lambda self, x, found: measured.append(len(x)) or filled(self, x, found)
    )
    turned(sample, asked["multiple"])
    assert not measured
    turned(sample, asked["other"])
    assert sum(measured) == sample.n_rows


@BOTH
def test_a_sample_without_a_row_sums_to_nothing(make, in_order):
    rng = np.random.default_rng(9)
    whole = bounded(make(rng), rng)
    sample = whole.sampled(lambda size: np.zeros(size, dtype=np.bool_), 0.1)
    for rows in (
        sample,
        turned(sample, np.eye(P)),
        sample.sampled(in_order(np.ones(0, dtype=np.bool_)), 0.1),
    ):
        assert rows.n_rows == 0
        np.testing.assert_array_equal(rows.sum(add_rows, P), np.zeros(P))


@pytest.mark.parametrize("rule", [ShareRule("id"), ShareRule(weights=("weight", NumericColumn(0.0, 2.0)))])
def test_rows_that_count_by_shares_are_not_sampled(rule):
    shares = RowShares(rule, np.ones(4), None if rule.unit is None else np.array([0, 0, 1, 2]), 3)
    source = ArraySource(np.ones((4, 1)), np.zeros(4), norm_bound=1.0, shares=shares)
    with pytest.raises(PlanViolation, match="not sampled"):
        source.sampled(lambda size: np.ones(size, dtype=np.bool_), 0.5)
