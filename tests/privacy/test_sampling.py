"""What steps on sampled rows cost: upper bounds, against brute force, references and approximations."""

import itertools
import math
import time
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from privfit.errors import Incompatible
from privfit.privacy import loss_grid, sampling
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget, gdp_delta, gdp_epsilon
from privfit.privacy.calibrate import calibrate_sampled
from privfit.privacy.composition import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.privacy.sampling import Steps, clt_mu

SCHEMES = [("one", "replace"), ("poisson", "replace"), ("poisson", "add_remove")]
EPSILONS = (0.0, 1e-4, 0.01, 0.1, 0.3, 1.0, 2.0, 4.0)
EVENTS = [
    SampledGaussianEvent("one", "replace", 1.0, 0.2, 1),
    SampledGaussianEvent("one", "replace", 3.0, 0.01, 1),
    SampledGaussianEvent("poisson", "replace", 1.0, 0.2, 1),
    SampledGaussianEvent("poisson", "replace", 4.0, 0.05, 1),
    SampledGaussianEvent("poisson", "add_remove", 1.0, 0.2, 1),
    SampledGaussianEvent("poisson", "add_remove", 3.0, 0.05, 1),
]


@lru_cache
def worst_pairs(event):
    """Densities of a step's worst pairs on a fine line, times its spacing."""
    r, q = event.ratio, event.rate
    x = np.linspace(-12 - r, 12 + 2 * r, 400_001)

    def mixture(first, second):
        densities = [np.exp(-((x - center) ** 2) / 2) for center in (first, second)]
        return ((1 - q) * densities[0] + q * densities[1]) * (x[1] - x[0]) / math.sqrt(2 * math.pi)

    if event.scheme == "poisson" and event.relation == "replace":
        return ((mixture(0.0, -r / 2), mixture(0.0, r / 2)),)
    moved, unmoved = mixture(0.0, r), mixture(0.0, 0.0)
    return (moved, unmoved), (unmoved, moved)


def one_step_delta(event, epsilon):
    """Largest hockey-stick divergence of a step's worst pairs, by a fine Riemann sum."""
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) for p, q in worst_pairs(event))


@pytest.mark.parametrize("event", EVENTS, ids=repr)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_one_step_is_an_upper_bound_and_tight(event, epsilon):
    exact, bound = one_step_delta(event, epsilon), compose([event]).delta_at(epsilon)
    assert bound >= exact * (1 - 1e-7) - 1e-16
    assert bound <= exact * 1.011 + 1e-15


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_one_step_is_an_upper_bound_as_far_out_as_it_goes(event):
    """Where the grid has ended what is left counts as infinite."""
    for epsilon in np.arange(0.7, 40.0, 4.9):
        exact, bound = one_step_delta(event, epsilon), compose([event]).delta_at(epsilon)
        assert exact * (1 - 1e-7) <= bound <= exact * 1.011 + 1e-17


@lru_cache
def normal_in_the_plane(length, angle):
    """Density at the points of a grid."""
    x, y = np.meshgrid(axis := np.linspace(-7.5, 7.5, 301), axis)
    a, b = length * math.cos(angle), length * math.sin(angle)
    return np.exp(-((x - a) ** 2 + (y - b) ** 2) / 2) / (2 * math.pi)


@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 1.0])
def test_no_two_rows_beat_the_worst_pair_of_poisson_samples(rate, epsilon):
    """Terms of any length and direction within the bound, in the plane, by a Riemann sum."""
    r = 3.0
    bound = compose([SampledGaussianEvent("poisson", "replace", r, rate, 1)]).delta_at(epsilon)
    normal = normal_in_the_plane
    largest = 0.0
    for one, two, angle in itertools.product((0.0, 0.7, r / 2), (0.0, 0.7, r / 2), np.linspace(0, np.pi, 9)):
        p = (1 - rate) * normal(0.0, 0.0) + rate * normal(one, 0.0)
        q = (1 - rate) * normal(0.0, 0.0) + rate * normal(two, angle)
        largest = max(largest, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * 0.05**2)
    assert largest <= bound * (1 + 1e-3)  # the error of the sum
    assert largest >= 0.98 * bound


def test_no_three_rows_beat_the_worst_pair_of_single_draws():
    """The differing rows and the other one anywhere within the bound, both directions."""
    r, rate = 2.0, 0.3
    x = np.linspace(-9, 9, 4001)
    for epsilon in (0.0, 0.1, 0.4):
        bound = compose([SampledGaussianEvent("one", "replace", r, rate, 1)]).delta_at(epsilon)
        largest = 0.0
        for a, b, other in itertools.product(np.linspace(-r / 2, r / 2, 5), repeat=3):
            rest = (1 - rate) * stats.norm.pdf(x, other)
            p, q = rest + rate * stats.norm.pdf(x, a), rest + rate * stats.norm.pdf(x, b)
            largest = max(largest, float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * (x[1] - x[0]))
        assert 0.98 * bound <= largest <= bound * (1 + 1e-5)


@lru_cache
def composed_law(event):
    """Privacy losses of several steps on a pair of inputs, rounded down, and their probabilities."""
    r, q, h = event.ratio, event.rate, 2e-4
    x = np.linspace(-12 - r, 12 + 2 * r, 200_001)
    if event.scheme == "poisson" and event.relation == "replace":
        first, second = -r / 2, r / 2
    else:
        first, second = r, 0.0
    p = (1 - q) * stats.norm.pdf(x, 0.0) + q * stats.norm.pdf(x, first)
    loss = np.log(p) - np.log((1 - q) * stats.norm.pdf(x, 0.0) + q * stats.norm.pdf(x, second))
    index = np.floor(loss / h).astype(int)
    size = 2**18
    law = np.bincount(index % size, weights=p * (x[1] - x[0]), minlength=size)
    total = np.fft.irfft(np.fft.rfft(law) ** event.steps, size)
    losses = np.arange(size) * h
    losses[size // 2 :] -= size * h
    return losses, total


def composed_pair_delta(event, epsilon):
    """Lower bound on the worst δ of several steps."""
    losses, total = composed_law(event)
    kept = losses > epsilon
    return float(total[kept] @ -np.expm1(epsilon - losses[kept]))


@pytest.mark.parametrize("steps", [2, 30])
@pytest.mark.parametrize("event", EVENTS[2:], ids=repr)
def test_several_steps_are_an_upper_bound_and_tight(event, steps):
    event = SampledGaussianEvent(event.scheme, event.relation, event.ratio, event.rate, steps)
    for epsilon in (0.05, 0.5, 1.5):
        lower, bound = composed_pair_delta(event, epsilon), compose([event]).delta_at(epsilon)
        assert bound >= lower - 1e-12
        # Rounding down loses up to 2e-4 of loss a step.
        reachable = composed_pair_delta(event, max(0.0, epsilon - 2e-4 * steps))
        if event.scheme == "poisson" and event.relation == "replace":
            assert bound <= 1.02 * reachable + 1e-9


@pytest.fixture
def uncached():
    sampling.sampled_curve.cache_clear()
    yield
    sampling.sampled_curve.cache_clear()


SEVERAL = [SampledGaussianEvent("poisson", relation, 2.0, 0.1, 20) for relation in ("replace", "add_remove")]


@pytest.mark.parametrize("width", [0.3, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("event", [*EVENTS, *SEVERAL], ids=repr)
@pytest.mark.usefixtures("uncached")
def test_any_window_gives_an_upper_bound(event, width, monkeypatch):
    """What lies above it is bounded and added, what lies below is counted at its top."""
    monkeypatch.setattr(loss_grid, "_WIDTHS", (width,))
    for epsilon in (0.0, 0.1, 0.7, 2.0, 4.0):
        exact = one_step_delta(event, epsilon) if event.steps == 1 else composed_pair_delta(event, epsilon)
        assert compose([event]).delta_at(epsilon) >= exact * (1 - 1e-7) - 1e-12 * (event.steps > 1)


@pytest.mark.usefixtures("uncached")
def test_a_law_is_laid_out_again_only_where_delta_is_small():
    """Once for what fits ask for: each time costs as much as the first."""
    for event in (EVENTS[0], EVENTS[2]):
        sampling.sampled_curve.cache_clear()
        assert compose([event]).delta_at(0.5) > 1e-6
        assert sampling.sampled_curve.cache_info().misses == 1


@pytest.mark.parametrize("factor", [10.0, 1000.0])
@pytest.mark.parametrize("event", [*EVENTS, *SEVERAL], ids=repr)
@pytest.mark.usefixtures("uncached")
def test_any_grid_gives_an_upper_bound(event, factor, monkeypatch):
    interval = sampling._interval
    monkeypatch.setattr(sampling, "_interval", lambda *args, **kwargs: factor * interval(*args, **kwargs))
    for epsilon in (0.0, 0.1, 0.7, 2.0):
        exact = one_step_delta(event, epsilon) if event.steps == 1 else composed_pair_delta(event, epsilon)
        assert compose([event]).delta_at(epsilon) >= exact * (1 - 1e-7) - 1e-12 * (event.steps > 1)


@pytest.mark.parametrize("end", [0.01, 1.0])
@pytest.mark.parametrize("event", EVENTS, ids=repr)
@pytest.mark.usefixtures("uncached")
def test_a_grid_that_ends_anywhere_gives_an_upper_bound(event, end, monkeypatch):
    monkeypatch.setattr(sampling, "_edge", lambda steps, tail: end)
    for epsilon in (0.0, 0.1, 0.7, 2.0):
        assert compose([event]).delta_at(epsilon) >= one_step_delta(event, epsilon) * (1 - 1e-7)


def test_the_reference_value_of_single_draws():
    """C_gamma(G_mu)^N at gamma=.01, N=1e4, mu=.2, delta=1e-5: .799 with a bias of .01 at most."""
    event = SampledGaussianEvent("one", "replace", 0.2, 0.01, 10_000)
    epsilon = compose([event]).epsilon_at(1e-5)
    assert 0.789 <= epsilon <= 0.799
    assert epsilon == pytest.approx(0.7946, abs=2e-4)
    steps = Steps("one", one_sided=False, ratio=0.2, rate=0.01, count=10_000)
    assert clt_mu(steps) == pytest.approx(0.2175, abs=1e-4)
    assert epsilon == pytest.approx(gdp_epsilon(clt_mu(steps), 1e-5), rel=0.005)


@pytest.mark.parametrize(("scheme", "relation"), SCHEMES)
def test_the_limit_of_many_steps_is_near_their_cost(scheme, relation):
    """For Poisson samples of replaced rows it was too small by the root of 2, and a search began far off."""
    epsilon = compose([SampledGaussianEvent(scheme, relation, 0.5, 0.01, 10_000)]).epsilon_at(1e-5)
    mu = clt_mu(Steps(scheme, relation == "add_remove", 0.5, 0.01, 10_000))
    assert epsilon == pytest.approx(gdp_epsilon(mu, 1e-5), rel=0.03)


def test_accounting_for_add_or_remove_would_understate_single_draws():
    poisson = SampledGaussianEvent("poisson", "add_remove", 0.2, 0.01, 10_000)
    assert compose([poisson]).epsilon_at(1e-5) == pytest.approx(0.734, abs=0.01)


def test_the_noise_of_the_source_is_ten_times_what_is_needed():
    """Zhang, Zheng, Mou and Wang (2017) with the constant 32, n=1000, N=n**2, delta=1e-5, epsilon=1."""
    n, delta = 1000, 1e-5
    source = math.sqrt(32 * math.log(n / delta) * math.log(1 / delta)) / 2
    assert source == pytest.approx(41, abs=0.3)
    steps = [SampledGaussianEvent("one", "replace", 1 / x, 1 / n, n**2) for x in (source, 4.13)]
    assert compose([steps[0]]).epsilon_at(delta) == pytest.approx(0.07, abs=0.005)
    assert compose([steps[1]]).epsilon_at(delta) == pytest.approx(1.0, abs=0.005)


def test_poisson_samples_agree_with_dp_accounting():
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    for steps, rate, ratio in ((500, 0.01, 1.0), (100, 0.1, 0.5)):
        theirs = from_gaussian_mechanism(
            1 / ratio, sampling_prob=rate, value_discretization_interval=1e-4
        ).self_compose(steps)
        ours = compose([SampledGaussianEvent("poisson", "add_remove", ratio, rate, steps)])
        for epsilon in (0.1, 0.5, 1.0, 2.0):
            delta = theirs.get_delta_for_epsilon(epsilon)
            assert 0.998 * delta <= ours.delta_at(epsilon) <= 1.02 * delta


@pytest.mark.parametrize("mu", [1e-5, 0.5])
def test_without_sampling_it_is_the_gaussian_release(mu):
    """However little it costs, and whichever part of the curve is asked for."""
    for scheme, relation in SCHEMES:
        ours = compose([SampledGaussianEvent(scheme, relation, mu / 5, 1.0, 25)])
        for epsilon in (0.0, 0.2 * mu, mu, 2 * mu, 4 * mu, 6 * mu):
            exact = gdp_delta(mu, epsilon)
            assert exact * (1 - 1e-12) <= ours.delta_at(epsilon) <= exact * 1.01 + 1e-17


@pytest.mark.parametrize("delta", [2e-14, 2e-32])
def test_what_is_cut_off_is_small_for_many_steps_together(delta):
    """Near a δ below which less has to be cut off, where all of it shows most."""
    epsilon = gdp_epsilon(0.5, delta)
    for scheme, relation in SCHEMES:
        ours = compose([SampledGaussianEvent(scheme, relation, 0.5 / 20, 1.0, 400)])
        assert delta * (1 - 1e-9) <= ours.delta_at(epsilon) <= 1.01 * delta


def test_other_releases_add_to_the_cost():
    steps = SampledGaussianEvent("poisson", "replace", 0.3, 0.02, 400)
    events = [steps, GaussianEvent(0.2), PureEvent(0.1), ApproximateEvent(0.05, 1e-8), GaussianEvent(0.1)]
    costs = [compose(events[: k + 1]).epsilon_at(1e-6) for k in range(len(events))]
    assert np.all(np.diff(costs) > 0)
    assert compose(events) == compose(reversed(events))
    total = compose(events)
    assert total.mu is None
    apart = compose([steps]).epsilon_at(0.4e-6) + compose(events[1:]).epsilon_at(0.6e-6)
    assert costs[-1] <= apart
    assert compose([SampledGaussianEvent("one", "replace", 0.1, 1.0, 9), GaussianEvent(0.4)]).delta_at(
        1.0
    ) == pytest.approx(gdp_delta(0.5, 1.0), rel=0.01)
    assert total.delta_at(1.0) >= 1e-8
    assert total.epsilon_at(1e-8) == math.inf
    assert total.delta_at(0.7, rough=True) >= total.delta_at(0.7)


@pytest.mark.parametrize("ratio", [1.0, 4.0, 20.0])
def test_delta_is_a_probability(ratio):
    steps = SampledGaussianEvent("poisson", "replace", ratio, 0.5, 10_000)
    assert 0.999 < compose([steps]).delta_at(0.0) <= 1.0
    assert compose([steps, ApproximateEvent(1.0, 0.9)]).delta_at(0.0) <= 1.0
    assert compose([steps, PureEvent(301.0)]).delta_at(400.0) == 1.0  # more than is composed numerically


PAIRS = [
    [(0.3, 0.0)],
    [(0.3, 0.0)] * 4,
    [(0.3, 0.0), (1.1, 0.0), (0.05, 0.01)],
    [(0.7, 1e-3)] * 3,
    [(0.05, 0.7)],
]


@pytest.mark.parametrize("pairs", PAIRS, ids=repr)
def test_releases_beside_steps_are_composed_tightly(pairs, exact_delta):
    """Steps that cost next to nothing, so that the cost is that of the others, which is known exactly."""
    events = [SampledGaussianEvent("poisson", "replace", 1e-3, 1e-3, 1)]
    events += [ApproximateEvent(*pair) if pair[1] else PureEvent(pair[0]) for pair in pairs]
    for epsilon in (0.0, 0.1, 0.25, 0.8, 1.3):
        exact = exact_delta(0.0, pairs, epsilon)
        assert exact * (1 - 1e-9) <= compose(events).delta_at(epsilon) <= 1.011 * exact + 1e-5


def test_equal_steps_are_merged():
    half = SampledGaussianEvent("one", "replace", 0.3, 0.01, 50)
    whole = SampledGaussianEvent("one", "replace", 0.3, 0.01, 100)
    assert compose([half, half]) == compose([whole])
    assert "100 steps of 0.3-Gaussian" in compose([whole]).describe()


def test_epsilon_is_monotone():
    @lru_cache
    def epsilon(*, ratio=0.5, rate=0.01, steps=1000, scheme):
        return compose([SampledGaussianEvent(scheme, "replace", ratio, rate, steps)]).epsilon_at(1e-6)

    for scheme in ("one", "poisson"):
        for name, values in (
            ("ratio", (0.2, 1.6)),
            ("rate", (0.004, 0.1)),
            ("steps", (100, 5000)),
        ):
            fewer, more = (epsilon(**{name: value}, scheme=scheme) for value in values)
            costs = [fewer, epsilon(scheme=scheme), more]
            assert np.all(np.diff(costs) > 0), (scheme, name)


def test_the_curve_falls_and_its_inverse_is_literal():
    guarantee = compose([SampledGaussianEvent("poisson", "add_remove", 0.8, 0.03, 300)])
    deltas = [guarantee.delta_at(epsilon) for epsilon in np.linspace(0, 4, 17)]
    assert np.all(np.diff(deltas) < 0)
    for delta in (1e-12, 1e-6, 1e-2):
        assert guarantee.delta_at(guarantee.epsilon_at(delta)) <= delta
    assert guarantee.epsilon_at(0.0) == math.inf


def test_only_pairs_of_epsilon_and_delta_can_pay():
    guarantee = compose([SampledGaussianEvent("one", "replace", 0.01, 0.001, 10)])
    assert guarantee.within(Budget(1.0, 1e-6))
    assert not guarantee.within(Budget(1e-9, 1e-12))
    for budget in (Budget(50.0), Budget.gdp(50.0), Budget.zcdp(50.0)):
        assert not guarantee.within(budget)


def test_relations_do_not_mix():
    events = [
        SampledGaussianEvent("poisson", "replace", 0.1, 0.1, 1),
        SampledGaussianEvent("poisson", "add_remove", 0.1, 0.1, 1),
    ]
    with pytest.raises(Incompatible, match="cannot be composed"):
        compose(events)


def test_a_million_steps_take_seconds():
    started = time.perf_counter()
    compose([SampledGaussianEvent("one", "replace", 0.19, 1e-3, 10**6)]).delta_at(1.0)
    assert time.perf_counter() - started < 10.0  # 0.2 s on an idle machine


@pytest.mark.parametrize(
    "event",
    [
        SampledGaussianEvent("one", "replace", 1.0, 1e-3, 10**6),
        SampledGaussianEvent("one", "replace", 1.0, 1e-4, 10**4),
        SampledGaussianEvent("poisson", "replace", 1.0, 0.1, 300),
        SampledGaussianEvent("poisson", "add_remove", 1.0, 0.01, 2000),
    ],
    ids=repr,
)
def test_calibration_is_literal_and_uses_the_budget(event):
    budget = Budget(1.0, 1e-6)
    beside = (GaussianEvent(0.5 * budget.mu), PureEvent(0.01))
    found = calibrate_sampled(event, budget, beside)
    assert compose([found, *beside]).within(budget)
    more = SampledGaussianEvent(event.scheme, event.relation, 1.003 * found.ratio, event.rate, event.steps)
    assert not compose([more, *beside]).within(budget)


def test_calibration_refuses_where_nothing_is_left():
    budget = Budget(1.0, 1e-6)
    with pytest.raises(Incompatible, match="nothing is left"):
        calibrate_sampled(EVENTS[0], budget, (GaussianEvent(1.001 * budget.mu),))
    assert Allowance.of(budget).budget == budget


def halfline_delta(event, epsilon):
    """The exact δ of a step: the worst half-lines are those where the loss exceeds ε."""
    r, q, a = event.ratio, event.rate, math.exp(epsilon)
    if event.scheme == "one":
        x = math.log1p((a - 1.0) / q) / r
        return q * (ndtr(r / 2 - x) - (1.0 + (a - 1.0) / q) * ndtr(-r / 2 - x))
    if event.relation == "add_remove":
        x = math.log((a - 1.0 + q) / q) / r + r / 2
        return q * ndtr(r - x) - (a - 1.0 + q) * ndtr(-x)
    linear, c = (1.0 - q) * (a - 1.0), q * math.exp(-r * r / 8)
    x = 2.0 * math.log((linear + math.sqrt(linear**2 + 4.0 * c * c * a)) / (2.0 * c)) / r
    return q * ndtr(r / 2 - x) - (1.0 - q) * (a - 1.0) * ndtr(-x) - a * q * ndtr(-r / 2 - x)


@pytest.mark.parametrize(
    ("scheme", "relation", "delta"),
    [("one", "replace", 1e-18), *((*case, delta) for case in SCHEMES for delta in (1e-6, 1e-95))],
)
def test_the_least_noise_is_found_however_small_delta_is(scheme, relation, delta):
    """What is cut off was 1e-17 whatever δ is, for which noise had to be a hundred times as much."""
    step = SampledGaussianEvent(scheme, relation, 1.0, 0.05, 1)
    ratio = calibrate_sampled(step, Budget(1.0, delta), ()).ratio
    assert halfline_delta(replace(step, ratio=ratio), 1.0) <= delta * (1.0 + 1e-9)
    assert halfline_delta(replace(step, ratio=1.003 * ratio), 1.0) > delta


@pytest.mark.parametrize("delta", [1e-101, 1e-300])
def test_calibration_says_when_delta_is_too_small_for_it(delta):
    step = SampledGaussianEvent("poisson", "replace", 1.0, 0.05, 1)
    with pytest.raises(Incompatible, match=r"a delta below 1e-100 .* ask for a larger one"):
        calibrate_sampled(step, Budget(1.0, delta), ())
    assert not compose([replace(step, ratio=1e-6)]).within(Budget(1.0, 1e-301))


@pytest.mark.parametrize("epsilon", [500.0, 1e6])
def test_calibration_says_when_a_budget_is_too_large_for_it(epsilon):
    """It said that nothing was left and a larger budget should be asked for, or took minutes."""
    budget = Budget(epsilon, 1e-6)
    with pytest.raises(Incompatible, match="ask for a smaller one"):
        calibrate_sampled(EVENTS[0], budget, (GaussianEvent(0.5 * budget.mu),))


@pytest.mark.parametrize("huge", [1e-6, 29.0])
def test_extreme_ratios_give_numbers(huge):
    for scheme, relation in SCHEMES:
        delta = compose([SampledGaussianEvent(scheme, relation, huge, 1e-3, 1000)]).delta_at(0.5)
        assert 0.0 <= delta <= 1.0
        assert delta < 1e-15 or huge > 1
