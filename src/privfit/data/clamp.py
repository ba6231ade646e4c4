"""Bound the influence of a row, in floating point as on paper."""

from collections.abc import Callable
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, in_range
from privfit.data.coded import CodedMatrix, Matrix, squared_norms

_SHRINK = 1.0 - 2.0**-40
"""Relative margin that covers the rounding of a norm of up to 2**11 terms and of the division."""

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


def default_norm_bound(p: int) -> float:
    """Return the bound on the norm of a row of ``p`` columns on a unit scale, the intercept included.

    ``sqrt(p / 2)``, but at least ``sqrt(2)``: rows of independent columns with unit variance have squared
    norm about ``p``. Rows beyond the bound are weighted down, not cut, so the estimate stays consistent
    (Avella-Medina, Bradshaw and Loh 2023 use 2 for p = 4).
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
        Between 2**-400 and 2**400, so that its square neither underflows nor overflows.

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
    in_range(2.0**-400, 2.0**400, norm_bound=norm_bound)
    if not isinstance(x, CodedMatrix):
        x = np.ascontiguousarray(x, dtype=np.float64)
    y = np.ascontiguousarray(y, dtype=np.float64)
    squared = squared_norms(x)
    usable = np.isfinite(squared) & np.isfinite(y)
    if not usable.all():
        x, y = _blanked(x, usable), np.where(usable, y, 0.0)
        squared[~usable] = 0.0
    limit = norm_bound**2 * _SHRINK
    weight = np.where(squared > limit, limit / np.maximum(squared, limit), 1.0)
    weight[~usable | (weight < SMALLEST_NORMAL)] = 0.0  # a subnormal quotient has too few bits
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
        length = np.sqrt(squared_norms(x))
        factor = np.where(length > norm_bound, norm_bound * _SHRINK / np.maximum(length, norm_bound), 1.0)
        scaled, response = _scaled(x, factor), y * factor
    weight, scaled, response = influence_weights(scaled, response, norm_bound=norm_bound)
    weight[usable == 0.0] = 0.0
    return weight, scaled, response


def _blanked(x: Matrix, usable: NDArray[np.bool_]) -> Matrix:
    return x.blanked(usable) if isinstance(x, CodedMatrix) else np.where(usable[:, None], x, 0.0)


def _scaled(x: Matrix, factor: FloatArray) -> Matrix:
    return x.scaled(factor) if isinstance(x, CodedMatrix) else x * factor[:, None]


Weighting = Callable[..., tuple[FloatArray, Any, FloatArray]]
"""``weighting(x, y, norm_bound=c)`` bounds rows, and returns them as the kind of matrix that they were:
`influence_weights` or `schweppe_weights`."""


@final
class BasisWeights:
    """``min(1, (norm_bound / norm(basis.T @ x))**2, (amplification / (norm(basis) norm(x)))**2)`` of rows.

    Parameters
    ----------
    basis : array of shape (p, p)
        Public matrix.
    norm_bound : float
        Bound on ``sqrt(weight) * norm(basis.T @ x)``.
    amplification : float
        Bound on ``sqrt(weight) * norm(x) * norm(basis)`` (spectral norm), for the rounding of sums.

    Notes
    -----
    *Guarantee.* Both bounds hold in exact arithmetic. Of rows written out, ``basis.T @ x`` is computed; what
    rounding can take from its norm is at most ``p * 2**-52 * norm(x) * norm(basis)`` (Frobenius norm; Higham
    2002, *Accuracy and Stability of Numerical Algorithms*, section 3.5) and is added back before the weight
    is set. Of rows by code with k entries, much fewer than p, ``x' M x`` with ``M = basis @ basis.T`` is
    summed from ``k (k + 1) / 2`` products. To first order, rounding takes ``p * 2**-53`` of the sizes of its
    terms from an entry of ``M``, and ``(k (k + 1) / 2 + 3) * 2**-53`` from the sum. These sizes are together
    at most ``norm(x)**2 * norm(basis)**2`` (Cauchy and Schwarz); twice what that makes is added back.
    """

    __slots__ = ("_amplification", "_basis", "_form", "_frobenius", "_norm_bound", "_spectral")

    def __init__(self, basis: FloatArray, *, norm_bound: float, amplification: float) -> None:
        self._basis, self._norm_bound, self._amplification = basis, norm_bound, amplification
        with np.errstate(over="ignore", invalid="ignore"):
            self._frobenius, self._spectral = float(np.linalg.norm(basis)), float(np.linalg.norm(basis, 2))
            self._form = basis @ basis.T

    def __call__(self, x: Matrix) -> FloatArray:
        """Return the weights of finite rows, shape (n,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.sqrt(squared_norms(x))
            if isinstance(x, CodedMatrix) and 4 * x.entries < x.shape[1]:
                size = self._by_code(x, length)
            else:
                size = self._written_out(x, length)
            excess = np.maximum(size / self._norm_bound, length * (self._spectral / self._amplification))
            squared = excess * excess
            weight = _SHRINK / np.maximum(squared, _SHRINK)
        return np.where(np.isfinite(squared) & (weight >= SMALLEST_NORMAL), weight, 0.0)

    def _written_out(self, x: Matrix, length: FloatArray) -> FloatArray:
        turned = x @ self._basis
        size = np.sqrt(np.einsum("ij,ij->i", turned, turned))
        return size + x.shape[1] * 2.0**-52 * self._frobenius * length

    def _by_code(self, x: CodedMatrix, length: FloatArray) -> FloatArray:
        terms = x.shape[1] + x.entries * (x.entries + 1) // 2 + 3
        room = terms * 2.0**-52 * self._frobenius**2 * (length * length)
        return np.sqrt(np.maximum(x.quadratic(self._form), 0.0) + room)
