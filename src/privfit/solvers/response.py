"""What released marginals say about the response: the constant predictor to start from and shrink towards."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.stats import norm

from privfit._checks import FloatArray
from privfit.losses.multinomial import Multinomial
from privfit.losses.typical import constant_predictor
from privfit.problem.objective import Problem

_LONGEST_START = 8.0
"""Largest size of a constant linear predictor to start from."""

_RAREST = 1e-4
"""Smallest share that is believed."""

_FAR = -30.0
"""Standard deviations below 0 from which on a normal distribution's part above it is worked out otherwise."""

_USUAL_COUNT = 0.1
"""Mean count that is expected where noise hides it, relative to the bound on counts."""


class AbstractResponse(ABC):
    """The response's part of released marginals."""

    __slots__ = ()

    @property
    @abstractmethod
    def sd(self) -> float:
        """Standard deviation of the encoded response; 1 for one that is not numeric."""

    @abstractmethod
    def constant(self) -> FloatArray:
        """Return the constant linear predictors, shape (n_outputs,)."""


def released_response(problem: Problem, value: FloatArray, noise: float, *, hidden: bool) -> AbstractResponse:
    """Return what the last entries of marginals, in units of the norm bound, say.

    ``noise`` is their standard deviation, and ``hidden`` says that noise hides the mean weight of a row.
    """
    if isinstance(problem.loss, Multinomial):
        return ClassShares(problem.loss, value, noise)
    low, high = problem.response_range
    half = 0.5 * (high - low)
    u, squared_u = np.clip(value, -1.0, 1.0)
    if problem.loss.target_kind != "count":
        u /= 1.0 + 3.0 * noise**2  # the variance of a mean that may be anywhere is 1/3
    elif hidden:
        noise = 1.0  # half-way, where the mean then seems to be, is far from what is usual of counts
    return MeanResponse(
        problem,
        mean=0.5 * (low + high) + half * float(u),
        spread=half * math.sqrt(max(float(squared_u - u**2), noise)),
        error=half * noise,
    )


@final
@dataclass(frozen=True, slots=True, eq=False)
class MeanResponse(AbstractResponse):
    """Mean and standard deviation of a number, a label or a count.

    Parameters
    ----------
    problem : Problem
    mean, spread : float
        Mean and standard deviation of the encoded response.
    error : float
        Standard deviation of the noise in ``mean``.
    found : float, optional
        Constant predictor, where it has been found already.
    """

    problem: Problem
    mean: float
    spread: float
    error: float
    found: float | None = None

    @property
    def sd(self) -> float:
        """Standard deviation of the encoded response."""
        return self.spread

    def certain_variance(self, deviations: float) -> float:
        """Return that of the response less so many standard deviations of its noise."""
        low, high = self.problem.response_range
        return self.spread**2 - deviations * 0.5 * (high - low) * self.error

    def constant(self) -> FloatArray:
        """Return the constant linear predictor, shape (1,)."""
        if self.found is not None:
            return np.array([self.found])
        problem, mean = self.problem, self._believable()
        most = {"numeric": problem.response_range[1], "count": math.log(max(problem.response_range[1], 1.0))}
        limit = max(most.get(problem.loss.target_kind, 0.0), _LONGEST_START)
        return np.array([constant_predictor(problem.loss, mean, spread=self.spread, limit=limit)])

    def _believable(self) -> float:
        """Return the mean response; of ones a share as far from 0 and 1 as its noise is large."""
        if self.problem.loss.target_kind == "numeric":
            return self.mean
        low, high = self.problem.response_range
        if self.problem.loss.target_kind == "count":
            usual = _USUAL_COUNT * high
            least = max(min(2.0 * self.error, usual), _RAREST * high)  # from far below steps are too long
            return min(max(expected_mean(self.mean, self.error, usual), least), high)
        margin = min(max(2.0 * self.error, _RAREST * (high - low)), 0.5 * (high - low))
        return float(np.clip(self.mean, low + margin, high - margin))


def expected_mean(noisy: float, noise: float, usual: float) -> float:
    """Return the posterior mean of a positive number that was released with normal noise.

    Its prior is exponential, with mean ``usual``: the widest that is positive and has this mean. Logarithms
    of means near 0 reach far, so that a small mean is not to be believed where noise may have made it.
    """
    if noise == 0.0:
        return noisy
    shifted = (noisy - noise**2 / usual) / noise
    if shifted < _FAR:  # Mills' ratio, where its numbers would underflow
        return -noise / (shifted + 2.0 / shifted)
    return noise * (shifted + math.exp(norm.logpdf(shifted) - norm.logcdf(shifted)))


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClassShares(AbstractResponse):
    """Shares of the classes.

    Parameters
    ----------
    loss : Multinomial
    shares : array of shape (K,)
    error : float
        Standard deviation of the noise in a share.
    """

    loss: Multinomial
    shares: FloatArray
    error: float

    @property
    def sd(self) -> float:
        """1."""
        return 1.0

    def constant(self) -> FloatArray:
        """Return the logarithms of the shares, none less than its noise, shape (K - 1,)."""
        margin = min(max(2.0 * self.error, _RAREST), 1.0 / self.loss.n_classes)
        return self.loss.contrasts.T @ np.log(np.clip(self.shares, margin, 1.0))
