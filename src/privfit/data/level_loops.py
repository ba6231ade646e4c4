"""Compiled loops over cells that are looked up among few levels."""

from typing import Any

import numpy as np
from numba import float64, int32, types, void

from privfit._compiling import lazily_compiled

_CELLS = types.Array(float64, 1, "C", readonly=True)
"""The user's own, who may have protected them."""


@lazily_compiled(void(_CELLS, float64[::1], int32, int32[::1]), nogil=True)
def few_codes(numbers: Any, levels: Any, unknown: Any, out: Any) -> None:
    """Fill ``out`` (n,) with the place of each number among few levels, the first where levels are equal."""
    for i in range(numbers.size):
        number, code = numbers[i], unknown
        for k in range(levels.size - 1, -1, -1):
            code = np.int32(k) if number == levels[k] else code
        out[i] = code
