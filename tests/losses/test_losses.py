"""Losses without a scale: derivatives, constants, shapes, published values."""

import math
import warnings

import numpy as np
import pytest

from privfit.errors import InvalidArgument
from privfit.losses import (
    Hinge,
    Huber,
    LogCosh,
    Logistic,
    Poisson,
    PseudoHuber,
    Quantile,
    SelfConcordantHuber,
    Sigmoid,
    SmoothedHinge,
    SmoothedHuber,
    SmoothedQuantile,
    Squared,
)
from privfit.losses.base import evaluate

KINKED = [Hinge(), Quantile(), Quantile(0.1)]
SMOOTH = [
    Logistic(),
    Squared(0.7),
    Huber(),
    Huber(0.3),
    SmoothedHinge(),
    SmoothedHinge(0.3),
    SmoothedQuantile(),
    SmoothedQuantile(0.85, 0.4),
    Poisson(),
    Poisson(1.0, 4.5),
    Poisson(2.0, 100.0),
    SmoothedHuber(),
    SmoothedHuber(0.4, 1.5),
    LogCosh(),
    LogCosh(0.2),
    PseudoHuber(),
    PseudoHuber(0.2),
    SelfConcordantHuber(),
    SelfConcordantHuber(0.2),
    Sigmoid(),
]
LOSSES = KINKED + SMOOTH
CONVEX = [loss for loss in LOSSES if loss.convex]
ROBUST = [LogCosh(), PseudoHuber(), SelfConcordantHuber(), LogCosh(0.2), PseudoHuber(3.0)]
EVERY_Y = (-1e9, -1.0, 0.0, 0.25, 1.0, 3.0, 4.5, 20.0, 1e9)
"""Responses of any kind, declared or not: constants hold for all."""


def by_name(loss):
    return loss.name


def responses(loss):
    return {"binary": (0.0, 1.0), "numeric": (-0.6, 0.0, 0.9), "count": (0.0, 1.0, 4.0, 30.0)}[
        loss.target_kind
    ]


def breaks(loss, y):
    """Return the predictors at which slope or curvature of a loss jump."""
    side = 2.0 * y - 1.0
    return {
        "Hinge": [side],
        "SmoothedHinge": [side, side * (1.0 - loss.parameters[0])],
        "Squared": [y - loss.parameters[0], y + loss.parameters[0]],
        "Huber": [y - loss.parameters[0], y + loss.parameters[0]],
        "Quantile": [y],
        "SmoothedQuantile": [y - loss.parameters[1], y + loss.parameters[1]],
        "Poisson": [-loss.parameters[0], loss.parameters[0]],
    }.get(type(loss).__name__, [])


def points(loss, y, margin):
    eta = np.linspace(-7.0, 7.0, 2801) + 0.000123
    for at in breaks(loss, y):
        eta = eta[np.abs(eta - at) > margin]
    return eta


def of(loss, name, y, eta):
    return evaluate(getattr(loss.functions, name), y, eta, s=1.0, loss=loss)


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_slope_and_curvature_are_derivatives(loss):
    h = 1e-5
    for y in responses(loss):
        eta = points(loss, y, 2 * h)
        slope = (of(loss, "value", y, eta + h) - of(loss, "value", y, eta - h)) / (2 * h)
        np.testing.assert_allclose(of(loss, "slope", y, eta), slope, rtol=1e-7, atol=1e-8)
        curvature = (of(loss, "slope", y, eta + h) - of(loss, "slope", y, eta - h)) / (2 * h)
        np.testing.assert_allclose(of(loss, "curvature", y, eta), curvature, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_constants_hold_for_every_response_and_predictor_and_are_attained(loss):
    eta = np.concatenate([np.linspace(-6, 6, 4801), [-1e300, -800.0, -40.0, 40.0, 800.0, 1e300]])
    taken = (0.0, 1.0) if isinstance(loss, Logistic) else EVERY_Y  # of other labels kernels clamp its slope
    slopes = np.abs([of(loss, "slope", y, eta) for y in taken])
    curvatures = np.abs([of(loss, "curvature", y, eta) for y in taken])
    constants = loss.constants
    assert slopes.max() <= constants.slope * (1 + 1e-15)
    assert slopes.max() >= 0.999 * constants.slope
    assert constants.smooth == (loss not in KINKED)
    if constants.smooth:
        assert curvatures.max() <= constants.curvature * (1 + 1e-15)
        assert curvatures.max() >= 0.999 * constants.curvature
    else:
        assert (curvatures == 0.0).all()


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_extreme_arguments_give_numbers_and_no_warning(loss):
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        for name in ("value", "slope", "curvature"):
            function = getattr(loss.functions, name)
            for y in EVERY_Y:
                for eta in (-800.0, -1e-300, 0.0, 800.0):
                    assert math.isfinite(function(y, eta, 1.0, *loss.parameters)), (name, y, eta)


@pytest.mark.parametrize("loss", CONVEX, ids=by_name)
def test_convex_losses_have_rising_slopes(loss):
    eta = np.linspace(-9.0, 9.0, 20_001)
    for y in responses(loss):
        slope = of(loss, "slope", y, eta)
        assert (np.diff(slope) >= -1e-13 * np.abs(slope).max()).all()
        assert (of(loss, "curvature", y, eta) >= 0.0).all()


def test_the_sigmoid_loss_is_not_convex():
    loss, eta = Sigmoid(), np.linspace(-6, 6, 24_001)
    assert not loss.convex
    curvature = of(loss, "curvature", 1.0, eta)
    assert curvature.min() == pytest.approx(-1 / (6 * math.sqrt(3)), rel=1e-6)
    assert curvature.max() == pytest.approx(1 / (6 * math.sqrt(3)), rel=1e-6)
    np.testing.assert_allclose(of(loss, "value", 1.0, eta), 1 / (1 + np.exp(eta)), rtol=1e-13)
    np.testing.assert_allclose(of(loss, "value", 0.0, eta), 1 / (1 + np.exp(-eta)), rtol=1e-13)


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
@pytest.mark.parametrize("radius", [0.01, 0.4, 1.0, 3.0, 12.0])
def test_span_bounds_the_range_of_the_loss(loss, radius):
    eta = np.linspace(-radius, radius, 2001)
    others = () if isinstance(loss, Logistic) else np.linspace(-20, 20, 41)
    ranges = [np.ptp(of(loss, "value", y, eta)) for y in (*responses(loss), *others)]
    assert max(ranges) <= loss.span(radius) * (1 + 1e-9)
    assert loss.span(radius) <= 2 * loss.constants.slope * radius * (1 + 1e-12)


@pytest.mark.parametrize("loss", [Hinge(), SmoothedHinge(0.3), Sigmoid(), Logistic()], ids=by_name)
@pytest.mark.parametrize("radius", [0.01, 0.4, 1.0, 3.0, 12.0])
def test_spans_of_binary_losses_are_exact(loss, radius):
    eta = np.linspace(-radius, radius, 2001)
    assert np.ptp(of(loss, "value", 1.0, eta)) == pytest.approx(loss.span(radius), rel=1e-9)


@pytest.mark.parametrize("loss", [Poisson(), Poisson(1.0, 4.5), Poisson(2.0, 100.0)], ids=by_name)
@pytest.mark.parametrize("radius", [0.4, 1.7, 3.0, 12.0])
def test_spans_of_counts_are_exact(loss, radius):
    eta = np.linspace(-radius, radius, 20_001)
    ranges = [np.ptp(of(loss, "value", y, eta)) for y in np.linspace(0, loss.count_bound, 11)]
    assert max(ranges) == pytest.approx(loss.span(radius), rel=1e-6)


@pytest.mark.parametrize(
    ("loss", "gamma"), [(loss, loss.constants.self_concordance) for loss in (*ROBUST, Logistic())]
)
def test_self_concordance_of_order_2_is_the_smallest_that_holds(loss, gamma):
    """|f'''| <= gamma f''; the published 3/c of LogCosh and PseudoHuber holds as well."""
    ratio = third_over_power(loss, 1.0)
    assert ratio.max() <= gamma * (1 + 1e-6)
    assert ratio.max() >= 0.999 * gamma
    if isinstance(loss, LogCosh | PseudoHuber):
        assert gamma <= 3.0 / loss.c


@pytest.mark.parametrize("c", [0.3, 1.345])
def test_self_concordance_of_order_3_is_the_smallest_that_holds(c):
    """|f'''| <= gamma f''**1.5 with gamma = 2 sqrt(2) / c; the published 2/c does not hold."""
    loss = SelfConcordantHuber(c)
    ratio = third_over_power(loss, 1.5)
    assert ratio.max() <= loss.constants.self_concordance_3 * (1 + 1e-6)
    assert ratio.max() >= 0.999 * loss.constants.self_concordance_3
    assert ratio.max() > 1.4 * 2.0 / c


def third_over_power(loss, power):
    c = loss.parameters[0] or 1.0
    eta = c * np.concatenate([np.linspace(1e-3, 8, 40_001), [20.0, 60.0, 200.0]])
    if isinstance(loss, Logistic | LogCosh):
        eta = eta[eta <= 8 * c]
    h = 1e-4 * c
    third = (of(loss, "curvature", 0.0, eta + h) - of(loss, "curvature", 0.0, eta - h)) / (2 * h)
    return np.abs(third) / of(loss, "curvature", 0.0, eta) ** power


@pytest.mark.parametrize("loss", ROBUST, ids=by_name)
def test_robust_losses_are_squares_near_zero_and_lines_far_out(loss):
    r = np.array([0.0, 1e-12, 1e-7, 1e-5, 1e-3]) * loss.c
    np.testing.assert_allclose(of(loss, "value", 0.0, r), 0.5 * r**2, rtol=1e-6, atol=0)
    far = np.array([1e3, 1e6, 1e9]) * loss.c
    np.testing.assert_allclose(of(loss, "value", 0.0, far), loss.c * far, rtol=2e-2)
    np.testing.assert_allclose(of(loss, "slope", 0.0, far), loss.c, rtol=1e-3)


def test_published_formulas():
    t, c = np.linspace(-4, 4, 80), 0.8
    np.testing.assert_allclose(of(LogCosh(c), "value", 0.0, t), c**2 * np.log(np.cosh(t / c)), rtol=1e-12)
    root = np.sqrt(1 + (t / c) ** 2)
    np.testing.assert_allclose(of(PseudoHuber(c), "value", 0.0, t), c**2 * (root - 1), rtol=1e-12)
    z = np.sqrt(1 + 4 * (t / c) ** 2)
    published = 0.5 * c**2 * (z - 1 + np.log((z - 1) / (2 * (t / c) ** 2)))
    np.testing.assert_allclose(of(SelfConcordantHuber(c), "value", 0.0, t), published, rtol=1e-9)
    m = np.linspace(-2, 2, 41)
    np.testing.assert_array_equal(of(Hinge(), "value", 1.0, m), np.maximum(0, 1 - m))
    np.testing.assert_array_equal(of(Hinge(), "value", 0.0, m), np.maximum(0, 1 + m))
    smooth = np.where(m >= 1, 0, np.where(m > 0, (1 - m) ** 2 / 2, 0.5 - m))
    np.testing.assert_allclose(of(SmoothedHinge(1.0), "value", 1.0, m), smooth, atol=1e-15)
    check = np.where(0.2 - t >= 0, 0.3 * (0.2 - t), -0.7 * (0.2 - t))
    np.testing.assert_allclose(of(Quantile(0.3), "value", 0.2, t), check, rtol=1e-12)
    np.testing.assert_allclose(of(Quantile(), "value", 0.2, t), 0.5 * np.abs(0.2 - t), rtol=1e-12)
    counted = np.exp(t[np.abs(t) <= 3]) - 7 * t[np.abs(t) <= 3]
    np.testing.assert_allclose(of(Poisson(), "value", 7.0, t[np.abs(t) <= 3]), counted, rtol=1e-12)


def test_smoothed_losses_are_close_to_the_kinked_ones():
    eta = np.linspace(-3, 3, 601)
    gap = of(Hinge(), "value", 1.0, eta) - of(SmoothedHinge(0.3), "value", 1.0, eta)
    assert gap.min() >= 0.0
    assert gap.max() == pytest.approx(0.15)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    smooth = SmoothedQuantile(0.8, 0.4)
    convolved = sum(
        0.5 * w * of(Quantile(0.8), "value", 0.1 + 0.4 * u, eta) for u, w in zip(nodes, weights, strict=True)
    )
    np.testing.assert_allclose(of(smooth, "value", 0.1, eta), convolved, atol=1e-5)


def test_the_bend_of_the_smoothed_huber_loss_matches_at_both_ends():
    loss = SmoothedHuber(1.0, 0.6)
    for at, slope, curvature in ((1.0, 1.0, 1.0), (1.6, 1.3, 0.0)):
        for eta in (at - 1e-9, at, at + 1e-9):
            assert of(loss, "slope", 0.0, eta) == pytest.approx(slope, abs=2e-9)
            assert of(loss, "curvature", 0.0, eta) == pytest.approx(curvature, abs=1e-15)
    third = np.diff(of(loss, "curvature", 0.0, np.array([0.99999, 1.00001, 1.59999, 1.60001])))
    np.testing.assert_allclose(third[[0, 2]], 0.0, atol=1e-9)
    near = SmoothedHuber(0.7, 1e-6)
    eta = np.linspace(-3, 3, 301)
    np.testing.assert_allclose(of(near, "value", 0.0, eta), of(Huber(0.7), "value", 0.0, eta), atol=1e-5)


def test_kinks():
    assert of(Hinge(), "slope", 1.0, np.array([1 - 1e-12, 1.0, 1 + 1e-12])).tolist() == [-1.0, 0.0, 0.0]
    assert of(Quantile(0.2), "slope", 0.5, np.array([0.4, 0.5, 0.6])).tolist() == [-0.2, 0.0, 0.8]


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: SmoothedHinge(0), "width"),
        (lambda: Quantile(1.0), "tau"),
        (lambda: SmoothedQuantile(0.0), "tau"),
        (lambda: SmoothedQuantile(0.5, -1), "width"),
        (lambda: Poisson(0), "bound"),
        (lambda: Poisson(51), "bound"),
        (lambda: Poisson(1, math.inf), "count_bound"),
        (lambda: SmoothedHuber(0, 1), "c must"),
        (lambda: SmoothedHuber(1, 0), "h must"),
        (lambda: LogCosh("1"), "c must"),
        (lambda: PseudoHuber(math.nan), "c must"),
        (lambda: SelfConcordantHuber(-1), "c must"),
    ],
)
def test_constants_are_checked(make, name):
    with pytest.raises(InvalidArgument, match=name):
        make()


REACHING = [Logistic(), Poisson(), Poisson(1.0, 4.5), Poisson(2.0, 100.0)]


@pytest.mark.parametrize("loss", LOSSES, ids=by_name)
def test_no_possible_response_is_steeper_than_the_reach(loss):
    eta = np.concatenate([np.linspace(-8.0, 8.0, 161), [-1e9, -60.0, 60.0, 1e9]])
    reach = evaluate(loss.functions.reach, 0.0, eta, s=1.0, loss=loss)
    steepest = np.zeros(eta.size)
    possible = (0.0, 1.0) if loss.target_kind == "binary" else EVERY_Y
    for y in possible:
        slope = np.abs(evaluate(loss.functions.slope, y, eta, s=1.0, loss=loss))
        assert (slope <= reach * (1.0 + 1e-12)).all()
        steepest = np.maximum(steepest, slope)
    if loss in REACHING:
        np.testing.assert_allclose(steepest, reach, rtol=1e-12)


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss.symmetric], ids=by_name)
def test_symmetric_losses_are_even_functions_of_the_residual(loss):
    r = np.linspace(-5.0, 5.0, 101)
    values = evaluate(loss.functions.value, 0.0, r, s=1.0, loss=loss)
    np.testing.assert_allclose(values, values[::-1], atol=1e-12)
    for y in (-2.0, 1.5):
        np.testing.assert_allclose(
            evaluate(loss.functions.value, y, y + r, s=1.0, loss=loss), values, atol=1e-12
        )
