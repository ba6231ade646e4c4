"""Repeated releases: the law of the noise, its cost, and the density ratio it rests on."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, gamma, kstest

from privfit.errors import Incompatible, PlanViolation
from privfit.privacy import repeated
from privfit.privacy.mechanisms import gaussian_mu, make_source
from privfit.privacy.noise import NoNoise
from privfit.privacy.pure_mechanisms import laplace_epsilon, radial_epsilon
from privfit.privacy.repeated import (
    ExactRepeated,
    RepeatedCube,
    RepeatedGaussian,
    RepeatedLaplace,
    RepeatedRadial,
    cube_epsilon,
)

PURE = {RepeatedLaplace: 1, RepeatedRadial: 2, RepeatedCube: math.inf}


def draws(noise, count, sensitivity=2.0, value=7.0):
    exact = np.full(noise.size, value)
    return np.array([noise.release(exact, sensitivity) - exact for _ in range(count)]) / sensitivity


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 4])
@pytest.mark.parametrize("kind", PURE, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("size", [1, 6])
def test_the_norm_is_gamma_and_the_coordinates_are_alike(kind, seed, size):
    """Kolmogorov-Smirnov at 1e-8 each, rejecting noise that is 25 % too large or too small."""
    epsilon, count = 0.3, 700 if seed is None else 4000
    noise = kind(size, epsilon, make_source(seed))
    z = draws(noise, count)
    norms = np.linalg.norm(z, PURE[kind], axis=1) * epsilon
    assert kstest(norms, gamma(size).cdf).pvalue > 1e-8
    for wrong in (0.75, 1.25):
        noticed = kstest(norms * wrong, gamma(size).cdf).pvalue < 1e-4
        assert noticed or seed is None or size == 1
    second = z.var() / noise.deviation**2
    assert abs(second - 1.0) < 7 * math.sqrt(6.0 / count)
    assert abs(np.mean(np.sign(z))) < 6 / math.sqrt(z.size / size)


class Scripted:
    """A source of Laplace noise of stated sizes."""

    private, label = False, "scripted"

    def __init__(self, *sizes):
        self.sizes = list(sizes)

    def laplace(self, value, scale):
        return np.full(value.size, self.sizes.pop(0) * scale / value.size)

    def integers(self, high, size):
        self.high = high
        return np.zeros(size, dtype=np.int64)


def test_the_cube_is_drawn_again_where_its_lattice_is_coarse():
    """Cubes of fewer than 2**20 spacings, of which there are at least 2**50 in a scale, are not used."""
    source = Scripted(2.0**-34, 0.0, 2.0**-31.5, 2.0**-28)
    noise = RepeatedCube(3, 1.0, source)
    noise.release(np.zeros(3), 1.0)
    assert source.sizes == []
    scale = noise.deviation / math.sqrt(20 / 3)
    reach = math.floor(Fraction(scale) * Fraction(2) ** (23 - math.frexp(scale)[1]))
    assert source.high == 2 * reach + 1  # steps from -reach to reach


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.3])
def test_cubes_lie_on_a_lattice_of_a_2_to_the_50th_of_their_scale_and_on_no_coarser_one(epsilon, size):
    noise = RepeatedCube(size, epsilon, make_source(None))
    scale = noise.deviation / math.sqrt((size + 1) * (size + 2) / 3)
    spacing = 2.0 ** (math.frexp(scale)[1] - 51)
    steps = [
        Fraction(float(v)) / Fraction(spacing) for _ in range(30) for v in noise.release(np.zeros(size), 1.0)
    ]
    assert all(step.denominator == 1 for step in steps)
    assert any(step.numerator % 2 for step in steps)


@pytest.mark.parametrize("sensitivity", [1e-6, 0.3, 1.0, 70.0])
@pytest.mark.parametrize("scale", [0.02, 1.0, 900.0])
def test_the_cost_of_a_cube_counts_its_lattice_and_a_margin(sensitivity, scale):
    exact = Fraction(sensitivity) / Fraction(scale) + Fraction(1, 2**28)
    assert exact * (1 + Fraction(9, 10**7)) <= cube_epsilon(sensitivity, scale)
    assert cube_epsilon(sensitivity, scale) <= exact * (1 + Fraction(11, 10**7))


def test_no_noise_is_for_sources_that_are_not_private():
    exact = ExactRepeated(3, NoNoise())
    assert exact.release(np.array([1.0, np.nan, -2.0]), 0.5).tolist() == [1.0, 0.0, -2.0]
    assert exact.deviation == 0.0
    with pytest.raises(PlanViolation, match="demands noise"):
        ExactRepeated(3, make_source(None))


@pytest.mark.statistical
def test_gaussian_noise_has_its_deviation():
    noise = RepeatedGaussian(5, 0.4, make_source(None))
    z = draws(noise, 400)
    low, high = chi2.ppf([0.5e-8, 1 - 0.5e-8], z.size)
    assert low < (z**2).sum() * 0.4**2 < high


@pytest.mark.parametrize("amount", [1e-3, 0.1, 1.0, 40.0])
@pytest.mark.parametrize("size", [1, 7, 300])
def test_every_calibration_is_within_its_cost_and_nearly_tight(amount, size):
    source = make_source(None)
    gaussian = RepeatedGaussian(size, amount, source)
    assert gaussian_mu(size, 1.0, gaussian.deviation) <= amount
    assert gaussian.deviation * amount < 1 + 1e-5
    laplace = RepeatedLaplace(size, amount, source).deviation / math.sqrt(2)
    assert laplace_epsilon(size, 1.0, laplace) <= amount * (1 + 1e-15)
    assert laplace * amount < 1 + 1e-5
    radial = RepeatedRadial(size, amount, source).deviation / math.sqrt(size + 1)
    assert radial_epsilon(size, 1.0, radial * (1 + 1e-12)) <= amount
    assert radial * amount < 1 + 1e-5
    cube = RepeatedCube(size, amount, source).deviation / math.sqrt((size + 1) * (size + 2) / 3)
    assert cube_epsilon(1.0, cube * (1 + 1e-12)) <= amount
    assert cube * amount < 1 + 2e-5


@pytest.mark.parametrize(
    ("kind", "calibration"),
    [
        (RepeatedGaussian, "calibrate_gaussian"),
        (RepeatedRadial, "calibrate_radial"),
        (RepeatedLaplace, "calibrate_laplace"),
    ],
)
def test_noise_below_its_cost_is_refused_before_the_first_release(kind, calibration, monkeypatch):
    """Whatever it was calibrated by: here by something that is off by one in a hundred thousand."""
    right = getattr(repeated, calibration)
    for part, refused in ((1.0, False), (1.0 - 1e-5, True)):
        monkeypatch.setattr(repeated, calibration, lambda part=part, **asked: part * right(**asked))
        if refused:
            with pytest.raises(PlanViolation, match="planned"):
                kind(3, 0.5, make_source(None))
        else:
            assert kind(3, 0.5, make_source(None)).size == 3


@pytest.mark.statistical
def test_the_cube_keeps_the_ratio_of_probabilities():
    """Any event of two neighbours differs by exp(epsilon) at most; 6 standard errors, 50 events."""
    epsilon, count = 1.0, 20_000
    noise = RepeatedCube(2, epsilon, make_source(1))
    one, other = draws(noise, count, 1.0, 0.0), draws(noise, count, 1.0, 0.0) + np.array([1.0, -1.0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        direction, level = rng.normal(size=2), rng.normal()
        p, q = np.mean(one @ direction > level), np.mean(other @ direction > level)
        assert p <= math.exp(epsilon) * q + 6 * math.sqrt(0.25 / count) * (1 + math.exp(epsilon))


def test_releases_scale_with_the_sensitivity_and_survive_secrets():
    noise = RepeatedGaussian(3, 1.0, make_source(3))
    same = RepeatedGaussian(3, 1.0, make_source(3))
    np.testing.assert_allclose(noise.release(np.zeros(3), 1e-9), same.release(np.zeros(3), 1.0) * 1e-9)
    assert np.isfinite(noise.release(np.array([np.nan, np.inf, 1.0]), 1.0)).all()
    for bad in (0.0, math.inf, math.nan, -1.0):
        with pytest.raises(PlanViolation):
            noise.release(np.zeros(3), bad)


def test_the_cube_says_what_it_cannot_do():
    assert RepeatedCube(1000, 1.0, make_source(None)).size == 1000
    with pytest.raises(Incompatible, match="at most 1000 columns"):
        RepeatedCube(1001, 1.0, make_source(None))
    with pytest.raises(Incompatible, match="too small"):
        RepeatedCube(2, 1e-9, make_source(None))


def test_lattice_draws_do_not_tell_the_value():
    """Every outcome of the private cube lies on one lattice, whatever the value."""
    noise = RepeatedCube(3, 0.7, make_source(None))
    spacing = noise._spacing
    for value in (0.0, 0.1, 1 / 3):
        out = noise.release(np.full(3, value), 1.0) / spacing
        np.testing.assert_array_equal(out, np.round(out))
