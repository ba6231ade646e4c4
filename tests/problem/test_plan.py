"""What a plan says its releases cost, with which it is composed, checked and charged."""

import json
import math

import numpy as np
import pytest

from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.privacy.mechanisms import calibrate_gaussian
from privfit.privacy.noise import SeededNoise
from privfit.privacy.pure_mechanisms import calibrate_laplace, calibrate_radial, radial_sd
from privfit.problem.perturb import perturb_vector
from privfit.problem.plan import SHARES, Plan, PlannedRelease, Release
from privfit.problem.schedule import allowance_of, growing_shares, held_to, planned_noise, signal_of

WALK = SampledGaussianEvent("poisson", "replace", 0.5, 0.01, 40)
COSTS = [
    (PlannedRelease("gradient", 3, 0.1, 0.4, 0.3), GaussianEvent(0.4)),
    (PlannedRelease("gradient", 3, 0.1, math.inf, 0.3, epsilon=0.7), PureEvent(0.7)),
    (
        PlannedRelease("minimiser", 3, 0.1, math.inf, 0.0, epsilon=0.7, delta=1e-6),
        ApproximateEvent(0.7, 1e-6),
    ),
    (PlannedRelease("walk", 3, 0.1, math.inf, 0.3, sampled=WALK), WALK),
    (PlannedRelease("gradient", 3, 0.1, math.inf, 0.0), None),
]


def plan_of(*releases):
    return Plan("m", "s", 100, ("a", "b", "c"), "replace", math.inf, releases[:1], releases[1:])


@pytest.mark.parametrize(("release", "event"), COSTS, ids=lambda value: type(value).__name__)
def test_every_release_costs_what_it_states(release, event):
    assert release.event == event
    plan = plan_of(release)
    assert plan.events == (() if event is None else (event,))
    assert plan.private is (event is not None)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_the_delta_of_a_release_counts_in_the_sum():
    """Two releases that each cost all of delta together cost twice of it, beside whatever else."""
    costly = COSTS[2][0]
    one, two = compose(plan_of(costly).events), compose(plan_of(costly, costly).events)
    assert one.within(Budget(0.7, 1e-6))
    assert not one.within(Budget(0.7, 0.0))
    assert two.within(Budget(1.4, 2e-6))
    assert not two.within(Budget(1.4, 1e-6))
    assert compose(plan_of(costly, COSTS[1][0]).events).delta_at(1.4) >= 1e-6


GAUSSIAN, PURE, UNLIMITED = Allowance(0.4), Allowance(0.7, pure=True), Allowance.unlimited()


def test_planned_noise_is_calibrated_to_the_allowance():
    gaussian, pure = (planned_noise("gradient", 3, 0.1, one) for one in (GAUSSIAN, PURE))
    sd = calibrate_gaussian(sensitivity=0.1, mu=0.4, size=3)
    assert gaussian == PlannedRelease("gradient", 3, 0.1, 0.4, sd)
    sd = radial_sd(calibrate_radial(sensitivity=0.1, epsilon=0.7, size=3), 3)
    assert pure == PlannedRelease("gradient", 3, 0.1, math.inf, sd, epsilon=0.7)
    assert planned_noise("hessian", 6, 0.1, UNLIMITED) == PlannedRelease("hessian", 6, 0.1, math.inf, 0.0)


@pytest.mark.parametrize("kind", [*SHARES, "places"])
def test_pure_shares_of_rows_have_laplace_noise(kind):
    """In proportion to their L1 sensitivity, whatever their number."""
    sd = calibrate_laplace(sensitivity=0.1, epsilon=0.7, size=42)
    planned = planned_noise(kind, 42, 0.1, PURE)
    assert planned == PlannedRelease(kind, 42, 0.1, math.inf, sd, epsilon=0.7)
    assert planned.in_l1
    assert not planned_noise(kind, 42, 0.1, GAUSSIAN).in_l1
    assert not planned_noise("gradient", 42, 0.1, PURE).in_l1
    spread = np.std(perturb_vector(np.zeros(42), planned, SeededNoise(1)))
    assert 0.5 * sd < spread < 2.0 * sd


@pytest.mark.parametrize("allowance", [GAUSSIAN, PURE, UNLIMITED], ids=["gaussian", "pure", "unlimited"])
def test_a_release_is_made_again_from_its_own_allowance(allowance):
    planned = planned_noise("gradient", 3, 0.1, allowance)
    assert allowance_of(planned) == allowance
    assert held_to(planned, 0.1) is planned
    assert held_to(planned, 0.04) == planned_noise("gradient", 3, 0.04, allowance)


def test_a_signal_is_that_of_one_release_that_costs_as_much():
    """Sums of squares of Gaussian costs, sums of pure ones; a pure one has more noise, the more numbers."""
    gaussian = [planned_noise("gradient", 3, 0.1, Allowance(mu)) for mu in (0.3, 0.4, 1.2)]
    pure = [planned_noise("gradient", 3, 0.1, Allowance(epsilon, pure=True)) for epsilon in (0.3, 0.4)]
    assert signal_of(gaussian, 3) == pytest.approx(Allowance(1.3).signal(3), rel=1e-12)
    assert signal_of(pure, 3) == pytest.approx(Allowance(0.7, pure=True).signal(3), rel=1e-12)
    assert signal_of(gaussian[:1], 3) == 0.3
    assert signal_of(pure[:1], 3) == 0.15
    assert signal_of([planned_noise("gradient", 3, 0.1, UNLIMITED)], 3) == math.inf


def test_shares_grow_by_the_factor_and_sum_to_one():
    np.testing.assert_allclose(growing_shares(4, 3.0), np.array([1.0, 3.0, 9.0, 27.0]) / 40.0, rtol=1e-14)
    assert growing_shares(3, 1.0) == (1.0 / 3.0,) * 3
    for n_steps, growth, last in ((3000, 2.0, 0.5), (3000, 0.6, 0.0), (3, 1e300, 1.0), (3, 1e-300, 0.0)):
        shares = np.array(growing_shares(n_steps, growth))
        assert (shares > 0.0).all()  # what is too little is refused as too little, not as 0
        assert shares.sum() == pytest.approx(1.0)
        assert shares[-1] == pytest.approx(last, rel=0.1, abs=1e-307)


def test_a_plan_says_in_words_what_noise_it_has():
    (gaussian, _), (pure, _), (costly, _), (walk, _), _ = COSTS
    for releases in ((gaussian,), (walk,), (gaussian, walk)):
        assert plan_of(*releases).noise == "discrete Gaussian noise"
    for releases in ((gaussian, pure), (costly, walk)):
        assert plan_of(*releases).noise == "discrete Gaussian and other noise"
    assert plan_of(pure, costly).noise == "noise that is not Gaussian"


def test_every_row_is_a_unit_unless_a_plan_says_otherwise():
    plan = plan_of(COSTS[0][0])
    assert (plan.unit, plan.rows_per_unit, plan.weights) == (None, 1, None)


def test_the_noise_of_a_sample_grows_as_it_shrinks():
    """Sums over a part of the rows are divided by it, and so is their noise."""
    planned, at = COSTS[0][0], np.zeros(3)
    assert Release(planned, at, at).sd == planned.sd
    assert Release(planned, at, at, part=0.25).sd == 4.0 * planned.sd
