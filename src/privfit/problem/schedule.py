"""Turn shares of a budget into planned releases."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import calibrate_gaussian
from privfit.privacy.pure_mechanisms import calibrate_laplace, calibrate_radial, radial_sd
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, ReleaseKind


def planned_release(problem: Problem, kind: ReleaseKind, allowance: Allowance) -> PlannedRelease:
    """Return one noisy mean that costs ``allowance``; without noise where that has no limit."""
    query = problem.query(kind)
    return planned_noise(kind, query.size, problem.sensitivity(kind, pure=allowance.pure), allowance)


def planned_releases(
    problem: Problem, kinds: Iterable[ReleaseKind], allowances: Iterable[Allowance]
) -> tuple[PlannedRelease, ...]:
    """Return one noisy mean of each kind, for its allowance."""
    return tuple(planned_release(problem, kind, one) for kind, one in zip(kinds, allowances, strict=True))


def planned_noise(kind: ReleaseKind, size: int, sensitivity: float, allowance: Allowance) -> PlannedRelease:
    """Return a release of ``size`` numbers whose added noise costs ``allowance``.

    The sensitivity is the one that `PlannedRelease` states for this kind.
    """
    if math.isinf(allowance.amount):
        return PlannedRelease(kind, size, sensitivity, math.inf, 0.0)
    if allowance.pure:
        epsilon = allowance.amount
        planned = PlannedRelease(kind, size, sensitivity, math.inf, 0.0, epsilon=epsilon)
        if planned.in_l1:
            sd = calibrate_laplace(sensitivity=sensitivity, epsilon=epsilon, size=size)
        else:
            sd = radial_sd(calibrate_radial(sensitivity=sensitivity, epsilon=epsilon, size=size), size)
        return replace(planned, sd=sd)
    sd = calibrate_gaussian(sensitivity=sensitivity, mu=allowance.amount, size=size)
    return PlannedRelease(kind, size, sensitivity, allowance.amount, sd)


def held_to(planned: PlannedRelease, sensitivity: float) -> PlannedRelease:
    """Return the release at the same cost where what is asked has this sensitivity, and noise to suit."""
    if sensitivity == planned.sensitivity:
        return planned
    return planned_noise(planned.kind, planned.size, sensitivity, allowance_of(planned))


def allowance_of(planned: PlannedRelease) -> Allowance:
    """Return the allowance that a planned release with added noise was made from."""
    if planned.epsilon is not None:
        return Allowance(planned.epsilon, pure=True)
    return Allowance(planned.mu)


def with_part(planned: PlannedRelease, part: float) -> PlannedRelease:
    """Return a planned release with added noise at this part of its mu or epsilon, and more noise to suit."""
    whole = allowance_of(planned)
    return planned_noise(
        planned.kind, planned.size, planned.sensitivity, replace(whole, amount=part * whole.amount)
    )


def signal_of(releases: Sequence[PlannedRelease], size: int) -> float:
    """Return `Allowance.signal` of what the releases cost together; ``inf`` without noise."""
    if any(planned.epsilon is not None for planned in releases):
        return math.fsum(planned.epsilon or 0.0 for planned in releases) / math.sqrt(size + 1.0)
    return math.sqrt(math.fsum(planned.mu**2 for planned in releases))


@lru_cache(maxsize=64)
def growing_shares(n_steps: int, growth: float) -> tuple[float, ...]:
    """Return shares of the squared budget that grow by ``growth`` a step and sum to 1."""
    steps = np.arange(n_steps, dtype=np.float64)
    weights = growth ** (steps - steps[-1] if growth > 1.0 else steps)
    weights = np.maximum(weights, np.finfo(np.float64).tiny)  # too little is refused where it is spent
    return tuple((weights / weights.sum()).tolist())
