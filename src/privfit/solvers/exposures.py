"""How long exposures are: a look at them says about where they are, and from where on they are held."""

import math
from dataclasses import replace

import numpy as np

from privfit.data.exposure import SeenExposures
from privfit.losses import Poisson
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Release
from privfit.solvers.histogram import largest_seen, mean_seen

_ROOM, _DEVIATIONS = 1.5, 2.0
"""Times as much as of a usual row may be expected of others, and standard deviations of such a count that the
bound is to be beyond that."""


def held_to_exposures(problem: Problem, oracle: Oracle, counts: Release) -> Problem:
    """Look at how long exposures are, and return the problem that suits them.

    The constant is then for the mean exposure, which may be far from the middle of the bounds. Exposures over
    which more is expected than the bound on counts has room for are held to the longest for which it has, and
    their counts with them: where few rows have long ones their counts would be cut else, and not their means.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates, with the bound on counts that a look at them asked for.
    oracle : Oracle
    counts : Release
        That look.
    """
    exposure, loss = problem.exposure, problem.loss
    assert exposure is not None and isinstance(loss, Poisson)  # noqa: S101, PT018 -- asked of counts over some
    upper = exposure.column.upper
    look = oracle.release("exposures", np.array(problem.start))
    bare, seen = _moments_seen(look, upper, upper), largest_seen(look)
    if bare is None or seen is None:
        return problem
    most, declared = seen.below(upper), problem.response_bound
    events = None if declared is None else mean_seen(counts, declared, declared)
    if events is not None:
        most = min(most, max(_expected_within(loss.count_bound) / events, 1.0) * bare[0])
    held = _moments_seen(look, upper, most)
    if held is None:
        return problem
    found = replace(exposure, seen=SeenExposures(held[0], most, held[1], bare))
    oracle.hold_exposures(found)
    return replace(problem, exposure=found)


def _moments_seen(look: Release, end: float, most: float) -> tuple[float, float] | None:
    """Return the mean of exposures held to ``most``, and the variance of logarithms, were these normal."""
    mean, square = mean_seen(look, end, most), mean_seen(look, end, most, power=2.0)
    if mean is None or square is None:
        return None
    return mean, max(math.log(square / mean**2), 0.0)


def _expected_within(bound: float) -> float:
    """Return the mean m with ``_ROOM * (m + _DEVIATIONS * sqrt(m))`` at the bound."""
    half = 0.5 * _DEVIATIONS
    return (math.sqrt(half**2 + bound / _ROOM) - half) ** 2
