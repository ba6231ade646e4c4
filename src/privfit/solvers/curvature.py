"""A Hessian from released first and second moments alone, by a normal model of the predictors."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import float64, types
from numpy.typing import NDArray
from scipy.special import ndtri

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.problem.turning import for_each

_LONGEST = 6.0
"""Standard deviation of the linear predictors beyond which the model's curvature is not lowered further."""

SMALLEST_PART = 0.4
"""Smallest curvature, relative to the mean one, that the model may claim: its steps would be too long."""

_POINTS = 512
"""Fixed points that stand for a normal vector of several directions."""

_SHORT_MEAN, _SHORT = 1e-6, 1e-9
"""Norms up to which the mean, and the part of a predictor that varies, are taken for 0."""

_VECTOR, _MATRIX = float64[::1], float64[:, ::1]


def model_hessian(
    curvatures: Callable[[FloatArray], FloatArray],
    phi: FloatArray,
    center: FloatArray,
    *,
    smallest: float = SMALLEST_PART,
) -> FloatArray:
    """Return the mean Hessian at ``phi`` if rows were ``z ~ N(center, I - center center')``.

    Parameters
    ----------
    curvatures : callable
        Mean Hessians (n, m, m) of rows with given linear predictors (m, n).
    phi : array of shape (m, p)
        Coefficients of every predictor in whitened coordinates.
    center : array of shape (p,)
        Mean of the whitened rows.
    smallest : float
        Smallest curvature, relative to the mean one, that the model may claim.

    Returns
    -------
    array of shape (m p, m p)
        Symmetric, positive definite.

    Notes
    -----
    The curvature depends on a row through ``eta = phi z``. So in all directions in which ``z`` is
    uncorrelated with ``eta`` the Hessian is ``A = E h(eta)``, and in the span of the mean and of the rows of
    ``phi`` it is the mean of ``h(eta)`` times the outer products of ``(1, u)`` with ``u`` standard normal
    along that span (Stein's identity; Brillinger 1982, *A generalized linear model with "Gaussian"
    regressor variables*). With a logit it is the small curvature along a strong ``phi`` that makes steps of
    one length slow.
    """
    of_all = _of_one if len(phi) == 1 else _of_several
    return of_all(curvatures, phi, center, smallest)


def _of_one(
    curvatures: Callable[[FloatArray], FloatArray], phi: FloatArray, center: FloatArray, smallest: float
) -> FloatArray:
    """Return that of one predictor, which fits of few rows wait for."""
    (nodes,), _ = normal_nodes(1)
    plane, eta = _line(phi[0].copy(), center.copy(), nodes)
    return _bent(plane, _products(1) @ curvatures(eta)[:, 0, 0], smallest)


@lazily_compiled(types.Tuple((_MATRIX, _MATRIX))(_VECTOR, _VECTOR, _VECTOR), error_model="numpy")
def _line(phi: Any, center: Any, nodes: Any) -> Any:
    """Return units along the mean and along what varies of ``phi``, (2, p), 0 for none; predictors (1, n)."""
    p, mean, length = phi.size, 0.0, 0.0
    for j in range(p):
        mean += phi[j] * center[j]
    plane, rest, eta = np.zeros((2, p)), np.empty(p), np.empty((1, nodes.size))
    for k, (along, short) in enumerate(((center, _SHORT_MEAN), (phi, _SHORT))):
        part = length = 0.0  # loops: arithmetic of arrays would take seconds more to compile
        for j in range(p):
            part += along[j] * plane[0, j]
        for j in range(p):
            rest[j] = along[j] - part * plane[0, j]
            length += rest[j] ** 2
        length = math.sqrt(length)
        if length > short:
            for j in range(p):
                plane[k, j] = rest[j] / length
    for i in range(nodes.size):
        eta[0, i] = mean + min(length, _LONGEST) * nodes[i]
    return plane, eta


@lazily_compiled(_MATRIX(_MATRIX, _VECTOR, float64), error_model="numpy")
def _bent(plane: Any, moments: Any, smallest: float) -> Any:
    """Return the Hessian whose mean curvatures times 1, u, u and u**2 are ``moments``.

    In units of the first, its eigenvalues in the plane are those of ``[[1, a], [a, 1 + b]]``: one of at least
    1, and one that is raised where it is smaller than ``smallest``.
    """
    mean, p = moments[0], plane.shape[1]
    a, b = moments[1] / mean, moments[3] / mean - 1.0
    radius = math.hypot(0.5 * b, a)
    lower, upper = 1.0 + 0.5 * b - radius, 1.0 + 0.5 * b + radius
    part = (smallest - lower) / (upper - lower) if lower < smallest else 0.0
    change = np.empty((2, 2))
    change[0, 0] = part * (upper - 1.0)
    change[0, 1] = change[1, 0] = a - part * a
    change[1, 1] = b + part * (upper - 1.0 - b)
    found = np.empty((p, p))
    for i in range(p):
        for j in range(i + 1):
            entry = 0.0
            for k in range(2):
                for m in range(2):
                    entry += plane[k, i] * change[k, m] * plane[m, j]
            found[i, j] = found[j, i] = mean * entry
        found[i, i] += mean
    return found


def _of_several(
    curvatures: Callable[[FloatArray], FloatArray], phi: FloatArray, center: FloatArray, smallest: float
) -> FloatArray:
    """Return that of several predictors."""
    (m, p), length = phi.shape, float(np.linalg.norm(center))
    constant = center / length if length > _SHORT_MEAN else np.zeros(p)
    left, spreads, right = np.linalg.svd(phi - np.outer(phi @ constant, constant), full_matrices=False)
    found = spreads > _SHORT
    directions = int(found.sum())
    side, (nodes, _) = directions + 1, normal_nodes(directions)
    eta = (phi @ center)[:, None] + (left[:, found] * np.minimum(spreads[found], _LONGEST)) @ nodes
    block = (_products(directions) @ curvatures(eta).reshape(-1, m * m)).reshape(side, side, m, m)
    mean = block[0, 0]
    whole = _each(mean, p)
    if not directions:
        return whole
    block = block.transpose(2, 0, 3, 1).reshape(m * side, m * side)
    turn = for_each(m, np.vstack([constant, right[found]]))
    change = _raised(block, mean, side, smallest) - _each(mean, side)
    return whole + turn.T @ change @ turn


def _each(block: NDArray[np.floating[Any]], p: int) -> FloatArray:
    """Return the Kronecker product of a block (m, m) with the identity (p, p)."""
    m = len(block)
    return (block[:, None, :, None] * np.eye(p)[:, None]).reshape(m * p, m * p)


def _raised(block: FloatArray, mean: FloatArray, side: int, smallest: float) -> FloatArray:
    """Return the block with eigenvalues relative to the mean of at least ``smallest``."""
    root = _each(np.linalg.cholesky(mean), side)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ block @ inverse.T)
    turned = root @ vectors
    return (turned * np.maximum(values, smallest)) @ turned.T


@cache
def normal_nodes(directions: int) -> tuple[FloatArray, FloatArray]:
    """Return points of shape (directions, n), and their probabilities, that stand for a normal vector.

    A grid for one direction. For several the multiples of an irrational vector modulo 1 (Niederreiter 1978,
    *Quasi-Monte Carlo methods and pseudo-random numbers*, section 4), in pairs of opposite points, scaled to
    the exact second moment.
    """
    if directions == 0:
        return np.zeros((0, 1)), np.ones(1)
    if directions == 1:
        grid = np.linspace(-5.0, 5.0, 101)
        chance = np.exp(-0.5 * grid**2)
        return grid[None], chance / chance.sum()
    count = max(_POINTS // 2, 2 * directions)
    half = ndtri((np.outer(_roots_of_primes(directions), np.arange(1, count + 1)) + 0.5 / count) % 1.0)
    half = np.linalg.solve(np.linalg.cholesky(half @ half.T / half.shape[1]), half)
    nodes = np.hstack([half, -half])
    return nodes, np.full(nodes.shape[1], 1.0 / nodes.shape[1])


@cache
def _products(directions: int) -> FloatArray:
    """Return the products of ``(1, u)`` at the points, times their probabilities, shape (side**2, n)."""
    nodes, chance = normal_nodes(directions)
    values = np.vstack([np.ones(chance.size), nodes])
    return (values[:, None] * values).reshape(-1, chance.size) * chance


def _roots_of_primes(count: int) -> FloatArray:
    primes: list[int] = []
    candidate = 2
    while len(primes) < count:
        if all(candidate % prime for prime in primes):
            primes.append(candidate)
        candidate += 1
    return np.sqrt(primes)
