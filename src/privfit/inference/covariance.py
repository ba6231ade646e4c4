"""Bread, meat and the sandwich, each with the noise it carries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.solvers.base import floored_inverse, noise_norm


@dataclass(frozen=True, slots=True, eq=False)
class Bread:
    """A released Hessian ``M`` of the objective, ridge included.

    Parameters
    ----------
    matrix, inverse : array of shape (q, q)
        Both after raising eigenvalues to half the noise's spectral norm.
    sd : float
        Noise standard deviation of a diagonal entry (off the diagonal ``sd / sqrt(2)``).
    """

    matrix: FloatArray
    inverse: FloatArray
    sd: float


@dataclass(frozen=True, slots=True, eq=False)
class Meat:
    """A released second moment ``Q`` of the rows' gradients, made positive semi-definite.

    Parameters
    ----------
    matrix : array of shape (q, q)
    sd : float
        Noise standard deviation of a diagonal entry.
    """

    matrix: FloatArray
    sd: float


def bread_from(problem: Problem, releases: Sequence[Release]) -> Bread:
    """Average released Hessians by precision, floor the eigenvalues and invert.

    Parameters
    ----------
    problem : Problem
    releases : sequence of Release
        Hessians (times the scale) at points near the solution.

    Notes
    -----
    A direction in which the released curvature is below half the noise's spectral norm is not resolved.
    Its eigenvalue is raised to that level, so its standard error is large: of the order of the gradient's
    noise over the bread's.
    """
    scales = np.array([problem.split(release.at)[1] for release in releases])
    sds = np.array([release.planned.sd for release in releases]) / scales
    weights = 1.0 / sds**2 if (sds > 0).all() else np.ones(len(releases))
    weights = weights / weights.sum()
    values = np.array([release.value for release in releases]) / scales[:, None, None]
    matrix, sd = np.tensordot(weights, values, axes=1), float(np.sqrt(np.sum((weights * sds) ** 2)))
    inverse = floored_inverse(matrix + problem.ridge, 0.5 * noise_norm(sd, problem.size))
    return Bread(np.linalg.inv(inverse), inverse, sd)


def meat_from(release: Release) -> Meat:
    """Project a released meat to the positive semi-definite matrices."""
    values, vectors = np.linalg.eigh(release.value)
    return Meat((vectors * np.maximum(values, 0.0)) @ vectors.T, release.planned.sd)


def sandwich(bread: Bread, meat: Meat, n_rows: int) -> FloatArray:
    """Return ``M^-1 Q M^-1 / n``, the sampling covariance of the M-estimator (Huber 1967)."""
    return bread.inverse @ meat.matrix @ bread.inverse / n_rows


def satterthwaite(
    directions: FloatArray, *, bread: Bread, meat: Meat, sampling: FloatArray, total: FloatArray, n_rows: int
) -> FloatArray:
    """Return the degrees of freedom of the variance of ``directions @ theta``.

    A variance ``v`` that is itself estimated with variance ``var(v)`` is treated as a scaled chi-square
    with ``2 v**2 / var(v)`` degrees of freedom (Satterthwaite 1946), here with the known variance that
    the noise of bread and meat gives it. The part of ``v`` that is privacy noise needs no such correction:
    given the released bread it is exact.

    Parameters
    ----------
    directions : array of shape (k, q)
        Rows are the linear combinations.
    bread, meat : Bread, Meat
    sampling : array of shape (q, q)
        The sandwich.
    total : array of shape (k,)
        Variance of each combination, privacy noise included.
    n_rows : int

    Returns
    -------
    array of shape (k,)
        ``inf`` without noise.

    Notes
    -----
    For symmetric noise ``E`` with diagonal sd ``s`` and off-diagonal ``s / sqrt(2)``,
    ``var(u'E v) = s**2 / 2 (|u|**2 |v|**2 + (u'v)**2)``.
    """
    u = directions @ bread.inverse
    v = directions @ sampling
    squared_u, squared_v, cross = (u * u).sum(1), (v * v).sum(1), (u * v).sum(1)
    of_meat = (meat.sd / n_rows) ** 2 * squared_u**2
    of_bread = 4.0 * 0.5 * bread.sd**2 * (squared_u * squared_v + cross**2)
    variance = of_meat + of_bread
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(variance > 0, 2.0 * total**2 / variance, np.inf)
