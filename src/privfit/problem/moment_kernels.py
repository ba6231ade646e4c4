"""Sums of the products that least squares needs."""

import numpy as np

from privfit._checks import FloatArray
from privfit.data.blocks import Block, BlockKernel
from privfit.data.reduction import chunk_rows


def joint_moments_kernel(response_bound: float, factor: float) -> BlockKernel:
    """Sum ``w x x'``, flattened (p, p), and after it ``factor * w y x`` (p,); size p * p + p.

    Parameters
    ----------
    response_bound : float
        Responses are clamped to ``[-response_bound, response_bound]``.
    factor : float
    """

    def kernel(block: Block, out: FloatArray) -> None:
        p = block.x.shape[1]
        for chunk, rows in enumerate(chunk_rows(0, out.shape[0])):
            root = np.sqrt(block.weight[rows])
            scaled = root[:, None] * block.x[rows]
            response = factor * root * np.clip(block.y[rows], -response_bound, response_bound)
            out[chunk, : p * p] += (scaled.T @ scaled).ravel()
            out[chunk, p * p :] += scaled.T @ response

    return kernel
