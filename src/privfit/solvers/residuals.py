"""Where residuals are and how densely, from released shares of rows by their residual."""

import math
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.bounded_kernels import SIDE_CLASSES, SIDES_A_DOUBLING
from privfit.problem.plan import Release

_EDGES = 2.0 ** ((np.arange(SIDE_CLASSES) + 1.0 - SIDE_CLASSES) / SIDES_A_DOUBLING)
"""Upper edges of the classes of sizes."""

_CLEAR = 3.5
"""Standard deviations of noise that a share must exceed to count."""


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """What a look at residuals shows, in units of the largest class's edge.

    Parameters
    ----------
    shares : array of shape (2 * SIDE_CLASSES,)
        Of rows in each class, from the lowest residuals to the highest.
    noise : float
        Standard deviation of the noise in each.
    """

    shares: FloatArray
    noise: float

    @classmethod
    def of(cls, release: Release) -> "Residuals":
        """Return what a release of kind ``"residuals"`` says."""
        return cls(release.value, release.sd)

    def quantile(self, tau: float) -> float | None:
        """Return about the ``tau`` quantile of the residuals; None where noise hides it.

        Residuals are taken to be even within each class, and none to be beyond the edges of the last two.
        """
        below = np.concatenate([[0.0], np.cumsum(self.shares)])
        if min(tau, 1.0 - tau) < _CLEAR * self.noise * math.sqrt(SIDE_CLASSES):
            return None
        edges = np.concatenate([-_EDGES[::-1], [0.0], _EDGES])
        rising = np.maximum.accumulate(below) / max(float(below[-1]), 0.5)
        return float(np.interp(tau, rising, edges))

    @property
    def below(self) -> tuple[float, float]:
        """Return the share of negative residuals, and the standard deviation of its noise."""
        return float(np.sum(self.shares[:SIDE_CLASSES])), self.noise * math.sqrt(SIDE_CLASSES)

    def reach(self, share: float) -> float | None:
        """Return the size that about this share of the residuals keeps within; None where noise hides it.

        Notes
        -----
        Up to every edge the shares are fitted, by least squares, by those of residuals that are even near 0,
        which halve with every halving of the size. So noise in the many small classes counts little. Where
        many are far nearer, as those of responses with heaps are, that is too few; as many as are within an
        edge beyond what noise may add are.
        """
        sizes = self.shares[SIDE_CLASSES:] + self.shares[SIDE_CLASSES - 1 :: -1]
        parts = np.diff(_EDGES, prepend=0.0)
        squares = np.cumsum(parts**2)
        even, noise = _EDGES / squares, math.sqrt(2.0) * self.noise
        certain = np.cumsum(sizes) - _CLEAR * noise * np.sqrt(np.arange(1.0, SIDE_CLASSES + 1.0))
        within, noise = np.maximum(even * np.cumsum(sizes * parts), certain), noise * even * np.sqrt(squares)
        reached = np.flatnonzero((within >= share)[:-1])  # the last class is open
        if not reached.size or share < _CLEAR * float(noise[-2]):
            return None
        first = int(reached[0])
        return float(_EDGES[first] * share / within[first])
