"""What a plan says its releases cost, with which it is composed, checked and charged."""

import json
import math

import pytest

from privfit.privacy.budget import Budget
from privfit.privacy.composition import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.problem.plan import Plan, PlannedRelease

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
