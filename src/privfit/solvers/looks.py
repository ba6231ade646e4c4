"""What looks at residuals change of a loss: how wide a quantile is smoothed, or what bound residuals have."""

from privfit._checks import FloatArray
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers import residual_bounds, widths
from privfit.solvers.geometry import Frame, Marginals
from privfit.solvers.raised_counts import raised_at

LOOKS = (0.25, 0.25, 0.5)
"""Parts of what looks at residuals cost by which a bound is lowered: the first two about the mean response,
the last, which decides, where steps led. Those by which a width is chosen are alike."""

_USUAL = 0.03
"""Part of a solver's squared budget that looks at residuals cost."""

_TO_SEE, _MOST = 350.0, 0.2
"""That part times ``n mu``, for bounds, up to the most: all noise that follows is in proportion to a bound,
and with little budget noise in a small look hides that residuals are small."""

_LEAST_SIGNAL = 150.0
"""That ``n mu`` below which noise hides them from such a look, too."""


_FOR_MEDIAN, _LEAST_FOR_MEDIAN, _MOST_FOR_MEDIAN = 25.0, 0.003, 0.85
"""Square root of the part of a squared budget that shows where most responses are, times ``n mu``, the least
of that part, and the most of the room for it that it is worth: without, noise in the mean of a generous range
makes predictions worse than those of a constant."""

_HARDLY = 2.5
"""``n mu`` for each coefficient up to which that is so; beyond, steps find the constant."""

_ABOUT_MEDIAN = (0.4, 0.6)
"""Parts of it for a look about the mean and one about the median."""


def median_shares(problem: Problem, signal: float, room: float) -> tuple[float, ...]:
    """Return the parts of a squared budget that looks for the median are worth, for each a release.

    Parameters
    ----------
    problem : Problem
    signal : float
        Of the whole budget.
    room : float
        What other looks leave of the squared budget, for these and for steps.
    """
    strength = problem.n_rows * signal
    worth = max((_FOR_MEDIAN / strength) ** 2, _LEAST_FOR_MEDIAN)
    needed = residual_bounds.has_bound(problem) and strength < _HARDLY * problem.n_linear
    if not needed or worth > _MOST_FOR_MEDIAN * room:
        return ()
    return tuple(part * worth for part in _ABOUT_MEDIAN)


def look_shares(problem: Problem, signal: float, share: float | None = None) -> tuple[float, ...]:
    """Return the parts of a solver's squared budget that looks at residuals are worth, for each a release.

    Parameters
    ----------
    problem : Problem
    signal : float
        Of the solver's budget.
    share : float, optional
        That of all of them, if it is not to be chosen.
    """
    if residual_bounds.has_bound(problem):
        strength = problem.n_rows * signal
        seen = min(max(_TO_SEE / strength, _USUAL), _MOST)
        worth = seen if strength >= _LEAST_SIGNAL else _USUAL
        return tuple(part * (share or worth) for part in LOOKS)
    if widths.has_widths(problem):
        return ((share or _USUAL) / len(LOOKS),) * len(LOOKS)
    return ()


def led_by_residuals(
    problem: Problem, oracle: Oracle, marginals: Marginals, frame: Frame, mu: float
) -> tuple[Problem, Marginals]:
    """Look at residuals about the mean response; return the problem and what to lead the way from."""
    problem, marginals = widths.led_by_quantile(problem, oracle, marginals, frame)
    return residual_bounds.led_by_spread(problem, oracle, marginals, frame, mu)


def put_right(
    problem: Problem, oracle: Oracle, frame: Frame, point: FloatArray, mu: float, *, led: FloatArray
) -> tuple[Problem, FloatArray]:
    """Look at residuals where the first steps led; return the problem and a point amid the rows.

    ``led`` (p,) is the same point, not shrunk. What was seen of counts is held to what it explains.
    """
    problem = raised_at(problem, oracle, frame, led, mu)
    point = widths.recentred(problem, oracle, frame, point)
    return residual_bounds.bounded_at(problem, oracle, frame, point, mu)
