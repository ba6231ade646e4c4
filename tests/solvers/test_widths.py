"""The smoothing of quantiles: as wide as released residuals ask for, never wider than at the start."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import binom, lognorm, norm, t

import privfit as pf
from privfit.data.source import ArraySource
from privfit.errors import InvalidArgument, PlanViolation
from privfit.losses import Logistic, SmoothedQuantile
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, PlannedRelease, Release
from privfit.problem.query_kernels import query_kernel
from privfit.problem.schedule import planned_release
from privfit.problem.share_kernels import SIDE_CLASSES, SIDES_A_DOUBLING, largest_edge
from privfit.solvers.looks import LOOKS
from privfit.solvers.residuals import Residuals
from privfit.solvers.spacing import spacing
from privfit.solvers.widths import has_widths, narrowed_to, narrowest

REACH = 1.0
UNIT = largest_edge((-REACH, REACH))
EDGES = UNIT * 2.0 ** (np.arange(1.0 - SIDE_CLASSES, 0.0) / SIDES_A_DOUBLING)


def problem_of(n, loss):
    return Problem(loss, ("x",), 1.0, n, Relation.REPLACE, 0.0, (0.0,), (False,), response_bound=REACH)


def narrowed(y, mu, tau=0.5, seed=0):
    """Return the loss after a look at the residuals, about 0, that costs ``mu``."""
    problem = problem_of(len(y), SmoothedQuantile(tau, 0.1, least=1e-4))
    planned = planned_release(problem, "residuals", Allowance(mu))
    plan = Plan("m", "s", len(y), ("x",), "replace", mu, (planned,), ())
    oracle = Oracle(problem, plan, ArraySource(np.ones((len(y), 1)), y, norm_bound=1.0), make_source(seed))
    found = narrowed_to(problem, oracle, np.zeros(1), 1.0)
    assert oracle.problem.loss == found.loss
    assert not oracle.remaining("residuals")
    return found.loss


def test_shares_are_those_of_the_sizes_of_residuals():
    rng = np.random.default_rng(4)
    x, y = rng.uniform(0.2, 1.0, size=(5000, 1)), 0.3 * rng.standard_t(2, size=5000)
    y[:3] = np.nan, 1e300, -1e300
    problem, at = problem_of(5000, SmoothedQuantile(0.3, 0.1)), np.array([0.4])
    source = ArraySource(x, y, norm_bound=1.0)
    found = source.sum(query_kernel(problem, "residuals", at), problem.sum_length("residuals"))
    edges = np.concatenate([-EDGES[::-1], [0.0], EDGES])
    wanted = np.bincount(np.searchsorted(edges, (y - 0.4 * x[:, 0])[1:]), minlength=2 * SIDE_CLASSES)
    np.testing.assert_array_equal(found, wanted)
    assert found.sum() == 4999
    with pytest.raises(PlanViolation, match="not a function of residuals"):
        query_kernel(problem_of(5, Logistic()), "residuals", np.zeros(1))


@pytest.mark.parametrize("tau", [0.05, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("spread", [0.002, 0.02, 0.2])
def test_the_width_is_a_known_part_of_the_spread_of_normal_residuals(tau, spread):
    n = 40_000
    y = spread * (norm.ppf((np.arange(n) + 0.5) / n) - norm.ppf(tau))
    assert narrowed(y, 1e6, tau).width == pytest.approx(spread * n**-0.25, rel=0.2)


@pytest.mark.parametrize("errors", [t(2), lognorm(1.0), lognorm(1.0, scale=10.0)], ids=["t", "skew", "wide"])
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_the_width_holds_about_the_share_of_rows_that_it_would_hold_of_normal_ones(errors, tau):
    n = 40_000
    y = (errors.ppf((np.arange(n) + 0.5) / n) - errors.ppf(tau)) / 400.0
    wanted = 2.0 * norm.pdf(norm.ppf(tau)) * n**-0.25
    assert 0.6 * wanted < np.mean(np.abs(y) < narrowed(y, 1e6, tau).width) < 2.5 * wanted


@pytest.mark.statistical
@pytest.mark.parametrize("tau", [0.1, 0.5])
def test_noise_moves_the_width_little_and_without_a_trace_of_the_residuals_it_stays(tau):
    """A hundred looks each; both sides would fail in fewer than one of a million runs of correct code."""
    y = 0.01 * (np.random.default_rng(8).normal(size=20_000) - norm.ppf(tau))
    exact = narrowed(y, 1e6, tau).width
    found = np.array([narrowed(y, 0.05, tau, seed).width for seed in range(100)])
    assert np.abs(np.log(found / exact)).max() < 0.7
    hidden = {narrowed(y, 1e-4, tau, seed).width for seed in range(100)}
    assert hidden == {0.1}


def test_a_heap_at_the_quantile_is_seen():
    """Half of the residuals near 0 and the others far out: even residuals would have few near 0."""
    y = np.concatenate([np.linspace(-0.005, 0.005, 10_000), np.linspace(-1.0, 1.0, 9_000)])
    assert narrowed(y, 1e6).width < 0.001
    assert narrowed(y, 0.1).width < 0.001


@pytest.mark.parametrize("off", [0.0, 0.15, 0.5, 0.9])
@pytest.mark.parametrize("spacing", [0.011, 0.02, 0.04])
@pytest.mark.parametrize("mu", [0.1, 1e6])
def test_the_width_reaches_from_one_number_of_a_grid_to_the_next(spacing, off, mu):
    """Half of the spacing, or up to twice that: edges of classes say where numbers are."""
    y = spacing * (np.random.default_rng(3).poisson(10.0, size=40_000) - 10.0 - off)
    assert 0.45 * spacing < narrowed(y, mu).width < 1.1 * spacing


@pytest.mark.parametrize("spacing", [0.02, 0.04])
def test_that_next_to_the_end_of_a_grid_does_too(spacing):
    """Most residuals are one number, the lowest."""
    y = spacing * (np.random.default_rng(3).poisson(1.0, size=40_000) + 0.05)
    assert 0.45 * spacing < narrowed(y, 1e6, 0.25).width < 1.1 * spacing


@pytest.mark.statistical
@pytest.mark.parametrize("tau", [0.05, 0.25, 0.5, 0.9])
@pytest.mark.parametrize(
    "errors", [norm(), t(2), lognorm(1.0), lognorm(1.0, scale=0.1)], ids=["normal", "t", "skew", "narrow"]
)
@pytest.mark.parametrize("cost", [0.02, 0.1, 1e6])
def test_residuals_with_a_density_are_on_no_grid(errors, tau, cost):
    """Of 100 looks, more than two in fewer than one of a million runs: of 9,600 one was."""
    n = 20_000
    y = 0.02 * (errors.ppf((np.random.default_rng(5).permutation(n) + 0.5) / n) - errors.ppf(tau))
    share = float(np.diff(norm.cdf(norm.ppf(tau) + np.array([-0.6745, 0.6745])))[0])
    problem = problem_of(n, SmoothedQuantile(tau, 0.1, least=1e-4))
    planned, at = planned_release(problem, "residuals", Allowance(cost)), np.zeros(1)
    source, rng = ArraySource(np.ones((n, 1)), y, norm_bound=1.0), np.random.default_rng(6)
    shares = source.sum(query_kernel(problem, "residuals", at), 2 * SIDE_CLASSES) / n
    looks = shares + planned.sd * rng.normal(size=(100, shares.size))
    wrong = sum(spacing(Residuals.of(Release(planned, at, look)), share, n) > 0.0 for look in looks)
    assert wrong <= 2


def test_a_width_is_never_raised_and_one_that_is_given_stays():
    loss = SmoothedQuantile(0.3, 0.2, least=0.01)
    assert loss.narrowed(0.5) == loss
    assert loss.narrowed(0.1).width == 0.1
    assert loss.narrowed(0.0).width == 0.01
    given = SmoothedQuantile(0.3, 0.2)
    assert given.narrowed(0.1) == given
    assert has_widths(problem_of(9, loss))
    assert not has_widths(problem_of(9, given))
    with pytest.raises(InvalidArgument, match="smaller"):
        SmoothedQuantile(0.3, 0.2, least=0.3)


def test_hessians_are_planned_for_the_least_width():
    problem = narrowest(problem_of(100, SmoothedQuantile(0.3, 0.2, least=0.01)))
    assert problem.smoothness == 50.0
    assert narrowest(problem_of(100, Logistic())).loss == Logistic()


def table(errors, n, seed, half):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=n)
    y = np.clip(1.0 + 0.5 * x + errors.ppf(rng.random(n)), -half, half)
    return {"x": x, "y": y}


def schema_within(half):
    return pf.Schema(
        {
            "y": {"type": "numeric", "lower": -half, "upper": half},
            "x": {"type": "numeric", "lower": -1, "upper": 1},
        }
    )


@pytest.mark.statistical
@pytest.mark.parametrize("errors", [norm(), lognorm(1.0)], ids=["normal", "skew"])
@pytest.mark.parametrize(("tau", "inference"), [(0.25, True), (0.1, True), (0.25, False)])
def test_generous_bounds_lead_to_no_other_quantile(errors, tau, inference):
    """A range of a hundred standard deviations: 5 % of it to each side is another quantile altogether.

    The mean square of eight normal numbers is beyond 6 with a chance of 1e-7.
    """
    options = {"quantile": tau, "epsilon": 4.0, "inference": inference}
    fits = [
        pf.quantile(
            "y ~ x", table(errors, 10_000, k, 50.0), schema=schema_within(50.0), random_state=k, **options
        )
        for k in range(4)
    ]
    off = np.array([fit.params.to_numpy() for fit in fits]) - [1.0 + errors.ppf(tau), 0.5]
    if inference:
        z = off / np.array([fit.bse.to_numpy() for fit in fits])
        assert np.mean(z**2) < 6.0
    assert np.abs(off.mean(axis=0)).max() < 0.15


def test_without_noise_the_width_follows_the_residuals_too():
    data = table(lognorm(1.0), 20_000, 1, 50.0)
    fit = pf.quantile("y ~ x", data, schema=schema_within(50.0), quantile=0.1, solver="non-private")
    np.testing.assert_allclose(fit.params, [1.0 + lognorm(1.0).ppf(0.1), 0.5], atol=0.03)


def test_a_given_width_is_kept():
    data = table(norm(), 5000, 2, 5.0)
    options = {"schema": schema_within(5.0), "quantile": 0.25, "random_state": 3}
    fits = [pf.quantile("y ~ x", data, width=width, **options) for width in (0.3, None)]
    assert not any(release.planned.kind == "residuals" for release in fits[0].releases)
    assert sum(release.planned.kind == "residuals" for release in fits[1].releases) == len(LOOKS)


def looked_at(shares, sd):
    planned = PlannedRelease("residuals", 2 * SIDE_CLASSES, 1.0, 1.0, sd)
    return Residuals.of(Release(planned, np.zeros(1), np.asarray(shares)))


def test_likely_shares_are_the_nearest_that_can_be():
    """Against a solver of the same quadratic programme, and unchanged where they can be already."""
    rng = np.random.default_rng(11)
    possible = rng.dirichlet(np.full(2 * SIDE_CLASSES, 0.2))
    np.testing.assert_allclose(looked_at(possible, 0.01).likely, possible, atol=1e-15)
    for total in (1.0, 0.8):
        noisy = total * possible + 0.02 * rng.normal(size=possible.size)
        found = looked_at(noisy, 0.02).likely
        sum_of_noisy = min(noisy.sum(), 1.0)
        best = minimize(
            lambda shares, noisy=noisy: (0.5 * np.sum((shares - noisy) ** 2), shares - noisy),
            np.full(possible.size, sum_of_noisy / possible.size),
            jac=True,
            bounds=[(0.0, 1.0)] * possible.size,
            constraints={"type": "eq", "fun": lambda shares, of=sum_of_noisy: shares.sum() - of},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        ).x
        np.testing.assert_allclose(found, best / sum_of_noisy, atol=1e-6)
        assert found.min() == 0.0
        assert found.sum() == pytest.approx(1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("reach", [10.0, 100.0, 1000.0])
def test_a_quantile_is_found_in_few_rows_within_a_generous_range(reach):
    """Noise as with 1,000 rows at mu = 0.1, 200 looks.

    One in ten errors exceeds 0.52 at most; 40 of 200 beyond 0.8 would have a chance below 1e-6 if one in
    twenty did.
    """
    rng, edges = np.random.default_rng(12), np.concatenate([-EDGES[::-1], [0.0], EDGES]) * reach
    shares = np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]])))
    sd = np.sqrt(2.0) / (1000 * 0.1)
    looks = [looked_at(shares + sd * rng.normal(size=shares.size), sd) for _ in range(200)]
    found = np.array([look.quantile(0.1) for look in looks]) * UNIT * reach
    assert np.count_nonzero(np.abs(found - norm.ppf(0.1)) > 0.8) < 40
    assert abs(np.median(found) - norm.ppf(0.1)) < 0.5
    spreads = np.array([look.spread for look in looks]) * UNIT * reach
    assert np.abs(np.log(spreads)).max() < np.log(2.0)


def test_noise_hides_quantiles_and_negative_residuals_are_counted_with_the_noise_that_is_left():
    shares = np.zeros(2 * SIDE_CLASSES)
    shares[[SIDE_CLASSES - 5, SIDE_CLASSES + 3]] = 0.3, 0.7
    assert looked_at(shares, 0.03).quantile(0.1) is None
    assert looked_at(shares, 0.1).spread is None
    below, noise = looked_at(shares, 0.02).below
    assert below == pytest.approx(0.3)
    assert noise == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("errors", "tau", "slope"),
    [
        (norm(), 0.1, 1.28),
        (norm(), 0.5, 0.0),
        (norm(), 0.75, -0.67),
        (lognorm(1.0), 0.5, -1.0),
        (t(3), 0.9, -1.15),
    ],
    ids=["decile", "median", "quartile", "skew", "heavy"],
)
def test_a_look_shows_how_steep_the_density_is_at_the_quantile(errors, tau, slope):
    """Within a fifth of what normal residuals change by over their standard deviation; off the centre too."""
    n, scale = 40_000, 0.02
    y = scale * (errors.ppf((np.arange(n) + 0.5) / n) - errors.ppf(tau) + 0.1)
    found = narrowed(y, 1e6, tau).density_slope
    assert found.mean * scale == pytest.approx(slope, abs=0.25)
    assert 0.1 < found.sd * scale < 1.5


def test_without_a_trace_of_the_quantile_the_density_is_taken_for_normal():
    """Where noise hides which row is the twentieth from below of 1,000, but not how dense rows are there.

    The quartiles, which it does not hide, may look a little skew.
    """
    loss, tau = SmoothedQuantile(0.02, 0.1, least=1e-4), 0.02
    y = 0.02 * (norm.ppf((np.arange(1000) + 0.5) / 1000) - norm.ppf(tau))
    found = narrowed(y, 0.236, tau)
    assert found.width < loss.width
    assert found.density_slope.mean / found.density_slope.sd == pytest.approx(-norm.ppf(tau), abs=0.4)
    assert loss.narrowed(0.05).density_slope is None


@pytest.mark.statistical
@pytest.mark.parametrize("tau", [0.1, 0.25, 0.5])
def test_noise_in_what_is_seen_of_the_slope_is_no_larger_than_stated(tau):
    """400 looks with noise as with 1,000 rows at mu = 0.1.

    A mean square of 1.5 for 400 normal numbers has a chance below 1e-9.
    """
    rng, edges = np.random.default_rng(13), np.concatenate([-EDGES[::-1], [0.0], EDGES]) * 15.0
    shares = np.diff(norm.cdf(np.concatenate([[-np.inf], edges, [np.inf]]) + norm.ppf(tau)))
    within, sd = 0.6745 / (UNIT * 15.0), np.sqrt(2.0) / (1000 * 0.1)
    exact = looked_at(shares, 1e-9).density_slope(tau, within)
    looks = [
        looked_at(shares + sd * rng.normal(size=shares.size), sd).density_slope(tau, within)
        for _ in range(400)
    ]
    z = [(look[0] - exact[0]) / look[1] for look in looks if look is not None]
    assert len(z) > 390
    assert np.mean(np.square(z)) < 1.5


@pytest.mark.parametrize("blur", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5])
def test_the_whole_of_the_residuals_says_how_skew_they_are_where_predictors_are_off(sigma, blur):
    """On the short side a blurred density rises where that of the errors falls, or is about even."""
    n, scale, tau = 40_000, 0.01, 0.25
    errors = lognorm(sigma)
    y = errors.ppf((np.arange(n) + 0.5) / n)
    near = norm.pdf(norm.ppf(tau)) / errors.pdf(errors.ppf(tau))
    y = scale * (y - errors.ppf(tau) + blur * near * np.random.default_rng(7).normal(size=n))
    found, local = narrowed(y, 1e6, tau).density_slope, scale * near
    slope = -(norm.ppf(tau) + sigma) / local
    assert abs(found.mean - slope) < (2.0 if blur == 1.0 else 1.5) * found.sd
    assert found.sd * local < 1.0


@pytest.mark.statistical
@pytest.mark.parametrize(("sigma", "tau", "half"), [(1.0, 0.1, 15.0), (1.0, 0.1, 500.0), (1.5, 0.25, 40.0)])
def test_intervals_of_quantiles_on_the_short_side_of_skewed_errors_hold(sigma, tau, half):
    """40 tables of 1,000 rows; smoothing and distant points once moved the constant by two standard errors.

    Of 40 intervals that hold in 95 %, more than 12 miss with a chance of 4e-8; the seeds are fixed.
    """
    assert binom.sf(12, 40, 0.05) < 1e-7
    errors, names, missed = lognorm(sigma), ["a", "b", "c", "d"], 0
    bounds = {"y": half, **dict.fromkeys(names, 3.0)}
    schema = pf.Schema({k: {"type": "numeric", "lower": -b, "upper": b} for k, b in bounds.items()})
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = np.clip(rng.normal(size=(1000, 4)), -3.0, 3.0)
        y = 0.5 + x @ [0.5, -0.5, 0.5, -0.5] + errors.ppf(rng.random(1000))
        data = {"y": np.clip(y, -half, half), **dict(zip(names, x.T, strict=True))}
        fit = pf.quantile(
            "y ~ a + b + c + d",
            data,
            schema=schema,
            quantile=tau,
            budget=pf.Budget.gdp(1.0),
            random_state=seed,
        )
        low, high = fit.conf_int().to_numpy()[0]
        missed += not low <= 0.5 + errors.ppf(tau) <= high
    assert missed <= 12


@pytest.mark.parametrize("counting", [0.6, 0.2, 0.02])
def test_what_a_look_says_is_about_the_rows_that_count(counting):
    """Whether the others miss a cell or all have small weights: quantiles, density and sizes are theirs."""
    rng = np.random.default_rng(21)
    inner = rng.dirichlet(np.full(2 * SIDE_CLASSES - 6, 0.5))
    shares = np.concatenate([np.zeros(3), inner, np.zeros(3)])
    all_count, some_count = looked_at(shares, 1e-8), looked_at(counting * shares, counting * 1e-8)
    for tau in (0.1, 0.5, 0.9):
        assert some_count.quantile(tau) == pytest.approx(all_count.quantile(tau))
        assert some_count.density_slope(tau, 0.3)[0] == pytest.approx(
            all_count.density_slope(tau, 0.3)[0], rel=1e-5
        )
    for share in (0.05, 0.3):
        assert some_count.reach(share) == pytest.approx(all_count.reach(share), rel=1e-5)
    assert some_count.below[0] == pytest.approx(all_count.below[0], rel=1e-5)
    for name in ("heap", "skew", "spread", "usual_size"):
        assert getattr(some_count, name) == pytest.approx(getattr(all_count, name), rel=1e-5), name
    (size, hidden), (same, less) = some_count.largest, all_count.largest
    assert size == pytest.approx(same)
    assert less * (1.0 - 1e-5) < hidden < 2.0 * less  # how many count is not known as well as that all do


def test_noise_is_not_taken_for_rows_that_count():
    """Where rows are few beside noise a quantile is hidden, as noise relative to them says."""
    shares = np.zeros(2 * SIDE_CLASSES)
    shares[5] = 0.02
    assert looked_at(shares, 0.0005).quantile(0.25) is not None
    assert looked_at(shares, 0.005).quantile(0.25) is None


@pytest.mark.parametrize("solver", ["non-private", "auto"])
@pytest.mark.parametrize("bound", [1.0, 8.0, 40.0])
def test_a_far_quantile_does_not_depend_on_how_generous_the_bound_on_weights_is(solver, bound):
    """With a bound of 8 rows counted for an eighth, and a quantile of 0.9 was looked for far out."""
    rng = np.random.default_rng(22)
    data = pd.DataFrame({"x": rng.uniform(-1.0, 1.0, 20_000), "w": rng.uniform(0.5, 1.0, 20_000)})
    data["y"] = 1.0 + 0.5 * data.x + rng.normal(size=20_000)
    schema = {**schema_within(10.0), "w": {"type": "numeric", "lower": 0.0, "upper": bound}}
    budget = pf.Budget.gdp(200.0)
    fit = pf.quantile(
        "y ~ x", data, schema=schema, weights="w", quantile=0.9, solver=solver, budget=budget, random_state=1
    )
    np.testing.assert_allclose(fit.params, [1.0 + norm().ppf(0.9), 0.5], atol=0.08)
    assert np.all(fit.bse < 0.03)
