"""Turn a solver's releases into one estimate, and say how much privacy noise is left in it.

Near the optimum ``theta_hat`` of the empirical objective, with Hessian ``M``, a released gradient is
``g_k = M (theta_k - theta_hat) + xi_k`` with ``xi_k ~ N(0, sd_k**2 I)`` independent of everything before.
So each ``theta_k - M^-1 g_k = theta_hat - M^-1 xi_k`` is an estimate with its own independent noise, and
their average with weights proportional to ``1 / sd_k**2`` has the noise of one release with the whole
budget of those steps. The transient of the solver drops out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.solvers.base import Solution, Step, precision_average


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
    """

    theta: FloatArray
    gradient: FloatArray
    preconditioner: FloatArray
    sd: float


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """An estimate and the covariance of the privacy noise left in it.

    Parameters
    ----------
    theta : array of shape (q,)
    cov_noise : array of shape (q, q)
    """

    theta: FloatArray
    cov_noise: FloatArray


def anchor(steps: Sequence[Step]) -> Anchor:
    """Average points and gradients of the steps by the precision of their gradients."""
    theta, gradient, sd = precision_average(
        [step.release.at for step in steps],
        [step.gradient for step in steps],
        [step.release.planned.sd for step in steps],
    )
    return Anchor(theta, gradient, steps[-1].preconditioner, sd)


def one_step(around: Anchor, bread: Bread) -> Estimate:
    """Return the estimate ``theta - M^-1 g`` from averaged late steps.

    Parameters
    ----------
    around : Anchor
    bread : Bread
        Released Hessian; its own noise ``E`` moves the estimate by ``M^-1 E v`` with
        ``v = M^-1 g`` the length of the step, and ``cov(E v) = sd_M**2 / 2 (|v|**2 I + v v')`` for the
        symmetric noise that the mechanism adds.

    Returns
    -------
    Estimate
        ``cov_noise = M^-1 (sd**2 I + sd_M**2 / 2 (|v|**2 I + v v')) M^-1``.
    """
    move = bread.inverse @ around.gradient
    identity = np.eye(move.size)
    of_bread = 0.5 * bread.sd**2 * ((move @ move) * identity + np.outer(move, move))
    core = around.sd**2 * identity + of_bread
    return Estimate(around.theta - move, bread.inverse @ core @ bread.inverse)


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
        noise = step.release.planned.sd**2 * step.preconditioner @ step.preconditioner.T
        covariance = contraction @ covariance @ contraction.T + noise
    return Estimate(solution.theta, covariance)
