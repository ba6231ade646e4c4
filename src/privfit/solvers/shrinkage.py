"""Empirical-Bayes shrinkage of a noisy vector whose noise is known: post-processing of releases."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, njit, types

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.problem.turning import for_each

NULL_COUNT = 1.0
"""Coordinates' worth of prior belief that all signal is 0, which keeps noise from being taken for signal."""

_SURE = 3.0
"""Standard deviations of noise by which squares must exceed it to count as plain to see."""

DECISIVE = 10.0
"""Logarithm of a ratio of likelihoods from which on one of two beliefs gives way to the other."""

_RATIO = 2.0
"""Ratio of neighbouring prior variances."""

_ROUNDS = 100
"""Rounds of expectation and maximisation."""

_VECTOR = float64[::1]


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Posterior means and mean squares of the coordinates, each of shape (k,)."""

    mean: FloatArray
    square: FloatArray


def shrunk(noisy: FloatArray, variance: FloatArray, *, energy: float) -> Posterior:
    """Return the posterior of signals with known normal noise under a prior fitted to all of them.

    Parameters
    ----------
    noisy : array of shape (k,)
        Signal plus noise.
    variance : array of shape (k,)
        Variances of the noise; all positive.
    energy : float
        What is believable for the sum of the squared signals, unless more is plain to see.

    Notes
    -----
    The prior is a mixture of normal distributions about 0 with variances on a grid, its weights fitted by
    maximum likelihood with `NULL_COUNT` observations at variance 0 (Stephens 2017, *False discovery rates: a
    new deal*). So many small signals are shrunk alike, and a few large ones are left alone. Where that prior
    expects more than ``energy``, and more than noise would hide, weight is moved to variance 0; so it is
    where the noise has more than ``energy``.
    """
    noise = float(variance.sum())
    seen = float(noisy @ noisy) - noise - _SURE * math.sqrt(2.0 * float(variance @ variance))
    believable = max(energy, seen) if noise <= energy else energy
    return Posterior(*_posterior(noisy, variance, _grid(noisy, variance, believable), believable))


@lazily_compiled(_VECTOR(float64[:, ::1]))
def likeliest_weights(likelihood: Any) -> Any:
    """Return the weights of a mixture, shape (m,), fitted to likelihoods (k, m) and one more sight of 0."""
    return _likeliest(likelihood)


@njit(cache=True)
def _likeliest(likelihood: Any) -> Any:
    """Return what `likeliest_weights` does, to compiled functions."""
    k, m = likelihood.shape
    weights, following = np.full(m, 1.0 / m), np.empty(m)
    for _ in range(_ROUNDS):
        following[:] = 0.0
        following[0] = NULL_COUNT
        for i in range(k):
            total = 0.0
            for j in range(m):
                total += likelihood[i, j] * weights[j]
            part = 1.0 / total
            for j in range(m):
                following[j] += likelihood[i, j] * weights[j] * part
        for j in range(m):
            weights[j] = following[j] / (k + NULL_COUNT)
    return weights


@lazily_compiled(types.UniTuple(_VECTOR, 2)(_VECTOR, _VECTOR, _VECTOR, float64), error_model="numpy")
def _posterior(noisy: Any, variance: Any, grid: Any, believable: float) -> Any:
    """Return what `Posterior` holds, for a grid of prior variances (m,) and what their sum is held to.

    Written out, as arithmetic of arrays takes seconds more to compile.
    """
    k, m = noisy.size, grid.size
    likelihood = np.empty((k, m))
    for i in range(k):
        largest = -np.inf
        for j in range(m):
            spread = grid[j] + variance[i]
            likelihood[i, j] = -0.5 * (math.log(spread) + noisy[i] ** 2 / spread)
            largest = max(largest, likelihood[i, j])
        for j in range(m):
            likelihood[i, j] = math.exp(likelihood[i, j] - largest)
    weights = _likeliest(likelihood)
    expected = 0.0
    for j in range(m):
        expected += k * weights[j] * grid[j]
    if expected > believable:
        weights[0] = 1.0
        for j in range(1, m):
            weights[j] *= believable / expected
            weights[0] -= weights[j]
    mean, square = np.empty(k), np.empty(k)
    for i in range(k):
        total = first = second = 0.0
        for j in range(m):
            part, kept = likelihood[i, j] * weights[j], grid[j] / (grid[j] + variance[i])
            total += part
            first += part * kept * noisy[i]
            second += part * (kept * variance[i] + (kept * noisy[i]) ** 2)
        mean[i], square[i] = first / total, second / total
    return mean, square


def likelier_mean(
    noisy: FloatArray,
    noise: FloatArray,
    contrasts: FloatArray,
    *,
    energy: float,
    alike: FloatArray,
    otherwise: FloatArray,
) -> FloatArray:
    """Return the posterior mean of coefficients from an estimate whose noise has a known covariance.

    Parameters
    ----------
    noisy : array of shape (m p,)
        Coefficients of m predictors, one row of p after the other.
    noise : array of shape (m p, m p)
    contrasts : array of shape (K, m)
        What turns the m predictors into those of K classes, orthonormal columns; ``[[1.0]]`` for one.
    energy : float
        See `shrunk`.
    alike, otherwise : array of shape (p, p)
        Invertible: coefficients are ``alike`` times ones of which nothing is known beforehand that tells them
        apart, or ``otherwise`` times such where that is likelier.

    Notes
    -----
    Where columns are collinear, noise hides each of their coefficients, though not what they are together: a
    prior that is found for one at a time may then say that there is nothing, although the estimate as a whole
    is many standard deviations away from it. Such an estimate is tried with the other coordinates, which
    count if they make it ``exp(DECISIVE)`` times as likely.
    """
    usual = _belief(noisy, noise, contrasts, energy=energy, alike=alike)
    if otherwise is alike or usual.squared <= noisy.size + 2.0 * DECISIVE:
        return usual.mean
    other = _belief(noisy, noise, contrasts, energy=energy, alike=otherwise)
    return other.mean if other.log_likelihood() > usual.log_likelihood() + DECISIVE else usual.mean


@dataclass(frozen=True, slots=True, eq=False)
class _Belief:
    """A posterior mean, and how well its prior explains the estimate.

    Parameters
    ----------
    mean : array of shape (m p,)
    squared : float
        Squared length of the estimate in standard deviations of prior and noise together.
    total : array of shape (m p, m p)
        The covariance of both, in the coordinates that are alike.
    scale : array of shape (m p, m p)
        Coefficients in these coordinates.
    """

    mean: FloatArray
    squared: float
    total: FloatArray
    scale: FloatArray

    def log_likelihood(self) -> float:
        """Return it up to a constant."""
        size = float(np.linalg.slogdet(self.total)[1]) + 2.0 * float(np.linalg.slogdet(self.scale)[1])
        return -0.5 * (self.squared + size)


def _belief(
    noisy: FloatArray, noise: FloatArray, contrasts: FloatArray, *, energy: float, alike: FloatArray
) -> _Belief:
    """Return the posterior mean for coefficients that are ``alike``, and how likely the estimate was.

    Prior variances are found for the coefficients of every class, so that the result does not depend on the
    order of the classes. They are scaled by ``K / m``, as the contrasts take ``K - m`` directions away.
    """
    classes, m = contrasts.shape
    p = noisy.size // m
    scale = for_each(m, alike)
    inverse: FloatArray = np.asarray(np.linalg.inv(scale), dtype=np.float64)
    noisy, noise = inverse @ noisy, _both_sides(inverse, noise)
    of_columns = np.einsum("ajbj->jab", noise.reshape(m, p, m, p))
    variance = np.sum((contrasts @ of_columns) * contrasts, axis=2).T
    signals = (contrasts @ noisy.reshape(m, p)).ravel()
    squares = shrunk(signals, variance.ravel(), energy=energy).square.reshape(classes, p)
    prior, column = np.zeros((m, p, m, p)), np.arange(p)
    prior[:, column, :, column] = contrasts.T @ (squares.T[:, :, None] * contrasts) * classes / m
    prior = prior.reshape(noise.shape)
    total = prior + noise
    weighed = np.linalg.solve(total, noisy)
    return _Belief(scale @ prior @ weighed, float(noisy @ weighed), total, scale)


def _both_sides(factor: FloatArray, matrix: FloatArray) -> FloatArray:
    """Return a symmetric matrix times a factor from both sides, symmetric to the last bit."""
    product = factor @ matrix @ factor.T
    return 0.5 * (product + product.T)


@lazily_compiled(_VECTOR(_VECTOR, _VECTOR, float64), error_model="numpy")
def _grid(noisy: Any, variance: Any, believable: float) -> Any:
    """Return prior variances from 0 up to the largest square or what is believable."""
    least, excess = variance[0], noisy[0] ** 2 - variance[0]
    for i in range(1, noisy.size):
        least, excess = min(least, variance[i]), max(excess, noisy[i] ** 2 - variance[i])
    first = least / 16.0
    largest = min(max(4.0 * excess, 1e-12), believable)
    count = max(math.ceil(math.log(largest / first) / math.log(_RATIO)), 1)
    grid = np.zeros(count + 1)
    for j in range(count):
        grid[j + 1] = first * _RATIO**j
    return grid
