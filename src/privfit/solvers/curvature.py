"""A Hessian from released first and second moments alone, by a normal model of the predictors."""

from collections.abc import Callable

import numpy as np

from privfit._checks import FloatArray

_LONGEST = 6.0
"""Standard deviation of the linear predictor beyond which the model's curvature is not lowered further."""

SMALLEST_PART = 0.4
"""Smallest curvature, relative to the mean one, that the model may claim: its steps would be too long."""

_NODES = np.linspace(-5.0, 5.0, 101)
_CHANCE = np.exp(-0.5 * _NODES**2) / np.exp(-0.5 * _NODES**2).sum()


def model_hessian(
    curvature: Callable[[FloatArray], FloatArray], phi: FloatArray, center: FloatArray
) -> FloatArray:
    """Return the mean Hessian at ``phi`` if rows were ``z ~ N(center, I - center center')``.

    Parameters
    ----------
    curvature : callable
        Mean curvature of rows with given linear predictors.
    phi : array of shape (p,)
        Coefficients in whitened coordinates.
    center : array of shape (p,)
        Mean of the whitened rows.

    Returns
    -------
    array of shape (p, p)
        Symmetric, positive definite.

    Notes
    -----
    The curvature depends on a row through ``eta = phi'z``. So in all directions in which ``z`` is
    uncorrelated with ``eta`` the Hessian is ``E h(eta)``, and in the plane of the mean and of ``phi`` it is
    the moment matrix of ``h(eta) (1, u)`` with ``u`` standard normal along ``phi`` (Brillinger 1982,
    *A generalized linear model with "Gaussian" regressor variables*). With a logit it is the small curvature
    along a strong ``phi`` that makes steps of one length slow.
    """
    p, length = phi.size, float(np.linalg.norm(center))
    constant = center / length if length > 1e-6 else np.zeros(p)
    rest = phi - (phi @ constant) * constant
    spread = float(np.linalg.norm(rest))
    eta = phi @ center + min(spread, _LONGEST) * _NODES
    weight = _CHANCE * curvature(eta)
    mean = float(weight.sum())
    if spread < 1e-9:
        return mean * np.eye(p)
    plane = np.column_stack([constant, rest / spread])
    cross = float(weight @ _NODES)
    values, vectors = np.linalg.eigh(np.array([[mean, cross], [cross, float(weight @ _NODES**2)]]))
    block = (vectors * np.maximum(values, SMALLEST_PART * mean)) @ vectors.T
    return mean * np.eye(p) + plane @ (block - mean * np.eye(2)) @ plane.T
