"""One pass over a block: sums of gradients, Hessians and score products, clamped row by row.

Every kernel takes ``(block, out)`` and writes the sum of each chunk of ``CHUNK_ROWS`` rows to a row of
``out``; see `privfit.data.blocks`. A gradient is one fused loop (dot, slope, axpy), so the table is read
once and nothing of the length of the table is allocated. Matrices are formed by `products`, a chunk at a
time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import float64, int64, njit, void
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.data.blocks import Block, BlockKernel, CodedBlock, CodedKernel, RowTerms
from privfit.data.coded import CodedMatrix, Matrix, by_code, numbers_of
from privfit.data.lanes import ROWS, new_rows, padded
from privfit.data.predictors import places, predict_rows, rows_together
from privfit.data.reduction import CHUNK_ROWS, FEW_CHUNKS, GROUP_ROWS, chunk_rows, slab_rows
from privfit.data.row_types import MATRIX, VECTOR, for_numbers
from privfit.losses.base import AbstractLoss
from privfit.losses.pointers import address, called
from privfit.problem import coded_kernels
from privfit.problem.coded_moments import Factors, coded_products, moments
from privfit.problem.groups import add_rows, close_part, ends_group, new_part
from privfit.problem.products import add_products, scaled_rows
from privfit.problem.slopes import CURVATURE_CODES, SLOPE_CODES, fill_curvatures, fill_slopes

_TOGETHER = 4
"""Slabs whose rows are computed together: threads would wait for each other between shorter parts."""

_FACTORS = void(*[VECTOR] * 4, *[int64] * 3, *[VECTOR] * 4)


@njit(inline="always")
def _clamp(value: float, low: float, high: float) -> float:
    """Clamp to [low, high], an interval that holds 0; NaN becomes 0."""
    kept = min(max(value, low), high)
    return kept if kept == kept else 0.0  # noqa: PLR0124


@for_numbers(int64, VECTOR, VECTOR, VECTOR, VECTOR, int64, int64, VECTOR, MATRIX)
def _add_gradients(
    x: Any,
    constant: int,
    y: Any,
    weight: Any,
    theta: Any,
    loss: Any,
    code: int,
    slope: Any,
    caps: Any,
    out: Any,
) -> None:
    """Add the rows' ``w * slope * x`` to ``out``, a row a chunk, a group at a time; ``loss`` is (s, c, k).

    ``caps`` has a bound on the slope for every row, or one for all of them.
    """
    n, p = x.shape
    s, c, k = loss[0], loss[1], loss[2]
    each = 1 if caps.size > 1 else 0
    together = rows_together(p)
    part, steps, spare = new_part(p), np.empty(together), new_rows(x, ROWS)
    at, start, factors = places(x, steps, part), theta[0] if constant else 0.0, padded(theta[constant:])
    line = factors.ctypes.data
    for first in range(0, n, together):
        rows = min(together, n - first)
        predict_rows(x, first, rows, start, factors, steps, at, line, spare)
        fill_slopes(code, slope, y[first : first + rows], steps, s, c, k)
        some = weight[first : first + rows]
        for i in range(rows):
            cap = caps[each * (first + i)]
            step = min(max(steps[i], -cap), cap)
            steps[i] = step * some[i] if step == step else 0.0  # noqa: PLR0124 -- NaN
        add_rows(x, first, rows, steps, part, at)
        if ends_group(first + rows, n):
            close_part(part, constant, out, first // CHUNK_ROWS)


@lazily_compiled(
    void(MATRIX, VECTOR, VECTOR, VECTOR, VECTOR, int64, float64, float64, MATRIX),
    nogil=True,
    fastmath={"reassoc", "contract"},
)
def _add_scale_slopes(
    x: Any,
    y: Any,
    weight: Any,
    theta: Any,
    loss: Any,
    scale_slope: Any,
    low: float,
    high: float,
    out: Any,
) -> None:
    """Add the rows' ``w * scale_slope`` to the last column of ``out``; ``loss`` is (s, c, k)."""
    n, p = x.shape
    s, c, k = loss[0], loss[1], loss[2]
    for group in range((n + GROUP_ROWS - 1) // GROUP_ROWS):
        side = 0.0
        for i in range(group * GROUP_ROWS, min((group + 1) * GROUP_ROWS, n)):
            row = x[i]
            eta = 0.0
            for j in range(p):
                eta += row[j] * theta[j]
            side += weight[i] * _clamp(called(scale_slope, y[i], eta, s, c, k), low, high)
        out[group * GROUP_ROWS // CHUNK_ROWS, p] += side


@lazily_compiled(_FACTORS, nogil=True, error_model="numpy")
def _hessian_factors(
    y: Any,
    eta: Any,
    weight: Any,
    loss: Any,
    code: int,
    curvature: Any,
    direction: Any,
    bounds: Any,
    most: Any,
    root: Any,
    side: Any,
) -> None:
    """Fill ``root = sqrt(w * curvature)`` and ``side = root * scale_direction``, clamped.

    The curvature is to ``most``, of shape (1,), the direction to ``bounds``. No scale: ``side`` is empty.
    """
    s, c, k = loss[0], loss[1], loss[2]
    fill_curvatures(code, curvature, y, eta, root, s, c, k)
    for i in range(y.size):
        root[i] = np.sqrt(weight[i] * _clamp(root[i], 0.0, most[0]))
    for i in range(side.size):
        side[i] = root[i] * _clamp(called(direction, y[i], eta[i], s, c, k), bounds[0], bounds[1])


@lazily_compiled(_FACTORS, nogil=True, error_model="numpy")
def _score_factors(
    y: Any,
    eta: Any,
    weight: Any,
    loss: Any,
    code: int,
    slope: Any,
    scale_slope: Any,
    bounds: Any,
    caps: Any,
    root: Any,
    side: Any,
) -> None:
    """Fill ``root = w * slope`` and ``side = w * scale_slope``, clamped to ``caps`` and ``bounds``.

    ``caps`` are as in `_add_gradients`. ``side`` is empty without a scale.
    """
    s, c, k = loss[0], loss[1], loss[2]
    each = 1 if caps.size > 1 else 0
    for i in range(y.size):  # array to array would take seconds more to compile
        root[i] = eta[i]
    fill_slopes(code, slope, y, root, s, c, k)
    for i in range(y.size):
        cap = caps[each * i]
        root[i] = weight[i] * _clamp(root[i], -cap, cap)
    for i in range(side.size):
        side[i] = weight[i] * _clamp(called(scale_slope, y[i], eta[i], s, c, k), bounds[0], bounds[1])


def gradient_kernel(loss: AbstractLoss, theta: FloatArray, s: float) -> BlockKernel:
    """Sum of the rows' gradients at ``theta`` (p,) and scale ``s``; size p, or p + 1 with a scale.

    A loss with a scale reads the table a second time for it.
    """
    state = np.array([s, *loss.parameters])
    constants, functions = loss.constants, loss.functions
    theta, code = np.ascontiguousarray(theta), SLOPE_CODES.get(functions.slope, 0)
    slope, scale_slope = address(functions.slope), address(functions.scale_slope)

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        if block.offset is not None:
            _add_factors(block, _row_factors(loss, theta, s, _score_functions(loss)), out)
            return
        x, y, weight, caps = block.x, block.y, block.weight, block.caps_within(constants.slope)
        if by_code(x):
            coded_kernels.add_gradients(x, y, weight, theta, state, code, slope, caps, out)
        else:
            _add_gradients(*numbers_of(x), y, weight, theta, state, code, slope, caps, out)

    def with_scale(block: Block, out: FloatArray) -> None:
        kernel(block, out)
        low, high = constants.scale_slope
        _add_scale_slopes(block.x, block.y, block.weight, theta, state, scale_slope, low, high, out)

    return with_scale if loss.has_scale else CodedKernel(kernel)


def _add_factors(block: Block | CodedBlock, factors_of: "RowFactors", out: FloatArray) -> None:
    """Add the rows' ``root * x`` to ``out``, a row a chunk: gradients, from two looks at each chunk."""
    for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
        part = block.part(rows)
        root, _ = factors_of(part)[0]
        coded_kernels.add_steps(part.x, root, out[chunk : chunk + 1])


def hessian_kernel(
    loss: AbstractLoss, theta: FloatArray, s: float, basis: FloatArray | None, most: float
) -> BlockKernel:
    """Sum of ``s`` times the rows' Hessians at ``(theta, s)`` in the basis, flattened (q, q).

    Curvatures are cut to ``most``.
    """
    return _products_kernel(_row_factors(loss, theta, s, _curvature_functions(loss, most)), basis)


def meat_kernel(loss: AbstractLoss, theta: FloatArray, s: float, basis: FloatArray | None) -> BlockKernel:
    """Sum of the outer products of the rows' gradients at ``(theta, s)`` in the basis, flattened (q, q)."""
    return _products_kernel(_row_factors(loss, theta, s, _score_functions(loss)), basis)


def hessian_and_meat_kernel(
    loss: AbstractLoss, theta: FloatArray, s: float, basis: FloatArray | None, most: float
) -> BlockKernel:
    """Sum of `hessian_kernel` and, after it, of `meat_kernel`, from one look at the rows."""
    both = _curvature_functions(loss, most), _score_functions(loss)
    return _products_kernel(_row_factors(loss, theta, s, *both), basis)


def score_terms(loss: AbstractLoss, theta: FloatArray, s: float, basis: FloatArray | None) -> RowTerms:
    """Gradients of the rows at ``(theta, s)`` in the basis, (n, q)."""
    factors_of = _row_factors(loss, theta, s, _score_functions(loss))
    return lambda block: scaled_rows(*_Room().turned(block.x, basis), *factors_of(block)[0])


def outer_kernel(terms: RowTerms) -> BlockKernel:
    """Sum of ``a a'`` over the rows' terms ``a`` (q,), flattened (q, q)."""

    def kernel(block: Block, out: FloatArray) -> None:
        for totals, rows in _parts(block, out, block.x.shape[1]):
            some = np.ascontiguousarray(terms(block.part(rows)), dtype=np.float64)
            add_products(some, 0, np.ones(len(some)), None, totals)

    return kernel


def second_moment_kernel(basis: FloatArray | None) -> BlockKernel:
    """Sum of ``w * z z'`` over the rows ``z = P'x`` in the basis, flattened (p, p)."""

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        room = _Room()
        for totals, rows in _parts(block, out, _width(block, basis)):
            x, weight = block.x[rows], block.weight[rows]
            if basis is None and by_code(x):
                totals[0] += moments(x, weight).ravel()
            else:
                add_products(*room.turned(x, basis), np.sqrt(weight), None, totals)

    return CodedKernel(kernel)


def _width(block: Block | CodedBlock, basis: FloatArray | None) -> int:
    """Return how many numbers are computed from a row and stored: none of one that is not turned."""
    return 0 if basis is None else block.x.shape[1]


def _parts(block: Block | CodedBlock, out: FloatArray, width: int) -> Iterator[tuple[FloatArray, slice]]:
    """Return the rows of ``out`` that each part of the rows is added to, with the part.

    It has a few slabs of a chunk or, where nothing is stored of a row of numbers, a few chunks.
    """
    together = FEW_CHUNKS if width == 0 and not by_code(block.x) else 1
    for first in range(0, out.shape[0], together):
        totals, stop = out[first : first + together], min((first + together) * CHUNK_ROWS, block.y.size)
        length = _TOGETHER * slab_rows(width) if together == 1 else together * CHUNK_ROWS
        for start in range(first * CHUNK_ROWS, stop, length):
            yield totals, slice(start, min(start + length, stop))


class _Room:
    """Where the rows of one part after the other are turned: fresh memory is slow to touch."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, FloatArray] = {}

    def turned(self, x: Matrix, basis: FloatArray | None) -> tuple[NDArray[Any], int]:
        """Return `numbers_of` the rows ``P'x``, until the next are asked for; x itself without a basis."""
        if basis is None:
            return numbers_of(x)
        with np.errstate(over="ignore", invalid="ignore"):
            if by_code(x):
                return x @ basis, 0
            if isinstance(x, CodedMatrix):
                dense = self._rows("dense", x.shape)
                x.write_out(dense)
                x = dense
            return np.matmul(x, basis, out=self._rows("turned", (len(x), basis.shape[1]))), 0

    def _rows(self, name: str, shape: tuple[int, int]) -> FloatArray:
        kept = self._kept.get(name)
        if kept is None or len(kept) < shape[0]:
            kept = self._kept[name] = np.empty(shape)
        return kept[: shape[0]]


RowFactors = Callable[[Block | CodedBlock], list[Factors]]
"""``factors(block)`` returns the factors of the rows for one or two sums; no last without a scale."""


@dataclass(frozen=True, slots=True)
class _Filler:
    """A compiled function that fills the factors of ``a``, and what it needs; ``most`` bounds one."""

    fill: Any
    code: int
    main: int
    side: int
    bounds: FloatArray
    most: Callable[[Block | CodedBlock], FloatArray]


def _curvature_functions(loss: AbstractLoss, most: float) -> _Filler:
    functions, along, limit = loss.functions, loss.constants.scale_direction, np.array([most])
    return _Filler(
        _hessian_factors,
        CURVATURE_CODES.get(functions.curvature, 0),
        address(functions.curvature),
        address(functions.scale_direction),
        np.array([-along, along]),
        lambda _: limit,
    )


def _score_functions(loss: AbstractLoss) -> _Filler:
    functions, constants = loss.functions, loss.constants
    return _Filler(
        _score_factors,
        SLOPE_CODES.get(functions.slope, 0),
        address(functions.slope),
        address(functions.scale_slope),
        np.array(constants.scale_slope),
        lambda block: block.caps_within(constants.slope),
    )


def _row_factors(loss: AbstractLoss, theta: FloatArray, s: float, *each: _Filler) -> RowFactors:
    """Return what computes ``(root, last)`` of rows ``a = (root * x, last)``, clamped row by row."""
    state = np.array([s, *loss.parameters])

    def one(filler: _Filler, block: Block | CodedBlock, eta: FloatArray) -> Factors:
        y, weight = block.y, block.weight
        root, side = np.empty(y.size), np.empty(y.size if loss.has_scale else 0)
        addresses, bounds, most = (filler.main, filler.side), filler.bounds, filler.most(block)
        filler.fill(y, eta, weight, state, filler.code, *addresses, bounds, most, root, side)
        return root, side if loss.has_scale else None

    def factors_of(block: Block | CodedBlock) -> list[Factors]:
        eta = block.predictors(theta)
        return [one(filler, block, eta) for filler in each]

    return factors_of


def _products_kernel(factors_of: RowFactors, basis: FloatArray | None) -> BlockKernel:
    """Sum of ``a a'`` over the rows ``a = (root * P'x, last)``, flattened (q, q), for all factors in turn.

    Rows are turned before they are summed, so that the rounding of the sum is relative to the bound on a
    turned row.
    """

    def kernel(block: Block | CodedBlock, out: FloatArray) -> None:
        room = _Room()
        for totals, rows in _parts(block, out, _width(block, basis)):
            part = block.part(rows)
            factors = factors_of(part)
            if basis is None and by_code(part.x):
                totals[0] += coded_products(part.x, factors).ravel()
                continue
            x, constant = room.turned(part.x, basis)
            for sums, (root, last) in zip(np.split(totals, len(factors), axis=1), factors, strict=True):
                add_products(x, constant, root, last, sums)

    return CodedKernel(kernel)
