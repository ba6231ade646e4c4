"""Turn shares of a budget into planned releases."""

import math

import numpy as np

from privfit.privacy.mechanisms import calibrate_gaussian
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, ReleaseKind

_SLACK = 1.0 - 1e-12
"""Keeps ``sqrt(sum(mu_k**2))`` at or below the total in floating point."""


def planned_release(problem: Problem, kind: ReleaseKind, mu: float) -> PlannedRelease:
    """Return one release that is ``mu``-GDP; without noise where ``mu`` is infinite."""
    size, sensitivity = problem.query(kind).size, problem.sensitivity(kind)
    if math.isinf(mu):
        return PlannedRelease(kind, size, sensitivity, mu, 0.0)
    sd = calibrate_gaussian(sensitivity=sensitivity, mu=mu, size=size)
    return PlannedRelease(kind, size, sensitivity, mu, sd)


def split_budget(mu: float, shares: list[float]) -> list[float]:
    """Split ``mu`` so that release k gets the part ``shares[k] / sum(shares)`` of ``mu**2``."""
    if math.isinf(mu):
        return [math.inf] * len(shares)
    total = math.fsum(shares)
    return [mu * math.sqrt(share / total) * _SLACK for share in shares]


def growing_shares(n_steps: int, growth: float) -> list[float]:
    """Return shares of the squared budget that grow by ``growth`` a step and sum to 1."""
    weights = growth ** np.arange(n_steps, dtype=np.float64)
    return list(weights / weights.sum())
