"""How much released gradients count in one estimate: by their noise, and by how far a model is relied on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray

_OFF = 0.75
"""How far the change of a gradient may be off what a model of the Hessian expects, relative to that."""

_OWN = 0.1
"""Part of its variance that is each gradient's own, as the Hessian changes on the way."""

_LEAST_NOISE = 1e-9
"""Smallest variance, relative to the mean one: without noise errors of the model can be singular."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """A released gradient in whitened coordinates, or a mean of several.

    Parameters
    ----------
    at : array of shape (q,)
        Where it was asked.
    gradient : array of shape (q,)
        The ridge's included; over the part of the rows whose gradients are not cut.
    sd : float
        Standard deviation of the noise in an entry.
    """

    at: FloatArray
    gradient: FloatArray
    sd: float


def in_lists(seen: Sequence[Seen]) -> tuple[list[FloatArray], list[FloatArray], list[float]]:
    """Return points, gradients and standard deviations."""
    return [one.at for one in seen], [one.gradient for one in seen], [one.sd for one in seen]


def combined(seen: Sequence[Seen], hessian: FloatArray, *, about: FloatArray) -> Seen:
    """Return the mean of gradients with the weights that `best_weights` gives them."""
    points, gradients, sds = in_lists(seen)
    weights = best_weights(hessian, points, sds, about=about)
    return Seen(
        weights @ np.array(points), weights @ np.array(gradients), float(np.linalg.norm(weights * sds))
    )


def best_weights(
    hessian: FloatArray, points: Sequence[FloatArray], sds: Sequence[float], *, about: FloatArray
) -> FloatArray:
    """Return the weights of gradients in an estimate of where the gradient vanishes, (k,), of sum 1.

    Parameters
    ----------
    hessian : array of shape (n, n)
        The model's, of the first n entries of the parameter.
    points : sequence of k arrays of shape (q,)
        Where the gradients were asked.
    sds : sequence of float
        Standard deviations of their noise.
    about : array of shape (q,)
        Where the gradient is thought to vanish.

    Notes
    -----
    Let ``g`` be a gradient at ``x`` and ``M`` the model. Then ``x - M^-1 g`` is off by ``M^-1`` times noise
    and ``D (x - about)``, with ``D`` what the Hessian is off the model. If the entries of ``D M^-1`` are
    independent and of variance ``off**2 / n``, the errors of two gradients have a covariance of
    ``off**2 / n`` times the product of ``M (x - about)`` at both, less a part that is each one's own. The
    weights are those of the best linear unbiased estimate (Aitken 1936, *On least squares and linear
    combination of observations*): gradients far away count as far as noise exceeds what the model may get
    wrong there, and points on opposite sides make up for each other. Gradients that would count negatively
    are left out: to extrapolate along a wrong ``D`` can lead anywhere.
    """
    n = len(hessian)
    away = (np.array(points) - about)[:, :n] @ hessian
    errors = _OFF**2 / n * (away @ away.T)
    covariance = (1.0 - _OWN) * errors + np.diag(_OWN * np.diag(errors) + np.square(sds))
    usual = float(np.trace(covariance)) / len(covariance)
    if usual == 0.0:
        return np.full(len(covariance), 1.0 / len(covariance))
    covariance = covariance / usual + _LEAST_NOISE * np.eye(len(covariance))
    kept = np.arange(len(covariance))
    while True:
        found = np.linalg.solve(covariance[np.ix_(kept, kept)], np.ones(kept.size))
        if (found >= 0.0).all():
            break
        kept = kept[found > 0.0]
    weights = np.zeros(len(covariance))
    weights[kept] = found / found.sum()
    return weights
