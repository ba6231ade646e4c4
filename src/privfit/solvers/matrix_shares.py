"""What parts of a budget bread and meat are worth after whitening, from public facts."""

import math

import numpy as np

from privfit.losses.typical import typical, usual_residual
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.solvers.base import USUAL_SHARES, MatrixShares, noise_norm

BREADS, MEATS = (0.08, 0.18), (0.02, 0.25)
"""Smallest and largest parts."""

_SHOWN, _PRECISE = 0.3, 0.05
"""Spectral norm of the noise, and its standard deviation in a diagonal entry, that a bread may have: relative
to a usual eigenvalue."""

_FAR, _RARE = 2.0, 8.0
"""Squared norm that rows with declared bounds may have and count in full, relative to that of usual rows; and
where some columns are indicators, of which one may be rare."""

_EARNED = 1e-3
"""Relative length of an interval that more for the meat has to save."""

_WEIGHED = 1.0 / 3.0
"""Part for which a usual row counts where survey weights are named, whose bound is that of the largest."""

_TRIED = 24
"""Parts for the meat, from the smallest to the largest."""

_BINARY = 0.75
"""Curvature of usual rows of a binary response, relative to that at even odds."""

_COUNTS, _RESIDUALS = 9.0, 5.0
"""Bounds on slopes that looks at the rows leave, in standard deviations of usual ones."""

_SHARED = 0.74
"""Part of the squared budget that the gradients which the estimate rests on share with the meat."""

SHORT, LIFTED = 0.198, 0.309
"""Mean of ``(z - 1/2)+`` for a normal z, and how often that is not 0: what `inference.meat.shortfall` adds to
a variance in standard deviations of noise, where it is even, and to how many."""

_LONGER = 0.605
"""Relative length that Student's t adds to a 95 % interval, over the relative variance ``2 / dof`` of its
squared standard error: half of the ``(z**2 + 1) / 4`` in the expansion of its quantile in ``1 / dof``."""


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
    noise in a meat leaves a variance few degrees of freedom, and coefficients whose errors it may hide get
    some of it; see `_best_meat`. It matters less beside the noise of the gradients, whose variance is known.
    Survey weights enter scores, and so the meat with their square: usual rows are thought to have a third of
    the bound.
    """
    if allowance.pure or math.isinf(allowance.amount):
        return USUAL_SHARES
    usual = typical(whitened.loss, residual=usual_residual(whitened.response_bound))
    wanted = min(_SHOWN, noise_norm(_PRECISE, whitened.size))
    bread = _noise_in_bread(whitened, allowance.amount, usual[0]) / wanted
    squared = 1.0 if whitened.shares.weights is None else _WEIGHED**2
    gradient, meat = (noise / squared for noise in _noises(whitened, allowance.amount, usual[1]))
    meat = _best_meat(gradient, meat, whitened.size)
    return MatrixShares(float(np.clip(bread * bread, *BREADS)), meat)


def _noise_in_bread(whitened: Problem, mu: float, curvature: float) -> float:
    """Return the spectral norm of a bread's noise, relative to a usual eigenvalue."""
    loss, bound = whitened.loss, whitened.loss.constants.curvature
    sd = whitened.sensitivity("hessian") / bound / mu * _longest(whitened)
    if loss.has_scale:
        curvature *= usual_residual(whitened.response_bound)
    elif loss.target_kind == "binary":
        curvature *= _BINARY
    elif loss.target_kind == "count":
        bound = _COUNTS * curvature  # where less is declared counts are rare, rather than near their bound
    return noise_norm(sd, whitened.size) * bound / max(curvature, math.ulp(bound))


def _longest(whitened: Problem) -> float:
    """Return about the largest squared norm of rows that count in full, relative to that of usual rows."""
    if whitened.has_levels:
        return _RARE
    return _FAR if whitened.bounded else 1.0


def _noises(whitened: Problem, mu: float, score: float) -> tuple[float, float]:
    """Return the variance of a gradient's noise and the standard deviation of a meat's, in one entry.

    Each is asked with the whole budget, and relative to a usual sampling variance.
    """
    loss, slope = whitened.loss, whitened.loss.constants.slope
    most = _COUNTS if loss.target_kind == "count" else _RESIDUALS
    squared = min(slope**2 / max(score, math.ulp(slope)), most**2)
    gradient = whitened.sensitivity("gradient") / slope / mu
    meat = whitened.sensitivity("meat") / slope**2 / mu
    return whitened.n_rows * squared * gradient**2, squared * meat


def _best_meat(gradient: float, meat: float, size: int) -> float:
    """Return the smallest part for the meat with which an interval is about as short as it can be.

    Parameters
    ----------
    gradient, meat : float
        From `_noises`.
    size : int
        Number of rows of the meat.

    Notes
    -----
    With the part ``b`` the noise has the standard deviation ``t = meat / sqrt(b)``, and a variance is about
    ``v = 1 + 0.198 t + gradient / (0.74 - b)``: of sampling, of what `inference.meat.shortfall` adds where
    errors are even, of the gradients' noise. Where something is added, the whole noise of an entry is left in
    it; elsewhere about ``1 / size`` of its variance, as all entries tell how large the meat is.
    """
    parts = np.geomspace(*MEATS, _TRIED)
    sd = meat / np.sqrt(parts)
    variance = 1.0 + SHORT * sd + gradient / (_SHARED - parts)
    unsure = sd**2 * (LIFTED + (1.0 - LIFTED) / size) / variance**2
    length = 0.5 * np.log(variance) + _LONGER * unsure
    return float(parts[np.argmax(length <= length.min() + _EARNED)])
