"""Rows on a cluster: Dask DataFrames and arrays, summed over where their partitions lie.

Besides `privfit.data.dask_tasks` the only module that imports Dask.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast, final

import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask.delayed import Delayed

from privfit._checks import FloatArray
from privfit.data import partitions
from privfit.data.basis_norms import BasisBounds, BasisNorms, LastNorms
from privfit.data.blocks import Block, BlockKernel, RowTerms, stacked
from privfit.data.caps import SlopeBounds
from privfit.data.clamp import Weighting, influence_weights
from privfit.data.coded import Storage
from privfit.data.dask_tasks import Beside, computed, node, persisted, tasks_of, together
from privfit.data.declarations import Level
from privfit.data.encode import Encoder
from privfit.data.names import present
from privfit.data.partitions import Encoding, Partition
from privfit.data.reduction import tree_sum
from privfit.data.source import ArraySource, Coins, IntArray, chosen_rows
from privfit.data.stores import AbstractRowStore, AbstractStoredRows
from privfit.data.tables import default_names
from privfit.errors import InvalidArgument, LabelError, PlanViolation, SchemaError

_FAN_IN = 8
"""Sums that one task adds up, and the last that are added up here."""

_ROWS = 2**17
"""Rows up to which partitions of a sample are put together: a task takes longer to begin than to sum them."""

_BROUGHT = 2**22
"""Numbers up to which rows of a sample are brought here: to ask for a sum takes longer than to add it up."""

Collection: TypeAlias = Any
"""A Dask DataFrame, series or array: Dask has no types for them."""


@final
class DaskTable(AbstractRowStore):
    """A Dask DataFrame or array, and the response if it is another one.

    Parameters
    ----------
    data : dask.dataframe.DataFrame or dask.array.Array of shape (n, k)
    response : dask.dataframe.Series or dask.array.Array of shape (n,), optional
        With the partitions of ``data``.
    columns : sequence of str, optional
        Names of the columns of an array.
    """

    __slots__ = ("_columns", "_data", "_response")

    def __init__(
        self, data: Collection, response: Collection = None, columns: Sequence[str] | None = None
    ) -> None:
        is_array: bool = isinstance(data, da.Array)
        if not is_array and not isinstance(data, dd.DataFrame):
            raise InvalidArgument(f"data is a Dask {type(data).__name__}; pass a Dask DataFrame or array")
        if is_array and data.ndim != 2:
            raise SchemaError("a Dask array of rows must be two-dimensional")
        if response is not None and not isinstance(response, da.Array | dd.Series):
            raise InvalidArgument("y must be a Dask series or array with the partitions of X")
        self._data: Collection = data
        if is_array:
            self._data = self._data.rechunk({1: -1})
        self._response = _aligned(self._data, response)
        self._columns = None if columns is None else tuple(columns)

    def __repr__(self) -> str:
        return "DaskTable(<private rows>)"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, those of an array ``x0``, ``x1``, ... unless they were given."""
        if not self.named:
            return self._columns or default_names(int(self._data.shape[1]))
        return tuple(self._data.columns)

    @property
    def named(self) -> bool:
        """Whether the columns have names of their own."""
        return not isinstance(self._data, da.Array)

    def labels(self) -> tuple[Level, Level]:
        """Return the standard pair that holds every label of the response.

        Raises
        ------
        LabelError
            If there is none.
        """
        kind = self._response.dtype.kind
        if kind == "b":
            return (False, True)
        if kind not in "iuf":
            raise LabelError("y has labels other than 0/1, -1/1 and true/false; declare them with classes=")
        tasks = tasks_of(partitions.pair_of_labels, "labels", [(piece,) for piece in _pieces(self._response)])
        return max(computed(*tasks), key=lambda pair: -pair[0])

    @property
    def n_rows(self) -> int | None:
        """Number of rows that an array is said to have; None for a frame, whose partitions may have any."""
        sizes = self._data.chunks[0] if isinstance(self._data, da.Array) else (math.nan,)
        return None if math.isnan(sum(sizes)) else int(sum(sizes))

    def rows(
        self,
        encoder: Encoder,
        *,
        norm_bound: float,
        weighting: Weighting = influence_weights,
        storage: Storage = "float64",
    ) -> "DaskRows":
        """Encode the partitions where they lie, and have them kept there; `DaskRows.source` bounds them.

        Raises
        ------
        SchemaError
            If a column is missing or of the wrong type.
        UnexpectedError
            If Dask cannot compute a partition.
        """
        names = encoder.needed if self._response is None else encoder.needed[:-1]
        data, labelled = self._data, isinstance(self._data, da.Array)
        if labelled:
            names = self._labels_of_columns(names)
        else:
            names = tuple(present(tuple(data.columns), names))
            data = data[list(names)]
        del norm_bound
        encoding = Encoding(encoder, names, labelled, storage)
        given = [_pieces(one) for one in (data, self._response) if one is not None]
        kept = persisted(
            tasks_of(partial(partitions.encode, encoding), "encode", list(zip(*given, strict=True)))
        )
        lengths = computed(*tasks_of(partitions.count, "count", [(rows,) for rows in kept]))
        filled = [k for k, length in enumerate(lengths) if length] or [0]
        pieces, sizes = [kept[k] for k in filled], [lengths[k] for k in filled]
        return DaskRows(pieces, sizes, weighting, len(encoder.design.columns))

    def _labels_of_columns(self, needed: tuple[str, ...]) -> tuple[str, ...]:
        """Return what the columns of an array are called: as they are needed, where the response is apart."""
        width = self._data.shape[1]
        names = self._columns or (needed if self._response is not None else default_names(width))
        if len(names) != width:
            raise SchemaError(f"columns must name all {width} columns of the array, got {len(names)}")
        present(names, needed)
        return names


def _aligned(data: Collection, response: Collection) -> Collection:
    """Return the response in the partitions of the data, as far as public lengths tell."""
    if response is None:
        return None
    if isinstance(data, da.Array) and isinstance(response, da.Array):
        chunks, given = data.chunks[0], response.chunks[0]
        if sum(chunks) == sum(given):  # not if a length is unknown, which is NaN
            response = cast(Collection, response).rechunk({0: chunks})
    if len(_pieces(data)) != len(_pieces(response)):
        raise SchemaError("y must have the partitions of X")
    return response


def _pieces(collection: Collection) -> list[Delayed]:
    """Return the partitions of a collection."""
    pieces = collection.to_delayed()
    return list(pieces.ravel()) if isinstance(pieces, np.ndarray) else list(pieces)


@final
class DaskRows(AbstractStoredRows):
    """Encoded rows on a cluster.

    Parameters
    ----------
    kept : list of Delayed
        What makes, or holds, `EncodedRows` each.
    lengths : list of int
        Their numbers of rows.
    weighting : Weighting
        What bounds them.
    width : int
        Numbers of a row.
    """

    __slots__ = ("_kept", "_lengths", "_weighting", "_width")

    def __init__(self, kept: list[Delayed], lengths: list[int], weighting: Weighting, width: int) -> None:
        self._kept, self._lengths, self._weighting, self._width = kept, lengths, weighting, width

    def __repr__(self) -> str:
        return "DaskRows(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("rows on a cluster are private and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self._lengths)

    def source(self, *, norm_bound: float, storage: Storage = "float64") -> "DaskSource":
        """Return the rows as a source, bounded as they are kept in this type."""
        bounded = partial(
            partitions.bounded, norm_bound=norm_bound, weighting=self._weighting, storage=storage
        )
        kept = persisted(tasks_of(bounded, "bound", [(rows,) for rows in self._kept]))
        return DaskSource(kept, self._lengths, norm_bound, self._width, together(self._kept, _FAN_IN))


@final
class DaskSource:
    """Sums over rows on a cluster: tasks for some partitions each, whose sums a tree of tasks adds up.

    Parameters
    ----------
    kept : list of Delayed
        What makes, or holds, a `Partition` each.
    lengths : list of int
        Their numbers of rows.
    norm_bound : float
        What bounds them.
    width : int
        Numbers of a row.
    groups : list of tuple of int, optional
        Numbers of partitions that a task sums together; by default each is alone.

    Notes
    -----
    *Guarantee.* A row is in each sum once, whichever workers are lost: Dask then encodes and sums their
    partitions anew. Noise is drawn by the oracle, once a release, for the finished sum. The order of
    additions depends on where partitions lie, and `summation_error` bounds the rounding of every order.
    """

    __slots__ = ("_groups", "_kept", "_last", "_norm_bound", "_starts", "_width")

    def __init__(
        self,
        kept: list[Delayed],
        lengths: list[int],
        norm_bound: float,
        width: int,
        groups: list[tuple[int, ...]] | None = None,
    ) -> None:
        self._kept, self._norm_bound, self._width = kept, norm_bound, width
        self._groups = [(k,) for k in range(len(kept))] if groups is None else groups
        self._last: LastNorms[list[Delayed]] = LastNorms()
        self._starts = np.cumsum([0, *lengths])

    def __repr__(self) -> str:
        return "DaskSource(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("a row source holds private rows and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._starts[-1])

    @property
    def unit(self) -> None:
        """Every row is a privacy unit: the rows of one are not gathered from the partitions."""

    @property
    def n_units(self) -> int:
        """Number of rows."""
        return self.n_rows

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._norm_bound

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum of the kernel over all rows, shape (size,)."""
        beside = Beside(size, {"kernel": kernel, "size": size})
        some = [tuple(self._kept[k] for k in group) for group in self._groups]
        sums = tasks_of(partitions.summed, "sum", some, beside)
        while len(sums) > _FAN_IN:
            groups = [tuple(sums[k : k + _FAN_IN]) for k in range(0, len(sums), _FAN_IN)]
            sums = tasks_of(partitions.combined, "add", groups)
        return np.array(tree_sum(computed(*sums)))

    def unit_sums(self, terms: RowTerms, size: int) -> FloatArray:
        """Refuse: no row is known to belong to another one's unit."""
        del terms, size
        raise PlanViolation("rows on a cluster are not gathered by privacy unit")

    def blocks(self) -> Iterator[Block]:
        """Return the rows in their order, a partition at a time brought here."""
        for rows in self._kept:
            yield from computed(rows)[0].source.blocks()

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers."""
        which = np.searchsorted(self._starts, indices, side="right") - 1
        order = np.argsort(which, kind="stable")
        places, first = np.unique(which[order], return_index=True)
        local = np.split((indices - self._starts[which])[order], first[1:])
        wanted = [(self._kept[k], node(part)) for k, part in zip(places, local, strict=True)]
        taken = computed(*tasks_of(partitions.taken, "take", wanted))
        return stacked(taken).part(np.argsort(order))

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "DaskSource":
        """Return the same rows with weights that bound ``norm(basis.T @ x)``; see `BasisBounds`.

        Workers keep the norms in the last basis, for its multiples.
        """
        found, factor = self._last.within(basis, self._measured)
        bounds = BasisBounds(norm_bound, amplification, slopes)
        beside = Beside(basis.size, {"factor": factor, "bounds": bounds})
        wanted = list(zip(self._kept, found, strict=True))
        kept = persisted(tasks_of(partitions.weighted, "weights", wanted, beside))
        return DaskSource(kept, list(np.diff(self._starts)), self._norm_bound, self._width, self._groups)

    def sampled(self, coins: Coins, part: float) -> "DaskSource | ArraySource":
        """Return the rows for which a coin is true, and what is known of them; coins are thrown here.

        Workers keep them, in fewer partitions where they are expected to be short; a sample that is expected
        to be short as a whole is brought here.
        """
        chosen, lengths = chosen_rows(coins, self.n_rows), np.diff(self._starts)
        ends = np.searchsorted(chosen, self._starts)
        places = [
            node((chosen[start:stop] - first).astype(np.min_scalar_type(int(length))))
            for first, start, stop, length in zip(
                self._starts[:-1], ends[:-1], ends[1:], lengths, strict=True
            )
        ]
        expected = part * lengths  # what tasks there are must not depend on coins

        def picked(kept: list[Delayed]) -> list[Delayed]:
            return tasks_of(partitions.picked, "sample", list(zip(kept, places, strict=True)))

        if self._width * expected.sum() <= _BROUGHT:
            return _brought(picked(self._kept))

        def put_together(kept: list[Delayed]) -> list[Delayed]:
            return persisted(_put_together(_grouped(picked(kept), expected)))

        found = [sum(group) for group in _grouped(list(np.diff(ends)), expected)]
        kept = put_together(self._kept)
        groups = self._groups if len(kept) == len(self._kept) else None
        source = DaskSource(kept, found, self._norm_bound, self._width, groups)
        source._last = self._last.of(put_together)
        return source

    def _measured(self, norms: BasisNorms, old: list[Delayed] | None) -> list[Delayed]:
        """Return the norms of the rows of each partition, which the workers keep."""
        del old
        beside = Beside(norms.size, {"norms": norms})
        return persisted(tasks_of(partitions.measured, "norms", [(rows,) for rows in self._kept], beside))


_Item = TypeVar("_Item")


def _brought(tasks: list[Delayed]) -> ArraySource:
    """Return rows of partitions, one after the other, as a source in memory."""
    parts: tuple[Partition, ...] = computed(*tasks)
    return Partition.joined(parts).source


def _put_together(groups: list[tuple[Delayed, ...]]) -> list[Delayed]:
    """Return a task for each group of tasks, which joins what they return."""
    joins = iter(tasks_of(partitions.joined, "join", [group for group in groups if len(group) > 1]))
    return [group[0] if len(group) == 1 else next(joins) for group in groups]


def _grouped(items: list[_Item], lengths: FloatArray) -> list[tuple[_Item, ...]]:
    """Return items in their order, neighbours together that have few rows in all."""
    groups: list[tuple[_Item, ...]] = []
    total = 0.0
    for item, length in zip(items, lengths, strict=True):
        total += length
        if groups and total <= _ROWS:
            groups[-1] = (*groups[-1], item)
        else:
            groups.append((item,))
            total = length
    return groups
