"""Exact, secret answers about the rows, for procedures that the oracle carries out."""

from collections.abc import Iterator

import numpy as np

from privfit._checks import FloatArray, IntArray
from privfit.data.blocks import Block, BlockKernel
from privfit.data.reduction import CHUNK_ROWS, chunk_rows, sum_chunks
from privfit.data.source import RowSource
from privfit.problem.objective import Problem
from privfit.problem.plan import ReleaseKind
from privfit.problem.query_kernels import query_kernel
from privfit.problem.totals import query_total


class Rows:
    """The rows of a problem, as a procedure sees them. Nothing here is private.

    Parameters
    ----------
    problem : Problem
    source : RowSource
    """

    __slots__ = ("_problem", "_source")

    def __init__(self, problem: Problem, source: RowSource) -> None:
        self._problem, self._source = problem, source

    def __repr__(self) -> str:
        return "Rows(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("private rows cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows: public under ``replace``, secret under ``add_remove``."""
        return self._source.n_rows

    @property
    def n_units(self) -> int:
        """Number of privacy units, public or secret like that of rows."""
        return self._source.n_units

    def mean(self, kind: ReleaseKind, at: FloatArray) -> FloatArray:
        """Return the exact mean of a query over the rows, without noise and without the ridge."""
        problem = self._problem
        mean = problem.mean(kind, query_total(problem, kind, at)(self._source))
        return np.where(np.isfinite(mean), mean, 0.0)

    def sum(self, kernel: BlockKernel, length: int) -> FloatArray:
        """Return the exact sum of a procedure's own kernel over the rows, shape (length,)."""
        total = self._source.sum(kernel, length)
        return np.where(np.isfinite(total), total, 0.0)

    def sum_over(self, indices: IntArray, kind: ReleaseKind, at: FloatArray) -> FloatArray:
        """Return the exact flat sum of a query over the rows with these numbers."""
        problem, chunks = self._problem, -(-indices.size // CHUNK_ROWS)
        kernel = query_kernel(problem, kind, at)

        def work(first: int, last: int, out: FloatArray) -> None:
            for k, rows in enumerate(chunk_rows(first, last)):
                kernel(self._source.take(indices[rows]), out[k : k + 1])

        return sum_chunks(work, chunks, problem.sum_length(kind))

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order, in blocks."""
        return self._source.blocks()

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        return self._source.take(indices)
