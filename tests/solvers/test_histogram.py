"""The highest class of rows that noise does not hide, with and without a known total."""

import numpy as np
import pytest

from privfit.solvers.histogram import last_seen

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
