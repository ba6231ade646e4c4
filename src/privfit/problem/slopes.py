"""Slopes, curvatures and reaches of a group of rows, inlined for the losses that are met most."""

from typing import Any

from numba import njit

from privfit.losses.concomitant import concomitant_slope
from privfit.losses.huber import huber_slope
from privfit.losses.logistic import logistic_curvature, logistic_reach, logistic_slope
from privfit.losses.pointers import called


@njit(inline="always")
def fill_slopes(code: int, slope: int, y: Any, steps: Any, s: float, c: float, k: float) -> None:
    """Replace predictors by slopes. A loop of its own for each slope with a code, which it vectorises."""
    if code == 1:
        for i in range(y.size):
            steps[i] = logistic_slope(y[i], steps[i], s, c, k)
    elif code == 2:
        for i in range(y.size):
            steps[i] = huber_slope(y[i], steps[i], s, c, k)
    elif code == 3:
        for i in range(y.size):
            steps[i] = concomitant_slope(y[i], steps[i], s, c, k)
    else:
        for i in range(y.size):
            steps[i] = called(slope, y[i], steps[i], s, c, k)


@njit(inline="always")
def fill_curvatures(
    code: int, curvature: int, y: Any, eta: Any, out: Any, s: float, c: float, k: float
) -> None:
    """Fill ``out`` with the curvature at each predictor."""
    if code == 1:
        for i in range(y.size):
            out[i] = logistic_curvature(y[i], eta[i], s, c, k)
    else:
        for i in range(y.size):
            out[i] = called(curvature, y[i], eta[i], s, c, k)


@njit(inline="always")
def fill_reaches(code: int, reach: int, y: Any, eta: Any, out: Any, s: float, c: float, k: float) -> None:
    """Fill ``out`` with the largest size that the slope can have at each predictor."""
    if code == 1:
        for i in range(y.size):
            out[i] = logistic_reach(y[i], eta[i], s, c, k)
    else:
        for i in range(y.size):
            out[i] = called(reach, y[i], eta[i], s, c, k)


SLOPE_CODES = {logistic_slope: 1, huber_slope: 2, concomitant_slope: 3}
"""Slopes that a gradient pass inlines; all others work too, by their address."""

CURVATURE_CODES = {logistic_curvature: 1}
"""Curvatures that are inlined likewise."""
