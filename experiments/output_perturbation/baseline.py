"""Mini-batch noisy SGD as Bassily, Smith and Thakurta 2014 calibrate it, for comparison only.

Their noise is for single rows and ``n**2`` steps: variance ``32 L**2 log(n / delta) log(1 / delta) /
epsilon**2`` on the gradient of the row that a step draws. With batches of m rows the sampling rate is ``m /
n`` and there are ``(n / m)**2`` steps; the same variance, with ``n / m`` for ``n`` in the logarithm, goes
on the sum over the batch. How the authors of the comparison did this is not known. Nothing here is
released: the noise comes from NumPy.
"""

import math

import numpy as np
from numba import njit

from privfit.losses import Huber
from privfit.problem.objective import Problem

BATCH = 50


@njit(cache=True, nogil=True, fastmath=True)
def _walk(x, y, l2, threshold, sd, steps, batch, strong, scale, radius, seed):  # noqa: PLR0917
    np.random.seed(seed)  # noqa: NPY002
    n, p = x.shape
    theta, g = np.zeros(p), np.empty(p)
    for t in range(1, steps + 1):
        g[:] = 0.0
        for _ in range(batch):
            i = np.random.randint(n)  # noqa: NPY002
            eta = 0.0
            for j in range(p):
                eta += x[i, j] * theta[j]
            if threshold > 0:
                slope = min(max(eta - y[i], -threshold), threshold)
            else:
                slope = 1.0 / (1.0 + math.exp(-eta)) - y[i]
            for j in range(p):
                g[j] += slope * x[i, j]
        rate = 1.0 / (l2 * t) if strong else scale / math.sqrt(t)
        squared = 0.0
        for j in range(p):
            theta[j] -= rate * ((g[j] + sd * np.random.normal()) / batch + l2 * theta[j])  # noqa: NPY002
            squared += theta[j] * theta[j]
        if squared > radius * radius:
            for j in range(p):
                theta[j] *= radius / math.sqrt(squared)
    return theta


def bassily(
    problem: Problem, x: np.ndarray, y: np.ndarray, *, epsilon: float, delta: float, seed: int, most: int
) -> np.ndarray:
    """Return the last iterate, projected to a ball of radius ``sqrt(p)`` at every step.

    ``most`` caps the number of steps, at the same noise; 0 for no cap.
    """
    n, p = x.shape
    slope = problem.loss.constants.slope * problem.norm_bound
    ratio = n / BATCH
    sd = math.sqrt(32.0 * math.log(ratio / delta) * math.log(1.0 / delta)) * slope / epsilon
    steps = math.ceil(ratio**2)
    steps = min(steps, most) if most else steps
    radius = math.sqrt(p)
    scale = radius / math.sqrt((slope + problem.l2 * radius) ** 2 + p * (sd / BATCH) ** 2)
    threshold = problem.loss.threshold if isinstance(problem.loss, Huber) else -1.0
    return _walk(x, y, problem.l2, threshold, sd, steps, BATCH, problem.l2 > 0, scale, radius, seed)
