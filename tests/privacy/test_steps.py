"""Noise that is drawn before its values are known: its law, its lattice, and what it refuses."""

import math

import numpy as np
import pytest

from privfit.errors import PlanViolation
from privfit.privacy.mechanisms import calibrate_gaussian, gaussian_mu, make_source
from privfit.privacy.steps import gaussian_steps

SIZE = 3


def steps(sd, *, mu=0.5, count=4, source=None, sensitivity=2.0):
    return gaussian_steps(
        count, SIZE, sensitivity=sensitivity, mu=mu, sd=sd, source=source or make_source(None)
    )


@pytest.mark.parametrize("sensitivity", [1e-3, 1.0, 7.0])
@pytest.mark.parametrize("mu", [0.01, 1.0])
def test_each_step_costs_at_most_what_is_planned(sensitivity, mu):
    sd = calibrate_gaussian(sensitivity=sensitivity, mu=mu, size=SIZE)
    assert gaussian_mu(SIZE, sensitivity, sd) <= mu
    noise, _ = steps(sd, mu=mu, sensitivity=sensitivity)
    assert noise.shape == (4, SIZE)
    for less in (math.nextafter(sd, 0.0) * (1 - 1e-12), 0.5 * sd, 0.0, -sd, math.nan):
        with pytest.raises(PlanViolation, match="does not give mu"):
            steps(less, mu=mu, sensitivity=sensitivity)


def test_a_cost_equal_to_the_planned_one_is_taken():
    mu = gaussian_mu(SIZE, 2.0, 4.5)
    assert steps(4.5, mu=mu)[0].shape == (4, SIZE)
    with pytest.raises(PlanViolation, match="does not give mu"):
        steps(4.5, mu=math.nextafter(mu, 0.0))


@pytest.mark.parametrize("sd", [4.5, 2.0**3, 1e3, 0.999 * 2.0**10])
def test_noise_lies_on_the_stated_lattice_and_on_none_that_is_coarser(sd):
    noise, spacing = steps(sd, mu=1e9, count=40)
    assert 2.0**-41 <= spacing / sd <= 2.0**-40
    assert math.frexp(spacing)[0] == 0.5
    multiples = noise / spacing
    assert np.array_equal(multiples, np.round(multiples))
    assert not np.array_equal(multiples / 2, np.round(multiples / 2))


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 4])
def test_noise_has_the_stated_deviation_and_is_fresh_in_every_entry(seed):
    """Chi-squared and a correlation over 30,000 numbers; each false alarm at most 1e-9."""
    sd = calibrate_gaussian(sensitivity=2.0, mu=0.5, size=SIZE)
    noise, _ = steps(sd, count=10_000, source=make_source(seed))
    variance = float((noise**2).mean()) / sd**2
    assert abs(variance - 1.0) < 6.2 * math.sqrt(2 / noise.size)
    assert np.abs(np.corrcoef(noise.T) - np.eye(SIZE)).max() < 6.5 / math.sqrt(10_000)
    assert np.abs((noise[1:] * noise[:-1]).mean() / sd**2) < 6.2 / math.sqrt(noise.size)
