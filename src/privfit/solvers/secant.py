"""What gradients released at several points say of a Hessian: how steep it is, and along which way."""

import math
from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.solvers.base import Seen, Step, precision, precision_average

_DOUBT = 10.0
"""Squared length of moves, in standard deviations of noise and per coefficient, that counts as much as the
model."""

_LARGEST = 8.0
"""Most that the model is taken to be off by."""

_CERTAIN = 3.0
"""Standard deviations beyond its mean up to which what gradients differ by may be noise."""

_LEAST_CURVATURE = 0.2
"""Smallest curvature along a move, relative to the Hessian's, that is believed (Powell 1978)."""


def steepness(hessian: FloatArray, seen: Sequence[Seen]) -> float:
    """Return the factor by which a model of the Hessian is to be multiplied.

    Parameters
    ----------
    hessian : array of shape (n, n)
        The model's, of the first n entries of the parameter.
    seen : sequence of Seen
        In the same coordinates.

    Notes
    -----
    Gradients differ by the Hessian times the difference of their points, up to noise of known size. The
    factor is that of least squares over all of them, weighted by precision, drawn to 1 as far as noise alone
    could have moved the points: they follow earlier noise, which passes for steepness. So it is 1 where
    noise dominates, and the secants' (Barzilai and Borwein 1988, *Two-point step size gradient methods*)
    where the model has the steps go on in one direction, or over and back.
    """
    n, mean = len(hessian), precision_average(seen)
    expected = np.array([one.at - mean.at for one in seen])[:, :n] @ hessian
    weights = np.array([precision(one.sd) for one in seen])
    moved = float(weights @ (expected**2).sum(axis=1))
    differences = np.array([one.gradient - mean.gradient for one in seen])[:, :n]
    found = float(weights @ (expected * differences).sum(axis=1))
    doubt = _DOUBT * n if mean.sd > 0 else 0.0
    if moved + doubt == 0.0:
        return 1.0
    return min(max((found + doubt) / (moved + doubt), 1.0 / _LARGEST), _LARGEST)


def corrected(hessian: FloatArray, one: Step, other: Step) -> FloatArray:
    """Return a Hessian with what two gradients say of it along the move from one to the other.

    Parameters
    ----------
    hessian : array of shape (q, q)
        Positive definite.
    one, other : Step
        In the same coordinates.

    Notes
    -----
    Along a rare level that a step led far a logit's curvature is several times what it is where the Hessian
    was asked, and steps go over and back. The update is that of Broyden, Fletcher, Goldfarb and Shanno
    (1970), which keeps the Hessian positive, with the difference of the gradients drawn to what it should be
    as far as noise alone explains what it is off by. It is damped as by Powell (1978, *Algorithms for
    nonlinear constraints that use Lagrangian functions*). Moves for which the Hessian expects less of a
    difference than noise makes say nothing.
    """
    move, size = other.release.at - one.release.at, len(hessian)
    expected = hessian @ move
    left, curvature = other.gradient - one.gradient - expected, float(move @ expected)
    squared, variance = float(left @ left), one.release.sd**2 + other.release.sd**2
    noise = (size + _CERTAIN * math.sqrt(2.0 * size)) * variance
    if squared <= noise or expected @ expected <= size * variance or curvature <= 0.0:
        return hessian
    left = left * (1.0 - noise / squared)
    bend = float(move @ left)
    if bend < (_LEAST_CURVATURE - 1.0) * curvature:
        left = left * ((_LEAST_CURVATURE - 1.0) * curvature / bend)
    found = expected + left
    found_curvature = curvature + float(move @ left)
    return hessian - np.outer(expected, expected) / curvature + np.outer(found, found) / found_curvature
