"""Levels of factors: their shares from noisy means, and coordinates in which none is special."""

import math
from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.solvers.base import raised_eigenvalues
from privfit.solvers.shrinkage import likeliest_weights

_RATIO = math.sqrt(2.0)
"""Ratio of neighbouring points of the prior of shares."""

_FIRST, _MOST_FIRST = 0.125, 0.05
"""The smallest point above 0, in standard deviations of noise, and the most that it may be."""

_WIDTH = 0.25
"""Standard deviation of the prior about a point, relative to the point: no gap is left between two."""


def level_shares(noisy: FloatArray, noise: float) -> FloatArray:
    """Return shares (k,) of rows from noisy ones, by a prior on [0, 1] that is fitted to all of them.

    Parameters
    ----------
    noisy : array of shape (k,)
        Means of indicators with normal noise.
    noise : float
        Its standard deviation.

    Notes
    -----
    Levels are many where their shares are small, and often about as frequent as each other: shrunk towards
    0, all of them would be too small together, and the level that is left out too frequent by their sum. So
    the prior is a mixture of normal distributions about points of [0, 1], weighted by maximum likelihood
    (Kiefer and Wolfowitz 1956; with as much belief in 0 as in `privfit.solvers.shrinkage`).
    """
    if noise == 0.0 or noisy.size == 0:
        return np.clip(noisy, 0.0, 1.0)
    first = min(_FIRST * noise, _MOST_FIRST)
    count = math.ceil(math.log(1.0 / first) / math.log(_RATIO)) + 1
    points = np.concatenate([[0.0], np.geomspace(first, 1.0, count)])
    spread = (_WIDTH * points) ** 2
    total, away = spread + noise**2, noisy[:, None] - points
    logs = -0.5 * (away**2 / total + np.log(total))
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    belief = likelihood * likeliest_weights(likelihood)
    found = np.sum(belief * (points + spread / total * away), axis=1) / belief.sum(axis=1)
    return np.clip(found, 0.0, 1.0)


def level_coding(shares: FloatArray, added: float) -> FloatArray:
    """Return what indicators of a factor are multiplied by, (k, k), to have about unit variance together.

    Parameters
    ----------
    shares : array of shape (k,)
        Of the levels that have an indicator, all but one.
    added : float
        Variance that is added for the noise in them; positive.

    Notes
    -----
    It is an inverse root of their covariance. A row has one level, so that shares ``s`` say all of that:
    ``diag(s) - s s'``. As far as what is added exceeds it, it is drawn to that of levels which are as
    frequent as each other, with the same chance that two rows differ; what is added is a multiple of the
    latter, too. So where noise hides the shares the levels are the corners of a regular simplex. A multiple
    of the identity would leave them at corners of a cube next to the origin, where the level left out is:
    nearer to the others than these to each other. Along its direction the variance would be less by the
    number of levels, and steps slow.
    """
    count, covariance = shares.size, np.diag(shares) - np.outer(shares, shares)
    even = np.eye(count) - 1.0 / (count + 1.0)
    variance = _chance_to_differ(shares) / count
    drawn = added / (added + variance)
    covariance = (1.0 - drawn) * covariance + (drawn * variance + added) * even
    values, vectors = np.linalg.eigh(covariance)
    return (vectors / np.sqrt(raised_eigenvalues(values, added / (count + 1.0)))) @ vectors.T


def level_contrasts(count: int) -> FloatArray:
    """Return what turns independent numbers into coefficients of a factor's levels but one, (k, k).

    The coefficients are the levels' own effects less that of the level left out. Those are independent and
    alike, and differ by a standard deviation of 2, as one coefficient per half a step from 0 to 1 does.
    """
    shared = (math.sqrt(count + 1.0) - 1.0) / count
    return math.sqrt(2.0) * (np.eye(count) + shared)


def _chance_to_differ(shares: FloatArray) -> float:
    """Return the chance that two rows have different levels; ``shares`` are of all levels but one."""
    whole = np.append(shares, max(1.0 - float(shares.sum()), 0.0))
    whole /= whole.sum()
    return 1.0 - float(whole @ whole)


def moves_of(problem: Problem, at_bounds: Sequence[int]) -> FloatArray:
    """Return what moves the predictors of the rows of a level by 1, and no others, for all levels, (L, p).

    Those of each factor of a problem, the level without an indicator first, and those of numbers in the
    places ``at_bounds``, which are at a bound, -1 or 1, in every row. None without an intercept.
    """
    p = problem.n_coef
    if not problem.has_intercept:
        return np.zeros((0, p))
    factors = [_moves_of_levels(list(places), p) for places in problem.factors]
    return np.concatenate([np.zeros((0, p)), *factors, *(_moves_of_bounds(place, p) for place in at_bounds)])


def moves_of_cells(problem: Problem) -> FloatArray:
    """Return what moves the predictors of the rows of each cell of a product of factors by 1, (C, p)."""
    moves = np.zeros((len(problem.cells), problem.n_coef))
    for move, cell in zip(moves, problem.cells, strict=True):
        places, coefficients = zip(*cell.made_of, strict=True)
        move[list(places)] = coefficients
    return moves


def _moves_of_levels(places: list[int], size: int) -> FloatArray:
    moves, own = np.zeros((1 + len(places), size)), np.eye(1 + len(places))[:, 1:]
    moves[0, 0], moves[:, places] = 1.0, own
    moves[0, places] = -1.0
    return moves


def _moves_of_bounds(place: int, size: int) -> FloatArray:
    moves = np.zeros((2, size))
    moves[:, 0], moves[:, place] = 0.5, (-0.5, 0.5)
    return moves
