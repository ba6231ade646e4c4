"""Slopes of numbers that few rows have, whose counts a bound that a look has lowered may cut."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.inference.controls import in_parameter
from privfit.inference.covariance import Bread
from privfit.inference.cut_levels import DEVIATIONS, NEAR, lowered
from privfit.inference.ends import constant_alone
from privfit.inference.found import Found
from privfit.losses import Poisson
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.solvers.base import Moments, Solution, quadratic_forms
from privfit.solvers.counts import look_at_counts
from privfit.solvers.histogram import largest_seen

_DISTANCES = np.geomspace(1.0, 64.0, 97)
"""Standard deviations of a column by which its far rows may be away from its mean."""

_MISSED = 2.0
"""Times the share of rows that a look may hide that may be far out: of rows with a mean near the bound about
half of the counts are beyond it."""

_EVIDENCE = 1.0
"""By how much a column whose far rows are cut has to be nearer to what is released than others, in squares of
standard deviations."""

_ROUNDING = 1e-10
"""Part of the mean square of a linear predictor up to which its variance is one of rounding."""

_FELT = 1.0 / 3.0
"""Standard errors that a slope may move another coefficient by, for each of its own, and leave it alone."""


def hidden_counts(releases: Sequence[Release]) -> float:
    """Return the largest share of rows whose counts may be beyond what a look has shown, 0 without one."""
    look = look_at_counts(releases)
    seen = None if look is None else largest_seen(look)
    return 0.0 if seen is None else seen.hidden


def numbers_may_be_cut(
    solution: Solution, directions: FloatArray, found: Found, *, hidden: float
) -> NDArray[np.bool_]:
    """Return which reported coefficients are of numbers whose far rows a lowered bound may cut, (k,).

    Parameters
    ----------
    solution : Solution
    directions : array of shape (k, n_linear)
        Reported coefficients as linear functions of the encoded ones.
    found : Found
    hidden : float
        See `hidden_counts`.

    Notes
    -----
    A number may be the same in most rows and far from that in a few whose counts are all beyond what a look
    has shown. They are cut, and the slope is too small, by more than its interval tells. So two kinds of
    columns are compared, which have a share of ``1 / (1 + d^2)`` of the rows d standard deviations above the
    mean and the others as far below it as that takes: those with far rows whose mean count is near the bound,
    and few enough for a look to miss them, and all others. For ``d = 1`` the two moments that are compared
    are about those of a normal column.
    The mean and the mean square of a column where rows are weighted by their curvature, as a bread tells,
    set them apart. Rows are weighted down as they are in the fit. What a slope that is too small moves is the
    constant of its rows: the level's, where it is a slope within one.
    """
    problem, loss, moments = solution.problem, solution.problem.loss, solution.moments
    lost = np.zeros(len(directions), dtype=np.bool_)
    if not isinstance(loss, Poisson) or not lowered(loss, problem.response_bound):
        return lost
    if hidden == 0.0 or not problem.has_intercept or moments is None:
        return lost
    rows, covariance = _Rows.of(problem, loss, moments(), found), found.covariance
    reported = np.sqrt(np.maximum(quadratic_forms(in_parameter(problem, directions), covariance), 0.0))
    for place in _numbers(solution):
        unit = np.eye(problem.n_coef)[place]
        along = in_parameter(problem, unit[None])[0]
        far = _far_rows(rows.column(along, found.estimate.theta), place, covariance, hidden=hidden)
        if far is not None:
            back = unit - far * np.eye(problem.n_coef)[_beside(problem, place)]
            moved = np.abs(directions @ back) * math.sqrt(max(float(along @ covariance @ along), 0.0))
            lost |= moved > _FELT * reported
    return lost


def _beside(problem: Problem, place: int) -> int:
    """Return the place of the constant of rows in which a column differs: the level's, if within one."""
    margins = problem.margins[place] if problem.margins else ()
    return max((other for other in margins if problem.indicators and problem.indicators[other]), default=0)


def _numbers(solution: Solution) -> list[int]:
    """Return the places of columns that are no constants and not known to hold two values."""
    problem = solution.problem
    levels = problem.indicators or (False,) * problem.n_coef
    return [place for place in range(1, problem.n_coef) if not levels[place] | (place in solution.at_bounds)]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Rows as released moments show them, in the coordinates of the parameter.

    Parameters
    ----------
    problem : Problem
    loss : Poisson
        That of the problem.
    constant : array of shape (p,)
        A constant predictor of 1.
    mean : array of shape (p,)
    covariance, inverse : array of shape (p, p)
        The latter is that of the second moment.
    doubt : array of shape (p, p)
        See `privfit.solvers.base.Moments`.
    bread : Bread
    most : float
        Log mean beyond which its curvature is not larger.
    """

    problem: Problem
    loss: Poisson
    constant: FloatArray
    mean: FloatArray
    covariance: FloatArray
    inverse: FloatArray
    doubt: FloatArray
    bread: Bread
    most: float

    @classmethod
    def of(cls, problem: Problem, loss: Poisson, moments: Moments, found: Found) -> "_Rows":
        """Return what moments of the rows say, for each row that counts."""
        constant = constant_alone(problem)
        counting = float(constant @ moments.second @ constant)
        mean, covariance = moments.of_rows(constant)
        inverse: FloatArray = np.asarray(np.linalg.inv(moments.second / counting), dtype=np.float64)
        doubt, cut = moments.doubt / counting, found.most_curved
        most = loss.bound if cut is None else min(loss.bound, math.log(cut))
        return cls(problem, loss, constant, mean, covariance, inverse, doubt, found.bread, most)

    def column(self, along: FloatArray, theta: FloatArray) -> "_Column":
        """Return what a column adds to others, by the direction (p,) of its coefficient."""
        weights = self.inverse @ along
        weights /= math.sqrt(float(along @ weights))
        if float(along @ theta) < 0.0:
            weights = -weights
        return _Column(self, weights, self.covariance @ weights, theta)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """What a column adds to others, of mean 0 and variance 1 and such a sign that its slope is positive.

    Parameters
    ----------
    rows : _Rows
    weights : array of shape (p,)
        It is ``weights @ (row - mean)``.
    step : array of shape (p,)
        What rows differ by on average, for each unit of it.
    theta : array of shape (p,)
    """

    rows: _Rows
    weights: FloatArray
    step: FloatArray
    theta: FloatArray

    def at(self, places: FloatArray) -> FloatArray:
        """Return mean rows at these places (m,) of the column, (m, p)."""
        return self.rows.mean + places[:, None] * self.step

    def weighted(self, places: FloatArray) -> FloatArray:
        """Return the curvature of such rows times what they are weighted down by, (m,)."""
        at, rows = self.at(places), self.rows
        down = row_weights(at, rows.covariance, self.step, rows.problem.norm_bound)
        return down * np.exp(np.minimum(at @ self.theta, rows.most))

    def seen(self) -> tuple[FloatArray, FloatArray]:
        """Return its mean and mean square where rows are weighted by curvature, and their errors, (2,) each.

        These are of the noise in the bread, and in what stands for its variance.
        """
        rows, bread = self.rows, self.rows.bread
        whole = float(rows.constant @ bread.matrix @ rows.constant)
        weighted, middle = bread.matrix @ self.weights / whole, float(self.weights @ rows.mean)
        mean = float(rows.constant @ weighted)
        square = float(self.weights @ weighted) - 2.0 * middle * mean + middle**2
        length, doubt = float(self.weights @ self.weights), float(self.weights @ rows.doubt @ self.weights)
        cross = bread.sd * math.sqrt(0.5 * length * float(rows.constant @ rows.constant)) / whole
        errors = np.hypot([cross, bread.sd * length / whole], [doubt * math.sqrt(0.5), doubt * square])
        return np.array([mean - middle, square]), errors

    def of_two_points(self) -> FloatArray:
        """Return what `seen` would be with far rows at `_DISTANCES`, (m, 2)."""
        d = _DISTANCES
        upper, lower = self.weighted(d) / (1.0 + d**2), self.weighted(-1.0 / d) * d**2 / (1.0 + d**2)
        sums = np.stack([upper * d - lower / d, upper * d**2 + lower / d**2], axis=1)
        return sums / (upper + lower)[:, None]


def _far_rows(column: _Column, place: int, covariance: FloatArray, *, hidden: float) -> float | None:
    """Return where the other rows are in an encoded column if its far ones seem to be cut, None if not.

    Parameters
    ----------
    column : _Column
    place : int
        That of its coefficient.
    covariance : array of shape (p, p)
        Of the estimate.
    hidden : float
    """
    problem, loss, at = column.rows.problem, column.rows.loss, column.at(_DISTANCES)
    sd = np.sqrt(np.maximum(quadratic_forms(at, covariance), 0.0))
    near = at @ column.theta + DEVIATIONS * sd > math.log(NEAR * loss.count_bound)
    missed = _MISSED * hidden >= 1.0 / (1.0 + _DISTANCES**2)
    cut = near & missed
    possible = cut & (np.abs(_encoded(problem, at, place)) <= 1.0) if problem.bounded else cut
    if not possible.any():
        return None
    seen, errors = column.seen()
    apart = np.sum(((column.of_two_points() - seen) / np.maximum(errors, 1e-12)) ** 2, axis=1)
    if apart[cut].min() + _EVIDENCE > apart[~cut].min():
        return None
    found = _DISTANCES[cut][np.argmin(apart[cut])]
    return float(_encoded(problem, column.at(np.array([-1.0 / found])), place)[0])


def step_along(at: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return by what rows of these moments move while their predictor does by a standard deviation, (p,).

    They do not where the predictor, at a parameter (p,), is that of a constant: its variance, and so the
    direction, would be of rounding.
    """
    along: FloatArray = covariance @ at
    square, second = float(at @ along), np.diag(covariance) + mean**2
    return along / math.sqrt(square) if square > _ROUNDING * float(at**2 @ second) else 0.0 * along


def row_weights(rows: FloatArray, covariance: FloatArray, step: FloatArray, norm_bound: float) -> FloatArray:
    """Return what mean rows (m, p), along a step (p,) of one standard deviation, are weighted down by, (m,).

    Across it rows are spread by the rest of their covariance (p, p).
    """
    others = max(float(np.trace(covariance)) - float(step @ step), 0.0)
    return np.minimum(norm_bound**2 / (np.sum(rows**2, axis=1) + others), 1.0)


def _encoded(problem: Problem, rows: FloatArray, place: int) -> FloatArray:
    """Return an encoded column of rows (m, p) in the problem's coordinates, (m,)."""
    basis = np.eye(problem.n_coef) if problem.basis is None else problem.basis
    return np.asarray(np.linalg.solve(basis.T, rows.T)[place], dtype=np.float64)
