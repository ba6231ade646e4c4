"""What a solver is: immutable configuration that plans its releases and turns them into a solution."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from privfit._checks import FloatArray
from privfit.losses import AbstractLoss
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release


@dataclass(frozen=True, slots=True)
class MatrixShares:
    """Parts of the squared budget of a fit that buy bread and meat."""

    bread: float
    meat: float


USUAL_SHARES = MatrixShares(bread=0.18, meat=0.04)
"""What they are worth after a method that says nothing else."""

_factored, _inverted = get_lapack_funcs(("potrf", "potri"), dtype=np.float64)

_CLEARLY = 1e12
"""Product of the traces of a matrix and its inverse, at least its condition, that eigenvalues decide from."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A released gradient, or a mean of several.

    Parameters
    ----------
    at : array of shape (q,)
        Where it was asked.
    gradient : array of shape (q,)
        The ridge's included.
    sd : float
        Standard deviation of the noise in an entry.
    """

    at: FloatArray
    gradient: FloatArray
    sd: float


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One update ``theta <- theta - preconditioner @ gradient`` of a solver.

    Parameters
    ----------
    release : Release
        The noisy gradient of the data part, and the point at which it was asked.
    gradient : array of shape (q,)
        ``release.value`` plus the gradient of the ridge.
    preconditioner : array of shape (q, q)
        Step size times the matrix that the gradient was multiplied by.
    """

    release: Release
    gradient: FloatArray
    preconditioner: FloatArray

    @property
    def seen(self) -> Seen:
        """The gradient by itself."""
        return Seen(self.release.at, self.gradient, self.release.sd)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """What releases say of rows in the coordinates that a solver ended in, whatever they weigh in the fit.

    Parameters
    ----------
    second : array of shape (p, p)
        Second moment, as far as noise shows it.
    doubt : array of shape (p, p)
        ``u' doubt u`` is about the standard deviation of the noise in ``u' second u``.
    """

    second: FloatArray
    doubt: FloatArray

    def of_rows(self, constant: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the mean row and the covariance of the rows that count; ``constant`` (p,) predicts 1."""
        second = self.second / float(constant @ self.second @ constant)
        mean: FloatArray = second @ constant
        return mean, second - np.outer(mean, mean)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a solver found, all of it a function of releases.

    Parameters
    ----------
    problem : Problem
        The problem in the coordinates that the solver ended in.
    theta : array of shape (q,)
        Last iterate, in these coordinates.
    steps : tuple of Step
        All steps, in order.
    curvature : tuple of Release
        Hessians released near the solution, free for inference to reuse.
    report : {"one-step", "last", "point"}
        Which estimate stands for the solution: the late gradients combined in one Newton step, the last
        iterate with the noise that its recursion gives, or a point whose noise is not described.
    part : float
        Part of the rows that bread and meat may be found from.
    dispersion : float
        About how many times the Hessian the mean squared gradient of rows that count in full is, as far as
        releases say; 0 where nothing is known.
    bend : array of shape (k, q) or None
        ``norm(bend @ d)`` is about the part by which the curvature changes over a distance ``d``; None where
        nothing is known.
    expected : array of shape (n_linear, n_linear) or None
        About a multiple of the Hessian of the coefficients near the solution, without the ridge, as far as
        releases say before it is asked for; None where nothing is known.
    at_bounds : tuple of int
        Places of numbers that are at one of two declared bounds in nearly all rows, as far as releases say.
    bound : array of shape (n_linear, n_linear) or None
        Without noise: the Hessian if every row had the loss's largest curvature, ridge included.
    model : callable or None
        About the Hessian at a parameter, of shape (q, q), as far as releases say; for methods whose steps end
        so far from where bread is asked that it changes on the way.
    moments : callable or None
        Returns those of the rows, where they are known.
    full : float
        How far out in the predictors rows may be and count in full, over how far usual rows are; ``inf``
        where no row seems to be farther, or nothing is known.
    """

    problem: Problem
    theta: FloatArray
    steps: tuple[Step, ...]
    curvature: tuple[Release, ...]
    report: Literal["one-step", "last", "point"]
    part: float = 1.0
    dispersion: float = 0.0
    bend: FloatArray | None = None
    expected: FloatArray | None = None
    at_bounds: tuple[int, ...] = ()
    bound: FloatArray | None = None
    model: Callable[[FloatArray], FloatArray] | None = None
    moments: Callable[[], Moments] | None = None
    full: float = math.inf

    @classmethod
    def of_point(cls, problem: Problem, theta: FloatArray) -> "Solution":
        """Return a point that was released as a whole, see `AbstractSolver.releases_a_point`."""
        return cls(problem, theta, (), (), "point")

    @property
    def late(self) -> tuple[Step, ...]:
        """The second half of the steps, after the transient."""
        return self.steps[len(self.steps) // 2 :]


class AbstractSolver(ABC):
    """A method that minimises an empirical risk by planned noisy queries.

    Subclasses are final, frozen dataclasses. `plan` sees public facts only; `run` sees releases only.
    """

    __slots__ = ()

    releases_a_point: ClassVar[bool] = False
    """True for methods whose answer is a point with noise that is not described (`Solution.report` is
    ``"point"``), such as one that is released as a whole. Inference then buys Newton steps from that point,
    and reports where they lead, with noise that is known; see `privfit.inference.polish`."""

    one_pass: ClassVar[bool] = False
    """True for methods that read every row once, in order, and so can fit a stream of rows."""

    sums_rows: ClassVar[bool] = False
    """True for methods that ask the rows for sums alone, in which a term is linear in the share of its row.
    Only they protect a privacy unit of several rows, see `privfit.data.shares`."""

    no_inference: ClassVar[str | None] = None
    """Why no standard errors can be given, as a sentence that goes on after a colon; None if they can."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name with configuration, for plans and summaries."""

    def norm_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Return the norm beyond which rows are weighted down, where nothing declares how long they are.

        Parameters
        ----------
        problem : Problem
            With the bound that is returned unless the method has reasons for another.
        allowance : Allowance
            Of the whole fit.

        Returns
        -------
        float
            No less for more rows.
        """
        del allowance
        return problem.norm_bound

    @abstractmethod
    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Return all releases, which together cost no more than ``allowance``.

        Raises
        ------
        Incompatible
            If the method cannot serve this loss, relation or kind of budget; the message says what would.
        InvalidArgument
            If a setting of the method does not suit the problem, as a step that is too long.
        """

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem with the bounds that hold when the solver has ended, for planning inference.

        Raises
        ------
        Incompatible
            If what standard errors would be of is not what was asked for.
        """
        del releases
        return problem

    def matrix_shares(self, problem: Problem, allowance: Allowance) -> MatrixShares:
        """Return what parts of the squared budget of a fit bread and meat are worth after this method."""
        del problem, allowance
        return USUAL_SHARES

    @abstractmethod
    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Ask for the planned releases and return the solution."""


def take_step(problem: Problem, oracle: Oracle, theta: FloatArray, preconditioner: FloatArray) -> Step:
    """Release the gradient at ``theta`` and pair it with the preconditioner."""
    release = oracle.release("gradient", theta)
    return Step(release, release.value + problem.ridge @ theta, preconditioner)


def with_loss(problem: Problem, oracle: Oracle, loss: AbstractLoss) -> Problem:
    """Return the problem with another loss, with which the oracle goes on; see `Oracle.change_loss`."""
    oracle.change_loss(loss)
    return replace(problem, loss=loss)


def keep_scale_positive(problem: Problem, theta: FloatArray, previous: FloatArray) -> FloatArray:
    """Let the scale, if there is one, move by a factor of at most 2 from ``previous``.

    The loss is undefined at scales <= 0, and a Newton step from a scale that is much too large overshoots
    below 0.
    """
    if not problem.loss.has_scale:
        return theta
    kept = theta.copy()
    kept[-1] = min(max(theta[-1], 0.5 * previous[-1]), 2.0 * previous[-1])
    return kept


def precision(sd: float) -> float:
    """Return the inverse of a noise variance; 1 without noise."""
    return 1.0 / sd**2 if sd > 0 else 1.0


def precision_weights(sds: Sequence[float]) -> FloatArray:
    """Return weights in proportion to the precisions of noise of these standard deviations, of sum 1."""
    weights = np.array([precision(sd) for sd in sds])
    return weights / weights.sum()


def precision_average(seen: Sequence[Seen]) -> Seen:
    """Return the mean of gradients by the precision of their noise; a plain one without noise."""
    return weighted_average(seen, precision_weights([one.sd for one in seen]))


def weighted_average(seen: Sequence[Seen], weights: FloatArray) -> Seen:
    """Return the mean of gradients with these weights, (k,)."""
    points, gradients = np.array([one.at for one in seen]), np.array([one.gradient for one in seen])
    noise = weights * np.array([one.sd for one in seen])
    return Seen(weights @ points, weights @ gradients, math.sqrt(noise @ noise))


def noise_norm(sd: float, size: int) -> float:
    """Return ``sd * sqrt(2 size)``, about the spectral norm of symmetric noise with diagonal sd ``sd``."""
    return sd * math.sqrt(2.0 * size)


def raised_eigenvalues(values: FloatArray, floor: float) -> FloatArray:
    """Return eigenvalues raised to ``floor``, and to what keeps an inverse finite."""
    smallest = max(floor, 1e-14 * float(np.abs(values).max(initial=0.0)), 1e-300)
    return np.maximum(values, smallest)


def column_sizes(bound: FloatArray) -> FloatArray:
    """Return the roots of a matrix's diagonal, (q,), which bring coordinates to one size; 1 for 0."""
    sizes = np.sqrt(np.diag(bound))
    return np.where(sizes > 0.0, sizes, 1.0)


def entry_units(matrix: FloatArray) -> FloatArray:
    """Return what entries of a matrix over these make its diagonal 1, (q, q); see `column_sizes`."""
    sizes = column_sizes(matrix)
    return np.outer(sizes, sizes)


def quadratic_forms(directions: NDArray[Any], matrix: FloatArray) -> FloatArray:
    """Return ``u' matrix u`` for every row ``u`` of ``directions``, shape (k,)."""
    return np.einsum("ij,ij->i", directions @ matrix, directions)


def floored_inverse(matrix: FloatArray, floor: float) -> FloatArray:
    """Return the inverse of a symmetric matrix after raising its eigenvalues to ``floor``."""
    plain = _plain_inverse(matrix) if floor == 0.0 else None
    if plain is not None:
        return plain
    values, vectors = np.linalg.eigh(matrix)
    return (vectors / raised_eigenvalues(values, floor)) @ vectors.T


def _plain_inverse(matrix: FloatArray) -> FloatArray | None:
    """Return the inverse of a symmetric matrix that is clearly positive definite, None of others.

    In less time than eigenvalues take where there are many columns.
    """
    factor, failed = _factored(matrix, lower=1) if matrix.size else (matrix, True)
    if failed:
        return None
    lower: FloatArray = _inverted(factor, lower=1)[0]  # above the diagonal it is 0, as in the factor
    inverse = lower + lower.T
    np.fill_diagonal(inverse, lower.diagonal())
    return inverse if np.trace(inverse) * np.trace(matrix) < _CLEARLY else None
