"""What it does to an estimate that its gradients are from points apart, as means are no straight lines."""

import math
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.combine import Estimate
from privfit.inference.covariance import Bread
from privfit.inference.cut_numbers import row_weights, step_along
from privfit.inference.ends import constant_alone
from privfit.losses import Logistic, Poisson
from privfit.losses.base import AbstractLoss, evaluate
from privfit.solvers.base import Solution
from privfit.solvers.curvature import normal_nodes

_FARTHEST = 0.5
"""Largest change of linear predictors, in root mean square, that is believed."""

_SINGULAR = 1e-9
"""Part of the largest curvature below which there is none, as where means are beyond their bound."""

_BEYOND = 1.0 / 3.0
"""Part of what is taken away that rows which are not normal may make of it."""


def straightened(estimate: Estimate, solution: Solution, center: FloatArray, bread: Bread) -> Estimate:
    """Take from an estimate what it is off by as the points of its gradients are apart, and widen it by some.

    Parameters
    ----------
    estimate : Estimate
        A Newton step from an average of late points, or left alone.
    solution : Solution
    center : array of shape (q,)
        Where the bread of that step was asked.
    bread : Bread

    Notes
    -----
    Let ``G`` be the mean gradient. The average of those at points ``t_j`` with parts ``p_j`` is off from what
    a bread at ``c`` makes of the average point by ``sum(p_j G(t_j)) - G(t) - G'(c) (sum(p_j t_j) - t)``, t
    the estimate: means of counts, and of labels of which one is rare, grow the faster the larger they are, so
    that points which noise has led apart have larger ones together than their average point. ``G`` is that of
    normal rows with the moments that were released, weighted down as they are in the fit. A perturbed
    minimiser is a single point, whose bread was moved half-way. Columns of 0 and 1 are not normal, the less
    so the rarer a 1 is, and points are far apart in their coefficients, and in what noise hides of the bread:
    these are held to their average.
    """
    loss, moments = solution.problem.loss, solution.moments
    if not isinstance(loss, Logistic | Poisson) or moments is None or not solution.problem.has_intercept:
        return estimate
    if not len(estimate.parts) or solution.model is not None or not estimate.cov_noise.any():
        return estimate  # points that no noise leads apart are where exact steps end
    problem, start = solution.problem, estimate.start
    known = moments().of_rows(constant_alone(problem))
    rows = _Rows(loss, *known, problem.norm_bound, *_coefficients_of_levels(solution), start)
    hide = bread.unresolved @ bread.unresolved.T

    def held(at: FloatArray) -> FloatArray:
        return at - hide @ (at - start)

    points, end = [held(step.release.at) for step in estimate.steps], held(estimate.theta)
    mean = estimate.parts @ np.array([rows.gradient(point) for point in points])
    hessian = rows.hessian(held(center))
    off = mean - rows.gradient(end) - hessian @ rows.numbers(start - end)
    move = rows.within(_FARTHEST, rows.step(hessian, off))
    doubt = np.outer(_BEYOND * move, _BEYOND * move)
    return replace(estimate, theta=estimate.theta + move, cov_noise=estimate.cov_noise + doubt)


def _coefficients_of_levels(solution: Solution) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients of columns of two values, and what moves each alone, (m, q) and (q, m)."""
    problem = solution.problem
    basis = np.eye(problem.n_coef) if problem.basis is None else problem.basis
    two = {place for place, known in enumerate(problem.indicators) if known and place}
    places = sorted(two | set(solution.at_bounds))
    alone: FloatArray = np.asarray(np.linalg.inv(basis)[:, places], dtype=np.float64)
    return basis[places], alone


@final
@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Normal rows, weighted down as in the fit, and what they say of gradients, but for responses.

    Parameters
    ----------
    loss : AbstractLoss
    mean : array of shape (q,)
    covariance : array of shape (q, q)
    norm_bound : float
    levels : array of shape (m, q)
        Coefficients of columns of two values, ``levels @ t``, which are those of ``start``.
    alone : array of shape (q, m)
        What moves each of them and no other coefficient.
    start : array of shape (q,)
    """

    loss: AbstractLoss
    mean: FloatArray
    covariance: FloatArray
    norm_bound: float
    levels: FloatArray
    alone: FloatArray
    start: FloatArray

    def gradient(self, at: FloatArray) -> FloatArray:
        """Return the mean of ``w f(x't) x``, f the mean response, at a parameter t (q,)."""
        rows, response = self._along(at, self.loss.functions.slope)
        return response @ rows

    def hessian(self, at: FloatArray) -> FloatArray:
        """Return the mean of ``w f'(x't) x x'`` at a parameter (q,), shape (q, q)."""
        rows, curved = self._along(at, self.loss.functions.curvature)
        step = step_along(self.numbers(at), self.mean, self.covariance)
        return (rows.T * curved) @ rows + float(curved.sum()) * (self.covariance - np.outer(step, step))

    def numbers(self, at: FloatArray) -> FloatArray:
        """Return a parameter (q,) without the coefficients of levels."""
        return at - self.alone @ (self.levels @ at)

    def step(self, hessian: FloatArray, off: FloatArray) -> FloatArray:
        """Return the Newton step (q,) by other coefficients than those of levels."""
        free = np.linalg.svd(self.levels)[2][len(self.levels) :].T if len(self.levels) else np.eye(off.size)
        found = np.linalg.lstsq(free.T @ hessian @ free, free.T @ off, rcond=_SINGULAR)[0]
        moved: FloatArray = np.asarray(free @ found, dtype=np.float64)
        return moved

    def within(self, most: float, move: FloatArray) -> FloatArray:
        """Return as much of a change (q,) as changes linear predictors by ``most`` in root mean square."""
        square = float(move @ self.covariance @ move) + float(self.mean @ move) ** 2
        return move * min(1.0, most / math.sqrt(max(square, 1e-300)))

    def _along(self, at: FloatArray, function: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean rows by their predictors, (n, q), and a function of these times their weights, (n,)."""
        (nodes,), chance = normal_nodes(1)
        numbers = self.numbers(at)
        step = step_along(numbers, self.mean, self.covariance)
        rows = self.mean + nodes[:, None] * step
        predictors = rows @ numbers + float(self.mean @ self.alone @ (self.levels @ self.start))
        counting = chance * row_weights(rows, self.covariance, step, self.norm_bound)
        return rows, counting * evaluate(function, 0.0, predictors, s=1.0, loss=self.loss)
