"""Bounds beyond which a tail has a given mean excess, from the two places where it is seen."""

import math

import pytest
from scipy.integrate import quad

from privfit.solvers.tails import end_bound, tail_bound


def size_of(share, shape, unit=1.0):
    """Return the size that a share of the rows exceed, by the survival function exp(-(r / unit)**shape)."""
    return unit * math.log(1.0 / share) ** (1.0 / shape)


def excess_beyond(bound, size, hidden, power):
    """Return the mean excess over a bound of a survival function of this exponent, ``hidden`` at a size."""
    unit = size / size_of(hidden, power)
    most = max(size_of(1e-30, power, unit), 2.0 * bound)
    return quad(lambda r: math.exp(-((r / unit) ** power)), bound, most, limit=500, epsabs=0.0, epsrel=1e-9)[
        0
    ]


def leading_term(bound, size, hidden, power):
    """Return about that, for a large bound."""
    unit = size / size_of(hidden, power)
    t = (bound / unit) ** power
    return unit / power * t ** (1.0 / power - 1.0) * math.exp(-t)


@pytest.mark.parametrize("shape", [0.8, 1.4, 2.0])
@pytest.mark.parametrize("hidden", [0.1, 0.01, 1e-3])
def test_the_tail_beyond_the_bound_has_the_excess_that_was_asked_for(shape, hidden):
    """Sizes of a Weibull law, whose tail beyond what is seen is taken to have half its exponent."""
    usual, size = size_of(0.5, shape), size_of(hidden, shape)
    for excess in (1e-3, 1e-5):
        bound = tail_bound(usual, size, hidden, excess)
        assert bound >= size * (1.0 - 1e-12)
        beyond = excess_beyond(bound, size, hidden, 0.5 * shape)
        assert beyond < 2.0 * excess or bound == pytest.approx(size)
        assert beyond > 0.4 * excess or bound == pytest.approx(size)
        assert excess_beyond(bound, size, hidden, shape) < excess  # of the law itself


@pytest.mark.parametrize(
    ("shape", "power"), [(0.2, 0.3), (0.5, 0.3), (0.7, 0.35), (1.4, 0.7), (1.9, 0.95), (2.1, 1.0), (9.0, 1.0)]
)
@pytest.mark.parametrize("hidden", [0.1, 0.01])
@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_a_tail_that_is_not_seen_to_end_has_half_the_exponent_within_limits(unit, hidden, shape, power):
    usual, size = size_of(0.5, shape, unit), size_of(hidden, shape, unit)
    for part in (1e-3, 1e-6):
        excess = part * unit
        bound = tail_bound(usual, size, hidden, excess)
        assert bound > size
        assert leading_term(bound, size, hidden, power) == pytest.approx(excess, rel=1e-6, abs=0.0)


@pytest.mark.parametrize(
    ("shape", "power"),
    [(0.2, 0.3), (0.7, 0.35), (1.4, 0.7), (2.6, 1.3), (3.9, 1.95), (4.1, 2.0), (30.0, 2.0)],
)
@pytest.mark.parametrize(("share", "hidden"), [(0.3, 0.05), (0.05, 1e-3)])
@pytest.mark.parametrize("unit", [1.0, 1e-12])
def test_a_tail_that_is_seen_to_fall_falls_on_with_half_the_exponent(unit, share, hidden, shape, power):
    """Up to the normal law's; and never inside of where it is seen to end."""
    inner, outer = size_of(share, shape, unit), size_of(hidden, shape, unit)
    for part in (1e-5, 1e-7):
        excess = part * unit
        bound = end_bound(inner, share, outer, hidden, excess)
        assert bound > outer
        assert leading_term(bound, outer, hidden, power) == pytest.approx(excess, rel=1e-6, abs=0.0)
        assert excess_beyond(bound, outer, hidden, power) < 2.0 * excess
        if shape > 0.6:
            assert excess_beyond(bound, outer, hidden, shape) < excess


def test_the_tail_of_an_exponential_law_is_known():
    """Of exponent 1, where the mean excess is what it is in the leading term."""
    far, unit = size_of(0.01, 2.0), size_of(0.01, 2.0) / math.log(100.0)
    bound = unit * math.log(unit / 1e-4)
    assert excess_beyond(bound, far, 0.01, 1.0) == pytest.approx(1e-4, rel=1e-6, abs=0.0)
    assert tail_bound(size_of(0.5, 2.0), far, 0.01, 1e-4) == pytest.approx(bound, rel=1e-12, abs=0.0)
    assert end_bound(size_of(0.1, 2.0), 0.1, far, 0.01, 1e-4) == pytest.approx(bound, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("excess", [0.1, 10.0, 1e9])
def test_a_bound_is_no_smaller_than_what_is_seen(excess):
    """Where the tail beyond that has a smaller excess already."""
    assert tail_bound(1.0, 4.0, 0.01, excess) == pytest.approx(4.0, rel=1e-12, abs=0.0)
    assert end_bound(2.0, 0.1, 3.0, 0.001, excess) == pytest.approx(3.0, rel=1e-12, abs=0.0)


def test_where_next_to_nothing_is_hidden_a_tail_ends_where_it_is_seen_to():
    for hidden in (1e-12, 1e-100, 1e-300):
        assert end_bound(1.0, 0.2, 1.4, hidden, 1e-5) == pytest.approx(1.4, rel=1e-12, abs=0.0)


def test_bounds_grow_as_less_excess_is_allowed():
    for bound in (
        [tail_bound(0.7, 3.0, 0.02, 10.0**-k) for k in range(3, 12)],
        [end_bound(1.0, 0.2, 3.0, 0.02, 10.0**-k) for k in range(3, 12)],
    ):
        assert bound == sorted(bound)
        assert bound[-1] > 1.5 * bound[0]


@pytest.mark.parametrize("far", [1.0, 1.009])
def test_a_tail_that_falls_within_no_distance_has_the_sharpest_form_that_is_believed(far):
    """Shares of 0.5 and 0.45 tell of a sharp fall only if the sizes are about the same."""
    for bound, power in (
        (tail_bound(1.0, far, 0.45, 1e-4), 1.0),
        (end_bound(1.0, 0.5, far, 0.45, 1e-4), 2.0),
    ):
        assert leading_term(bound, far, 0.45, power) == pytest.approx(1e-4, rel=1e-6, abs=0.0)
    long = tail_bound(1.0, 1.5, 0.45, 1e-4)
    assert leading_term(long, 1.5, 0.45, 0.3) == pytest.approx(1e-4, rel=1e-4, abs=0.0)
