"""What looks at the response make of a bound or a width under pure budgets, to the digit, made by hand."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import expon, norm

from privfit.losses import Huber, Logistic, Multinomial, Poisson, SmoothedQuantile, Squared
from privfit.losses.hinge import SmoothedHinge
from privfit.losses.typical import USUAL_RESIDUAL
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES
from privfit.solvers.counts import held_to_counts
from privfit.solvers.pure_looks import labels_seen, looks_planned, suited_to_looks
from privfit.solvers.raised_counts import raised_alone
from privfit.solvers.residual_bounds import held_to_range
from privfit.solvers.residuals import Residuals
from privfit.solvers.spacing import spacing
from privfit.solvers.widths import suited_to_response
from tests.solvers.made_looks import FRAME, UNIT, Made, look, problem_of, shares_of, single

LEAST_SQUARES = Squared(0.75, adapts=True)

LOOKS = {"normal": shares_of(norm, 0.02), "skew": shares_of(expon, 0.01, -0.007)}


@pytest.mark.parametrize("sd", [0.0, 1e-3, 0.02])
def test_half_a_range_is_the_bound_where_few_responses_are_certainly_at_its_ends(sd):
    """Of the four classes at the ends, whose noise is twice that of one, at most 0.3 two deviations off."""
    problem, edge = problem_of(LEAST_SQUARES), 0.3 - 4.0 * sd
    for more in (-1e-6, 1e-6):
        part = 0.25 * (edge + more)
        rest = {2: 0.2, 20: 0.6 - 4.0 * part, 39: 0.2}
        release = look(single({0: part, 1: part, 40: part, 41: part} | rest), sd)
        oracle = Made(release)
        found = held_to_range(problem, oracle, FRAME)
        assert oracle.asked == [[0.0]]
        assert oracle.loss is (None if more < 0.0 else found.loss)
        assert found.loss == (LEAST_SQUARES if more < 0.0 else Squared(1.5, adapts=True))
    assert problem.loss is LEAST_SQUARES


def test_without_a_look_no_residual_is_cut():
    oracle = Made()
    assert held_to_range(problem_of(LEAST_SQUARES), oracle, FRAME).loss == Squared(1.5, adapts=True)
    assert oracle.loss == Squared(1.5, adapts=True)
    for loss in (Squared(0.75), Huber(1.0)):
        problem, oracle = problem_of(loss), Made(look(LOOKS["normal"], 1e-3))
        assert held_to_range(problem, oracle, FRAME) is problem
        assert (oracle.asked, oracle.loss) == ([], None)


def spread_of(seen, tau):
    """Return half the spread of normal responses with as many rows about the quantile, and their share."""
    at = norm.ppf(tau)
    share = norm.cdf(at + 0.6745) - norm.cdf(at - 0.6745)
    return 0.5 * seen.reach(share) / 0.6745, share


def slope_of(seen, tau, spread, units):
    """Return what is thought of the slope of the density of residuals, and how sure that is."""
    at = norm.ppf(tau)
    sd = (1.0 + abs(at)) * math.hypot(1.0, 0.5 * seen.skew)
    edge = 12.0 * units * (2.0 * tau - 1.0) ** 2
    return -(at + 0.5 * seen.skew) / spread / UNIT, math.hypot(sd, edge) / spread / UNIT


@pytest.mark.parametrize("tau", [0.25, 0.5, 0.9])
@pytest.mark.parametrize(("n", "mu"), [(200, 0.01), (20_000, 0.03), (20_000, 0.3), (20_000, 1e14)])
@pytest.mark.parametrize(("name", "unit"), [("normal", 1.0), ("skew", 0.1)])
def test_widths_that_looks_at_the_response_leave(tau, n, mu, name, unit):
    loss, release = SmoothedQuantile(tau, 0.9, least=1e-9), look(LOOKS[name], 1e-3)
    first, seen = look(shares_of(norm, 0.02, 0.1), 1e-3), Residuals.of(release)
    oracle = Made(first, first, release)
    found, center = suited_to_response(problem_of(loss, n), oracle, FRAME, mu, unit=unit)
    off = UNIT * Residuals.of(first).quantile(tau)
    assert oracle.asked == [[0.0], [pytest.approx(off)], [pytest.approx(2.0 * off)]]
    assert center == pytest.approx(2.0 * off)
    spread, share = spread_of(seen, tau)
    assert spacing(seen, share, n) == 0.0
    density, signal = norm.pdf(norm.ppf(tau)), n * min(mu, 1e12)
    noise = 8.0 * max(tau, 1.0 - tau) ** 2 / (tau * (1.0 - tau) * signal**2)
    least = (1.0 / n + noise) ** 0.25
    needed = 40.0 / (n * min(mu * unit, 1e12) * density)
    units = min(max(least, min(needed, 4.0 * least)), 0.7)
    assert found.loss is oracle.loss
    assert found.loss.width == pytest.approx(UNIT * spread * units, rel=1e-9)
    assert found.loss.within == pytest.approx(2.0 * units * density, rel=1e-9)
    slope = found.loss.density_slope
    assert (slope.mean, slope.sd) == pytest.approx(slope_of(seen, tau, spread, units), rel=1e-9)
    assert slope.uneven == pytest.approx(0.3 * (1.0 + abs(norm.ppf(tau))) / spread / UNIT, rel=1e-9)


def test_a_width_is_half_of_a_spacing_of_responses_at_least():
    loss = SmoothedQuantile(0.25, 0.9, least=1e-9)
    release = look(single({9: 0.05, 11: 0.2, 30: 0.25, 32: 0.5}), 1e-3)
    seen = Residuals.of(release)
    spread, share = spread_of(seen, 0.25)
    apart = spacing(seen, share, 20_000)
    assert apart > 0.0
    found, _ = suited_to_response(problem_of(loss), Made(release), FRAME, 10.0, unit=1.0)
    assert found.loss.width == pytest.approx(0.5 * UNIT * apart, rel=1e-9)
    slope = found.loss.density_slope
    assert slope.sd == pytest.approx(slope_of(seen, 0.25, spread, 0.5 * apart / spread)[1], rel=1e-9)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.6])
@pytest.mark.parametrize("bound", [1.0, 0.5])
def test_what_smoothing_may_do_where_nothing_shows_the_response(tau, bound):
    """Two deviations are ``|2 tau - 1|`` widths, 0.35 where residuals may be skewed; 0.3 of it in slopes."""
    loss = SmoothedQuantile(tau, 0.4, least=1e-9)
    hidden = look(LOOKS["normal"], 0.2)
    for looks in ((), (hidden,), (hidden, hidden)):
        oracle = Made(*looks)
        found, center = suited_to_response(problem_of(loss, bound=bound), oracle, FRAME, 1.0, unit=1.0)
        assert center == 0.0
        assert len(oracle.asked) == len(looks)
        assert found.loss is oracle.loss
        slope = found.loss.density_slope
        assert found.loss == replace(loss, density_slope=slope)
        assert slope.mean == pytest.approx(-norm.ppf(tau) / (USUAL_RESIDUAL * bound))
        assert 2.0 * slope.sd * loss.width**2 / 6.0 == pytest.approx(
            max(abs(2.0 * tau - 1.0), 0.35) * loss.width
        )
        assert slope.uneven == pytest.approx(0.3 * slope.sd)


@pytest.mark.parametrize("last", [look(np.zeros(42), 0.01), look(single({0: 0.25, 41: 0.75}), 1e-3)])
def test_a_last_look_that_shows_no_rows_about_the_quantile_leaves_the_width(last):
    """Noise hides them, or all are beyond the classes."""
    loss, fine = SmoothedQuantile(0.25, 0.9, least=1e-9), look(LOOKS["normal"], 1e-3)
    found, center = suited_to_response(problem_of(loss), Made(fine, last), FRAME, 1.0, unit=1.0)
    assert found.loss.width == 0.9
    assert found.loss.density_slope is not None
    assert center == pytest.approx(UNIT * Residuals.of(fine).quantile(0.25))


def test_responses_of_other_losses_are_not_looked_at():
    for loss in (LEAST_SQUARES, SmoothedQuantile(0.25, 0.9)):
        problem, oracle = problem_of(loss), Made(look(LOOKS["normal"], 1e-3))
        assert suited_to_response(problem, oracle, FRAME, 1.0, unit=1.0) == (problem, 0.0)
        assert (oracle.asked, oracle.loss) == ([], None)


QUANTILE = SmoothedQuantile(0.25, 0.9, least=1e-9)
COUNTS = Poisson(math.log(100.0), 100)
THREE = (0.15, 0.15, 0.7)


@pytest.mark.parametrize(
    ("loss", "signal", "wanted"),
    [
        (COUNTS, 1549.0, ()),
        (COUNTS, 1551.0, (("counts", 310.0 / 1551.0),)),
        (COUNTS, 5166.0, (("counts", 310.0 / 5166.0),)),
        (COUNTS, 5168.0, (("counts", 0.06),)),
        (LEAST_SQUARES, 666.0, ()),
        (LEAST_SQUARES, 667.0, (("residuals", 0.06),)),
        (LEAST_SQUARES, 5749.0, (("residuals", 0.06),)),
        *[
            (loss, signal, tuple(("residuals", one * max(1150.0 / signal, 0.06)) for one in THREE))
            for loss in (LEAST_SQUARES, QUANTILE)
            for signal in (5751.0, 19_166.0, 19_168.0)
        ],
        (QUANTILE, 5749.0, ()),
        (Squared(0.75), 1e6, ()),
        (SmoothedQuantile(0.25, 0.9), 1e6, ()),
        (Huber(1.0), 1e6, ()),
    ],
)
def test_the_looks_that_are_planned_and_their_parts_of_epsilon(loss, signal, wanted):
    for n in (500, 20_000):
        found = looks_planned(problem_of(loss, n), signal / n)
        assert [kind for kind, _ in found] == [kind for kind, _ in wanted]
        assert [part for _, part in found] == pytest.approx([part for _, part in wanted], rel=1e-12)


@pytest.mark.parametrize("loss", [Logistic(), SmoothedHinge(0.5), Multinomial(4)], ids=lambda loss: loss.name)
def test_a_look_at_labels_costs_a_fiftieth_of_epsilon_where_it_tells_anything(loss):
    problem = problem_of(loss, 1000)
    assert looks_planned(problem, 0.999) == ()
    assert looks_planned(problem, 1.0) == looks_planned(problem, 50.0) == (("labels", 0.02),)


def seen_labels(shares, sd, kinds=("labels",), loss=None):
    """Return what a look at labels says, where one is planned, and what was asked."""
    planned, asked = PlannedRelease("labels", len(shares), 1.0, math.inf, sd, epsilon=1.0), []

    def released(kind, at):
        asked.append((kind, at.tolist()))
        return Release(planned, at, np.array(shares))

    oracle = SimpleNamespace(remaining=lambda kind: int(kind in kinds), release=released)
    return labels_seen(problem_of(loss or Logistic()), oracle), asked


def test_labels_are_seen_where_a_look_is_planned():
    assert seen_labels((0.5, 0.5), 1e-3)[1] == [("labels", [0.0])]
    assert seen_labels((0.5, 0.5), 1e-3, kinds=("counts", "residuals")) == (None, [])


def test_both_shares_say_how_many_ones_there_are():
    """Noise that made one label rarer than none and the other too frequent is halved in their difference."""
    for shares, mean in (((0.9, 0.1), 0.1), ((0.93, 0.11), 0.09), ((0.2, 0.8), 0.8)):
        seen, _ = seen_labels(shares, 0.1)
        assert (seen.mean, seen.error) == pytest.approx((mean, 0.1 / math.sqrt(2.0)))
        assert seen.sd == pytest.approx(math.sqrt(mean * (1.0 - mean)))
    far, _ = seen_labels((-0.2, 1.3), 0.2)
    assert (far.mean, far.sd) == (pytest.approx(1.25), 0.0)


def test_shares_of_labels_are_those_of_the_rows_that_count():
    """With weights of a third on average two labels with 0.2333 and 0.1 are 0.7 and 0.3."""
    seen, _ = seen_labels((0.7 / 3.0, 0.1), 1e-9)
    assert (seen.mean, seen.error) == pytest.approx((0.3, 3e-9 / math.sqrt(2.0)))


def test_shares_of_classes_are_seen_one_by_one():
    """With weights of a half on average those of 0.35, 0.1 and 0.05 are twice these."""
    seen, asked = seen_labels((0.35, 0.1, 0.05), 1e-9, loss=Multinomial(3))
    assert len(asked) == 1
    assert seen.shares == pytest.approx([0.7, 0.2, 0.1])
    assert seen.error == pytest.approx(2e-9)
    assert seen.constant() == pytest.approx(Multinomial(3).contrasts.T @ np.log([0.7, 0.2, 0.1]))


EPSILONS = (0.01, 0.02, 0.07)


def planning(*looks):
    """Return an oracle with such looks, of a plan that costs 0.1."""
    oracle = Made(*looks)
    releases = [PlannedRelease("residuals", 42, 1.0, math.inf, 1.0, epsilon=part) for part in EPSILONS]
    oracle.plan = SimpleNamespace(solver_releases=tuple(releases), inference_releases=())
    return oracle


@pytest.mark.parametrize("unit", [1.0, 0.05])
def test_looks_are_those_that_the_loss_asks_for(unit):
    """Signals are epsilon over the root of the columns and 1, times a coordinate's standard deviation."""
    fine, mu = look(LOOKS["normal"], 1e-3), unit * sum(EPSILONS) / math.sqrt(2.0)
    loss = SmoothedQuantile(0.25, 0.9, least=1e-9)
    wanted = suited_to_response(problem_of(loss), Made(fine, fine, fine), FRAME, mu, unit=unit)
    found = suited_to_looks(problem_of(loss), planning(fine, fine, fine), FRAME, unit=unit)
    assert found[0].loss == wanted[0].loss
    assert found[1] == wanted[1] != 0.0
    one, bare = planning(fine), problem_of(LEAST_SQUARES)
    found, center = suited_to_looks(bare, one, FRAME, unit=unit)
    assert (found is bare, center, one.asked) == (True, 0.0, [[0.0]])
    two = planning(fine, fine)
    lowered, center = suited_to_looks(problem_of(LEAST_SQUARES), two, FRAME, unit=unit)
    assert lowered.loss.bound < 0.75
    assert center == pytest.approx(UNIT * Residuals.of(fine).quantile(0.5))
    other, none = problem_of(Huber(1.0)), planning()
    assert suited_to_looks(other, none, FRAME, unit=unit) == (other, 0.0)


class ShownCounts(Made):
    """An oracle with a look at counts."""

    plan = SimpleNamespace(
        solver_releases=[PlannedRelease("counts", 40, 1.0, math.inf, 1.0, epsilon=part) for part in EPSILONS]
    )

    def remaining(self, kind):
        return int(kind == "counts")

    @property
    def released(self):
        return self.looks

    def release(self, kind, at):
        assert kind == "counts"
        return self.looks[0]


def test_a_look_at_counts_lowers_their_bound():
    problem = problem_of(Poisson(math.log(100.0), 100), bound=100.0)
    shares = np.zeros(NORM_CLASSES)
    shares[15], shares[34] = 0.988, 0.012
    planned = PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, 2e-3)
    release = Release(planned, np.zeros(1), shares)
    signal = 8.0 * sum(EPSILONS) / math.sqrt(2.0)
    looked = ShownCounts(release)
    held = held_to_counts(problem, looked)
    wanted = raised_alone(held, looked, signal)
    assert wanted.loss.count_bound > held.loss.count_bound
    found, center = suited_to_looks(problem, ShownCounts(release), FRAME, unit=8.0)
    assert found.loss == wanted.loss
    assert (found.loss.count_bound < 100, center) == (True, 0.0)
