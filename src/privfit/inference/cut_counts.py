"""What it may do to an estimate that counts beyond a lowered bound are moved to it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread
from privfit.inference.cut_levels import lowered
from privfit.inference.cut_numbers import row_weights, step_along
from privfit.inference.ends import constant_alone
from privfit.inference.found import Found
from privfit.losses import Poisson
from privfit.problem.plan import Release
from privfit.solvers.base import Solution
from privfit.solvers.count_tail import count_tail, log_normal_beyond, rates_beyond
from privfit.solvers.counts import look_at_counts
from privfit.solvers.drawn import Drawn

_STRAIGHTEST = 1e-3
"""Least curvature of a tail that is divided by."""


def with_cuts(solution: Solution, found: Found, meat: Drawn, releases: Sequence[Release]) -> Estimate:
    """Return the estimate with more noise where counts vary more than their means tell, and are cut.

    Parameters
    ----------
    solution : Solution
    found : Found
    meat : Drawn
    releases : sequence of Release
        All of them.

    Notes
    -----
    A look lowers the bound on counts to about where noise hides what is beyond. The score of rows that are
    beyond, but whose means are not, is too small, and the estimate is moved by the inverse of the bread times
    the mean of what their scores lack. That is about what counts are beyond the bound by, as the look tells
    (`privfit.solvers.count_tail`), less the same of their means, which are taken for log-normal, exposures
    included, times the row that is usual where counts are as large as the bound; where exposures make them
    so the bread tells how that row differs from others. Means beyond it are held to it as counts are. How
    large the move is is hardly known: its mean square is added to the covariance, along it, times the part of
    the variance of scores that is not a Poisson law's. Counts that follow one are hardly beyond a bound where
    their means are not. Rates are, of rows whose weight is a short exposure, whatever their means are: what
    they miss (`rates_beyond`) moves the usual row, in the same way.
    """
    problem, loss, estimate = solution.problem, solution.problem.loss, found.estimate
    declared, look = problem.response_bound, look_at_counts(releases)
    if not isinstance(loss, Poisson) or declared is None or not lowered(loss, declared):
        return estimate
    if look is None or not problem.has_intercept or solution.moments is None:
        return estimate
    bound, theta = loss.count_bound, estimate.theta
    tail = count_tail(look, declared, bound, whole=problem.shares.plain)
    if tail is None:
        return estimate
    constant = constant_alone(problem)
    mean, covariance = solution.moments().of_rows(constant)
    along = covariance @ theta
    middle, variance = float(mean @ theta), float(theta @ along)
    step = step_along(theta, mean, covariance)
    if problem.exposure is not None:
        shift, uneven = problem.exposure.bare
        middle, variance = middle + shift, variance + uneven
        along = _mean_of_counts(found.bread, constant) - mean
    missed = tail.more_than(log_normal_beyond(middle, variance, bound))
    away = max(math.log(bound) - middle, 0.0) / max(variance, 1.0 / max(tail.bent, _STRAIGHTEST))
    row = mean + away * along
    down = row_weights(row[None], covariance, step, problem.norm_bound)
    move: FloatArray = missed * down * (found.bread.inverse @ row)
    dispersion = float(np.sum(found.bread.inverse * meat.matrix)) / theta.size
    apart = 1.0 - 1.0 / max(dispersion, 1.0)
    moved = apart * np.outer(move, move)
    if problem.shares.weights is not None:
        of_rates = rates_beyond(look, declared, bound) * (found.bread.inverse @ mean)
        moved += np.outer(of_rates, of_rates)
    return replace(estimate, cov_noise=estimate.cov_noise + moved)


def _mean_of_counts(bread: Bread, constant: FloatArray) -> FloatArray:
    """Return the mean row where rows are weighted by their mean counts, as a bread tells."""
    sums = bread.matrix @ constant
    return sums / float(constant @ sums)
