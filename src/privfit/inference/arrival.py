"""Whether a solver has come so near to the optimum that its last step leads there, as releases say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.combine import Anchor, Estimate
from privfit.inference.covariance import Bread
from privfit.solvers.base import Solution, Step, quadratic_forms

_EXPLAINED, _TOLERATED = 3.0, 0.5
"""How many times its expectation a squared Newton step may be for noise to explain it; how many standard
errors it may be off by."""

_FAR_END = 2.0
"""Standard errors beyond the estimate up to which the optimum is thought to be."""

_BY_MODEL = 0.75
"""Standard errors by which a model of the curvature may change where a step leads: it says about half of what
there is to be said, or more."""

_LONGEST = 5.0
"""How many errors a Newton step may be long, root mean square, for one curvature to hold for it."""

_LEFT = 2.0
"""How often the distance that a last iterate had to go counts: the Hessian may be smaller on the way."""


@dataclass(frozen=True, slots=True)
class Turning:
    """What is known of how fast the curvature changes, to tell whether one Newton step leads to the optimum.

    Parameters
    ----------
    rate : float
        By what part the curvature changes over a step ``v`` with ``v'M v = 1``; 0 where nothing is known.
    sampling : float
        Mean over the coordinates of the sampling variance in units of ``M^-1``.
    second : float
        By what part more over a step of that length, whatever its direction: of second order in the length.
    """

    rate: float = 0.0
    sampling: float = 0.0
    second: float = 0.0

    def far_off(self, around: Anchor, bread: Bread) -> bool:
        """Return whether a Newton step may be off by more than half a standard error.

        Notes
        -----
        ``v'M v`` has the expectation ``sd**2 trace(M^-1)`` where noise alone makes the step. What is beyond
        that says how far the solver was from the optimum, and that the step is off by ``rate v'M v / 2`` in
        the norm of M: with few positives the curvature is a fraction of what it is at even odds, so that
        steps of a length that suits those do not arrive. At even odds it is less the steeper slopes are.
        """
        squared = float(around.gradient @ bread.inverse @ around.gradient)
        noise = around.sd**2 * float(np.trace(bread.inverse))
        error = self.missed(squared, explained=_EXPLAINED * noise)
        return error > _TOLERATED * math.sqrt(noise / around.theta.size + self.sampling)

    def missed(self, squared: float, *, explained: float = 0.0) -> float:
        """Return by how much a Newton step of a squared length ``v'M v`` is off, in the norm of M.

        What noise explains of it counts in the second order alone.
        """
        return 0.5 * (self.rate * max(squared - explained, 0.0) + self.second * squared**1.5)


UNKNOWN = Turning()
"""Where nothing is known of it."""


def left_to_go(steps: Sequence[Step], estimate: Estimate, bread: Bread, turning: Turning) -> bool:
    """Return whether short steps left so much of the way to one Newton step that this does not arrive.

    Parameters
    ----------
    steps : sequence of Step
        All of them.
    estimate : Estimate
    bread : Bread
    turning : Turning

    Notes
    -----
    Of a way ``v`` K steps ``P`` leave ``(I - P M)**K v``, next to nothing along directions of much curvature.
    The way is that to the estimate and, as noise may hide how long it is, two standard errors of it more.
    What is left of it is as much of a Newton step, which is off as in `Turning.far_off`.
    """
    if turning.rate == turning.second == 0.0:
        return False
    root = np.linalg.cholesky(bread.matrix).T
    kept = np.linalg.matrix_power(np.eye(len(root)) - steps[-1].preconditioner @ bread.matrix, len(steps))
    left = root @ kept
    noise = math.sqrt(float(np.trace(left @ estimate.cov_noise @ left.T)))
    length = float(np.linalg.norm(left @ (estimate.theta - steps[0].release.at))) + _FAR_END * noise
    own = float(np.trace(root @ estimate.cov_noise @ root.T)) / len(root)
    return turning.missed(length**2) > _TOLERATED * math.sqrt(own + turning.sampling)


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
        Each row times a step is by how much the predictors of some rows change, about, that no other
        coefficient fits: those of one level of a factor, all alike or by a number within it.
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


def too_long(estimate: Estimate, bread: Bread, sampling: FloatArray) -> bool:
    """Return whether a Newton step from the last point of an estimate is longer than one of who arrived.

    Its squared length in units of the errors (noise of both, and ``sampling``) is about one for each
    coordinate where noise makes it. What a curvature that changes along a longer step makes it miss is a part
    of its length, and nobody knows which. That of least squares changes, too, where residuals are beyond
    their bound.
    """
    last = estimate.steps[-1]
    step = bread.inverse @ last.gradient
    errors = sampling + estimate.cov_noise + last.release.sd**2 * bread.inverse @ bread.inverse
    return float(step @ np.linalg.lstsq(errors, step)[0]) > _LONGEST**2 * step.size


def bent_too_far(
    around: Anchor, directions: FloatArray, *, bread: Bread, on_the_way: Bread, variance: FloatArray
) -> np.ndarray:
    """Return along which directions, (k,), a step hangs on what a model says of the curvature on its way.

    Parameters
    ----------
    around : Anchor
        Where the step begins.
    directions : array of shape (k, q)
    bread, on_the_way : Bread
        As it was asked, and as the model moves it to the middle of the step.
    variance : array of shape (k,)
        Of the estimate along the directions.
    """
    change = (bread.inverse - on_the_way.inverse) @ around.gradient
    return np.abs(directions @ change) > _BY_MODEL * np.sqrt(variance)


def unfinished(estimate: Estimate, solution: Solution, bread: Bread) -> Estimate:
    """Return the last iterate with the distance that its steps still had to go counted as an error.

    Without noise the distance to the optimum is multiplied by ``A_k`` at every step (`last_iterate`), by
    ``B = A_K ... A_1`` in all. So the iterate has gone ``I - B`` of the way from its start, and
    ``B (I - B)^-1`` times the way that it went is left, if one Hessian holds for the whole way. It counts
    `_LEFT` times over. An interval for an error ``d + s Z`` of standard error ``sqrt(s**2 + d**2)`` holds
    95 % or more, whatever d is.
    """
    size = solution.theta.size
    rest = np.eye(size)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in solution.steps:
            rest = rest - step.preconditioner @ (bread.matrix @ rest)
    if not (np.isfinite(rest).all() and np.isfinite(estimate.cov_noise).all()):
        return replace(estimate, cov_noise=np.zeros((size, size)), arrived=False)
    went = solution.theta - solution.steps[0].release.at
    left = _LEFT * rest @ np.linalg.lstsq(np.eye(size) - rest, went)[0]
    return replace(estimate, cov_noise=estimate.cov_noise + np.outer(left, left))
