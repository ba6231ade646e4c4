"""Compiled loops over rows written out: their squared norms, as they are and moved column by column."""

from typing import Any

from numba import float64, njit, void

_ROWS, _VECTOR = float64[:, ::1], float64[::1]

_OPTIONS: Any = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"reassoc", "contract"}}


@njit(void(_ROWS, _VECTOR), **_OPTIONS)
def squares(x: Any, out: Any) -> None:
    """Fill ``out`` (m,) with the squared norms of the rows ``x`` (m, p)."""
    for i in range(x.shape[0]):
        row, square = x[i], 0.0
        for j in range(x.shape[1]):
            square += row[j] * row[j]
        out[i] = square


@njit(void(_ROWS, _VECTOR, _VECTOR, _VECTOR, _VECTOR), **_OPTIONS)
def moved_squares(x: Any, scale: Any, shift: Any, plain: Any, moved: Any) -> None:
    """Fill ``plain`` (m,) with the squared norms of rows ``x`` (m, p), and ``moved`` (m,) with moved ones'.

    These are ``scale * x + x[:, :1] * shift``.
    """
    for i in range(x.shape[0]):
        row, first = x[i], x[i, 0]
        square = other = 0.0
        for j in range(x.shape[1]):
            turned = scale[j] * row[j] + first * shift[j]
            square += row[j] * row[j]
            other += turned * turned
        plain[i], moved[i] = square, other
