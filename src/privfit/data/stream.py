"""Rows that are read once, in order, and need not fit in memory."""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from privfit._checks import FloatArray, IntArray, whole
from privfit.data.batches import BatchSizes, read_batches
from privfit.data.blocks import Block, BlockKernel, UnitKernel
from privfit.data.caps import SlopeBounds
from privfit.data.clamp import Weighting, influence_weights
from privfit.data.csv_text import TextForm
from privfit.data.encode import AbstractEncoder
from privfit.data.files import existing
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.source import Coins
from privfit.data.tables import Table, default_names, open_table
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import PlanViolation, PrivfitError, SchemaError, UnexpectedError

_SIZES = BatchSizes(rows=1 << 14, text_bytes=1 << 20)


class RowStream:
    """Rows in batches, for a fit that reads them once: a generator, or a file larger than memory.

    Parameters
    ----------
    batches : path or iterable
        A CSV, Parquet or Arrow file; or an iterable of batches: with a schema, tables as estimators take
        them, each with all columns, and without one, pairs ``(X, y)`` of arrays.
    n_rows : int
        Public number of rows, fixed in advance. Rows beyond it are not used; if there are fewer, those
        that are missing count as rows that contribute nothing.
    columns : int or sequence of str, optional
        Number or names of the columns of ``X``, needed without a schema. With a schema, the names of the
        columns of a CSV file without header.
    header : bool
        Whether the first line of a CSV file holds the names.
    sep : str
        Separator of a CSV file, one character.

    Notes
    -----
    *Guarantee.* That of a table of ``n_rows`` rows under ``replace``, where whatever is in place of a row is
    replaced, nothing included. It says nothing of a row that is left out so that all later ones move up.
    How often the iterable is asked depends on ``n_rows`` and the sizes of its batches alone.
    """

    __slots__ = ("_batches", "_n_rows", "_started", "_text")

    def __init__(
        self,
        batches: "str | os.PathLike[str] | Iterable[Any]",
        *,
        n_rows: int,
        columns: int | Sequence[str] | None = None,
        header: bool = True,
        sep: str = ",",
    ) -> None:
        self._batches, self._n_rows, self._started = batches, whole(n_rows=n_rows), False
        names = default_names(whole(columns=columns)) if isinstance(columns, int) else columns
        self._text = TextForm(names, header, sep)

    def __repr__(self) -> str:
        return f"RowStream(<private rows>, n_rows={self._n_rows})"

    def __reduce__(self) -> str:
        raise TypeError("a stream holds private rows and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Declared number of rows."""
        return self._n_rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of ``X``, for a stream without a schema.

        Raises
        ------
        SchemaError
            If they were not declared.
        """
        if self._text.columns is None:
            raise SchemaError(
                "columns must give the number or the names of the columns of a stream of arrays"
            )
        return tuple(self._text.columns)

    def source(
        self, encoder: AbstractEncoder, *, norm_bound: float, weighting: Weighting = influence_weights
    ) -> "StreamSource":
        """Return the encoded rows. The stream is then used up.

        Raises
        ------
        PlanViolation
            If it was used before.
        SchemaError
            If there is no such file.
        """
        if self._started:
            raise PlanViolation("a stream of rows can be read once only; make another one")
        if isinstance(self._batches, str | os.PathLike):
            existing(self._batches)
        self._started = True
        size = len(encoder.design.columns)
        batches = self._encoded(encoder)
        return StreamSource(batches, self._n_rows, size, norm_bound=norm_bound, weighting=weighting)

    def _encoded(self, encoder: AbstractEncoder) -> Iterator[tuple[FloatArray, FloatArray]]:
        if isinstance(self._batches, str | os.PathLike):
            for batch in read_batches(self._batches, encoder.needed, self._text, _SIZES):
                yield encoder.encode(Table.from_arrow(batch))
            return
        for batch in _given(self._batches):
            if isinstance(encoder, UnitScaleEncoder):
                yield encoder.encode_arrays(*_pair(batch))
            else:
                yield encoder.encode(open_table(batch, needed=encoder.needed))


class StreamSource:
    """Encoded rows of a stream: they can be read once, and not be summed over again.

    Parameters
    ----------
    batches : iterator of (x (m, p), y (m,))
    n_rows : int
        Declared number of rows.
    size : int
        Number p of encoded columns.
    norm_bound, weighting
        As for `privfit.data.source.ArraySource`.
    """

    __slots__ = ("_batches", "_n_rows", "_norm_bound", "_size", "_weighting")

    def __init__(
        self,
        batches: Iterator[tuple[FloatArray, FloatArray]],
        n_rows: int,
        size: int,
        *,
        norm_bound: float,
        weighting: Weighting,
    ) -> None:
        self._batches: Iterator[tuple[FloatArray, FloatArray]] | None = batches
        self._n_rows, self._size, self._norm_bound = n_rows, size, norm_bound
        self._weighting = weighting

    def __repr__(self) -> str:
        return "StreamSource(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("a row source holds private rows and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Declared number of rows."""
        return self._n_rows

    @property
    def unit(self) -> None:
        """Every row is a privacy unit: the rows of one cannot be gathered from a stream."""

    @property
    def n_units(self) -> int:
        """Declared number of rows."""
        return self._n_rows

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._norm_bound

    def blocks(self) -> Iterator[Block]:
        """Return exactly ``n_rows`` rows, those that are missing with weight 0. Only once.

        Raises
        ------
        PlanViolation
            At the second call.
        """
        batches, self._batches = self._batches, None
        if batches is None:
            raise PlanViolation("a stream of rows can be read once only")
        return self._blocks(batches)

    def _blocks(self, batches: Iterator[tuple[FloatArray, FloatArray]]) -> Iterator[Block]:
        left = self._n_rows
        while left > 0 and (batch := next(batches, None)) is not None:
            weight, x, y = self._weighting(batch[0][:left], batch[1][:left], norm_bound=self._norm_bound)
            left -= y.size
            yield Block(x, y, weight)
        while left > 0:
            m = min(left, CHUNK_ROWS)
            left -= m
            yield Block(np.zeros((m, self._size)), np.zeros(m), np.zeros(m))

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Refuse: a stream is read once, by the pass itself."""
        del kernel, size
        raise PlanViolation("a stream of rows cannot be summed over")

    def sum_units(self, kernel: UnitKernel, size: int) -> FloatArray:
        """Refuse: a stream is read once, by the pass itself."""
        del kernel, size
        raise PlanViolation("a stream of rows cannot be summed over")

    def take(self, indices: IntArray) -> Block:
        """Refuse: rows of a stream come in their order."""
        del indices
        raise PlanViolation("rows of a stream cannot be picked out")

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "StreamSource":
        """Refuse: a stream is read once."""
        del basis, norm_bound, amplification, slopes
        raise PlanViolation("a stream of rows cannot be weighted again")

    def exposed(self, shift: float, most: float) -> "StreamSource":
        """Refuse: rows of a stream have no exposures."""
        del shift, most
        raise PlanViolation("rows of a stream have no exposures to hold")

    def sampled(self, coins: Coins, part: float) -> "StreamSource":
        """Refuse: a stream is read once."""
        del coins, part
        raise PlanViolation("a stream of rows cannot be sampled")


def _given(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the batches of the caller, whose own errors may quote rows and are told by their type."""
    try:
        yield from batches
    except PrivfitError:
        raise
    except Exception as error:
        failure = UnexpectedError(
            f"the iterable of batches failed with {type(error).__name__}; its message is withheld because it "
            "may quote data"
        )
    else:
        return
    raise failure


def _pair(batch: object) -> tuple[Any, Any]:
    if not isinstance(batch, tuple) or len(batch) != 2:
        raise SchemaError("a stream without a schema must give pairs (X, y) of arrays")
    return batch
