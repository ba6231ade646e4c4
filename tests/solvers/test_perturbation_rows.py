"""From which length on a perturbed minimiser weights rows down, by hand and against quadrature."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from privfit.losses import Logistic, Poisson, SmoothedQuantile
from privfit.solvers.perturbation_rows import row_bound

from .simulated import problem_for

SIX = np.diag([2.0, 2.0, 2.0])
"""A second moment whose trace is 6, the dimension that bounds are asked for."""


def a_problem(n=10_000, loss=None, **changes):
    """Three columns with a norm bound so large that no row was weighted down for the moment."""
    return replace(problem_for(loss or Logistic(), np.ones((n, 3)), norm_bound=10.0), **changes)


def squared(problem, *, epsilon=1.0, dimension=6.0, moment=SIX, basis=None, slack=None):
    basis, square = np.eye(3) if basis is None else basis, float(np.trace(moment))
    slack = problem.loss.slack if slack is None else slack
    return row_bound(problem, basis, dimension, epsilon=epsilon, square=square, slack=slack) ** 2


@pytest.mark.parametrize("loss", [Logistic(), Poisson(1.0, 5.0)], ids=str)
def test_rows_are_weighted_down_from_little_more_than_the_mean_on_or_from_where_noise_allows(loss):
    """Of 6 dimensions that is 7.2, or what the noise of gradients and of the bread allow, but 60 at most."""
    slope, curvature = loss.slack
    for n, epsilon in ((200, 1.0), (4_000, 1.0), (4_000, 2.0), (60_000, 0.4), (400_000, 0.4), (10**6, 1.0)):
        steps = 0.006 * n * 0.25 * (epsilon / slope) ** 2
        bread = 0.015 * n * 0.5 * epsilon / math.sqrt(7.0 * 3.0) / curvature
        expected = min(max(min(steps, bread), 7.2), 60.0)
        assert squared(a_problem(n, loss), epsilon=epsilon) == pytest.approx(expected)
    assert squared(a_problem(10, loss), epsilon=math.inf) == pytest.approx(10.0)


def test_noise_in_the_bread_of_many_columns_holds_rows_back():
    """By hand: 0.015 n s / sqrt(p), s half an epsilon over the root of 466, for 30 columns."""
    problem = problem_for(Logistic(), np.ones((10**6, 30)), norm_bound=100.0)
    asked = {"basis": np.eye(30), "moment": np.eye(30), "dimension": 30.0, "epsilon": 1.0}
    assert squared(problem, **asked) == pytest.approx(0.015 * 10**6 * 0.5 / math.sqrt(466.0 * 30.0))


@pytest.mark.parametrize("p", [2, 5, 20])
def test_that_is_about_where_noise_is_least(p):
    """Of normal rows no limit has less noise than 0.97 times that of 1.2 times their mean square."""
    chi = stats.chi2(p)

    def noise(limit):
        return math.sqrt(limit) / chi.expect(lambda z: np.minimum(z, limit), epsabs=1e-8)

    chosen = squared(a_problem(10), dimension=float(p), epsilon=1e-3)
    assert chosen == pytest.approx(1.2 * p)
    assert noise(chosen) < min(noise(p * k) for k in np.geomspace(0.2, 5.0, 25)) / 0.97
    assert noise(chosen) < 0.95 * noise(p + 2.0 * math.sqrt(2.0 * p))


def test_rows_of_a_quantile_are_at_most_as_long_as_normal_ones():
    quantile = SmoothedQuantile(0.5, 0.4)
    for bounded in (False, True):
        many = a_problem(10**7, quantile, bounded=bounded, norm_bound=1e3)
        assert squared(many) == pytest.approx(6.0 + 2.0 * math.sqrt(12.0))
    assert squared(a_problem(100, quantile)) == pytest.approx(7.2)
    short = np.eye(3) * 150.0 / 3.0
    assert squared(a_problem(10**7, quantile), moment=short) == pytest.approx(14.4)


def test_rows_are_no_longer_than_declared_bounds_let_them_be():
    basis = np.array([[0.5, 0.1, 0.0], [0.0, 0.3, -0.2], [0.1, 0.0, 0.4]])
    by_norm = a_problem(10**6, bounded=True, norm_bound=3.0)
    norm = 3.0 * np.linalg.norm(basis, 2)
    assert squared(by_norm, basis=basis) == pytest.approx(norm**2)
    corners = np.array([[1.0, a, b] for a in (-1.0, 1.0) for b in (-1.0, 1.0)])
    longest = np.linalg.norm(corners @ basis, axis=1).max()
    by_columns = squared(replace(by_norm, indicators=(True, False, False)), basis=basis)
    assert by_columns == pytest.approx(0.6**2 + 0.4**2 + 0.6**2)
    assert longest**2 <= by_columns < norm**2


@pytest.mark.parametrize("size", [2.0, 0.3, 1.0])
@pytest.mark.parametrize("p", [2, 3, 10])
def test_rows_that_were_weighted_down_before_are_longer_than_their_moment_tells(p, size):
    """Of a constant and normal columns; it is within a third of what is gone, up to a half."""
    chi, largest = stats.chi2(p - 1), max(0.5 * p, 2.0)
    seen = chi.expect(lambda z: np.minimum(1.0 + size * z, largest), epsabs=1e-8)
    gone = seen / (1.0 + size * (p - 1.0))
    problem = problem_for(Logistic(), np.ones((10, p)), norm_bound=math.sqrt(largest))
    moment = np.eye(p) * seen / p
    asked = {"moment": moment, "dimension": float(p), "epsilon": 1e-3, "basis": np.eye(p)}
    allowed = 1.2 * p / squared(problem, **asked)
    assert 0.5 <= allowed <= 1.0
    assert allowed == pytest.approx(max(gone, 0.5), rel=0.34)
    assert squared(replace(problem, bounded=True, norm_bound=1e6), **asked) == pytest.approx(1.2 * p)


def test_the_allowance_goes_from_none_at_three_fifths_of_the_largest_norm_to_a_half_at_all_of_it():
    for trace, shown in ((10.0, 1.0), (60.0, 1.0), (80.0, 0.75), (100.0, 0.5), (150.0, 0.5)):
        found = squared(a_problem(10), epsilon=1e-3, moment=np.eye(3) * trace / 3.0)
        assert found == pytest.approx(7.2 / shown)


@pytest.mark.parametrize("levels", [True, False])
def test_rows_within_a_schema_count_in_full_as_far_as_their_noise_allows(levels):
    """Noise of the bread may be twice its part over the smallest limit, with levels five times, but at most
    three times what a tenth of its eigenvalues allows: by hand."""
    problem = a_problem(20_000, bounded=True, norm_bound=1e3, indicators=(False, False, levels))
    allowed = 0.015 * 20_000 * 0.25 / math.sqrt(7.0 * 3.0)
    wide = {"basis": 1e3 * np.eye(3)}
    assert allowed < 20.0 < 2.0 * allowed**2 / 7.2
    times = min(3.0, (5.0 if levels else 2.0) * 0.5 * allowed / 7.2)
    assert squared(problem, epsilon=0.25, **wide) == pytest.approx(times * 0.5 * allowed)
    assert squared(problem, epsilon=5.0, **wide) == pytest.approx(3.0 * 10.0 * allowed)
    assert squared(problem, epsilon=0.05, **wide) == pytest.approx(7.2)
    many = replace(problem, n_rows=2_000_000)
    steps = 0.006 * 2_000_000 * 0.25 * 0.01**2 * (1.0 + 100.0 / 3.0)
    assert squared(many, epsilon=0.01, **wide) == pytest.approx(steps)
    assert steps > 7.2


def test_noise_in_the_bread_goes_by_what_its_bound_is_generous_by():
    """With a bound on counts of 25 a curvature is often far below it: that much less is allowed."""
    loss = Poisson(math.log(25.0), 25.0)
    problem = a_problem(100_000, loss, bounded=True, norm_bound=1e3)
    allowed = 0.015 * 100_000 * 0.5 / math.sqrt(7.0 * 3.0) / loss.slack[1]
    assert squared(problem) == pytest.approx(max(allowed * min(3.0, 2.0 * allowed / 7.2), 7.2))
