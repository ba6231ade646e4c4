"""How steep the loss is beside a model of its Hessian, from gradients released at several points."""

from collections.abc import Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.solvers.base import precision, precision_average

_DOUBT = 10.0
"""Squared length of moves, in standard deviations of noise and per coefficient, that counts as much as the
model."""

_LARGEST = 8.0
"""Most that the model is taken to be off by."""


def steepness(
    hessian: FloatArray, points: Sequence[FloatArray], gradients: Sequence[FloatArray], sds: Sequence[float]
) -> float:
    """Return the factor by which a model of the Hessian is to be multiplied.

    Parameters
    ----------
    hessian : array of shape (n, n)
        The model's, of the first n entries of the parameter.
    points, gradients : sequences of arrays of shape (q,)
        Released gradients and where they were asked, in the same coordinates.
    sds : sequence of float
        Standard deviations of their noise.

    Notes
    -----
    Gradients differ by the Hessian times the difference of their points, up to noise of known size. The
    factor is that of least squares over all of them, weighted by precision, drawn to 1 as far as noise alone
    could have moved the points: they follow earlier noise, which passes for steepness. So it is 1 where
    noise dominates, and the secants' (Barzilai and Borwein 1988, *Two-point step size gradient methods*)
    where the model has the steps go on in one direction, or over and back.
    """
    n = len(hessian)
    at, gradient, sd = precision_average(points, gradients, sds)
    expected = (np.array(points) - at)[:, :n] @ hessian
    weights = np.array([precision(each) for each in sds])
    moved = float(weights @ np.sum(expected**2, axis=1))
    found = float(weights @ np.sum(expected * (np.array(gradients) - gradient)[:, :n], axis=1))
    doubt = _DOUBT * n if sd > 0 else 0.0
    if moved + doubt == 0.0:
        return 1.0
    return float(np.clip((found + doubt) / (moved + doubt), 1.0 / _LARGEST, _LARGEST))
