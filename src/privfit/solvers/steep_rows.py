"""How far rows are weighted down by how steep their loss can be, for less noise in what is asked last."""

import math
from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.oracle import Oracle
from privfit.problem.schedule import held_to
from privfit.problem.steep import SteepRows, steepens, steepest
from privfit.solvers.hessian_model import View

_LEAST_SLACK = 0.75
"""How far predictors may be off at least before slopes are cut."""

_SLACK = 5.0
"""The same, in standard deviations of a usual row's predictor by the noise of the last gradients: long rows
have larger ones, and the point that it is counted from was found with less of the budget."""

_PARTS = 64
"""Parts are multiples of one in so many: noise of a size that was calibrated before need not be again."""

_LARGEST_PART = 0.95
"""Bound on gradients, relative to that without, from which on it is not worth a look at all rows."""

_LEAST_NOISE = 0.1
"""Noise variance, relative to the sampling variance, up to which it is not."""


def steep_rows_held(view: View, at: FloatArray, oracle: Oracle) -> View:
    """Return the view with rows weighted by how steep their loss can be about ``at`` (q,), where that pays.

    The bound on a gradient becomes that of the longest row whose predictor is the mean one, so that rows
    are weighted down only if they are long and steep.
    """
    if not steepens(view.problem.loss) or _part(view, at, _LEAST_SLACK) > _LARGEST_PART:
        return view  # more slack makes no smaller part
    noise, curvature = _noise(view, oracle), float(np.mean(np.diag(view.hessian(at))))
    score = curvature * view.model.dispersion(view.outwards(at))
    if view.problem.n_rows * noise < _LEAST_NOISE * score:
        return view
    slack = max(_LEAST_SLACK, _SLACK * math.sqrt(view.dimension * noise) / curvature)
    part = _part(view, at, slack)
    if part > _LARGEST_PART:
        return view
    return replace(view, steep=SteepRows(part, view.problem.coefficients(at), slack))


def _part(view: View, at: FloatArray, slack: float) -> float:
    """Return the slope that a row with the mean predictor can have, relative to the bound on all slopes."""
    loss, rows = view.problem.loss, view.outwards(at).reshape(-1, view.problem.n_coef)
    mean = rows @ view.model.frame.center
    part = float(steepest(loss, mean[:, None], slack)[0]) / loss.constants.slope
    return math.ceil(_PARTS * part) / _PARTS


def _noise(view: View, oracle: Oracle) -> float:
    """Return the variance of the noise of the last gradients together, in a coordinate."""
    sensitivity, left = view.problem.sensitivity("gradient"), oracle.remaining("gradient")
    planned = [one for one in oracle.plan.solver_releases if one.kind == "gradient"][-left:]
    precision = sum(held_to(one, sensitivity).sd ** -2.0 for one in planned if one.sd > 0.0)
    return 1.0 / precision if precision > 0.0 else 0.0
