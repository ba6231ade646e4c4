"""Mean responses that predictors stand for, of losses whose slopes are means less responses."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray

_SMALLEST = 1e-300


class AbstractMeans(ABC):
    """Means of K numbers of a response, by m linear predictors and a canonical link.

    A row's slopes are what predictors see of the means less the response.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def lift(self) -> FloatArray:
        """What slopes are multiplied by to be means less responses, shape (K, m).

        Row k is also the shortest change of predictors that raises the logarithm of mean k alone by 1, beside
        what all have in common.
        """

    @abstractmethod
    def at(self, eta: FloatArray) -> FloatArray:
        """Return the means, shape (K, ...), at predictors of shape (m, ...)."""

    @abstractmethod
    def variance(self, means: FloatArray) -> FloatArray:
        """Return the variance of each number where the model is right: the curvature along its own change."""

    def predictors(self, means: FloatArray) -> FloatArray:
        """Return the predictors, shape (m, ...), with these means, (K, ...)."""
        logs = np.log(np.maximum(means, _SMALLEST))
        return np.asarray(np.tensordot(self.lift.T, logs, 1), dtype=np.float64)


def of_classes(contrasts: FloatArray, eta: FloatArray) -> FloatArray:
    """Return ``contrasts @ eta`` (K, n) for ``eta`` (m, n).

    Each column depends on that of ``eta`` alone, to the last bit. Those of products by BLAS do not: see
    `privfit.data.predictors`.
    """
    found = contrasts[:, :1] * eta[0]
    for column, one in zip(contrasts.T[1:], eta[1:], strict=True):
        found += column[:, None] * one
    return found


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClassMeans(AbstractMeans):
    """Probabilities of K classes with logarithms ``contrasts @ eta`` up to a constant.

    Parameters
    ----------
    contrasts : array of shape (K, K - 1)
        Columns that sum to 0.
    """

    contrasts: FloatArray

    @property
    def lift(self) -> FloatArray:
        """``U (U'U)^-1``."""
        return np.asarray(np.linalg.pinv(self.contrasts).T, dtype=np.float64)

    def at(self, eta: FloatArray) -> FloatArray:
        """Return the probabilities."""
        chances = of_classes(self.contrasts, eta.reshape(len(eta), -1))
        chances -= chances.max(axis=0)
        np.exp(chances, out=chances)
        chances /= chances.sum(axis=0)
        return chances.reshape(-1, *eta.shape[1:])

    def variance(self, means: FloatArray) -> FloatArray:
        """Return ``p (1 - p)``."""
        return means * (1.0 - means)


@final
@dataclass(frozen=True, slots=True)
class CountMeans(AbstractMeans):
    """The mean ``exp(eta)`` of a count, up to a bound on ``eta``.

    Parameters
    ----------
    bound : float
    """

    bound: float

    @property
    def lift(self) -> FloatArray:
        """1."""
        return np.ones((1, 1))

    def at(self, eta: FloatArray) -> FloatArray:
        """Return the mean."""
        return np.exp(np.minimum(eta, self.bound))

    def variance(self, means: FloatArray) -> FloatArray:
        """Return the mean."""
        return means
