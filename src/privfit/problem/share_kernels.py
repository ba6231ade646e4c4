"""Shares of rows by class: of the sizes of their gradients, norms, counts, residuals, labels, exposures."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import void

from privfit._checks import FloatArray, IntArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel, CodedBlock, CodedKernel
from privfit.data.predictors import predictors
from privfit.data.reduction import CHUNK_ROWS, chunk_rows
from privfit.data.row_types import MATRIX, PLACES, STRIDED
from privfit.losses.base import AbstractLoss
from privfit.problem.bounded_kernels import steps_of

SIZE_CLASSES = 18
"""Classes of sizes, each twice as wide as the one before."""

SIZE_ORIGIN = 10
"""The class of sizes just below 1."""

NORM_CLASSES = 40
"""Classes of norms."""

NORMS_A_DOUBLING = 4
"""Classes of norms from one norm to twice that norm."""

SIDE_CLASSES = 21
"""Classes of residuals on either side of 0."""

SIDES_A_DOUBLING = 2
"""Classes of residuals from one size to twice that size."""

CLASSES = {
    "sizes": SIZE_CLASSES,
    "norms": NORM_CLASSES,
    "counts": NORM_CLASSES,
    "residuals": 2 * SIDE_CLASSES,
    "exposures": NORM_CLASSES,
}
"""Numbers of classes of the kinds of shares, but labels, of which the response says how many there are."""

_ONE = 1 << 52
"""Where the digits of a double end."""

_ROOT_DIGITS = int(np.float64(math.sqrt(2.0)).view(np.int64)) & (_ONE - 1)
"""Digits of the smallest double above the root of 2."""


def sizes_kernel(loss: AbstractLoss, theta: FloatArray, s: float, norm_bound: float) -> BlockKernel:
    """Count rows by the size of their gradient in the basis; size `SIZE_CLASSES`.

    Sizes are ``abs(slope) / room``, relative to the bound on the slope. Class k of 1, 2, ... holds those
    from ``2**(k - SIZE_ORIGIN - 1)`` on and below ``2**(k - SIZE_ORIGIN)``, the first and the last all
    beyond. Rows without room are in none.
    """
    fill = steps_of(loss, s)
    most = loss.constants.slope

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            y, eta = part.y, part.predictors(theta)
            with np.errstate(all="ignore"):
                room = np.sqrt(part.influence) / norm_bound
                step, side = np.empty(y.size), np.empty(y.size)
                fill(y, eta, np.where(room > 0.0, np.inf, 0.0), step, side)
                size = np.abs(step) / (room * most)
            usable = room > 0.0
            order = np.where(size > 0.0, np.frexp(size)[1] + SIZE_ORIGIN, 0)
            _count(order[usable], part.share[usable], out[chunk])

    return CodedKernel(kernel)


def norms_kernel() -> BlockKernel:
    """Count rows by their norm in the basis; size `NORM_CLASSES`.

    Where a row is longer than the norm bound its influence weight says how much: ``w**-0.5`` times. Class k
    holds the rows with ``2**(k / d) <= w**-0.5 < 2**((k + 1) / d)``, d = `NORMS_A_DOUBLING`; the first has
    those within the bound too, the last all beyond. Rows of weight 0 are in none.
    """

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        _count_norms(block.influence.view(np.int64), block.share, out)

    return CodedKernel(kernel)


def counts_kernel(count_bound: float) -> BlockKernel:
    """Count rows by their response; size `NORM_CLASSES`.

    Classes are as those of norms, up to ``count_bound``: the last is open, and counts at the bound are in it;
    the first holds all that are smaller than the others'. Rows of weight 0 are in none.
    """
    return _rising_kernel(lambda block, rows: block.y[rows], count_bound)


def exposures_kernel(center: float, most: float) -> BlockKernel:
    """Count rows by the exposure whose logarithm is their offset and ``center``; size `NORM_CLASSES`.

    Classes are those of counts up to ``most``.
    """

    def exposures(block: Block | CodedBlock, rows: slice) -> FloatArray:
        offset = np.zeros(block.y[rows].size) if block.offset is None else block.offset[rows]
        with np.errstate(over="ignore"):
            return np.minimum(np.exp(offset + center), most)

    return _rising_kernel(exposures, most)


def _rising_kernel(values: Callable[[Block | CodedBlock, slice], FloatArray], most: float) -> BlockKernel:
    """Count rows by values of at least 0 in classes up to ``most``."""
    first = most * 2.0 ** (-(NORM_CLASSES - 1) / NORMS_A_DOUBLING)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            usable = block.influence[rows] > 0.0
            order = NORMS_A_DOUBLING * np.log2(np.maximum(values(block, rows)[usable] / first, 0.5))
            _count(np.ceil(order).astype(np.int64), block.share[rows][usable], out[chunk])

    return CodedKernel(kernel)


def labels_kernel() -> BlockKernel:
    """Count rows by their label, one of 0, 1, ..., up to the size. Rows of weight 0 are in none."""

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            usable = block.influence[rows] > 0.0
            label = np.rint(np.clip(block.y[rows][usable], 0.0, out.shape[1] - 1.0)).astype(np.int64)
            _count(label, block.share[rows][usable], out[chunk])

    return CodedKernel(kernel)


def largest_edge(response_range: tuple[float, float]) -> float:
    """Return the upper edge that the last class of residuals would have: the one before is half the range."""
    low, high = response_range
    return 0.5 * (high - low) * 2.0 ** (1.0 / SIDES_A_DOUBLING)


def residuals_kernel(theta: FloatArray, response_range: tuple[float, float]) -> BlockKernel:
    """Count rows by their residual at ``theta`` (p,), from the lowest up; size ``2 * SIDE_CLASSES``.

    On either side class k of 0, 1, ... holds sizes of up to ``reach * 2**((k + 1 - SIDE_CLASSES) / d)``, d =
    `SIDES_A_DOUBLING`, that are in none before; the last all beyond half the range, and ``reach`` is the next
    edge. Rows of weight 0 are in none.
    """
    reach = largest_edge(response_range)
    first = reach * 2.0 ** ((1 - SIDE_CLASSES) / SIDES_A_DOUBLING)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            usable = block.influence[rows] > 0.0
            with np.errstate(over="ignore", invalid="ignore"):
                residual = (block.y[rows] - predictors(block.x[rows], theta))[usable]
                size = np.minimum(np.abs(residual), reach)
            size = np.where(size >= first, size, first)
            order = np.ceil(SIDES_A_DOUBLING * np.log2(size / first)).astype(np.int64)
            place = np.where(residual < 0.0, SIDE_CLASSES - 1 - order, SIDE_CLASSES + order)
            _count(place, block.share[rows][usable], out[chunk])

    return CodedKernel(kernel)


@lazily_compiled(void(PLACES, STRIDED, MATRIX), nogil=True)
def _count_norms(bits: Any, share: Any, out: Any) -> None:
    """Add the shares of rows to the classes of ``-2 log2(w)``, a row a chunk; ``bits`` are of their weights.

    There are four to a doubling of ``w**-0.5``, `NORMS_A_DOUBLING`.
    A weight is ``2**e * m``, ``1 <= m < 2``, and in its bits e, from 1023 on, comes before the digits of m.
    """
    for i in range(bits.size):
        digits = bits[i] & (_ONE - 1)
        order = 2 * (1023 - (bits[i] >> 52)) - (digits > 0) - (digits >= _ROOT_DIGITS)
        if bits[i] > 0:
            out[i // CHUNK_ROWS, min(max(order, 0), out.shape[1] - 1)] += share[i]


def _count(order: IntArray, share: FloatArray, out: FloatArray) -> None:
    """Add the shares of rows to their classes; those beyond the first and the last are in these."""
    out += np.bincount(np.clip(order, 0, out.size - 1), share, minlength=out.size)
