"""What a worker does with its part of a table. Nothing here raises: a worker logs what failed was given."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, final

import numpy as np

from privfit._checks import FloatArray
from privfit._sealed import withheld, without_frames
from privfit.data.basis_norms import BasisBounds, BasisNorms, RowNorms
from privfit.data.blocks import Block, BlockKernel, CodedBlock
from privfit.data.clamp import Weighting
from privfit.data.coded import Matrix, Storage, kept_as
from privfit.data.columns import ColumnValues, naming
from privfit.data.encode import Encoder
from privfit.data.reduction import tree_sum
from privfit.data.response import standard_labels
from privfit.data.room import InMemory
from privfit.data.source import ArraySource, IntArray
from privfit.data.tables import Table, open_table, single_column
from privfit.errors import SchemaError

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Failure:
    """An error that holds no cell, returned in place of an answer; what works on a failure returns it."""

    error: BaseException


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Partition:
    """Encoded and bounded rows, of which workers keep one for each partition.

    Unlike a row source it can be pickled: workers may hand it to each other, and to their disks.
    """

    block: Block | CodedBlock
    norm_bound: float

    @property
    def source(self) -> ArraySource:
        """The rows as a source."""
        return ArraySource.of_bounded(self.block, self.norm_bound, InMemory())

    def __sizeof__(self) -> int:
        """Return the bytes of the rows, by which workers judge how full they are."""
        x, parts = self.block.x, self.block.parts or ()
        arrays = [x] if isinstance(x, np.ndarray) else [x.numbers, x.codes]
        caps = () if self.block.caps is None else (self.block.caps,)
        return sum(array.nbytes for array in (*arrays, self.block.y, self.block.weight, *parts, *caps))


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
    norm_bound, weighting
        As for `ArraySource`.
    """

    encoder: Encoder
    names: tuple[str, ...]
    labelled: bool
    norm_bound: float
    weighting: Weighting


@quiet
def encode(encoding: Encoding, data: Any, response: Any = None) -> Partition:
    """Return the encoded rows of a partition, whose response may come by itself."""
    table = open_table(data, needed=encoding.names, columns=encoding.names if encoding.labelled else None)
    encoder = encoding.encoder
    if response is not None:
        table = _with_response(table, encoder.needed[-1], single_column("y", response))
    x, y = (encoder.encode_coded if encoder.layout.has_codes else encoder.encode)(table)
    return Partition(_block(*encoding.weighting(x, y, norm_bound=encoding.norm_bound)), encoding.norm_bound)


@quiet
def tightened(rows: Partition, *, norm_bound: float, weighting: Weighting, storage: Storage) -> Partition:
    """Return the rows of a partition, kept in a type and bounded anew; rows that are not usable stay so."""
    weight, x, y = weighting(kept_as(rows.block.x, storage), rows.block.y, norm_bound=norm_bound)
    weight[rows.block.weight == 0.0] = 0.0
    return Partition(_block(weight, x, y), norm_bound)


@quiet
def count(rows: Partition) -> int:
    """Return the number of rows."""
    return rows.block.y.size


@quiet
def pair_of_labels(response: Any) -> tuple[int, int]:
    """Return (0, 1) or (-1, 1), the pair that holds every label of a partition."""
    with naming("y"):
        return standard_labels(single_column("y", response))


@quiet
def summed(rows: Partition, kernel: BlockKernel, size: int) -> FloatArray:
    """Return the sum of a kernel over a partition."""
    return rows.source.sum(kernel, size)


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


@quiet
def sampled(rows: Partition, indices: IntArray) -> Partition:
    """Return rows by their numbers within the partition, as a partition."""
    return Partition(rows.block.part(indices), rows.norm_bound)


@quiet
def taken(rows: Partition, indices: IntArray) -> Block:
    """Return rows by their numbers within the partition."""
    return rows.source.take(indices)


def joined(blocks: Sequence[Block], order: IntArray) -> Block:
    """Return the rows of blocks without shares one after the other, in this order."""
    x, y, weight = (
        np.concatenate([getattr(block, name) for block in blocks])[order] for name in ("x", "y", "weight")
    )
    caps = [block.caps for block in blocks if block.caps is not None]
    return Block(x, y, weight, caps=np.concatenate(caps)[order] if caps else None)


def _block(weight: FloatArray, x: Matrix, y: FloatArray) -> Block | CodedBlock:
    return Block(x, y, weight) if isinstance(x, np.ndarray) else CodedBlock(x, y, weight)


def _with_response(table: Table, name: str, response: ColumnValues) -> Table:
    if len(response) != table.n_rows:
        raise SchemaError("y must be one-dimensional, with partitions as long as those of X")
    return table.joined([(name, response)])
