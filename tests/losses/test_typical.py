"""What forecasts assume of a loss, and how loose its bounds are."""

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from privfit.errors import Incompatible
from privfit.losses import (
    ConcomitantHuber,
    Custom,
    Hinge,
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    SmoothedHinge,
    SmoothedQuantile,
    Squared,
)
from privfit.losses.base import evaluate
from privfit.losses.typical import constant_predictor, curvatures_along, typical, usual_residual


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


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        (Logistic(), (0.25, 0.25)),
        (Squared(2.0), (1.0, 0.0625)),
        (Poisson(3.0, 40.0), (1.0, 1.0)),
        (Multinomial(5), (0.2, 0.2)),
    ],
)
def test_what_has_a_closed_form_is_met(loss, expected):
    assert typical(loss, residual=0.25) == pytest.approx(expected, rel=1e-6)


def held(residual, end):
    """Return the share of normal numbers within a threshold, and the mean square of all, held to it."""
    z = end / residual
    inside = norm.cdf(z) - norm.cdf(-z)
    return inside, residual**2 * (inside - 2.0 * z * norm.pdf(z)) + end**2 * (1.0 - inside)


@pytest.mark.parametrize("residual", [0.5, 2.0])
def test_residuals_beyond_a_threshold_count_by_the_threshold(residual):
    """Points of a grid stand for a normal number. A scale that is fitted is the unit of both."""
    assert typical(Huber(1.0), residual=residual) == pytest.approx(held(residual, 1.0), rel=0.01)
    curvature, score = typical(ConcomitantHuber(1.5), residual=residual)
    inside, square = held(1.0, 1.5)
    assert (curvature, score) == pytest.approx((inside / residual, square), rel=0.01)


@pytest.mark.parametrize("residual", [0.5, 2.0])
def test_a_far_quantile_has_the_density_there(residual):
    curvature = norm.pdf(norm.ppf(0.99)) / residual
    found = typical(SmoothedQuantile(0.99, 0.2 * residual), residual=residual)
    assert found[0] == pytest.approx(curvature, rel=0.05)


@pytest.mark.parametrize(("side", "end"), [(1.0, -2.0), (-1.0, 2.0)])
def test_slopes_of_one_sign_are_nearest_to_0_at_an_end_of_four_residual_scales(side, end):
    loss = Custom(
        lambda y, eta: side * eta + np.log(np.cosh(eta)) / 2.0,
        lambda y, eta: side + np.tanh(eta) / 2.0,
        lambda y, eta: 0.5 / np.cosh(eta) ** 2,
        slope_bound=1.5,
        curvature_bound=0.5,
        vectorized=True,
    )
    curvature, score = typical(loss, residual=0.5)
    assert curvature == pytest.approx(0.5 / math.cosh(end) ** 2)
    assert score == pytest.approx((1.0 - math.tanh(2.0) / 2.0) ** 2)


def test_a_response_without_a_range_has_residuals_of_1():
    assert (usual_residual(None), usual_residual(6.0)) == (1.0, 1.5)


ETA = np.array([-30.0, -2.0, 0.0, 1.0, 4.0])


def test_curvatures_along_a_predictor_are_those_of_the_model_and_not_much_smaller_than_the_largest():
    found = curvatures_along(Logistic(), ETA[None], least=0.02)
    assert found.shape == (5, 1, 1)
    expected = np.maximum(expit(ETA) * expit(-ETA), 0.02 * 0.25)
    np.testing.assert_allclose(found.ravel(), expected)
    counts = curvatures_along(Poisson(3.0, 20.0), ETA[None], least=0.001)
    largest = math.exp(3.0)
    expected = [0.001 * largest, math.exp(-2.0), 1.0, math.e, 0.001 * largest]  # flat beyond the bound
    np.testing.assert_allclose(counts.ravel(), expected)


def test_curvatures_of_labels_that_differ_are_averaged():
    """A smoothed hinge is curved about a margin of 1, which is on either side for the two labels."""
    eta, loss = np.array([-1.0, 0.0, 0.3, 1.0, 3.0]), SmoothedHinge(0.5)
    labels = [evaluate(loss.functions.curvature, np.full(5, y), eta, s=1.0, loss=loss) for y in (0.0, 1.0)]
    assert labels[0].tolist() != labels[1].tolist()
    found = curvatures_along(loss, eta[None], least=1e-6)
    expected = np.maximum(0.5 * (labels[0] + labels[1]), 1e-6 * loss.constants.curvature)
    np.testing.assert_allclose(found.ravel(), expected)


def test_curvatures_of_classes_are_those_of_their_probabilities():
    loss, eta = Multinomial(3), np.array([[0.0, 2.0], [0.0, -1.0]])
    for k, found in enumerate(curvatures_along(loss, eta, least=0.03)):
        lifted = loss.means.lift @ eta[:, k]
        chance = np.exp(lifted) / np.exp(lifted).sum()
        spread = np.diag(chance) - np.outer(chance, chance)
        expected = loss.means.lift.T @ spread @ loss.means.lift + 0.01 * np.eye(2)
        np.testing.assert_allclose(found, expected, atol=1e-12)


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


@pytest.mark.parametrize("tau", [0.1, 0.9])
def test_a_quantile_is_that_of_a_normal_response(tau):
    loss = SmoothedQuantile(tau, 0.01)
    found = constant_predictor(loss, 0.3, spread=0.5, limit=8.0)
    assert found == pytest.approx(0.3 + 0.5 * norm.ppf(tau), abs=2e-3)
    assert constant_predictor(loss, 30.0, spread=0.5, limit=8.0) == pytest.approx(8.0)


@pytest.mark.parametrize(("loss", "mean"), [(Logistic(), 1.0), (Logistic(), 0.0), (Poisson(3.0, 20.0), 0.0)])
def test_a_predictor_without_a_limit_of_its_own_is_at_the_limit(loss, mean):
    found = constant_predictor(loss, mean, spread=1.0, limit=2.0)
    assert found == pytest.approx(2.0 if mean else -2.0)
