"""From where on a solver has not arrived, to the digit: made-up steps, answers by hand."""

import math

import numpy as np
import pytest

from privfit.inference.arrival import Turning, far_along, left_to_go, too_long, unfinished
from privfit.inference.combine import Anchor, Estimate
from privfit.solvers.base import Solution

from .made_up import bread_of, step_of

pytestmark = pytest.mark.parametrize("times", [0.99, 1.01])


def test_a_step_is_far_off_where_it_is_half_an_error_beyond_three_times_its_expectation(times):
    """It has a squared length of 1, of which noise makes 0.2: 0.2 is what 1 - 3 * 0.2 makes it miss."""
    bread, around = bread_of(0.25, 1.0), Anchor(np.zeros(2), np.array([0.3, 0.8]), np.eye(2), 0.2)
    assert around.gradient @ bread.inverse @ around.gradient == pytest.approx(1.0)
    turning = Turning(rate=times, sampling=0.4**2 - 0.2 / 2.0)
    assert turning.far_off(around, bread) == (times > 1.0)


def test_a_step_along_which_the_curvature_bends_is_off_by_its_third_power(times):
    """Its squared length is 4, all of it noise: of second order that is no excuse."""
    bread, around = bread_of(0.25, 1.0), Anchor(np.zeros(2), np.array([0.6, 1.6]), np.eye(2), 0.4)
    turning = Turning(sampling=0.6**2 - 0.8 / 2.0 + 0.1, second=times * 0.5 * math.sqrt(0.46) / (0.5 * 8.0))
    assert turning.far_off(around, bread) == (times > 1.0)


def test_of_second_order_what_short_steps_leave_is_off_by_the_third_power(times):
    """From 1 to 3 as below; the noise that may hide more of the way is 0.09."""
    step = step_of([5.0, 1.0], [0.0, 0.0], 0.1, preconditioner=0.4 * np.eye(2))
    estimate = Estimate(np.array([5.0, 3.0]), np.diag([0.0, 0.04]))
    error = math.sqrt(0.25 * 0.04 / 2.0 + 0.0031)
    turning = Turning(sampling=0.0031, second=times * error / (0.9 + 2.0 * 0.09) ** 3)
    assert left_to_go([step], estimate, bread_of(1.0, 0.25), turning) == (times > 1.0)


def test_what_is_left_is_of_the_way_and_two_of_its_errors(times):
    """From 1 to 3 along a curvature of 0.25, of which a step of 0.4 leaves 0.9: 0.9, and 0.09 of noise."""
    step = step_of([5.0, 1.0], [0.0, 0.0], 0.1, preconditioner=0.4 * np.eye(2))
    estimate = Estimate(np.array([5.0, 3.0]), np.diag([0.0, 0.04]))
    error = math.sqrt(0.25 * 0.04 / 2.0 + 0.0031)
    turning = Turning(rate=times * error / (0.9 + 2.0 * 0.09) ** 2, sampling=0.0031)
    assert left_to_go([step], estimate, bread_of(1.0, 0.25), turning) == (times > 1.0)


@pytest.mark.parametrize("center", [2.3, 1.9])
def test_a_step_along_a_level_is_off_by_what_noise_does_not_explain(times, center):
    """A step of 0.2 from 2, whose bread was asked 0.2 before or after its middle."""
    at = step_of([1.0, 2.0], [0.0, 0.0], 0.1)
    estimate = Estimate(np.array([1.0, 2.2]), np.diag([0.01, 0.01]), (at,), np.ones(1))
    error = 0.5 * (2.0 * 0.2 * 0.2 - 3.0 * 0.01)
    found = far_along(
        estimate,
        np.array([1.0, center]),
        along=np.eye(2),
        rate=times * 0.12 / error,
        sampling=np.diag([0.0044, 0.0044]),
    )
    assert found.tolist() == [False, times > 1.0]


def test_a_last_step_is_too_long_at_five_of_its_errors_in_each_coordinate(times):
    """Errors of 4 and 3, of sampling, of the estimate and of the last gradient; the step 20 and 15."""
    last = step_of([0.0, 0.0], np.sqrt(times) * np.array([10.0, 15.0]), 0.5)
    others = [step_of([0.0, 0.0], [gradient, gradient], 0.5) for gradient in (0.0, 1.0)]
    noise, sampling = np.diag([8.0, 5.0]), np.diag([16.0 - 8.0 - 0.25 * 4.0, 9.0 - 5.0 - 0.25])
    estimate = Estimate(np.zeros(2), noise, (*others, last))
    assert too_long(estimate, bread_of(0.5, 1.0), sampling) == (times > 1.0)


@pytest.mark.parametrize(("length", "noise"), [(1e200, 1.0), (0.5, np.inf)])
def test_one_coordinate_that_ran_away_takes_all_intervals(times, length, noise):
    step = step_of([0.0, 0.0], [1.0, 1.0], 0.1, preconditioner=np.diag([length, 0.5 * times]))
    solution = Solution(None, np.ones(2), (step, step), (), "last")
    found = unfinished(Estimate(np.ones(2), np.diag([noise, 1.0])), solution, bread_of(1.0, 1.0))
    assert not found.arrived
    np.testing.assert_array_equal(found.cov_noise, np.zeros((2, 2)))
