"""The kernels of a response with K classes: the same sums as `kernels`, by BLAS on a chunk at a time.

What is summed is formed from the classes' probabilities, which are first held to numbers of at least 0 with
a sum of at most 1, row by row. For all of these, and not only for what a softmax gives, a row's gradient
``pi - e_y`` has norm at most ``sqrt(2)`` and its ``diag(pi) - pi pi'`` is positive semi-definite with
Frobenius norm at most 1/2, so that privacy does not rest on the formula for them; see `docs/losses.md`.
Parameters are the m = K - 1 rows of p coefficients, one after the other. What belongs to a class or a
predictor is a row of n numbers, so that sums over classes run along memory.
"""

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data.blocks import Block, BlockKernel, RowTerms
from privfit.data.clamp import SMALLEST_NORMAL
from privfit.data.predictors import predictors_at
from privfit.data.reduction import GROUP_ROWS, chunk_rows
from privfit.losses.multinomial import ROUNDING, Multinomial, class_reach
from privfit.problem.value_kernels import Segment


def gradient_kernel(loss: Multinomial, theta: FloatArray) -> BlockKernel:
    """Sum of the rows' gradients at ``theta`` (m * p,), of the same size."""
    points = theta.reshape(loss.n_outputs, -1)

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x = block.x[rows]
            out[chunk] += _grouped_product(_held_scores(loss, points, block.part(rows)), x).ravel()

    return kernel


def bounded_gradient_kernel(loss: Multinomial, theta: FloatArray, norm_bound: float) -> BlockKernel:
    """Sum of the rows' bounded gradients at ``theta`` (m * p,), of the same size.

    The term of a row is ``v x'`` with ``v = U'(pi - e_y) min(1, room / reach)`` and
    ``room = sqrt(w) / norm_bound``, so that its norm in the basis is at most 1. ``reach`` is the largest
    norm that ``pi - e_y`` can have at these predictors, so the weight does not depend on the class, as in
    `bounded_kernels.bounded_gradient_kernel`.
    """
    points = theta.reshape(loss.n_outputs, -1)

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x = block.x[rows]
            chances = _chances(loss, points, x)
            room = np.sqrt(block.influence[rows]) / (norm_bound * ROUNDING)
            held = np.minimum(1.0, room / class_reach(chances)) * block.share[rows]
            scores = _scores(loss, chances, block.y[rows], held)
            out[chunk] += _grouped_product(scores, x).ravel()

    return kernel


def marginals_kernel(loss: Multinomial, norm_bound: float) -> BlockKernel:
    """Sum of ``w * (x, x**2 / C, C e_y)`` over the rows; size ``2 p + K``.

    ``C`` is the norm bound. Since ``w * norm(x)**2 <= C**2`` and ``w <= 1``, each of the three parts has norm
    at most ``C``.
    """

    def kernel(block: Block, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x, weight = block.x[rows], block.weight[rows]
            ones, weighted = np.ones((x.shape[0], 1)), x * weight[:, None]
            classes = np.zeros((loss.n_classes, x.shape[0]))
            classes[_codes(loss, block.y[rows]), np.arange(x.shape[0])] = norm_bound * weight
            out[chunk, :p] += _grouped_product(ones.T, weighted)[0]
            out[chunk, p : 2 * p] += _grouped_product(ones.T, weighted * (x / norm_bound))[0]
            out[chunk, 2 * p :] += _grouped_product(classes, ones)[:, 0]

    return kernel


def hessian_kernel(loss: Multinomial, theta: FloatArray, basis: FloatArray | None) -> BlockKernel:
    """Sum of the rows' Hessians at ``theta`` in the basis, flattened (m p, m p)."""
    m = loss.n_outputs
    points, contrasts = theta.reshape(m, -1), loss.contrasts

    def kernel(block: Block, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x, weight = block.x[rows], block.weight[rows]
            chances = _chances(loss, points, x)
            turned, means = _turned(x, basis), contrasts.T @ chances
            total = out[chunk].reshape(m, p, m, p)
            for a in range(m):
                for b in range(a, m):
                    curvature = (contrasts[:, a] * contrasts[:, b]) @ chances - means[a] * means[b]
                    product = (turned * (weight * curvature)[:, None]).T @ turned
                    product = 0.5 * (product + product.T)
                    total[a, :, b] += product
                    if b > a:
                        total[b, :, a] += product

    return kernel


def score_terms(loss: Multinomial, theta: FloatArray, basis: FloatArray | None) -> RowTerms:
    """Gradients of the rows at ``theta`` in the basis, (n, m p)."""
    points = theta.reshape(loss.n_outputs, -1)

    def terms(block: Block) -> FloatArray:
        scores = _held_scores(loss, points, block)
        gradients = scores.T[:, :, None] * _turned(block.x, basis)[:, None, :]
        return gradients.reshape(block.y.size, -1)

    return terms


def secant_kernel(loss: Multinomial, segment: Segment) -> BlockKernel:
    """Sum of ``w * (loss(second) - loss(first)) / length`` over the rows; size 1."""
    m = loss.n_outputs
    first, second, along = (
        part.reshape(m, -1) for part in (segment.first, segment.second, segment.direction)
    )

    def kernel(block: Block, out: FloatArray) -> None:
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            x, codes = block.x[rows], _codes(loss, block.y[rows])
            limit = loss.constants.slope * np.linalg.norm(predictors_at(x, along), axis=0)
            with np.errstate(all="ignore"):
                before, after = (loss.values(codes, predictors_at(x, point)) for point in (first, second))
                secants = np.clip((after - before) / segment.length, -limit, limit)
            out[chunk, 0] += float(block.weight[rows] @ np.where(np.isnan(secants), 0.0, secants))

    return kernel


def _held_scores(loss: Multinomial, points: FloatArray, block: Block) -> FloatArray:
    """Return the rows' ``w * U'(pi - e_y)`` at ``points`` (m, p), held to the caps of rows; shape (m, n)."""
    scores = _scores(loss, _chances(loss, points, block.x), block.y, block.weight)
    if block.caps is not None:
        longest = block.weight * block.caps / ROUNDING
        length = np.maximum(np.linalg.norm(scores, axis=0), SMALLEST_NORMAL)
        scores *= np.minimum(1.0, longest / length)
    return scores


def _scores(loss: Multinomial, chances: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the rows' ``w * U'(pi - e_y)``, shape (m, n), from ``pi`` (K, n)."""
    residuals = chances.copy()
    residuals[_codes(loss, y), np.arange(y.size)] -= 1.0
    residuals *= weight
    return loss.contrasts.T @ residuals


def _chances(loss: Multinomial, points: FloatArray, x: FloatArray) -> FloatArray:
    """Return the classes' probabilities, shape (K, n), held to at least 0 and a sum of at most 1."""
    with np.errstate(all="ignore"):
        chances = loss.chances(predictors_at(x, points))
        np.copyto(chances, 0.0, where=np.isnan(chances))
    np.clip(chances, 0.0, 1.0, out=chances)
    chances /= np.maximum(chances.sum(axis=0), 1.0)
    return chances


def _codes(loss: Multinomial, y: FloatArray) -> NDArray[np.int64]:
    return np.clip(y, 0.0, loss.n_classes - 1.0).astype(np.int64)


def _grouped_product(scores: FloatArray, x: FloatArray) -> FloatArray:
    """Return ``scores @ x``, groups of rows added up before their sums: less rounding; shape (m, p)."""
    m, n = scores.shape
    whole = n - n % GROUP_ROWS
    total = scores[:, whole:] @ x[whole:]
    if whole:
        groups = scores[:, :whole].reshape(m, -1, GROUP_ROWS).transpose(1, 0, 2)
        total += (np.ascontiguousarray(groups) @ x[:whole].reshape(-1, GROUP_ROWS, x.shape[1])).sum(axis=0)
    return total


def _turned(x: FloatArray, basis: FloatArray | None) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return x if basis is None else x @ basis
