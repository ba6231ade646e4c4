"""Running sums of secret vectors with noise that grows with the logarithm of their number."""

from typing import Any

import numpy as np
from numba import int64, void

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.row_types import MATRIX, VECTOR
from privfit.errors import PlanViolation
from privfit.privacy.repeated import AbstractRepeatedNoise


class NoisyTree:
    """Tree aggregation: sums over dyadic stretches of rounds are released, each once.

    The node that closes in round t holds rounds ``t - lowbit(t) + 1 .. t``. The released sums of the nodes
    left in place add up to a noisy sum of all rounds so far. Only these are kept, at most
    ``floor(log2 t) + 1``, so memory is O(d log T); noise is drawn once a node and never again.

    Parameters
    ----------
    size : int
        Length d of the vectors.
    rounds : int
        Largest number of rounds, T.
    noise : AbstractRepeatedNoise
        Releases a node, at a fixed cost.
    ratio : float
        Bound on the norm of a vector over its sensitivity.

    Notes
    -----
    *Guarantee.* A round is in at most ``floor(log2 T) + 1`` nodes (`depth`), and every node is released with
    the largest sensitivity among its rounds: replacing one row changes one round, so each of these nodes
    costs its price and all others nothing (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011).
    In the sum of a node of ``2**j`` rounds a vector takes part in at most ``(j + 1) (j + 2) / 2`` additions,
    so the rounding is at most ``2**j (j + 1) (j + 2) / 2 * 2**-53`` times the longest vector. That is added
    to the sensitivity for both neighbours, with the rounding of the division by the sensitivity.
    """

    __slots__ = ("_deviations", "_exact", "_noise", "_noisy", "_ratio", "_round", "_rounds", "_sensitivities")

    def __init__(self, size: int, rounds: int, noise: AbstractRepeatedNoise, *, ratio: float = 1.0) -> None:
        levels = depth(rounds)
        self._noise, self._ratio, self._rounds, self._round = noise, ratio, rounds, 0
        self._exact, self._noisy = np.zeros((levels, size)), np.zeros((levels, size))
        self._sensitivities, self._deviations = [0.0] * levels, [0.0] * levels

    def __repr__(self) -> str:
        return "NoisyTree(<private sums>)"

    def __reduce__(self) -> str:
        raise TypeError("a tree holds private sums and cannot be pickled")

    def step(self, vector: FloatArray, sensitivity: float) -> tuple[FloatArray, float]:
        """Add the vector of a round.

        Parameters
        ----------
        vector : array of shape (d,)
            Secret.
        sensitivity : float
            By how much replacing a row can change it; a function of earlier releases.

        Returns
        -------
        total : array of shape (d,)
            Noisy sum of all vectors so far: released.
        spread : float
            Sum over the nodes in it of the noise's standard deviation per coordinate.

        Raises
        ------
        PlanViolation
            If it is called more often than planned.
        """
        if self._round == self._rounds:
            raise PlanViolation("a tree takes no more rounds than it was planned for")
        self._round += 1
        level = (self._round & -self._round).bit_length() - 1
        largest = max([sensitivity, *self._sensitivities[:level]])
        bound = largest * (1.0 + self._ratio * (level + 2) ** 2 * 2.0 ** (level - 52))
        _merge(self._exact, level, vector)
        fresh = self._noise.release(self._exact[level], bound)
        total = np.empty(fresh.size)
        _replace(self._noisy, level, fresh, total)
        self._deviations[:level] = [0.0] * level
        self._sensitivities[level], self._deviations[level] = largest, bound * self._noise.deviation
        return total, sum(self._deviations)


@lazily_compiled(void(MATRIX, int64, VECTOR), nogil=True)
def _merge(sums: Any, level: int, vector: Any) -> None:
    """Set ``sums[level]`` to the vector plus all lower sums, and these to 0."""
    for j in range(vector.size):
        total = vector[j]
        for k in range(level):
            total += sums[k, j]
            sums[k, j] = 0.0
        sums[level, j] = total


@lazily_compiled(void(MATRIX, int64, VECTOR, VECTOR), nogil=True)
def _replace(sums: Any, level: int, fresh: Any, total: Any) -> None:
    """Set ``sums[level]``, the lower sums to 0, and ``total`` to the sum of all."""
    for j in range(fresh.size):
        sums[level, j] = fresh[j]
        total[j] = 0.0
        for k in range(level):
            sums[k, j] = 0.0
        for k in range(level, sums.shape[0]):
            total[j] += sums[k, j]


def depth(rounds: int) -> int:
    """Return the largest number of nodes that hold one round: ``floor(log2(rounds)) + 1``."""
    return rounds.bit_length()
