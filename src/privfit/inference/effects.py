"""Means and marginal effects of a regression at given covariates, with their derivatives.

``x`` are n rows of q / m columns for each of m linear predictors, in the units of the coefficients, and
``dx`` their derivatives in a covariate. Every function returns values of shape (n, k) and their derivatives
in the q coefficients, shape (n, k, q), for the delta method. There are k outputs: the mean, or the
probability of every class, the reference first.
"""

from typing import Literal, TypeAlias

import numpy as np
from scipy.special import expit, logit, softmax

from privfit._checks import FloatArray

Link: TypeAlias = Literal["identity", "log", "logit", "none"]
"""How the mean follows from the linear predictors; "none" where there is no mean, as for a margin."""

Differentiated: TypeAlias = tuple[FloatArray, FloatArray]


def predictors(x: FloatArray, estimate: FloatArray) -> FloatArray:
    """Return the m linear predictors, shape (n, m)."""
    return np.asarray(x @ estimate.reshape(-1, x.shape[1]).T)


def linear(x: FloatArray, estimate: FloatArray) -> Differentiated:
    """Return the linear predictors and their derivatives."""
    n_outputs = estimate.size // x.shape[1]
    derivatives = np.einsum("ab,np->nabp", np.eye(n_outputs), x)
    return predictors(x, estimate), derivatives.reshape(len(x), n_outputs, -1)


@np.errstate(over="ignore", invalid="ignore")
def mean(x: FloatArray, estimate: FloatArray, link: Link) -> Differentiated:
    """Return the mean response, or the probabilities of the classes, and their derivatives."""
    eta, derivatives = linear(x, estimate)
    if link == "identity":
        return eta, derivatives
    if link == "log":
        return np.exp(eta), np.exp(eta)[:, :, None] * derivatives
    chances = _chances(eta)
    return chances, np.einsum("nkj,njq->nkq", _chance_slopes(chances), derivatives)


@np.errstate(over="ignore", invalid="ignore")
def slope(x: FloatArray, dx: FloatArray, estimate: FloatArray, link: Link) -> Differentiated:
    """Return the derivative of `mean` in a covariate, and its own derivatives in the coefficients."""
    change, of_change = linear(dx, estimate)
    if link == "identity":
        return change, of_change
    eta, of_eta = linear(x, estimate)
    if link == "log":
        grown = np.exp(eta)
        return grown * change, grown[:, :, None] * (change[:, :, None] * of_eta + of_change)
    chances = _chances(eta)
    slopes = _chance_slopes(chances)  # d chance_k / d eta_j
    effect = np.einsum("nkj,nj->nk", slopes, change)  # chance_k (change_k - mean_change)
    mean_change = np.einsum("nj,nj->n", chances[:, 1:], change)
    weighted = np.einsum("nj,njl->nl", change, slopes[:, 1:])
    bend = (
        slopes * (_padded(change) - mean_change[:, None])[:, :, None]
        - chances[:, :, None] * weighted[:, None]
    )
    return effect, np.einsum("nkl,nlq->nkq", bend, of_eta) + np.einsum("nkj,njq->nkq", slopes, of_change)


def to_line(values: FloatArray, link: Link) -> Differentiated:
    """Return means on the scale on which intervals are symmetric, and that scale's derivative, (n, k)."""
    if link == "identity":
        return values, np.ones_like(values)
    with np.errstate(divide="ignore"):
        if link == "log":
            return np.log(values), 1.0 / values
        return logit(values), 1.0 / (values * (1.0 - values))


def from_line(values: FloatArray, link: Link) -> FloatArray:
    """Undo `to_line`."""
    with np.errstate(over="ignore"):
        return values if link == "identity" else np.exp(values) if link == "log" else expit(values)


def _chances(eta: FloatArray) -> FloatArray:
    """Return the probabilities of all classes, shape (n, m + 1)."""
    return np.asarray(softmax(_padded(eta), axis=1))


def _padded(eta: FloatArray) -> FloatArray:
    """Return predictors with the zero of the reference class in front."""
    return np.column_stack([np.zeros(len(eta)), eta])


def _chance_slopes(chances: FloatArray) -> FloatArray:
    """Return ``chance_k (delta_kj - chance_j)`` for all classes k and all j but the reference."""
    own = np.eye(chances.shape[1])[:, 1:]
    return np.asarray(chances[:, :, None] * (own[None] - chances[:, None, 1:]))
