"""What it may do to an estimate that counts beyond a lowered bound are moved to it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, stats

import privfit as pf
from privfit.data.declarations import NumericColumn
from privfit.data.exposure import Exposure, SeenExposures
from privfit.data.shares import ShareRule
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread
from privfit.inference.cut_counts import with_cuts
from privfit.inference.found import Found
from privfit.losses import Logistic, Poisson
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.solvers.base import Moments, Solution
from privfit.solvers.count_tail import count_tail, log_normal_beyond, rates_beyond
from privfit.solvers.drawn import Drawn
from tests.solvers.simulated import problem_for

DECLARED, BOUND, N = 400.0, 30.0, 100_000
THETA = np.array([0.5, 0.9, -0.3])
TURN = np.array([[1.0, 0.0, 0.3], [0.0, 1.0, 0.0], [0.2, 0.0, 2.0]])


def table(mixing):
    """Rows and counts with gamma mixed means."""
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(N), rng.normal(size=(N, 2))])
    mean = np.exp(x @ THETA)
    return x, rng.poisson(mean * rng.gamma(1.0 / mixing, mixing, size=N) if mixing else mean).astype(float)


def minimum(x, y, bound):
    """The exact fit to counts that are moved to a bound, with log means that end where the loss does."""

    def score(theta):
        return x.T @ (np.exp(np.minimum(x @ theta, math.log(bound + 0.25))) - np.minimum(y, bound)) / N

    return optimize.root(score, THETA, tol=1e-10).x


def widened(x, y, *, basis=None, problem=None, releases=None, moments=True):
    """The problem's estimate before and after, from releases with hardly any noise."""
    turn = np.eye(3) if basis is None else basis
    theta = np.linalg.solve(turn, minimum(x, y, BOUND))
    rows = x @ turn
    mean = np.exp(np.minimum(rows @ theta, math.log(BOUND + 0.25)))
    inside = mean < BOUND
    matrix = (rows.T * (mean * inside)) @ rows / N
    meat = (rows.T * (np.minimum(y, BOUND) - mean) ** 2) @ rows / N
    if problem is None:
        problem = problem_for(Poisson(math.log(DECLARED), DECLARED).up_to(BOUND), np.ones((1000, 3)))
        problem = replace(problem, response_bound=DECLARED, norm_bound=1e6)
        problem = problem if basis is None else problem.bounded_by(1e6, 1e9, basis)
    edges = DECLARED * 2.0 ** (np.arange(1 - NORM_CLASSES, 0) / NORMS_A_DOUBLING)
    shares = np.bincount(np.searchsorted(edges, y, side="right"), minlength=NORM_CLASSES) / N
    planned = PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, 2e-3)
    releases = [Release(planned, np.zeros(3), shares)] if releases is None else releases
    known = Moments(rows.T @ rows / N, np.zeros((3, 3)))
    solution = Solution(problem, theta, (), (), "one-step", moments=(lambda: known) if moments else None)
    before = Estimate(theta, 1e-8 * np.eye(3))
    found = Found(before, Bread(matrix, np.linalg.inv(matrix), 0.0, np.zeros((3, 0))), 1e-8 * np.eye(3))
    after = with_cuts(solution, found, Drawn(meat, matrix, np.eye(3), np.zeros((3, 3))), releases)
    return before, after


@pytest.mark.parametrize("mixing", [0.5, 1.0])
def test_what_is_added_is_about_the_square_of_what_cutting_does(mixing):
    x, y = table(mixing)
    before, after = widened(x, y)
    moved = minimum(x, y, BOUND) - minimum(x, y, DECLARED)
    added = after.cov_noise - before.cov_noise
    assert np.linalg.matrix_rank(added, tol=1e-12) == 1
    size = np.sqrt(np.diag(added))
    assert 0.5 * abs(moved[1]) < size[1] < 2.0 * abs(moved[1])
    values, vectors = np.linalg.eigh(added)
    assert abs(vectors[:, np.argmax(values)] @ moved) > 0.9 * np.linalg.norm(moved)
    np.testing.assert_array_equal(after.theta, before.theta)


def test_hardly_anything_is_added_for_counts_that_follow_a_poisson_law():
    """Cutting moves the slope by 0.5 %; means beyond the bound are held to it as counts are."""
    x, y = table(0.0)
    before, after = widened(x, y)
    assert math.sqrt(after.cov_noise[1, 1] - before.cov_noise[1, 1]) < 0.01


def test_coordinates_make_no_difference():
    x, y = table(1.0)
    plain = widened(x, y)[1].cov_noise - 1e-8 * np.eye(3)
    turned = widened(x, y, basis=TURN)[1].cov_noise - 1e-8 * np.eye(3)
    np.testing.assert_allclose(TURN @ turned @ TURN.T, plain, rtol=1e-5, atol=1e-9)


def exposed(mean, variance):
    """The problem where exposures were looked at, of 2 years on average as they are held."""
    problem = problem_for(Poisson(math.log(DECLARED), DECLARED).up_to(BOUND), np.ones((1000, 3)))
    seen = SeenExposures(2.0, 9.0, 0.1, (mean, variance))
    exposure = replace(Exposure("years", NumericColumn(0.0, 9.0)), seen=seen)
    return replace(problem, response_bound=DECLARED, norm_bound=1e6, exposure=exposure)


def test_exposures_are_part_of_what_means_are_beyond_the_bound_by():
    """Alike ones change little: the bread tells the usual row then. Uneven ones explain more of the tail."""
    x, y = table(1.0)

    def added(problem=None):
        before, after = widened(x, y, problem=problem)
        return np.sqrt(np.diag(after.cov_noise - before.cov_noise))

    plain, alike = added(), added(exposed(2.0, 0.0))
    np.testing.assert_allclose(alike[1:], plain[1:], rtol=0.1)
    assert added(exposed(2.0, 1.0))[1] < 0.5 * alike[1]
    assert added(exposed(3.0, 0.0))[1] < 0.8 * alike[1]
    assert added(exposed(1.0, 0.0))[1] > 1.2 * alike[1]


def test_rows_that_are_weighted_down_move_less():
    x, y = table(1.0)
    problem = problem_for(Poisson(math.log(DECLARED), DECLARED).up_to(BOUND), np.ones((1000, 3)))
    sizes = []
    for norm_bound in (1e6, 2.0, 1.0):
        held = replace(problem, response_bound=DECLARED, norm_bound=norm_bound)
        sizes.append(widened(x, y, problem=held)[1].cov_noise[1, 1])
    assert sizes[0] > 2.0 * sizes[1]
    assert sizes[1] == pytest.approx(16.0 * sizes[2], rel=1e-3)


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (Poisson(math.log(DECLARED), DECLARED), {}),  # the bound is the declared one
        (Logistic(), {}),
        (None, {"releases": []}),
        (None, {"moments": False}),
    ],
)
def test_without_a_lowered_bound_or_what_tells_of_it_nothing_is_added(loss, options):
    x, y = table(1.0)
    loss = Poisson(math.log(DECLARED), DECLARED).up_to(BOUND) if loss is None else loss
    problem = replace(problem_for(loss, np.ones((1000, 3))), response_bound=DECLARED)
    before, after = widened(x, y, problem=problem, **options)
    assert after is before


@pytest.mark.statistical
def test_intervals_of_counts_that_vary_more_than_their_means_hold():
    """Of 40 fits; 17 hold without what is added. With 90 % by right 24 or fewer have a chance of 6e-7."""
    rng, n = np.random.default_rng(8), 20_000
    numbers = {name: {"type": "numeric", "lower": -5, "upper": 5} for name in ("x", "z")}
    schema = {**numbers, "y": {"type": "numeric", "lower": 0, "upper": 200}}
    held = 0
    for seed in range(40):
        x, z = rng.normal(size=(2, n)).clip(-5.0, 5.0)
        y = np.minimum(rng.poisson(np.exp(0.5 + x + 0.3 * z) * rng.gamma(1.0, 1.0, size=n)), 200)
        fit = pf.poisson("y ~ x + z", {"x": x, "z": z, "y": y}, schema=schema, random_state=seed)
        low, high = fit.conf_int().loc["x"]
        held += low <= 0.995 <= high  # what rows with counts of at most 200 have
    assert held >= 25


SECOND = np.array([[1.0, 0.2, -0.1], [0.2, 0.9, 0.3], [-0.1, 0.3, 1.4]])
MATRIX = np.array([[2.5, 1.0, 0.2], [1.0, 3.0, 0.4], [0.2, 0.4, 2.0]])


def shown():
    """A look at log-normal numbers."""
    edges = DECLARED * 2.0 ** (np.arange(1 - NORM_CLASSES, 0) / NORMS_A_DOUBLING)
    below = np.concatenate([[0.0], stats.norm.cdf((np.log(edges) - 0.8) / 1.2), [1.0]])
    planned = PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, 2e-3)
    return Release(planned, np.zeros(3), np.diff(below))


def added(theta, *, norm_bound, meat, shares=None):
    """What is added to the covariance of an estimate, from matrices that are given."""
    problem = problem_for(Poisson(math.log(DECLARED), DECLARED).up_to(BOUND), np.ones((1000, 3)))
    problem = replace(problem, response_bound=DECLARED, norm_bound=norm_bound)
    problem = problem if shares is None else replace(problem, shares=shares)
    moments = Moments(1.7 * SECOND, np.zeros((3, 3)))  # of rows not all of which count
    solution = Solution(problem, theta, (), (), "one-step", moments=lambda: moments)
    bread = Bread(MATRIX, np.linalg.inv(MATRIX), 0.0, np.zeros((3, 0)))
    found = Found(Estimate(theta, np.zeros((3, 3))), bread, 1e-8 * np.eye(3))
    return with_cuts(solution, found, Drawn(meat, MATRIX, np.eye(3), np.zeros((3, 3))), [shown()]).cov_noise


@pytest.mark.parametrize("norm_bound", [1.0, 2.0, 1e3])
@pytest.mark.parametrize("theta", [[0.5, 0.9, -0.3], [0.5, 0.05, 0.0], [0.5, 0.1, 0.9], [5.0, 0.9, -0.3]])
def test_it_is_the_move_of_the_rows_that_are_usual_at_the_bound(theta, norm_bound):
    theta, meat = np.array(theta), 3.0 * MATRIX + np.diag([0.5, 0.0, -0.5])
    mean, cov = SECOND[0], SECOND - np.outer(SECOND[0], SECOND[0])
    middle, variance = mean @ theta, theta @ cov @ theta
    tail = count_tail(shown(), DECLARED, BOUND, whole=True)
    missed = tail.more_than(log_normal_beyond(middle, variance, BOUND))
    share = 1.0 if 1.0 / variance < tail.bent else variance * tail.bent  # of the way that means go
    way = max(math.log(BOUND) - middle, 0.0) * share
    row = mean + way * (cov @ theta) / variance
    beside = np.trace(cov - np.outer(cov @ theta, cov @ theta) / variance)
    weight = min(norm_bound**2 / (row @ row + beside), 1.0)
    move = missed * weight * np.linalg.solve(MATRIX, row)
    dispersion = np.trace(np.linalg.solve(MATRIX, meat)) / 3.0
    expected = (1.0 - 1.0 / dispersion) * np.outer(move, move)
    np.testing.assert_allclose(added(theta, norm_bound=norm_bound, meat=meat), expected, rtol=1e-9)
    assert (missed > 0.0) == (theta[0] < 5.0)


@pytest.mark.parametrize("dispersion", [0.5, 1.0])
def test_nothing_is_added_where_scores_vary_as_those_of_a_poisson_law(dispersion):
    theta = np.array([0.5, 0.9, -0.3])
    np.testing.assert_array_equal(added(theta, norm_bound=2.0, meat=dispersion * MATRIX), 0.0)


def test_rates_of_short_exposures_move_the_usual_row_whatever_their_means_are():
    """Where rows have weights; those of a unit are no exposures."""
    theta = np.array([0.5, 0.9, -0.3])
    weights = ShareRule(weights=("years", NumericColumn(0.0, 1.0)))
    found = added(theta, norm_bound=2.0, meat=MATRIX, shares=weights)
    move = rates_beyond(shown(), DECLARED, BOUND) * np.linalg.solve(MATRIX, SECOND[0])
    assert np.abs(move).max() > 0.0
    np.testing.assert_allclose(found, np.outer(move, move), rtol=1e-9)
    units = added(theta, norm_bound=2.0, meat=MATRIX, shares=ShareRule(unit="person"))
    np.testing.assert_array_equal(units, 0.0)
