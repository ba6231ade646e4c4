"""Tails of every shape that released shares allow."""

import math

import numpy as np
import pytest
from scipy.stats import expon, norm, poisson

from privfit.solvers.hidden_tail import hidden_tail
from tests.solvers.tails_by_hand import TailsByHand

EDGES = np.concatenate([[0.0], np.geomspace(0.05, 20.0, 25)])
COUNTS = 2.0 ** (np.arange(-8, 21) / 3.0)


def shares_of(rows, edges=EDGES):
    return np.histogram(np.clip(rows, edges[0], edges[-1]), bins=edges)[0] / len(rows)


def noisy(shares, noise, seed):
    return shares + noise * np.random.default_rng(seed).normal(size=shares.size)


@pytest.mark.parametrize("total", [None, 1.0])
@pytest.mark.parametrize("noise", [1e-4, 2e-3, 8e-3])
def test_tails_are_those_worked_out_one_by_one(noise, total):
    shares = noisy(np.diff(expon.cdf(EDGES)), noise, 1)
    found, wanted = (
        hidden_tail(shares, noise, EDGES, total=total),
        TailsByHand(shares, noise, EDGES, total=total),
    )
    assert found.begin == wanted.begin
    assert found.evidence == pytest.approx(wanted.evidence, rel=1e-9)
    np.testing.assert_allclose(found.shares, wanted.expected, rtol=1e-7, atol=1e-15)
    for bound in (found.begin, 2.0 * found.begin, 5.0 * found.begin):
        assert found.beyond(bound) == pytest.approx(wanted.excess(bound), rel=1e-7)
    for allowed in (1e-5, 1e-3):
        bound = found.bound(lambda at, allowed=allowed: allowed * (1.0 + at))
        assert bound == pytest.approx(
            wanted.bound(lambda at, allowed=allowed: allowed * (1.0 + at)), rel=1e-6
        )


def test_tails_of_whole_numbers_are_of_those_alone():
    rows = np.random.default_rng(2).poisson(3.0, 50_000)
    shares = noisy(shares_of(rows, COUNTS), 5e-4, 3)
    few = 0.9 * np.diff(poisson(3.0).cdf(np.ceil(COUNTS) - 1.0))
    found = hidden_tail(shares, 5e-4, COUNTS, whole=True, explained=few)
    wanted = TailsByHand(shares, 5e-4, COUNTS, whole=True, explained=few)
    assert found.begin == wanted.begin
    for bound in (found.begin, 8.0, 12.0):
        assert found.beyond(bound) == pytest.approx(wanted.excess(bound), rel=1e-7)


def test_where_noise_hides_all_or_nothing_there_is_no_tail():
    shares = np.full(EDGES.size - 1, 1.0 / (EDGES.size - 1))
    assert hidden_tail(shares, 0.0, EDGES) is None
    assert hidden_tail(shares, 1.0, EDGES) is None
    edge = 1.0 / (6.0 * math.sqrt(EDGES.size - 1))
    assert hidden_tail(shares, 1.001 * edge, EDGES) is None
    assert hidden_tail(shares, 0.999 * edge, EDGES).begin == 0.0


def test_a_bound_that_is_allowed_anywhere_is_where_the_tail_begins():
    tail = hidden_tail(noisy(np.diff(norm.cdf(EDGES)) * 2.0, 1e-3, 4), 1e-3, EDGES)
    assert tail.bound(lambda _: 10.0) == tail.begin
    bounds = [tail.bound(lambda _, allowed=allowed: allowed) for allowed in (1e-2, 1e-3, 1e-4, 1e-5)]
    assert bounds == sorted(bounds)
    assert bounds[0] >= tail.begin


@pytest.mark.parametrize("noise", [3e-4, 1.2e-3])
def test_a_tail_that_few_rows_have_is_seen_where_normal_ones_end(noise):
    """A fifth of the rows with exponential sizes: what is normal about the others says nothing of them.

    What is expected beyond a size of 6 is between a third and three times what is there, on average over 200
    looks; of normal sizes it is less than a tenth of that. Each is some ten standard errors away.
    """
    rng = np.random.default_rng(5)
    n, far = 10_000, []
    mixed = 0.8 * np.diff(norm.cdf(EDGES)) * 2.0 + 0.2 * np.diff(expon.cdf(EDGES, scale=2.0))
    for law in (mixed, 2.0 * np.diff(norm.cdf(EDGES))):
        looks = [
            rng.multinomial(n, law / law.sum()) / n + noise * rng.normal(size=law.size) for _ in range(200)
        ]
        tails = [hidden_tail(shares, noise, EDGES, total=1.0) for shares in looks]
        far.append(np.mean([tail.beyond(6.0) for tail in tails]))
    there = 0.2 * 2.0 * math.exp(-3.0)
    assert there / 3.0 < far[0] < 3.0 * there
    assert far[1] < 0.1 * there


def test_where_all_that_is_seen_is_explained_there_is_no_tail():
    law = np.diff(poisson(3.0).cdf(np.ceil(COUNTS) - 1.0))
    assert hidden_tail(law, 1e-12, COUNTS, whole=True, explained=law + 1e-3) is None


def begins(shares, noise, **known):
    """Return the number of the class in which the tail of these shares begins."""
    given = np.zeros(EDGES.size - 1)
    given[list(shares)] = list(shares.values())
    return hidden_tail(given, noise, EDGES, **known).first


def test_a_tail_begins_at_the_last_class_that_a_clear_share_is_beyond():
    """Of 25 classes: five of them have a noise of 0.01 times the root of 5, and a share is six times that."""
    assert begins({0: 0.5, 20: 0.135}, 0.01) == 20
    assert begins({0: 0.5, 20: 0.133}, 0.01) == 0
    # what is lacking of 1 is spread evenly: 0.8 x + 0.1 of it is beyond, with a noise less by the root of 0.8
    assert begins({0: 0.5, 20: 0.026}, 0.01, total=1.0) == 20
    assert begins({0: 0.5, 20: 0.024}, 0.01, total=1.0) == 19


def test_what_is_explained_is_not_asked_where_it_would_show():
    """Two errors of the share beyond: 0.002 in each of the classes that are left exceeds them."""
    few = np.full(EDGES.size - 1, 0.002)
    assert begins({0: 0.9}, 0.00249, explained=few) == 25 - 6
    assert begins({0: 0.9}, 0.00266, explained=few) == 25 - 7
    assert begins({0: 0.9}, 0.02, explained=few) == 0
