"""What looks at residuals change of a loss: how wide a quantile is smoothed, or what bound residuals have."""

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers import residual_bounds, widths
from privfit.solvers.geometry import Frame, Marginals

LOOKS = 3
"""Looks at residuals by which a loss is changed: about the mean response, then where that or steps led."""


def planned_looks(problem: Problem) -> int:
    """Return how many releases of kind ``"residuals"`` are asked for, which have to be planned."""
    return LOOKS if widths.has_widths(problem) or residual_bounds.has_bound(problem) else 0


def led_by_residuals(
    problem: Problem, oracle: Oracle, marginals: Marginals, frame: Frame, mu: float
) -> tuple[Problem, Marginals]:
    """Look at residuals about the mean response; return the problem and what to lead the way from."""
    problem, marginals = widths.led_by_quantile(problem, oracle, marginals, frame)
    return residual_bounds.led_by_spread(problem, oracle, marginals, frame, mu)


def put_right(
    problem: Problem, oracle: Oracle, frame: Frame, point: FloatArray, mu: float
) -> tuple[Problem, FloatArray]:
    """Look at residuals where the first steps led; return the problem and a point amid the rows."""
    point = widths.recentred(problem, oracle, frame, point)
    return residual_bounds.bounded_at(problem, oracle, frame, point, mu)
