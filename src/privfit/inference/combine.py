"""Turn a solver's releases into one estimate, and say how much privacy noise is left in it.

Near the optimum ``theta_hat`` of the empirical objective, with Hessian ``M``, a released gradient is
``g_k = M (theta_k - theta_hat) + xi_k`` with ``xi_k ~ N(0, sd_k**2 I)`` independent of everything before.
So each ``theta_k - M^-1 g_k = theta_hat - M^-1 xi_k`` is an estimate with its own independent noise, and
their average with weights proportional to ``1 / sd_k**2`` has the noise of one release with the whole
budget of those steps. The transient of the solver drops out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import gammaincinv

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.solvers.base import (
    Solution,
    Step,
    gradients_of,
    precision_average,
    precision_weights,
    quadratic_forms,
)

_BELIEVED = 0.999
"""Probability with which noise alone passes for agreement of the steps."""

_EXPLAINED, _TOLERATED = 3.0, 0.5
"""How many times its expectation a squared Newton step may be for noise to explain it; how many standard
errors it may be off by."""

_MOST_BENT = 30.0
"""How many times what passes for noise a change of curvature may have steps disagree by."""

_FELT = 0.5
"""What it may have them disagree by of what would pass for noise if sampling was noise as well."""

_ROUNDS = 3
"""Rounds in which the estimate and distances from it are found."""


@dataclass(frozen=True, slots=True, eq=False)
class Anchor:
    """Precision-weighted averages over the late steps.

    Parameters
    ----------
    theta : array of shape (q,)
        Average point.
    gradient : array of shape (q,)
        Average noisy gradient.
    preconditioner : array of shape (q, q)
        The last step's.
    sd : float
        Noise standard deviation of each entry of ``gradient``.
    steps : tuple of Step
        Those that were averaged.
    parts : array of shape (K,)
        What part each of them has in the averages.
    """

    theta: FloatArray
    gradient: FloatArray
    preconditioner: FloatArray
    sd: float
    steps: tuple[Step, ...] = ()
    parts: FloatArray = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """An estimate and the covariance of the privacy noise left in it.

    Parameters
    ----------
    theta : array of shape (q,)
    cov_noise : array of shape (q, q)
    steps : tuple of Step
        Those whose noise it is.
    parts : array of shape (K,)
        What part each of them has in it; empty where it is no Newton step from their average.
    arrived : bool
        Whether that step is short enough for its error to be small beside the noise, and the steps that it is
        from are near enough to each other for one curvature to hold for all, as far as is known.
    """

    theta: FloatArray
    cov_noise: FloatArray
    steps: tuple[Step, ...] = ()
    parts: FloatArray = field(default_factory=lambda: np.zeros(0))
    arrived: bool = True

    @property
    def start(self) -> FloatArray:
        """The average point that a Newton step was taken from, (q,)."""
        return self.parts @ np.array([step.release.at for step in self.steps])


def anchor(steps: Sequence[Step], sds: Sequence[float] | None = None) -> Anchor:
    """Average points and gradients of the steps by precision: of their noise, or of what ``sds`` says."""
    points, gradients, noise = gradients_of(steps)
    sds = noise if sds is None else sds
    theta, gradient, sd = precision_average(points, gradients, sds)
    return Anchor(theta, gradient, steps[-1].preconditioner, sd, tuple(steps), precision_weights(sds))


def one_step(around: Anchor, bread: Bread) -> Estimate:
    """Return the estimate ``theta - M^-1 g`` from averaged late steps.

    Parameters
    ----------
    around : Anchor
    bread : Bread
        Released Hessian; its own noise ``E`` moves the estimate by ``L E v`` with ``v = M^-1 g`` the length
        of the step and ``L`` the inverse of the Hessian without noise, and
        ``cov(E v) = sd_M**2 / 2 (|v|**2 I + v v')`` for the symmetric noise that the mechanism adds.

    Returns
    -------
    Estimate
        ``cov_noise = sd**2 M^-2 + sd_M**2 / 2 L (|v|**2 I + v v') L``, with `Bread.far_inverse` for L.

    Notes
    -----
    With one coefficient, and no noise but that of the bread, the far end of the interval is that of Fieller
    (1954). The noise that makes a Hessian too large makes the step too short and ``M^-1`` too small alike.
    """
    move = bread.inverse @ around.gradient
    of_bread = 0.5 * bread.sd**2 * ((move @ move) * np.eye(move.size) + np.outer(move, move))
    far = bread.far_inverse(move, around.sd)
    covariance = around.sd**2 * bread.inverse @ bread.inverse + far @ of_bread @ far
    return Estimate(around.theta - move, covariance, around.steps, around.parts)


@dataclass(frozen=True, slots=True)
class Turning:
    """What is known of how fast the curvature changes, to tell whether one Newton step leads to the optimum.

    Parameters
    ----------
    rate : float
        By what part the curvature changes over a step ``v`` with ``v'M v = 1``; 0 where nothing is known.
    sampling : float
        Mean over the coordinates of the sampling variance in units of ``M^-1``.
    """

    rate: float = 0.0
    sampling: float = 0.0

    def far_off(self, around: Anchor, bread: Bread) -> bool:
        """Return whether a Newton step may be off by more than half a standard error.

        Notes
        -----
        ``v'M v`` has the expectation ``sd**2 trace(M^-1)`` where noise alone makes the step. What is beyond
        that says how far the solver was from the optimum, and that the step is off by ``rate v'M v / 2`` in
        the norm of M: with few positives the curvature is a fraction of what it is at even odds, so that
        steps of a length that suits those do not arrive.
        """
        squared = float(around.gradient @ bread.inverse @ around.gradient)
        noise = around.sd**2 * float(np.trace(bread.inverse))
        error = 0.5 * self.rate * max(squared - _EXPLAINED * noise, 0.0)
        return error > _TOLERATED * math.sqrt(noise / around.theta.size + self.sampling)


def far_along(
    estimate: Estimate, center: FloatArray, *, along: FloatArray, rate: float, sampling: FloatArray
) -> np.ndarray:
    """Return along which directions a Newton step may be off by more than a standard error.

    Parameters
    ----------
    estimate : Estimate
        A Newton step from the average of late points.
    center : array of shape (q,)
        Where the bread was asked.
    along : array of shape (m, q)
        Each row times a step is by how much the predictors of some rows change, all alike, that no other
        coefficient fits: those of one level of a factor.
    rate : float
        By what part their curvature may change for each unit of that, at most.
    sampling : array of shape (q, q)
        Sampling covariance of the estimate.

    Returns
    -------
    bool array of shape (m,)

    Notes
    -----
    Over a step ``v`` the mean curvature is that of its middle, up to the second order. A bread that was asked
    at a distance ``u`` from there is off by the part ``rate u``, and the step by ``rate u v``. Of ``2 u v``
    what noise explains is not counted, as in `Turning.far_off`.
    """
    start = estimate.start
    noise = quadratic_forms(along, estimate.cov_noise)
    step, missed = along @ (estimate.theta - start), along @ (0.5 * (start + estimate.theta) - center)
    error = 0.5 * rate * np.maximum(2.0 * np.abs(step * missed) - _EXPLAINED * noise, 0.0)
    return error > np.sqrt(noise + quadratic_forms(along, sampling))


def widened(
    steps: Sequence[Step],
    bread: Bread,
    bend: FloatArray | None = None,
    turning: Turning = Turning(),
    sampling: float = 0.0,
) -> Estimate:
    """Return the estimate from the steps that agree, its noise widened as far as they contradict each other.

    Steps that were asked before the solver arrived are left out, the earliest first, until the others agree
    and are near the estimate, or half are left.

    Parameters
    ----------
    steps : sequence of Step
    bread : Bread
    bend : array of shape (k, q), optional
        See `privfit.solvers.base.Solution`.
    turning : Turning
    sampling : float
        Standard deviation of what sampling adds to an entry of a gradient.
    """
    agreeing, sds = steps, deviations(steps, bread, bend)
    while True:
        excess, around = contradiction(agreeing, sds, bread), anchor(agreeing, sds)
        far = turning.far_off(around, bread)
        if (excess is None and not far) or 2 * len(agreeing) <= len(steps) + 1:
            break
        agreeing, sds = agreeing[1:], sds[1:]
    bent = bend is not None and _far_bent(agreeing, bread, sampling, remaining=len(agreeing) < len(steps))
    estimate = replace(one_step(around, bread), arrived=not (far or bent))
    if excess is None:
        return estimate
    return replace(estimate, cov_noise=estimate.cov_noise + bread.inverse @ excess @ bread.inverse)


def _far_bent(steps: Sequence[Step], bread: Bread, sampling: float, *, remaining: bool) -> bool:
    """Return whether only a curvature that changes altogether explains how far steps disagree.

    A change of it with the distance explains what noise does not, however much that is: the more, the further
    apart the steps were asked. But at the numbers of a coarse grid a smoothed quantile is several times as
    steep as elsewhere, and level between them, which the bread does not tell from one place. That is taken
    to be so where they disagree by `_MOST_BENT`, or, where others had to be left out, beyond noise at all;
    unless it is little beside sampling, as with large budgets.
    """
    noise = [step.release.sd for step in steps]
    if disagreement(steps, noise, bread) <= (1.0 if remaining else _MOST_BENT):
        return False
    return disagreement(steps, [math.hypot(sd, sampling) for sd in noise], bread) > _FELT


def deviations(steps: Sequence[Step], bread: Bread, bend: FloatArray | None) -> list[float]:
    """Return how far the gradient of each step is off: by its noise, and by how far the curvature changes.

    At ``theta + d`` the gradient is ``M d + r`` with ``r = E[x (x'd)**2 t] / 2``, t the third derivative of
    the loss. If the curvature changes by the part ``norm(bend @ d)`` on the way, ``norm(r)`` is about
    ``norm(bend @ d) norm(M d) / 2``. Neither its sign nor its direction is known: its square is added to
    the variance in any direction. The distance d is that from the estimate that follows, found in rounds.
    """
    points, gradients, noise = (np.array(part) for part in gradients_of(steps))
    if bend is None or not noise.all():
        return noise.tolist()
    sds, estimate = noise, points[-1] - bread.inverse @ gradients[-1]
    for _ in range(_ROUNDS):
        away = points - estimate
        changed = np.linalg.norm(away @ bend.T, axis=1) * np.linalg.norm(away @ bread.matrix, axis=1)
        sds = np.hypot(noise, 0.5 * changed)
        around = anchor(steps, sds.tolist())
        estimate = around.theta - bread.inverse @ around.gradient
    return sds.tolist()


def disagreement(steps: Sequence[Step], sds: Sequence[float], bread: Bread) -> float:
    """Return how far steps disagree beyond ``sds``, 1 being the most that passes for agreement.

    If the Hessian is ``M`` wherever gradients were asked, ``r_k = g_k - g - M (theta_k - theta)``, with ``g``
    and ``theta`` the averages by precision, is what gradients are off by alone, and
    ``T = sum(norm(r_k)**2 / v_k)`` is chi-squared with ``q (K - 1)`` degrees of freedom; ``v_k`` is
    ``sds**2`` and what the noise of ``M`` adds to it, ``sd_M**2 / 2 (1 + 1/q) norm(theta_k - theta)**2``.
    Steps that were asked too far from the optimum for one Newton step make it larger.

    Returns
    -------
    float
        T over its quantile `_BELIEVED`; 0 for a single step, and without noise.
    """
    around = anchor(steps, sds)
    if len(steps) < 2 or around.sd == 0.0:
        return 0.0
    q, moves, left = around.theta.size, *_left(steps, around, bread)
    of_bread = 0.5 * bread.sd**2 * (1.0 + 1.0 / q) * np.sum(moves**2, axis=1)
    statistic = float(np.sum(left**2 / (np.array(sds) ** 2 + of_bread)[:, None]))
    return statistic / (2.0 * float(gammaincinv(0.5 * q * (len(steps) - 1), _BELIEVED)))


def contradiction(steps: Sequence[Step], sds: Sequence[float], bread: Bread) -> FloatArray | None:
    """Return what `disagreement` of the steps beyond ``sds`` adds to the covariance of their mean gradient.

    Returns
    -------
    array of shape (q, q) or None
        None up to 1. Beyond it the scatter of a weighted mean, ``sum(w_k r_k r_k') / (K - 1)`` with ``r_k``
        as there and ``w_k`` the parts of the precision: in the directions in which gradients disagree. For
        one coefficient that is Birge's rule (1932, *The calculation of errors by the method of least
        squares*).
    """
    if disagreement(steps, sds, bread) <= 1.0:
        return None
    around = anchor(steps, sds)
    _, left = _left(steps, around, bread)
    return around.sd**2 / (len(steps) - 1) * (left.T / np.array(sds) ** 2) @ left


def _left(steps: Sequence[Step], around: Anchor, bread: Bread) -> tuple[FloatArray, FloatArray]:
    """Return the distances of points from their average, and what is left of gradients, each (K, q)."""
    moves = np.array([step.release.at for step in steps]) - around.theta
    return moves, np.array([step.gradient for step in steps]) - around.gradient - moves @ bread.matrix


def last_iterate(solution: Solution, bread: Bread) -> Estimate:
    """Return the last iterate with the covariance that its linear recursion gives.

    With ``A_k = I - P_k M``, the noise in the iterate obeys ``e <- A_k e - P_k xi_k``, so its covariance
    obeys ``N <- A_k N A_k' + sd_k**2 P_k P_k'`` from ``N = 0``. For gradient descent with step ``eta``
    this is ``eta**2 sd**2 sum_k (I - eta M)**(2k)``; for a last pure Newton step ``sd**2 M^-2``.
    """
    size = solution.theta.size
    covariance = np.zeros((size, size))
    for step in solution.steps:
        contraction = np.eye(size) - step.preconditioner @ bread.matrix
        noise = step.release.sd**2 * step.preconditioner @ step.preconditioner.T
        covariance = contraction @ covariance @ contraction.T + noise
    return Estimate(solution.theta, covariance, solution.late)
