"""Weighted gradients at two points, row by row, their difference held to a public ball."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, void

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block
from privfit.data.clamp import SHRINK
from privfit.data.row_types import MATRIX, VECTOR
from privfit.losses.base import AbstractLoss
from privfit.losses.outside import guarded


@lazily_compiled(void(MATRIX, int64, int64, VECTOR, VECTOR, MATRIX), nogil=True)
def _predictors(x: Any, first: int, last: int, point: Any, before: Any, out: Any) -> None:  # noqa: PLR0917
    """Fill ``out[i]`` with the linear predictors of row ``first + i`` at both points."""
    for i in range(last - first):
        new, old = 0.0, 0.0
        for j in range(x.shape[1]):
            new += x[first + i, j] * point[j]
            old += x[first + i, j] * before[j]
        out[i, 0], out[i, 1] = new, old


@lazily_compiled(void(MATRIX, VECTOR, int64, int64, VECTOR, VECTOR, float64, VECTOR), nogil=True)
def _mean_held(  # noqa: PLR0917 -- compiled
    x: Any, weight: Any, first: int, last: int, steps: Any, center: Any, radius: float, out: Any
) -> None:
    """Fill ``out`` with the mean of ``weight * step * x``, each row's projected on a ball."""
    limit = radius * SHRINK
    out[:] = 0.0
    for i in range(first, last):
        step, squared = weight[i] * steps[i - first], 0.0
        for j in range(x.shape[1]):
            away = step * x[i, j] - center[j]
            squared += away * away
        factor = 1.0 if squared <= limit * limit else limit / math.sqrt(squared)
        for j in range(x.shape[1]):
            out[j] += center[j] + factor * (step * x[i, j] - center[j])
    for j in range(out.size):
        out[j] /= last - first


@lazily_compiled(void(MATRIX, VECTOR, int64, int64, VECTOR, float64, float64, VECTOR), nogil=True)
def _mean_shortened(  # noqa: PLR0917 -- compiled
    x: Any, weight: Any, first: int, last: int, steps: Any, norm: float, radius: float, out: Any
) -> None:
    """Fill ``out`` with the mean of ``weight * step * x``, each row's shortened to a norm of ``radius``."""
    limit = radius * SHRINK
    out[:] = 0.0
    for i in range(first, last):
        step, largest, power = weight[i] * steps[i - first], 0.0, 0.0
        for j in range(x.shape[1]):
            largest = max(largest, abs(x[i, j]))
        if largest == 0.0:
            continue
        if not math.isinf(norm):
            for j in range(x.shape[1]):
                power += (abs(x[i, j]) / largest) ** norm
            largest *= power ** (1.0 / norm)
        factor = min(1.0, limit / max(abs(step) * largest, limit))
        for j in range(x.shape[1]):
            out[j] += factor * step * x[i, j]
    for j in range(out.size):
        out[j] /= last - first


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RoundRows:
    """Rows ``first .. last - 1`` of a block: those of one round."""

    block: Block
    first: int
    last: int


class WeightedDifference:
    """The mean over some rows of ``beta * grad(point) - before * grad(earlier)``, held row by row to a ball.

    Slopes are asked one by one: a compiled function that takes the slope as an argument is slower to call
    than to run.

    Parameters
    ----------
    loss : AbstractLoss
        Without a scale.
    size : int
        Number of coefficients.
    batch : int
        Largest number of rows at once.
    norm : float
        Exponent of the norm of the ball; its centre is 0 unless this is 2.
    """

    __slots__ = ("_constants", "_etas", "_limit", "_norm", "_out", "_slope", "_steps")

    def __init__(self, loss: AbstractLoss, size: int, batch: int, norm: float) -> None:
        self._norm = norm
        self._slope, self._limit = guarded(loss.functions.slope), loss.constants.slope
        self._constants = (1.0, *loss.parameters)
        self._etas, self._steps, self._out = np.empty((batch, 2)), np.empty(batch), np.empty(size)

    def mean(
        self,
        rows: RoundRows,
        points: tuple[FloatArray, FloatArray],
        betas: tuple[float, float],
        ball: tuple[FloatArray, float],
    ) -> FloatArray:
        """Return the mean difference, shape (size,), valid until the next call.

        Parameters
        ----------
        rows : RoundRows
        points : pair of array of shape (size,)
            The later and the earlier point.
        betas : pair of float
            Their weights.
        ball : (centre, radius)
        """
        block, first, last = rows.block, rows.first, rows.last
        _predictors(block.x, first, last, *points, self._etas)
        for i, (y, (new, old)) in enumerate(
            zip(block.y[first:last].tolist(), self._etas[: last - first].tolist(), strict=True)
        ):
            self._steps[i] = betas[0] * self._held_slope(y, new) - betas[1] * self._held_slope(y, old)
        if self._norm == 2.0:
            _mean_held(block.x, block.weight, first, last, self._steps, *ball, self._out)
        else:
            _mean_shortened(block.x, block.weight, first, last, self._steps, self._norm, ball[1], self._out)
        return self._out

    def _held_slope(self, y: float, eta: float) -> float:
        """Return the slope within its bound; 0 for NaN."""
        slope = self._slope(y, eta, *self._constants)
        return min(max(slope, -self._limit), self._limit) if slope == slope else 0.0  # noqa: PLR0124 -- NaN


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """What a convex or other smooth loss lets a weighted gradient change by, between two points.

    Parameters
    ----------
    lipschitz : float
        G, bound on a row's gradient.
    smoothness : float
        H, bound on how fast it changes.
    centred : bool
        Whether the loss is convex in the coefficients and G and H are in the Euclidean norm.
    """

    lipschitz: float
    smoothness: float
    centred: bool

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
        else ``(beta + before) G`` bounds it. In other norms G and H are those of the gradient in that norm,
        for a Euclidean length of the move. Projection on the ball does not change a gradient that keeps
        the stated bounds, and makes the bound hold for one that does not.
        """
        length = math.sqrt(float(move @ move))
        rise, reach = (beta - before) * self.lipschitz, before * self.smoothness * length
        plain = (beta + before) * self.lipschitz
        if self.centred and rise + 0.5 * reach < plain:
            return (0.5 * before * self.smoothness) * move, rise + 0.5 * reach
        return np.zeros_like(move), min(rise + reach, plain)
