"""Compiled loop over rows written out: their norms as they are, and shifted and scaled column by column."""

from typing import Any

from numba import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def squares(x: Any, scale: Any, shift: Any, plain: Any, moved: Any) -> None:
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
