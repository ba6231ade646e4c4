"""Levels, and tables, in which some response may not occur at all, as far as noise lets it be seen."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.inference.found import Found
from privfit.losses.means import AbstractMeans
from privfit.problem.objective import Problem
from privfit.solvers.base import Solution
from privfit.solvers.levels import moves_of, moves_of_cells

_DEVIATIONS = 1.645
"""Standard deviations by which a mean response has to exceed 0: of none it does in 5 %."""

_INVOLVED = 1e-9
"""Part of a change that a coefficient has to see."""


def may_be_without_end(solution: Solution, directions: FloatArray, found: Found) -> NDArray[np.bool_]:
    """Return which reported coefficients are of rows whose predictors may have no end, (k,).

    Parameters
    ----------
    solution : Solution
    directions : array of shape (k, n_linear)
        Reported coefficients as linear functions of the encoded ones.
    found : Found
        Its estimate is a Newton step from the average of late points, and its bread at a point near that; of
        any other estimate nothing is said.

    Notes
    -----
    Asked are all rows together, and those of each level, which share a predictor but for other columns. The
    mean of a response there, times their share of the rows, is what it is at a point less the gradient along
    the change that raises it alone. The first is the curvature along that for a count, and for a class that
    over ``1 - p``, p being its probability at a mean row of the level. Where 0 is within what noise and
    sampling explain, the interval that a score test gives (Rao 1948, *Large sample tests of statistical
    hypotheses*) has no end, and a symmetric one about the estimate says nothing: with no event at all a
    Newton step goes no further than by 1. Slopes of the predictor, or within a level, are lost with it: a
    response that does not occur has none.
    """
    problem, means = solution.problem, solution.problem.loss.means
    estimate, bread = found.estimate, found.bread
    if means is None or not problem.has_intercept or not estimate.parts.size:
        return np.zeros(len(directions), dtype=np.bool_)
    moves = np.concatenate([np.eye(problem.n_coef)[:1], levels_of(problem, solution.at_bounds)])
    turned = with_constant(problem, moves)
    lift, start = means.lift, estimate.start
    along = np.kron(lift, turned[1:])
    half = along @ bread.matrix
    curvature = np.sum(half * along, axis=1)
    each = _mean_of_curvature(means, start.reshape(lift.shape[1], -1), mean_rows(means, bread, turned))
    mean = each * curvature - half @ (start - estimate.theta)
    noise = estimate.parts * np.array([step.release.sd for step in estimate.steps])
    lengths = np.sum(along**2, axis=1)
    with np.errstate(over="ignore"):  # where there is nearly no curvature its mean may be anything
        variance = (noise @ noise) * lengths + (each * bread.sd * lengths) ** 2
        variance += np.sum((half @ found.sampling) * half, axis=1)
    endless = mean < _DEVIATIONS * np.sqrt(variance)
    lost = np.zeros(len(directions), dtype=np.bool_)
    for raised, of_levels in zip(lift, endless.reshape(len(lift), -1), strict=True):
        changes = np.eye(problem.n_coef) if of_levels[0] else with_slopes(problem, moves[of_levels])
        lost |= involved(directions, np.kron(raised, changes))
    return lost


def levels_of(problem: Problem, at_bounds: Sequence[int]) -> FloatArray:
    """Return what moves the rows of a level by 1, for all levels and combinations of levels, (L, p)."""
    moves = moves_of(problem, at_bounds)
    return np.concatenate([moves, moves_of_cells(problem)]) if problem.has_intercept else moves


def with_slopes(problem: Problem, moves: FloatArray) -> FloatArray:
    """Return moves of levels, (L, p), and unit vectors of what the slopes within these are made of."""
    slopes = {place for move in moves for place in _slopes_within(problem, move)}
    return np.concatenate([moves, np.eye(problem.n_coef)[sorted(slopes)]])


def _slopes_within(problem: Problem, move: FloatArray) -> Iterator[int]:
    """Return the places of columns that slopes within a level are made of.

    They are the products with its indicator. A level whose move moves the constant has none, like that of
    reference: slopes within it are those of the columns that the products with others are told from. Of a
    combination of levels slopes are asked for that are products with all of its factors.
    """
    places = set((np.flatnonzero(move[1:]) + 1).tolist())
    cells = (set(cell.own) for cell in problem.cells if places == {one for one, _ in cell.made_of if one})
    own = next(cells, places)
    indicators = {place for factor in problem.factors for place in factor}
    for product, margins in enumerate(problem.margins):
        if own.isdisjoint(margins):
            continue
        parts = set(margins) - places - indicators
        apart = {place for place in parts if places.isdisjoint(problem.margins[place])}
        if not move[0]:
            yield from (product, *(parts - apart))
        elif apart or own <= set(margins):  # else a slope within another level that is a column of its own
            yield from (product, *parts)


def involved(directions: FloatArray, changes: FloatArray) -> NDArray[np.bool_]:
    """Return which of the coefficients ``directions @ theta``, (k,), see any of these changes, (m, q)."""
    return np.asarray((np.abs(directions @ changes.T) > _INVOLVED).any(axis=1))


def _mean_of_curvature(means: AbstractMeans, start: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the mean response of levels for each unit of the curvature along its own change, (K L,).

    Parameters
    ----------
    means : AbstractMeans
    start : array of shape (m, p)
    rows : array of shape (L, p)
        Mean rows of the levels.
    """
    at = means.at(start @ rows.T)
    return (at / np.maximum(means.variance(at), 1e-300)).ravel()


def with_constant(problem: Problem, moves: FloatArray) -> FloatArray:
    """Return a change of the constant and those of L levels, (1 + L, p), in the problem's coordinates."""
    basis = np.eye(problem.n_coef) if problem.basis is None else problem.basis
    moved = np.concatenate([np.eye(problem.n_coef)[:1], moves])
    return np.asarray(np.linalg.solve(basis, moved.T).T, dtype=np.float64)


def constant_alone(problem: Problem) -> FloatArray:
    """Return a change of the constant, (p,), in the problem's coordinates."""
    return with_constant(problem, np.zeros((0, problem.n_coef)))[0]


def mean_rows(means: AbstractMeans, bread: Bread, changes: FloatArray) -> FloatArray:
    """Return the mean rows of L levels, weighted by curvature, as far as a bread tells, (L, p).

    Parameters
    ----------
    means : AbstractMeans
    bread : Bread
    changes : array of shape (1 + L, p)
        Of coefficients, that move the predictors of all rows, or those of a level's, by 1.

    Notes
    -----
    A change times the bread is the curvature of its rows times their mean. Of a level that few rows have,
    noise hides what they are like in other columns long before it hides that there are some. So their mean is
    drawn to that of all rows as far as noise may set the two apart, by the rule of Bayes, for levels that are
    as far from it as rows are. What a change says of its own rows stays as it is.
    """
    lift = means.lift
    of_lifts = lift.T @ lift
    m, p = len(of_lifts), changes.shape[1]
    sums = np.einsum("ab,apbr->pr", of_lifts, bread.matrix.reshape(m, p, m, p))
    half = changes @ sums
    curvature = np.sum(half * changes, axis=1)
    rows = half / curvature[:, None]
    noise = 0.5 * (bread.sd * np.linalg.norm(of_lifts)) ** 2 * np.sum(changes**2, axis=1)
    square = abs(float(np.trace(sums)) / (p * curvature[0]))
    part = noise / np.maximum(square * curvature**2 + noise, 1e-300)
    drawn = rows + part[:, None] * (rows[0] - rows)
    return np.array([_moved_by_1(drawn[k], changes[[0, k]]) for k in range(1, len(changes))]).reshape(-1, p)


def _moved_by_1(row: FloatArray, changes: FloatArray) -> FloatArray:
    """Return the row next to one that these changes, (2, p), move by 1."""
    return np.asarray(row + np.linalg.pinv(changes) @ (1.0 - changes @ row))
