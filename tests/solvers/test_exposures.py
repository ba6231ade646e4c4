"""What a look at exposures says, and what they are held to."""

import math
from dataclasses import replace

import numpy as np
import pytest

from privfit.data.declarations import NumericColumn
from privfit.data.exposure import Exposure
from privfit.data.source import ArraySource
from privfit.losses import Poisson
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import make_source
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, PlannedRelease, Release
from privfit.problem.schedule import planned_release
from privfit.problem.share_kernels import NORM_CLASSES
from privfit.solvers.counts import count_looks, held_to_counts
from privfit.solvers.exposures import held_to_exposures
from privfit.solvers.histogram import class_middles, mean_seen
from tests.solvers.simulated import problem_for

UPPER, DECLARED = 10.0, 64.0
EXPOSURE = Exposure("years", NumericColumn(0.0, UPPER))


def exposed_problem(n=1000, bound=DECLARED):
    problem = problem_for(Poisson(math.log(bound), bound), np.ones((n, 1)))
    return replace(problem, response_bound=DECLARED, exposure=EXPOSURE, constant=(0,))


def look(shares, sd=0.0, kind="exposures"):
    """Return a look that shows these shares, by the number of their class."""
    value = np.array([shares.get(number, 0.0) for number in range(NORM_CLASSES)])
    return Release(PlannedRelease(kind, NORM_CLASSES, 1.0, 1.0, sd), np.zeros(1), value)


class Shown:
    """An oracle whose look at exposures shows these shares."""

    def __init__(self, shares, sd=0.0):
        self.look, self.held = look(shares, sd), None

    def release(self, kind, at):
        assert kind == "exposures"
        return self.look

    def hold_exposures(self, exposure):
        self.held = exposure


def seen(shares, counts, sd=0.0, *, bound=DECLARED):
    """Return what exposures are held to, by shares of rows in classes of exposures and of counts."""
    oracle = Shown(shares, sd)
    found = held_to_exposures(exposed_problem(bound=bound), oracle, look(counts, 1e-9, "counts"))
    assert found.exposure == (oracle.held or EXPOSURE)
    return found.exposure.seen


def test_middles_of_classes_by_hand():
    found = class_middles(16.0)
    assert found.shape == (NORM_CLASSES,)
    np.testing.assert_allclose(found[[39, 35, 31]], [0.5 * (1.0 + 2.0**-0.25) * x for x in (16.0, 8.0, 4.0)])
    assert found[0] == 8.0 * 2.0 ** (-39 / 4)


def test_the_mean_is_that_of_the_rows_that_count_up_to_the_largest_seen():
    middles = class_middles(UPPER)
    shares = {30: 0.5, 36: 0.3}
    plain = (0.5 * middles[30] + 0.3 * middles[36]) / 0.8
    assert mean_seen(look(shares, 1e-6), UPPER, UPPER) == pytest.approx(plain, rel=1e-4)
    held = (0.5 * middles[30] + 0.3 * 3.0) / 0.8
    assert mean_seen(look(shares, 1e-6), UPPER, 3.0) == pytest.approx(held, rel=1e-4)
    square = (0.5 * middles[30] ** 2 + 0.3 * middles[36] ** 2) / 0.8
    assert mean_seen(look(shares, 1e-6), UPPER, UPPER, power=2.0) == pytest.approx(square, rel=1e-4)
    assert mean_seen(look({}, 1e-3), UPPER, UPPER) is None
    hidden = mean_seen(look({30: 0.99, 39: 0.01}, 0.01), UPPER, UPPER)
    assert hidden == pytest.approx(0.99 * middles[30])


def test_a_mean_is_one_where_it_exceeds_three_deviations_of_its_noise():
    """All rows are in one class; there is noise in those below, too, in proportion to how long they are."""
    error = np.linalg.norm(class_middles(UPPER)) / class_middles(UPPER)[39]
    for times, known in ((2.9, False), (3.1, True), (5.0, True)):
        sd = 1.0 / (times * error)
        assert (mean_seen(look({39: 1.0}, sd), UPPER, UPPER) is not None) == known


def test_the_constant_is_for_the_mean_exposure_and_spread_is_known():
    found = seen({20: 0.75, 32: 0.25}, {4: 0.9, 8: 0.1})
    middles = class_middles(UPPER)
    mean = 0.75 * middles[20] + 0.25 * middles[32]
    square = 0.75 * middles[20] ** 2 + 0.25 * middles[32] ** 2
    assert found.mean == pytest.approx(mean, rel=1e-6)
    assert found.variance == pytest.approx(math.log(square / mean**2), rel=1e-6)
    assert found.bare == (found.mean, found.variance)
    assert found.most == pytest.approx(UPPER * 2.0 ** ((33 - NORM_CLASSES) / 4))


def test_exposures_of_which_too_much_is_expected_are_held():
    """By hand: of m events two deviations more, half as much again, is the bound."""
    exposures, middles = {20: 0.75, 36: 0.25}, class_middles(UPPER)
    counts = {8: 0.9, 28: 0.1}
    mean = 0.75 * middles[20] + 0.25 * middles[36]
    events = 0.9 * class_middles(DECLARED)[8] + 0.1 * class_middles(DECLARED)[28]
    found = seen(exposures, counts, bound=9.0)
    within = found.most / mean * events
    assert 1.5 * (within + 2.0 * math.sqrt(within)) == pytest.approx(9.0, rel=1e-4)
    held = 0.75 * middles[20] + 0.25 * found.most
    assert found.mean == pytest.approx(held, rel=1e-4)
    assert found.bare[0] == pytest.approx(mean, rel=1e-4)
    assert found.variance < found.bare[1]
    few = seen(exposures, counts, bound=2.0)
    assert few.most == pytest.approx(mean, rel=1e-4)


def test_where_noise_hides_exposures_they_stay_as_they_are():
    assert seen({}, {4: 1.0}, 1e-3) is None
    assert seen({30: 1.0}, {4: 1.0}, 0.5) is None


def test_looks_at_counts_over_exposures_are_two():
    problem = exposed_problem()
    assert count_looks(problem, 0.04) == {"counts": 0.04, "exposures": 0.02}
    assert count_looks(replace(problem, exposure=None), 0.04) == {"counts": 0.04}


@pytest.mark.parametrize("scale", [1.0, 0.02])
def test_rows_go_on_with_the_exposures_that_a_look_shows(scale):
    """As if the middle of the bounds had been the mean: what is declared too loosely makes no difference."""
    rng, n = np.random.default_rng(3), 40_000
    years = scale * rng.uniform(2.0, UPPER, n)
    y = rng.poisson(0.3 * years / scale).astype(float)
    problem = exposed_problem(n)
    releases = [planned_release(problem, kind, Allowance(0.2)) for kind in ("counts", "exposures")]
    plan = Plan("m", "s", n, problem.columns, "replace", 1.0, tuple(releases), ())
    source = ArraySource(np.ones((n, 1)), y, norm_bound=1.0, offset=np.log(years / 5.0))
    oracle = Oracle(problem, plan, source, make_source(4))
    found = held_to_counts(problem, oracle)
    assert oracle.problem.exposure == found.exposure
    assert found.exposure.typical == pytest.approx(6.0 * scale, rel=0.1)
    assert 0.0 < found.exposure.variance < 0.4
    assert found.loss.count_bound < 20.0
