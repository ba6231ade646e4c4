"""Tables on a cluster: Dask DataFrames and arrays, encoded where their partitions lie.

With `privfit.data.dask_source` and `privfit.data.dask_tasks` the only module that imports Dask.
"""

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, cast, final

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.delayed import Delayed

from privfit.data import partitions, shuffle
from privfit.data.clamp import Weighting, influence_weights
from privfit.data.coded import Storage
from privfit.data.dask_source import FAN_IN, DaskSource, Units
from privfit.data.dask_tasks import (
    Kept,
    computed,
    guarded,
    holders_of_pieces,
    holders_of_tasks,
    tasks_of,
    together,
)
from privfit.data.declarations import Level
from privfit.data.encode import AbstractEncoder
from privfit.data.names import present
from privfit.data.number_types import places_of_truths
from privfit.data.partitions import Encoding
from privfit.data.shares import ALIKE, ShareRule
from privfit.data.stores import AbstractRowStore, AbstractStoredRows
from privfit.data.tables import NOT_TEXT, are_numbers, default_names
from privfit.errors import InvalidArgument, SchemaError

_UNIT_PARTS = 64
"""Partitions at most whose units have all of their rows there; each takes a part of every other one."""

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
        Names of the columns of an array, or of a frame that has numbers in their place.
    """

    __slots__ = ("_columns", "_data", "_named", "_response")

    def __init__(
        self, data: Collection, response: Collection = None, columns: Sequence[str] | None = None
    ) -> None:
        is_array: bool = isinstance(data, da.Array)
        if not is_array and not isinstance(data, dd.DataFrame):
            raise InvalidArgument(f"data is a Dask {type(data).__name__}; pass a Dask DataFrame or array")
        if is_array and (data.ndim != 2 or math.isnan(data.shape[1])):
            raise SchemaError("a Dask array of rows must be two-dimensional, with a known number of columns")
        if response is not None and not isinstance(response, da.Array | dd.Series):
            raise InvalidArgument("y must be a Dask series or array with the partitions of X")
        self._data: Collection = data
        if is_array:
            self._data = self._data.rechunk({1: -1})
        self._named = not is_array and not are_numbers(self._data.columns)
        if self._named and not all(isinstance(name, str) for name in self._data.columns):
            raise SchemaError(NOT_TEXT)
        self._response = _aligned(self._data, response)
        self._columns = None if columns is None else tuple(columns)

    def __repr__(self) -> str:
        return "DaskTable(<private rows>)"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns; if they have none ``x0``, ``x1``, ... unless they were given."""
        if not self.named:
            return self._columns or default_names(int(self._data.shape[1]))
        return tuple(self._data.columns)

    @property
    def named(self) -> bool:
        """Whether the columns have names of their own."""
        return self._named

    @property
    def truths(self) -> tuple[str, ...]:
        """Names of the columns of a frame that by their type are true or false, where they have names."""
        if not self.named:
            return ()
        names, types = self.names, self._data.dtypes
        empty = pd.DataFrame({name: pd.Series(dtype=types[name]) for name in names})
        return tuple(names[place] for place in places_of_truths(empty))

    def labels(self) -> tuple[Level, Level]:
        """Return the standard pair that holds every label of the response.

        Raises
        ------
        LabelError
            If there is none.
        """
        if self._response.dtype.kind == "b":
            return (False, True)
        tasks = tasks_of(partitions.pair_of_labels, "labels", [(piece,) for piece in _pieces(self._response)])
        return min(computed(tasks))  # -1 and 1, if any needs these

    @property
    def n_rows(self) -> int | None:
        """Number of rows that an array is said to have; None for a frame, whose partitions may have any."""
        sizes = self._data.chunks[0] if isinstance(self._data, da.Array) else (math.nan,)
        return None if math.isnan(sum(sizes)) else int(sum(sizes))

    def rows(
        self,
        encoder: AbstractEncoder,
        *,
        norm_bound: float,
        weighting: Weighting = influence_weights,
        storage: Storage = "float64",
        shares: ShareRule = ALIKE,
    ) -> "DaskRows":
        """Encode the partitions where they lie, and have them kept there; `DaskRows.source` bounds them.

        Raises
        ------
        SchemaError
            If a column is missing or of the wrong type.
        UnexpectedError
            If Dask cannot compute a partition.
        """
        read = shares.beside(encoder.read)
        names = read if self._response is None else read[:-1]
        data = self._data
        if self._named:
            names = tuple(present(tuple(data.columns), names))
            data = data[list(names)]
        else:
            names = self._labels_of_columns(encoder.needed[:-1], names)
        del norm_bound
        encoding = Encoding(encoder, names, not self._named, self._response is not None, storage, shares)
        given = [_pieces(data)] if self._response is None else _pieces_of_both(data, self._response)
        groups = together(holders_of_pieces(self._data, len(given[0])), FAN_IN)
        pieces = [tuple(some[k] for some in given for k in group) for group in groups]
        encoded = tasks_of(partial(partitions.encode, encoding), "encode", pieces)
        if shares.unit is not None:
            encoded = _gathered(encoded)
            groups = [(k,) for k in range(len(encoded))]
        kept = Kept(encoded)
        found = kept.answers(tasks_of(partitions.counted, "count", [(rows,) for rows in kept.tasks]))
        counts = dict(zip(chain(*groups), chain(*found), strict=True))
        lengths, n_units = zip(*(counts[k] for k in range(len(counts))), strict=True)
        units = None if shares.unit is None else Units(shares.unit, sum(n_units))
        width = len(encoder.design.columns)
        return DaskRows(kept, groups, list(lengths), weighting=weighting, width=width, units=units)

    def _labels_of_columns(self, predictors: tuple[str, ...], needed: tuple[str, ...]) -> tuple[str, ...]:
        """Return what nameless columns are called: as the predictors, where the response is apart."""
        width = self._data.shape[1]
        is_array = isinstance(self._data, da.Array)
        own = default_names(width) if is_array else tuple(map(str, self._data.columns))
        names = self._columns or (predictors if self._response is not None else own)
        if len(names) != width:
            raise SchemaError(f"columns must name all {width} columns of the array, got {len(names)}")
        present(names, needed)
        return names


def _gathered(encoded: list[Delayed]) -> list[Delayed]:
    """Return tasks for partitions each of which has all rows of its privacy units."""
    count = min(len(encoded), _UNIT_PARTS)
    parted = tasks_of(partial(shuffle.parted, count=count), "part", [(rows,) for rows in encoded])
    wanted = [(parts, k) for k in range(count) for parts in parted]
    parts = tasks_of(shuffle.part_of, "take-part", wanted)
    together = [tuple(parts[k * len(parted) : (k + 1) * len(parted)]) for k in range(count)]
    return tasks_of(shuffle.gathered, "gather", together)


def _aligned(data: Collection, response: Collection) -> Collection:
    """Return the response in the partitions of the data, as far as public lengths tell."""
    if response is None:
        return None
    if isinstance(data, da.Array) and isinstance(response, da.Array):
        chunks, given = data.chunks[0], response.chunks[0]
        if sum(chunks) == sum(given):  # not if a length is unknown, which is NaN
            response = cast(Collection, response).rechunk({0: chunks})
    _pieces_of_both(data, response)
    return response


def _pieces_of_both(data: Collection, response: Collection) -> list[tuple[Delayed, ...]]:
    """Return the partitions of both, which read what they need; as they are where Dask puts some together.

    It does so with short files, by the columns that are read: differently for either.
    """
    given = (data, response)
    both = [_pieces(one) for one in given]
    if [len(pieces) for pieces in both] != list(guarded(lambda: tuple(one.npartitions for one in given))):
        both = [_pieces(one, optimised=False) for one in given]
    if len(both[0]) != len(both[1]):
        raise SchemaError("y must have the partitions of X")
    return both


def _pieces(collection: Collection, *, optimised: bool = True) -> tuple[Delayed, ...]:
    """Return the partitions of a collection. For some Dask looks at rows, to sort them."""

    def pieces() -> tuple[Delayed, ...]:
        found = collection.to_delayed(optimize_graph=optimised)
        return tuple(found.ravel() if isinstance(found, np.ndarray) else found)

    return guarded(pieces)


@final
class DaskRows(AbstractStoredRows):
    """Encoded rows on a cluster.

    Parameters
    ----------
    kept : Kept
        `EncodedRows` of the partitions of each group.
    groups : list of tuple of int
        Numbers of these partitions.
    lengths : list of int
        Numbers of rows of the partitions.
    weighting : Weighting
        What bounds them.
    width : int
        Numbers of a row.
    units : Units or None
        Privacy units of several rows.
    """

    __slots__ = ("_groups", "_kept", "_lengths", "_units", "_weighting", "_width")

    def __init__(
        self,
        kept: Kept,
        groups: list[tuple[int, ...]],
        lengths: list[int],
        *,
        weighting: Weighting,
        width: int,
        units: Units | None,
    ) -> None:
        self._kept, self._groups, self._lengths = kept, groups, lengths
        self._weighting, self._width, self._units = weighting, width, units

    def __repr__(self) -> str:
        return "DaskRows(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("rows on a cluster are private and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self._lengths)

    @property
    def n_units(self) -> int:
        """Number of privacy units."""
        return self.n_rows if self._units is None else self._units.count

    def source(self, *, norm_bound: float, storage: Storage = "float64") -> "DaskSource":
        """Return the rows as a source, bounded as they are kept in this type."""
        bounded = partial(
            partitions.bounded, norm_bound=norm_bound, weighting=self._weighting, storage=storage
        )
        tasks = self._kept.tasks
        most = FAN_IN // max(len(group) for group in self._groups)
        joined = together(holders_of_tasks(tasks), most)
        groups = [tuple(chain(*(self._groups[k] for k in one))) for one in joined]
        lengths = [tuple(self._lengths[k] for k in group) for group in groups]
        wanted = [(counts, *(tasks[k] for k in one)) for counts, one in zip(lengths, joined, strict=True)]
        kept = Kept(tasks_of(bounded, "bound", wanted), self._kept)
        return DaskSource(
            kept, groups, self._lengths, norm_bound=norm_bound, width=self._width, units=self._units
        )
