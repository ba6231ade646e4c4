"""How far rows' gradients are let count, from released shares of rows by the size of their gradient."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.plan import Release
from privfit.problem.share_kernels import SIZE_ORIGIN
from privfit.solvers.histogram import believed, smoothed_out

_USUAL = 0.12
"""Part of what is cut off at the median size that usually leans to one side."""

_FALL = 0.6
"""Power of what is cut off with which the lean falls as the cut grows."""

LEAST_UNCUT = 0.38
"""Smallest part of the rows whose gradients are not cut: with less there is too little curvature."""


@dataclass(frozen=True, slots=True)
class Cut:
    """Where gradients are cut, relative to the bound on the slope, and what part of the rows is not."""

    size: float
    uncut: float


@final
@dataclass(frozen=True, eq=False)
class Sizes:
    """What a look at sizes shows, and where it is best to cut them.

    Parameters
    ----------
    size, chance : array of shape (k,)
        Points that stand for the rows, from the smallest size up, relative to the bound on the slope.
    dimension : float
        Entries' worth of noise in a gradient.
    n_rows : int

    Notes
    -----
    In whitened coordinates rows have gradients of sizes ``s``; cut at ``k`` the curvature falls to the part
    ``F`` with ``s < k``. Noise of standard deviation ``noise k`` in an entry then moves the estimate by a
    squared ``d (noise k / F)**2``, and the cut moves it, where errors are symmetric, by ``E (s - min(s, k) /
    F)**2 / n``: the difference of the two influence functions. Where they are not, what is cut off leans to
    one side, and the estimate with it. At the median size that lean is usually ``0.12 E(s - k)+ / (F
    sqrt(d))``, as if so much of what is cut off were on one side of the constant, one of ``d`` directions;
    a gradient that is cut there says more. At larger cuts it is taken to fall as ``(E(s - k)+)**0.6 / F``:
    between that of errors that are skewed at all sizes and that of ones which are so far out.
    """

    size: FloatArray
    chance: FloatArray
    dimension: float
    n_rows: int

    @classmethod
    def of(cls, release: Release, *, dimension: float, n_rows: int) -> "Sizes | None":
        """Return what a release of kind ``"sizes"`` says; None where noise hides it."""
        shares = believed(release.value, release.sd)
        if shares is None:
            return None
        places, chance = smoothed_out(shares)
        return cls(2.0 ** (places - 1.0 - SIZE_ORIGIN), chance, dimension, n_rows)

    @cached_property
    def _uncut(self) -> FloatArray:
        """Part of the rows below each cut."""
        return np.cumsum(self.chance)

    @cached_property
    def _cut_off(self) -> FloatArray:
        """Mean of what is cut off by each cut."""
        return np.maximum(self.size - self.size[:, None], 0.0) @ self.chance

    @cached_property
    def _middle(self) -> int:
        return int(np.argmax(self._uncut >= 0.5 * self._uncut[-1]))

    @property
    def median(self) -> Cut:
        """The cut at the median size."""
        return Cut(float(self.size[self._middle]), float(self._uncut[self._middle]))

    @property
    def usual_lean(self) -> float:
        """Squared distance by which a cut at the median size usually moves the estimate to one side."""
        off = _USUAL * float(self._cut_off[self._middle]) / self.median.uncut
        return off**2 / self.dimension

    def lean(self, squared: float, sd: float) -> float:
        """Return what `usual_lean` is for these rows, as far as a gradient tells.

        Parameters
        ----------
        squared : float
            Squared distance by which a cut at the median size seems to move the estimate.
        sd : float
            Standard deviation of the noise in an entry of that distance.

        Notes
        -----
        The linear Bayes estimate (Bühlmann 1967) from the squared distance less its noise, if leans spread
        as much as they usually are.
        """
        usual, noise = self.usual_lean, 2.0 * self.dimension * sd**4
        trust = usual**2 / (usual**2 + noise) if noise > 0.0 else 1.0
        return max(usual + trust * (squared - self.dimension * sd**2 - usual), 0.0)

    def best_cut(self, noise: float, lean: float) -> Cut:
        """Return the cut of least expected error against the uncut fit.

        Low where there is much noise, above nearly all sizes where there is little. Steps end with smaller
        residuals than they began with, so that it is found twice.

        Parameters
        ----------
        noise : float
            Standard deviation of the noise in an entry of the combined gradient, in units of the cut.
        lean : float
            `usual_lean`, or what `lean` says.
        """
        cuts = np.minimum(self.size, self.size[:, None])
        spread = ((self.size - cuts / self._uncut[:, None]) ** 2) @ self.chance / self.n_rows
        moved = self.dimension * (noise * self.size / self._uncut) ** 2
        error = moved + spread + lean * self._relative_lean**2
        best = int(np.argmin(np.where(self._uncut >= LEAST_UNCUT, error, np.inf)))
        return Cut(float(self.size[best]), float(self._uncut[best]))

    @property
    def _relative_lean(self) -> FloatArray:
        """How far each cut leans, relative to that at the median size."""
        off = self._cut_off / max(float(self._cut_off[self._middle]), math.ulp(0.0))
        return off**_FALL * self.median.uncut / self._uncut
