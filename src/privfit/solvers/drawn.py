"""A noisy symmetric matrix: drawn to a multiple of a better known one, and its eigenvalues without noise."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, types

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.solvers.base import quadratic_forms

LEAST_SPREAD = 0.3
"""Deviation from a multiple of the reference that is always thought possible, relative to it."""

_ROUNDS = 20

_TILT = 1e-7
"""What is added to the reference along its last axis, less along others, in units of its mean eigenvalue:
axes of equal eigenvalues would otherwise be what rounding makes them."""

_SURELY = 2.0
"""Standard deviations of a direction above the fitted multiple up to which a bound on it is believed."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """The posterior mean of a symmetric matrix, and what noise leaves open.

    Parameters
    ----------
    matrix : array of shape (q, q)
    center : array of shape (q, q)
        Mean of the prior: the multiple of the reference, and entries that are taken as they are.
    root : array of shape (q, q)
        Coordinates ``y = root.T @ u`` in which the noise that is left has independent entries.
    left : array of shape (q, q)
        Variances of the entries of the symmetric noise that is left in these coordinates.
    kept : float
        Their sum, relative to that of the noise.
    """

    matrix: FloatArray
    center: FloatArray
    root: FloatArray
    left: FloatArray
    kept: float = 1.0

    def variance(self, directions: FloatArray) -> FloatArray:
        """Return the variance that is left in ``u'Qu`` for every row ``u`` of ``directions``, shape (k,)."""
        squares = (directions @ self.root) ** 2
        twice = self.left * (2.0 - np.eye(len(self.left)))  # an entry off the diagonal counts twice
        return quadratic_forms(squares, twice)


def drawn_towards(
    reference: FloatArray,
    released: FloatArray,
    sd: float,
    *,
    least: float = 0.0,
    generous: bool = False,
    spread: float = LEAST_SPREAD,
    most: float = math.inf,
) -> Drawn:
    """Return the posterior mean of a released matrix under a prior about multiples of ``reference``.

    Parameters
    ----------
    reference : array of shape (n, n)
        Positive definite.
    released : array of shape (q, q)
        With ``q >= n``. Entries beyond the first n rows and columns are taken as they are.
    sd : float
        Standard deviation of the noise in a diagonal entry (off the diagonal ``sd / sqrt(2)``); positive.
    least : float
        Smallest multiple that the prior is about.
    generous : bool
        Whether ``least`` may be far above what the multiple is. It is then lowered to two standard deviations
        of a direction above the one that the released entries say: a prior about a multiple that they rule
        out would take the noise for differences between directions.
    spread : float
        Smallest deviation from the multiple that is thought possible, relative to it.
    most : float
        Standard deviations of its noise by which an entry is drawn at most (limited translation, Efron and
        Morris 1972).

    Notes
    -----
    In coordinates in which the reference ``R`` is the identity, entries of ``A = R^-1/2 Q R^-1/2`` are
    thought of as ``kappa I + D``, ``D`` symmetric with normal entries of standard deviation ``delta`` on and
    ``delta / sqrt(2)`` off the diagonal. ``kappa`` and ``delta`` are fitted to the released entries,
    whose noise is known, by the method of moments, and every entry is replaced by its posterior mean
    (Efron 2010, *Large-scale inference*, chapter 1). ``delta`` is at least ``spread`` times ``kappa``. As
    noise vanishes the mean is the released matrix.
    """
    n, q = len(reference), len(released)
    tilt = _TILT * np.trace(reference) / n * np.linspace(0.0, 1.0, n)
    values, vectors = np.linalg.eigh(reference + np.diag(tilt))
    root, unroot = np.eye(q), np.eye(q)
    root[:n, :n] = vectors * np.sqrt(values)
    unroot[:n, :n] = vectors / np.sqrt(values)
    seen = unroot.T @ released @ unroot
    scale = np.concatenate([values, np.ones(q - n)]) ** -0.5
    noise = 0.5 * sd**2 * np.outer(scale, scale) ** 2 * (1.0 + np.eye(q))
    center, mean, left = seen.copy(), seen.copy(), noise.copy()
    if generous:
        kappa, error, squared = _fitted(seen[:n, :n], noise[:n, :n], 0.0, spread)
        least = min(least, kappa + _SURELY * (error + squared) ** 0.5)
    center[:n, :n], posterior, variance = _posterior(seen[:n, :n], noise[:n, :n], least, spread)
    move, furthest = posterior - seen[:n, :n], most * np.sqrt(noise[:n, :n])
    mean[:n, :n] += np.clip(move, -furthest, furthest)
    left[:n, :n] = np.where(np.abs(move) > furthest, noise[:n, :n], variance)
    kept = float(np.sum(left) / np.sum(noise))
    return Drawn(root @ mean @ root.T, root @ center @ root.T, root, left, kept)


@lazily_compiled(
    types.UniTuple(float64, 3)(float64[:, :], float64[:, :], float64, float64),
    error_model="numpy",
)
def _fitted(seen: Any, noise: Any, least: float, lowest: float) -> Any:
    """Return ``kappa``, the variance with which it is known and ``delta**2`` by the method of moments.

    ``kappa`` is at least ``least``, ``delta`` at least ``lowest * kappa``.
    """
    n = len(seen)
    kappa = error = abs(np.trace(seen)) / n
    spread = kappa**2
    for _ in range(_ROUNDS):
        precision = mean = 0.0
        for i in range(n):
            weight = 1.0 / (spread + noise[i, i])
            precision, mean = precision + weight, mean + weight * seen[i, i]
        error = 1.0 / precision
        kappa = max(error * mean, error**0.5, least)
        excess = weights = 0.0
        for i in range(n):
            for j in range(i, n):
                part, expected = (1.0, kappa) if i == j else (0.5, 0.0)
                weight = (part / (spread * part + noise[i, j])) ** 2
                excess += weight * ((seen[i, j] - expected) ** 2 - noise[i, j]) / part
                weights += weight
        spread = max(excess / weights, (lowest * kappa) ** 2)
    return kappa, error, spread


def _parts(size: int) -> FloatArray:
    """Return the variances of the entries of ``D``, relative to ``delta**2``."""
    return 0.5 * (1.0 + np.eye(size))


def _posterior(
    seen: FloatArray, noise: FloatArray, least: float, lowest: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ``kappa I``, posterior means and variances of the entries of ``kappa I + D``, (n, n) each."""
    identity, part = np.eye(len(seen)), _parts(len(seen))
    kappa, error, spread = _fitted(seen, noise, least, lowest)
    kept = spread * part / (spread * part + noise)
    center = kappa * identity
    mean = center + kept * (seen - center)
    common = error * np.outer(1.0 - np.diag(kept), 1.0 - np.diag(kept)) * identity
    return center, mean, kept * noise + common


def denoised(values: FloatArray, noise: float) -> FloatArray:
    """Return eigenvalues of a symmetric matrix from those of it and symmetric normal noise.

    Parameters
    ----------
    values : array of shape (k,)
        Eigenvalues with noise, in increasing order.
    noise : float
        Standard deviation of the noise on the diagonal; off it, it is less by the root of 2.

    Returns
    -------
    array of shape (k,)
        At least 0, in increasing order.

    Notes
    -----
    Noise drives eigenvalues apart: those of the least eigenvectors are too small, those of the largest too
    large. What is wanted is ``v' S v`` for every noisy eigenvector ``v`` of ``S + W``, on average
    ``value - noise**2 * sum 1 / (value - other)`` (Bun, Allez, Bouchaud and Potters 2016, *Rotational
    invariant estimator for general noisy matrices*). Differences of the size of the noise are smoothed. So
    where noise hides all differences the eigenvalues are about equal, and their mean is kept.
    """
    apart = values[:, None] - values
    pull = np.divide(apart, apart**2 + 2.0 * noise**2, out=np.zeros_like(apart), where=apart != 0.0)
    return np.maximum(np.sort(values - noise**2 * pull.sum(axis=1)), 0.0)
