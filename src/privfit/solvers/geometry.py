"""Coordinates from released moments: columns standardised by marginals, then whitened by a second moment."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.schedule import planned_release
from privfit.solvers.base import noise_norm, quadratic_forms
from privfit.solvers.drawn import denoised
from privfit.solvers.histogram import counting_part
from privfit.solvers.levels import level_coding, level_contrasts, level_shares
from privfit.solvers.norms import longest_norm, outliers, usual_norm
from privfit.solvers.response import AbstractResponse, released_response
from privfit.solvers.shrinkage import shrunk

ROOM = 2.0**-8
"""Norm bound of rows for bounded gradients, so small that weights tell how much room every row leaves."""

STRETCH = 4096.0
"""Bound on how much longer than in whitened coordinates a row may be in encoded ones, for rounding."""

_FLOOR = 2.0
"""Variance that is added to a column's, in standard deviations of the noise in its mean square."""

_LEAST_FLOOR = 1e-6
"""Smallest variance that is added, relative to the squared norm bound."""

DAMPING = 2.0
"""What is added to the eigenvalues of a second moment, in standard deviations of its diagonal's noise."""

_CONSTANT = 1e-3
"""What stands for the constant where only the lengths of the other columns matter."""

_KEPT = 0.7
"""Part of the rows that are not weighted down in a second moment, whatever the noise."""

_LEAST_SQUARE = 0.05
"""Least squared length per column: where most rows are short, the long ones are rare levels, not outliers."""

_LEAST_DAMPING = 1e-8

_LEAST_SEEN = 0.2
"""Least standard deviation of a whitened coordinate: noise never hides all of it for certain."""


@dataclass(frozen=True, slots=True, eq=False)
class Marginals:
    """Released means and spreads, and what they say about the response.

    Parameters
    ----------
    mean : array of shape (p,)
        Of the encoded columns, shrunk: centring columns by noise would do harm. Of indicators, shares.
    variance : array of shape (p,)
        About the mean where there is an intercept, about 0 otherwise; at least 0.
    floor : float
        What the noise in `variance` is worth: added to it before its root is taken.
    noise : float
        Standard deviation of the noise in a mean before it is shrunk.
    response : AbstractResponse
    counting : float
        Share of the rows that count, see `privfit.solvers.histogram.counting_part`.
    """

    mean: FloatArray
    variance: FloatArray
    floor: float
    noise: float
    response: AbstractResponse
    counting: float = 1.0

    @classmethod
    def of(cls, problem: Problem, release: Release) -> "Marginals":
        """Return what a release of marginals says."""
        p, bound, sd = problem.n_coef, problem.norm_bound, release.sd
        value = release.value
        usable, hidden = 1.0, False
        if problem.has_intercept:
            least = min(max(3.0 * sd, 1e-12), 1.0)
            usable, hidden = float(np.clip(value[0], least, 1.0)), bool(value[0] < least)
        mean = np.clip(value[:p] / usable, -bound, bound)
        square = value[p : 2 * p] * bound / usable
        variance = square - mean**2 if problem.has_intercept else square
        return cls(
            mean=_shrunk_means(problem, mean, sd / usable) if problem.has_intercept else mean,
            variance=np.maximum(variance, 0.0),
            floor=max(_FLOOR * sd * bound, _LEAST_FLOOR * bound**2),
            noise=sd / usable,
            response=released_response(
                problem, value[2 * p :] / (bound * usable), sd / (bound * usable), hidden=hidden
            ),
        )

    def standardising(self, problem: Problem) -> FloatArray:
        """Return the basis in which columns are centred and have about unit variance, the constant aside."""
        return self._centred(problem, np.diag(self._scales))

    def level_coding(self, problem: Problem) -> FloatArray:
        """Return such a basis in which those of a factor have it together, by the shares of its levels.

        Without an intercept it is `standardising`. For noise less is added to them than to a single column:
        it averages out over their number, and coded levels are ``sqrt(2)`` as far from 0.
        """
        basis = np.diag(self._scales)
        for factor in _coded_together(problem):
            added = self.floor * math.sqrt(2.0 / len(factor))
            basis[np.ix_(factor, factor)] = level_coding(self.mean[list(factor)], added)
        return self._centred(problem, basis)

    @property
    def _scales(self) -> FloatArray:
        """What columns are multiplied by to have about unit variance, (p,)."""
        return 1.0 / np.sqrt(self.variance + self.floor)

    def _centred(self, problem: Problem, basis: FloatArray) -> FloatArray:
        """Return the basis (p, p) of the columns, centred where there is an intercept."""
        if problem.has_intercept:
            basis[0, 0] = 0.0
            basis[0] = -self.mean @ basis
            basis[0, 0] = _CONSTANT
        return basis

    def of_indicators(self, problem: Problem) -> FloatArray:
        """Return what the second moment of indicators is at least, (p,); 0 for other columns.

        Rows of a rare level are weighted down in it, so that it says too little, and they become far longer
        once they are whitened by it. Half of the variance that their mean says is taken for sure: usual rows
        may be weighted down a little, alike in all columns. A level that noise hides may be as frequent as
        noise is large.
        """
        share = np.clip(np.minimum(self.mean, 1.0 - self.mean), self.noise, 0.5)
        return np.where(_indicators(problem), 0.5 * share * (1.0 - share), 0.0)

    def alike(self, problem: Problem) -> FloatArray:
        """Return what turns coefficients that are alike into those of the encoded columns, (p, p).

        They are those of a number per standard deviation, and of levels per step from 0 to 1.
        """
        alike = np.diag(np.where(_indicators(problem), 2.0, self._scales))
        for factor in _coded_together(problem):
            alike[np.ix_(factor, factor)] = level_contrasts(len(factor))
        return alike

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
    seen : array of shape (p, p)
        Root of the second moment of the rows in them, as far as noise shows it; at least `_LEAST_SEEN` in
        every direction.
    size : float
        Squared norm of standardised rows up to which they counted in full in that second moment.
    """

    basis: FloatArray
    center: FloatArray
    dimension: float
    seen: FloatArray
    size: float

    def constant(self, value: float) -> FloatArray:
        """Return the coefficients (p,) of a constant predictor, for rows that begin with a constant."""
        encoded = np.zeros(len(self.basis))
        encoded[0] = value
        return np.asarray(np.linalg.solve(self.basis, encoded), dtype=np.float64)

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
            Their second moment times the share of the rows that count, divided by ``size``.
        marginals : Marginals
        size : float
            Squared norm at which rows were weighted down.
        """
        unit = size / marginals.counting
        moment, noise = unit * release.value, unit * release.sd
        first = int(problem.has_intercept)  # of a constant and centred columns the moment is known
        least = marginals.of_indicators(problem)[first:]
        moment = _raised(moment[first:, first:], standard[first:, first:], least)
        found, turned = np.linalg.eigh(moment)
        found = denoised(found, noise)
        vectors, standard = np.eye(problem.n_coef), standard.copy()
        vectors[first:, first:] = turned
        standard[:first, :first] = 1.0
        added = max(DAMPING * noise, _LEAST_DAMPING)
        while True:
            damped = np.concatenate([np.ones(first), found + added])
            basis = standard @ ((vectors / np.sqrt(damped)) @ vectors.T)
            dimension = max(first + float(np.sum(found / (found + added))), 1.0)
            longest = np.max(np.linalg.svd(basis[first:], compute_uv=False), initial=0.0)  # of no rows, too
            if problem.norm_bound * longest <= 0.1 * STRETCH * math.sqrt(dimension):
                break
            added *= 4.0
        parts = np.concatenate([np.ones(first), np.maximum(found / (found + added), _LEAST_SEEN**2)])
        seen = (vectors * np.sqrt(parts)) @ vectors.T
        return cls(basis, basis.T @ marginals.mean, dimension, seen, size)


def _indicators(problem: Problem) -> NDArray[np.bool_]:
    """Return which columns are indicators, as far as that is known."""
    return np.array(problem.indicators or [False] * problem.n_coef)


def _coded_together(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Return the factors whose columns are standardised together: they leave a level to the constant."""
    return problem.factors if problem.has_intercept else ()


def _raised(moment: FloatArray, turn: FloatArray, least: FloatArray) -> FloatArray:
    """Return the second moment (k, k) of ``turn' x``, as if that of every ``x`` was at least ``least``."""
    back = np.linalg.inv(turn)
    lacking = np.maximum(least - quadratic_forms(back.T, moment), 0.0)
    return moment + (turn.T * lacking) @ turn


def farthest(problem: Problem, marginals: Marginals, basis: FloatArray) -> float:
    """Return how far one number alone can take a row ``basis' x`` of a table with declared bounds.

    Encoded numbers are within [-1, 1], and one of them is taken to be as far from its mean as that allows.
    Indicators are left out, however rare their levels: the rows of a rare level are all far out alike,
    so that to weight them down moves its coefficient little.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    marginals : Marginals
    basis : array of shape (p, p)

    Returns
    -------
    float
        ``inf`` where it is not known which columns hold numbers.
    """
    if not problem.indicators:
        return math.inf
    numbers = ~np.array(problem.indicators)
    away = (1.0 + np.abs(marginals.mean[numbers])) * np.linalg.norm(basis[numbers], axis=1)
    return float(away.max(initial=0.0))


def planned_geometry(
    problem: Problem, *, for_marginals: Allowance, for_norms: Allowance, for_moment: Allowance
) -> tuple[PlannedRelease, ...]:
    """Plan what `released_geometry` asks for, of the encoded problem."""
    return (
        planned_release(problem, "marginals", for_marginals),
        planned_release(whitened(problem, None), "norms", for_norms),
        planned_release(standardised(problem, None), "second_moment", for_moment),
    )


def released_geometry(
    problem: Problem,
    oracle: Oracle,
    *,
    basis_of: Callable[[Marginals, Problem], FloatArray] = Marginals.standardising,
    part_of: Callable[[float], float] = lambda _: 1.0,
    moment_noise: float = 0.0,
) -> tuple[Problem, Marginals, Frame]:
    """Release marginals, the norms of standardised rows and their second moment, and read them.

    The problem is returned with as many rows as the marginals show; see `held_to_rows`. Rows are weighted
    down in the second moment beyond the norm that most of them keep within, the constant aside, and longer
    ones count in full where its noise allows that.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    basis_of : callable
        How columns are standardised.
    part_of : callable
        Part of the rows that the second moment is found from, given the largest squared norm of standardised
        rows; the oracle goes on to ask that part.
    moment_noise : float
        Spectral norm of the noise in the second moment up to which longer rows count in full.
    """
    start = np.array(problem.start)
    problem, released = held_to_rows(problem, oracle, oracle.release("marginals", start))
    marginals = Marginals.of(problem, released)
    standard, usual = basis_of(marginals, problem), float(problem.n_coef)
    oracle.change_basis(whitened(problem, standard / math.sqrt(usual)))
    norms = oracle.release("norms", start)
    marginals = replace(marginals, counting=counting_part(norms.value, norms.sd))
    part = part_of(_square(longest_norm(norms), problem))
    oracle.sample(part)
    planned = next(release for release in oracle.plan.releases if release.kind == "second_moment")
    noise = max(noise_norm(planned.sd / part, problem.n_coef), 1e-300)
    possible = (problem.norm_bound * float(np.linalg.norm(standard, 2))) ** 2
    size = _squared_limit(problem, norms, allowed=min(moment_noise / noise, possible))
    oracle.change_basis(standardised(problem, standard / math.sqrt(size)))
    moment = oracle.release("second_moment", start)
    return problem, marginals, Frame.of(problem, standard, moment, marginals=marginals, size=size)


def _squared_limit(problem: Problem, norms: Release, *, allowed: float) -> float:
    """Return the squared norm beyond which standardised rows are weighted down in their second moment.

    That of the longest rows that are seen, or what is allowed if that is less, but at least what most rows
    keep within. Rows of a rare level may be longer than any class of norms tells.
    """
    found = usual_norm(norms, _KEPT)
    usual = problem.n_coef if found is None else max(_square(found, problem), _LEAST_SQUARE * problem.n_coef)
    longest = max(longest_norm(norms), outliers(norms)[0])
    return max(usual, min(_square(longest, problem), allowed))


def _square(norm: float, problem: Problem) -> float:
    """Return the squared norm of standardised rows from a class of released norms."""
    return problem.n_coef * (ROOM * norm) ** 2


def held_to_rows(problem: Problem, oracle: Oracle, marginals: Release) -> tuple[Problem, Release]:
    """Return the problem and its marginals with as many rows as these show, if more than were declared.

    Where the number of rows is private, sums are divided by a public guess. One that is far too small makes
    every mean too large, curvature included, so that steps of a length that suits a mean lead far away. The
    mean of the constant is the number of rows over the guess, and it is released. The oracle goes on with
    the larger number. A guess that is too large makes steps short, and does no harm.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    marginals : Release
    """
    rows_each = float(marginals.value[0])
    if problem.relation != "add_remove" or not problem.has_intercept or rows_each <= 1.0:
        return problem, marginals
    n_rows = math.ceil(rows_each * problem.n_rows)
    oracle.change_rows(n_rows)
    factor = problem.n_rows / n_rows
    planned = replace(marginals.planned, sd=marginals.planned.sd * factor)
    return replace(problem, n_rows=n_rows), replace(
        marginals, planned=planned, value=marginals.value * factor
    )


def _shrunk_means(problem: Problem, mean: FloatArray, noise: float) -> FloatArray:
    """Return means (p,) by empirical Bayes: shares of indicators, and others shrunk towards 0."""
    if noise == 0.0:
        return mean
    found = mean.copy()
    indicator = _indicators(problem)
    numbers = ~indicator
    indicator[0] = numbers[0] = False
    found[indicator] = level_shares(mean[indicator], noise)
    if numbers.any():
        variance = np.full(int(numbers.sum()), noise**2)
        found[numbers] = shrunk(mean[numbers], variance, energy=problem.norm_bound**2).mean
    return found


def standardised(problem: Problem, basis: FloatArray | None) -> Problem:
    """Return the problem in coordinates in which rows are bounded by 1, for a second moment."""
    return problem.bounded_by(1.0, STRETCH, basis)


def whitened(problem: Problem, basis: FloatArray | None, *, slope: float = 1.0) -> Problem:
    """Return the problem in coordinates in which terms of bounded gradients have norm at most 1."""
    room = min(ROOM, 1.0 / slope)  # the shortest rows have room for slopes up to one over it
    return problem.bounded_by(room, room * STRETCH, basis)
