"""Radial noise: its law, its calibration, and what it is not."""

import math

import numpy as np
import pytest
from scipy.stats import chi2, gamma, kstest

from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.privacy.mechanisms import make_source
from privfit.privacy.noise import NoNoise, SecureNoise, SeededNoise
from privfit.privacy.pure_mechanisms import (
    calibrate_radial,
    radial_epsilon,
    radial_scale,
    radial_sd,
    radial_vector,
)
from privfit.privacy.samplers import RADIAL_BITS, radial_sampler, secure_gamma

FALSE_ALARM = 1e-8
SOURCES = [SecureNoise(), SeededNoise(7)]


def norms_are(draws, scale):
    """Kolmogorov-Smirnov test that the norms follow the Gamma law with shape k."""
    norms = np.linalg.norm(draws, axis=1)
    return kstest(norms / scale, gamma(draws.shape[1]).cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES, ids=repr)
@pytest.mark.parametrize("size", [1, 2, 3, 6])
@pytest.mark.parametrize("scale", [1e-12, 2.5])
def test_radial_noise_has_a_gamma_norm_and_an_even_direction(source, size, scale):
    """Noise of 2/3 or 3/2 of the size is found with a chance above 0.999."""
    value = scale * np.linspace(-2.0, 3.0, size)  # noise of 1e-12 would round to 0 beside a value of 1
    draws = np.array([source.radial(value, scale) for _ in range(1000)]) - value
    assert norms_are(draws, scale)
    for wrong in (2 / 3, 3 / 2):
        assert source.private or not norms_are(draws * wrong, scale)  # a fixed seed shows the power
    directions = draws / np.linalg.norm(draws, axis=1, keepdims=True)
    assert np.abs(directions.mean(axis=0)).max() < 6.5 / math.sqrt(1000 * size)


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_stated_standard_deviation_is_that_of_a_coordinate(size):
    """Against 40,000 draws; the relative error of a second moment of this law is below 1.7 %."""
    source = SeededNoise(11)
    draws = np.array([source.radial(np.zeros(size), 3.0) for _ in range(40_000)])
    assert np.mean(draws**2) == pytest.approx(radial_sd(3.0, size) ** 2, rel=0.1)


@pytest.mark.statistical
def test_radial_noise_is_not_independent_laplace_noise():
    """Independent Laplace coordinates have another law of the norm; the test of the norm tells them apart."""
    laplace = np.random.default_rng(3).laplace(size=(20_000, 6))
    assert not norms_are(laplace, 1.0)
    assert not norms_are(laplace * radial_sd(1.0, 6) / math.sqrt(2.0), 1.0)


def test_calibration_is_literal_and_not_wasteful_over_the_grid():
    for epsilon in np.logspace(-4, 4, 17):
        for sensitivity in (1e-15, 0.3, 1e6):
            for size in (1, 55, 20_000):
                scale = calibrate_radial(sensitivity=sensitivity, epsilon=epsilon, size=size)
                assert radial_epsilon(size, sensitivity, scale) <= epsilon
                assert sensitivity / epsilon < scale < sensitivity / epsilon * (1 + 5e-6)
                back = radial_scale(radial_sd(scale, size), size)
                assert radial_epsilon(size, sensitivity, back) <= epsilon
                assert back == pytest.approx(scale, rel=1e-15)


@pytest.mark.parametrize("size", [1, 3])
def test_the_density_changes_by_at_most_epsilon_under_a_shift(size):
    """log density ratio of a shift by the sensitivity, over points near and far; attained behind it."""
    epsilon, sensitivity = 0.7, 0.4
    scale = calibrate_radial(sensitivity=sensitivity, epsilon=epsilon, size=size)
    shift = np.zeros(size)
    shift[0] = sensitivity
    points = np.random.default_rng(1).normal(size=(4000, size)) * np.logspace(-3, 3, 4000)[:, None]
    ratio = (np.linalg.norm(points - shift, axis=1) - np.linalg.norm(points, axis=1)) / scale
    assert np.abs(ratio).max() <= epsilon
    far = np.zeros(size)
    far[0] = 100.0
    assert (np.linalg.norm(far) - np.linalg.norm(far - shift)) / scale == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.statistical
def test_neighbouring_answers_give_the_claimed_ratio_of_frequencies():
    """Counts of the outcome "beyond both answers" under neighbours, within 6 standard errors of exp(eps)."""
    epsilon, draws = 1.0, 4000
    scale = calibrate_radial(sensitivity=1.0, epsilon=epsilon, size=1)
    source = make_source(None)

    def count(value):
        outcomes = [
            radial_vector(np.array([value]), sensitivity=1.0, epsilon=epsilon, scale=scale, source=source)[0]
            for _ in range(draws)
        ]
        return sum(outcome > 1.0 for outcome in outcomes)

    near, far = count(1.0), count(0.0)
    spread = math.sqrt(1 / near + 1 / far)
    assert abs(math.log(near / far) - epsilon) < 6 * spread
    assert abs(math.log(near / far) - 1.5 * epsilon) > 6 * spread


@pytest.mark.parametrize("source", [make_source(0), make_source(None)])
def test_a_release_with_too_little_noise_is_refused(source):
    scale = calibrate_radial(sensitivity=1.0, epsilon=1.0, size=3)
    ask = {"sensitivity": 1.0, "epsilon": 1.0, "source": source}
    for quiet in (0.99 * scale, 0.0, -scale, math.nan):
        with pytest.raises(PlanViolation, match="calibrate_radial"):
            radial_vector(np.zeros(3), scale=quiet, **ask)
    with pytest.raises(InvalidArgument, match="vector"):
        radial_vector(np.zeros((2, 2)), scale=scale, **ask)
    answer = radial_vector(np.array([np.nan, np.inf, 1.0]), scale=scale, **ask)
    assert np.isfinite(answer).all()


def test_noise_that_is_enough_for_few_coordinates_is_refused_for_many():
    """The lattice costs the root of their number, which shows at a small epsilon."""
    ask = {"sensitivity": 1.0, "epsilon": 1e-9, "source": make_source(0)}
    scale = calibrate_radial(sensitivity=1.0, epsilon=1e-9, size=1)
    radial_vector(np.zeros(1), scale=scale, **ask)
    with pytest.raises(PlanViolation):
        radial_vector(np.zeros(90_000), scale=scale, **ask)


@pytest.mark.parametrize("size", [1, 3])
def test_noise_that_is_exactly_enough_is_taken(size):
    """A plan states the cost of its noise, and the release asks for no more."""
    ask = {"sensitivity": 0.4, "epsilon": radial_epsilon(size, 0.4, 1.3), "source": make_source(0)}
    assert radial_vector(np.zeros(size), scale=1.3, **ask).shape == (size,)


def test_noise_may_be_smaller_than_the_unit_of_the_answer():
    scale = calibrate_radial(sensitivity=1e-9, epsilon=1.0, size=2)
    answer = radial_vector(np.ones(2), sensitivity=1e-9, epsilon=1.0, scale=scale, source=make_source(0))
    assert answer == pytest.approx(np.ones(2), abs=1e-7)


def test_the_lattice_is_paid_for_where_it_is_a_large_part_of_epsilon():
    """It costs the root of the number of coordinates; the scale goes through the planned deviation."""
    generator = np.random.default_rng(4)
    for _ in range(300):
        size = int(10.0 ** generator.uniform(0.0, 7.0))
        epsilon = math.sqrt(size) * 10.0 ** generator.uniform(-9.9, -6.0)
        sensitivity = 10.0 ** generator.uniform(-8.0, 8.0)
        scale = calibrate_radial(sensitivity=sensitivity, epsilon=epsilon, size=size)
        back = radial_scale(radial_sd(scale, size), size)
        assert radial_epsilon(size, sensitivity, back) <= epsilon
        assert scale < sensitivity / epsilon * (1 + 2e-6)


@pytest.mark.parametrize("size", [1, 10_000])
def test_the_least_epsilon_grows_with_the_root_of_the_number_of_coordinates(size):
    least = 1e-10 * math.sqrt(size)
    with pytest.raises(Incompatible, match="too small"):
        calibrate_radial(sensitivity=1.0, epsilon=0.3 * least, size=size)
    assert calibrate_radial(sensitivity=1.0, epsilon=3.0 * least, size=size) > 0.3 / least


def test_limits_of_calibration():
    with pytest.raises(Incompatible, match=r"budget: .* too small .*; raise it"):
        calibrate_radial(sensitivity=1.0, epsilon=1e-11, size=1)
    with pytest.raises(InvalidArgument, match="sensitivity"):
        calibrate_radial(sensitivity=1e-250, epsilon=1.0, size=1)


@pytest.mark.statistical
def test_sampling_draws_are_even():
    """Chi-square tests, false-alarm rate 1e-8 each, two-sided."""
    for source in (SecureNoise(), SeededNoise(2)):
        numbers = source.integers(7, 70_000)
        counts = np.bincount(numbers, minlength=7)
        statistic = float(np.sum((counts - 10_000) ** 2) / 10_000)
        low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], 6)
        assert low < statistic < high
        assert kstest(source.uniform(50_000), "uniform").pvalue > FALSE_ALARM
        assert source.uniform(1000).max() < 1.0
        assert np.unique(source.uniform(1000)).size == 1000
        assert source.integers(1, 5).tolist() == [0] * 5
        for high in (3 * 2**61, 7 * 2**60, 13 * 2**59):  # remainders that are not drawn again come too often
            large = source.integers(high, 20_000)
            assert large.shape == (20_000,)
            assert kstest(large / high, "uniform").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("doubled_shape", [1, 2, 3, 6])
def test_secure_gamma_variables_have_their_law(doubled_shape):
    """Variables of 2/3 or 3/2 of the size are found with a chance above 0.999."""
    draws = np.array([secure_gamma(doubled_shape) for _ in range(2500)])
    assert kstest(draws, gamma(doubled_shape / 2).cdf).pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        other = wrong * np.random.default_rng(12).gamma(doubled_shape / 2, size=2500)
        assert kstest(other, gamma(doubled_shape / 2).cdf).pvalue < FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("source", SOURCES, ids=repr)
@pytest.mark.parametrize("scale", [1e-12, 2.5])
def test_laplace_noise_has_its_law_in_every_coordinate(source, scale):
    value = scale * np.linspace(-2.0, 3.0, 4)
    draws = np.array([source.laplace(value, scale) for _ in range(1500)]) - value
    assert kstest(draws.ravel() / scale, "laplace").pvalue > FALSE_ALARM
    assert np.abs(np.corrcoef(draws.T) - np.eye(4)).max() < 6 / math.sqrt(1500)
    for wrong in (2 / 3, 3 / 2):
        assert source.private or kstest(wrong * draws.ravel() / scale, "laplace").pvalue < FALSE_ALARM


def test_the_exact_source_cannot_sample():
    with pytest.raises(Incompatible, match="draws at random"):
        NoNoise().uniform(1)
    with pytest.raises(Incompatible, match="draws at random"):
        NoNoise().integers(2, 1)


def test_outcomes_lie_on_one_lattice_whatever_the_drawn_variance():
    """The lattice must not tell the variance that was drawn: it follows from the scale alone.

    Noise of a few spacings shows that the lattice is no coarser; that 64 draws are all even has
    probability 2**-64.
    """
    scale = 1.0
    spacing = 2.0 ** (math.frexp(scale)[1] - 1 - RADIAL_BITS)
    for sd in (30 * spacing, 1e-3, 1.0, 50.0):
        sampler = radial_sampler(1, sd, scale)
        draws = [sampler([0.0])[0] / spacing for _ in range(64)]
        assert all(draw % 1 == 0 for draw in draws)
        assert sd > 1e-6 or any(draw % 2 == 1 for draw in draws)
    drawn = [SecureNoise().radial(np.zeros(1), scale)[0] for _ in range(100)]
    assert all((draw / spacing) % 1 == 0 for draw in drawn)
