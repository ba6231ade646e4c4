"""Coordinates from released moments: columns standardised by marginals, then whitened by a second moment."""

import math
from dataclasses import dataclass, replace

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.solvers.base import noise_norm
from privfit.solvers.response import AbstractResponse, released_response

ROOM = 2.0**-8
"""Norm bound of rows for bounded gradients, so small that weights tell how much room every row leaves."""

STRETCH = 4096.0
"""Bound on how much longer than in whitened coordinates a row may be in encoded ones, for rounding."""

_FLOOR = 2.0
"""Variance that is added to a column's, in standard deviations of the noise in its mean square."""

_LEAST_FLOOR = 1e-6
"""Smallest variance that is added, relative to the squared norm bound."""

_ROOM_FOR_FEW = 3.0
"""How much larger than expected a squared norm may be before a row is weighted down."""

_DAMPING = 0.4
"""What is added to the eigenvalues of a second moment, in spectral norms of its noise."""

_LEAST_DAMPING = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """Released means and spreads, and what they say about the response.

    Parameters
    ----------
    mean : array of shape (p,)
        Of the encoded columns.
    variance : array of shape (p,)
        About the mean where there is an intercept, about 0 otherwise; at least 0.
    floor : float
        What the noise in `variance` is worth: added to it before its root is taken.
    response : AbstractResponse
    """

    mean: FloatArray
    variance: FloatArray
    floor: float
    response: AbstractResponse

    @classmethod
    def of(cls, problem: Problem, release: Release) -> "Marginals":
        """Return what a release of marginals says."""
        p, bound, sd = problem.n_coef, problem.norm_bound, release.planned.sd
        value = release.value
        usable = 1.0
        if problem.has_intercept:  # the mean weight of a row
            usable = float(np.clip(value[0], min(max(3.0 * sd, 1e-12), 1.0), 1.0))
        mean = np.clip(value[:p] / usable, -bound, bound)
        square = value[p : 2 * p] * bound / usable
        variance = square - mean**2 if problem.has_intercept else square
        return cls(
            mean=mean,
            variance=np.maximum(variance, 0.0),
            floor=max(_FLOOR * sd * bound, _LEAST_FLOOR * bound**2),
            response=released_response(problem, value[2 * p :] / (bound * usable), sd / (bound * usable)),
        )

    def standardising(self, problem: Problem) -> tuple[FloatArray, float]:
        """Return the basis in which columns have about unit variance, and a bound on squared norms.

        The bound is the expected squared norm and some more, so that with few columns, where norms vary
        much, weights do not hide much of the second moment.
        """
        added = self.variance + self.floor
        roots, basis = np.sqrt(added), np.diag(1.0 / np.sqrt(added))
        size = float(np.sum(self.variance / added))
        if problem.has_intercept:
            basis[0] = -self.mean / roots
            basis[0, 0] = 1.0
            size += 1.0 - self.variance[0] / added[0]
        return basis, max(size, 1.0) + _ROOM_FOR_FEW

    def start(self, problem: Problem) -> FloatArray:
        """Return the constant predictor, shape (q,): where the descent begins and what it shrinks towards."""
        start = np.array(problem.start)
        if problem.loss.has_scale:
            start[-1] = max(self.response.sd, 1e-3)
        if problem.has_intercept:
            start[: problem.n_linear : problem.n_coef] = self.response.constant()
        return start


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Whitened coordinates ``z = basis.T @ x``.

    Parameters
    ----------
    basis : array of shape (p, p)
    center : array of shape (p,)
        Mean of the rows in these coordinates.
    dimension : float
        Expected squared norm of a row in them: the effective number of columns.
    """

    basis: FloatArray
    center: FloatArray
    dimension: float

    @classmethod
    def of(
        cls, problem: Problem, standard: FloatArray, release: Release, *, marginals: Marginals, size: float
    ) -> "Frame":
        """Return the coordinates that a released second moment of standardised rows whitens.

        Parameters
        ----------
        problem : Problem
            In encoded coordinates.
        standard : array of shape (p, p)
            The basis of the standardised rows.
        release : Release
            Their second moment, divided by ``size``.
        marginals : Marginals
        size : float
            Squared norm at which rows were weighted down.
        """
        moment, noise = size * release.value, size * release.planned.sd
        if problem.has_intercept:  # columns are centred, which the release knows less well
            moment[0, :], moment[:, 0], moment[0, 0] = 0.0, 0.0, 1.0
        values, vectors = np.linalg.eigh(moment)
        values = np.maximum(values, 0.0)
        added = max(_DAMPING * noise_norm(noise, problem.n_coef), _LEAST_DAMPING)
        while True:
            basis = standard @ ((vectors / np.sqrt(values + added)) @ vectors.T)
            dimension = max(float(np.sum(values / (values + added))), 1.0)
            if problem.norm_bound * np.linalg.norm(basis, 2) <= 0.1 * STRETCH * math.sqrt(dimension):
                break
            added *= 4.0
        return cls(basis, basis.T @ marginals.mean, dimension)


def standardised(problem: Problem, basis: FloatArray | None) -> Problem:
    """Return the problem in coordinates in which rows are bounded by 1, for a second moment."""
    return replace(problem.bounded_by(1.0, STRETCH), basis=basis)


def whitened(problem: Problem, basis: FloatArray | None) -> Problem:
    """Return the problem in coordinates in which terms of bounded gradients have norm at most 1."""
    return replace(problem.bounded_by(ROOM, ROOM * STRETCH), basis=basis)
