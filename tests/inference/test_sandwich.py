"""The sandwich, what is added to it and the degrees of freedom of its variances, by hand."""

import numpy as np
import pytest

from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread, spread
from privfit.inference.found import Found
from privfit.inference.sandwich import (
    ROUNDING,
    residual_rows,
    sandwich,
    satterthwaite,
    with_tails,
    with_variance,
)
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.base import Step
from privfit.solvers.drawn import Drawn

MATRIX = np.array([[2.0, 0.5], [0.5, 1.0]])
INVERSE = np.linalg.inv(MATRIX)
MEAT = np.array([[1.5, -0.4], [-0.4, 0.6]])
DIRECTIONS = np.array([[1.0, 0.0], [0.3, -2.0], [1.0, 1.0]])


def bread_of(sd=0.0, **more):
    return Bread(MATRIX, INVERSE, sd, np.zeros((2, 0)), **more)


def meat_of(center):
    return Drawn(MEAT, center, np.eye(2), np.zeros((2, 2)))


def test_rows_are_less_by_the_coefficients_until_half_of_them_is_left():
    assert [residual_rows(100, k) for k in (0, 1, 10, 50, 51, 99, 200)] == [100, 99, 90, 50, 50, 50, 50]


def test_it_is_the_meat_between_inverses_by_the_rows():
    found = sandwich(bread_of(), meat_of(MEAT), 40.0)
    np.testing.assert_allclose(found, INVERSE @ MEAT @ INVERSE / 40.0, rtol=1e-12)


def test_rounding_is_that_of_gradients_in_the_units_of_columns_and_of_parameters():
    sizes = np.array([3.0, 0.25])
    none = Drawn(np.zeros((2, 2)), np.zeros((2, 2)), np.eye(2), np.zeros((2, 2)))
    found = sandwich(bread_of(sizes=sizes), none, 40.0)
    unit = ROUNDING**2
    np.testing.assert_allclose(found / unit, INVERSE @ np.diag(sizes**2) @ INVERSE + np.eye(2), rtol=1e-12)
    assert np.finfo(float).eps < ROUNDING < 1e-12


def test_variances_grow_by_what_is_added_and_correlations_stay():
    more = np.array([0.7, 0.02])
    found = with_variance(MEAT, more)
    np.testing.assert_allclose(np.diag(found), np.diag(MEAT) + more, rtol=1e-12)
    correlation = [each[0, 1] / np.sqrt(each[0, 0] * each[1, 1]) for each in (MEAT, found)]
    assert correlation[0] == pytest.approx(correlation[1])
    np.testing.assert_array_equal(with_variance(np.zeros((2, 2)), more), np.zeros((2, 2)))


def degrees(bread, meat, of_meat, total, rows=40.0):
    return satterthwaite(
        DIRECTIONS,
        bread=bread,
        meat=meat,
        of_meat=of_meat,
        sampling=sandwich(bread_of(), meat_of(MEAT), 40.0),
        total=total,
        rows=rows,
    )


def variance_by_noise_in_bread(sampling, sd):
    """To first order ``-2 u'E v``, by the covariance of all entries of a symmetric matrix."""
    found = []
    for one in DIRECTIONS:
        u, v = one @ INVERSE, one @ sampling
        slope = -(np.outer(u, v) + np.outer(v, u))
        on, off = np.diag(slope), slope[0, 1] + slope[1, 0]
        found.append(sd**2 * (on @ on) + 0.5 * sd**2 * off**2)
    return np.array(found)


def test_degrees_of_freedom_are_twice_the_square_of_a_variance_over_its_variance():
    total, of_meat = np.array([0.1, 0.4, 0.2]), np.array([0.5, 3.0, 0.8])
    sampling = sandwich(bread_of(), meat_of(MEAT), 40.0)
    by_bread = variance_by_noise_in_bread(sampling, 0.3)
    for sd, part in ((0.0, 0.0), (0.3, 1.0)):
        variance = of_meat / 40.0**2 + part * by_bread
        found = degrees(bread_of(sd), meat_of(MEAT), np.stack([of_meat, 2.0 * of_meat]), total)
        np.testing.assert_allclose(found[0], 2.0 * total**2 / variance, rtol=1e-9)
        np.testing.assert_allclose(found[1], 2.0 * total**2 / (variance + of_meat / 40.0**2), rtol=1e-9)
    only_bread = degrees(bread_of(0.3), meat_of(MEAT), np.zeros(3), total)
    np.testing.assert_allclose(only_bread, 2.0 * total**2 / by_bread, rtol=1e-9)


def test_a_variance_that_noise_made_small_counts_as_that_of_the_multiple_of_the_bread():
    total, of_meat = np.array([0.1, 0.4, 0.2]), np.array([0.5, 3.0, 0.8])
    found = degrees(bread_of(), meat_of(MEAT + MATRIX), of_meat, total)
    short = np.einsum("ij,ij->i", DIRECTIONS @ INVERSE, DIRECTIONS) / 40.0
    np.testing.assert_allclose(found, 2.0 * (total + short) ** 2 / (of_meat / 40.0**2), rtol=1e-9)
    larger = degrees(bread_of(), meat_of(MEAT - 0.1 * MATRIX), of_meat, total)
    np.testing.assert_allclose(larger, 2.0 * total**2 / (of_meat / 40.0**2), rtol=1e-9)


def test_without_noise_degrees_of_freedom_are_infinite_though_a_variance_is_0():
    found = degrees(bread_of(), meat_of(MEAT), np.zeros(3), np.array([0.1, 0.0, 0.2]))
    assert np.isposinf(found).all()


def steps_of(size, *noises):
    """Steps whose gradients have noise of these standard deviations, and epsilon or None."""
    planned = [PlannedRelease("gradient", size, 1.0, np.inf, sd, epsilon=epsilon) for sd, epsilon in noises]
    blank = np.zeros(size)
    return [Step(Release(one, blank, blank), blank, np.eye(size)) for one in planned]


def test_radial_noise_takes_degrees_of_freedom_by_its_part_and_how_many_draws_share_it():
    dof, part = np.array([np.inf, np.inf, 9.0, 9.0]), np.array([1.0, 0.5, 1.0, 0.0])
    two = steps_of(3, (1.0, 0.2), (0.5, 0.2))  # weights of 0.2 and 0.8
    np.testing.assert_allclose(
        1.0 / with_tails(dof, two, part),
        np.array([0.0, 0.0, 1.0 / 9.0, 1.0 / 9.0]) + part**2 * (0.04 + 0.64) / (5.0 * 4.0),
        rtol=1e-9,
    )
    assert np.isposinf(with_tails(np.array([np.inf]), two, np.zeros(1))).all()
    one = steps_of(2, (1.0, 0.2))
    assert with_tails(np.array([np.inf]), one, np.ones(1)) == pytest.approx(5.0 * 3.0)


def test_radial_noise_of_one_step_counts_and_normal_noise_does_not():
    dof, part = np.array([12.0]), np.ones(1)
    assert with_tails(dof, steps_of(2, (1.0, None), (1.0, None)), part) == 12.0
    assert with_tails(dof, steps_of(2, (1.0, 0.2), (1.0, None)), part) < 12.0
    assert with_tails(dof, (), part) == 12.0


@pytest.mark.parametrize("drawn", [0.0, 0.6])
def test_the_covariance_of_what_is_found_is_that_of_sampling_and_of_noise(drawn):
    bread, noise = bread_of(0.2, drawn=drawn), np.array([[0.3, 0.1], [0.1, 0.2]])
    found = Found(Estimate(np.zeros(2), noise), bread, 0.01 * MEAT)
    np.testing.assert_allclose(found.covariance, 0.01 * MEAT + spread(noise, bread), rtol=1e-12)
    assert (np.diag(found.covariance) > np.diag(noise)).all()
