"""How much of counts is beyond a bound, as far as a look at them tells."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.solvers.count_tail import CountTail, _classes, count_tail, log_normal_beyond, rates_beyond
from privfit.solvers.histogram import largest_seen

DECLARED = 200.0
EDGES = DECLARED * 2.0 ** (np.arange(-NORM_CLASSES, 0) / NORMS_A_DOUBLING)


def look(below, sd, rng=None):
    """A look at numbers of which a share ``below(t)`` is less than ``t``."""
    shares = np.diff(np.append(below(EDGES), 1.0))
    shares[0] += below(EDGES[0])
    noise = 0.0 if rng is None else sd * rng.normal(size=NORM_CLASSES)
    return Release(PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, sd), np.zeros(1), shares + noise)


def mean_beyond(tail):
    return float(tail.beyond @ tail.chances)


def of_poisson(mean):
    return lambda t: stats.poisson.cdf(np.ceil(t) - 1.0, mean)


@pytest.mark.parametrize(("middle", "sd"), [(0.5, 1.2), (1.0, 0.8), (2.0, 0.6)])
@pytest.mark.parametrize("noise", [3e-5, 3e-4])
def test_a_log_normal_tail_is_found_from_what_noise_shows(middle, sd, noise):
    """Its density is a parabola of that kind, so that only the steps of slopes and curvatures are off."""
    law = stats.norm(middle, sd)
    bound = math.exp(middle + 2.5 * sd)
    found = count_tail(look(lambda t: law.cdf(np.log(t)), noise), DECLARED, bound, whole=False)
    expected = log_normal_beyond(middle, sd**2, bound) - log_normal_beyond(middle, sd**2, DECLARED)
    expected -= (DECLARED - bound) * law.sf(math.log(DECLARED))
    assert mean_beyond(found) == pytest.approx(expected, rel=0.35)
    assert found.bent == pytest.approx(sd**-2, rel=0.4)
    assert found.chances.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("mean", [2.0, 6.0, 20.0])
def test_hardly_any_counts_of_a_poisson_law_are_beyond_a_bound_that_a_look_suggests(mean):
    """With as many as noise may hide, 0.6 %, it would be 0.02 and more."""
    release = look(of_poisson(mean), 2e-3)
    bound = float(stats.poisson.isf(1e-3, mean)) * 1.5
    found = count_tail(release, DECLARED, bound, whole=True)
    assert mean_beyond(found) < 2e-3


def test_whole_numbers_are_counted_and_not_spread_over_their_classes():
    """Classes of small counts hold one number or none: taken for rates, they tell of another tail."""
    law = stats.geom(0.3)
    release = look(lambda t: law.cdf(np.ceil(t) - 1.0), 1e-4)
    exact = float(np.sum(law.sf(np.arange(25, 200))))
    whole, rates = (mean_beyond(count_tail(release, DECLARED, 25.0, whole=each)) for each in (True, False))
    assert exact < whole < 5.0 * exact  # an exponential tail bends down more and more
    assert abs(math.log(rates / exact)) > 1.5 * abs(math.log(whole / exact))


@pytest.mark.statistical
def test_what_noise_leaves_open_is_neither_forgotten_nor_far_too_large():
    """Over 300 looks at log-normal numbers with a fixed seed."""
    rng, middle, sd, bound = np.random.default_rng(3), 0.8, 1.1, 30.0
    law = stats.norm(middle, sd)
    found = [
        mean_beyond(count_tail(look(lambda t: law.cdf(np.log(t)), 2e-3, rng), DECLARED, bound, whole=False))
        for _ in range(300)
    ]
    exact = log_normal_beyond(middle, sd**2, bound) - log_normal_beyond(middle, sd**2, DECLARED)
    exact -= (DECLARED - bound) * law.sf(math.log(DECLARED))
    assert 0.6 * exact < np.mean(found) < 2.5 * exact


@pytest.mark.parametrize(
    "release",
    [
        look(of_poisson(5.0), 10.0),  # all are hidden
        look(lambda t: np.minimum(t / 1000.0, 0.2), 1e-3),  # the highest class is seen, too
        look(of_poisson(5.0), 0.0),
    ],
)
def test_a_look_that_hides_all_or_nothing_tells_of_no_tail(release):
    assert count_tail(release, DECLARED, 20.0, whole=True) is None


def test_nothing_is_beyond_what_was_declared():
    found = count_tail(look(of_poisson(5.0), 1e-3), DECLARED, DECLARED, whole=True)
    assert mean_beyond(found) == 0.0


def test_only_what_may_be_more_than_is_known_counts():
    tail = CountTail(np.array([0.1, 0.5, 0.9]), np.array([0.5, 0.3, 0.2]), 1.0)
    assert tail.more_than(0.4) == pytest.approx(math.sqrt(0.3 * 0.01 + 0.2 * 0.25))
    assert tail.more_than(1.0) == 0.0
    assert tail.more_than(0.0) == pytest.approx(math.sqrt(tail.chances @ tail.beyond**2))


@pytest.mark.parametrize(
    ("middle", "variance", "bound"), [(0.5, 1.0, 10.0), (3.0, 0.2, 10.0), (0.0, 2.0, 1.0)]
)
def test_what_is_beyond_of_log_normal_numbers_is_the_integral(middle, variance, bound):
    law = stats.norm(middle, math.sqrt(variance))
    exact, _ = integrate.quad(lambda t: law.sf(math.log(t)), bound, np.inf)
    assert log_normal_beyond(middle, variance, bound) == pytest.approx(exact, rel=1e-6)


def test_numbers_that_do_not_vary_are_beyond_by_their_difference():
    assert log_normal_beyond(math.log(12.0), 0.0, 10.0) == pytest.approx(2.0, rel=1e-4)
    assert log_normal_beyond(math.log(8.0), 0.0, 10.0) == 0.0


@pytest.mark.parametrize("declared", [200.0, 1000.0, 7.3])
def test_a_class_has_as_many_whole_numbers_as_are_in_it_and_the_mean_of_these_in_its_middle(declared):
    middles, widths, usable = _classes(declared, whole=True)
    lower = declared * 2.0 ** (np.arange(-NORM_CLASSES, 0) / NORMS_A_DOUBLING)
    numbers = np.arange(math.ceil(lower[-1]))
    place = np.searchsorted(lower * (1.0 - 1e-9), numbers, side="right") - 1
    for k in range(NORM_CLASSES - 1):
        inside = numbers[place == k]
        assert widths[k] == len(inside)
        assert usable[k] == (len(inside) > 0)
        if len(inside):
            assert middles[k] == pytest.approx(inside.mean())


def test_a_class_of_rates_has_its_width():
    middles, widths, usable = _classes(3.0, whole=False)
    lower = 3.0 * 2.0 ** (np.arange(-NORM_CLASSES, 0) / NORMS_A_DOUBLING)
    np.testing.assert_allclose(widths, lower[1:] - lower[:-1])
    np.testing.assert_allclose(middles, 0.5 * (lower[1:] + lower[:-1]))
    assert usable.all()


@pytest.mark.parametrize("sd", [5e-4, 4e-3])
def test_each_tail_is_as_likely_as_it_makes_the_released_shares(sd):
    """By sums over all slopes and curvatures, and integrals of densities between the bounds."""
    law, bound = stats.norm(0.8, 1.1), 40.0
    release = look(lambda t: law.cdf(np.log(t)), sd, np.random.default_rng(7))
    found = count_tail(release, DECLARED, bound, whole=False)
    size = float(EDGES[0]) * 2.0 ** (largest_seen(release).number / NORMS_A_DOUBLING)
    use = (EDGES[:-1] + EDGES[1:]) / 2.0 >= size / 4.0
    middles, widths = ((EDGES[:-1] + EDGES[1:]) / 2.0)[use], np.diff(EDGES)[use]
    shares, places = release.value[:-1][use], np.geomspace(bound, DECLARED, 2001)
    likelihood, beyond, bent = [], [], []
    for steep in np.linspace(1.0, 12.0, 34):
        for curve in np.concatenate([np.linspace(0.0, 3.0, 11), np.geomspace(3.5, 12.0, 6)]):

            def density(t, a=steep, c=curve):
                return (t / size) ** (-a - 0.5 * c * np.log(t / size))

            shape = widths * density(middles)
            height, _ = optimize.nnls(shape[:, None], shares)
            misfit = np.sum((shares - height[0] * shape) ** 2) / sd**2
            likelihood.append(-0.5 * misfit)
            beyond.append(height[0] * integrate.trapezoid((places - bound) * density(places), places))
            bent.append(curve)
    chances = np.exp(np.array(likelihood) - max(likelihood))
    chances /= chances.sum()
    np.testing.assert_allclose(found.chances, chances, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.beyond, beyond, rtol=0.01, atol=1e-3)
    assert found.bent == pytest.approx(chances @ bent)


def test_means_that_no_number_holds_are_no_error():
    assert 1e100 < log_normal_beyond(0.0, 5000.0, 10.0) < math.inf


def of_exposures(power, often=0.05):
    """Rates of rare events: none, or the inverse of an exposure of at most 1, most of which are 1."""
    return lambda t: np.where(t <= 1.0, 1.0 - often, 1.0 - 0.3 * often * np.maximum(t, 1.0) ** (1.0 - power))


@pytest.mark.parametrize("power", [3.2, 3.6, 4.0, 5.0])
def test_rates_beyond_a_bound_are_those_of_the_power_that_a_look_shows(power):
    """By hand: the integral of what is larger than t, from the bound on."""
    shown, bound = look(of_exposures(power), 1e-6), 4.0
    missed = 0.3 * 0.05 * bound ** (2.0 - power) / (power - 2.0)
    assert rates_beyond(shown, DECLARED, bound) == pytest.approx(missed, rel=0.15)
    assert rates_beyond(shown, DECLARED, 2.0 * bound) < 0.6 * missed


@pytest.mark.parametrize("power", [3.6, 4.0])
def test_what_noise_hides_of_rates_is_allowed_for(power, rng):
    """The root mean square is as large as what is missed, or a few times that, and not a tenth of it."""
    missed, found = [], []
    for _ in range(200):
        shown = look(of_exposures(power), 6e-4, rng)
        bound = 1.5 * largest_seen(shown).below(DECLARED)
        missed.append(0.3 * 0.05 * bound ** (2.0 - power) / (power - 2.0))
        found.append(rates_beyond(shown, DECLARED, bound))
    ratio = np.array(found) / missed
    assert 0.7 < np.median(ratio) < 6.0
    assert np.mean(ratio > 0.3) > 0.9


@pytest.mark.parametrize("mean", [0.3, 2.0, 5.0])
def test_whole_numbers_are_no_rates(mean):
    """But where noise may hide what is between them they may be."""
    assert rates_beyond(look(of_poisson(mean), 1e-4), DECLARED, 9.0) == 0.0
    assert rates_beyond(look(of_poisson(mean), 2e-2), DECLARED, 9.0) > 0.0
    assert rates_beyond(look(of_exposures(4.0), 0.0), DECLARED, 9.0) == 0.0


def mean_square_by_hand(release, bound):
    """Power by power, class by class, from half the largest rate seen on."""
    size = largest_seen(release).below(DECLARED)
    classes = [
        (0.5 * (low + high), high - low, share)
        for low, high, share in zip(EDGES, EDGES[1:], release.value, strict=False)
        if 0.5 * (low + high) >= 0.5 * size
    ]
    misfits, squares = [], []
    for k in range(25):
        power = 3.0 + 0.125 * k
        shape = [width * (middle / size) ** -power for middle, width, _ in classes]
        whole = math.fsum(one**2 for one in shape)
        height = max(math.fsum(a * b for a, (_, _, b) in zip(shape, classes, strict=True)) / whole, 0.0)
        misfit = math.fsum((b - height * a) ** 2 for a, (_, _, b) in zip(shape, classes, strict=True))
        misfits.append(misfit / release.planned.sd**2)
        missed = size**2 * (size / bound) ** (power - 2.0) / (power - 1.0) / (power - 2.0)
        squares.append((height**2 + release.planned.sd**2 / whole) * missed**2)
    return np.average(squares, weights=[math.exp(0.5 * (min(misfits) - misfit)) for misfit in misfits])


@pytest.mark.parametrize("bound", [5.0, 20.0])
@pytest.mark.parametrize("noise", [2e-4, 8e-4])
def test_it_is_the_root_mean_square_over_the_powers(bound, noise, rng):
    for power in (3.0, 4.5):
        shown = look(of_exposures(power), noise, rng)
        assert rates_beyond(shown, DECLARED, bound) ** 2 == pytest.approx(mean_square_by_hand(shown, bound))


@pytest.mark.parametrize("part", [0.04, 0.099, 0.101, 0.5])
def test_counts_are_whole_where_less_than_a_tenth_is_certainly_between(part):
    """Two errors of the sum over all classes in which there is no whole number."""
    whole = [any(low <= k < high for k in range(1, 200)) for low, high in pairwise(EDGES)]
    between, on = whole[1:].count(False), 0.2
    for error in (1e-6, 1e-3):
        shares = np.zeros(NORM_CLASSES)
        shares[5] = max(part * on - 2.0 * error * math.sqrt(between), 0.0)
        shares[whole.index(True)] = on
        shares[0] = 1.0 - shares.sum()
        release = Release(PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, error), np.zeros(1), shares)
        assert (rates_beyond(release, DECLARED, 9.0) == 0.0) == (part < 0.1)


def test_classes_that_all_hold_whole_numbers_tell_nothing_of_them():
    shares = np.zeros(NORM_CLASSES)
    shares[[0, 12, 20]] = 0.5, 0.3, 0.2
    release = Release(PlannedRelease("counts", NORM_CLASSES, 1.0, 1.0, 1e-4), np.zeros(1), shares)
    for declared, told in ((2.0**14, False), (2.0**7, True)):
        assert (rates_beyond(release, declared, 0.5 * declared) == 0.0) == told
