"""Shares of rows by place: of every column, how many rows lie between given edges."""

from typing import Any

import numpy as np
from numba import float64, njit, types, void

from privfit._checks import FloatArray
from privfit.data.blocks import Block, BlockKernel
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.row_types import MATRIX, PLACES, VECTOR
from privfit.data.shares import IntArray

_READ = types.Array(float64, 1, "A", readonly=True)


@njit(void(MATRIX, VECTOR, VECTOR, _READ, VECTOR, PLACES, MATRIX), cache=True, nogil=True)
def _count_places(  # noqa: PLR0917 -- compiled
    x: Any, y: Any, influence: Any, share: Any, edges: Any, starts: Any, out: Any
) -> None:
    """Add the shares of rows to the place of each of their numbers, a row a chunk.

    Column k has the edges from ``starts[k]`` on, and so its places begin at ``starts[k] + k``.
    """
    last = x.shape[1] - 1
    for i in range(x.shape[0]):
        if not influence[i] > 0.0:
            continue
        for k in range(starts.size - 1):
            value = x[i, 1 + k] if k < last else y[i]
            low, high = starts[k], starts[k + 1]
            while low < high:
                middle = (low + high) // 2
                if edges[middle] <= value:
                    low = middle + 1
                else:
                    high = middle
            out[i // CHUNK_ROWS, low + k] += share[i]


def places_kernel(edges: FloatArray, starts: IntArray) -> BlockKernel:
    """Count rows by the place of each number among the edges of its column; size ``edges.size + d``.

    Numbers are those of the columns of ``x`` after the constant one, and the response last: d in all. A place
    holds its lower edge and not its upper one; the first and the last are open. Rows of weight 0 are in none.

    Parameters
    ----------
    edges : array of shape (m,)
        Those of each column in increasing order, one column after the other.
    starts : array of shape (d + 1,)
        Where those of a column start, and m.
    """
    edges, starts = np.ascontiguousarray(edges), np.ascontiguousarray(starts)

    def kernel(block: Block, out: FloatArray) -> None:
        _count_places(block.x, block.y, block.influence, block.share, edges, starts, out)

    return kernel
