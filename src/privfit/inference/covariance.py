"""The bread with the noise it carries: what that hides, and what it does to covariances."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.special import chdtri

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.solvers.base import noise_norm, raised_eigenvalues
from privfit.solvers.drawn import drawn_towards

LARGEST_CORRECTION = 0.25
"""Largest relative bias of a variance that `debiased` removes."""

LARGEST_ADDED = 1.0
"""Largest that `spread` takes such a bias for."""

_LEAST_VARIANCE = 1e-8
"""Smallest eigenvalue of a covariance, in units of the largest, by which an excess is divided: rounding is
enlarged by no more than its inverse."""

_UPPER_POINT = 0.9793
"""What a Tracy-Widom variable of order 1 exceeds with a probability of 5 %: with that, directions without
curvature may pass for ones with some."""

VANISHED = 1e-11
"""Smallest eigenvalue of a bread, in units of the loss's largest curvature, that is believed. Less is left
where a minimum at infinity was followed until the gradient was gone."""

ROUNDING = 1e-14
"""Smallest eigenvalue of a bread, in units of the largest, that is believed."""

_CLEARLY = 2.0
"""Times what noise alone may show in one direction that a bread has to show in all before it is drawn."""

_LEAST_EXPECTED = 0.25
"""Smallest curvature of a direction in a bread that is drawn, relative to the expected one and the mean."""

_DEVIATIONS = 1.96
"""Standard deviations of noise by which an eigenvalue of a bread may be too large."""

_LEAST_LEFT = 0.25
"""Smallest part of an eigenvalue that these leave: of what is less clear, `hidden` decides."""

_ROUNDS = 5
"""In which the far end of an interval is found."""

LARGEST_HIDDEN_PART = 0.05
"""Part of a coefficient's squared direction that may be unresolved before its standard error is infinite."""

_FAR_BELOW = 0.05
"""Noise relative to curvature from which on rows are at least about 4.5 of their deviations away from 0."""

_TURNED = 0.01
"""Probability that noise turns unresolved directions by more than is taken for noise."""

LEAST_SPREAD = 0.1
"""Deviation of a bread from the expected one that is always thought possible, relative to it."""

MOST_DRAWN = 1.0
"""Standard deviations of its noise by which an entry is drawn towards the expected one at most: where a
single entry is far from what is expected, others do not draw it there."""


@dataclass(frozen=True, slots=True, eq=False)
class Bread:
    """A released Hessian ``M`` of the objective, ridge included.

    Parameters
    ----------
    matrix, inverse : array of shape (q, q)
        Both after raising eigenvalues to half the noise's spectral norm.
    sd : float
        Standard deviation of what a diagonal entry is off by (off the diagonal ``sd / sqrt(2)``).
    unresolved : array of shape (q, m)
        Orthonormal directions whose curvature the noise hides, see `hidden_count`, or that have none: their
        eigenvalue is below `VANISHED` or `ROUNDING`.
    drawn : float
        Part of the variance of its noise that is gone as it was drawn towards an expected one.
    sizes : array of shape (q,) or float
        Coordinates times these are those of ``unresolved``: without noise, the units of columns do not
        decide what is resolved.
    largest_hidden : float
        Part of a coefficient's squared direction that may be unresolved before its error is infinite.
    """

    matrix: FloatArray
    inverse: FloatArray
    sd: float
    unresolved: FloatArray
    drawn: float = 0.0
    sizes: FloatArray | float = 1.0
    largest_hidden: float = LARGEST_HIDDEN_PART

    def moved(self, before: FloatArray, after: FloatArray) -> "Bread":
        """Return the bread at another point, by what a model says of it here and there, (q, q) each.

        The released matrix is multiplied from both sides by what takes the one to the other, a product of
        their Cholesky factors: so it stays positive.
        """
        first, last = np.linalg.cholesky(before), np.linalg.cholesky(after)
        forth, back = last @ np.linalg.inv(first), first @ np.linalg.inv(last)
        return replace(self, matrix=forth @ self.matrix @ forth.T, inverse=back.T @ self.inverse @ back)

    def far_inverse(self, move: FloatArray, sd: float) -> FloatArray:
        """Inverse of the Hessian where noise has made its eigenvalues too large, as at an interval's far end.

        Parameters
        ----------
        move : array of shape (q,)
            Newton step that the estimate is away from where gradients were asked.
        sd : float
            Standard deviation of the noise in an entry of the gradient that the step is from.

        Returns
        -------
        array of shape (q, q)

        Notes
        -----
        Fieller's interval (1954, *Some problems in interval estimation*) holds the ratios ``a / b`` for which
        some ``(a, b)`` is at most 1.96 standard deviations from the released pair. At the far end ``b`` is
        less by 1.96 of its own times the root of the part that it has in the variance of ``a - b move``
        there. So is each eigenvalue here, with the far end found in rounds, but a quarter is left. What other
        entries of the noise add along its direction is independent of it.
        """
        if self.sd == 0.0:
            return self.inverse
        values, vectors = np.linalg.eigh(self.matrix)
        along = np.abs(vectors.T @ move)
        others = sd**2 + 0.5 * self.sd**2 * (move @ move - along**2)
        lowest = _lowered(values, self.sd)
        for _ in range(_ROUNDS):
            noise = np.hypot(np.sqrt(others) / values, self.sd * along / lowest)
            own = (self.sd * (along + _DEVIATIONS * noise)) ** 2
            part = own / np.maximum(others + own, np.finfo(float).tiny)
            lowest = _lowered(values, self.sd * np.sqrt(part))
        return (vectors / lowest) @ vectors.T


def _lowered(values: FloatArray, sd: FloatArray | float) -> FloatArray:
    return np.maximum(values - _DEVIATIONS * sd, _LEAST_LEFT * values)


def bread_from(problem: Problem, releases: Sequence[Release], expected: FloatArray | None = None) -> Bread:
    """Average released Hessians by precision, floor the eigenvalues and invert.

    Parameters
    ----------
    problem : Problem
    releases : sequence of Release
        Hessians (times the scale) at points near the solution.
    expected : array of shape (n_linear, n_linear), optional
        See `privfit.solvers.base.Solution`. The average is drawn towards a multiple of it as far as noise
        hides the difference; no entry by more than `MOST_DRAWN` standard deviations of its noise. It is left
        alone unless the least curvature is twice what a direction without any may show: what barely shows was
        made to look larger by noise, and a multiple that is fitted to it would be too large for good. So is
        one with far less curvature in some direction than is expected beside others, which would be taken for
        noise: entries may each move by little, and the direction by far more than its noise.

    Notes
    -----
    Eigenvalues below half the noise's spectral norm are raised to that level for the estimate. Their
    directions, and others that noise hides, are not resolved: coefficients that lie in them get no interval,
    see `hidden`. What is not resolved is told from the average itself.
    """
    average, sd = average_hessian(problem, releases)
    eigenvalues, vectors = np.linalg.eigh(average + problem.ridge)
    count, drawn = _unresolved(problem, eigenvalues, sd), 0.0
    unresolved, clear = vectors[:, :count], eigenvalues[0] > _CLEARLY * largest_of_noise(sd, 1)
    if expected is not None and sd > 0.0 and count == 0 and clear and _is_like(expected, average):
        near = drawn_towards(expected, average, sd, spread=LEAST_SPREAD, most=MOST_DRAWN)
        sd, drawn = sd * math.sqrt(near.kept), 1.0 - near.kept
        eigenvalues, vectors = np.linalg.eigh(near.matrix + problem.ridge)
    raised = raised_eigenvalues(eigenvalues, 0.5 * noise_norm(sd, problem.size))
    return Bread(
        matrix=(vectors * raised) @ vectors.T,
        inverse=(vectors / raised) @ vectors.T,
        sd=sd,
        unresolved=unresolved,
        drawn=drawn,
    )


def _is_like(expected: FloatArray, average: FloatArray) -> bool:
    """Return whether no direction has far less than its part of the curvature that is expected.

    A single one says nothing about others: it is a multiple of any.
    """
    n = len(expected)
    if n == 1:
        return False
    values = eigh(average[:n, :n], expected, eigvals_only=True)
    return bool(values[0] >= _LEAST_EXPECTED * values.mean())


def average_hessian(problem: Problem, releases: Sequence[Release]) -> tuple[FloatArray, float]:
    """Return the average of released Hessians by precision, and the standard deviation of its noise."""
    scales = np.array([problem.split(release.at)[1] for release in releases])
    sds = np.array([release.sd for release in releases]) / scales
    weights = 1.0 / sds**2 if (sds > 0).all() else np.ones(len(releases))
    weights = weights / weights.sum()
    values = np.array([release.value for release in releases]) / scales[:, None, None]
    average = np.asarray(np.tensordot(weights, values, axes=1), dtype=np.float64)
    return average, float(np.sqrt(np.sum((weights * sds) ** 2)))


def _unresolved(problem: Problem, eigenvalues: FloatArray, sd: float) -> int:
    """Return of how many eigenvectors the curvature is hidden by noise, or not there."""
    vanished = max(VANISHED * problem.loss.constants.curvature, ROUNDING * float(eigenvalues[-1]))
    least = max(vanished, 0.5 * noise_norm(sd, problem.size))
    return max(hidden_count(eigenvalues, sd), int(np.count_nonzero(eigenvalues < least)))


def largest_of_noise(sd: float, size: int) -> float:
    """Return what the largest eigenvalue of symmetric noise exceeds with a probability of 5 %.

    Parameters
    ----------
    sd : float
        Standard deviation of a diagonal entry (off the diagonal ``sd / sqrt(2)``).
    size : int
        Number m of rows.

    Notes
    -----
    ``sd (sqrt(2 m - 1) + m**(-1/6) w / sqrt(2))`` with ``w`` the upper point of the Tracy-Widom law of
    order 1 (Johnstone and Ma 2012, *Fast approach to the Tracy-Widom law at the edge of GOE and GUE*, for
    the centre). By simulation the probability is between 4.3 and 5 % for every m.
    """
    return sd * (math.sqrt(2.0 * size - 1.0) + _UPPER_POINT / math.sqrt(2.0) * size ** (-1.0 / 6.0))


def hidden_count(eigenvalues: FloatArray, sd: float) -> int:
    """Return how many directions noise hides: the largest m that may all be without curvature.

    Parameters
    ----------
    eigenvalues : array of shape (q,)
        Of a released Hessian, in increasing order.
    sd : float
        Standard deviation of the noise in a diagonal entry.

    Notes
    -----
    If the Hessian is 0 on a space of m dimensions, its m-th smallest eigenvalue is at most the largest
    one of the noise on that space (Courant and Fischer), which is as that of an m-by-m matrix, whatever the
    Hessian is elsewhere. So that m directions are without curvature is rejected where the m-th eigenvalue
    exceeds `largest_of_noise`, and with a probability of 5 % at most if it is true.
    """
    sizes = range(1, len(eigenvalues) + 1)
    return max((m for m in sizes if eigenvalues[m - 1] <= largest_of_noise(sd, m)), default=0)


def hidden(directions: FloatArray, bread: Bread) -> np.ndarray:
    """Return which linear combinations lie too much in unresolved directions to be given an interval.

    Parameters
    ----------
    directions : array of shape (k, q)
    bread : Bread

    Returns
    -------
    bool array of shape (k,)
        True where more than `Bread.largest_hidden` of the squared length is unresolved, or more than half
        of the part ``1 / q`` that one unresolved direction has of a random one. True as well where the part
        is more than noise makes of none: what is multiplied by it may be of any size, as is an intercept far
        from all rows.
    """
    limit = min(bread.largest_hidden, 0.5 / directions.shape[1])
    directions = directions / bread.sizes
    along = directions @ bread.unresolved
    inside = np.sum(along**2, axis=1)
    resolved = directions - along @ bread.unresolved.T
    return (inside > limit * np.sum(directions**2, axis=1)) | (inside > part_by_noise(resolved, bread))


def out_of_reach(constants: FloatArray, bread: Bread) -> np.ndarray:
    """Return which constants of linear predictors are hidden because rows are far from 0, (m,).

    That is so where the noise that hides a constant is small beside the curvature in other directions. What
    depends on it is then given up altogether: an effect that may be of any size is not controlled for.
    """
    count, values = bread.unresolved.shape[1], np.linalg.eigvalsh(bread.matrix)
    usual = values[count:].mean() if 0 < count < values.size and bread.sd > 0.0 else 0.0
    if largest_of_noise(bread.sd, max(count, 1)) < _FAR_BELOW * usual:
        return hidden(constants, bread)
    return np.zeros(len(constants), dtype=np.bool_)


def part_by_noise(resolved: FloatArray, bread: Bread) -> FloatArray:
    """Return what the part of these in unresolved directions exceeds, by noise alone, in 1 % of fits; (k,).

    To first order noise ``E`` turns an eigenvector ``u`` of eigenvalue 0 by ``-M^-1 E u`` (Kato 1995, section
    II.2.3). For every ``v`` orthogonal to it ``v'M^-1 E u`` is normal, with the variance ``s**2 / 2`` times
    the squared length of ``M^-1 v``, independently for each of several. Without noise there is no such bound.
    """
    count = bread.unresolved.shape[1]
    if bread.sd == 0.0 or count == 0:
        return np.full(len(resolved), np.inf)
    turned = np.sum((resolved @ bread.inverse) ** 2, axis=1)
    return 0.5 * bread.sd**2 * chdtri(count, _TURNED) * turned


def debiased(covariance: FloatArray, bread: Bread) -> FloatArray:
    """Take from ``C = M^-1 A M^-1`` what the noise of ``M`` adds to it on average.

    With ``W = M^-1`` and symmetric noise ``E`` of diagonal sd ``s`` in ``M``, to second order
    ``E[(M+E)^-1 A (M+E)^-1] = C + B C + C B' + W T(C) W``, where ``T(D) = s**2 / 2 (tr(D) I + D)`` is
    ``E[E D E]`` and ``B = W T(W)``. The excess is removed multiplicatively, ``C^1/2 (I + K)^-1 C^1/2`` with
    ``K`` the excess in units of ``C``, so the result stays positive semi-definite. Eigenvalues of ``K``
    beyond `LARGEST_CORRECTION` are cut to it: there the expansion no longer holds, and too wide is
    the safe side. From a matrix that was drawn towards an expected one, see `spread`, nothing is taken.

    Parameters
    ----------
    covariance : array of shape (q, q)
    bread : Bread
    """
    if bread.sd == 0.0 or bread.drawn > 0.0:
        return covariance
    return _scaled(covariance, bread, lambda excess: 1.0 / (1.0 + np.clip(excess, 0.0, LARGEST_CORRECTION)))


def spread(covariance: FloatArray, bread: Bread) -> FloatArray:
    """Add to ``C = M^-1 A M^-1`` what it lacks on average where ``M`` was drawn towards an expected one.

    A posterior mean varies less than what it is the mean of, by the variance that is left. What is in its
    place is the excess that `debiased` would remove. If noise alone sets the released matrix apart from
    the expected one nothing is lacking. So it is added in proportion to `Bread.drawn`.

    Parameters
    ----------
    covariance : array of shape (q, q)
    bread : Bread
    """
    if bread.drawn == 0.0:
        return covariance
    return _scaled(covariance, bread, lambda excess: 1.0 + bread.drawn * np.clip(excess, 0.0, LARGEST_ADDED))


def _scaled(covariance: FloatArray, bread: Bread, factor: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Return the covariance times a function of the excess in its units, which is symmetric."""
    inverse, half = bread.inverse, 0.5 * bread.sd**2
    identity = np.eye(inverse.shape[0])

    def mean_square(matrix: FloatArray) -> FloatArray:
        return half * (np.trace(matrix) * identity + matrix)

    one_side = inverse @ mean_square(inverse) @ covariance
    excess = one_side + one_side.T + inverse @ mean_square(covariance) @ inverse
    values, vectors = np.linalg.eigh(covariance)
    roots = np.sqrt(np.maximum(values, _LEAST_VARIANCE * max(float(values[-1]), 1e-300)))
    root, unroot = (vectors * roots) @ vectors.T, (vectors / roots) @ vectors.T
    relative, directions = np.linalg.eigh(unroot @ excess @ unroot)
    return root @ (directions * factor(relative)) @ directions.T @ root
