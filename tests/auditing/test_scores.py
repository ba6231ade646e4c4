"""What scores learn from runs, against the formulas that they stand for."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from privfit.auditing import Claim, compare_outcomes
from privfit.auditing.bounds import ErrorRates, clopper_pearson
from privfit.auditing.scores import LinearScore, RepeatScore

CLAIM = Claim(subject="test", relation="replace", epsilon=1.0, delta=1e-6, mu=1.0)
PURE = Claim(subject="test", relation="replace", epsilon=1.0, delta=0.0)


def parallel(first, second):
    """Cosine of two directions."""
    return first @ second / math.sqrt((first @ first) * (second @ second))


def correlated(rng, shift):
    """Outcomes of three releases about 5, -3 and 2 with correlated noise, moved by a shift."""
    mixing = np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 0.4, 0.7]])
    return rng.normal(size=(500, 3)) @ mixing.T + [5.0, -3.0, 2.0] + shift


def test_the_linear_score_is_the_discriminant_of_fisher():
    rng = np.random.default_rng(1)
    first, second = correlated(rng, 0.0), correlated(rng, np.array([0.3, -0.2, 0.1]))
    pooled = 0.5 * (np.cov(first.T, bias=True) + np.cov(second.T, bias=True))
    exact = np.linalg.solve(pooled, second.mean(axis=0) - first.mean(axis=0))
    score = LinearScore.learn(first, second)
    assert parallel(score.direction, exact) == pytest.approx(1.0, abs=1e-9)
    assert score.of(second).mean() > score.of(first).mean()


@pytest.mark.parametrize("spread", [1e-8, 1e8])
def test_releases_whose_noise_is_small_beside_the_others_count_as_much(spread):
    rng = np.random.default_rng(2)
    first, second = correlated(rng, 0.0), correlated(rng, np.array([0.3, -0.2, 0.1]))
    unit = np.array([1.0, spread, 1.0])
    middle = np.array([0.0, 1.0, 0.0])
    plain, other = (
        LinearScore.learn(first, second),
        LinearScore.learn(*(x * unit + middle for x in (first, second))),
    )
    assert parallel(other.direction * unit, plain.direction) == pytest.approx(1.0, abs=1e-6)


def test_outcomes_that_are_huge_with_one_table_only_are_told_apart():
    """Squares overflow where nothing takes their size away, whichever table and sign they have."""
    rng = np.random.default_rng(3)
    for sign in (-1.0, 1.0):
        huge = sign * 1e200 * rng.random((300, 1)) * rng.integers(0, 2, (300, 1))
        still = np.zeros((300, 1))
        for pair in ((huge, still), (still, huge)):
            score = LinearScore.learn(*pair)
            with np.errstate(over="raise"):
                scores = [score.of(part) for part in pair]
            assert scores[1].mean() > scores[0].mean()
            assert np.isfinite(scores).all()


def test_a_release_without_noise_gets_all_the_weight():
    rng = np.random.default_rng(4)
    first, second = rng.normal(size=(2, 300, 2))
    first[:, 1], second[:, 1] = 0.2, 0.3
    score = LinearScore.learn(first, second)
    assert score.of(first).max() < score.of(second).min()


def test_outcomes_that_repeat_are_scored_by_how_often():
    first = np.array([[0.0, 1.0]] * 3 + [[2.0, 1.0]])
    second = np.array([[0.0, 1.0]] * 7 + [[3.0, 1.0]])
    score = RepeatScore.learn(first, second)
    fresh = np.array([[0.0, 1.0], [2.0, 1.0], [3.0, 1.0], [4.0, 1.0]])
    np.testing.assert_allclose(score.of(fresh), np.log([8 / 4, 1 / 2, 2 / 1, 1.0]))
    of_first, of_second = score.of_learnt(first, second)
    np.testing.assert_allclose(of_first, np.log([8 / 3] * 3 + [1.0]))
    np.testing.assert_allclose(of_second, np.log([7 / 4] * 7 + [1.0]))


@pytest.mark.parametrize("runs", [100, 2000])
def test_bounds_are_those_of_half_of_the_runs_at_an_eighth_of_the_failure(runs):
    """No error in the other half. Both scores, both measures and both errors have a part."""
    first, second = np.zeros((runs, 2)), np.ones((runs, 2))
    found = compare_outcomes(first, second, CLAIM)
    assert found.confidence == 0.99
    bound = clopper_pearson(0, runs // 2, 0.01 / 8)
    assert binom.cdf(0, runs // 2, bound) == pytest.approx(0.01 / 8)
    errors = ErrorRates(bound, bound)
    assert found.epsilon == pytest.approx(errors.epsilon(1e-6))
    assert found.mu == pytest.approx(errors.mu())
    assert found.score == "linear in all releases"
    assert found.private_noise
    assert found.trials == runs


def test_where_nothing_is_found_the_first_score_is_named():
    still = np.zeros((200, 1))
    for claim in (CLAIM, PURE):
        assert compare_outcomes(still, still, claim).score == "linear in all releases"


@pytest.mark.statistical
def test_the_score_is_that_of_the_measure_that_is_claimed():
    """One outcome in twenty is there with one table alone; the others differ by a sign, four times in five.

    The sign has the larger mu by more than 6 standard deviations, the rare outcome twice the epsilon.
    """
    rng = np.random.default_rng(5)
    tables = [np.where(rng.random(8000) < share, 1.0, -1.0) for share in (0.2, 0.8)]
    first, second = (signs + 1e-6 * rng.random(8000) for signs in tables)
    second[rng.random(8000) < 0.05] = 0.0
    pair = first[:, None], second[:, None]
    assert compare_outcomes(*pair, CLAIM).score == "linear in all releases"
    assert compare_outcomes(*pair, PURE).score == "outcomes that were seen before"
