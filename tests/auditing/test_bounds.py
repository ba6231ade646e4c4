import math

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from privfit.auditing import Claim, compare_outcomes
from privfit.auditing.bounds import ErrorRates, best_cut, clopper_pearson, error_rates
from privfit.errors import InvalidArgument

CLAIM = Claim(subject="test", relation="replace", epsilon=1.0, delta=1e-6, mu=1.0)


@pytest.mark.parametrize(("count", "trials"), [(0, 50), (3, 50), (49, 50), (500, 100_000)])
def test_clopper_pearson_is_the_exact_interval(count, trials):
    bound = clopper_pearson(count, trials, 0.01)
    assert bound == pytest.approx(beta.ppf(0.99, count + 1, trials - count), rel=1e-9)
    assert binom.cdf(count, trials, bound) == pytest.approx(0.01, rel=1e-6)


def test_clopper_pearson_of_all():
    assert clopper_pearson(50, 50, 0.01) == 1.0


def test_error_rates_turn_into_epsilon_and_mu():
    response = ErrorRates(1 / (1 + math.e), 1 / (1 + math.e))
    assert response.epsilon(0.0) == pytest.approx(1.0)
    assert response.epsilon(0.1) < 1.0
    assert ErrorRates(0.0 + norm.cdf(-1.5), norm.cdf(-0.5)).mu() == pytest.approx(2.0)
    for useless in (ErrorRates(0.5, 0.5), ErrorRates(1.0, 1.0), ErrorRates(0.9, 0.9)):
        assert useless.epsilon(0.0) == 0.0
        assert useless.mu() == 0.0
    lopsided = ErrorRates(0.001, 0.9)
    assert lopsided.epsilon(0.0) == pytest.approx(math.log(100))


def test_a_cut_tells_apart_what_lies_apart():
    first, second = np.arange(0.0, 100.0), np.arange(200.0, 300.0)
    cut = best_cut(first, second, delta=0.0, gaussian=False, failure=0.01)
    assert 99 <= cut < 200
    rates = error_rates(first, second, cut, 0.01)
    assert rates.false_alarm == rates.miss == clopper_pearson(0, 100, 0.005)


@pytest.mark.statistical
def test_the_cut_is_not_one_at_which_a_few_scores_decide():
    """Over 20 samples of scores; a bound below 0.75 would be 6 standard deviations low at the middle cut."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        learnt, tried = ((rng.normal(size=4000), rng.normal(1.0, size=4000)) for _ in range(2))
        cut = best_cut(*learnt, delta=1e-6, gaussian=True, failure=1e-3)
        assert error_rates(*tried, cut, 1e-3).mu() > 0.75


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 6])
def test_a_gaussian_shift_is_found_and_not_exceeded(size):
    """A false alarm has probability 1e-8 by the stated confidence."""
    rng = np.random.default_rng(3)
    shift = np.full(size, 1.0 / math.sqrt(size))
    first, second = rng.normal(size=(40_000, size)), rng.normal(size=(40_000, size)) + shift
    found = compare_outcomes(first, second, CLAIM, confidence=1 - 1e-8)
    assert 0.85 < found.mu <= 1.0
    assert not found.mu > CLAIM.mu
    assert found.score.startswith("linear")


@pytest.mark.statistical
def test_randomised_response_is_found_and_not_exceeded():
    """A false alarm has probability 1e-8 by the stated confidence."""
    rng = np.random.default_rng(4)
    first = (rng.random((40_000, 1)) < 1 / (1 + math.e)).astype(float)
    second = (rng.random((40_000, 1)) > 1 / (1 + math.e)).astype(float)
    found = compare_outcomes(first, second, CLAIM, confidence=1 - 1e-8)
    assert 0.85 < found.epsilon <= 1.0
    assert not found.epsilon > CLAIM.epsilon


@pytest.mark.statistical
def test_equal_laws_give_no_bound():
    """A bound above 0 has probability 1e-8 by the stated confidence."""
    rng = np.random.default_rng(5)
    for outcomes in (rng.normal(size=(2, 4000, 3)), rng.integers(0, 3, (2, 4000, 1)).astype(float)):
        found = compare_outcomes(*outcomes, CLAIM, confidence=1 - 1e-8)
        assert (found.epsilon, found.mu, found.violated) == (0.0, 0.0, False)


def test_constant_and_broken_outcomes_are_taken():
    still = np.zeros((200, 2))
    assert compare_outcomes(still, still, CLAIM).epsilon == 0.0
    broken = np.full((200, 2), np.nan)
    assert compare_outcomes(broken, broken, CLAIM).epsilon == 0.0
    assert compare_outcomes(np.ones((2000, 2)), np.zeros((2000, 2)), CLAIM).violated


@pytest.mark.statistical
@pytest.mark.parametrize("mark", [np.nan, np.inf, -np.inf])
def test_a_mechanism_that_fails_with_one_table_only_is_found(mark):
    """Noise hides all else. Missed if fewer than 60 of 2000 runs fail, 10 standard deviations below 200."""
    rng = np.random.default_rng(7)
    first, second = rng.normal(size=(2, 4000, 2))
    assert not compare_outcomes(first, second, CLAIM).violated
    second[rng.random(4000) < 0.1, 1] = mark
    assert compare_outcomes(first, second, CLAIM).violated


@pytest.mark.statistical
@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_outcomes_in_any_unit_are_told_apart(unit):
    """The shift is nine standard deviations: no outcome lies on the wrong side of the middle."""
    rng = np.random.default_rng(8)
    first, second = unit * rng.normal(size=(2, 1000, 2))
    assert compare_outcomes(first, second + 9.0 * unit, CLAIM).violated


def test_arguments_are_checked():
    good = np.zeros((200, 2))
    for pair in ((good[:50], good[:50]), (good, good[:, :1]), (good[:, 0], good[:, 0])):
        with pytest.raises(InvalidArgument, match="alike"):
            compare_outcomes(*pair, CLAIM)
    with pytest.raises(InvalidArgument, match="confidence"):
        compare_outcomes(good, good, CLAIM, confidence=1.0)
    with pytest.raises(InvalidArgument, match="Claim, got str"):
        compare_outcomes(good, good, "mu = 1")
    for other in (good + 1j, good.astype(str), [["a", "b"]] * 200):
        with pytest.raises(InvalidArgument, match="real numbers"):
            compare_outcomes(good, other, CLAIM)
    assert compare_outcomes(good.tolist(), good.astype(int), CLAIM).epsilon == 0.0
