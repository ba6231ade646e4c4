"""What is not controlled for: where noise hides it, coefficients of what goes with it are given up, too."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread, out_of_reach
from privfit.problem.objective import Problem

LARGEST_SHIFT = 2.0
"""Standard errors that a hidden slope may move a coefficient by that is not given up."""

LARGEST_HIDDEN_AXIS = 0.8
"""Part of a number's direction that may be unresolved before it passes for hidden as a whole."""


def uncontrolled(
    problem: Problem, directions: FloatArray, bread: Bread, at_bounds: Collection[int] = ()
) -> np.ndarray:
    """Return which directions are of linear predictors in which something is not controlled for, (k,).

    That is a constant that is `out_of_reach`, or a number that is hidden as a whole.

    Parameters
    ----------
    problem : Problem
    directions : array of shape (k, n_linear)
        In the encoded coefficients.
    bread : Bread
    at_bounds : collection of int
        Places of numbers that stand for two levels.

    Notes
    -----
    A number whose declared range is far wider than its values hardly varies in its unit, and what it does to
    the response is as much larger: noise hides how it goes with other columns, and whatever it would explain
    is left to them. So they would be estimated as if it was left out, precisely and wrongly. A level that few
    rows have is hidden as easily, but what it does to other coefficients is no more than what those few rows
    can do. So the constant may be that of the reference levels or that of rows of all levels: a reference
    that hardly a row has is hidden, and so is a level, and neither does any harm.
    """
    lost = np.any(hidden_numbers(problem, bread, at_bounds), axis=1)
    if problem.has_intercept:
        constants = np.eye(problem.n_linear)[:: problem.n_coef]
        far = out_of_reach(in_parameter(problem, constants), bread)
        if far.any():
            far = far & out_of_reach(in_parameter(problem, _at_shares(problem, bread)), bread)
        lost = lost | far
    of_output = directions.reshape(len(directions), -1, problem.n_coef).any(axis=2)
    return np.asarray((of_output & lost).any(axis=1))


def _at_shares(problem: Problem, bread: Bread) -> FloatArray:
    """Return the linear predictors at levels by their shares, without numbers, (n_outputs, n_linear)."""
    p = problem.n_coef
    found = np.zeros((problem.loss.n_outputs, problem.n_linear))
    for output, shares in enumerate(shares_of_levels(problem, bread)):
        found[output, output * p : (output + 1) * p] = shares
        found[output, output * p] = 1.0
    return found


def shares_of_levels(problem: Problem, bread: Bread) -> FloatArray:
    """Return the share of the rows of each indicator as a bread shows it, by curvature, (n_outputs, p).

    It is 0 for other columns.
    """
    axes, p = _axes(problem), problem.n_coef
    levels = np.array(problem.indicators or (False,) * p)
    found = np.zeros((problem.loss.n_outputs, p))
    for output, row in enumerate(found):
        own = slice(output * p, (output + 1) * p)
        with_constant = axes.T @ bread.matrix[own, own] @ axes[:, 0]
        row[:] = np.where(levels, np.clip(with_constant / with_constant[0], 0.0, 1.0), 0.0)
    return found


def hidden_numbers(problem: Problem, bread: Bread, at_bounds: Collection[int] = ()) -> np.ndarray:
    """Return which of the problem's numbers noise hides as a whole in which predictors, (n_outputs, k).

    Those that stand for two levels are none. The direction of a number is that in which its coefficient moves
    alone, with the constant as the bread says, so that the number counts from its mean; and with those of the
    columns that a product or power is made of, so that it counts by what it adds to them. Far from the
    middle of the declared bounds it is nearly a multiple of them, and shows with them though what it adds is
    hidden.
    """
    lost = np.zeros((problem.loss.n_outputs, len(problem.numbers)), dtype=np.bool_)
    if not bread.unresolved.shape[1] or bread.sd == 0.0:
        return lost
    axes = _axes(problem)
    for k, group in enumerate(problem.numbers):
        if not set(group) <= set(at_bounds):
            for output in range(len(lost)):
                lost[output, k] = _alone(problem, bread, axes, output, group).hidden
    return lost


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """What a number within some levels of a factor does to other coefficients where noise hides it.

    Parameters
    ----------
    place : int
        Its column.
    encoded : array of shape (n_linear,)
        By how much the encoded coefficients are off for each unit that its own is off by.
    curvature : float
        The least of those of the same number in all rows.
    """

    place: int
    encoded: FloatArray
    curvature: float


def shifted(
    shifts: Sequence[Shift], directions: FloatArray, *, bread: Bread, sampling: FloatArray, total: FloatArray
) -> np.ndarray:
    """Return which hidden slopes may move which directions by more than `LARGEST_SHIFT` errors, (m, k).

    Parameters
    ----------
    shifts : sequence of Shift, of length m
    directions : array of shape (k, n_linear)
        In the encoded coefficients.
    bread : Bread
    sampling : array of shape (q, q)
        Covariance of the parameter by sampling, times the number of rows.
    total : array of shape (k,)
        Variances of these directions.

    Notes
    -----
    A slope is taken to be off by as much as makes linear predictors differ by a deviation of residuals over a
    deviation of the number. The mean variance of predictors is ``tr(M C) / q``, that of residuals ``n`` times
    as large.
    """
    if not shifts:
        return np.zeros((0, len(directions)), dtype=np.bool_)
    residual = float(np.sum(bread.matrix * sampling)) / len(sampling)
    moves = [np.abs(directions @ each.encoded) * math.sqrt(residual / each.curvature) for each in shifts]
    return np.array(moves) > LARGEST_SHIFT * np.sqrt(total)


def hidden_slopes(problem: Problem, bread: Bread, at_bounds: Collection[int] = ()) -> tuple[Shift, ...]:
    """Return what the numbers within some levels of a factor do that noise hides as a whole.

    Such a slope counts by what it adds to its margins, as other products do. How much of it the rows without
    it take up is as the share of its levels, so that a rare one moves others by next to nothing.
    """
    if not bread.unresolved.shape[1] or bread.sd == 0.0:
        return ()
    found: list[Shift] = []
    axes, of_all = _axes(problem), {place for group in problem.numbers for place in group}
    for place, margins in enumerate(problem.margins):
        if place in of_all or not margins:
            continue
        bases = [group for group in problem.numbers if set(group) <= set(margins) - set(at_bounds)]
        for output in range(problem.loss.n_outputs if bases else 0):
            slope = _alone(problem, bread, axes, output, (place,))
            if slope.hidden:
                encoded = np.zeros(problem.n_linear)
                encoded[output * problem.n_coef :][[place, *slope.others]] = [1.0, *(-slope.taken)]
                curvature = min(_alone(problem, bread, axes, output, base).curvature for base in bases)
                found.append(Shift(place, encoded, curvature))
    return tuple(found)


def spreads_within(problem: Problem, bread: Bread) -> dict[int, float]:
    """Return by how much each number within a level differs there, by the place of its column.

    That is what its rows differ by on top of its margins: the curvature along the slope alone, over that
    along the level, of which both are the share.
    """
    indicators = {place for place, known in enumerate(problem.indicators) if known}
    others = indicators | {place for group in problem.numbers for place in group}
    within = {place: indicators & set(margins) for place, margins in enumerate(problem.margins)}
    within = {place: levels for place, levels in within.items() if levels and place not in others}
    if not within:
        return {}
    axes, p = _axes(problem), problem.n_coef
    along = np.sum(axes * (bread.matrix[:p, :p] @ axes), axis=0)
    slopes = {place: _alone(problem, bread, axes, 0, (place,)).curvature for place in within}
    return {place: math.sqrt(slopes[place] / min(along[list(levels)])) for place, levels in within.items()}


@dataclass(frozen=True, slots=True, eq=False)
class _Alone:
    """A number on top of the constant and its margins: what is taken of them, and what is left."""

    others: tuple[int, ...]
    taken: FloatArray
    curvature: float
    hidden: bool


def _axes(problem: Problem) -> FloatArray:
    """Return the directions of the encoded coefficients in the parameter's coordinates, (p, p) by columns."""
    basis = np.eye(problem.n_coef) if problem.basis is None else problem.basis
    return np.asarray(np.linalg.inv(basis), dtype=np.float64)


def _alone(problem: Problem, bread: Bread, axes: FloatArray, output: int, group: Sequence[int]) -> _Alone:
    p, of_columns = problem.n_coef, problem.margins or ((),) * problem.n_coef
    margins = sorted({other for place in group for other in of_columns[place]} - set(group))
    others = (*range(problem.has_intercept), *margins)
    rows = slice(output * p, (output + 1) * p)
    along, beside = axes[:, list(group)].sum(axis=1), axes[:, list(others)]
    weighted = beside.T @ bread.matrix[rows, rows]
    taken = np.linalg.solve(weighted @ beside, weighted @ along)
    left = along - beside @ taken
    inside = float(np.sum((bread.unresolved[rows].T @ left) ** 2))
    hidden = inside > LARGEST_HIDDEN_AXIS * float(left @ left)
    return _Alone(others, taken, float(left @ bread.matrix[rows, rows] @ left), hidden)


def in_parameter(problem: Problem, directions: FloatArray) -> FloatArray:
    """Return directions in the encoded coefficients, (k, n_linear), as ones in the parameter, (k, q)."""
    full = np.zeros((directions.shape[0], problem.size))
    in_basis = directions if problem.basis is None else directions @ problem.each_output(problem.basis)
    full[:, : problem.n_linear] = in_basis
    return full
