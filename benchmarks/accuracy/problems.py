"""The learning tasks: losses, the exact minimum, and the measures of accuracy."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import expit, log_expit

Task: TypeAlias = Literal["logistic", "squared", "huber"]
Array: TypeAlias = np.ndarray

HUBER_SCALE = 0.25
"""Public residual scale of the Huber fits, in units of half the declared range of the response."""

HUBER_THRESHOLD = 1.345 * HUBER_SCALE
"""Threshold on the encoded response: 95 % efficiency at normal errors of that scale."""

_NEGLIGIBLE_RIDGE = 1e-12
"""Keeps Newton's matrix invertible where a column is constant; it moves the minimum by less than 1e-9."""


def losses(task: Task, y: Array, eta: Array) -> Array:
    """Return the loss of every row; ``eta`` is (n,) or (n, m), and so is the result."""
    y = y.reshape(-1, *[1] * (eta.ndim - 1))
    if task == "logistic":
        return -log_expit((2.0 * y - 1.0) * eta)
    residual = eta - y
    if task == "squared":
        return 0.5 * residual**2
    size = np.abs(residual)
    inner = 0.5 * residual**2
    return np.where(size <= HUBER_THRESHOLD, inner, HUBER_THRESHOLD * (size - 0.5 * HUBER_THRESHOLD))


def slopes(task: Task, y: Array, eta: Array) -> Array:
    """Return the derivative of `losses` in ``eta``."""
    y = y.reshape(-1, *[1] * (eta.ndim - 1))
    if task == "logistic":
        return 0.5 * np.tanh(0.5 * eta) + (0.5 - y)  # several times as fast as expit in single precision
    residual = eta - y
    return residual if task == "squared" else np.clip(residual, -HUBER_THRESHOLD, HUBER_THRESHOLD)


def curvatures(task: Task, y: Array, eta: Array) -> Array:
    """Return the second derivative of `losses` in ``eta``."""
    if task == "logistic":
        share = expit(eta)
        return share * (1.0 - share)
    if task == "squared":
        return np.ones_like(eta)
    return (np.abs(eta - y) <= HUBER_THRESHOLD).astype(float)


SMOOTHNESS: dict[Task, float] = {"logistic": 0.25, "squared": 1.0, "huber": 1.0}
"""Largest second derivative of each loss."""

SLOPE: dict[Task, float] = {"logistic": 1.0, "squared": 1.0, "huber": HUBER_THRESHOLD}
"""Bound on the derivative; residuals of least squares are clamped to half the declared range."""


def minimum(task: Task, x: Array, y: Array, ridge: float = 0.0) -> Array:
    """Return the minimiser of the mean loss plus ``ridge/2`` times the squared norm, by Newton's method."""
    n, p = x.shape
    theta = np.zeros(p)
    value = _objective(task, x, y, theta, ridge)
    for _ in range(100):
        eta = x @ theta
        gradient = x.T @ slopes(task, y, eta) / n + ridge * theta
        hessian = (x * curvatures(task, y, eta)[:, None]).T @ x / n
        hessian[np.diag_indices(p)] += ridge + _NEGLIGIBLE_RIDGE
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
        size = 1.0
        while size > 1e-6:
            following = _objective(task, x, y, theta - size * step, ridge)
            if following <= value:
                break
            size /= 2.0
        if size <= 1e-6:
            return theta
        gain, value, theta = value - following, following, theta - size * step
        if gain <= 1e-13 * max(1.0, value):
            return theta
    return theta


def _objective(task: Task, x: Array, y: Array, theta: Array, ridge: float) -> float:
    return float(losses(task, y, x @ theta).mean() + 0.5 * ridge * theta @ theta)


@dataclass(frozen=True, slots=True)
class Scores:
    """Accuracy of coefficients.

    Parameters
    ----------
    excess : float
        Mean training loss above the exact minimum. For least squares the mean squared error above the
        minimum, over the variance of the response.
    test : float
        Accuracy (logistic) or R² (regression) on rows that were held out.
    """

    excess: float
    test: float
