"""The kernels of losses that are functions of arrays: the same sums as `kernels`, by NumPy.

Rows are clamped to the loss's bounds here too, and what is not a number becomes 0, so that nothing about
privacy rests on the functions except that each row's number depends on that row alone.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from privfit._checks import FloatArray
from privfit.data.blocks import Block, BlockKernel, RowTerms
from privfit.data.reduction import GROUP_ROWS, chunk_rows
from privfit.losses.base import AbstractLoss, ScalarFunction
from privfit.losses.outside import guarded
from privfit.problem.value_kernels import Segment


def gradient_kernel(loss: AbstractLoss, theta: FloatArray, s: float) -> BlockKernel:
    """Sum of the rows' gradients at ``theta`` (p,); size p. Losses with a scale are always compiled."""
    slope = _Clamped(loss, loss.functions.slope, s, -loss.constants.slope, loss.constants.slope)

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            steps = part.weight * slope(part.y, part.predictors(theta))
            groups = np.add.reduceat(steps[:, None] * part.x, np.arange(0, steps.size, GROUP_ROWS), axis=0)
            out[chunk] += groups.sum(axis=0)

    return kernel


def hessian_kernel(
    loss: AbstractLoss, theta: FloatArray, s: float, basis: FloatArray | None, most: float
) -> BlockKernel:
    """Sum of the rows' Hessians at ``theta`` in the basis, flattened (p, p), curvatures cut to ``most``."""
    curvature = _Clamped(loss, loss.functions.curvature, s, 0.0, most)

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            root = np.sqrt(part.weight * curvature(part.y, part.predictors(theta)))
            a = _scaled(root, part.x, basis)
            out[chunk] += (a.T @ a).ravel()

    return kernel


def score_terms(loss: AbstractLoss, theta: FloatArray, s: float, basis: FloatArray | None) -> RowTerms:
    """Gradients of the rows at ``theta`` in the basis, (n, p)."""
    slope = _Clamped(loss, loss.functions.slope, s, -loss.constants.slope, loss.constants.slope)

    def terms(block: Block) -> FloatArray:
        steps = block.weight * slope(block.y, block.predictors(theta))
        return _scaled(steps, block.x, basis)

    return terms


def secant_kernel(loss: AbstractLoss, segment: Segment, s: float) -> BlockKernel:
    """Sum of ``w * (loss(second) - loss(first)) / length`` over the rows; size 1."""
    points = np.column_stack([segment.first, segment.second, segment.direction])

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            part = block.part(rows)
            first, second, along = part.along(points)
            limit = loss.constants.slope * np.abs(along)
            before, after = (_called(loss, loss.functions.value, s, part.y, eta) for eta in (first, second))
            with np.errstate(all="ignore"):
                secants = np.clip((after - before) / segment.length, -limit, limit)
            out[chunk, 0] += float(part.weight @ np.where(np.isnan(secants), 0.0, secants))

    return kernel


@dataclass(frozen=True, slots=True, eq=False)
class _Clamped:
    """A function of the loss, clamped to [low, high], an interval that holds 0; NaN becomes 0."""

    loss: AbstractLoss
    function: ScalarFunction
    s: float
    low: float
    high: float

    def __call__(self, y: FloatArray, eta: FloatArray) -> FloatArray:
        values = _called(self.loss, self.function, self.s, y, eta)
        with np.errstate(invalid="ignore"):
            kept = np.clip(values, self.low, self.high)
        return np.where(np.isnan(kept), 0.0, kept)


def _called(loss: AbstractLoss, function: Any, s: float, y: FloatArray, eta: FloatArray) -> FloatArray:
    return np.asarray(guarded(function)(y, eta, s, *loss.parameters))


def _scaled(factor: FloatArray, x: FloatArray, basis: FloatArray | None) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return factor[:, None] * (x if basis is None else x @ basis)
