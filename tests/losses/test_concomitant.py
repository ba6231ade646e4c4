"""Huber's loss with a scale: its functions agree with each other, and its constants bound them."""

import math

import numpy as np
import pytest

from privfit.losses import ConcomitantHuber
from privfit.losses.base import evaluate
from privfit.losses.concomitant import clipped_second_moment

LOSSES = [ConcomitantHuber(), ConcomitantHuber(2.5)]
SCALES = (0.3, 1.0, 2.5)


def grid():
    y = np.linspace(-1.0, 1.0, 5)
    eta = np.concatenate([np.linspace(-6.0, 6.0, 481), [-800.0, -40.0, 40.0, 800.0]])
    return np.repeat(y, eta.size), np.tile(eta, y.size)


def away_from_kinks(loss, y, eta, s, step):
    return np.abs(np.abs(y - eta) - loss.c * s) > 2 * step


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_slope_is_the_derivative_of_the_value(loss):
    y, eta = grid()
    keep = np.abs(eta) < 10
    y, eta, h = y[keep], eta[keep], 1e-5
    for s in SCALES:
        ok = away_from_kinks(loss, y, eta, s, h)
        up, down = (evaluate(loss.functions.value, y, eta + d, s=s, loss=loss) for d in (h, -h))
        slope = evaluate(loss.functions.slope, y, eta, s=s, loss=loss)
        np.testing.assert_allclose(slope[ok], ((up - down) / (2 * h))[ok], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_curvature_is_scale_times_the_derivative_of_the_slope(loss):
    y, eta = grid()
    keep = np.abs(eta) < 10
    y, eta, h = y[keep], eta[keep], 1e-5
    for s in SCALES:
        ok = away_from_kinks(loss, y, eta, s, h)
        up, down = (evaluate(loss.functions.slope, y, eta + d, s=s, loss=loss) for d in (h, -h))
        curvature = evaluate(loss.functions.curvature, y, eta, s=s, loss=loss)
        np.testing.assert_allclose(curvature[ok], (s * (up - down) / (2 * h))[ok], atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_constants_bound_the_functions_and_are_attained(loss):
    y, eta = grid()
    constants = loss.constants
    slopes, curvatures = [], []
    for s in SCALES:
        slopes.append(np.abs(evaluate(loss.functions.slope, y, eta, s=s, loss=loss)).max())
        curvatures.append(evaluate(loss.functions.curvature, y, eta, s=s, loss=loss))
    assert max(slopes) <= constants.slope
    assert max(slopes) >= 0.999 * constants.slope
    assert min(c.min() for c in curvatures) >= 0.0
    assert max(c.max() for c in curvatures) == pytest.approx(constants.curvature)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_scale_functions(loss):
    y, eta = grid()
    keep = np.abs(eta) < 10
    y, eta, h = y[keep], eta[keep], 1e-6
    low, high = loss.constants.scale_slope
    for s in SCALES:
        ok = away_from_kinks(loss, y, eta, s, 1e-3)
        up, down = (evaluate(loss.functions.value, y, eta, s=s + d, loss=loss) for d in (h, -h))
        slope = evaluate(loss.functions.scale_slope, y, eta, s=s, loss=loss)
        np.testing.assert_allclose(slope[ok], ((up - down) / (2 * h))[ok], atol=1e-6)
        assert low <= slope.min()
        assert slope.max() <= high
        # Mixed and second derivative in s are curvature / s times u and u**2.
        inside = evaluate(loss.functions.curvature, y, eta, s=s, loss=loss)
        u = evaluate(loss.functions.scale_direction, y, eta, s=s, loss=loss)
        mixed = [evaluate(loss.functions.slope, y, eta, s=s + d, loss=loss) for d in (h, -h)]
        twice = [evaluate(loss.functions.scale_slope, y, eta, s=s + d, loss=loss) for d in (h, -h)]
        np.testing.assert_allclose((inside * u / s)[ok], ((mixed[0] - mixed[1]) / (2 * h))[ok], atol=1e-6)
        np.testing.assert_allclose((inside * u**2 / s)[ok], ((twice[0] - twice[1]) / (2 * h))[ok], atol=1e-6)
    assert low < 0.0 < high
    assert high - low == pytest.approx(0.5 * loss.c**2)


@pytest.mark.parametrize("c", [0.5, 1.345, 3.0])
def test_clipped_second_moment_makes_the_scale_consistent_at_the_normal(c):
    z = np.linspace(-12, 12, 400_001)
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    assert clipped_second_moment(c) == pytest.approx(
        np.trapezoid(np.minimum(z * z, c * c) * density, z), rel=1e-9
    )


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_convex_in_eta(loss):
    _y, eta = grid()
    slope = evaluate(loss.functions.slope, 0.2, np.sort(np.unique(eta)), s=1.0, loss=loss)
    assert (np.diff(slope) >= 0).all()
