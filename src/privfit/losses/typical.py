"""What slopes and curvatures are like for typical rows, under public assumptions; for forecasts."""

import math
from collections.abc import Callable
from functools import cache, lru_cache, partial

import numpy as np
from scipy.optimize import root_scalar

from privfit._checks import FloatArray
from privfit.errors import Incompatible
from privfit.losses.base import AbstractLoss, evaluate
from privfit.losses.multinomial import Multinomial

USUAL_RESIDUAL = 0.25
"""Assumed residual scale in units of half the declared range of a response; 1 where none is declared."""

USUAL_WIDTH = 0.4
"""Half-width by which the loss of a quantile is smoothed, in units of the assumed residual scale."""

_POINTS = 2001
_LARGEST_COUNT = 30


def usual_residual(response_bound: float | None) -> float:
    """Return the residual scale that is assumed for a response with this declared bound, or with none."""
    return 1.0 if response_bound is None else USUAL_RESIDUAL * response_bound


@lru_cache(maxsize=256)
def typical(loss: AbstractLoss, *, residual: float) -> tuple[float, float]:
    """Return the expected curvature and the expected squared slope of a row at the optimum.

    Parameters
    ----------
    loss : AbstractLoss
    residual : float
        Assumed residual scale of a numeric response, in units of the encoded one.

    Returns
    -------
    curvature : float
        Second derivative in the linear predictor: its bound for a binary response, its mean otherwise.
    score : float
        Mean squared slope.

    Notes
    -----
    A numeric response is normal about a linear predictor that is right: about a quantile, for losses that
    estimate one. A binary response has even odds, a count mean 1. The classes of a multinomial
    response are equally likely; its numbers hold in every direction.

    Raises
    ------
    Incompatible
        For a loss with kinks, whose curvature says nothing.
    """
    curvature = typical_curvature(loss, residual=residual)
    if isinstance(loss, Multinomial):
        return curvature, curvature
    y, eta, chance = _rows(loss, residual)
    s = residual if loss.has_scale else 1.0
    slopes = np.nan_to_num(evaluate(loss.functions.slope, y, eta, s=s, loss=loss))
    return curvature, float(chance @ np.clip(slopes, -loss.constants.slope, loss.constants.slope) ** 2)


@lru_cache(maxsize=256)
def typical_curvature(loss: AbstractLoss, *, residual: float) -> float:
    """Return the first of the two that `typical` returns."""
    constants = loss.constants
    if not constants.smooth:
        raise Incompatible(f"loss: {loss.name} has kinks, so there is no forecast; take {loss.smoothed}")
    if isinstance(loss, Multinomial):
        return 1.0 / loss.n_classes
    if loss.target_kind == "binary":
        return constants.curvature
    y, eta, chance = _rows(loss, residual)
    s = residual if loss.has_scale else 1.0
    return float(chance @ _bounded(loss, evaluate(loss.functions.curvature, y, eta, s=s, loss=loss))) / s


def _bounded(loss: AbstractLoss, curvatures: FloatArray) -> FloatArray:
    """Return curvatures times the scale within their bounds; 0 for what is not a number."""
    return np.fmin(np.fmax(curvatures, 0.0), loss.constants.curvature)


def _rows(loss: AbstractLoss, residual: float) -> tuple[FloatArray, FloatArray | float, FloatArray]:
    """Return responses, their predictor and their probabilities."""
    if loss.target_kind == "binary":
        return np.array([0.0, 1.0]), 0.0, np.array([0.5, 0.5])
    if loss.target_kind == "count":
        counts = np.arange(_LARGEST_COUNT)
        return counts.astype(float), 0.0, np.array([math.exp(-1.0) / math.factorial(k) for k in counts])
    z, chance = _normal()
    y = residual * z
    return y, _center(loss, y, chance, residual), chance


def _center(loss: AbstractLoss, y: FloatArray, chance: FloatArray, residual: float) -> float:
    """Return where the expected slope is 0 within four residual scales, or the end that is nearest to it."""
    if loss.symmetric:
        return 0.0
    s = residual if loss.has_scale else 1.0
    return _zero(partial(_expected_slope, loss, y, chance, s=s), 4.0 * residual)


def constant_predictor(loss: AbstractLoss, mean: float, *, spread: float, limit: float) -> float:
    """Return the constant linear predictor that a response with this mean asks for, within ``limit`` of 0.

    Parameters
    ----------
    loss : AbstractLoss
    mean : float
        Mean of the encoded response; for a binary one the share of ones.
    spread : float
        Standard deviation of a numeric response, which is taken to be normal: a quantile may be far from
        the mean. Not looked at for others.
    limit : float
        Largest size of the result.
    """
    if loss.target_kind == "numeric" and loss.symmetric:
        return min(max(mean, -limit), limit)
    ys, chance = np.array([mean]), np.ones(1)
    if loss.target_kind == "binary":
        ys, chance = np.array([0.0, 1.0]), np.array([1.0 - mean, mean])
    elif loss.target_kind == "numeric":
        z, chance = _normal()
        ys = mean + spread * z
    return _zero(partial(_expected_slope, loss, ys, chance, s=1.0), limit)


@cache
def _normal() -> tuple[FloatArray, FloatArray]:
    """Return points and probabilities that stand for a standard normal number."""
    z = np.linspace(-8.0, 8.0, _POINTS)
    chance = np.exp(-0.5 * z * z)
    return z, chance / chance.sum()


def _expected_slope(loss: AbstractLoss, ys: FloatArray, chance: FloatArray, eta: float, *, s: float) -> float:
    """Return the expected slope at a predictor for responses with these probabilities."""
    return float(chance @ np.nan_to_num(evaluate(loss.functions.slope, ys, eta, s=s, loss=loss)))


def _zero(slope: Callable[[float], float], limit: float) -> float:
    """Return where an increasing slope is 0 within ``limit`` of 0, or the end that is nearest to it."""
    if slope(-limit) >= 0.0:
        return -limit
    if slope(limit) <= 0.0:
        return limit
    return float(root_scalar(slope, bracket=(-limit, limit), method="brentq", xtol=2.0**-50 * limit).root)


def curvatures_along(loss: AbstractLoss, eta: FloatArray, *, least: float) -> FloatArray:
    """Return the mean Hessians of rows with these linear predictors, where the model is right.

    Parameters
    ----------
    loss : AbstractLoss
        Smooth and convex, of a binary response, a count or classes.
    eta : array of shape (m, n)
    least : float
        Share of the largest curvature that none is smaller than, with classes of that at even odds.

    Returns
    -------
    array of shape (n, m, m)
        For a binary response the mean of both labels', for a count that of a count of 1.
    """
    if isinstance(loss, Multinomial):
        return loss.curvatures(eta) + least / loss.n_classes * np.eye(loss.n_outputs)
    values = np.maximum(_curvature_along(loss, eta[0]), least * loss.constants.curvature)
    return values[:, None, None]


def _curvature_along(loss: AbstractLoss, eta: FloatArray) -> FloatArray:
    ys = np.array([[0.0], [1.0]] if loss.target_kind == "binary" else [[1.0]])
    return _bounded(loss, evaluate(loss.functions.curvature, ys, eta, s=1.0, loss=loss).mean(axis=0))
