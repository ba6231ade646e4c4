"""Weighted gradients at two points, row by row, their difference held to a public ball."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, njit, types, void

from privfit._checks import FloatArray
from privfit.losses.base import SIGNATURE

_FUNCTION = types.FunctionType(SIGNATURE)
_VECTOR = float64[::1]
_MATRIX = float64[:, ::1]

_SHRINK = 1.0 - 2.0**-40
"""Covers the rounding of the norm that a difference is held to."""


@njit(
    void(
        _MATRIX, _VECTOR, _VECTOR, int64, int64, _MATRIX, _VECTOR, _VECTOR, _FUNCTION, float64, _VECTOR, float64,
        _VECTOR,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def mean_difference(  # noqa: PLR0917 -- compiled
    x: Any,
    y: Any,
    weight: Any,
    first: int,
    last: int,
    points: Any,
    betas: Any,
    loss: Any,
    slope: Any,
    bound: float,
    center: Any,
    radius: float,
    out: Any,
) -> None:
    """Fill ``out`` with the mean over rows ``first .. last - 1`` of their held differences.

    A row's difference is ``betas[0] * grad(points[0]) - betas[1] * grad(points[1])`` with gradients
    ``weight * slope * x``, the slope held to ``bound``; it is projected on the ball of ``center`` and
    ``radius``. ``loss`` is (s, c, k).
    """
    p = x.shape[1]
    s, c, k = loss[0], loss[1], loss[2]
    limit = radius * _SHRINK
    out[:] = 0.0
    for i in range(first, last):
        new, old = 0.0, 0.0
        for j in range(p):
            new += x[i, j] * points[0, j]
            old += x[i, j] * points[1, j]
        a = min(max(slope(y[i], new, s, c, k), -bound), bound)
        b = min(max(slope(y[i], old, s, c, k), -bound), bound)
        step = betas[0] * (a if a == a else 0.0)  # noqa: PLR0124 -- NaN
        step -= betas[1] * (b if b == b else 0.0)  # noqa: PLR0124
        step *= weight[i]
        squared = 0.0
        for j in range(p):
            away = step * x[i, j] - center[j]
            squared += away * away
        factor = 1.0
        if not squared <= limit * limit:
            factor = limit / math.sqrt(squared)
        for j in range(p):
            out[j] += center[j] + factor * (step * x[i, j] - center[j])
    for j in range(p):
        out[j] /= last - first


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What a convex or other smooth loss lets a weighted gradient change by, between two points.

    Parameters
    ----------
    lipschitz : float
        G, bound on a row's gradient.
    smoothness : float
        H, bound on how fast it changes.
    convex : bool
        Whether the loss is convex in the coefficients.
    """

    lipschitz: float
    smoothness: float
    convex: bool

    def ball(self, move: FloatArray, beta: float, before: float) -> tuple[FloatArray, float]:
        """Return centre and radius of a ball that holds ``beta * grad(x) - before * grad(x - move)``.

        Parameters
        ----------
        move : array of shape (d,)
            Step from the earlier point to the later one.
        beta, before : float
            Weights, ``beta >= before``.

        Notes
        -----
        The difference is ``(beta - before) grad(x) + before (grad(x) - grad(x - move))``. The first part has
        norm ``(beta - before) G`` at most. The second is in the ball of radius ``before H norm(move)``
        around 0; for a convex loss it is in the ball around ``before H move / 2`` of half that radius, as
        ``norm(g)**2 <= H g'move`` for a difference g of its gradients (Nesterov 2004, theorem 2.1.5). Or
        else ``(beta + before) G`` bounds it. Projection on the ball does not change a gradient that keeps
        the stated bounds, and makes the bound hold for one that does not.
        """
        length = math.sqrt(float(move @ move))
        rise, reach = (beta - before) * self.lipschitz, before * self.smoothness * length
        plain = (beta + before) * self.lipschitz
        if self.convex and rise + 0.5 * reach < plain:
            return (0.5 * before * self.smoothness) * move, rise + 0.5 * reach
        return np.zeros_like(move), min(rise + reach, plain)
