from fractions import Fraction

import numpy as np
import pytest

from privfit.data.caps import SlopeBounds
from privfit.data.source import ArraySource

STEEPNESS = {
    "even": lambda x, _: np.full(len(x), 0.5),
    "any": lambda x, _: np.random.default_rng(2).uniform(0.0, 3.0, len(x)),
    "zero": lambda x, _: np.zeros(len(x)),
    "tiny": lambda x, _: np.full(len(x), 1e-320),
    "negative": lambda x, _: np.full(len(x), -1.0),
    "infinite": lambda x, _: np.full(len(x), np.inf),
    "no number": lambda x, _: np.full(len(x), np.nan),
}


def rows(rng):
    x = rng.normal(size=(60, 3)) * 10.0 ** rng.integers(-4, 5, size=(60, 1))
    x[:6] = 0.0
    x[6], x[7] = 1e200, np.nan
    return x


def block_of(source):
    (block,) = source.blocks()
    return block


@pytest.mark.parametrize("steepness", STEEPNESS.values(), ids=STEEPNESS)
@pytest.mark.parametrize("bound", [1e-12, 0.6, 1.1, 1e9])
@pytest.mark.parametrize("most", [1.0, 0.3, 1e6])
def test_weights_and_caps_bound_gradients_exactly_whatever_steepness_is(steepness, bound, most):
    rng = np.random.default_rng(4)
    x, basis = rows(rng), rng.normal(size=(3, 3))
    limits = {"norm_bound": 1.2, "amplification": 1e6}
    slopes = SlopeBounds(bound, most, steepness)
    # A source of its own each: norms that are known from another basis differ in the last bits.
    plain, held = (
        block_of(ArraySource(x, np.zeros(len(x)), norm_bound=2.0).reweighted(basis, **limits, **more))
        for more in ({}, {"slopes": slopes})
    )
    assert (held.weight <= plain.weight).all()
    assert (held.weight >= 0.0).all()
    assert (held.caps <= most).all()
    assert (held.caps >= 0.0).all()
    exact = [[Fraction(float(v)) for v in column] for column in basis.T]
    for row, weight, cap in zip(held.x, held.weight, held.caps, strict=True):
        square = sum(sum(Fraction(float(a)) * b for a, b in zip(row, c, strict=True)) ** 2 for c in exact)
        assert (Fraction(float(weight)) * Fraction(float(cap))) ** 2 * square <= Fraction(bound) ** 2


def test_rows_that_are_short_or_not_steep_count_as_before():
    x = np.array([[0.5], [0.9], [0.9], [3.0], [3.0]])
    steep = np.array([1.0, 0.5, 1.0, 0.5, 1.0])
    source = ArraySource(x, np.zeros(5), norm_bound=10.0)
    slopes = SlopeBounds(0.6, 1.0, lambda *_: steep)
    held = block_of(source.reweighted(np.eye(1), norm_bound=1.2, amplification=9.0, slopes=slopes))
    mallows = np.minimum(1.0, (1.2 / x[:, 0]) ** 2)
    expected = np.minimum(mallows, 0.6 / (x[:, 0] * steep))
    np.testing.assert_allclose(held.weight, expected, rtol=1e-9)
    np.testing.assert_allclose(held.caps, np.minimum(0.6 / (expected * x[:, 0]), 1.0), rtol=1e-9)
    assert (held.caps >= steep * (1 - 1e-9)).all()
    assert held.weight[0] == held.weight[1] == 1.0


@pytest.mark.parametrize("times", [-0.01, 3.0, 700.0])
def test_gradients_are_bounded_exactly_in_a_multiple_of_the_last_basis(times):
    """Norms that were found for a basis serve its multiples, so many times as long."""
    rng = np.random.default_rng(5)
    x, last = rows(rng), rng.normal(size=(3, 3))
    basis = times * last
    slopes = SlopeBounds(0.6, 1.0, STEEPNESS["even"])
    anew, known = (ArraySource(x, np.zeros(len(x)), norm_bound=2.0) for _ in range(2))
    known.reweighted(last, norm_bound=1.2, amplification=1e6)
    found, held = (
        block_of(source.reweighted(basis, norm_bound=1.2, amplification=1e6, slopes=slopes))
        for source in (anew, known)
    )
    np.testing.assert_allclose(held.weight, found.weight, rtol=1e-9)
    np.testing.assert_allclose(held.caps, found.caps, rtol=1e-9)
    exact = [[Fraction(float(v)) for v in column] for column in basis.T]
    for row, weight, cap in zip(held.x, held.weight, held.caps, strict=True):
        square = sum(sum(Fraction(float(a)) * b for a, b in zip(row, c, strict=True)) ** 2 for c in exact)
        assert Fraction(float(weight)) * square <= Fraction(1.2) ** 2
        assert (Fraction(float(weight)) * Fraction(float(cap))) ** 2 * square <= Fraction(0.6) ** 2


def test_a_sample_has_the_caps_of_its_rows():
    rng = np.random.default_rng(9)
    x, coins = rng.normal(size=(9000, 2)), rng.random(9000) < 0.3
    source = ArraySource(x, np.zeros(9000), norm_bound=3.0)
    slopes = SlopeBounds(0.5, 1.0, lambda rows, _: 0.5 + 0.1 * np.tanh(rows[:, 0]))
    turned = source.reweighted(np.eye(2), norm_bound=1.0, amplification=9.0, slopes=slopes)
    tossed = iter(coins)
    sample = block_of(turned.sampled(lambda n: np.array([next(tossed) for _ in range(n)]), 0.3))
    np.testing.assert_array_equal(sample.caps, block_of(turned).caps[coins])
    np.testing.assert_array_equal(sample.weight, block_of(turned).weight[coins])


def test_caps_leave_room_for_their_own_rounding():
    """Of sizes that are exact, as given."""
    rng = np.random.default_rng(6)
    size, steep = rng.uniform(0.1, 10.0, 500), rng.uniform(0.1, 1.0, 500)
    weight, cap = rng.uniform(0.1, 1.0, 500), np.empty(500)
    SlopeBounds(0.6, 1.0, lambda *_: steep).fill(steep, size, weight, cap)
    assert (cap < 1.0).sum() > 200
    for w, c, s in zip(weight, cap, size, strict=True):
        assert Fraction(float(w)) * Fraction(float(c)) * Fraction(float(s)) <= Fraction(0.6)
