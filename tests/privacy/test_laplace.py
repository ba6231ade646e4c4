"""Independent Laplace noise: its law, its calibration, and what it refuses."""

import math

import numpy as np
import pytest
from scipy.stats import kstest, laplace

from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.privacy.mechanisms import make_source
from privfit.privacy.noise import SecureNoise, SeededNoise
from privfit.privacy.pure_mechanisms import calibrate_laplace, laplace_epsilon, laplace_vector

FALSE_ALARM = 1e-8
ASK = {"sensitivity": 0.4, "epsilon": 0.7}


@pytest.mark.statistical
@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(5)], ids=repr)
@pytest.mark.parametrize("epsilon", [0.05, 3.0])
def test_released_vectors_have_laplace_noise_of_the_stated_size(source, epsilon):
    """Noise of 2/3 or 3/2 of the size is found with a chance above 0.999."""
    sd = calibrate_laplace(sensitivity=0.4, epsilon=epsilon, size=100)
    value = np.linspace(-1.0, 1.0, 100)
    ask = {"sensitivity": 0.4, "epsilon": epsilon, "sd": sd, "source": source}
    draws = np.concatenate([laplace_vector(value, **ask) - value for _ in range(20)])
    assert kstest(draws, laplace(scale=0.4 / epsilon).cdf).pvalue > FALSE_ALARM
    for wrong in (2 / 3, 3 / 2):
        assert source.private or kstest(draws * wrong, laplace(scale=0.4 / epsilon).cdf).pvalue < FALSE_ALARM


def test_calibration_is_literal_and_not_wasteful_over_the_grid():
    for epsilon in np.logspace(-4, 4, 17):
        for sensitivity in (1e-15, 0.3, 1e6):
            for size in (1, 42, 20_000):
                sd = calibrate_laplace(sensitivity=sensitivity, epsilon=epsilon, size=size)
                assert laplace_epsilon(size, sensitivity, sd / math.sqrt(2.0)) <= epsilon
                assert 1.0 < sd / math.sqrt(2.0) * epsilon / sensitivity < 1 + 5e-6


def test_the_lattice_is_paid_for_where_it_is_a_large_part_of_epsilon():
    """It costs the same for every coordinate; the scale goes through the planned deviation."""
    generator = np.random.default_rng(4)
    for _ in range(300):
        size = int(10.0 ** generator.uniform(3.0, 7.0))
        epsilon = math.sqrt(size) * 10.0 ** generator.uniform(-9.9, -9.0)
        sensitivity = 10.0 ** generator.uniform(-8.0, 8.0)
        sd = calibrate_laplace(sensitivity=sensitivity, epsilon=epsilon, size=size)
        assert laplace_epsilon(size, sensitivity, sd / math.sqrt(2.0)) <= epsilon
        assert sd / math.sqrt(2.0) < sensitivity / epsilon * (1 + 5e-5)


def test_the_density_changes_by_at_most_epsilon_over_two_classes():
    """The log density ratio of a row that moves from one class to another; attained beyond both."""
    scale = calibrate_laplace(**ASK, size=2) / math.sqrt(2.0)
    z = np.stack(np.meshgrid(*[np.linspace(-2.0, 2.0, 81)] * 2), axis=-1)
    loss = (np.abs(z - [0.2, -0.2]).sum(axis=-1) - np.abs(z).sum(axis=-1)) / scale
    assert 0.9999 * 0.7 < np.abs(loss).max() <= 0.7


def test_what_is_not_calibrated_is_refused():
    sd = calibrate_laplace(**ASK, size=3)
    source = make_source(0)
    for quiet in (0.99 * sd, 0.0, -1.0, math.nan):
        with pytest.raises(PlanViolation, match="calibrate_laplace"):
            laplace_vector(np.zeros(3), **ASK, sd=quiet, source=source)
    with pytest.raises(InvalidArgument, match="vector"):
        laplace_vector(np.zeros((2, 2)), **ASK, sd=sd, source=source)
    answer = laplace_vector(np.array([np.nan, np.inf, 1.0]), **ASK, sd=sd, source=source)
    assert np.isfinite(answer).all()
    with pytest.raises(Incompatible, match="too small"):
        calibrate_laplace(sensitivity=1.0, epsilon=1e-11, size=42)
    with pytest.raises(InvalidArgument, match="sensitivity / epsilon"):
        calibrate_laplace(sensitivity=1e-250, epsilon=1.0, size=1)


def test_noise_that_is_enough_for_one_number_is_refused_for_many():
    """Each is rounded to the lattice, which adds to what a release costs."""
    sd, source = 1.0, make_source(0)
    epsilon = laplace_epsilon(1, 0.4, sd / math.sqrt(2.0))
    assert laplace_epsilon(20_000, 0.4, sd / math.sqrt(2.0)) > epsilon
    ask = {"sensitivity": 0.4, "epsilon": epsilon, "sd": sd, "source": source}
    laplace_vector(np.zeros(1), **ask)
    with pytest.raises(PlanViolation, match="calibrate_laplace"):
        laplace_vector(np.zeros(20_000), **ask)
