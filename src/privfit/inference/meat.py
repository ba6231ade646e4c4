"""The meat of the sandwich, drawn towards a multiple of the bread as far as noise hides the difference."""

from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.problem.plan import Release

LEAST_SPREAD = 0.3
"""Deviation of the meat from a multiple of the bread that is always thought possible, relative to it."""

_ROUNDS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Meat:
    """A second moment ``Q`` of the rows' gradients, positive semi-definite, and what noise leaves open.

    Parameters
    ----------
    matrix : array of shape (q, q)
    root : array of shape (q, q)
        Coordinates ``y = root.T @ u`` in which the noise that is left has independent entries.
    left : array of shape (q, q)
        Variances ``V`` such that that of ``u'Qu`` is ``(y * y)' V (y * y)``.
    """

    matrix: FloatArray
    root: FloatArray
    left: FloatArray

    def variance(self, directions: FloatArray) -> FloatArray:
        """Return the variance that noise gives ``u'Qu`` for every row ``u`` of ``directions``, shape (k,)."""
        squares = (directions @ self.root) ** 2
        return np.einsum("ki,ij,kj->k", squares, self.left, squares)


def meat_from(release: Release, bread: Bread, n_linear: int) -> Meat:
    """Return the posterior mean of the meat, made positive semi-definite.

    Parameters
    ----------
    release : Release
        Of kind ``"meat"``.
    bread : Bread
        At the same point.
    n_linear : int
        Number of coefficients. Entries of a scale, which is the last parameter, are taken as they are.

    Notes
    -----
    Where a model is right, the meat is a multiple of the bread (the information identity; the variance
    of the errors for least squares; ``tau (1 - tau)`` over the density for a quantile). The bread is
    resolved better, as its sensitivity is smaller. So in coordinates in which the bread is the
    identity, ``A = M^-1/2 Q M^-1/2``, entries are thought of as ``kappa I + D``, ``D`` symmetric with
    normal entries of standard deviation ``delta`` on and ``delta / sqrt(2)`` off the diagonal.
    ``kappa`` and ``delta`` are fitted to the released entries, whose noise is known, by the method of
    moments, and every entry is replaced by its posterior mean (Efron 2010, *Large-scale inference*,
    chapter 1). ``delta`` is at least `LEAST_SPREAD` times ``kappa``. As noise vanishes the meat is the
    released one, whatever the model.
    """
    sd, q, n = release.planned.sd, release.value.shape[0], n_linear
    if sd == 0.0:
        return Meat(_positive(release.value), np.eye(q), np.zeros((q, q)))
    values, vectors = np.linalg.eigh(bread.matrix[:n, :n])
    root = np.eye(q)
    root[:n, :n] = vectors * np.sqrt(values)
    unroot = np.eye(q)
    unroot[:n, :n] = vectors / np.sqrt(values)
    seen = unroot.T @ release.value @ unroot
    scale = np.concatenate([values, np.ones(q - n)]) ** -0.5
    noise = 0.5 * sd**2 * np.outer(scale, scale) ** 2 * (1.0 + np.eye(q))
    mean, left = seen.copy(), noise.copy()
    mean[:n, :n], left[:n, :n] = _posterior(seen[:n, :n], noise[:n, :n])
    doubled = left * (2.0 - np.eye(q))
    return Meat(_positive(root @ mean @ root.T), root, doubled)


def _posterior(seen: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return posterior means and variances of the entries of ``kappa I + D``, shape (n, n) each."""
    identity = np.eye(len(seen))
    part = 0.5 * (1.0 + identity)  # variance of an entry of D, relative to delta**2
    upper = np.triu(np.ones_like(seen, dtype=bool))
    kappa = error = float(np.abs(np.mean(np.diag(seen))))
    spread = kappa**2
    for _ in range(_ROUNDS):
        weights = 1.0 / (spread * np.diag(part) + np.diag(noise))
        error = 1.0 / float(weights.sum())
        kappa = max(error * float(weights @ np.diag(seen)), error**0.5)
        excess = (seen - kappa * identity) ** 2 - noise
        precision = (part / (spread * part + noise)) ** 2
        fitted = float(np.sum((precision * excess / part)[upper]) / np.sum(precision[upper]))
        spread = max(fitted, (LEAST_SPREAD * kappa) ** 2)
    kept = spread * part / (spread * part + noise)
    mean = kappa * identity + kept * (seen - kappa * identity)
    common = error * np.outer(1.0 - np.diag(kept), 1.0 - np.diag(kept)) * identity
    return mean, kept * noise + common


def _positive(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
