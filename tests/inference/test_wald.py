import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from privfit.errors import InvalidArgument
from privfit.inference import wald

INF, NAN = np.inf, np.nan
ESTIMATE = np.array([1.0, 2.0, -0.5])
COVARIANCE = np.array([[0.04, 0.01, 0.0], [0.01, 0.09, -0.02], [0.0, -0.02, 0.25]])


@pytest.mark.parametrize("dof", [1.0, 3.5, 30.0, 1e9, INF])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_critical_value_and_pvalue_agree(level, dof):
    critical = wald.critical_value(level, dof)
    assert wald.two_sided_pvalue(critical, dof) == pytest.approx(1 - level, rel=1e-9)


def test_critical_values_known():
    np.testing.assert_allclose(
        wald.critical_value(0.95, np.array([1.0, 10.0, INF])), [12.7062047, 2.22813885, 1.95996398], rtol=1e-8
    )


def test_pvalue_in_the_far_tail_keeps_precision():
    assert wald.two_sided_pvalue(30.0, INF) == pytest.approx(2 * stats.norm.sf(30.0), rel=1e-12)
    assert wald.two_sided_pvalue(-30.0, 5.0) == pytest.approx(2 * stats.t.sf(30.0, 5), rel=1e-12)


@pytest.mark.parametrize(
    ("se", "dof"), [(INF, INF), (INF, 5.0), (NAN, INF), (1.0, NAN), (1.0, 0.0), (1.0, -2.0)]
)
def test_useless_standard_errors_conclude_nothing(se, dof):
    estimate, se, dof = np.array([3.0]), np.array([se]), np.array([dof])
    assert wald.two_sided_pvalue(wald.z_values(estimate, se), dof) == 1
    assert wald.interval(estimate, se, 0.95, dof) == (-INF, INF)


def test_negative_variance_is_an_unknown_standard_error():
    se = wald.standard_errors(np.diag([4.0, -1.0, NAN, INF]))
    np.testing.assert_array_equal(se, [2.0, NAN, NAN, INF])


def test_zero_standard_error():
    np.testing.assert_array_equal(wald.z_values(np.array([2.0, -2.0, 0.0]), np.zeros(3)), [INF, -INF, NAN])
    np.testing.assert_array_equal(wald.two_sided_pvalue(np.array([INF, -INF, NAN]), INF), [0, 0, 1])


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, NAN, "0.95", True])
def test_level_is_checked(level):
    with pytest.raises(InvalidArgument, match="level"):
        wald.critical_value(level, INF)


def test_one_hypothesis_equals_the_squared_z():
    for dof in (INF, 7.0):
        test = wald.wald_test(ESTIMATE, COVARIANCE, [0, 1, 0], 0.5, dof)
        z = (2.0 - 0.5) / 0.3
        assert test.statistic == pytest.approx(z**2)
        assert test.pvalue == pytest.approx(float(wald.two_sided_pvalue(z, dof)))
        assert (test.df, test.df_denom) == (1, dof)


def test_joint_statistic_against_the_formula():
    R, r = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, 2.0]]), np.array([0.3, 0.1])
    gap = R @ ESTIMATE - r
    expected = gap @ np.linalg.inv(R @ COVARIANCE @ R.T) @ gap
    chi2 = wald.wald_test(ESTIMATE, COVARIANCE, R, r, INF)
    f = wald.wald_test(ESTIMATE, COVARIANCE, R, r, np.array([20.0, 9.0, INF]))
    assert chi2.statistic == pytest.approx(expected)
    assert chi2.pvalue == pytest.approx(stats.chi2.sf(expected, 2))
    assert (f.statistic, f.df_denom) == (pytest.approx(expected / 2 * 8 / 9), 8.0)
    assert f.pvalue == pytest.approx(stats.f.sf(expected / 2 * 8 / 9, 2, 8))
    assert f.pvalue > chi2.pvalue


@pytest.mark.statistical
@pytest.mark.parametrize(("k", "dof"), [(2, 3), (20, 60), (30, 45)])
def test_joint_tests_have_their_size_whatever_the_number_of_hypotheses(k, dof):
    """1,000 covariances with Wishart noise; correct code fails in fewer than one of 10**9 runs a case.

    F(k, d) for ``W / k``, without the correction, rejects 13, 30 and 88 %; 9.7 % is the most.
    """
    rng = np.random.default_rng(k)
    rejected = 0
    for noise in rng.normal(size=(1000, dof, k)):
        estimate = rng.normal(size=k)
        rejected += wald.wald_test(estimate, noise.T @ noise / dof, np.eye(k), dof=float(dof)).pvalue < 0.05
    low, high = stats.binom.ppf([5e-10, 1.0 - 5e-10], 1000, 0.05)
    assert low <= rejected <= high


def test_more_hypotheses_than_degrees_of_freedom_cannot_be_tested():
    test = wald.wald_test(ESTIMATE, COVARIANCE, np.eye(3), dof=2.0)
    assert (test.testable, test.pvalue) == (False, 1.0)
    assert wald.wald_test(ESTIMATE, COVARIANCE, np.eye(3), dof=2.5).testable


def test_smallest_dof_counts_only_among_the_tested():
    test = wald.wald_test(ESTIMATE, COVARIANCE, [0, 1, 1], 0, np.array([2.0, 50.0, INF]))
    assert test.df_denom == 50


@given(scales=st.lists(st.floats(1e-8, 1e8), min_size=3, max_size=3))
def test_units_of_the_columns_do_not_matter(scales):
    d = np.array(scales)
    R = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, -1.0]])
    plain = wald.wald_test(ESTIMATE, COVARIANCE, R, [0.1, 0.2], 12.0)
    scaled = wald.wald_test(ESTIMATE * d, COVARIANCE * np.outer(d, d), R / d, [0.1, 0.2], 12.0)
    assert scaled.statistic == pytest.approx(plain.statistic, rel=1e-7)


@pytest.mark.parametrize(
    "covariance",
    [
        np.diag([1.0, INF, 1.0]),
        np.diag([1.0, NAN, 1.0]),
        np.diag([1.0, -1.0, 1.0]),
        np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        np.zeros((3, 3)),
    ],
)
def test_unusable_covariance_gives_pvalue_one(covariance):
    test = wald.wald_test(ESTIMATE, covariance, [[1, 0, 0], [0, 1, 0]])
    assert math.isnan(test.statistic)
    assert test.pvalue == 1
    assert not test.testable


@pytest.mark.parametrize("dof", [0.0, -3.0, -INF, NAN, 5e-324])
def test_unusable_dof_gives_pvalue_one(dof):
    test = wald.wald_test(ESTIMATE, COVARIANCE, np.eye(3), 0, dof)
    assert test.pvalue == 1
    assert wald.two_sided_pvalue(3.0, dof) == 1


def test_overflow_warns_of_nothing():
    huge = np.array([1e308, -1e308, 1e308])
    test = wald.wald_test(huge, COVARIANCE * 1e308, [[1, -1, 0], [0, 1, -1]], 1e99)
    assert 0 <= test.pvalue <= 1
    lower, upper = wald.interval(huge, np.abs(huge), 0.95, 2.0)
    assert (lower <= upper).all()


def test_infinite_variance_elsewhere_does_no_harm():
    test = wald.wald_test(ESTIMATE, np.diag([0.25, INF, NAN]), [1, 0, 0])
    assert test.statistic == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("R", "r"),
    [
        ([1, 0], 0),
        ([[1, 0, 0], [2, 0, 0]], 0),
        ([0, 0, 0], 0),
        ([[1, 0, 0], [0, 0, 0]], 0),
        ([NAN, 0, 0], 0),
        (["a", "b", "c"], 0),
        (np.zeros((0, 3)), 0),
        (np.zeros((1, 1, 3)), 0),
        ([1, 0, 0], [1, 2]),
        ([1, 0, 0], INF),
        ([1, 0, 0], "x"),
        ([[1, 2, 3], [1]], 0),
    ],
)
def test_malformed_hypotheses(R, r):
    with pytest.raises(InvalidArgument):
        wald.wald_test(ESTIMATE, COVARIANCE, R, r)


def test_rows_of_different_magnitude_are_not_taken_for_dependent():
    test = wald.wald_test(ESTIMATE, COVARIANCE, [[1e-12, 0, 0], [0, 1e12, 0]])
    assert test.statistic == pytest.approx(
        wald.wald_test(ESTIMATE, COVARIANCE, [[1, 0, 0], [0, 1, 0]]).statistic
    )


def test_references_in_words():
    assert wald.JointTest(3.0, 2, INF).distribution == "chi2(2)"
    assert wald.JointTest(3.0, 2, 31.5).distribution == "F(2, 31.5)"
