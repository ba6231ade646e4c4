"""Scores of outcomes that are large for the second table, learnt from runs on both."""

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray


class AbstractOutcomeScore(ABC):
    """A number for each outcome. What it knows it has learnt from runs that the bound does not use."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The score in words."""

    @abstractmethod
    def of(self, outcomes: FloatArray) -> FloatArray:
        """Return the scores, shape (m,), of outcomes of shape (m, k)."""

    @abstractmethod
    def of_learnt(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the scores of the outcomes it has learnt from, without what each says about itself."""


@final
@dataclass(frozen=True, eq=False)
class LinearScore(AbstractOutcomeScore):
    """The likelihood ratio of two Gaussian laws with one covariance (Fisher's discriminant).

    It is the best there is where noise is Gaussian and answers are linear in earlier ones.

    Parameters
    ----------
    direction : array of shape (k,)
    """

    direction: FloatArray

    @classmethod
    def learn(cls, first: FloatArray, second: FloatArray) -> "LinearScore":
        """Return the direction that separates the outcomes of two tables, each of shape (m, k).

        A combination of releases without noise, as where noise is used twice, gets all the weight.
        """
        size = np.maximum(np.abs(first).max(axis=0), np.abs(second).max(axis=0))
        size = np.where(size > 0, size, 1.0)  # squares of huge outcomes overflow
        first, second = first / size, second / size
        apart = second.mean(axis=0) - first.mean(axis=0)
        pooled = np.vstack([first - first.mean(axis=0), second - second.mean(axis=0)])
        spread = np.sqrt((pooled**2).mean(axis=0))
        scale = np.where(spread > 0, spread, 1.0)
        covariance = (pooled / scale).T @ (pooled / scale) / len(pooled)
        values, vectors = np.linalg.eigh(covariance)
        floored = np.maximum(values, 1e-13 * max(float(values.max(initial=0.0)), 1.0))
        direction = vectors @ ((vectors.T @ (apart / scale)) / floored)
        return cls(direction / scale / size)

    @property
    def name(self) -> str:
        """The score in words."""
        return "linear in all releases"

    def of(self, outcomes: FloatArray) -> FloatArray:
        """Return the projections on the direction."""
        return outcomes @ self.direction

    def of_learnt(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the projections: what one outcome adds to the direction is negligible."""
        return self.of(first), self.of(second)


@final
@dataclass(frozen=True, eq=False)
class RepeatScore(AbstractOutcomeScore):
    """How often exactly this outcome was seen with either table.

    Noise that repeats, as from a generator with few seeds, gives itself away by its outcomes, and an outcome
    out of a few by its frequencies. With sound continuous or fine-grained noise nothing repeats.

    Parameters
    ----------
    first, second : Counter
        Number of times that an outcome was seen.
    """

    first: Counter[bytes]
    second: Counter[bytes]

    @classmethod
    def learn(cls, first: FloatArray, second: FloatArray) -> "RepeatScore":
        """Count the outcomes, each of shape (m, k)."""
        return cls(Counter(_keys(first)), Counter(_keys(second)))

    @property
    def name(self) -> str:
        """The score in words."""
        return "outcomes that were seen before"

    def of(self, outcomes: FloatArray) -> FloatArray:
        """Return logarithms of ratios of counts, 0 for what was never seen."""
        return np.array([self._ratio(key, 0, 0) for key in _keys(outcomes)])

    def of_learnt(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same with the outcome itself not counted."""
        return (
            np.array([self._ratio(key, 1, 0) for key in _keys(first)]),
            np.array([self._ratio(key, 0, 1) for key in _keys(second)]),
        )

    def _ratio(self, key: bytes, first: int, second: int) -> float:
        return float(np.log((1 + self.second[key] - second) / (1 + self.first[key] - first)))


def _keys(outcomes: FloatArray) -> list[bytes]:
    return [row.tobytes() for row in np.ascontiguousarray(outcomes)]
