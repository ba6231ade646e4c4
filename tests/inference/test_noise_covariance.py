"""The stated covariance of the privacy noise against simulation, and the pieces of the sandwich."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import qmc

import privfit as pf
from privfit.inference.arrival import unfinished
from privfit.inference.combine import Anchor, anchor, last_iterate, one_step
from privfit.inference.covariance import (
    Bread,
    bread_from,
    debiased,
    hidden,
    hidden_count,
    largest_of_noise,
    out_of_reach,
    part_by_noise,
)
from privfit.inference.infer import infer
from privfit.inference.sandwich import satterthwaite, with_tails
from privfit.losses import ConcomitantHuber, Huber, Logistic, Poisson, SmoothedHinge, Squared
from privfit.privacy.mechanisms import gaussian_vector, make_source, smat, svec
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers import NoisyGradientDescent, NoisyNewton, NonPrivate, WhitenedGradientDescent
from privfit.solvers.base import Solution, Step
from privfit.solvers.drawn import Drawn
from tests.small_sample import hc1
from tests.solvers.simulated import inferred, oracle_for, problem_for, rows


def quadratic_path(hessian, optimum, *, n_steps, step, sd, rng):
    """Noisy gradient descent on a quadratic, as the solver's own types."""
    size = len(optimum)
    planned = PlannedRelease("gradient", size, 1.0, 1.0, sd)
    theta, steps, inverse = np.zeros(size), [], step * np.eye(size)
    for noise in sd * rng.normal(size=(n_steps, size)):
        gradient = hessian @ (theta - optimum) + noise
        steps.append(Step(Release(planned, theta, gradient), gradient, inverse))
        theta = theta - step * gradient
    return Solution(None, theta, tuple(steps), (), "last")


HESSIAN = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.1], [0.0, -0.1, 0.05]])


def law_of(estimates, covariance, truth):
    """Standardised squared errors of many draws: chi-square if the covariance is right."""
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (estimates - truth).T)
    return float(np.sum(whitened**2)), whitened.size


@pytest.mark.statistical
def test_the_last_iterate_has_the_covariance_of_its_recursion():
    """False-alarm rate 1e-8; the source's heuristic 8 eta^2 B^2 K / (n mu)^2 is off in flat directions."""
    rng, optimum = np.random.default_rng(5), np.array([1.0, -2.0, 0.5])
    bread = Bread(HESSIAN, np.linalg.inv(HESSIAN), 0.0, np.zeros((3, 0)))
    draws, steps, eta, sd = 800, 400, 1.0, 0.2
    path = quadratic_path(HESSIAN, optimum, n_steps=steps, step=eta, sd=sd, rng=rng)
    ends = np.zeros((draws, 3))
    for noise in sd * rng.normal(size=(steps, draws, 3)):
        ends -= eta * ((ends - optimum) @ HESSIAN + noise)
    transient = np.linalg.matrix_power(np.eye(3) - eta * HESSIAN, steps) @ (-optimum)
    covariance = last_iterate(path, bread).cov_noise
    statistic, size = law_of(ends, covariance, optimum + transient)
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], size)
    assert low <= statistic <= high
    limit = eta * sd**2 * np.linalg.inv(2 * HESSIAN - eta * HESSIAN @ HESSIAN)
    np.testing.assert_allclose(covariance, limit, rtol=1e-4)
    heuristic = eta**2 * sd**2
    flat = np.linalg.eigvalsh(covariance)[-1]
    assert flat > 5 * heuristic


@pytest.mark.parametrize("n_steps", [1, 5, 30])
def test_the_way_that_is_left_is_known_where_the_hessian_is(n_steps):
    rng, optimum = np.random.default_rng(7), np.array([1.0, -2.0, 0.5])
    bread = Bread(HESSIAN, np.linalg.inv(HESSIAN), 0.0, np.zeros((3, 0)))
    path = quadratic_path(HESSIAN, optimum, n_steps=n_steps, step=1.0, sd=0.0, rng=rng)
    left = 2.0 * (optimum - path.theta)
    estimate = last_iterate(path, bread)
    np.testing.assert_array_equal(estimate.cov_noise, np.zeros((3, 3)))
    found = unfinished(estimate, path, bread)
    assert found.arrived
    np.testing.assert_array_equal(found.theta, path.theta)
    np.testing.assert_allclose(found.cov_noise, np.outer(left, left), atol=1e-10)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.8), ConcomitantHuber()], ids=lambda loss: loss.name)
def test_the_interval_of_a_last_iterate_that_is_on_its_way_holds_the_optimum(loss, rng):
    """It was short and many standard errors away: with more rows errors are smaller, steps hardly more."""
    x, y = rows(loss, 20_000, rng)
    problem, solver = problem_for(loss, x, norm_bound=1.6), NoisyGradientDescent(n_steps=20, report="last")
    oracle = oracle_for(problem, solver, x, y, mu=1.5, seed=1)
    fit = infer(solver.run(problem, oracle), oracle, directions=np.eye(problem.n_coef))
    squares = (fit.theta - minimum(problem, problem, x, y)[: len(fit.theta)]) ** 2
    assert (squares < 1.96**2 * np.diag(fit.cov_noise)).all()


@pytest.mark.parametrize(
    "loss",
    [Huber(0.8), ConcomitantHuber(), SmoothedHinge(), Poisson(count_bound=9.0), Squared()],
    ids=lambda loss: loss.name,
)
def test_a_newton_step_from_far_away_is_not_believed(loss, rng):
    """It was where the steps that it starts from agree: intervals were short and many errors away."""
    x, y = rows(loss, 20_000, rng)
    problem = problem_for(loss, x, norm_bound=1.6)
    usual, few = NoisyGradientDescent(), NoisyGradientDescent(n_steps=3)
    for solver, finite in ((usual, True), (few, False)):
        oracle = oracle_for(problem, solver, x, y, mu=1.5, seed=1)
        fit = infer(solver.run(problem, oracle), oracle, directions=np.eye(problem.n_coef))
        assert np.isfinite(np.diag(fit.cov_noise)).tolist() == [finite] * problem.n_coef


def test_a_last_iterate_that_ran_away_has_no_interval(rng):
    x, y = rows(Logistic(), 3000, rng)
    problem, solver = (
        problem_for(Logistic(), x, norm_bound=1.6),
        NoisyGradientDescent(step_size=1e9, report="last"),
    )
    oracle = oracle_for(problem, solver, x, y, mu=1.5, seed=1)
    fit = infer(solver.run(problem, oracle), oracle, directions=np.eye(problem.n_coef))
    assert np.isinf(np.diag(fit.cov_noise)).all()


@pytest.mark.statistical
def test_the_one_step_estimate_has_the_noise_of_one_release():
    """Steps far from convergence, unbiased all the same; false-alarm rate 1e-8."""
    rng, optimum = np.random.default_rng(6), np.array([1.0, -2.0, 0.5])
    bread = Bread(HESSIAN, np.linalg.inv(HESSIAN), 0.0, np.zeros((3, 0)))
    draws, steps, sd = 3000, 8, 0.2
    paths = [quadratic_path(HESSIAN, optimum, n_steps=steps, step=0.5, sd=sd, rng=rng) for _ in range(draws)]
    estimates = [one_step(anchor(path.late), bread) for path in paths]
    expected = sd**2 / (steps / 2) * np.linalg.inv(HESSIAN @ HESSIAN)
    np.testing.assert_allclose(estimates[0].cov_noise, expected, rtol=1e-9)
    statistic, size = law_of(np.array([e.theta for e in estimates]), expected, optimum)
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], size)
    assert low <= statistic <= high


@pytest.mark.statistical
def test_the_noise_of_the_bread_enters_the_one_step_estimate():
    """``cov(E v) = sd^2 / 2 (|v|^2 I + v v')`` for the symmetric mechanism's noise; false-alarm 1e-8."""
    v, sd, draws = np.array([0.5, -1.5, 2.0]), 0.3, 4000
    source = make_source(11)
    blank = np.zeros((3, 3))
    noise = [
        smat(gaussian_vector(svec(blank), sensitivity=0.2, mu=1.0, sd=sd, source=source)) @ v
        for _ in range(draws)
    ]
    covariance = 0.5 * sd**2 * (v @ v * np.eye(3) + np.outer(v, v))
    statistic, size = law_of(np.array(noise), covariance, np.zeros(3))
    low, high = stats.chi2.ppf([5e-9, 1 - 5e-9], size)
    assert low <= statistic <= high


@pytest.mark.parametrize("clear", [3.0, 4.0, 6.0, 20.0])
def test_the_far_end_of_an_interval_is_fiellers_where_only_the_bread_has_noise(clear):
    """``theta = at - g / b`` and ``b + z sd`` is released: the interval holds for all z up to 1.96."""
    true, point, gradient = 2.0, 0.7, -3.0
    sd = true / clear
    for z in np.linspace(max(-2.5, 0.5 - clear), 2.5, 101):
        released = true + z * sd
        bread = Bread(np.array([[released]]), np.array([[1.0 / released]]), sd, np.zeros((1, 0)))
        around = Anchor(np.array([point]), np.array([gradient]), np.eye(1), 0.0)
        estimate = one_step(around, bread)
        half = 1.96 * np.sqrt(estimate.cov_noise[0, 0])
        held = abs(estimate.theta[0] - (point - gradient / true)) <= half
        assert held == (z <= 1.96), z
        least = released - 1.96 * sd
        if least >= 0.25 * released:
            assert estimate.theta[0] + half == pytest.approx(point - gradient / least)
        else:
            assert half == pytest.approx(1.96 * sd * abs(gradient / released) / (0.25 * released))


def test_a_bread_that_is_clear_loses_nothing():
    rng = np.random.default_rng(3)
    inverse, move = np.linalg.inv(HESSIAN), np.array([0.5, -1.5, 2.0])
    exact, clear, noisy = (Bread(HESSIAN, inverse, sd, np.zeros((3, 0))) for sd in (0.0, 1e-6, 0.1))
    assert exact.far_inverse(move, 0.1) is exact.inverse
    np.testing.assert_allclose(clear.far_inverse(move, 0.0), inverse, rtol=1e-4)
    assert np.isfinite(noisy.far_inverse(np.zeros(3), 0.0)).all()
    for _ in range(20):
        direction = rng.normal(size=3)
        sizes = [direction @ noisy.far_inverse(move, sd) @ direction for sd in (0.0, 0.1, 1.0)]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] > direction @ inverse @ direction


@pytest.mark.parametrize("move", [0.0, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("clear", [3.0, 4.0, 6.0, 20.0])
def test_intervals_hold_where_gradient_and_bread_have_noise(clear, move):
    """One coefficient, the bread ``clear`` sd from 0, released 1.7 sd or more: 5 % finite and wrong at most.

    The step is ``move`` standard deviations of the gradient's noise long. Both noises run over their whole
    law at 1,024 points that are the same each time, so there are no false alarms: rates are within 0.4 % of
    those at eight times as many points.
    """
    noise = stats.norm.ppf(qmc.Sobol(2, scramble=False).random_base2(10) + 2.0**-11)
    wrong = 0
    for released, gradient in zip(1.0 + noise[:, 0] / clear, move + noise[:, 1], strict=True):
        if released < 1.7 / clear:
            continue
        bread = Bread(np.array([[released]]), np.array([[1.0 / released]]), 1.0 / clear, np.zeros((1, 0)))
        found = one_step(Anchor(np.zeros(1), np.array([gradient]), np.eye(1), 1.0), bread)
        wrong += abs(found.theta[0] + move) > 1.96 * np.sqrt(found.cov_noise[0, 0])
    assert wrong / len(noise) <= 0.055


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("solver", "loss"),
    [
        (WhitenedGradientDescent(), Logistic()),
        (WhitenedGradientDescent(), Huber(0.8)),
        (WhitenedGradientDescent(), ConcomitantHuber()),
        (NoisyGradientDescent(n_steps=100), Huber(0.8)),
        (NoisyGradientDescent(n_steps=60, report="last"), Logistic()),
        (NoisyNewton(), Logistic()),
        (NoisyNewton(report="last"), Huber(0.8)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_errors_from_noise_have_the_stated_size(solver, loss, rng):
    """Fixed rows, 100 noises: mean squared standardised error in [0.6, 1.55].

    Its standard error is at most 0.095 (3 coordinates of 100 draws, correlated and with tails; 0.067 to 0.093
    by the spread of 200). By a gamma law with it the false-alarm rate is below 1e-6, and both half and twice
    the variance are rejected with chances of 97 % and more.
    """
    x, y = rows(loss, 3000, rng)
    problem = problem_for(loss, x, norm_bound=100.0 if isinstance(solver, WhitenedGradientDescent) else 1.6)
    scaled, known = [], None
    for seed in range(100):
        oracle = oracle_for(problem, solver, x, y, mu=1.5, seed=seed)
        solution = solver.run(problem, oracle)
        fit = infer(solution, oracle, directions=np.eye(problem.n_coef))
        if known is None or solution.problem.basis is not None:
            known = minimum(problem, solution.problem, x, y)
        scaled.append((fit.theta - known) ** 2 / np.diag(fit.cov_noise))
    assert 0.6 < np.mean(scaled) < 1.55


@pytest.mark.parametrize("seed", [13, 26, 55])
def test_a_hessian_that_is_made_less_steep_stays_positive(seed, rng):
    """With only the coefficients' block made so, steps of these noises went 1e13 far."""
    x, y = rows(ConcomitantHuber(), 3000, rng)
    problem, solver = problem_for(ConcomitantHuber(), x, norm_bound=100.0), WhitenedGradientDescent()
    solution = solver.run(problem, oracle_for(problem, solver, x, y, mu=1.5, seed=seed))
    assert np.abs(solution.theta).max() < 100.0


def minimum(problem, final, x, y):
    """The exact minimum under the weights of the coordinates that a solver ended in."""
    oracle = oracle_for(problem, NonPrivate(), x, y, mu=math.inf)
    if final.basis is not None:
        oracle.change_basis(final)
    return final.coefficients(NonPrivate().run(final, oracle).theta)


def test_without_noise_the_covariance_is_the_plain_sandwich_by_rows_less_columns(rng):
    import statsmodels.api as sm

    x, y = rows(Logistic(), 2000, rng)
    fit = inferred(problem_for(Logistic(), x, norm_bound=1e3), NonPrivate(), x, y, mu=math.inf)
    reference = hc1(sm.Logit(y, x).fit(disp=0, cov_type="HC0", tol=1e-12))
    np.testing.assert_allclose(fit.theta, reference.params, atol=1e-8)
    np.testing.assert_allclose(fit.cov_sampling, reference.cov_params(), rtol=1e-6)
    assert np.isinf(fit.dof).all()


@pytest.mark.statistical
def test_debiased_removes_what_bread_noise_adds_on_average():
    """Mean over 4,000 breads; the uncorrected mean is 8 % too large, the corrected one within 2 %."""
    rng, sd = np.random.default_rng(8), 0.06
    truth = np.diag([1.0, 0.8, 0.7])
    target = np.linalg.inv(truth) @ np.linalg.inv(truth)
    plain, corrected = [], []
    for _ in range(4000):
        noise = np.triu(rng.normal(size=(3, 3)) * sd / np.sqrt(2), 1)
        noise = noise + noise.T + np.diag(rng.normal(size=3) * sd)
        inverse = np.linalg.inv(truth + noise)
        bread = Bread(truth + noise, inverse, sd, np.zeros((3, 0)))
        plain.append(inverse @ inverse)
        corrected.append(debiased(inverse @ inverse, bread))
    excess = np.diag(np.mean(plain, axis=0)) / np.diag(target) - 1
    left = np.diag(np.mean(corrected, axis=0)) / np.diag(target) - 1
    assert (excess > 0.01).all()
    assert (np.abs(left) < 0.5 * excess).all()
    np.testing.assert_array_equal(debiased(target, Bread(truth, truth, 0.0, np.zeros((3, 0)))), target)


def test_debiased_never_shrinks_by_more_than_its_limit():
    bread = Bread(np.eye(3), np.eye(3), 5.0, np.zeros((3, 0)))
    shrunk = debiased(np.diag([4.0, 1.0, 0.1]), bread)
    values = np.linalg.eigvalsh(np.linalg.solve(np.diag([4.0, 1.0, 0.1]), shrunk))
    assert values.min() >= 1 / 1.25 - 1e-12
    assert values.max() <= 1.0 + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize(("sd_bread", "sd_meat"), [(0.01, 0.03), (0.03, 0.01)])
def test_satterthwaite_matches_the_simulated_variance_of_the_variance(sd_bread, sd_meat):
    """Degrees of freedom ``2 v^2 / var(v)`` within 15 % of 6,000 simulated breads and meats.

    Most of them are the meat's at first, and the bread's then.
    """
    rng = np.random.default_rng(9)
    truth, meat, n = np.diag([1.0, 0.6]), np.diag([0.5, 0.4]), 100
    direction = np.array([[0.7, -0.4]])

    def symmetric(sd):
        noise = np.triu(rng.normal(size=(2, 2)) * sd / np.sqrt(2), 1)
        return noise + noise.T + np.diag(rng.normal(size=2) * sd)

    variances = []
    for _ in range(6000):
        inverse = np.linalg.inv(truth + symmetric(sd_bread))
        variances.append(
            (direction @ inverse @ (meat + symmetric(sd_meat)) @ inverse @ direction.T / n).item()
        )
    inverse = np.linalg.inv(truth)
    bread = Bread(truth, inverse, sd_bread, np.zeros((2, 0)))
    sampling = inverse @ meat @ inverse / n
    total = np.diag(direction @ sampling @ direction.T)
    drawn = Drawn(meat, 0.9 * meat, np.eye(2), sd_meat**2 * np.array([[1.0, 0.5], [0.5, 1.0]]))
    dof = satterthwaite(
        direction,
        bread=bread,
        meat=drawn,
        of_meat=drawn.variance(direction @ inverse),
        sampling=sampling,
        total=total,
        rows=n,
    )
    assert dof[0] == pytest.approx(2 * np.mean(variances) ** 2 / np.var(variances), rel=0.15)


def radial_steps(q, weights, *, epsilon):
    """Return steps whose gradients have noise of these precisions."""
    sds = 1.0 / np.sqrt(np.array(weights, dtype=float))
    planned = [PlannedRelease("gradient", q, 1.0, np.inf, sd, epsilon=epsilon) for sd in sds]
    blank = np.zeros(q)
    return [Step(Release(one, blank, blank), blank, np.eye(q)) for one in planned]


@pytest.mark.statistical
@pytest.mark.parametrize("q", [1, 2, 5, 20])
@pytest.mark.parametrize("part", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("weights", [(1.0,), (1.0, 3.0)])
def test_radial_noise_has_the_tails_of_the_reference(q, part, weights):
    """Quantiles of 400,000 sums of radial and normal noise; the simulated ones are off by 0.5 % (1 sd)."""
    rng, draws = np.random.default_rng([q, len(weights)]), 400_000
    shares = np.array(weights) / np.sum(weights)
    total = np.sqrt(1.0 - part) * rng.normal(size=draws)
    for share in shares:
        cosine = np.sqrt(rng.beta(0.5, 0.5 * (q - 1), draws)) if q > 1 else np.ones(draws)
        radial = rng.gamma(q, size=draws) * cosine * rng.choice([-1.0, 1.0], draws)
        total += np.sqrt(part * share / (q + 1.0)) * radial
    steps = radial_steps(q, weights, epsilon=1.0)
    dof = with_tails(np.array([np.inf]), steps, np.array([part]))[0]
    for confidence in (0.95, 0.99):
        exact = np.quantile(np.abs(total), confidence)
        assert stats.t.isf(0.5 - 0.5 * confidence, dof) == pytest.approx(exact, rel=0.08)


def test_normal_noise_leaves_degrees_of_freedom_and_radial_noise_takes_some():
    dof, part = np.array([np.inf, 30.0, 12.0]), np.array([0.5, 1.0, 0.0])
    gaussian = [
        Step(Release(one, np.zeros(2), np.zeros(2)), np.zeros(2), np.eye(2))
        for one in (PlannedRelease("gradient", 2, 1.0, 1.0, 0.1),)
    ]
    np.testing.assert_array_equal(with_tails(dof, gaussian, part), dof)
    found = with_tails(dof, radial_steps(2, [1.0], epsilon=1.0), part)
    np.testing.assert_allclose(found, [60.0, 10.0, 12.0])


def test_directions_that_the_noise_hides_get_no_standard_error():
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    bread = Bread(np.eye(3), np.eye(3), 0.1, turn[:, :1])
    directions = np.array([turn[:, 0], turn[:, 1], turn[:, 1] + 0.1 * turn[:, 0], turn[:, 1] + turn[:, 0]])
    np.testing.assert_array_equal(hidden(directions, bread), [True, False, False, True])
    nothing = Bread(np.eye(3), np.eye(3), 0.1, np.zeros((3, 0)))
    assert not hidden(directions, nothing).any()


def test_a_part_of_what_noise_hides_is_neglected_if_noise_makes_as_much():
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    curvature = np.array([0.0, 2.0, 1.0])
    largest = np.sqrt(0.5 * stats.chi2.isf(0.01, 1)) * 0.01 / 2.0  # of a direction with curvature 2
    for sd, expected in ((0.01, [False, True, False]), (0.0, [False, False, False])):
        inverse = (turn[:, 1:] / curvature[1:]) @ turn[:, 1:].T
        bread = Bread((turn * curvature) @ turn.T, inverse, sd, turn[:, :1])
        parts = [0.99 * largest, 1.01 * largest, 0.0]
        directions = np.array([turn[:, 1] + part * turn[:, 0] for part in parts])
        np.testing.assert_array_equal(hidden(directions, bread), expected)


def test_noise_alone_hides_what_it_does_not_touch_in_one_fit_of_a_hundred():
    """Two directions without curvature; 4,000 breads, five deviations of their number to each side."""
    rng, sd, found = np.random.default_rng(7), 0.02, np.zeros(4)
    curvature, draws = np.diag([0.0, 0.0, 0.5, 1.0, 3.0, 3.0]), 4000
    for _ in range(draws):
        noise = rng.normal(size=(6, 6))
        values, vectors = np.linalg.eigh(curvature + 0.5 * sd * (noise + noise.T))
        raised = np.maximum(values, sd)
        bread = Bread((vectors * raised) @ vectors.T, (vectors / raised) @ vectors.T, sd, vectors[:, :2])
        found += _part_exceeds(bread)
    off = 5.0 * np.sqrt(0.01 * 0.99 * draws)
    assert (np.abs(found - 0.01 * draws) < off).all(), found


def _part_exceeds(bread):
    inside = np.sum(bread.unresolved[2:] ** 2, axis=1)
    resolved = np.eye(6)[2:] - bread.unresolved[2:] @ bread.unresolved.T
    return inside > part_by_noise(resolved, bread)


@pytest.mark.parametrize(
    ("sd", "lost"), [(1e-3, [True, False]), (0.05, [False, False]), (0.0, [False, False])]
)
def test_a_constant_is_out_of_reach_where_little_noise_hides_it(sd, lost):
    curvature = np.array([1e-4, 1.0, 2.0])
    bread = Bread(np.diag(curvature), np.diag(1.0 / curvature), sd, np.eye(3)[:, :1])
    np.testing.assert_array_equal(out_of_reach(np.eye(3)[:2], bread), lost)
    for count in (0, 3):  # nothing is hidden, or all is
        others = Bread(bread.matrix, bread.inverse, sd, np.eye(3)[:, :count])
        assert not out_of_reach(np.eye(3)[:2], others).any()


def test_slopes_far_from_which_all_rows_lie_are_given_up_with_the_intercept():
    """Calendar years, not scaled: what the intercept may be, 2005 times smaller, is the slope's own size."""
    wrong = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        year = rng.integers(1990, 2020, 20_000).astype(float)
        y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-0.05 * (year - 2005.0)))).astype(int)
        result = pf.LogisticRegression(epsilon=1.0, random_state=seed).fit(year[:, None], y).result_
        wrong += abs(result.estimate[1] - 0.05) > 1.96 * result.bse.iloc[1]
    assert wrong <= 2


def test_among_many_columns_less_may_be_hidden():
    """With 20 of them half of a usual part, 1 / 20, is the most."""
    bread = Bread(np.eye(20), np.eye(20), 0.1, np.eye(20)[:, :1])
    parts = np.array([0.02, 0.024, 0.026, 0.04])
    directions = np.zeros((4, 20))
    directions[:, 0], directions[:, 1] = np.sqrt(parts), np.sqrt(1.0 - parts)
    np.testing.assert_array_equal(hidden(directions, bread), [False, False, True, True])


def test_reused_hessians_are_weighted_by_precision(rng):
    x, _ = rows(Logistic(), 100, rng)
    problem = problem_for(Logistic(), x)
    releases = [
        Release(PlannedRelease("hessian", 6, 1.0, 1.0, sd), np.zeros(3), value * np.eye(3))
        for sd, value in ((1e-3, 1.0), (2e-3, 2.0))
    ]
    bread = bread_from(problem, releases)
    assert bread.matrix[0, 0] == pytest.approx(0.8 * 1.0 + 0.2 * 2.0)
    assert bread.sd == pytest.approx(np.sqrt(0.8**2 * 1e-6 + 0.2**2 * 4e-6))


def test_unresolved_eigenvalues_are_raised_and_remembered(rng):
    x, _ = rows(Logistic(), 100, rng)
    problem = problem_for(Logistic(), x)
    value = np.diag([1.0, 0.2, 1e-4])
    bread = bread_from(problem, [Release(PlannedRelease("hessian", 6, 1.0, 1.0, 0.01), np.zeros(3), value)])
    assert bread.unresolved.shape == (3, 1)
    np.testing.assert_allclose(np.abs(bread.unresolved[:, 0]), [0, 0, 1], atol=1e-12)
    assert 1 / bread.inverse[2, 2] == pytest.approx(0.5 * 0.01 * np.sqrt(6))


@pytest.mark.statistical
@pytest.mark.parametrize("size", [1, 2, 5, 20])
def test_noise_alone_passes_for_curvature_in_one_of_twenty_draws(size):
    """20,000 draws: a rate of 5 % gives more than 1150 or, at 4.2 %, fewer than 700 with chance 1e-6."""
    entries = np.random.default_rng(size).normal(size=(20_000, size, size))
    largest = np.linalg.eigvalsh(0.5 * (entries + entries.transpose(0, 2, 1)))[:, -1]
    assert 700 < np.count_nonzero(largest > largest_of_noise(1.0, size)) < 1150


@pytest.mark.statistical
@pytest.mark.parametrize("missing", [1, 2])
def test_directions_without_curvature_are_hidden_whatever_there_is_elsewhere(missing):
    """2,000 draws at 5 %: more than 150 that show one of them have chance 1e-6; the others are all seen."""
    rng, shown = np.random.default_rng(missing), 0
    curvature = np.diag([0.0] * missing + [12.0] * (5 - missing))
    for _ in range(2000):
        entries = rng.normal(size=(5, 5))
        found = hidden_count(np.linalg.eigvalsh(curvature + 0.5 * (entries + entries.T)), 1.0)
        assert found <= missing
        shown += found < missing
    assert shown <= 150


def test_a_bread_that_is_moved_is_what_the_model_says_where_the_model_is_right_up_to_a_factor(rng):
    square = rng.normal(size=(3, 3))
    before, after = square @ square.T + np.eye(3), np.diag([0.5, 2.0, 1.0])
    bread = Bread(3.0 * before, np.linalg.inv(3.0 * before), 0.1, np.empty((3, 0)))
    moved = bread.moved(before, after)
    np.testing.assert_allclose(moved.matrix, 3.0 * after, atol=1e-12)
    np.testing.assert_allclose(moved.inverse @ moved.matrix, np.eye(3), atol=1e-12)
    same = bread.moved(after, after)
    np.testing.assert_allclose(same.matrix, bread.matrix, rtol=1e-12)
    assert moved.sd == bread.sd


def test_a_bread_that_is_moved_stays_positive_whatever_the_model_says():
    bread = Bread(np.diag([1.0, 1e-3]), np.diag([1.0, 1e3]), 0.1, np.empty((2, 0)))
    moved = bread.moved(np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([[1.0, -0.9], [-0.9, 1.0]]))
    assert np.linalg.eigvalsh(moved.matrix)[0] > 0.0
