"""Shares of rows by class: the highest that noise does not hide, those it has not made, where rows are."""

import math

import numpy as np
import pytest

from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES
from privfit.solvers.histogram import (
    Edge,
    believed,
    class_edges,
    class_middles,
    largest_seen,
    last_seen,
    mean_seen,
    smoothed_out,
    spread_out,
    upper_edge,
    with_certain,
)

CLASSES, HOLDING, NOISE = 21, 8, 0.01


def shares_of(beyond=0.0):
    """Return shares in which the first classes hold all rows but some in the one after."""
    shares = np.zeros(CLASSES)
    shares[:HOLDING] = (1.0 - beyond) / HOLDING
    shares[HOLDING] = beyond
    return shares


def test_without_noise_the_total_changes_nothing():
    for beyond in (0.0, 1e-6, 0.2):
        seen = last_seen(shares_of(beyond), 0.0)
        assert seen == last_seen(shares_of(beyond), 0.0, total=1.0)
        assert seen == (HOLDING + (beyond > 0.0), 0.0)


@pytest.mark.parametrize(
    ("shares", "number", "hidden"),
    [
        ([0.6, 0.3, 0.036, 0.024], 4, 0.0),  # a quarter of what is lacking makes 0.024 more than 0.026
        ([0.6, 0.3, 0.067, 0.021], 3, 0.03 * 0.75**0.5),  # too little of it
        ([0.7, 0.3, 0.052, 0.028], 3, 0.03 * 0.75**0.5),  # 0.028 is too much by a quarter of the surplus
        ([0.4, 0.3, 0.1, 0.019], 3, 0.03),  # shown by what is lacking alone, which may be rows that lack
    ],
)
def test_what_shares_lack_of_a_known_total_is_spread_over_them(shares, number, hidden):
    assert last_seen(np.array(shares), 0.01, total=1.0) == pytest.approx((number, hidden))


def test_classes_are_gone_through_from_where_the_share_beyond_is_clearest():
    """Of 0.05 in all, which four classes of noise hide, the last shows by itself that it holds rows."""
    assert last_seen(np.array([0.0, 0.0, 0.0, 0.05]), 0.01) == (4, 0.0)
    assert last_seen(np.array([0.0, 0.0, 0.0, 0.02]), 0.01) is None


def test_few_values_far_beyond_all_others_are_seen_where_noise_certainly_has_not_made_them():
    shares = np.zeros(12)
    shares[0] = 0.9
    assert last_seen(shares, 0.01) == (1, pytest.approx(0.03 * 11**0.5))
    shares[9] = 0.0399
    assert with_certain(last_seen(shares, 0.01), shares, 0.01) == last_seen(shares, 0.01)
    shares[9] = 0.0401
    assert with_certain(last_seen(shares, 0.01), shares, 0.01) == (10, pytest.approx(0.03 * 2**0.5))
    shares[11] = 0.05
    assert with_certain(last_seen(shares, 0.01), shares, 0.01) == (12, 0.0)
    assert with_certain((12, 0.0), shares, 0.01) == (12, 0.0)
    assert with_certain(None, shares, 0.01) is None


def largest(first, noise):
    """Return the highest class that is seen where the first one holds all rows."""
    shares = np.zeros(NORM_CLASSES)
    shares[0] = first
    planned = PlannedRelease("norms", NORM_CLASSES, 1.0, 1.0, noise)
    return largest_seen(Release(planned, np.zeros(1), shares))


def test_noise_hides_up_to_all_rows_and_no_more():
    empty = NORM_CLASSES - 1
    assert largest(1.0, 0.05) == Edge(1, pytest.approx(3.0 * 0.05 * empty**0.5))
    assert 3.0 * 0.06 * empty**0.5 > 1.0
    assert largest(1.2, 0.06) == Edge(1, 1.0)
    assert largest(1.0, 0.06) is None


def test_edges_go_up_by_a_doubling_in_four_classes_to_an_open_one():
    assert [upper_edge(number) for number in (0, 4, 8, 36)] == [1.0, 2.0, 4.0, 512.0]
    assert upper_edge(NORM_CLASSES - 1) < upper_edge(NORM_CLASSES) == np.inf
    assert Edge(5, 0.0).value == upper_edge(5) == pytest.approx(2.0**1.25)


def test_of_shares_beyond_the_largest_those_that_noise_may_have_made_are_left_out():
    shares = np.array([0.005, -0.02, 0.6, 0.3, 0.025, 0.015, 0.035, 0.045, -0.01])
    kept = np.array([0.005, 0.0, 0.6, 0.3, 0.025, 0.0, 0.0, 0.045, 0.0])  # from 0.015 on but for 0.045
    shares.setflags(write=False)
    np.testing.assert_allclose(believed(shares, 0.01), kept / kept.sum(), rtol=1e-12)


@pytest.mark.parametrize("shares", [[0.3, 0.5, 0.4], [0.0, 0.5, 0.0, 0.0, 1e-9], [0.2, 0.0, 0.0]])
def test_without_noise_all_shares_are_kept_and_add_up_to_one(shares):
    np.testing.assert_allclose(believed(np.array(shares), 0.0), np.array(shares) / sum(shares), rtol=1e-12)


def test_shares_say_nothing_unless_the_largest_is_clear():
    assert believed(np.array([0.01, 0.034, 0.02]), 0.01) is None
    np.testing.assert_array_equal(believed(np.array([0.0, 0.036, 0.015]), 0.01), [0.0, 1.0, 0.0])
    assert believed(np.zeros(3), 0.0) is None  # no row counts


def test_rows_that_are_spread_evenly_lie_in_their_classes_and_reach_their_upper_edges():
    places, chances = spread_out(np.array([0.0, 0.75, 0.0, 0.25]))
    parts = np.arange(1, 9) / 8
    np.testing.assert_array_equal(places, np.append(1.0 + parts, 3.0 + parts))
    np.testing.assert_allclose(chances, np.repeat([0.75, 0.25], 8) / 8, rtol=1e-12)


def test_rows_that_are_even_over_the_classes_are_even_in_them():
    places, chances = smoothed_out(np.full(4, 0.25))
    np.testing.assert_array_equal(places, np.arange(1, 33) / 8)
    np.testing.assert_allclose(chances, 1.0 / 32, rtol=1e-12)


def test_a_tail_falls_in_each_of_its_classes_and_ends_with_the_last_that_holds_rows():
    shares = np.array([0.0, 0.5, 0.3, 0.15, 0.05, 0.0, 0.0])
    places, chances = smoothed_out(shares)
    classes = np.ceil(places).astype(int) - 1
    np.testing.assert_allclose(np.bincount(classes, chances, shares.size), shares, atol=1e-12)
    assert places[0] > 1.0
    assert places[-1] <= 5.0
    for k in (2, 3, 4):
        falling = chances[classes == k]
        assert falling[:4].sum() > 1.1 * falling[4:].sum()


@pytest.mark.statistical
def test_a_known_total_shows_more_of_the_tail_and_what_it_leaves_hidden_is_a_bound():
    """Of 13 empty classes out of 21 it halves the variance and more; a bound of three sd, in 4,000 looks.

    Failures of the bound are binomial, with a chance of 0.00135 each for one class; 40 are exceeded with
    a chance below 1e-6 even if several classes count (a mean of 16).
    """
    rng, plain, known, beyond = np.random.default_rng(0), [], [], 0.05
    wrong = 0
    for _ in range(4_000):
        noisy = shares_of(beyond) + rng.normal(size=CLASSES) * NOISE
        number, hidden = last_seen(noisy, NOISE)
        plain.append(hidden)
        number, hidden = last_seen(noisy, NOISE, total=1.0)
        known.append(hidden)
        wrong += number <= HOLDING and hidden < beyond
    assert np.mean(known) < 0.75 * np.mean(plain)
    assert wrong < 40


@pytest.mark.statistical
def test_empty_classes_are_seldom_taken_for_rows():
    """As seldom as without the total: a chance of 0.00135 for each of 13 classes, far below 2 % in all."""
    rng = np.random.default_rng(1)
    looks = [shares_of() + rng.normal(size=CLASSES) * NOISE for _ in range(4_000)]
    for total in (None, 1.0):
        beyond = sum(last_seen(noisy, NOISE, total)[0] > HOLDING for noisy in looks)
        assert beyond < 80


@pytest.mark.statistical
@pytest.mark.parametrize("lacking", [0.05, 0.1, 0.2])
def test_rows_that_lack_are_not_taken_to_be_far_out(lacking):
    """What the shares lack of the total goes to empty classes, too, which two sd must show by themselves."""
    rng = np.random.default_rng(2)
    looks = [(1.0 - lacking) * shares_of() + rng.normal(size=CLASSES) * NOISE for _ in range(4_000)]
    far = [last_seen(noisy, NOISE, 1.0)[0] > HOLDING for noisy in looks]
    assert np.mean(far) < 0.05  # the chance of two sd by noise is 0.023, for the first class that is asked


def test_the_edge_of_the_highest_class_seen_is_where_the_classes_end_less_those_above():
    for number in (1, 21, 39):
        below = Edge(number, 0.1).below(200.0)
        assert below == pytest.approx(200.0 * 2.0 ** ((number - 40) / 4))
    assert math.isinf(Edge(40, 0.0).below(200.0))


def test_classes_of_counts_are_four_to_a_doubling_and_the_first_begins_at_nothing():
    edges = class_edges(100.0)
    assert (edges.size, edges[-1], edges[-5], edges[0]) == (NORM_CLASSES + 1, 100.0, 50.0, 100.0 / 1024.0)
    middles = class_middles(100.0)
    np.testing.assert_allclose(middles[1:], 0.5 * (edges[1:-1] + edges[2:]))
    assert middles[0] == 0.5 * edges[1]


@pytest.mark.parametrize(("counting", "noise"), [(1.0, 1e-4), (0.6, 1e-3)])
@pytest.mark.parametrize(("most", "power"), [(100.0, 1.0), (100.0, 2.0), (3.0, 1.0), (3.0, 2.0)])
def test_a_mean_is_that_of_the_middles_of_classes_that_are_seen(counting, noise, most, power):
    shares = np.zeros(NORM_CLASSES)
    shares[[0, 20, 24, 33]] = counting * np.array([0.5, 0.3, 0.15, 0.05])
    shares[37] = 2.0 * noise  # hidden
    look = Release(PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, noise), np.zeros(1), shares)
    held = np.minimum(class_middles(100.0), most) ** power
    whole = shares.sum() if counting < 1.0 else 1.0
    wanted = shares[:37] @ held[:37] / whole
    assert mean_seen(look, 100.0, most, power) == pytest.approx(wanted, rel=1e-12)
    if power == 1.0:
        assert mean_seen(look, 100.0, most) == mean_seen(look, 100.0, most, power)


@pytest.mark.parametrize(("times", "seen"), [(2.99, False), (3.01, True)])
def test_a_mean_that_may_be_noise_is_none(times, seen):
    """Most rows are in the first class, whose middle is nearly 0; a share of others makes up the mean."""
    middles, noise = class_middles(100.0), 0.01
    shares = np.zeros(NORM_CLASSES)
    shares[30] = 0.2
    number = 31
    error = noise * np.linalg.norm(middles[:number])
    shares[10] = (times * error - 0.2 * middles[30]) / middles[10]
    look = Release(PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, noise), np.zeros(1), shares)
    assert largest_seen(look).number == number
    assert (mean_seen(look, 100.0, 100.0) is not None) == seen
    nothing = Release(look.planned, look.at, np.zeros(NORM_CLASSES))
    assert mean_seen(nothing, 100.0, 100.0) is None
