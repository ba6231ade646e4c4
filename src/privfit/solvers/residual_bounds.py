"""How large residuals are: the bound of least squares is lowered to what looks at them show."""

import math
from dataclasses import replace

import numpy as np
from scipy.optimize import root_scalar

from privfit._checks import FloatArray
from privfit.losses import Squared
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import with_loss
from privfit.solvers.geometry import Frame, Marginals
from privfit.solvers.hessian_model import noise_of_bound
from privfit.solvers.residuals import Residuals, about_quantile, adapting, look_at, unit_of
from privfit.solvers.response import MeanResponse
from privfit.solvers.row_bound import longest_usual
from privfit.solvers.tails import tail_bound

_MOST_HIDDEN = 0.28
"""Share of rows that noise may hide: where it is more, a look says nothing."""

_HEAVIER = 0.65
"""Exponent of the tail that noise hides, relative to the one that is shown: with more the intercept of skewed
errors is off, with less all intervals are wider (`experiments/generous_response.py`)."""

_BLURRED = 0.5
"""The same of residuals about a constant: what predictors add makes the tails of errors look lighter."""

_FAR_OUT = 9.0
"""Variance of the response over that by its quartiles from which on few rows, far out, make up most of it: a
log-normal law has 4."""

_BIAS = 0.2
"""Standard errors that an estimate may be off by for residuals beyond the bound."""

_ONE_SIDED, _LEAST_SKEWED = 0.4, 0.15
"""Skewness from which on all residuals beyond the bound are taken to be on one side, and the least part of
them by which one side is taken to have more."""

_HEAP = 0.35
"""Share of rows in a single class of residuals about the median from which on responses are no continuum."""

_AMID = 0.1
"""Share of rows on either side of such a heap from which on it is amid what is seen, as with ratings."""

_AT_ENDS = 0.3
"""Share of responses in the outer parts of a range, each a seventh of it, below which fits are near no end,
and residuals hardly larger than half the range."""

_BOTH_ENDS = 2.0
"""Standard deviations of noise in the four classes at the ends of a range, over that in one."""

_CERTAIN = 3.0
"""Standard deviations of noise that are taken from a variance."""

_ROUGHLY = 1.5
"""Times that a spread is thought to be what is only roughly seen of it."""

_ASTRAY = 0.5
"""Median of the residuals, in their standard deviations by the quartiles, from which on a point is moved."""

_NOISE = 0.25
"""What noise may add to a standard error, relative to that of sampling, for a bound that cuts nothing."""

_UNLIKE_BIAS, _MOST_NOISE = 0.1, 0.5
"""The same up to which tails unlike what is seen are believed."""

_FOR_MEAT = 0.0015
"""Squared bound of that kind over the variance of the residuals, times ``p / (n mu)``, where these are about
even on both sides: the noise in the meat is then a small part of its eigenvalues."""

_MEAT_NOISE = 0.2
"""Noise in a diagonal entry of a planned meat, relative to its eigenvalues, up to which a bound that is not
needed is raised under pure budgets: with more, intervals become longer as the budget grows."""

WHOLE = 2.0
"""Largest residual that a declared range allows, in half ranges."""


def has_bound(problem: Problem) -> bool:
    """Return whether `privfit.solvers.looks.LOOKS` looks at residuals lower the bound."""
    return adapting(problem, Squared) is not None


def widest(problem: Problem) -> Problem:
    """Return the problem with the bound that cuts nothing, and so the largest sensitivities, for planning."""
    loss = adapting(problem, Squared)
    return problem if loss is None else replace(problem, loss=_whole(loss))


def _whole(loss: Squared) -> Squared:
    """Return the loss, bounded by half the declared range, with all of it as its bound."""
    return replace(loss, bound=WHOLE * loss.bound)


def led_by_spread(
    problem: Problem, oracle: Oracle, marginals: Marginals, frame: Frame, mu: float
) -> tuple[Problem, Marginals]:
    """Look at residuals about the mean response and its median, for a bound, and where to start.

    Where the declared range is generous noise hides both the mean and how small the spread is. If many
    responses are one number and few others are on one side of it, or few rows, far out, certainly make up
    most of the variance, no residual is cut: so it is with responses of 0 and 1, and with amounts that are
    mostly 0, of which noise may hide all others. Other problems are left alone.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    marginals : Marginals
    frame : Frame
    mu : float
        Signal of the solver's budget.
    """
    loss, response = adapting(problem, Squared), marginals.response
    if loss is None or not isinstance(response, MeanResponse):
        return problem, marginals
    seen, center = _about_median(problem, oracle, frame, response)
    if seen is None or seen.spread is None:
        return problem, marginals
    spread = seen.spread * unit_of(problem)
    if _at_an_end(seen) or _far_out(response, spread):
        return with_loss(problem, oracle, replace(_whole(loss), adapts=False)), marginals
    bound = unit_of(problem) * _bound(seen, problem, mu / _longer(problem, frame), math.inf)
    loss = _whole(loss) if seen.beyond else loss.lowered(bound)
    response = replace(response, spread=min(spread, response.spread), found=center)
    return with_loss(problem, oracle, loss), replace(marginals, response=response)


def led_to_median(problem: Problem, oracle: Oracle, marginals: Marginals, frame: Frame) -> Marginals:
    """Look at residuals about the mean response and its median; return where to start, and the spread.

    For methods that cut gradients otherwise. Where the declared range is generous noise hides both the mean
    and how small the spread is. Cases that `led_by_spread` leaves alone are left alone here, too.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    marginals : Marginals
    frame : Frame
    """
    response, looks = marginals.response, oracle.remaining("residuals") - 1
    if adapting(problem, Squared) is None or not isinstance(response, MeanResponse) or looks < 1:
        return marginals
    seen, center = _about_median(problem, oracle, frame, response, looks=looks)
    shown = None if seen is None else seen.spread or seen.rough_spread
    if seen is None or shown is None:
        return marginals
    spread = shown * unit_of(problem)
    if _at_an_end(seen) or _far_out(response, spread):
        return marginals
    if seen.spread is None:
        spread *= _ROUGHLY
    return replace(marginals, response=replace(response, spread=min(spread, response.spread), found=center))


def _about_median(
    problem: Problem, oracle: Oracle, frame: Frame, response: MeanResponse, *, looks: int = 1
) -> tuple[Residuals | None, float]:
    start = response.mean if problem.has_intercept else 0.0
    return about_quantile(problem, oracle, frame, 0.5, center=start, looks=looks)


def _far_out(response: MeanResponse, spread: float) -> bool:
    """Return whether few rows, far beyond this spread, certainly make up most of the variance."""
    return response.certain_variance(_CERTAIN) > _FAR_OUT * spread**2


def _at_an_end(seen: Residuals) -> bool:
    """Return whether many responses are one number, and few are certainly on one side of it.

    Rows that are close together beside the range are in the two classes about 0, which no single number is.
    """
    return seen.heap > _HEAP and seen.beside < _AMID and seen.about_zero < _AMID


def held_to_spread(
    problem: Problem, oracle: Oracle, frame: Frame, mu: float, *, unit: float
) -> tuple[Problem, float]:
    """Look at the response about its median; return the problem with a bound on residuals to suit, and that.

    For methods without steps, which release a minimiser once. The oracle goes on with it. Residuals about a
    fit are no larger than those about the median, for all but few rows. As in `led_by_spread` none is cut
    where many responses are one number, or few rows, far out, make up most of the variance.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates, of least squares with a bound that adapts.
    oracle : Oracle
    frame : Frame
    mu : float
        Signal of the solver's budget.
    unit : float
        Standard deviation of the coordinates in which a meat is asked for.
    """
    loss = problem.loss
    looks = oracle.remaining("residuals") - 1
    seen, center = about_quantile(problem, oracle, frame, 0.5, looks=looks)
    if not isinstance(loss, Squared) or seen is None or seen.spread is None:
        return problem, center
    if _at_an_end(seen) or seen.beyond or seen.certain_square > _FAR_OUT * seen.spread**2:
        return with_loss(problem, oracle, _whole(loss)), center
    bound = _bound(seen, problem, mu, _for_planned_meat(loss, oracle, unit), blurred=True)
    return with_loss(problem, oracle, loss.lowered(unit_of(problem) * bound)), center


def held_to_range(problem: Problem, oracle: Oracle, frame: Frame) -> Problem:
    """Return the problem with half the range as a bound on residuals if a look shows few rows at its ends.

    For methods without steps. Where many are, or nothing shows that they are not, no residual is cut: that of
    a response of 0 and 1 may be larger. Other problems are left alone.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    frame : Frame
    """
    loss = adapting(problem, Squared)
    if loss is None:
        return problem
    if oracle.remaining("residuals"):
        seen = look_at(problem, oracle, frame, frame.constant(0.0))
        if float(np.sum(seen.sizes[-2:])) + 2.0 * _BOTH_ENDS * seen.noise < _AT_ENDS:
            return problem
    return with_loss(problem, oracle, _whole(loss))


def bounded_at(
    problem: Problem, oracle: Oracle, frame: Frame, point: FloatArray, mu: float
) -> tuple[Problem, FloatArray]:
    """Look at residuals, for a bound to suit, and return the problem and a point amid the rows.

    The oracle goes on with it, and with the less noise that it asks for. A point that the first steps led
    astray gets another constant. Other problems are left alone.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    frame : Frame
    point : array of shape (p,)
        In the coordinates of the frame, a function of earlier releases.
    mu : float
        Signal of the solver's budget.

    Notes
    -----
    Let noise hide a share ``h`` of the rows beyond the size ``q``, and half of the rows keep within ``m``.
    With a survival function ``exp(-(r / a)**k)`` of the sizes these two say what ``k`` is; beyond ``q`` it is
    taken to be 0.65 of that, about 1 for normal residuals, and 1 at most. Residuals beyond a bound
    ``B`` move the intercept by the mean excess over it if all are on one side, by less where residuals are
    not skewed. The bound is that at which this is a fifth of its standard error, or the larger one up to
    which noise adds little to that, and ``q`` at least. Slopes move by less, unless large residuals come with
    far rows. Where noise hides more than 0.28 of the rows the bound stays.

    All of that rests on the tail being like what is seen. Rows that are far out, and so few that noise hides
    them, are cut.
    """
    loss = problem.loss
    if not isinstance(loss, Squared) or not oracle.remaining("residuals"):
        return problem, point
    seen, unit = look_at(problem, oracle, frame, point), unit_of(problem)
    longer = _longer(problem, frame)
    bound = unit * _bound(seen, problem, mu / longer, _for_meat(problem, mu) / longer)
    problem = with_loss(problem, oracle, _bounded(loss, problem, bound))
    middle, spread = seen.quantile(0.5), seen.spread
    if middle is None or spread is None or not problem.has_intercept or abs(middle) < _ASTRAY * spread:
        return problem, point
    return problem, point + frame.constant(middle * unit)


def _for_meat(problem: Problem, mu: float) -> float:
    """Return the bound, in standard deviations, up to which the noise in a meat is small; see `_FOR_MEAT`."""
    return math.sqrt(_FOR_MEAT * problem.n_rows * mu / problem.n_coef)


def _for_planned_meat(loss: Squared, oracle: Oracle, unit: float) -> float:
    """Return the same from the noise of the planned meat, which goes by the square of the bound.

    See `_MEAT_NOISE`; ``inf`` where no meat is planned, or without noise.
    """
    sd = max((one.sd for one in oracle.plan.inference_releases if one.kind == "meat"), default=0.0)
    return _whole(loss).bound * unit * math.sqrt(_MEAT_NOISE / sd) if sd > 0.0 else math.inf


def _longer(problem: Problem, frame: Frame) -> float:
    """Return how many times those of normal columns the longest rows are, as noise is; 1 at least."""
    return math.sqrt(max(frame.size / longest_usual(problem.n_coef, problem.n_rows), 1.0))


def _bounded(loss: Squared, problem: Problem, bound: float) -> Squared:
    """Return the loss with the bound that the last look asks for; as earlier ones left it, if that is none.

    It may be above what they lowered it to, by less of the budget, but not above all that is possible.
    """
    low, high = problem.response_range
    possible = max(0.5 * (high - low), loss.bound)
    return replace(loss, bound=min(bound, possible)) if loss.adapts and math.isfinite(bound) else loss


def _bound(seen: Residuals, problem: Problem, mu: float, for_meat: float, *, blurred: bool = False) -> float:
    """Return the bound that a look asks for, in the unit of its sizes; ``inf`` where it says nothing.

    ``for_meat``, in standard deviations by the quartiles, is the most that a bound may be so that a large
    budget cuts nothing, where residuals are even on both sides. Where predictors have blurred them they are
    taken to be on one side in all but that.
    """
    size, hidden = seen.largest or (0.0, 1.0)
    if hidden == 0.0:
        return size
    spread, skewness = seen.spread, 1.0 if blurred or seen.skewness is None else abs(seen.skewness)
    if spread is None or hidden > _MOST_HIDDEN:
        return math.inf
    each = noise_of_bound(problem, mu)
    one_sided = min(max(skewness / _ONE_SIDED, _LEAST_SKEWED), 1.0)
    heavier = _BLURRED if blurred else _HEAVIER

    def error(bound: float) -> float:
        """Return the mean excess over a bound on one side that moves the intercept by its standard error."""
        return math.hypot(spread, each * bound) / math.sqrt(problem.n_rows)

    def further(bound: float) -> float:
        """Return how much further than a bound the tail reaches for the error that it leaves."""
        excess = _BIAS * error(bound) / one_sided
        return tail_bound(seen.usual_size, size, hidden, excess, heavier=heavier) - bound

    beyond = further(size)
    alike = root_scalar(further, bracket=(size, 2.0 * (size + beyond))).root if beyond > 0.0 else size
    most = max(alike, _MOST_NOISE * spread / each)
    tail = most
    if seen.tail is not None:
        allowed = _UNLIKE_BIAS / max(one_sided, seen.one_sided(seen.tail.begin))
        tail = min(seen.tail.bound(lambda bound: allowed * error(bound)), most)
    even = 1.0 if blurred else (1.0 - one_sided) / (1.0 - _LEAST_SKEWED)
    free = (_NOISE / each) ** (1.0 - even) * min(_NOISE / each, for_meat) ** even
    return max(size, tail, free * spread)
