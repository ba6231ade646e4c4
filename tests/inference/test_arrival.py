"""Intervals of solvers that have not arrived, as far as curvature tells."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import privfit as pf
from privfit.inference.arrival import UNKNOWN, Turning, bent_too_far, far_along, left_to_go
from privfit.inference.combine import Anchor, Estimate, anchor, one_step
from privfit.inference.covariance import Bread
from privfit.losses import Huber, Logistic
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.base import Step


def bread(diagonal):
    matrix = np.diag(diagonal)
    return Bread(matrix, np.linalg.inv(matrix), 0.0, np.zeros((len(diagonal), 0)))


def around(gradient, sd):
    return Anchor(np.zeros(len(gradient)), np.array(gradient), np.eye(len(gradient)), sd)


def test_a_step_is_far_off_where_its_second_order_is_beyond_half_a_standard_error():
    """A step of length 0.2 in the norm of the bread, off by ``rate * 0.2**2 / 2``."""
    seen, gradient = bread([0.25, 1.0]), [0.06, 0.16]
    assert gradient @ seen.inverse @ gradient == pytest.approx(0.04)
    for error in (0.01, 0.03):
        turning = Turning(rate=1.0, sampling=error**2)
        assert turning.far_off(around(gradient, 0.0), seen) == (0.5 * error < 0.5 * 0.04) == (error < 0.04)
    assert not Turning(rate=1.0, sampling=0.05**2).far_off(around(gradient, 0.0), seen)
    assert not UNKNOWN.far_off(around(gradient, 0.0), seen)
    noise = math.sqrt(0.04 / (4.0 + 1.0))  # as long as noise alone makes it
    assert not Turning(rate=10.0).far_off(around(gradient, noise), seen)


def short_steps(length, count, to):
    """Steps of gradient descent that began at 0, and an estimate without noise."""
    planned = PlannedRelease("gradient", 2, 1.0, 1.0, 0.0)
    step = Step(Release(planned, np.zeros(2), np.zeros(2)), np.zeros(2), length * np.eye(2))
    return (step,) * count, Estimate(np.array(to), np.zeros((2, 2)))


@pytest.mark.parametrize("count", [1, 10])
def test_what_short_steps_leave_of_the_way_is_off_by_its_second_order(count):
    """Of a way of 2 along a curvature of 0.25 steps of 0.4 leave 0.9 to the power of their number."""
    seen = bread([1.0, 0.25])
    steps, estimate = short_steps(0.4, count, [0.0, 2.0])
    error = 0.5 * (0.9**count * 2.0 * 0.5) ** 2
    for factor in (0.99, 1.01):  # half a standard error is tolerated
        turning = Turning(rate=1.0, sampling=(2.0 * factor * error) ** 2)
        assert left_to_go(steps, estimate, seen, turning) == (factor < 1.0)
    assert not left_to_go(steps, estimate, seen, Turning(rate=0.0))
    full, estimate = short_steps(1.0, count, [2.0, 0.0])  # of Newton's steps nothing is left
    assert not left_to_go(full, estimate, bread([1.0, 1.0]), Turning(rate=1.0, sampling=1e-12))


def test_a_way_that_noise_may_hide_counts_up_to_its_far_end():
    seen, (steps, there) = bread([1.0, 0.25]), short_steps(0.4, 1, [0.0, 0.0])
    noisy = Estimate(there.theta, np.diag([0.0, 1.0]))
    left, own = 2.0 * 0.9 * 0.5, 0.25 / 2.0
    for factor in (0.99, 1.01):
        rate = factor * 0.5 * math.sqrt(own) / (0.5 * left**2)
        assert left_to_go(steps, noisy, seen, Turning(rate=rate)) == (factor > 1.0)
    assert not left_to_go(steps, there, seen, Turning(rate=1.0, sampling=1e-12))


def test_a_coefficient_hangs_on_a_model_that_moves_it_by_three_quarters_of_a_standard_error():
    """A gradient of 0.1 leads by 0.1 as the bread was asked, and by 0.2 as the model moves it."""
    way = {"bread": bread([1.0, 1.0]), "on_the_way": bread([0.5, 1.0])}
    for sd in (0.13, 0.14):
        moved = bent_too_far(around([0.1, 0.1], 0.0), np.eye(2), variance=np.full(2, sd**2), **way)
        assert moved.tolist() == [0.75 * sd < 0.1, False]
    still = {"bread": bread([1.0, 1.0]), "on_the_way": bread([1.0, 1.0])}
    assert not bent_too_far(around([9.0, 9.0], 0.0), np.eye(2), variance=np.zeros(2), **still).any()


def test_how_fast_curvatures_turn_is_that_of_the_functions():
    for p in (0.01, 0.2, 0.5, 0.9):
        eta = math.log(p / (1.0 - p))
        step = 1e-5
        at = [math.exp(-abs(e)) / (1.0 + math.exp(-abs(e))) ** 2 for e in (eta - step, eta, eta + step)]
        assert Logistic().turning(at[1]) == pytest.approx(abs(at[2] - at[0]) / (2.0 * step * at[1]), abs=1e-6)
    assert Huber(1.0).turning(0.5) == 0.0


@pytest.mark.parametrize(("intercept", "finite"), [(0.0, True), (-3.5, False)])
def test_noisy_gradient_descent_with_few_positives_says_that_it_has_not_arrived(intercept, finite):
    """At log odds of -3.5 the intercept was 1.5 half-widths off, and a quarter of its intervals right."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=20_000).clip(-5.0, 5.0)
    y = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-intercept - x))).astype(int)
    schema = {
        "x": {"type": "numeric", "lower": -5.0, "upper": 5.0},
        "y": {"type": "categorical", "levels": [0, 1]},
    }
    for seed in range(1 if finite else 3):
        fit = pf.logit(
            "y ~ x",
            pd.DataFrame({"x": x, "y": y}),
            schema=schema,
            epsilon=4.0,
            solver="gradient-descent",
            random_state=seed,
        )
        assert np.all(np.isfinite(fit.bse) == finite)
        said = " ".join(str(fit.summary()).split())
        assert ("has not come near the optimum" in said) != finite


def test_noisy_gradient_descent_gives_up_where_noise_hides_how_far_it_has_not_come():
    """With 150 positives a third of such fits had intervals, of which 58 % did not hold the intercept."""
    rng = np.random.default_rng(9)
    x = rng.normal(size=10_000).clip(-5.0, 5.0)
    y = (rng.random(10_000) < 1.0 / (1.0 + np.exp(4.5 - x))).astype(int)
    schema = {
        "x": {"type": "numeric", "lower": -5.0, "upper": 5.0},
        "y": {"type": "categorical", "levels": [0, 1]},
    }
    data = pd.DataFrame({"x": x, "y": y})
    for seed in range(4):
        fit = pf.logit(
            "y ~ x", data, schema=schema, solver="gradient-descent", epsilon=4.0, random_state=seed
        )
        assert np.isinf(fit.bse).all()


@pytest.mark.parametrize(
    ("solver", "slope", "finite"),
    [("newton", 3.0, False), ("newton", 1.0, True), ("gradient-descent", 2.0, False)],
)
def test_several_classes_with_steep_slopes_say_that_steps_have_not_arrived(solver, slope, finite):
    """Estimates are a part of the coefficients, with standard errors far smaller than what they lack."""
    slopes = slope * np.array([[0.0, 0.3, -0.2], [0.0, 1.0, -0.5], [0.0, -0.7, 0.8]])
    schema = {name: {"type": "numeric", "lower": -4, "upper": 4} for name in "ab"}
    schema["y"] = {"type": "categorical", "levels": ["0", "1", "2"]}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(4_000, 2)).clip(-4, 4)
        odds = np.exp(np.column_stack([np.ones(4_000), x]) @ slopes)
        above = np.cumsum(odds, axis=1) < rng.random((4_000, 1)) * odds.sum(axis=1, keepdims=True)
        rows = pd.DataFrame(x, columns=["a", "b"]).assign(y=above.sum(axis=1).astype(str))
        fit = pf.logit("y ~ a + b", rows, schema=schema, epsilon=8.0, solver=solver, random_state=seed)
        assert np.isfinite(fit.bse).all() == finite


def test_counts_with_a_generous_bound_say_that_gradient_descent_has_not_arrived():
    """Its steps are in proportion to the bound, and so many would be too many."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=10_000).clip(-4, 4)
    rows = {"x": x, "y": rng.poisson(np.exp(0.3 + 0.5 * x)).clip(0, 60)}
    schema = {
        "x": {"type": "numeric", "lower": -4, "upper": 4},
        "y": {"type": "numeric", "lower": 0, "upper": 60},
    }
    for solver, finite in (("gradient-descent", False), ("newton", True)):
        fit = pf.poisson("y ~ x", rows, schema=schema, epsilon=8.0, solver=solver, random_state=0)
        assert np.isfinite(fit.bse).all() == finite


def test_along_a_level_a_step_is_off_by_how_far_from_its_middle_the_bread_was_asked():
    """A step of 0.2 along the second coordinate, whose bread was asked 0.1 before its middle."""
    planned = PlannedRelease("gradient", 2, 1.0, math.inf, 0.0)
    step = Step(Release(planned, np.zeros(2), np.zeros(2)), np.array([0.0, 0.2]), np.eye(2))
    estimate = one_step(anchor([step]), bread([0.25, 1.0]))
    assert estimate.theta == pytest.approx([0.0, -0.2])
    for rate, error in ((1.0, 0.02), (0.5, 0.01)):
        for standard, far in ((0.9 * error, True), (1.1 * error, False)):
            sampling = np.diag([standard**2, standard**2])
            found = far_along(estimate, np.zeros(2), along=np.eye(2), rate=rate, sampling=sampling)
            assert found.tolist() == [False, far]
    assert not far_along(
        estimate, np.array([0.0, -0.1]), along=np.eye(2), rate=1.0, sampling=np.zeros((2, 2))
    ).any()


@pytest.mark.parametrize(
    ("solver", "share", "finite"),
    [
        ("auto", 0.3, True),
        ("auto", 0.01, True),
        ("gradient-descent", 0.3, True),
        ("gradient-descent", 0.01, False),
    ],
)
def test_a_method_says_where_it_has_not_come_near_a_level_of_few_positives(solver, share, finite):
    """The default arrives; steps of gradient descent are as long as suits other rows."""
    rng = np.random.default_rng(2)
    n = 50_000
    level, x = rng.random(n) < 0.1, rng.uniform(-1.0, 1.0, n)
    score = np.where(level, math.log(share / (1.0 - share)), -0.5) + 0.5 * x
    table = pd.DataFrame({"x": x, "a": np.where(level, "b", "a"), "y": rng.logistic(size=n) < score})
    schema = {
        "x": {"type": "numeric", "lower": -1.0, "upper": 1.0},
        "a": {"type": "categorical", "levels": ["a", "b"]},
        "y": {"type": "categorical", "levels": [False, True]},
    }
    fit = pf.logit("y ~ x + a", table, schema=schema, epsilon=4.0, solver=solver, random_state=0)
    assert np.isfinite(fit.bse).tolist() == [True, True, finite]


_GRIDS = {
    "counts": (lambda rng, n: rng.poisson(3.0, n), 40.0, 0.25, 50_000),
    "few": (lambda rng, n: rng.poisson(3.0, n), 40.0, 0.5, 5_000),
    "scale": (lambda rng, n: rng.choice(5, n, p=[0.1, 0.2, 0.3, 0.25, 0.15]), 4.0, 0.5, 50_000),
    "fine": (lambda rng, n: rng.poisson(10.0, n), 40.0, 0.5, 20_000),
}


def _grid_fit(y, numbers, seed, most, **options):
    """Return a fit on these numbers and a factor of three levels that explains nothing."""
    schema = {name: {"type": "numeric", "lower": -3.0, "upper": 3.0} for name in numbers}
    schema |= {
        "y": {"type": "numeric", "lower": -most, "upper": most},
        "g": {"type": "categorical", "levels": ["a", "b", "c"]},
    }
    table = numbers | {"y": y, "g": np.random.default_rng(seed).choice(["a", "b", "c"], len(y))}
    right = " + ".join([*numbers, "g"])
    return pf.quantile(f"y ~ {right}", table, schema=schema, epsilon=4.0, random_state=seed, **options)


@pytest.mark.statistical
@pytest.mark.parametrize(("grid", "finite"), [("counts", 0.9), ("few", 0.0), ("scale", 0.9), ("fine", 0.9)])
def test_slopes_of_a_quantile_on_a_coarse_grid_are_right(grid, finite):
    """Four slopes that explain nothing, 8 tables: half of the intervals of counts were wrong.

    At 95 % more than 9 of 32 are with a chance of 3e-6; the seeds are fixed.
    """
    draw, most, tau, n = _GRIDS[grid]
    assert binom.sf(9, 32, 0.05) < 3.5e-6
    rng, missed, known = np.random.default_rng(31), 0, []
    for seed in range(8):
        numbers = {name: rng.normal(size=n) for name in ("x", "z")}
        fit = _grid_fit(draw(rng, n), numbers, seed, most, quantile=tau)
        missed += int(np.sum(np.abs(fit.params[1:]) > norm.ppf(0.975) * fit.bse[1:]))
        known.extend(np.isfinite(fit.bse[1:]))
    assert missed <= 9
    assert np.mean(known) >= finite


def test_slopes_of_a_quantile_on_a_blurred_grid_are_given_up():
    """The predictor spreads each number of the grid a little, so that no gap is empty."""
    rng, known = np.random.default_rng(32), []
    for seed in range(6):
        x = rng.normal(size=50_000)
        fit = _grid_fit(np.round(0.2 * x + rng.normal(size=x.size)), {"x": x}, seed, 10.0)
        known.extend(np.isfinite(fit.bse[1:]))
        assert ("coarse grid" in str(fit.summary())) is not np.isfinite(fit.bse).all()
    assert np.mean(known) < 0.35  # half of them where gradients that disagree are believed


def test_a_slope_within_a_rare_level_of_many_rows_is_found():
    """Its rows are longer than the look at norms can tell, and must count in full in the second moment.

    Where they did not, the first steps of all rows led far past it, and no interval was left or a wrong one.
    """
    schema = {
        "x": {"type": "numeric", "lower": 0.0, "upper": 10.0},
        "g": {"type": "categorical", "levels": ["p", "q"]},
        "y": {"type": "categorical", "levels": [0, 1]},
    }
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x, rare = rng.uniform(0.0, 10.0, 200_000), rng.random(200_000) < 0.01
        score = 0.1 * (x - 5.0) + np.where(rare, 0.5 + 0.5 * (x - 5.0), 0.0)
        table = pd.DataFrame({"x": x, "g": np.where(rare, "q", "p"), "y": rng.logistic(size=x.size) < score})
        fit = pf.logit(
            "y ~ x*C(g)",
            table.astype({"y": int}),
            schema=schema,
            budget=pf.Budget.gdp(4.0),
            random_state=seed,
        )
        slope, error = fit.params["x:C(g)[T.q]"], fit.bse["x:C(g)[T.q]"]
        assert error < 0.03  # 0.021 without privacy
        assert abs(slope - 0.5) < 6.0 * error
        assert fit.bse["C(g)[T.q]"] < 0.15
