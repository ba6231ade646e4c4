"""The bound on a row holds in exact arithmetic, whatever the rounding."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privfit.data.clamp import UNWEIGHTED, default_norm_bound, influence_weights
from privfit.errors import InvalidArgument


def exact_square(row):
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))


def assert_bounded(weight, x, bound):
    limit = Fraction(bound) ** 2
    for w, row in zip(weight, x, strict=True):
        assert 0 <= w <= 1
        assert Fraction(float(w)) * exact_square(row) <= limit


def adversarial_rows(p, seed, n=1500):
    """Rows just around the bound, rows of one large and many tiny entries, and rows of wild magnitudes."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, p))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[: n // 3] *= 1.0 + rng.integers(-4, 5, (n // 3, 1)) * 2.0**-52
    rows[n // 3 : 2 * n // 3] *= np.exp2(rng.integers(0, 300, (n - n // 3 - n // 3, 1)))[: n // 3]
    rows[2 * n // 3 :, 1:] *= 2.0**-27
    return rows


@pytest.mark.parametrize("p", [1, 2, 3, 7, 64, 500])
@pytest.mark.parametrize("bound", [1.0, 0.1, np.sqrt(3.0), 1e-9, 12345.678])
def test_bound_holds_exactly_on_adversarial_rows(p, bound):
    n = 1500 if p < 20 else 60
    weight, x, _ = influence_weights(adversarial_rows(p, p, n) * bound, np.zeros(n), norm_bound=bound)
    assert_bounded(weight, x, bound)


def test_naive_scaling_would_break_the_bound():
    rows = adversarial_rows(7, 7)
    squared = (rows**2).sum(axis=1)
    naive = np.minimum(1.0, 1.0 / np.maximum(squared, 1e-300))
    broken = sum(Fraction(float(w)) * exact_square(row) > 1 for w, row in zip(naive, rows, strict=True))
    assert broken > 100


@settings(max_examples=200, deadline=None)
@given(
    x=arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=st.floats(width=64)),
    bound=st.floats(2.0**-400, 2.0**400),
)
def test_any_row_is_bounded(x, bound):
    y = np.zeros(x.shape[0])
    weight, kept, _ = influence_weights(x, y, norm_bound=bound)
    assert np.isfinite(kept).all()
    assert_bounded(weight, kept, bound)
    assert (weight[~np.isfinite(x).all(axis=1)] == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e200])
def test_unusable_rows_get_weight_zero(bad):
    x, y = np.ones((4, 2)), np.ones(4)
    x[1, 1] = bad
    if not np.isfinite(bad):
        y[2] = bad
    weight, kept_x, kept_y = influence_weights(x, y, norm_bound=2.0)
    assert weight[1] == 0
    assert weight[2] == (0 if not np.isfinite(bad) else 1)
    assert weight[0] == weight[3] == 1
    assert (kept_x[1] == 0).all()
    assert (kept_y[weight == 0] == 0).all()
    assert (kept_y[weight > 0] == 1).all()


def test_inputs_within_the_bound_are_returned_as_they_are():
    x, y = np.full((3, 2), 0.5), np.zeros(3)
    weight, kept_x, kept_y = influence_weights(x, y, norm_bound=1.0)
    assert kept_x is x
    assert kept_y is y
    assert (weight == 1).all()


def test_caller_arrays_are_never_changed():
    x, y = np.array([[np.nan, 1.0], [3.0, 4.0]]), np.array([1.0, np.inf])
    before = x.copy(), y.copy()
    influence_weights(x, y, norm_bound=1.0)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf, 1e-200, 1e200])
def test_bounds_whose_square_is_no_number_are_refused(bound):
    with pytest.raises(InvalidArgument, match="norm_bound"):
        influence_weights(np.ones((1, 1)), np.ones(1), norm_bound=bound)


def test_the_range_of_bounds_has_its_ends():
    for bound in (2.0**-400, 2.0**400):
        weight, _, _ = influence_weights(np.array([[bound], [2.0 * bound]]), np.zeros(2), norm_bound=bound)
        np.testing.assert_allclose(weight, [1.0, 0.25], rtol=1e-11)
    for bound in (np.nextafter(2.0**-400, 0.0), np.nextafter(2.0**400, np.inf)):
        with pytest.raises(InvalidArgument, match="norm_bound"):
            influence_weights(np.ones((1, 1)), np.ones(1), norm_bound=bound)


def test_with_the_bound_that_weights_no_row_even_long_ones_weigh_1():
    x = np.array([[1e15, -1e17], [1.0, 2.0**59]])
    assert influence_weights(x, np.zeros(2), norm_bound=UNWEIGHTED)[0].tolist() == [1.0, 1.0]


def test_the_default_bound_grows_with_the_root_of_the_columns_and_lets_short_rows_be():
    found = [default_norm_bound(p) ** 2 for p in (1, 2, 3, 4, 5, 8, 50)]
    np.testing.assert_allclose(found, [1.0, 2.0, 2.0, 2.0, 2.5, 4.0, 25.0])
