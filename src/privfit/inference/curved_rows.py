"""How far curvatures of rows are cut in the bread, where few rows come near the loss's bound on them."""

import math

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.ends import constant_alone
from privfit.losses import Logistic, Poisson
from privfit.losses.typical import curvatures_along
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.schedule import held_to
from privfit.solvers.base import Solution
from privfit.solvers.count_tail import share_beyond
from privfit.solvers.counts import look_at_counts
from privfit.solvers.curvature import normal_nodes

_LEAST, _LEAST_OF_COUNTS = 0.5, 0.125
"""Least part of the bound on curvatures that they are cut to, and the same where a look shows counts: where
few rows are far from all others normal ones tell nothing of their curvature, but their counts do."""

_PARTS = 16
"""The bound is divided in so many parts."""

_LOST, _OF_NOISE = 0.02, 0.25
"""Largest share of all curvature that may be cut; and the same relative to the squared noise of a Hessian,
that being relative to the curvature of rows."""


def largest_curvature(solution: Solution, at: FloatArray, oracle: Oracle) -> float | None:
    """Return what curvatures can be cut to in a Hessian at ``at`` (q,) as nearly no row has more, or None.

    Parameters
    ----------
    solution : Solution
    at : array of shape (q,)
    oracle : Oracle
        Holds the planned Hessian, and all earlier releases.

    Notes
    -----
    Curvatures of counts, and of labels of which one is rare, are far below their bound in most rows, and the
    noise in a Hessian goes by the bound. Linear predictors are taken for normal, with the mean and variance
    that released moments give them at this point; and a look at counts tells how much of their means is
    beyond at most. What is cut makes the bread smaller and intervals longer: that is to be little beside what
    the noise does.
    """
    problem, loss = solution.problem, solution.problem.loss
    if not isinstance(loss, Logistic | Poisson) or solution.moments is None or not problem.has_intercept:
        return None
    moments, constant = solution.moments(), constant_alone(problem)
    mean, covariance = moments.of_rows(constant)
    nodes, chance = normal_nodes(1)
    uneven = 0.0 if problem.exposure is None else problem.exposure.variance
    sd = math.sqrt(max(float(at @ covariance @ at), 0.0) + uneven)
    with np.errstate(over="ignore"):
        found = curvatures_along(loss, float(mean @ at) - 0.5 * uneven + sd * nodes, least=0.0).ravel()
    whole, look, declared = float(chance @ found), look_at_counts(oracle.released), problem.response_bound
    usual = whole * float(np.trace(moments.second)) / problem.size
    if usual <= 0.0:  # means are beyond all bounds
        return None
    noise = _planned_noise(problem, oracle) * math.sqrt(problem.size) / usual
    lost = min(_LOST, _OF_NOISE * noise * noise)
    known = look is not None and declared is not None
    for part in np.arange(int((_LEAST_OF_COUNTS if known else _LEAST) * _PARTS), _PARTS) / _PARTS:
        most = float(part) * loss.constants.curvature
        if float(chance @ np.maximum(found - most, 0.0)) > lost * whole:
            continue
        if look is None or declared is None or share_beyond(look, declared, most) <= lost:
            return most
    return None


def _planned_noise(problem: Problem, oracle: Oracle) -> float:
    """Return the standard deviation of the noise that the last planned Hessian would have."""
    planned = [one for one in oracle.plan.inference_releases if one.kind == "hessian"][-1]
    return held_to(planned, problem.sensitivity("hessian")).sd
