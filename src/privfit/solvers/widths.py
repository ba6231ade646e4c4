"""How wide the smoothing of a quantile regression is: as the residuals that a look shows ask for."""

import math
from dataclasses import replace
from statistics import NormalDist

from privfit._checks import FloatArray
from privfit.losses import DensitySlope, SmoothedQuantile
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.base import with_loss
from privfit.solvers.geometry import Frame, Marginals
from privfit.solvers.residuals import NORMAL_QUARTILE, Residuals, adapting, look_at, unit_of
from privfit.solvers.response import MeanResponse
from privfit.solvers.spacing import spacing

_NORMAL = NormalDist()

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
    quantile = _NORMAL.inv_cdf(loss.tau)
    share = _NORMAL.cdf(quantile + NORMAL_QUARTILE) - _NORMAL.cdf(quantile - NORMAL_QUARTILE)
    seen = Residuals.of(oracle.release("residuals", at))
    reach = seen.reach(share)
    if reach is None:
        return problem
    units = _units(problem, loss, min(mu, 1e12))
    spread = reach / NORMAL_QUARTILE
    slope = _slope(quantile, seen.skew, spread, seen.density_slope(loss.tau, reach)).per(unit_of(problem))
    units = max(units, 0.5 * spacing(seen, share, problem.n_rows) / spread)
    width = spread * unit_of(problem) * units
    return with_loss(problem, oracle, loss.narrowed(width, 2.0 * units * loss.density, slope))


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


def _units(problem: Problem, loss: SmoothedQuantile, mu: float) -> float:
    """Return the width in standard deviations of normal residuals that the budget and the rows ask for."""
    signal, q, tau = problem.n_rows * mu, problem.n_linear, loss.tau
    noise = _FOR_NOISE * q * loss.constants.slope**2 / (tau * (1.0 - tau) * signal**2)
    least = (1.0 / problem.n_rows + noise) ** 0.25
    for_bread = _FOR_BREAD * q**1.5 / (signal * loss.density)
    bias = abs(_NORMAL.inv_cdf(tau)) * loss.density / (6.0 * math.sqrt(tau * (1.0 - tau)))
    wider = math.sqrt(_MOST_BIAS / max(bias, _LEAST_BIAS))
    return min(max(least, min(for_bread, wider * least)), _WIDEST)
