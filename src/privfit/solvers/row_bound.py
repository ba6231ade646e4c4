"""How long rows may be and count in full, as far as noise allows it."""

import math
from collections.abc import Sequence

from privfit._checks import FloatArray
from privfit.losses import Poisson, SmoothedQuantile, Squared
from privfit.losses.typical import typical_curvature, usual_residual
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan
from privfit.problem.share_kernels import NORMS_A_DOUBLING
from privfit.solvers.base import USUAL_SHARES
from privfit.solvers.hessian_model import SMALLEST_SPREAD, HessianModel

_MU = 1e12
"""More than any budget."""

_SATURATION = 160.0
"""``n mu**2 / p`` from which on noise is small enough beside the sampling error to leave room."""

_HESSIANS = 0.003
"""``c**2 sqrt(p) / (n mu)`` up to which the noise of Hessians is small beside eigenvalues, small ones too."""

_BLURRED = 1.1
"""What noise in coordinates may make of a norm."""

_LITTLE_LONGER, _FEW_COLUMNS = 1.6, 7.0
"""Norm of the longest rows over that for the least noise up to which none is weighted down, at most; and its
square less 1, times the number of columns."""

_FELT = 200.0
"""Signal ``n mu`` from which on noise does not hide what weights do to a fit that lacks a curve."""

_LARGEST = 6.0
"""Squared bound over the usual one from which on hardly a row of independent columns is longer."""


def grown_bound(problem: Problem, parts: Sequence[Allowance]) -> float:
    """Return how long rows may be in the coordinates that they are given in, from public facts.

    Parameters
    ----------
    problem : Problem
        With the bound for little budget.
    parts : sequence of Allowance
        What each release may cost, about.

    Notes
    -----
    ``c**2 = min(c0**2 r**(2/3), 6 c0**2, 0.003 n mu / (sqrt(p) k))``, but at least ``c0**2``, with
    ``r = n mu**2 / (160 p s**2)``, ``c0`` the given bound, ``s`` how generous the loss's bound on slopes is
    and ``k`` its `flatness`. Under a wrong model the estimate is that for the weighted rows, and with many
    rows its sampling error is smaller than the distance to the unweighted one; so what budget there is has
    to bring the two together. The noise of gradients is in proportion to ``c / (n mu)``, so that its part of
    the variance still falls like ``r**(-1/3)``. That of Hessians goes by ``c**2``: the third limit keeps it
    far below usual eigenvalues, as those of short or correlated columns are small.
    """
    size, n, squared = problem.size, problem.n_rows, problem.norm_bound**2
    mu = math.hypot(*(min(part.signal(size), _MU) for part in parts))
    room = n * (mu / problem.loss.slack[0]) ** 2 / (_SATURATION * problem.n_coef)
    for_gradients = squared * min(max(room, 1.0) ** (2.0 / 3.0), _LARGEST)
    for_hessians = _HESSIANS * n * mu / (math.sqrt(problem.n_linear) * flatness(problem))
    return math.sqrt(max(min(for_gradients, for_hessians), squared))


def longest_usual(dimension: float, n_rows: int) -> float:
    """Return a squared norm that hardly one of so many rows of independent normal columns exceeds.

    One in ``n_rows`` does (Laurent and Massart 2000, Lemma 1) but for the width of a class of norms.
    """
    far = math.log(n_rows)
    return 2.0 ** (2.0 / NORMS_A_DOUBLING) * (dimension + 2.0 * math.sqrt(dimension * far) + 2.0 * far)


def flatness(problem: Problem) -> float:
    """Return how many times a typical row's curvature the bound on curvatures is; 1 for a loss with kinks."""
    constants = problem.loss.constants
    if not constants.smooth:
        return 1.0
    usual = typical_curvature(problem.loss, residual=usual_residual(problem.response_bound))
    return constants.curvature / max(usual, 1e-3 * constants.curvature)


def generosity(model: HessianModel, at: FloatArray, of_slope: float) -> float:
    """Return how generous a bound on residuals or on counts is, 1 at least; 1 for other losses.

    Parameters
    ----------
    model : HessianModel
    at : array of shape (q,)
        Where residuals are taken; their bound is relative to two of their standard deviations.
    of_slope : float
        How generous bounds on slopes are, see `privfit.solvers.slack.slack_at`.
    """
    loss = model.problem.loss
    if isinstance(loss, Squared):
        spread = math.sqrt(model.dispersion(at))  # 0 where no response differs from others
        return max(0.5 * loss.bound / max(spread, 1e-150), 1.0)
    return of_slope if isinstance(loss, Poisson) else 1.0


def whole_norm(problem: Problem, least: float, *, longest: float, unseen: float, room: float) -> float:
    """Return the norm from which on no row is weighted down, as far as noise allows it.

    Parameters
    ----------
    problem : Problem
    least : float
        The norm for the least noise.
    longest, unseen, room : float
        That of the longest rows that a look shows, of those that it may hide, and what suits rare levels.

    Notes
    -----
    What may be hidden is told by declared bounds of one number, in coordinates that noise has blurred. Where
    that is little longer than usual rows, many are as long, and there is room for that.
    """
    blurred = _BLURRED * unseen
    return max(longest, blurred if blurred <= _longer(problem) * least else unseen, room)


def least_norm(problem: Problem, whole: float, least: float, signal: float) -> float:
    """Return the norm up to which rows count in full however little noise allows.

    Parameters
    ----------
    problem : Problem
    whole, least : float
        The norm from which on no row is weighted down, and that for the least noise.
    signal : float
        That of the solver's budget.

    Notes
    -----
    Where a column has curves that the model has not, weights lead away from the unweighted fit, by far more
    than noise where they follow that column: among few. So there are none if a schema lets no row be much
    longer than usual ones, as with numbers that are even within their bounds. With ``n mu`` below 200 noise
    is larger than what weights do.
    """
    if not problem.bounded or problem.n_rows * signal < _FELT:
        return least
    return max(whole, least) if whole <= _longer(problem) * least else least


def _longer(problem: Problem) -> float:
    """Return up to how many times the norm for the least noise rows are little longer than usual ones."""
    return min(_LITTLE_LONGER, math.sqrt(1.0 + _FEW_COLUMNS / problem.n_coef))


def squared_bound(
    problem: Problem,
    dimension: float,
    room: float,
    *,
    signal: float,
    bread: float,
    slack: tuple[float, float, float],
    few: float = 4.0,
) -> float:
    """Return the largest ``c**2`` that noise allows in whitened coordinates, from public facts and releases.

    Parameters
    ----------
    problem : Problem
    dimension : float
        The effective one.
    room : float
        Norm that suits rare levels, see `privfit.solvers.norms.room_for`.
    signal : float
        That of the solver's budget.
    bread : float
        See `signal_of_bread`.
    slack : tuple of float
        Of the loss, see `privfit.solvers.slack.slack_at`, and `generosity`.
    few : float
        What few columns add without a schema, over their number: the 4 below.

    Notes
    -----
    ``min(0.006 n mu**2 (1 + 4 / p), 0.015 n mu / sqrt(p), n)`` for a logit, but at least 1.2 times the
    dimension. There the noise is about a quarter of the sampling variance, more with few columns, where
    lengths of rows differ most and a wrong model would be felt; that of the bread is about a tenth of its
    eigenvalues; and ``n`` is the largest squared norm that a whitened row can have. So rows are weighted
    down only as far as the budget requires, and with a large budget not at all. Where a schema bounds the
    rows, so that the unweighted fit is what the user knows, 100 stands for 4 and the second is
    ``1 + 15 / p`` times as large there, but at most twice what it is over the smallest limit: where that is
    little, noise hides the bread, and is more of a worry than the model. With levels, whose rows are long
    where they are rare, five times that stands for twice. And it is at most 3 times as large: noise of more
    than three tenths of the eigenvalues makes intervals far longer; only counts with levels have no such
    limit, as their intervals of rare levels would be longer with it. For a quantile at most 2.25 times: few
    rows have any curvature there, so that noise is 2.5 times as large beside it. A bread with a smaller part
    of the budget than usual has ``bread`` in place of ``mu``. Where one of two labels is rare, curvature and
    slopes are smaller beside their bounds, and the limits by as much. Noise of least squares and of counts is
    in proportion to the bound on residuals or counts: where that is generous rows longer than those of normal
    columns, and than suits rare levels, count in full up to the first limit without a schema, over the square
    of how generous it is.
    """
    p, n, mu = problem.n_coef, problem.n_rows, min(signal, _MU)
    of_slope, of_curvature, generous = slack
    least = SMALLEST_SPREAD * dimension
    for_steps = 0.006 * n * (mu / of_slope) ** 2 * (1.0 + (100.0 if problem.bounded else few) / p)
    if generous > 1.0:
        plain = 0.006 * n * mu**2 * (1.0 + few / p)
        for_steps = max(plain / generous**2, min(for_steps, max(longest_usual(dimension, n), room**2)))
    for_bread = 0.015 * n * min(bread, _MU) / (math.sqrt(problem.n_linear) * of_curvature)
    if problem.bounded:
        rare = problem.has_levels
        counts = rare and isinstance(problem.loss, Poisson)
        most = 2.25 if isinstance(problem.loss, SmoothedQuantile) else math.inf if counts else 3.0
        for_bread *= min(1.0 + 15.0 / p, most, (5.0 if rare else 2.0) * for_bread / least)
    return max(least, min(for_steps, for_bread, n))


def signal_of_bread(plan: Plan, signal: float, counting: float) -> float:
    """Return the signal of a solver beside which the planned bread has its usual part.

    That of the solver itself, ``signal``, where none is planned, it has more, or budgets are pure. Both are
    as much smaller as the share of the rows that count is, ``counting``; ``signal`` is given so.
    """
    planned = [release.mu for release in plan.inference_releases if release.kind == "hessian"]
    usual = math.sqrt(USUAL_SHARES.bread / (1.0 - USUAL_SHARES.bread))
    return min([signal, *(counting * mu / usual for mu in planned)])
