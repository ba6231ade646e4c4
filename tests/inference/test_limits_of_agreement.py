"""From where on steps contradict each other, to the digit: made-up steps, answers by hand."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from privfit.inference.agreement import contradiction, deviations, disagreement, widened

from .made_up import bread_of, step_of

ONE, SD, BENT = bread_of(1.0), 0.1, np.array([[10.0]])
JUST_NOT, JUST = 0.99, 1.01


def apart(times):
    """Two steps whose gradients, less a curvature of 1, are apart by ``times`` what passes for noise."""
    half = SD * math.sqrt(0.5 * times * chi2.ppf(0.999, 1))
    return [step_of([sign * 2.0], [sign * (2.0 + half)], SD) for sign in (-1.0, 1.0)]


@pytest.mark.parametrize("times", [JUST_NOT, JUST])
def test_steps_contradict_each_other_beyond_what_noise_does_in_one_of_a_thousand(times):
    steps = apart(times)
    assert disagreement(steps, [SD] * 2, ONE) == pytest.approx(times)
    found = contradiction(steps, [SD] * 2, ONE)
    assert (found is None) == (times < 1.0)
    if found is not None:
        np.testing.assert_allclose(found, [[(steps[1].gradient[0] - 2.0) ** 2]])


@pytest.mark.parametrize("sd", [0.0, 0.05])
def test_noise_of_the_bread_explains_gradients_of_distant_steps(sd):
    """Of two coefficients; points are 2 from their average and what is left of gradients is 0.4."""
    steps = [step_of([sign * 2.0, 0.0], [sign * 2.0, sign * 0.4], SD) for sign in (-1.0, 1.0)]
    variance = SD**2 + 0.5 * sd**2 * 1.5 * 2.0**2
    expected = 2.0 * 0.4**2 / variance / chi2.ppf(0.999, 2)
    assert disagreement(steps, [SD] * 2, bread_of(1.0, 1.0, sd=sd)) == pytest.approx(expected)


@pytest.mark.parametrize(("count", "left"), [(3, 2), (4, 2), (5, 3), (6, 3)])
def test_half_of_the_steps_are_left_whatever_they_say(count, left):
    steps = [step_of([0.0], [gradient], SD) for gradient in 10.0 * np.arange(count)]
    assert widened(steps, ONE).steps == tuple(steps[-left:])


@pytest.mark.parametrize("times", [JUST_NOT, JUST])
def test_a_curvature_that_changes_explains_thirty_times_what_noise_does(times):
    found = widened(apart(30.0 * times), ONE, BENT)
    assert found.arrived == (times < 1.0)


@pytest.mark.parametrize("times", [JUST_NOT, JUST])
def test_where_steps_were_left_out_it_explains_no_more_than_noise_does(times):
    steps = [step_of([0.0], [9.0], SD), *apart(times)]
    found = widened(steps, ONE, 1e-6 * BENT)
    assert found.steps == tuple(steps[1:])
    assert found.arrived == (times < 1.0)


@pytest.mark.parametrize("times", [JUST_NOT, JUST])
def test_what_is_half_of_what_passes_for_sampling_does_not_count(times):
    sampling = SD * math.sqrt(60.0 / (0.5 * times) - 1.0)
    found = widened(apart(60.0), ONE, BENT, sampling=sampling)
    assert found.arrived == (times < 1.0)


def test_a_gradient_is_off_by_half_of_what_the_curvature_changes_by_over_its_distance():
    """Linear gradients, which all lead to the same point: 1, by steps of curvature 2 from -2, 3 and 1.1."""
    at = np.array([-2.0, 3.0, 1.1])
    steps = [step_of([point], [2.0 * (point - 1.0)], SD) for point in at]
    distance = np.abs(at - 1.0)
    expected = np.hypot(SD, 0.5 * (0.3 * distance) * (2.0 * distance))
    found = deviations(steps, bread_of(2.0), np.array([[0.3]]))
    np.testing.assert_allclose(found, expected)


def test_where_steps_lead_to_different_points_the_last_is_believed_first():
    """They lead to 4, 13 and -2; from -2 the last is nearest, from 4 the first would stay exact."""
    steps = [step_of([4.0], [0.0], SD), step_of([10.0], [-3.0], SD), step_of([1.0], [3.0], SD)]
    found = deviations(steps, ONE, np.eye(1))
    assert np.argmin(found) == 2
    assert found[0] > 10.0


@pytest.mark.parametrize("noise", [(0.0, SD), (SD, 0.0), (0.0, 0.0)])
def test_beside_a_gradient_without_noise_no_curvature_is_thought_of(noise):
    steps = [step_of([at], [at], sd) for at, sd in zip((-2.0, 1.0), noise, strict=True)]
    assert deviations(steps, ONE, np.eye(1)) == list(noise)
