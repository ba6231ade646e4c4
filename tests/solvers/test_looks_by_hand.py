"""What looks at residuals make of a bound or a width, to the digit, from looks that are made by hand."""

import math
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import expon, norm

from privfit.losses import Huber, Logistic, SmoothedQuantile, Squared
from privfit.problem.plan import PlannedRelease
from privfit.problem.share_kernels import SIDE_CLASSES
from privfit.solvers.geometry import Marginals
from privfit.solvers.residual_bounds import (
    bounded_at,
    has_bound,
    held_to_spread,
    led_by_spread,
    led_to_median,
    widest,
)
from privfit.solvers.residuals import EDGES, Residuals
from privfit.solvers.response import MeanResponse
from privfit.solvers.spacing import spacing
from privfit.solvers.tails import tail_bound
from privfit.solvers.widths import has_widths, led_by_quantile, narrowed_to, narrowest, recentred
from tests.solvers.made_looks import FOUR, FRAME, UNIT, Made, look, problem_of, shares_of, single
from tests.solvers.tails_by_hand import TailsByHand, beginning

LEAST_SQUARES = Squared(1.0, adapts=True)


SIZES = np.concatenate([[0.0], EDGES[:-1], [2.0]])


@cache
def tails(sizes, noise, total):
    """Return the tails that shares by size allow; None where noise hides them."""
    if beginning(sizes, noise, total) is None:
        return None
    return TailsByHand(sizes, noise, SIZES.tolist(), total=total)


def one_side(seen, begin):
    """Return by how much more of what is beyond is on one side, relative to that, with noise."""
    far = [k for k in range(SIDE_CLASSES) if SIZES[k] >= begin]
    above = sum(seen.shares[SIDE_CLASSES + k] for k in far)
    below = sum(seen.shares[SIDE_CLASSES - 1 - k] for k in far)
    noise = seen.noise * math.sqrt(2.0 * len(far))
    return min((abs(above - below) + noise) / max(above + below, noise), 1.0)


def wanted_bound(seen, n, mu, for_meat, p=1, *, blurred=False):
    """Return the bound on residuals that a look asks for, in its unit."""
    size, hidden = seen.largest
    each = 2.0 * math.sqrt(1.2 * p / n) / mu
    unlike = tails(tuple(seen.sizes.tolist()), math.sqrt(2.0) * seen.noise, seen.total)
    one_sided = 1.0 if blurred else min(max(abs(seen.skewness) / 0.4, 0.15), 1.0)
    even = 1.0 if blurred else (1.0 - one_sided) / 0.85

    def error(bound):
        return math.hypot(seen.spread, each * bound) / (one_sided * math.sqrt(n))

    def further(bound):
        excess = 0.2 * error(bound)
        return tail_bound(seen.usual_size, size, hidden, excess, heavier=0.5 if blurred else 0.65) - bound

    alike = brentq(further, size, 1e6, xtol=1e-14) if further(size) > 0.0 else size
    tail = most = max(alike, 0.5 * seen.spread / each)
    if unlike is not None:
        part = max(one_sided, one_side(seen, unlike.begin))
        tail = min(unlike.bound(lambda bound: 0.1 * error(bound) * one_sided / part), most)
    free = (0.25 / each) ** (1.0 - even) * min(0.25 / each, for_meat) ** even
    return max(size, tail, free * seen.spread)


LOOKS = {
    "normal": shares_of(norm, 0.02),
    "skew": shares_of(expon, 0.01, -0.007),
    "skew to the left": shares_of(expon, 0.01, -0.007)[::-1],
    "a little skew": 0.7 * shares_of(norm, 0.01) + 0.3 * shares_of(norm, 0.015, 0.015),
}


def bounded(release, n, mu, *, loss=LEAST_SQUARES, **changes):
    """Return the loss and the point after a last look at 0.25."""
    problem, oracle = problem_of(loss, n, **changes), Made(release)
    found, point = bounded_at(problem, oracle, FRAME, np.array([0.25]), mu)
    assert oracle.asked == [[0.25]]
    assert oracle.loss is found.loss
    return found.loss, point


@pytest.mark.parametrize("name", LOOKS)
@pytest.mark.parametrize("n", [500, 20_000])
@pytest.mark.parametrize("mu", [1e-3, 0.03, 0.3, 3.0])
def test_bounds_that_a_last_look_leaves(name, n, mu):
    release = look(LOOKS[name], 1e-3)
    wanted = UNIT * wanted_bound(Residuals.of(release), n, mu, math.sqrt(0.0015 * n * mu))
    for left in (0.01, 1.0):
        loss, _ = bounded(release, n, mu, loss=Squared(left, adapts=True))
        assert loss.bound == pytest.approx(min(wanted, 1.0), rel=1e-6)
        assert loss.adapts
    assert bounded(release, n, mu, loss=Squared(2.5, adapts=True), bound=2.0)[0].bound == pytest.approx(
        min(2.0 * wanted, 2.5)
    )
    far = bounded(release, n, mu, bound=1e6)[0].bound
    assert far == pytest.approx(1e6 * min(wanted, 1.0), rel=1e-6)
    of_four = UNIT * wanted_bound(Residuals.of(release), n, mu, math.sqrt(0.0015 * n * mu / 4.0), p=4)
    oracle = Made(release)
    found, _ = bounded_at(problem_of(LEAST_SQUARES, n, bound=1e6, p=4), oracle, FOUR, np.zeros(4), mu)
    assert found.loss.bound == pytest.approx(1e6 * min(of_four, 1.0), rel=1e-6)


@pytest.mark.parametrize("name", LOOKS)
def test_long_rows_ask_for_the_bounds_of_a_smaller_budget(name):
    """Noise is in proportion to their norm and the bound, in the meat to the squares of both."""
    release, even, n, mu = look(LOOKS[name], 1e-3), look(LOOKS["normal"], 1e-3), 20_000, 3.0
    usual = math.sqrt(2.0) * (4.0 + 2.0 * math.sqrt(4.0 * math.log(n)) + 2.0 * math.log(n))
    for times, longer in ((0.5, 1.0), (1.0, 1.0), (9.0, 3.0), (400.0, 20.0)):
        frame, oracle = replace(FOUR, size=times * usual), Made(release)
        found, _ = bounded_at(problem_of(LEAST_SQUARES, n, bound=1e6, p=4), oracle, frame, np.zeros(4), mu)
        for_meat = math.sqrt(0.0015 * n * mu / 4.0) / longer
        wanted = UNIT * wanted_bound(Residuals.of(release), n, mu / longer, for_meat, p=4)
        assert found.loss.bound == pytest.approx(1e6 * min(wanted, 1.0), rel=1e-6)
        first = led(even, mu=mu, n=n, p=4, frame=frame)[0]
        at_first = UNIT * wanted_bound(Residuals.of(even), n, mu / longer, math.inf, p=4)
        assert first.bound == pytest.approx(min(at_first, 1.0), rel=1e-6)


def test_bounds_cover_all_and_no_more_than_is_possible():
    release = look(LOOKS["normal"], 1e-3)
    assert bounded(release, 20_000, 300.0)[0].bound == 1.0
    assert bounded(release, 20_000, 300.0, loss=Squared(1.25, adapts=True))[0].bound == 1.25
    assert bounded(release, 20_000, 300.0, loss=Squared(1.25))[0] == Squared(1.25)
    assert bounded(release, 20_000, 0.03, loss=Squared(1.25))[0] == Squared(1.25)
    hidden = look(LOOKS["normal"], 0.2)
    assert bounded(hidden, 20_000, 0.3, loss=Squared(0.02, adapts=True))[0].bound == 0.02
    exact = look(single({15: 0.4, 26: 0.4, 30: 0.2}), 0.0)
    assert bounded(exact, 20_000, 0.3)[0].bound == pytest.approx(UNIT * 2.0 ** ((10 - 21) / 2))


def test_a_look_that_hides_more_than_a_quarter_says_nothing():
    """Largest sizes beyond which noise may hide 28 %, by how much noise there is."""
    shares = LOOKS["normal"]

    def hidden(sd):
        return Residuals.of(look(shares, sd)).largest[1] - 0.28

    edge = brentq(hidden, 0.028, 0.03, xtol=1e-15)
    for n, mu in ((20_000, 0.3), (500, 0.03)):
        assert bounded(look(shares, 1.0001 * edge), n, mu)[0].bound == 1.0
        shown = Residuals.of(look(shares, 0.9999 * edge))
        wanted = UNIT * wanted_bound(shown, n, mu, math.sqrt(0.0015 * n * mu))
        assert bounded(look(shares, 0.9999 * edge), n, mu, bound=1e3)[0].bound == pytest.approx(1e3 * wanted)
    assert bounded(look(shares, 0.2), 20_000, 0.3)[0].bound == 1.0


def test_a_point_that_is_astray_by_half_a_deviation_is_moved():
    def apart(shift):
        seen = Residuals.of(look(shares_of(norm, 0.02, shift), 1e-4))
        return seen.quantile(0.5) / seen.spread - 0.5

    edge = brentq(apart, 0.001, 0.03)
    for sign in (-1.0, 1.0):
        for part, moved in ((0.999, False), (1.001, True)):
            release = look(shares_of(norm, 0.02, sign * part * edge), 1e-4)
            middle = Residuals.of(release).quantile(0.5)
            _, point = bounded(release, 20_000, 0.3)
            assert point[0] == pytest.approx(0.25 + UNIT * middle if moved else 0.25)
            assert bounded(release, 20_000, 0.3, constant=False)[1][0] == 0.25
    assert bounded(look(shares_of(norm, 0.02, 0.05), 0.2), 20_000, 0.3)[1][0] == 0.25


def test_other_losses_and_what_was_not_planned_are_left_alone():
    for loss, oracle in ((Huber(1.0), Made(look(LOOKS["normal"], 1e-3))), (LEAST_SQUARES, Made())):
        problem, point = problem_of(loss), np.zeros(1)
        assert bounded_at(problem, oracle, FRAME, point, 0.3) == (problem, point)
        assert not oracle.asked


def test_planning_is_for_the_bound_that_cuts_nothing():
    assert widest(problem_of(Squared(0.75, adapts=True))).loss == Squared(1.5, adapts=True)
    assert widest(problem_of(Squared(1.0))).loss == Squared(1.0)
    assert has_bound(problem_of(LEAST_SQUARES))
    assert not has_bound(problem_of(Squared(1.0)))
    assert not has_bound(problem_of(Huber(1.0)))


def led(release, *, by=led_by_spread, loss=LEAST_SQUARES, first=None, spread=0.05, error=0.0, **changes):
    """Return loss, response and oracle after first looks, from marginals with a mean of 0.1."""
    mu, frame = changes.pop("mu", 0.3), changes.pop("frame", FRAME)
    problem = problem_of(loss, **changes)
    response = MeanResponse(problem, mean=0.1, spread=spread, error=error)
    marginals = Marginals(np.ones(1), np.zeros(1), 0.0, 0.0, response)
    oracle = Made(*([first or look(LOOKS["normal"], 1e-3)] if by is led_by_spread else []), release)
    more = (mu,) if by is led_by_spread else ()
    found, with_them = by(problem, oracle, marginals, frame, *more)
    assert (found is problem) == (oracle.loss is None)
    assert found is problem or oracle.loss is found.loss
    return found.loss, with_them.response, oracle


def test_first_looks_are_about_the_mean_and_the_median():
    first, release = look(shares_of(norm, 0.02, 0.03), 1e-3), look(LOOKS["normal"], 1e-3)
    middle, seen = Residuals.of(first).quantile(0.5), Residuals.of(release)
    loss, response, oracle = led(release, first=first)
    assert loss.bound == pytest.approx(UNIT * wanted_bound(seen, 20_000, 0.3, math.inf))
    assert oracle.asked == [[0.1], [pytest.approx(0.1 + UNIT * middle)]]
    assert response.found == pytest.approx(0.1 + UNIT * middle)
    assert response.spread == pytest.approx(UNIT * seen.spread)
    assert led(release, spread=0.02)[1].spread == 0.02
    _, bare, oracle = led(release, first=first, constant=False)
    assert oracle.asked == [[0.0], [0.0]]
    assert bare.found == 0.0


def test_first_looks_that_show_nothing_change_nothing():
    hidden = look(LOOKS["normal"], 0.2)
    for given in ({"first": hidden}, {"first": look(LOOKS["normal"], 1e-3), "release": hidden}):
        loss, response, oracle = led(given.get("release", look(LOOKS["normal"], 1e-3)), first=given["first"])
        assert loss is LEAST_SQUARES
        assert (response.found, response.spread) == (None, 0.05)
        assert len(oracle.asked) == 2
    loss, response, _ = led(look(LOOKS["normal"], 0.03))
    assert loss.bound == 1.0
    assert response.found is not None
    loss, _, oracle = led(look(LOOKS["normal"], 1e-3), loss=Squared(1.0))
    assert oracle.asked == []


def test_where_few_rows_make_up_most_of_the_variance_or_many_are_one_number_none_is_cut():
    release, whole = look(LOOKS["normal"], 1e-3), Squared(2.0)
    usual = UNIT * Residuals.of(release).spread
    edge = (0.3**2 - 9.0 * usual**2) / 3.0
    for part, cuts in ((1.001, True), (0.999, False)):
        loss, response, _ = led(release, spread=0.3, error=part * edge)
        assert (loss.bound < 1.0) == cuts
        assert cuts or (loss, response.found, response.spread) == (whole, None, 0.3)
    for more, cuts in ((-1e-6, True), (1e-6, False)):
        share = 0.35 + 3.5 * 1e-3 + more
        heap = single({17: 0.3, 18: 0.2, 19: 0.45 - share, 20: share, 22: 0.05})
        loss, _, _ = led(look(heap, 1e-3), spread=1e-3)
        assert (loss.bound < 1.0) == cuts
        assert cuts or loss == whole
    for more, cuts in ((1e-6, True), (-1e-6, False)):
        share = 0.1 + 3.5e-3 * math.sqrt(2 * SIDE_CLASSES - 21) + more
        heap = {17: 0.5 - share, 18: 0.1, 20: 0.4, 22: share}
        for way in (1, -1):
            loss, _, _ = led(look(single(heap)[::way], 1e-3), spread=1e-3)
            assert (loss.bound < 1.0) == cuts
            assert cuts or loss == whole
    for more, cuts in ((1e-6, True), (-1e-6, False)):
        share = 0.1 + 3.5e-3 + more
        for far in (20, 21):
            close = single({20: share, 21: share, far: 0.95 - share, 22: 0.05})
            loss, _, _ = led(look(close, 1e-3), spread=1e-3)
            assert (loss.bound < 1.0) == cuts
            assert cuts or loss == whole
    outside = single({0: 0.1, 18: 0.3, 19: 0.2, 22: 0.2, 23: 0.2})
    loss, response, _ = led(look(outside, 1e-3), spread=1e-3)
    assert loss == Squared(2.0, adapts=True)
    assert response.found is not None


def to_median(*looks, spread=0.05, error=0.0, loss=LEAST_SQUARES, response=MeanResponse):
    """Return the response after looks from a mean of 0.1, where they were, and whether it is new."""
    problem, oracle = problem_of(loss), Made(*looks)
    before = response(problem, mean=0.1, spread=spread, error=error) if response else None
    marginals = Marginals(np.ones(1), np.zeros(1), 0.0, 0.0, before)
    found = led_to_median(problem, oracle, marginals, FRAME)
    assert oracle.loss is None
    return found.response, oracle.asked, found is not marginals


def test_methods_that_cut_gradients_otherwise_are_led_to_the_median_and_told_the_spread():
    first, last = look(shares_of(norm, 0.02, 0.03), 1e-3), look(LOOKS["normal"], 1e-3)
    middle, seen = UNIT * Residuals.of(first).quantile(0.5), UNIT * Residuals.of(last).spread
    response, asked, _ = to_median(first, last)
    assert asked == [[0.1], [pytest.approx(0.1 + middle)]]
    assert (response.found, response.spread) == (pytest.approx(0.1 + middle), pytest.approx(seen))
    response, asked, _ = to_median(first, first, last)
    assert asked[2] == [response.found] == [pytest.approx(0.1 + 2.0 * middle)]
    assert to_median(first, last, spread=0.5 * seen)[0].spread == 0.5 * seen


def test_a_spread_that_noise_blurs_is_thought_to_be_half_as_much_again():
    fine = look(LOOKS["normal"], 1e-3)
    blurred = next(
        one for sd in np.geomspace(1e-3, 0.2, 200)
        if Residuals.of(one := look(LOOKS["normal"], sd)).spread is None
    )  # fmt: skip
    rough = UNIT * Residuals.of(blurred).rough_spread
    assert to_median(fine, blurred, spread=0.08)[0].spread == pytest.approx(1.5 * rough)


def test_nobody_is_led_where_looks_show_nothing_or_all_is_at_an_end_or_few_rows_are_far_out():
    fine, hidden = look(LOOKS["normal"], 1e-3), look(LOOKS["normal"], 0.2)
    assert to_median(fine, hidden)[1:] == ([[0.1], [pytest.approx(0.1)]], False)
    for looks, changes in (
        ((fine,), {}), ((), {}), ((fine, fine), {"loss": Squared(1.0)}), ((fine, fine), {"response": None}),
    ):  # fmt: skip
        assert to_median(*looks, **changes)[1:] == ([], False)
    assert not to_median(fine, look(LOOKS["normal"], 0.105))[2]  # its median shows, and no more
    heap = look(single({18: 0.3, 19: 0.05, 20: 0.6, 22: 0.05}), 1e-3)
    assert not to_median(fine, heap, spread=1e-3)[2]
    edge = (0.3**2 - 9.0 * (UNIT * Residuals.of(fine).spread) ** 2) / 3.0
    assert [to_median(fine, fine, spread=0.3, error=part * edge)[2] for part in (1.001, 0.999)] == [
        True,
        False,
    ]


def held(*looks, loss=LEAST_SQUARES, n=20_000, mu=0.3, meats=(), **changes):
    """Return loss, oracle and where the median is after looks about it, with meats of such noise planned."""
    problem, oracle = problem_of(loss, n, **changes), Made(*looks)
    planned = tuple(PlannedRelease("meat", 1, 1.0, 1.0, sd) for sd in meats)
    oracle.plan = SimpleNamespace(inference_releases=planned)
    found, center = held_to_spread(problem, oracle, FRAME, mu, unit=0.5)
    assert oracle.loss is None or oracle.loss is found.loss
    return found.loss, oracle, center


def test_a_response_is_held_to_its_spread_about_a_median_that_is_looked_for_twice():
    first, second = look(shares_of(norm, 0.02, 0.3), 1e-3), look(shares_of(norm, 0.02, -0.05), 1e-3)
    last = look(LOOKS["skew"], 1e-3)
    loss, oracle, center = held(first, second, last)
    middles = [UNIT * Residuals.of(one).quantile(0.5) for one in (first, second)]
    assert oracle.asked == [[0.0], [pytest.approx(middles[0])], [pytest.approx(center)]]
    assert center == pytest.approx(sum(middles))
    seen = Residuals.of(last)
    wanted = UNIT * wanted_bound(seen, 20_000, 0.3, math.inf, blurred=True)
    assert loss.bound == pytest.approx(wanted, rel=1e-6)
    even = look(LOOKS["normal"], 1e-3)
    for mu in (0.03, 0.3):
        wanted_of_even = UNIT * wanted_bound(Residuals.of(even), 20_000, mu, math.inf, blurred=True)
        assert held(first, second, even, mu=mu)[0].bound == pytest.approx(wanted_of_even, rel=1e-6)
    assert held(first, second, last, loss=Squared(0.9 * wanted, adapts=True))[0].bound == 0.9 * wanted
    assert held(first, second, last, constant=False)[1].asked == [[0.0]] * 3


@pytest.mark.parametrize(("name", "limits"), [("normal", (8.0, 5.0, 1e-3)), ("skew", (1e-3,))])
def test_a_large_pure_budget_raises_no_bound_that_the_meat_has_too_much_noise_for(name, limits):
    """With the bound 2 the planned meat has noise of 0.2 times what residuals of deviation r make of it."""
    fine, last = look(LOOKS["normal"], 1e-3), look(LOOKS[name], 1e-4)
    seen, n, mu = Residuals.of(last), 20_000, 0.7
    without = held(fine, fine, last, mu=mu)[0].bound
    assert without == pytest.approx(UNIT * wanted_bound(seen, n, mu, math.inf, blurred=True), rel=1e-6)
    for deviations in limits:
        sd = 0.2 * (0.5 * 2.0 / deviations) ** 2
        wanted = UNIT * wanted_bound(seen, n, mu, deviations, blurred=True)
        assert held(fine, fine, last, mu=mu, meats=(sd,))[0].bound == pytest.approx(wanted, rel=1e-6)
        assert wanted < without
    assert held(fine, fine, last, mu=mu, meats=(0.0,))[0].bound == without


def test_a_bound_stays_where_looks_hide_the_response_and_cuts_none_where_most_is_one_number_or_far_out():
    fine, hidden = look(LOOKS["normal"], 1e-3), look(LOOKS["normal"], 0.2)
    heap = look(single({18: 0.03, 19: 0.05, 21: 0.56, 22: 0.36}), 1e-3)
    outside = look(single({0: 0.1, 18: 0.3, 19: 0.2, 22: 0.2, 23: 0.2}), 1e-3)
    far = look(single({18: 0.25, 20: 0.24, 21: 0.24, 23: 0.24, 38: 0.03}), 1e-4)
    for looks in ((hidden, fine, fine), (fine, hidden, fine), (fine, fine, hidden)):
        assert held(*looks)[0] is LEAST_SQUARES
    for last in (heap, outside, far):
        loss, oracle, _ = held(fine, fine, last)
        assert loss == Squared(2.0, adapts=True)
        assert len(oracle.asked) == 3


def test_the_mean_square_that_is_certain_is_that_of_inner_edges_less_noise():
    seen = Residuals.of(look(single({21: 0.9, 38: 0.04, 0: 0.06}), 0.0))
    edges = 2.0 ** (np.array([-4.0, -1.0]) / 2.0)
    assert seen.certain_square == pytest.approx(0.04 * edges[0] ** 2 + 0.06 * edges[1] ** 2)
    noisy = Residuals.of(look(single({21: 0.9, 38: 0.04, 0: 0.06}), 0.01))
    kept = 0.06 - 3.5 * math.sqrt(2.0) * 0.01
    assert noisy.certain_square == pytest.approx(kept * edges[1] ** 2)


QUANTILE = SmoothedQuantile(0.25, 0.9, least=1e-9)
NORMAL_QUANTILE = norm.ppf(0.25)


def skewness(seen, tau, spread, found):
    """Return what is thought of the slope of a density, in units of the spread, and how sure that is."""
    at = norm.ppf(tau)
    usual, sd = -(at + 0.5 * seen.skew), math.hypot(1.0, 0.5 * seen.skew)
    if found is None:
        return usual / spread, sd / spread
    slope, noise = found[0] * spread, found[1] * spread
    variance = noise**2 + (0.2 + 0.9 * abs(at) + 0.6 * abs(seen.skew)) ** 2
    precision = 1.0 / variance + 1.0 / sd**2
    return (usual / sd**2 + slope / variance) / precision / spread, math.sqrt(1.0 / precision) / spread


def narrowed(release, n, mu, loss=QUANTILE, *, p=1):
    oracle = Made(release)
    found = narrowed_to(problem_of(loss, n, p=p), oracle, np.full(p, 0.5), mu)
    assert oracle.asked == [[0.5] * p]
    assert oracle.loss is None or oracle.loss is found.loss
    return found.loss


@pytest.mark.parametrize("tau", [0.25, 0.5, 0.98])
@pytest.mark.parametrize("n", [200, 20_000])
@pytest.mark.parametrize("mu", [1e-3, 0.01, 0.1, 1.0, 1e3])
@pytest.mark.parametrize(("skew", "p"), [(False, 1), (True, 1), (False, 4)])
def test_widths_that_a_look_leaves(tau, n, mu, skew, p):
    law, at = (expon, expon.ppf(tau)) if skew else (norm, norm.ppf(tau))
    release = look(shares_of(law, 0.02, -0.02 * at), 1e-3)
    seen, density = Residuals.of(release), norm.pdf(norm.ppf(tau))
    share = norm.cdf(norm.ppf(tau) + 0.6745) - norm.cdf(norm.ppf(tau) - 0.6745)
    noise = 8.0 * p * max(tau, 1.0 - tau) ** 2 / (tau * (1.0 - tau) * (n * mu) ** 2)
    least = (1.0 / n + noise) ** 0.25
    bias = abs(norm.ppf(tau)) * density / (6.0 * math.sqrt(tau * (1.0 - tau)))
    wider = math.sqrt(0.25 / max(bias, 0.06))
    units = min(max(least, min(40.0 * p**1.5 / (n * mu * density), wider * least)), 0.7)
    spread = seen.reach(share) / 0.6745
    loss = narrowed(release, n, mu, SmoothedQuantile(tau, 0.9, least=1e-9), p=p)
    assert spacing(seen, share, n) == 0.0
    assert loss.width == pytest.approx(UNIT * spread * units, rel=1e-9)
    assert loss.within == pytest.approx(2.0 * units * density, rel=1e-9)
    mean, sd = skewness(seen, tau, spread, seen.density_slope(tau, spread * 0.6745))
    assert loss.density_slope.mean == pytest.approx(mean / UNIT, rel=1e-9)
    assert loss.density_slope.sd == pytest.approx(sd / UNIT, rel=1e-9)


def test_a_width_is_half_of_a_spacing_at_least():
    release = look(single({9: 0.05, 11: 0.2, 30: 0.25, 32: 0.5}), 1e-3)
    seen = Residuals.of(release)
    share = norm.cdf(NORMAL_QUANTILE + 0.6745) - norm.cdf(NORMAL_QUANTILE - 0.6745)
    apart = spacing(seen, share, 20_000)
    assert apart > 0.0
    loss = narrowed(release, 20_000, 10.0)
    assert loss.width == pytest.approx(0.5 * UNIT * apart, rel=1e-9)
    spread = seen.reach(share) / 0.6745
    assert loss.within == pytest.approx(apart / spread * norm.pdf(NORMAL_QUANTILE), rel=1e-9)


def test_where_a_look_shows_no_width_or_no_slope():
    assert narrowed(look(LOOKS["normal"], 0.2), 20_000, 1.0) is QUANTILE
    given = SmoothedQuantile(0.25, 0.9)
    oracle = Made()
    assert narrowed_to(problem_of(given), oracle, np.zeros(1), 1.0).loss is given
    far = SmoothedQuantile(0.02, 0.9, least=1e-9)
    release = look(shares_of(norm, 0.02, -0.02 * norm.ppf(0.02)), 0.006)
    seen = Residuals.of(release)
    share = norm.cdf(norm.ppf(0.02) + 0.6745) - norm.cdf(norm.ppf(0.02) - 0.6745)
    spread = seen.reach(share) / 0.6745
    assert seen.density_slope(0.02, spread * 0.6745) is None
    slope = narrowed(release, 20_000, 1.0, far).density_slope
    mean, sd = skewness(seen, 0.02, spread, None)
    assert (slope.mean, slope.sd) == pytest.approx((mean / UNIT, sd / UNIT))


def test_a_first_look_leads_to_the_quantile():
    release = look(shares_of(norm, 0.02, 0.03), 1e-3)
    seen = Residuals.of(release)
    loss, response, oracle = led(release, by=led_by_quantile, loss=QUANTILE)
    assert oracle.asked == [[0.1]]
    assert loss.width == pytest.approx(0.4 * UNIT * seen.spread)
    assert response.found == pytest.approx(0.1 + UNIT * seen.quantile(0.25))
    assert response.spread == pytest.approx(UNIT * seen.spread)
    loss, response, _ = led(release, by=led_by_quantile, loss=QUANTILE, spread=0.01)
    assert (loss.width, response.spread) == (pytest.approx(0.004), 0.01)
    _, response, oracle = led(release, by=led_by_quantile, loss=QUANTILE, constant=False)
    assert oracle.asked == [[0.0]]
    assert response.found == pytest.approx(UNIT * seen.quantile(0.25))
    hidden, response, _ = led(look(LOOKS["normal"], 0.2), by=led_by_quantile, loss=QUANTILE)
    assert (hidden, response.found) == (QUANTILE, None)
    rare = SmoothedQuantile(0.01, 0.9, least=1e-9)
    loss, response, _ = led(look(LOOKS["normal"], 0.004), by=led_by_quantile, loss=rare)
    assert loss.width < 0.9
    assert response.found is None
    assert led(release, by=led_by_quantile, loss=SmoothedQuantile(0.25, 0.9))[2].asked == []


def test_planning_is_for_the_least_width():
    assert narrowest(problem_of(QUANTILE)).loss.width == 1e-9
    assert narrowest(problem_of(LEAST_SQUARES)).loss is LEAST_SQUARES
    assert has_widths(problem_of(QUANTILE))
    assert not has_widths(problem_of(SmoothedQuantile(0.25, 0.9)))


def recentred_to(release, *, constant=True, loss=QUANTILE):
    oracle = Made(release)
    point = recentred(problem_of(loss, constant=constant), oracle, FRAME, np.array([0.25]))
    return float(point[0]), oracle


@pytest.mark.parametrize("tau", [0.25, 0.75])
def test_a_point_is_moved_where_the_share_below_is_astray(tau):
    """By 0.3 of the rarer side's share and three standard deviations, of the noise of two classes here."""
    loss, allowed = SmoothedQuantile(tau, 0.9, least=1e-9), 0.3 * 0.25 + 3.0 * 1e-3 * math.sqrt(2.0)
    for sign in (-1.0, 1.0):
        for part, moved in ((0.999, False), (1.001, True)):
            below = tau + sign * part * allowed
            near, far = 0.5 * below, 0.5 * (1.0 - below)
            release = look(single({17: near, 18: near, 23: far, 24: far}), 1e-3)
            off = Residuals.of(release).quantile(tau)
            found, oracle = recentred_to(release, loss=loss)
            assert found == pytest.approx(0.25 + UNIT * off if moved else 0.25)
            assert oracle.asked == [[0.25]]


def test_points_of_other_problems_are_not_moved():
    release = look(shares_of(norm, 0.02, 0.5), 1e-3)
    assert recentred_to(release)[0] != 0.25
    for other in ({"constant": False}, {"loss": SmoothedQuantile(0.25, 0.9)}, {"loss": Logistic()}):
        found, oracle = recentred_to(release, **other)
        assert (found, oracle.asked) == (0.25, [])
    assert recentred_to(look(shares_of(norm, 0.02, 0.5), 0.2))[0] == 0.25
    assert replace(QUANTILE, width=0.5).adapts
