"""What forecasts assume of a loss, and how loose its bounds are."""

import math

import pytest

from privfit.errors import Incompatible
from privfit.losses import (
    ConcomitantHuber,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    SmoothedHinge,
    SmoothedQuantile,
    Squared,
)
from privfit.losses.typical import constant_predictor, typical


@pytest.mark.parametrize(
    ("loss", "curvature", "score"),
    [
        (Logistic(), 0.25, 0.25),
        (SmoothedHinge(0.5), 2.0, 1.0),
        (Squared(2.0), 1.0, 0.0625),
        (Huber(10.0), 1.0, 0.0625),
        (ConcomitantHuber(8.0), 4.0, 1.0),
        (Poisson(3.0, 20.0), 1.0, 1.0),
        # The smoothed slope's square falls short of tau (1 - tau) by density * width / 3 to first order.
        (SmoothedQuantile(0.5, 0.05), 1.5958, 0.25 - 1.5958 * 0.05 / 3),
        (SmoothedQuantile(0.9, 0.05), 0.7020, 0.09 - 0.7020 * 0.05 / 3),
    ],
)
def test_typical_curvatures_and_scores(loss, curvature, score):
    assert typical(loss, residual=0.25) == pytest.approx((curvature, score), rel=0.03)


@pytest.mark.parametrize("loss", [Hinge(), Quantile()])
def test_kinks_have_no_forecast(loss):
    with pytest.raises(Incompatible, match=loss.smoothed):
        typical(loss, residual=0.25)


def test_slack_is_at_least_one_and_grows_with_loose_bounds():
    assert Logistic().slack == Squared(0.1).slack == SmoothedHinge().slack == (1.0, 1.0)
    assert SmoothedQuantile().slack == pytest.approx((1.0, 1.0), rel=3e-3)
    assert Poisson(3.0, 20.0).slack == pytest.approx((10.04, 20.09), rel=1e-3)
    assert SmoothedHinge(0.25).slack == (1.0, 4.0)
    assert SmoothedQuantile(0.9).slack == pytest.approx((1.5, 2.28), rel=1e-3)
    assert SmoothedQuantile(0.5, 0.1, within=0.08).slack == (1.0, 4.0)


@pytest.mark.parametrize(
    ("loss", "mean", "expected"),
    [
        (Squared(0.1), 0.7, 0.7),
        (Huber(1.0), -9.0, -8.0),
        (ConcomitantHuber(), 0.2, 0.2),
        (SmoothedQuantile(0.5, 0.01), 0.3, 0.3),
        (Logistic(), 0.3, math.log(3.0 / 7.0)),
        (Poisson(3.0, 20.0), 2.0, math.log(2.0)),
    ],
)
def test_constant_predictors_are_where_the_expected_slope_is_0(loss, mean, expected):
    assert constant_predictor(loss, mean, spread=1.0, limit=8.0) == pytest.approx(expected, abs=1e-6)
