"""What is not controlled for: where noise hides it, coefficients of what goes with it are given up, too."""

from collections.abc import Collection

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread, out_of_reach
from privfit.problem.objective import Problem

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
    can do.
    """
    lost = np.any(hidden_numbers(problem, bread, at_bounds), axis=1)
    if problem.has_intercept:
        constants = np.eye(problem.n_linear)[:: problem.n_coef]
        lost = lost | out_of_reach(in_parameter(problem, constants), bread)
    of_output = directions.reshape(len(directions), -1, problem.n_coef).any(axis=2)
    return np.asarray((of_output & lost).any(axis=1))


def hidden_numbers(problem: Problem, bread: Bread, at_bounds: Collection[int] = ()) -> np.ndarray:
    """Return which of the problem's numbers noise hides as a whole in which predictors, (n_outputs, k).

    Those that stand for two levels are none. The direction of a number is that in which its coefficient moves
    alone, with the constant as the bread says, so that the number counts from its mean; and with those of the
    columns that a product or power is centred by, so that it counts by what it adds to them. Far from the
    middle of the declared bounds it is nearly a multiple of them, and shows with them though what it adds is
    hidden.
    """
    lost = np.zeros((problem.loss.n_outputs, len(problem.numbers)), dtype=np.bool_)
    if not bread.unresolved.shape[1] or bread.sd == 0.0:
        return lost
    p = problem.n_coef
    axes = np.eye(p) if problem.basis is None else np.linalg.inv(problem.basis)
    margins = problem.margins or ((),) * len(problem.numbers)
    for k, (group, lower) in enumerate(zip(problem.numbers, margins, strict=True)):
        if set(group) <= set(at_bounds):
            continue
        along, others = axes[:, list(group)].sum(axis=1), axes[:, [*range(problem.has_intercept), *lower]]
        for output in range(len(lost)):
            rows = slice(output * p, (output + 1) * p)
            weighted = others.T @ bread.matrix[rows, rows]
            left = along - others @ np.linalg.solve(weighted @ others, weighted @ along)
            inside = np.sum((bread.unresolved[rows].T @ left) ** 2)
            lost[output, k] = inside > LARGEST_HIDDEN_AXIS * np.sum(left**2)
    return lost


def in_parameter(problem: Problem, directions: FloatArray) -> FloatArray:
    """Return directions in the encoded coefficients, (k, n_linear), as ones in the parameter, (k, q)."""
    full = np.zeros((directions.shape[0], problem.size))
    in_basis = directions if problem.basis is None else directions @ problem.each_output(problem.basis)
    full[:, : problem.n_linear] = in_basis
    return full
