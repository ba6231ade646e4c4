"""One estimate from gradients that agree with each other, or as far as they contradict each other."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import gammaincinv

from privfit._checks import FloatArray
from privfit.inference.arrival import UNKNOWN, Turning
from privfit.inference.combine import Anchor, Estimate, anchor, one_step
from privfit.inference.covariance import Bread
from privfit.solvers.base import Step

_BELIEVED = 0.999
"""Probability with which noise alone passes for agreement of the steps."""

_MOST_BENT = 30.0
"""How many times what passes for noise a change of curvature may have steps disagree by."""

_FELT = 0.5
"""What it may have them disagree by of what would pass for noise if sampling was noise as well."""

_ROUNDS = 3
"""Rounds in which the estimate and distances from it are found."""


def widened(
    steps: Sequence[Step],
    bread: Bread,
    bend: FloatArray | None = None,
    turning: Turning = UNKNOWN,
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
    noise = np.array([step.release.sd for step in steps])
    if bend is None or not noise.all():
        return noise.tolist()
    last = steps[-1]
    sds, estimate = noise, last.release.at - bread.inverse @ last.gradient
    for _ in range(_ROUNDS):
        away = np.array([step.release.at - estimate for step in steps])
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
