"""Bread, meat and the sandwich, each with the noise it carries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.solvers.base import noise_norm, raised_eigenvalues

LARGEST_CORRECTION = 0.25
"""Largest relative bias of a variance that `debiased` removes."""

RESOLVED = 0.75
"""Smallest eigenvalue of a bread, in spectral norms of its noise, that is believed."""

VANISHED = 1e-11
"""Smallest eigenvalue of a bread, in units of the loss's largest curvature, that is believed. Less is left
where a minimum at infinity was followed until the gradient was gone."""

ROUNDING = 1e-14
"""Smallest eigenvalue of a bread, in units of the largest, that is believed."""

LARGEST_HIDDEN_PART = 0.05
"""Part of a coefficient's squared direction that may be unresolved before its standard error is infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class Bread:
    """A released Hessian ``M`` of the objective, ridge included.

    Parameters
    ----------
    matrix, inverse : array of shape (q, q)
        Both after raising eigenvalues to half the noise's spectral norm.
    sd : float
        Noise standard deviation of a diagonal entry (off the diagonal ``sd / sqrt(2)``).
    unresolved : array of shape (q, m)
        Orthonormal directions whose curvature the noise hides, or that have none: their eigenvalue was
        raised, or is below `RESOLVED` times the noise's spectral norm, `VANISHED` or `ROUNDING`.
    """

    matrix: FloatArray
    inverse: FloatArray
    sd: float
    unresolved: FloatArray


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
    Its eigenvalue is raised to that level for the estimate; coefficients that lie in such directions get
    no interval, see `hidden`.
    """
    scales = np.array([problem.split(release.at)[1] for release in releases])
    sds = np.array([release.sd for release in releases]) / scales
    weights = 1.0 / sds**2 if (sds > 0).all() else np.ones(len(releases))
    weights = weights / weights.sum()
    values = np.array([release.value for release in releases]) / scales[:, None, None]
    matrix, sd = np.tensordot(weights, values, axes=1), float(np.sqrt(np.sum((weights * sds) ** 2)))
    eigenvalues, vectors = np.linalg.eigh(matrix + problem.ridge)
    noise = noise_norm(sd, problem.size)
    least = max(VANISHED * problem.loss.constants.curvature, ROUNDING * float(eigenvalues[-1]))
    kept = raised_eigenvalues(eigenvalues, 0.5 * noise)
    return Bread(
        matrix=(vectors * kept) @ vectors.T,
        inverse=(vectors / kept) @ vectors.T,
        sd=sd,
        unresolved=vectors[:, eigenvalues < max(RESOLVED * noise, least)],
    )


def hidden(directions: FloatArray, bread: Bread) -> np.ndarray:
    """Return which linear combinations lie too much in unresolved directions to be given an interval.

    Parameters
    ----------
    directions : array of shape (k, q)
    bread : Bread

    Returns
    -------
    bool array of shape (k,)
        True where more than `LARGEST_HIDDEN_PART` of the squared length is unresolved, or more than half
        of the part ``1 / q`` that one unresolved direction has of a random one.
    """
    limit = min(LARGEST_HIDDEN_PART, 0.5 / directions.shape[1])
    inside = np.sum((directions @ bread.unresolved) ** 2, axis=1)
    return inside > limit * np.sum(directions**2, axis=1)


def debiased(covariance: FloatArray, bread: Bread) -> FloatArray:
    """Remove from ``C = M^-1 A M^-1`` what the noise of ``M`` adds to it on average.

    With ``W = M^-1`` and symmetric noise ``E`` of diagonal sd ``s`` in ``M``, to second order
    ``E[(M+E)^-1 A (M+E)^-1] = C + B C + C B' + W T(C) W``, where ``T(D) = s**2 / 2 (tr(D) I + D)`` is
    ``E[E D E]`` and ``B = W T(W)``. The excess is removed multiplicatively, ``C^1/2 (I + K)^-1 C^1/2`` with
    ``K`` the excess in units of ``C``, so the result stays positive semi-definite. Eigenvalues of ``K``
    beyond `LARGEST_CORRECTION` are cut to it: there the expansion no longer holds, and too wide is
    the safe side.

    Parameters
    ----------
    covariance : array of shape (q, q)
    bread : Bread
    """
    if bread.sd == 0.0:
        return covariance
    inverse, half = bread.inverse, 0.5 * bread.sd**2
    identity = np.eye(inverse.shape[0])

    def mean_square(matrix: FloatArray) -> FloatArray:
        return half * (np.trace(matrix) * identity + matrix)

    one_side = inverse @ mean_square(inverse) @ covariance
    excess = one_side + one_side.T + inverse @ mean_square(covariance) @ inverse
    values, vectors = np.linalg.eigh(covariance)
    roots = np.sqrt(np.maximum(values, 1e-14 * max(float(values[-1]), 1e-300)))
    root, unroot = (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
    relative, directions = np.linalg.eigh(unroot @ excess @ unroot)
    shrink = 1.0 / (1.0 + np.clip(relative, 0.0, LARGEST_CORRECTION))
    return root @ (directions * shrink) @ directions.T @ root
