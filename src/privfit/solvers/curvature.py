"""A Hessian from released first and second moments alone, by a normal model of the predictors."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from privfit._checks import FloatArray
from privfit.problem.turning import for_each

_LONGEST = 6.0
"""Standard deviation of the linear predictors beyond which the model's curvature is not lowered further."""

SMALLEST_PART = 0.4
"""Smallest curvature, relative to the mean one, that the model may claim: its steps would be too long."""

_POINTS = 512
"""Fixed points that stand for a normal vector of several directions."""


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
    (m, p), length = phi.shape, float(np.linalg.norm(center))
    constant = center / length if length > 1e-6 else np.zeros(p)
    left, spreads, right = np.linalg.svd(phi - np.outer(phi @ constant, constant), full_matrices=False)
    found = spreads > 1e-9
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
