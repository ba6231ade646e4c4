"""How generous bounds on slopes and curvature are beside what releases say of the response."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from privfit.losses import Logistic, Multinomial, Poisson, SmoothedQuantile
from privfit.losses.hinge import SmoothedHinge
from privfit.solvers.response import ClassShares, MeanResponse
from privfit.solvers.slack import slack_at

from .simulated import problem_for

BOUND = 1000.0


def problem_of(loss):
    return problem_for(loss, np.ones((10_000, 1)))


def test_bounds_are_beside_what_is_usual_of_the_counts_that_were_released():
    """Large counts vary more than a count of 1, from which public facts alone must start, and rare ones less.

    A mean that noise hides is as large as the noise, but no larger than 1.
    """
    loss = Poisson(math.log(BOUND), BOUND)
    problem = problem_of(loss)

    def slack(mean, spread, error=0.0):
        return slack_at(loss, MeanResponse(problem, mean=mean, spread=spread, error=error))

    assert slack(1.0, 1.0) == loss.slack == pytest.approx((0.5 * BOUND, BOUND))
    assert slack(0.04, 0.2) == pytest.approx((2.5 * BOUND, 25.0 * BOUND))
    assert slack(0.04, 0.2, error=0.1) == pytest.approx((0.5 * BOUND / math.sqrt(0.1), 10.0 * BOUND))
    assert slack(100.0, 10.0) == pytest.approx((0.05 * BOUND, 0.01 * BOUND))
    assert slack(100.0, 50.0) == pytest.approx((0.02 * BOUND, 0.01 * BOUND))
    assert slack(100.0, 50.0, error=49.5) == loss.slack
    certain = 50.0**2 - 4.0 * 0.5 * BOUND * 0.1
    assert slack(1.0, 50.0, error=0.1) == pytest.approx((BOUND / math.sqrt(certain), BOUND / 0.8))
    assert slack(0.0, 0.0) == pytest.approx((0.5 * BOUND / math.sqrt(1e-3), BOUND / 1e-3))
    assert slack(2.0 * BOUND, 5.0 * BOUND) == (1.0, 1.0)
    assert slack(100.0, 50.0, error=60.0) == loss.slack


@pytest.mark.parametrize("share", [0.5, 0.2, 0.01])
@pytest.mark.parametrize("error", [0.0, 0.003, 0.1])
def test_a_rare_label_makes_curvature_and_slopes_smaller_beside_their_bounds(share, error):
    """By hand: 1/5 over ``s (1 - s)``, and its root; s two deviations of the noise nearer to even odds."""
    rarer = min(share + 2.0 * error, 0.5)
    uneven = max(0.2 / (rarer * (1.0 - rarer)), 1.0)
    for loss, factors in ((Logistic(), (1.0, 1.0)), (SmoothedHinge(0.5), SmoothedHinge(0.5).slack)):
        expected = pytest.approx((factors[0] * math.sqrt(uneven), factors[1] * uneven))
        for mean in (share, 1.0 - share):
            assert slack_at(loss, MeanResponse(problem_of(loss), mean, 0.4, error)) == expected


@pytest.mark.parametrize("error", [0.0, 0.01, 0.2])
def test_a_rare_class_makes_them_as_much_smaller_as_it_is_rarer_than_others_could_be(error):
    loss = Multinomial(4)
    even = ClassShares(loss, np.full(4, 0.25), error)
    assert slack_at(loss, even) == pytest.approx(loss.slack)
    for rarest in (0.05, -0.05, 0.0):
        shares = ClassShares(loss, np.array([0.5, 0.3, 0.2 - rarest, rarest]), error)
        uneven = max(0.2 / (max(rarest, 1e-4) + 2.0 * error), 1.0)
        slope, curvature = loss.slack
        assert slack_at(loss, shares) == pytest.approx((slope * math.sqrt(uneven), curvature * uneven))


def test_a_given_width_has_the_rows_within_it_that_the_spread_of_the_response_tells_of():
    """Of errors that make up 0.7 of it; a width that a look has told of, or will, is left to that."""
    narrow = SmoothedQuantile(0.25, width=0.03)
    seen = MeanResponse(problem_of(narrow), mean=0.2, spread=0.5, error=0.01)
    slope, usual = narrow.slack
    within = 2.0 * 0.03 / 0.35 * norm.pdf(norm.ppf(0.25))
    assert slack_at(narrow, seen) == (slope, pytest.approx(replace(narrow, within=within).slack[1]))
    assert slack_at(narrow, seen)[1] > 3.0 * usual
    for wide in (SmoothedQuantile(0.25, width=0.4), replace(narrow, within=0.2), replace(narrow, least=0.01)):
        assert slack_at(wide, seen) == wide.slack
    nothing = MeanResponse(problem_of(narrow), mean=0.2, spread=0.0, error=0.0)
    assert slack_at(narrow, nothing) == narrow.slack


def test_shares_that_noise_made_negative_are_as_large_as_it_or_one_in_ten_thousand():
    loss = Logistic()
    for error, rarer in ((0.02, 0.04), (0.0, 1e-4)):
        uneven = 0.2 / (rarer * (1.0 - rarer))
        expected = pytest.approx((math.sqrt(uneven), uneven))
        assert slack_at(loss, MeanResponse(problem_of(loss), -0.03, 0.4, error)) == expected
        assert slack_at(loss, MeanResponse(problem_of(loss), 1.03, 0.4, error)) == expected


def test_no_share_that_noise_made_large_is_rarer_than_half():
    for share, error in ((0.45, 0.25), (0.5, 0.2), (0.1, 0.4)):
        seen = MeanResponse(problem_of(Logistic()), share, 0.5, error)
        assert slack_at(Logistic(), seen) == Logistic().slack
