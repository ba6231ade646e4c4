"""Running sums of secret vectors with noise that grows with the logarithm of their number."""

import numpy as np

from privfit._checks import FloatArray
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

    Notes
    -----
    *Guarantee.* A round is in at most ``floor(log2 T) + 1`` nodes (`depth`), and every node is released with
    the largest sensitivity among its rounds: replacing one row changes one round, so each of these nodes
    costs its price and all others nothing (Dwork, Naor, Pitassi and Rothblum 2010; Chan, Shi and Song 2011).
    The sum over a node is that of a balanced tree; its rounding, at most ``2**j (j + 2) 2**-53`` times the
    largest difference for ``2**j`` rounds, is added to the sensitivity for both neighbours, as is that of
    the division by the sensitivity.
    """

    __slots__ = ("_deviations", "_exact", "_noise", "_noisy", "_round", "_rounds", "_sensitivities")

    def __init__(self, size: int, rounds: int, noise: AbstractRepeatedNoise) -> None:
        levels = depth(rounds)
        self._noise, self._rounds, self._round = noise, rounds, 0
        self._exact, self._noisy = np.zeros((levels, size)), np.zeros((levels, size))
        self._sensitivities, self._deviations = [0.0] * levels, [0.0] * levels

    def __repr__(self) -> str:
        return "NoisyTree(<private sums>)"

    def __reduce__(self) -> str:
        raise TypeError("a tree holds private sums and cannot be pickled")

    @property
    def nodes(self) -> int:
        """Number of sums that are kept."""
        return self._round.bit_count()

    def step(self, vector: FloatArray, sensitivity: float) -> tuple[FloatArray, float]:
        """Add the vector of a round.

        Parameters
        ----------
        vector : array of shape (d,)
            Secret.
        sensitivity : float
            By how much replacing a row can change it; a function of earlier releases. The vector itself is
            no longer.

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
        total = vector + self._exact[:level].sum(axis=0) if level else vector
        largest = max([sensitivity, *self._sensitivities[:level]])
        bound = largest * (1.0 + (level + 4) * 2.0 ** (level - 50))
        self._exact[:level], self._noisy[:level] = 0.0, 0.0
        self._deviations[:level] = [0.0] * level
        self._exact[level], self._sensitivities[level] = total, largest
        self._noisy[level] = self._noise.release(total, bound)
        self._deviations[level] = bound * self._noise.deviation
        return self._noisy.sum(axis=0), sum(self._deviations)


def depth(rounds: int) -> int:
    """Return the largest number of nodes that hold one round: ``floor(log2(rounds)) + 1``."""
    return rounds.bit_length()
