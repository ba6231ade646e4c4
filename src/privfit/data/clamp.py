"""Bound the influence of a row, in floating point as on paper."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, in_range
from privfit.data import norm_loops
from privfit.data.coded import CodedMatrix, Matrix, fill_squared_norms
from privfit.data.reduction import each_stretch

SHRINK = 1.0 - 2.0**-40
"""Relative margin that covers the rounding of a norm of up to 2**11 terms, of a quotient and of a product.

More columns are not refused. Of p squares at most ``p * 2**-53`` of the sum is lost, so that the norm of a
row of more than 2**13 numbers may exceed its bound by up to ``p * 2**-54`` of it. Two such rows stay within
the rounding of sums that sensitivities of n rows include, ``1280 n * 2**-53`` of the bound or more where n is
at least 80, if n is at least p / 1280 as well.
"""

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

NORM_BOUNDS = (2.0**-400, 2.0**400)
"""Range of norm bounds, whose squares are to stay within floating point."""

UNWEIGHTED = 2.0**60
"""Norm bound with which no row is weighted down."""


def default_norm_bound(p: int) -> float:
    """Return the bound on the norm of a row of ``p`` columns on a unit scale, the intercept included.

    ``sqrt(p / 2)``, but at least ``sqrt(2)``, or 1 for a single column: rows of independent columns with unit
    variance have squared norm about ``p``. Rows beyond the bound are weighted down, not cut, so the estimate
    stays consistent (Avella-Medina, Bradshaw and Loh 2023 use 2 for p = 4).
    """
    return float(np.sqrt(max(0.5 * p, min(p, 2))))


def influence_weights(
    x: Matrix, y: FloatArray, *, norm_bound: float
) -> tuple[FloatArray, Matrix, FloatArray]:
    """Return ``(weight, x, y)`` with ``weight = min(1, norm_bound**2 / norm(x)**2)`` (Mallows).

    Parameters
    ----------
    x : array of shape (n, p), or CodedMatrix
    y : array of shape (n,)
    norm_bound : float
        Within `NORM_BOUNDS`.

    Returns
    -------
    weight : array of shape (n,)
        0 for a row with a non-finite entry (its entries are then set to 0), and for one so far out that
        its weight is below 2**-1022.
    x, y : as the inputs
        Arrays are row-major float64; the inputs themselves where nothing had to change. What a coded matrix
        stores is what is bounded.

    Notes
    -----
    *Guarantee.* In exact arithmetic ``weight <= 1`` and ``weight * norm(x)**2 <= norm_bound**2``, so also
    ``weight * norm(x) <= norm_bound``.
    """
    in_range(*NORM_BOUNDS, norm_bound=norm_bound)
    if not isinstance(x, CodedMatrix):
        x = np.ascontiguousarray(x, dtype=np.float64)
    y = np.ascontiguousarray(y, dtype=np.float64)
    weight, usable = _weights(x, y, norm_bound**2 * SHRINK)
    if not usable.all():
        x, y = _blanked(x, usable), np.where(usable, y, 0.0)
    return weight, x, y


def schweppe_weights(x: Matrix, y: FloatArray, *, norm_bound: float) -> tuple[FloatArray, Matrix, FloatArray]:
    """Return ``(weight, v x, v y)`` with ``v = min(1, norm_bound / norm(x))`` (Schweppe).

    A loss of the residual, taken of these rows, is ``loss(v (y - x'theta))``: a row far out in the
    predictors has its residual measured on a coarser scale, rather than its loss multiplied.

    Parameters, errors and guarantee are those of `influence_weights`, which has the last word on the scaled
    rows; their weights are 1, but for rows that are not usable.
    """
    usable, x, y = influence_weights(x, y, norm_bound=norm_bound)
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(_squared_norms(x))
        factor = np.where(length > norm_bound, norm_bound * SHRINK / np.maximum(length, norm_bound), 1.0)
        scaled, response = _scaled(x, factor), y * factor
    weight, scaled, response = influence_weights(scaled, response, norm_bound=norm_bound)
    weight[usable == 0.0] = 0.0
    return weight, scaled, response


def _weights(x: Matrix, y: FloatArray, limit: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return weights that bound squared norms, 0 for rows that are not finite, and which rows are."""
    weight, usable = np.empty(len(x)), np.empty(len(x), dtype=np.bool_)

    def work(rows: slice) -> None:
        fill_squared_norms(x[rows], weight[rows])
        norm_loops.bound_squares(weight[rows], y[rows], limit, SMALLEST_NORMAL, usable[rows])

    each_stretch(work, len(x))
    return weight, usable


def _squared_norms(x: Matrix) -> FloatArray:
    """Return the squared norms of many rows, shape (n,)."""
    found = np.empty(len(x))

    def work(rows: slice) -> None:
        fill_squared_norms(x[rows], found[rows])

    each_stretch(work, len(x))
    return found


def _blanked(x: Matrix, usable: NDArray[np.bool_]) -> Matrix:
    return x.blanked(usable) if isinstance(x, CodedMatrix) else np.where(usable[:, None], x, 0.0)


def _scaled(x: Matrix, factor: FloatArray) -> Matrix:
    return x.scaled(factor) if isinstance(x, CodedMatrix) else x * factor[:, None]


Weighting = Callable[..., tuple[FloatArray, Any, FloatArray]]
"""``weighting(x, y, norm_bound=c)`` bounds rows, and returns them as the kind of matrix that they were:
`influence_weights` or `schweppe_weights`."""
