"""How far rows are weighted down by how steep their loss can be, for less noise in what is asked last."""

import math
from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.problem.oracle import Oracle
from privfit.problem.schedule import held_to
from privfit.problem.steep import SteepRows, steepens
from privfit.solvers.hessian_model import View

_SLACK = 0.75
"""How far predictors may be off before slopes are cut: farther than noise leads those of most long rows."""

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
    if not steepens(view.problem.loss):
        return view
    part = _part(view, at)
    if part > _LARGEST_PART or _noise(view, at, oracle) < _LEAST_NOISE:
        return view
    return replace(view, steep=SteepRows(part, view.problem.coefficients(at), _SLACK))


def _part(view: View, at: FloatArray) -> float:
    """Return the slope that a row with the mean predictor can have, relative to the bound on all slopes."""
    loss, rows = view.problem.loss, view.outwards(at).reshape(-1, view.problem.n_coef)
    mean = rows @ view.model.frame.center
    part = float(loss.steepest(mean[:, None], _SLACK)[0]) / loss.constants.slope
    return math.ceil(_PARTS * part) / _PARTS


def _noise(view: View, at: FloatArray, oracle: Oracle) -> float:
    """Return the noise variance of the last gradients together, relative to the sampling variance."""
    sensitivity, left = view.problem.sensitivity("gradient"), oracle.remaining("gradient")
    planned = [one for one in oracle.plan.solver_releases if one.kind == "gradient"][-left:]
    precision = sum(held_to(one, sensitivity).sd ** -2.0 for one in planned if one.sd > 0.0)
    score = float(np.mean(np.diag(view.hessian(at)))) * view.model.dispersion(view.outwards(at))
    return view.problem.n_rows / (precision * score) if precision > 0.0 and score > 0.0 else 0.0
