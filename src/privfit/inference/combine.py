"""Turn a solver's releases into one estimate, and say how much privacy noise is left in it.

Near the optimum ``theta_hat`` of the empirical objective, with Hessian ``M``, a released gradient is
``g_k = M (theta_k - theta_hat) + xi_k`` with ``xi_k ~ N(0, sd_k**2 I)`` independent of everything before.
So each ``theta_k - M^-1 g_k = theta_hat - M^-1 xi_k`` is an estimate with its own independent noise, and
their average with weights proportional to ``1 / sd_k**2`` has the noise of one release with the whole
budget of those steps. The transient of the solver drops out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.solvers.base import Seen, Solution, Step, precision_weights, weighted_average


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
    noise = [step.release.sd for step in steps] if sds is None else sds
    seen = [Seen(step.release.at, step.gradient, sd) for step, sd in zip(steps, noise, strict=True)]
    parts = precision_weights(noise)
    mean = weighted_average(seen, parts)
    return Anchor(mean.at, mean.gradient, steps[-1].preconditioner, mean.sd, tuple(steps), parts)


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


def last_iterate(solution: Solution, bread: Bread) -> Estimate:
    """Return the last iterate with the covariance that its linear recursion gives.

    With ``A_k = I - P_k M``, the noise in the iterate obeys ``e <- A_k e - P_k xi_k``, so its covariance
    obeys ``N <- A_k N A_k' + sd_k**2 P_k P_k'`` from ``N = 0``. For gradient descent with step ``eta``
    this is ``eta**2 sd**2 sum_k (I - eta M)**(2k)``; for a last pure Newton step ``sd**2 M^-2``.
    """
    size = solution.theta.size
    covariance = np.zeros((size, size))
    with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long run away
        for step in solution.steps:
            contraction = np.eye(size) - step.preconditioner @ bread.matrix
            noise = step.release.sd**2 * step.preconditioner @ step.preconditioner.T
            covariance = contraction @ covariance @ contraction.T + noise
    return Estimate(solution.theta, covariance, solution.late)
