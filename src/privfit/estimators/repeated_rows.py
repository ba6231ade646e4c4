"""A few rows over and over, as a table of many."""

from collections.abc import Iterator

from privfit._checks import FloatArray, IntArray
from privfit.data.blocks import Block, BlockKernel, UnitKernel
from privfit.data.caps import SlopeBounds
from privfit.data.source import Coins, RowSource


class RepeatedRows:
    """A few public rows, over and over, as a table of many: a `RowSource`.

    Sums are those over the few rows, scaled up, so that a mean is as quick for a billion rows as for a
    thousand.

    Parameters
    ----------
    rows : RowSource
    n_rows : int
        Number of rows that they stand for.
    """

    __slots__ = ("_rows", "n_rows")

    def __init__(self, rows: RowSource, n_rows: int) -> None:
        self._rows, self.n_rows = rows, n_rows

    @property
    def unit(self) -> str | None:
        """Name of the column by which the few rows were grouped, or None."""
        return self._rows.unit

    @property
    def n_units(self) -> int:
        """Number of privacy units that they stand for."""
        return self.n_rows

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._rows.norm_bound

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum over the few rows, scaled up."""
        return self._rows.sum(kernel, size) * (self.n_rows / self._rows.n_rows)

    def sum_units(self, kernel: UnitKernel, size: int) -> FloatArray:
        """Return the sum over the few units, scaled up."""
        return self._rows.sum_units(kernel, size) * (self.n_rows / self._rows.n_units)

    def blocks(self) -> Iterator[Block]:
        """Return the few rows again and again, until they are many."""
        left = self.n_rows
        while left > 0:
            for block in self._rows.blocks():
                part = block.part(slice(min(left, block.y.size)))
                yield part
                left -= part.y.size

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers, counted round and round."""
        return self._rows.take(indices % self._rows.n_rows)

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "RepeatedRows":
        """Return the same rows with other weights."""
        rows = self._rows.reweighted(basis, norm_bound=norm_bound, amplification=amplification, slopes=slopes)
        return RepeatedRows(rows, self.n_rows)

    def exposed(self, shift: float, most: float) -> "RepeatedRows":
        """Return the same rows with other exposures."""
        return RepeatedRows(self._rows.exposed(shift, most), self.n_rows)

    def sampled(self, coins: Coins, part: float) -> "RepeatedRows":
        """Return the same rows, standing for fewer."""
        del coins
        return RepeatedRows(self._rows, max(round(part * self.n_rows), 1))
