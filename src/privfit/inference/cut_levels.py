"""Levels whose counts may be cut by a bound that a look has lowered."""

import math

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.inference.ends import involved, levels_of, mean_rows, with_constant, with_slopes
from privfit.inference.found import Found
from privfit.losses import Poisson
from privfit.solvers.base import Solution, quadratic_forms

DEVIATIONS = 1.645
"""Standard deviations by which a log mean may be larger than it is estimated."""

NEAR = 0.8
"""Part of the bound from which on it cuts enough of the counts about a mean to be felt."""


def may_be_cut(solution: Solution, directions: FloatArray, found: Found) -> NDArray[np.bool_]:
    """Return which reported coefficients are of levels whose mean count may be near a lowered bound, (k,).

    Parameters
    ----------
    solution : Solution
    directions : array of shape (k, n_linear)
        Reported coefficients as linear functions of the encoded ones.
    found : Found

    Notes
    -----
    A look at counts shows how large they are in most rows. The tail that noise hides is taken to be an
    exponential one; but it may be a level that few rows have, whose counts are all far beyond. They are moved
    to the bound, and its mean with them. That is told from the estimate: the mean is then as large as the
    bound, but for noise. A bound that was declared is part of what is estimated. Where counts have exposures
    a level may be that of the longest.
    """
    problem, loss = solution.problem, solution.problem.loss
    moves = levels_of(problem, solution.at_bounds)
    if not isinstance(loss, Poisson) or not moves.size or not lowered(loss, problem.response_bound):
        return np.zeros(len(directions), dtype=np.bool_)
    rows = mean_rows(loss.means, found.bread, with_constant(problem, moves))
    sd = np.sqrt(np.maximum(quadratic_forms(rows, found.covariance), 0.0))
    longest = 0.0 if problem.exposure is None else problem.exposure.reach
    near = rows @ found.estimate.theta + longest + DEVIATIONS * sd > math.log(NEAR * loss.count_bound)
    return involved(directions, with_slopes(problem, moves[near]))


def lowered(loss: Poisson, declared: float | None) -> bool:
    """Return whether counts are held to less than what was declared."""
    return declared is not None and loss.count_bound < declared
