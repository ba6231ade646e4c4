import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privfit.errors import InvalidArgument, PlanViolation
from privfit.privacy.mechanisms import make_source
from privfit.privacy.pure_mechanisms import calibrate_selection, select_index, selection_epsilon

SOURCES = [make_source(0), make_source(None)]


@pytest.mark.parametrize("epsilon", np.logspace(-4, 3, 8))
@pytest.mark.parametrize("sensitivity", [1e-12, 0.7, 1.0, 1e6])
def test_calibration_is_literal_and_not_wasteful(sensitivity, epsilon):
    scale = calibrate_selection(sensitivity=sensitivity, epsilon=epsilon)
    assert 2 * Fraction(sensitivity) / Fraction(scale) <= selection_epsilon(sensitivity, scale) <= epsilon
    assert scale == pytest.approx(2 * sensitivity / epsilon, rel=1e-12)


@pytest.mark.parametrize("source", SOURCES)
def test_a_selection_with_too_small_a_scale_is_refused(source):
    scale = calibrate_selection(sensitivity=1e-3, epsilon=1.0)
    ask = {"sensitivity": 1e-3, "epsilon": 1.0, "source": source}
    assert select_index(np.zeros(3), scale=scale, **ask) in range(3)
    for small in (0.999 * scale, 0.0, -scale, math.nan):
        with pytest.raises(PlanViolation, match="calibrate_selection"):
            select_index(np.zeros(3), scale=small, **ask)


def test_a_scale_that_is_exactly_enough_is_taken():
    """A plan states the cost of its scale, and the selection asks for no more."""
    epsilon = selection_epsilon(0.4, 1.3)
    assert select_index(np.zeros(2), sensitivity=0.4, epsilon=epsilon, scale=1.3, source=SOURCES[0]) in (0, 1)


@pytest.mark.parametrize("shape", [(0,), (2, 2), ()])
def test_scores_are_a_vector(shape):
    with pytest.raises(InvalidArgument, match="scores"):
        select_index(np.zeros(shape), sensitivity=1.0, epsilon=1.0, scale=2.1, source=SOURCES[0])


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES)
def test_the_law_is_that_of_the_exponential_mechanism(source):
    """Chi-square test at 1e-7; scales of 0.7 and 1.45 times this one fail it. NaN counts as 0."""
    scores, epsilon = np.array([0.5, 0.0, 2.0, np.nan, 1.0]), 1.0
    scale = calibrate_selection(sensitivity=0.35, epsilon=epsilon)
    draws = [
        select_index(scores, sensitivity=0.35, epsilon=epsilon, scale=scale, source=source)
        for _ in range(8_000)
    ]
    counts = np.bincount(draws, minlength=5)

    def p_value(assumed):
        odds = np.exp(-np.nan_to_num(scores) / assumed)
        return stats.chisquare(counts, counts.sum() * odds / odds.sum()).pvalue

    assert p_value(scale) > 1e-7
    assert p_value(0.7 * scale) < 1e-7
    assert p_value(1.45 * scale) < 1e-7
