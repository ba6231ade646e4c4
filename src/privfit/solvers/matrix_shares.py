"""What parts of a budget bread and meat are worth after whitening, from public facts."""

import math

import numpy as np

from privfit.losses.typical import typical, usual_residual
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.solvers.base import USUAL_SHARES, MatrixShares, noise_norm

BREADS, MEATS = (0.08, 0.18), (0.03, 0.09)
"""Smallest and largest parts."""

_SHOWN, _PRECISE = 0.3, 0.05
"""Spectral norm of the noise, and its standard deviation in a diagonal entry, that a bread may have: relative
to a usual eigenvalue."""

_FAR, _RARE = 2.0, 8.0
"""Squared norm that rows with declared bounds may have and count in full, relative to that of usual rows; and
where some columns are indicators, of which one may be rare."""

_OF_MEAT = 2.0
"""Part of the meat, per standard deviation of its noise over the root of its rows."""

_BINARY = 0.75
"""Curvature of usual rows of a binary response, relative to that at even odds."""

_COUNTS, _RESIDUALS = 9.0, 5.0
"""Bounds on slopes that looks at the rows leave, in standard deviations of usual ones."""

_GRADIENTS = 0.65
"""Part of the squared budget that the estimate rests on."""


def matrix_shares(whitened: Problem, allowance: Allowance) -> MatrixShares:
    """Return the parts of the squared budget that bread and meat of a whitened problem are worth.

    Parameters
    ----------
    whitened : Problem
        In coordinates in which usual rows are as long as its norm bound.
    allowance : Allowance
        Of the whole fit.

    Notes
    -----
    What gradients get in their place shortens all intervals. The noise in a bread makes them a little longer
    while it is smaller than the eigenvalues, and infinite where it hides them: so a bread gets what brings
    its spectral norm down to 0.3 of a usual eigenvalue, and the standard deviation of an entry to 0.05. The
    noise in a meat leaves a variance few degrees of freedom. It matters less beside the noise of the
    gradients, whose variance is known, and where many entries tell together how large the meat is.
    """
    if allowance.pure or math.isinf(allowance.amount):
        return USUAL_SHARES
    usual = typical(whitened.loss, residual=usual_residual(whitened.response_bound))
    wanted = min(_SHOWN, noise_norm(_PRECISE, whitened.size))
    bread = _noise_in_bread(whitened, allowance.amount, usual[0]) / wanted
    meat = _noise_in_meat(whitened, allowance.amount, usual[1]) * _OF_MEAT / math.sqrt(whitened.size)
    return MatrixShares(float(np.clip(bread * bread, *BREADS)), float(np.clip(meat, *MEATS)))


def _noise_in_bread(whitened: Problem, mu: float, curvature: float) -> float:
    """Return the spectral norm of a bread's noise, relative to a usual eigenvalue."""
    loss, bound = whitened.loss, whitened.loss.constants.curvature
    sd = whitened.sensitivity("hessian") / bound / mu * _longest(whitened)
    if loss.has_scale:
        curvature *= usual_residual(whitened.response_bound)
    elif loss.target_kind == "binary":
        curvature *= _BINARY
    elif loss.target_kind == "count":
        bound = min(bound, _COUNTS * curvature)
    return noise_norm(sd, whitened.size) * bound / max(curvature, math.ulp(bound))


def _longest(whitened: Problem) -> float:
    """Return about the largest squared norm of rows that count in full, relative to that of usual rows."""
    columns = zip(whitened.indicators, whitened.penalised, strict=False)
    if any(all(both) for both in columns):  # the constant is an indicator, too, and not penalised
        return _RARE
    return _FAR if whitened.bounded else 1.0


def _noise_in_meat(whitened: Problem, mu: float, score: float) -> float:
    """Return the standard deviation of a meat's noise, relative to a usual variance, noise included."""
    loss, slope = whitened.loss, whitened.loss.constants.slope
    most = _COUNTS if loss.target_kind == "count" else _RESIDUALS
    squared = min(slope**2 / max(score, math.ulp(slope)), most**2)
    gradient = whitened.sensitivity("gradient") / slope / mu
    meat = whitened.sensitivity("meat") / slope**2 / mu
    return squared * meat / (1.0 + whitened.n_rows * squared * gradient**2 / _GRADIENTS)
