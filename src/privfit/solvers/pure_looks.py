"""Looks at the response under pure budgets, for methods that release a minimiser once, without steps."""

import math

import numpy as np

from privfit.losses.multinomial import Multinomial
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import ReleaseKind
from privfit.problem.schedule import signal_of
from privfit.solvers.counts import count_looks, has_counts, held_to_counts
from privfit.solvers.geometry import Frame
from privfit.solvers.histogram import counting_part
from privfit.solvers.raised_counts import raised_alone
from privfit.solvers.residual_bounds import has_bound, held_to_range, held_to_spread
from privfit.solvers.response import ClassShares, MeanResponse
from privfit.solvers.widths import has_widths, suited_to_response

_LOOK, _MOST = 0.06, 0.2
"""Part of epsilon that looks at the response cost, at least, and at most: where that does not do there are
none, and the bound on the response stays as declared."""

_TO_SEE_COUNTS, _TO_SEE_TAILS = 310.0, 1150.0
"""That part times ``n epsilon`` by which looks show nearly all counts, and how heavy other tails are."""

_TO_SEE_ENDS = 40.0
"""The same by which a single look shows that hardly a response is at an end of its range."""

_LABELS, _TO_SEE_LABELS = 0.02, 20.0
"""Part of epsilon that a look at labels costs, and that times ``n epsilon`` from which on it is taken."""

_LOOKS = (0.15, 0.15, 0.7)
"""Parts of that: the first two show where the median is, the last how far the response is from it."""


def looks_planned(problem: Problem, epsilon: float) -> tuple[tuple[ReleaseKind, float], ...]:
    """Return the looks by which the loss suits the response, and about the part of epsilon of each.

    Parameters
    ----------
    problem : Problem
    epsilon : float
        What the solver may spend.
    """
    signal = problem.n_rows * epsilon
    if problem.loss.target_kind in ("binary", "class"):
        return (("labels", _LABELS),) if signal * _LABELS >= _TO_SEE_LABELS else ()
    if has_counts(problem) and signal * _MOST >= _TO_SEE_COUNTS:
        return tuple(count_looks(problem, max(_TO_SEE_COUNTS / signal, _LOOK)).items())
    if (has_bound(problem) or has_widths(problem)) and signal * _MOST >= _TO_SEE_TAILS:
        return tuple(("residuals", of_looks * max(_TO_SEE_TAILS / signal, _LOOK)) for of_looks in _LOOKS)
    return (("residuals", _LOOK),) if has_bound(problem) and signal * _LOOK >= _TO_SEE_ENDS else ()


def labels_seen(problem: Problem, oracle: Oracle) -> MeanResponse | ClassShares | None:
    """Return the shares of labels among the rows that count, where a look at them is planned.

    Where there are two both shares say how many have the second, that of the first from the other side.
    """
    if not oracle.remaining("labels"):
        return None
    found = oracle.release("labels", np.array(problem.start))
    counting = counting_part(found.value, found.sd)
    shares, error = found.value / counting, found.sd / counting
    if isinstance(problem.loss, Multinomial):
        return ClassShares(problem.loss, shares, error)
    mean, error = 0.5 * (1.0 + float(shares[1] - shares[0])), error / math.sqrt(2.0)
    return MeanResponse(problem, mean, math.sqrt(max(mean * (1.0 - mean), 0.0)), error)


def suited_to_looks(problem: Problem, oracle: Oracle, frame: Frame, *, unit: float) -> tuple[Problem, float]:
    """Return the problem with what looks ask for, where any are planned, and where they show the response.

    The latter is a constant predictor, 0 without looks.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    frame : Frame
        Coordinates in which rows are about even.
    unit : float
        Their standard deviation where the norm of rows is bounded by `norm_limit`.
    """
    signal = unit * signal_of(oracle.plan.solver_releases, problem.size)
    if oracle.remaining("counts"):
        return raised_alone(held_to_counts(problem, oracle), oracle, signal), 0.0
    if has_widths(problem):
        return suited_to_response(problem, oracle, frame, signal, unit=unit)
    if oracle.remaining("residuals") > 1:
        return held_to_spread(problem, oracle, frame, signal, unit=unit)
    return held_to_range(problem, oracle, frame), 0.0
