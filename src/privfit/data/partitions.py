"""What a worker does with its part of a table. Nothing here raises: a worker logs what failed was given."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ParamSpec, Protocol, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit._sealed import withheld, without_frames
from privfit.data.basis_norms import BasisBounds, BasisNorms, RowNorms
from privfit.data.blocks import Block, BlockKernel, CodedBlock, Pick, stacked
from privfit.data.clamp import Weighting
from privfit.data.coded import Matrix, Storage, kept_as
from privfit.data.columns import ColumnValues, naming
from privfit.data.encode import Encoder, predictors_as
from privfit.data.reduction import tree_sum
from privfit.data.response import standard_labels
from privfit.data.room import InMemory
from privfit.data.source import ArraySource, IntArray
from privfit.data.tables import Table, open_table, single_column
from privfit.errors import SchemaError

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")
_Rows = TypeVar("_Rows", bound="_RowWise")


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Failure:
    """An error that holds no cell, returned in place of an answer; what works on a failure returns it."""

    error: BaseException


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EncodedRows:
    """Rows that nothing bounds yet."""

    x: Matrix
    y: FloatArray

    def __sizeof__(self) -> int:
        """Return the bytes of the rows, by which workers judge how full they are."""
        return sum(array.nbytes for array in (*_arrays(self.x), self.y))


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Partition:
    """Encoded and bounded rows, of which workers keep one for each partition.

    Unlike a row source it can be pickled: workers may hand it to each other, and to their disks.
    """

    block: Block | CodedBlock
    norm_bound: float

    @classmethod
    def joined(cls, parts: "Sequence[Partition]") -> "Partition":
        """Return the rows of partitions one after the other."""
        return cls(stacked([part.block for part in parts]), parts[0].norm_bound)

    def picked(self, pick: Pick) -> "Partition":
        """Return the rows that ``pick`` takes of an array."""
        return Partition(self.block.picked(pick), self.norm_bound)

    @property
    def source(self) -> ArraySource:
        """The rows as a source."""
        return ArraySource.of_bounded(self.block, self.norm_bound, InMemory())

    def __sizeof__(self) -> int:
        """Return the bytes of the rows, by which workers judge how full they are."""
        block = self.block
        caps = () if block.caps is None else (block.caps,)
        arrays = (*_arrays(block.x), block.y, block.weight, *(block.parts or ()), *caps)
        return sum(array.nbytes for array in arrays)


def quiet(work: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer | Failure]:
    """Wrap what a worker does: it returns a `Failure` in place of raising, and passes on what it is given."""

    @functools.wraps(work)
    def answered(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer | Failure:
        for argument in args:
            if isinstance(argument, Failure):
                return argument
        try:
            with np.errstate(all="ignore"):  # a warning would depend on cells
                return work(*args, **kwargs)
        except Exception as error:
            return Failure(without_frames(withheld(error)))

    return answered


@dataclass(frozen=True, slots=True)
class Encoding:
    """Public facts: how a partition becomes rows.

    Parameters
    ----------
    encoder : Encoder
    names : tuple of str
        Columns to read.
    labelled : bool
        Whether ``names`` is what the columns of an array are to be called.
    storage : {"float64", "float32"}
        The type that numbers are kept in.
    """

    encoder: Encoder
    names: tuple[str, ...]
    labelled: bool
    storage: Storage


@quiet
def encode(encoding: Encoding, data: Any, response: Any = None) -> EncodedRows:
    """Return the encoded rows of a partition, whose response may come by itself."""
    table = open_table(data, needed=encoding.names, columns=encoding.names if encoding.labelled else None)
    if response is not None:
        table = _with_response(table, encoding.encoder.needed[-1], single_column("y", response))
    encoder = encoding.encoder
    return EncodedRows(predictors_as(encoder, table, encoding.storage), encoder.encode_target(table))


@quiet
def count(rows: EncodedRows) -> int:
    """Return the number of rows."""
    return rows.y.size


@quiet
def bounded(rows: EncodedRows, *, norm_bound: float, weighting: Weighting, storage: Storage) -> Partition:
    """Return the rows of a partition, kept in a type and bounded as they are kept."""
    source = ArraySource(kept_as(rows.x, storage), rows.y, norm_bound=norm_bound, weighting=weighting)
    return Partition(source.bounded, norm_bound)


@quiet
def pair_of_labels(response: Any) -> tuple[int, int]:
    """Return (0, 1) or (-1, 1), the pair that holds every label of a partition."""
    with naming("y"):
        return standard_labels(single_column("y", response))


@quiet
def summed(*some: Partition, kernel: BlockKernel, size: int) -> FloatArray:
    """Return the sum of a kernel over partitions."""
    return tree_sum(rows.source.sum(kernel, size) for rows in some)


@quiet
def combined(*sums: FloatArray) -> FloatArray:
    """Return the sum of sums."""
    return tree_sum(sums)


@quiet
def measured(rows: Partition, norms: BasisNorms) -> RowNorms:
    """Return the norms of the rows of a partition in other coordinates."""
    return rows.source.measured(norms)


@quiet
def weighted(rows: Partition, norms: RowNorms, factor: float, bounds: BasisBounds) -> Partition:
    """Return the rows of a partition with weights that keep multiples of their norms within bounds."""
    return Partition(rows.source.weighted(norms, factor, bounds).bounded, rows.norm_bound)


class _RowWise(Protocol):
    """What there is one of for each row."""

    @classmethod
    def joined(cls, parts: Any) -> Self:
        """Return those of several parts one after the other."""
        ...

    def picked(self, pick: Pick) -> Self:
        """Return those of the rows that ``pick`` takes of an array."""
        ...


@quiet
def picked(rows: _Rows, indices: IntArray) -> _Rows:
    """Return rows by their numbers within the partition, or what is known of them."""
    return rows.picked(itemgetter(indices))


@quiet
def joined(*parts: _Rows) -> _Rows:
    """Return the rows of partitions one after the other, or what is known of them."""
    return type(parts[0]).joined(parts)


@quiet
def taken(rows: Partition, indices: IntArray) -> Block:
    """Return rows by their numbers within the partition."""
    return rows.source.take(indices)


def _arrays(x: Matrix) -> tuple[NDArray[Any], ...]:
    return (x,) if isinstance(x, np.ndarray) else (x.numbers, x.codes)


def _with_response(table: Table, name: str, response: ColumnValues) -> Table:
    if len(response) != table.n_rows:
        raise SchemaError("y must be one-dimensional, with partitions as long as those of X")
    return table.joined([(name, response)])
