"""Shares of rows by place: of every column, how many rows lie between given edges."""

from itertools import pairwise
from typing import Any

import numpy as np
from numba import int64, void

from privfit._checks import FloatArray, IntArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.row_types import MATRIX, PLACES, STRIDED, VECTOR

_TABLE = int64[:, ::1]

_LEAST_ORDER, _ORDERS = 1023 - 256, 512
"""Exponent bits of the smallest squared distance that is told apart, and their number."""


@lazily_compiled(void(MATRIX, VECTOR, VECTOR, STRIDED, VECTOR, PLACES, VECTOR, _TABLE, MATRIX), nogil=True)
def _count_places(  # noqa: PLR0917 -- compiled
    x: Any, y: Any, influence: Any, share: Any, edges: Any, starts: Any, middle: Any, near: Any, out: Any
) -> None:
    """Add the shares of rows to the place of each of their numbers, a row a chunk.

    Column k has the edges from ``starts[k]`` on, and so its places begin at ``starts[k] + k``. Each is looked
    for from one nearby.
    """
    last = x.shape[1] - 1
    for i in range(x.shape[0]):
        if not influence[i] > 0.0:
            continue
        for k in range(starts.size - 1):
            value = x[i, 1 + k] if k < last else y[i]
            low, high = starts[k], starts[k + 1]
            away = value - middle[k]
            order = (np.float64(away * away).view(np.int64) >> 52) - _LEAST_ORDER
            order = min(max(order, 0), _ORDERS - 1)
            place = near[k, order if away >= 0.0 else order + _ORDERS]
            while place < high and edges[place] <= value:
                place += 1
            while place > low and edges[place - 1] > value:
                place -= 1
            out[i // CHUNK_ROWS, place + k] += share[i]


def places_kernel(edges: FloatArray, starts: IntArray) -> BlockKernel:
    """Count rows by the place of each number among the edges of its column; size ``edges.size + d``.

    Numbers are those of the columns of ``x`` after the constant one and, where edges are given for one more,
    the response: d in all. A place holds its lower edge and not its upper one; the first and the last are
    open. Rows of weight 0 are in none.

    Parameters
    ----------
    edges : array of shape (m,)
        Those of each column in increasing order, one column after the other.
    starts : array of shape (d + 1,)
        Where those of a column start, and m.
    """
    edges, starts = np.ascontiguousarray(edges), np.ascontiguousarray(starts)
    first = starts[:-1].tolist()
    columns = [edges[low:high] for low, high in pairwise(starts.tolist())]
    middle = np.array([_middle(one) for one in columns])
    around = [low + _near(one, at) for low, one, at in zip(first, columns, middle.tolist(), strict=True)]
    near = np.array(around, dtype=np.int64).reshape(-1, 2 * _ORDERS)

    def kernel(block: Block, out: FloatArray) -> None:
        _count_places(block.x, block.y, block.influence, block.share, edges, starts, middle, near, out)

    return kernel


def _middle(edges: FloatArray) -> float:
    """Return the number around which edges lie; 0 without any."""
    with np.errstate(all="ignore"):
        return 0.5 * float(edges[(edges.size - 1) // 2] + edges[edges.size // 2]) if edges.size else 0.0


def _near(edges: FloatArray, middle: float) -> IntArray:
    """Return about the place of numbers above and below the middle, by the order of their distance."""
    away = np.exp2(0.5 * (np.arange(_ORDERS) + 0.5 + _LEAST_ORDER - 1023))
    return np.searchsorted(edges, np.concatenate([middle + away, middle - away]), side="right")
