"""How far curvatures of rows are cut in the bread, where few rows come near the loss's bound on them."""

import math
from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.cut_numbers import look_at_counts
from privfit.inference.ends import constant_alone
from privfit.losses import Logistic, Poisson
from privfit.losses.typical import curvatures_along
from privfit.problem.plan import Release
from privfit.solvers.base import Solution
from privfit.solvers.count_tail import share_beyond
from privfit.solvers.curvature import normal_nodes

_LEAST, _LEAST_OF_COUNTS = 0.5, 0.125
"""Least part of the bound on curvatures that they are cut to, and the same where a look shows counts: where
few rows are far from all others normal ones tell nothing of their curvature, but their counts do."""

_PARTS = 16
"""The bound is divided in so many parts."""

_LOST, _LOST_OF_COUNTS = 0.02, 0.02
"""Share of the curvature of all normal rows that may be cut, and of counts that may be beyond."""


def largest_curvature(solution: Solution, at: FloatArray, releases: Sequence[Release]) -> float | None:
    """Return what curvatures can be cut to in a Hessian at ``at`` (q,) as nearly no row has more, or None.

    Parameters
    ----------
    solution : Solution
    at : array of shape (q,)
    releases : sequence of Release
        All earlier ones.

    Notes
    -----
    Curvatures of counts, and of labels of which one is rare, are far below their bound in most rows, and the
    noise in a Hessian goes by the bound. Linear predictors are taken for normal, with the mean and variance
    that released moments give them at this point; and a look at counts tells how much of their means is
    beyond at most. What is cut makes the bread smaller and intervals longer.
    """
    problem, loss = solution.problem, solution.problem.loss
    if not isinstance(loss, Logistic | Poisson) or solution.moments is None or not problem.has_intercept:
        return None
    mean, covariance = solution.moments().of_rows(constant_alone(problem))
    nodes, chance = normal_nodes(1)
    sd = math.sqrt(max(float(at @ covariance @ at), 0.0))
    with np.errstate(over="ignore"):
        found = curvatures_along(loss, float(mean @ at) + sd * nodes, least=0.0).ravel()
    whole, look, declared = float(chance @ found), look_at_counts(releases), problem.response_bound
    known = look is not None and declared is not None
    for part in np.arange(int((_LEAST_OF_COUNTS if known else _LEAST) * _PARTS), _PARTS) / _PARTS:
        most = float(part) * loss.constants.curvature
        if float(chance @ np.maximum(found - most, 0.0)) > _LOST * whole:
            continue
        if look is None or declared is None or share_beyond(look, declared, most) <= _LOST_OF_COUNTS:
            return most
    return None
