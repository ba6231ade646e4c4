"""How wide the smoothing of a quantile regression is: as the residuals that a look shows ask for."""

import math
from dataclasses import replace
from statistics import NormalDist

from privfit._checks import FloatArray
from privfit.losses import DensitySlope, SmoothedQuantile
from privfit.losses.typical import usual_residual
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import with_loss
from privfit.solvers.geometry import Frame, Marginals
from privfit.solvers.residuals import (
    NORMAL_QUARTILE,
    Residuals,
    about_quantile,
    adapting,
    look_at,
    unit_of,
)
from privfit.solvers.response import MeanResponse
from privfit.solvers.spacing import spacing

_NORMAL = NormalDist()

_LARGEST = 1e12
"""Signal that stands for one without limit."""

_LEADING = 0.4
"""Width for what only leads the way, in standard deviations of normal responses about their mean: a wide one
is steep nowhere and flat only far out, so that steps go where they should."""

_MOST_BIAS = 0.25
"""Standard errors that an estimate may be off by for a wide smoothing, where residuals are normal."""

_LEAST_BIAS = 0.06
"""What it is taken to be off by at least with a width that suits the rows: errors may be skewed."""

_WIDEST = 0.7
"""Largest width in the standard deviations of normal residuals with as many rows near the quantile."""

_FOR_BREAD = 40.0
"""That width times ``n mu density / q**1.5`` at which the noise in a Hessian is small beside it."""

_FOR_NOISE = 8.0
"""Variance of what privacy noise does to the estimate, times ``(n mu)**2 / q`` and over that of a slope."""

_SLOPE = 1.0
"""How far the relative slope of a density may be from that of one as skew as the residuals, over their sd."""

_EVEN, _UNEVEN, _SKEW = 0.2, 0.9, 0.6
"""By how much it differs, over that sd, from what a look shows beside noise: at the median, per standard
normal deviation of the quantile, and by how skew residuals are. Rows are counted further out than the
smoothing reaches, and steps have not arrived, so that what predictors are off by blurs the residuals."""

_WIDER = 4.0
"""How many times as wide as rows alone ask for a width may be for a method whose step rests on one bread."""

_NEARER = 0.5
"""Spread of residuals about a fit over that about a constant, where only the latter is looked at: that of
predictors which tell three quarters of the variance. Of the slope of a density little is known then."""

_EDGE = 12.0
"""How far off the slope of a density may be that begins near a quantile of 0 or 1, times ``spread**2`` over
the width of smoothing."""

_SKEWED_BY = 0.35
"""Widths by which a wide smoothing moves the median of skewed responses."""

_UNEQUAL = 0.3
"""Part of what a wide smoothing moves a quantile by that may follow the predictors."""

_ASTRAY = 0.3
"""How far from that of the quantile the share of rows below a point may be, relative to the rarer side's."""


def has_widths(problem: Problem) -> bool:
    """Return whether `privfit.solvers.looks.LOOKS` looks at residuals choose the width."""
    return adapting(problem, SmoothedQuantile) is not None


def narrowest(problem: Problem) -> Problem:
    """Return the problem with the least width, whose Hessians have the largest bound, for planning."""
    loss = problem.loss
    return replace(problem, loss=loss.narrowed(0.0)) if isinstance(loss, SmoothedQuantile) else problem


def led_by_quantile(
    problem: Problem, oracle: Oracle, marginals: Marginals, frame: Frame
) -> tuple[Problem, Marginals]:
    """Look at where responses are about their mean, to start at their quantile with a width to lead the way.

    Where declared bounds are generous noise hides how small the spread is that released marginals show, and
    a point that is far out among few rows, or none, is hard to leave. Other problems are left alone.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    marginals : Marginals
    frame : Frame
    """
    loss, response = adapting(problem, SmoothedQuantile), marginals.response
    if loss is None or not isinstance(response, MeanResponse):
        return problem, marginals
    center = response.mean if problem.has_intercept else 0.0
    seen = look_at(problem, oracle, frame, frame.constant(center))
    unit, found, shown = unit_of(problem), seen.quantile(loss.tau), seen.spread
    if shown is None:
        return problem, marginals
    spread = min(shown * unit, response.spread)
    start = None if found is None else center + found * unit
    problem = with_loss(problem, oracle, loss.narrowed(_LEADING * spread))
    return problem, replace(marginals, response=replace(response, spread=spread, found=start))


def recentred(problem: Problem, oracle: Oracle, frame: Frame, point: FloatArray) -> FloatArray:
    """Look at how many residuals are negative, and return a point whose constant is near the quantile.

    Steps over a loss whose curvature is 0 far out can lead far beyond all rows; those that begin there again
    would, too. Points of other problems are left alone.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    oracle : Oracle
    frame : Frame
    point : array of shape (p,)
        In the coordinates of the frame, a function of earlier releases.
    """
    loss = adapting(problem, SmoothedQuantile)
    if loss is None or not problem.has_intercept:
        return point
    seen = look_at(problem, oracle, frame, point)
    off, (below, noise) = seen.quantile(loss.tau), seen.below
    allowed = _ASTRAY * min(loss.tau, 1.0 - loss.tau) + 3.0 * noise
    if off is None or abs(below - loss.tau) <= allowed:
        return point
    return point + frame.constant(off * unit_of(problem))


def narrowed_to(problem: Problem, oracle: Oracle, at: FloatArray, mu: float) -> Problem:
    """Look at how large residuals are, and return the problem with a width of smoothing to suit.

    The oracle goes on with it. Other losses are left alone.

    Parameters
    ----------
    problem : Problem
        In the present coordinates.
    oracle : Oracle
    at : array of shape (size,)
        Point whose residuals are looked at, a function of earlier releases.
    mu : float
        Signal of the solver's budget.

    Notes
    -----
    What is estimated differs from the quantile by ``width**2`` times ``f' / (6 f)``, f the density of the
    residuals there. With a width of ``v**(1/4)`` standard deviations, v being the variance of the estimate
    relative to that of a slope, that is a small part of the standard error with any number of rows, an
    eighth at most for normal residuals. The noise in a Hessian, whose bound is one over twice the width, is
    to its eigenvalues as one to the share of rows within the width; where it asks for more, the width is
    larger, as long as that part is a quarter at most. What is found is the width that holds the share of
    rows that such a one does for normal residuals. On a grid it is half the spacing at least, so that the
    quantile is that of responses that are spread evenly over it (Machado and Santos Silva 2005, *Quantiles
    for counts*).
    """
    loss = adapting(problem, SmoothedQuantile)
    if loss is None:
        return problem
    seen = Residuals.of(oracle.release("residuals", at))
    bias = abs(_NORMAL.inv_cdf(loss.tau)) * loss.density / (6.0 * math.sqrt(loss.tau * (1.0 - loss.tau)))
    wider = math.sqrt(_MOST_BIAS / max(bias, _LEAST_BIAS))
    reach = seen.reach(_share(loss))
    if reach is None:
        return problem
    spread, units = reach / NORMAL_QUARTILE, _units(problem, loss, mu, for_bread=mu, wider=wider)
    units = _over_gaps(units, problem, loss, seen, spread)
    slope = _slope(_NORMAL.inv_cdf(loss.tau), seen.skew, spread, seen.density_slope(loss.tau, reach))
    return with_loss(problem, oracle, _of_width(loss, units, spread, slope, unit_of(problem)))


def suited_to_response(
    problem: Problem, oracle: Oracle, frame: Frame, mu: float, *, unit: float
) -> tuple[Problem, float]:
    """Look at the response about its quantile; return the problem with a width to suit, and the quantile.

    For methods without steps, which release a minimiser once. The oracle goes on with it. See `narrowed_to`:
    what smoothing adds is taken away, but known less well, so that the interval of the intercept is wider.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates, of quantiles with a width that adapts.
    oracle : Oracle
    frame : Frame
    mu : float
        Signal of the solver's budget, in coordinates of standard deviation 1.
    unit : float
        Standard deviation of those in which the norm of rows is bounded by `norm_limit`.
    """
    loss = problem.loss
    if not isinstance(loss, SmoothedQuantile) or not loss.adapts:
        return problem, 0.0
    if not oracle.remaining("residuals"):
        return with_loss(problem, oracle, _unseen(problem, loss)), 0.0
    seen, center = about_quantile(problem, oracle, frame, loss.tau, looks=oracle.remaining("residuals") - 1)
    reach = None if seen is None else seen.reach(_share(loss))
    if seen is None or reach is None:
        return with_loss(problem, oracle, _unseen(problem, loss)), center
    spread = _NEARER * reach / NORMAL_QUARTILE
    units = _units(problem, loss, mu, for_bread=mu * unit, wider=_WIDER)
    units = _over_gaps(units, problem, loss, seen, spread)
    slope = _blurred_slope(loss.tau, seen.skew, spread, units)
    return with_loss(problem, oracle, _of_width(loss, units, spread, slope, unit_of(problem))), center


def _share(loss: SmoothedQuantile) -> float:
    """Return the share of normal residuals within a quartile's distance of the quantile."""
    quantile = _NORMAL.inv_cdf(loss.tau)
    return _NORMAL.cdf(quantile + NORMAL_QUARTILE) - _NORMAL.cdf(quantile - NORMAL_QUARTILE)


def _over_gaps(
    units: float, problem: Problem, loss: SmoothedQuantile, seen: Residuals, spread: float
) -> float:
    """Return a width in units of the spread that reaches from one number of a grid to the next at least."""
    return max(units, 0.5 * spacing(seen, _share(loss), problem.n_rows) / spread)


def _of_width(
    loss: SmoothedQuantile, units: float, spread: float, slope: DensitySlope, unit: float
) -> SmoothedQuantile:
    """Return the loss with a width of so many spreads, which are over a unit, as the slope is."""
    return loss.narrowed(spread * unit * units, 2.0 * units * loss.density, slope.per(unit))


def _unseen(problem: Problem, loss: SmoothedQuantile) -> SmoothedQuantile:
    """Return the loss with what is thought of the density where nothing has shown the residuals.

    The quantile of ``y + U``, U even within the width, is what is estimated. Where residuals are of the usual
    size it is off as for normal ones; where they are far smaller than the width, as generous bounds make
    them, by ``2 tau - 1`` widths, or by a part of one if they are skewed. That follows the predictors where
    errors are wider for some of their values.
    """
    spread = usual_residual(problem.response_bound)
    most = loss.width * max(abs(2.0 * loss.tau - 1.0), _SKEWED_BY)
    sd = 0.5 * most * 6.0 / loss.width**2
    return replace(
        loss, density_slope=DensitySlope(-_NORMAL.inv_cdf(loss.tau) / spread, sd, uneven=_UNEQUAL * sd)
    )


def _blurred_slope(tau: float, skew: float, spread: float, units: float) -> DensitySlope:
    """Return what is thought of the slope after a look at the response alone.

    It is blurred by what predictors add and says little of the density of residuals, least at a far quantile,
    which may be where a density begins. It begins there in all rows alike.
    """
    quantile = _NORMAL.inv_cdf(tau)
    slope = _slope(quantile, skew, spread, None)
    edge = _EDGE * units * (2.0 * tau - 1.0) ** 2 / spread
    sd, usual = math.hypot((1.0 + abs(quantile)) * slope.sd, edge), (1.0 + abs(quantile)) / spread
    return replace(slope, sd=sd, uneven=_UNEQUAL * usual)


def _slope(quantile: float, skew: float, spread: float, seen: tuple[float, float] | None) -> DensitySlope:
    """Return what is thought of the relative slope of the density after a look that shows it with noise.

    The posterior mean; before it, and where it shows nothing, residuals are taken to be between normal ones
    and ones like ``(exp(skew Z) - 1) / skew``, Z normal, in a unit in which those near the quantile have this
    ``spread``: the slope of the latter is ``-(quantile + skew) / spread``.
    See `privfit.inference.density_slope` for what it is used for.
    """
    usual, sd = -(quantile + 0.5 * skew) / spread, _SLOPE * math.hypot(1.0, 0.5 * skew) / spread
    if seen is None:
        return DensitySlope(usual, sd)
    found, noise = seen
    variance = noise**2 + ((_EVEN + _UNEVEN * abs(quantile) + _SKEW * abs(skew)) / spread) ** 2
    part = 1.0 / (1.0 + variance / sd**2)
    return DensitySlope(usual + part * (found - usual), math.sqrt(part * variance))


def _units(problem: Problem, loss: SmoothedQuantile, mu: float, *, for_bread: float, wider: float) -> float:
    """Return the width in standard deviations of normal residuals that the budget and the rows ask for.

    ``mu`` is the signal of gradients, ``for_bread`` that of Hessians, and ``wider`` how many times as wide as
    the rows ask for the latter may make it.
    """
    signal, q, tau = problem.n_rows * min(mu, _LARGEST), problem.n_linear, loss.tau
    noise = _FOR_NOISE * q * loss.constants.slope**2 / (tau * (1.0 - tau) * signal**2)
    least = (1.0 / problem.n_rows + noise) ** 0.25
    needed = _FOR_BREAD * q**1.5 / (problem.n_rows * min(for_bread, _LARGEST) * loss.density)
    return min(max(least, min(needed, wider * least)), _WIDEST)
