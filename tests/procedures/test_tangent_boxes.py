"""Draws from log-concave densities: their law, whatever the frame."""

import numpy as np
import pytest
from scipy import stats

from privfit.privacy.mechanisms import make_source
from privfit.procedures.frame import about_minimum, frame_around
from privfit.procedures.tangent_boxes import (
    Frame,
    draw_exponential,
    draw_from_ball,
    fine_uniform,
    log_exponential,
    pick,
)


@pytest.fixture
def rng():
    return np.random.default_rng(20240502)


def kinked(x):
    points = np.array([-0.7, -0.2, 0.1, 0.15, 0.8])
    return 2.0 * np.abs(x - points).sum(axis=1), 2.0 * np.sign(x - points).sum(axis=1, keepdims=True)


def smooth(x):
    return np.logaddexp(0, 6 * x[:, 0]) + 9 * np.logaddexp(0, -4 * x[:, 0]), (
        6 / (1 + np.exp(-6 * x)) - 36 / (1 + np.exp(4 * x))
    )


def flat(x):
    return np.zeros(len(x)), np.zeros_like(x)


def draws(exponent, frame, times, noise):
    return np.array([draw_from_ball(exponent, frame, noise) for _ in range(times)])


@pytest.mark.statistical
@pytest.mark.parametrize("exponent", [kinked, smooth, flat])
@pytest.mark.parametrize("width", [0.02, 0.4])
def test_in_one_dimension_draws_have_the_target_law_and_no_other(exponent, width):
    """Kolmogorov-Smirnov against the integrated density; false alarm 1e-8. A factor 2 is noticed."""
    grid = np.linspace(-1, 1, 200_001)
    height = exponent(grid[:, None])[0]

    def cdf(factor):
        density = np.exp(-factor * (height - height.min()))
        mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
        return lambda t: np.interp(t, grid, mass / mass[-1])

    frame = Frame(np.array([0.1]), np.array([[width]]), 1.0)
    drawn = draws(exponent, frame, 1500, make_source(5))[:, 0]
    assert stats.kstest(drawn, cdf(1.0)).pvalue > 1e-8
    if exponent is not flat:
        assert stats.kstest(drawn, cdf(0.5)).pvalue < 1e-4
        assert stats.kstest(drawn, cdf(2.0)).pvalue < 1e-4


def bowl(x):
    a = np.array([[2.0, 1.0], [-1.0, 3.0], [0.5, -2.0]])
    inner = x @ a.T - np.array([1.0, 0.5, -0.5])
    return 2 * np.logaddexp(inner, -inner).sum(axis=1) + np.abs(x[:, 0] - 0.4), (
        2 * np.tanh(inner) @ a + np.column_stack([np.sign(x[:, 0] - 0.4), 0 * x[:, 0]])
    )


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [11, None], ids=["seeded", "secure"])
def test_in_two_dimensions_a_kinked_density_cut_off_by_the_ball_is_met(seed):
    """Chi-square on 8 x 8 cells; false alarm 1e-8 each. A density flatter by 30 % is noticed."""
    noise = make_source(seed)
    side = np.linspace(-0.6, 0.6, 481)
    middle = 0.5 * (side[1:] + side[:-1])
    grid = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = (grid**2).sum(axis=1) <= 0.36

    def cells(factor):
        mass = np.where(inside, np.exp(-factor * bowl(grid)[0]), 0.0).reshape(480, 480)
        mass = mass.reshape(8, 60, 8, 60).sum(axis=(1, 3)).ravel()
        return mass / mass.sum()

    center = about_minimum(bowl, np.eye(2), 0.6)
    frame = frame_around(bowl, center, np.array([[2.0, 1.0], [1.0, 3.0]]), 0.6)
    drawn = draws(bowl, frame, 3000, noise)
    assert ((drawn**2).sum(axis=1) <= 0.36 + 1e-12).all()
    counts = np.histogram2d(*drawn.T, bins=np.linspace(-0.6, 0.6, 9))[0].ravel()

    def pvalue(expected):
        used = expected * 3000 >= 20  # the law of chi-square holds for such
        seen = np.append(counts[used], counts[~used].sum())
        wanted = 3000 * np.append(expected[used], expected[~used].sum())
        return stats.chisquare(seen, wanted * seen.sum() / wanted.sum()).pvalue

    assert pvalue(cells(1.0)) > 1e-8
    assert seed is None or pvalue(cells(0.7)) < 1e-4


@pytest.mark.statistical
@pytest.mark.parametrize(("rate", "length"), [(0.0, 2.0), (1e-8, 1.0), (0.5, 3.0), (40.0, 2.0), (1e5, 7.0)])
def test_truncated_exponential_draws(rate, length):
    """False alarm 1e-8 each."""
    drawn = draw_exponential(np.full(4000, rate), np.full(4000, length), make_source(2))
    assert drawn.min() >= 0
    assert drawn.max() <= length
    law = stats.uniform(scale=length) if rate == 0 else stats.truncexpon(b=rate * length, scale=1 / rate)
    assert stats.kstest(drawn, law.cdf).pvalue > 1e-8
    t = np.linspace(0, length, 400_001)
    integral = np.trapezoid(np.exp(-rate * t), t) if rate < 1e3 else 1 / rate
    assert log_exponential(np.array(rate), np.array(length)) == pytest.approx(np.log(integral), abs=1e-6)


@pytest.mark.statistical
def test_boxes_are_picked_by_their_weight_and_rare_ones_rarely():
    """False alarm 1e-8."""
    weights = np.array([3.0, 1.0, 1e-3, 6.0])
    picked = np.bincount(pick(np.log(weights) + 700.0, 40_000, make_source(3)), minlength=4)
    assert stats.chisquare(picked, 40_000 * weights / weights.sum()).pvalue > 1e-8
    small = fine_uniform(100_000, make_source(4))
    assert 0 < small.min() < 1e-3
    assert small.max() < 1


def test_the_frame_is_centered_on_the_mode_and_as_wide_as_the_density():
    hessian = np.array([[4e4, 1e4], [1e4, 9e4]])
    mode = np.array([0.2, -0.3])

    def quadratic(x):
        return 0.5 * np.einsum("ij,jk,ik->i", x - mode, hessian, x - mode), (x - mode) @ hessian

    center = about_minimum(quadratic, hessian, 1.0)
    np.testing.assert_allclose(center, mode, atol=1e-2)
    frame = frame_around(quadratic, mode, hessian, 1.0)
    np.testing.assert_allclose(frame.turn.T @ hessian @ frame.turn, np.eye(2), atol=1e-2)
    theta = np.array([[0.5, 0.1]])
    np.testing.assert_allclose(frame.points(frame.coordinates(theta)), theta, atol=1e-12)


def counted(p, slope, curvature):
    """A quadratic whose minimum may lie outside of the unit ball, and a count of its evaluations."""
    calls = []

    def exponent(x):
        calls.append(len(x))
        return (
            -slope * x.sum(axis=1) + 0.5 * curvature * (x * x).sum(axis=1),
            curvature * x - slope,
        )

    return exponent, calls


@pytest.mark.statistical
def test_a_density_that_piles_up_at_the_sphere_is_drawn_exactly_too():
    """The part along the gradient against its marginal law in 3-D; KS, false alarm 1e-8."""
    exponent, _ = counted(3, 40.0, 3.0)
    center = about_minimum(exponent, np.eye(3), 1.0)
    assert np.linalg.norm(center - 1 / np.sqrt(3)) < 1e-3
    frame = frame_around(exponent, center, np.eye(3), 1.0)
    drawn = draws(exponent, frame, 1000, make_source(8)) @ np.ones(3) / np.sqrt(3)
    t = np.linspace(-1, 1, 200_001)
    cross = 2 * np.pi / 3.0 * (1 - np.exp(-1.5 * (1 - t * t)))  # a disc, Gaussian across
    density = np.exp(40 * np.sqrt(3) * (t - 1) - 1.5 * t * t) * cross
    mass = np.cumsum(density) / density.sum()
    assert stats.kstest(drawn, lambda s: np.interp(s, t, mass)).pvalue > 1e-8
    assert stats.kstest(1 - 1.3 * (1 - drawn), lambda s: np.interp(s, t, mass)).pvalue < 1e-4


@pytest.mark.parametrize("slope", [0.0, 300.0, 3e4])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_evaluations_stay_few_however_narrow_the_density(p, slope):
    exponent, calls = counted(p, slope, 1e5 if slope < 1e4 else 1.0)
    frame = frame_around(exponent, about_minimum(exponent, np.eye(p), 1.0), np.eye(p), 1.0)
    draw_from_ball(exponent, frame, make_source(1))
    assert sum(calls) < 1500


def test_a_box_is_dropped_only_if_it_misses_the_ball(rng):
    frame = Frame(np.array([0.5, 0.2]), np.array([[0.3, 0.1], [-0.3, 0.1]]), 1.0)
    low = rng.uniform(-8, 8, size=(300, 2))
    high = low + rng.uniform(0, 3, size=(300, 2))
    side = np.linspace(0, 1, 40)
    inner = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    seen = [frame.holds(frame.points(a + (b - a) * inner)).any() for a, b in zip(low, high, strict=True)]
    meets = frame.meets(low, high)
    assert (meets >= np.array(seen)).all()
    assert (meets != np.array(seen)).sum() < 10
    low, high = frame.extent()
    angle = np.linspace(0, 2 * np.pi, 500)
    z = frame.coordinates(np.column_stack([np.cos(angle), np.sin(angle)]))
    assert (z >= low).all()
    assert (z <= high).all()
