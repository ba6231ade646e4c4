"""What a worker does with its part of a table. Nothing here raises: a worker logs what failed was given."""

import functools
import itertools
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, ParamSpec, Protocol, Self, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit._sealed import withheld, without_frames
from privfit.data.basis_norms import BasisBounds, BasisNorms, RowNorms
from privfit.data.blocks import Block, BlockKernel, CodedBlock, Pick, UnitKernel, stacked
from privfit.data.clamp import Weighting
from privfit.data.coded import Matrix, Storage, kept_as
from privfit.data.columns import ColumnValues, naming
from privfit.data.encode import AbstractEncoder, predictors_as
from privfit.data.identifiers import Salt, new_salt
from privfit.data.reduction import tree_sum
from privfit.data.response import standard_labels
from privfit.data.room import Reused
from privfit.data.shares import RowShares, ShareRule, UngatheredShares
from privfit.data.source import ArraySource
from privfit.data.tables import Table, open_table, single_column
from privfit.errors import SchemaError

_ROOM = Reused(1 << 27)
"""For the norms and weights of a worker's rows, which are found anew several times a fit."""

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
    offset: FloatArray | None
    shares: RowShares | UngatheredShares | None

    @property
    def n_units(self) -> int:
        """Number of privacy units, all of whose rows are here."""
        return self.shares.n_units if isinstance(self.shares, RowShares) else self.y.size

    def __sizeof__(self) -> int:
        """Return the bytes of the rows, by which workers judge how full they are."""
        known = () if self.shares is None else self.shares.arrays
        return _bytes(*_arrays(self.x), self.y, self.offset, *known)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Partition:
    """Encoded and bounded rows of a partition. Workers keep groups of them, of which a task each takes all.

    Unlike a row source they can be pickled: workers may hand it to each other, and to their disks.
    """

    block: Block | CodedBlock
    norm_bound: float
    made: str = ""
    """Drawn anew whenever the rows are made: each time they may be in another order."""
    units: RowShares | None = None
    """Whom the rows belong to, where units have several and all of these are here."""

    @classmethod
    def stacked(cls, parts: "Sequence[Partition]") -> "Partition":
        """Return the rows of partitions one after the other."""
        return cls(stacked([part.block for part in parts]), parts[0].norm_bound)

    def picked(self, pick: Pick) -> "Partition":
        """Return the rows that ``pick`` takes of an array."""
        return Partition(self.block.picked(pick), self.norm_bound, self.made)

    @property
    def source(self) -> ArraySource:
        """The rows as a source."""
        return ArraySource.of_bounded(self.block, self.norm_bound, _ROOM, self.units)

    def __sizeof__(self) -> int:
        """Return the bytes of the rows, by which workers judge how full they are."""
        block = self.block
        beside = (*(block.parts or ()), block.caps, block.offset)
        known = () if self.units is None else self.units.arrays
        return _bytes(*_arrays(block.x), block.y, block.weight, *beside, *known)

    def of_source(self, source: ArraySource) -> "Partition":
        """Return the same rows as another source of them has them."""
        return Partition(source.bounded, source.norm_bound, self.made, self.units)


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Measured:
    """Norms of the rows of a partition, and of which making of them."""

    found: RowNorms
    norms: BasisNorms
    made: str

    def picked(self, pick: Pick) -> "Measured":
        """Return those of the rows that ``pick`` takes of an array."""
        return Measured(self.found.picked(pick), self.norms, self.made)

    def of(self, rows: Partition) -> RowNorms:
        """Return the norms of a partition, measured anew where its rows were lost and made again since."""
        return self.found if self.made == rows.made else rows.source.measured(self.norms)

    def __sizeof__(self) -> int:
        """Return the bytes of the norms, by which workers judge how full they are."""
        return self.found.__sizeof__()


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
    """How a partition becomes rows.

    Parameters
    ----------
    encoder : AbstractEncoder
    names : tuple of str
        Columns to read.
    labelled : bool
        Whether ``names`` is what the columns of an array are to be called.
    apart : bool
        Whether the response comes by itself.
    storage : {"float64", "float32"}
        The type that numbers are kept in.
    shares : ShareRule
        How much each row counts.
    salt : Salt
        By which digests of identifiers are made; a secret of the cluster.
    """

    encoder: AbstractEncoder
    names: tuple[str, ...]
    labelled: bool
    apart: bool
    storage: Storage
    shares: ShareRule
    salt: Salt = field(default_factory=new_salt, repr=False)


@quiet
def encode(encoding: Encoding, *pieces: Any) -> tuple[EncodedRows, ...]:
    """Return the encoded rows of partitions, after which their responses come where these are apart."""
    encoder, names = encoding.encoder, encoding.names

    def one(data: Any, response: Any) -> EncodedRows:
        table = open_table(data, needed=names, columns=names if encoding.labelled else None)
        if response is not None:
            table = _with_response(table, encoder.needed[-1], single_column("y", response))
        x = predictors_as(encoder, table, encoding.storage)
        rule = encoding.shares
        known = rule.shares_of(table) if rule.unit is None else rule.ungathered(table, encoding.salt)
        return EncodedRows(x, *encoder.encode_response(table), known)

    count = len(pieces) // 2 if encoding.apart else len(pieces)
    responses = pieces[count:] or (None,) * count
    return tuple(one(*some) for some in zip(pieces[:count], responses, strict=True))


@quiet
def counted(group: tuple[EncodedRows, ...]) -> tuple[tuple[int, int], ...]:
    """Return the numbers of rows and of privacy units of partitions."""
    return tuple((rows.y.size, rows.n_units) for rows in group)


@quiet
def bounded(
    lengths: tuple[int, ...],
    *groups: tuple[EncodedRows, ...],
    norm_bound: float,
    weighting: Weighting,
    storage: Storage,
) -> tuple[Partition, ...]:
    """Return the rows of partitions, kept in a type and bounded as they are kept.

    Raises
    ------
    SchemaError
        If a partition has another number of rows than it had when they were counted.
    """

    def one(rows: EncodedRows) -> Partition:
        x, shares = kept_as(rows.x, storage), rows.shares
        assert not isinstance(shares, UngatheredShares)  # noqa: S101 -- for type checkers
        source = ArraySource(
            x,
            rows.y,
            norm_bound=norm_bound,
            weighting=weighting,
            shares=shares,
            offset=rows.offset,
        )
        units = None if shares is None or shares.unit is None else shares
        return Partition(source.bounded, norm_bound, secrets.token_hex(16), units)

    given = tuple(itertools.chain(*groups))
    if tuple(rows.y.size for rows in given) != lengths:
        raise SchemaError(
            "the Dask collection had other rows when a part of it was computed again; let nothing change "
            "what it is made of during a fit, and nothing random be without a seed"
        )
    return tuple(map(one, given))


@quiet
def pair_of_labels(response: Any) -> tuple[int, int]:
    """Return (0, 1) or (-1, 1), the pair that holds every label of a partition."""
    with naming("y"):
        return standard_labels(single_column("y", response))


@quiet
def summed(group: tuple[Partition, ...], kernel: BlockKernel, size: int) -> FloatArray:
    """Return the sum of a kernel over partitions."""
    return tree_sum(rows.source.sum(kernel, size) for rows in group)


@quiet
def summed_units(group: tuple[Partition, ...], kernel: UnitKernel, size: int) -> FloatArray:
    """Return the sum of a kernel over the units of partitions."""
    return tree_sum(rows.source.sum_units(kernel, size) for rows in group)


@quiet
def combined(*sums: FloatArray) -> FloatArray:
    """Return the sum of sums."""
    return tree_sum(sums)


@quiet
def measured(group: tuple[Partition, ...], norms: BasisNorms) -> tuple[Measured, ...]:
    """Return the norms of the rows of partitions in other coordinates."""
    return tuple(Measured(rows.source.measured(norms), norms, rows.made) for rows in group)


@quiet
def weighted(
    group: tuple[Partition, ...], norms: tuple[Measured, ...], factor: float, bounds: BasisBounds
) -> tuple[Partition, ...]:
    """Return the rows of partitions with weights that keep multiples of their norms within bounds."""
    return tuple(
        rows.of_source(rows.source.weighted(known.of(rows), factor, bounds))
        for rows, known in zip(group, norms, strict=True)
    )


@quiet
def exposed(group: tuple[Partition, ...], shift: float, most: float) -> tuple[Partition, ...]:
    """Return the rows of partitions with offsets of at most ``most``, to which ``shift`` is added."""
    return tuple(rows.of_source(rows.source.exposed(shift, most)) for rows in group)


class _RowWise(Protocol):
    """What there is one of for each row."""

    def picked(self, pick: Pick) -> Self:
        """Return those of the rows that ``pick`` takes of an array."""
        ...


@quiet
def picked(group: tuple[_Rows, ...], indices: tuple[IntArray, ...]) -> tuple[_Rows, ...]:
    """Return rows by their numbers within each partition, or what is known of them."""
    return tuple(rows.picked(itemgetter(wanted)) for rows, wanted in zip(group, indices, strict=True))


@quiet
def joined(*groups: tuple[_Rows, ...]) -> tuple[_Rows, ...]:
    """Return the partitions of groups as one group, or what is known of their rows."""
    return tuple(itertools.chain(*groups))


@quiet
def member(group: tuple[Partition, ...], place: int) -> Partition:
    """Return a partition of a group."""
    return group[place]


@quiet
def taken(group: tuple[Partition, ...], place: int, indices: IntArray) -> Block:
    """Return rows of a partition of a group by their numbers within the partition."""
    return group[place].source.take(indices)


def _arrays(x: Matrix) -> tuple[NDArray[Any], ...]:
    return (x,) if isinstance(x, np.ndarray) else (x.numbers, x.codes)


def _bytes(*arrays: NDArray[Any] | None) -> int:
    return sum(array.nbytes for array in arrays if array is not None)


def _with_response(table: Table, name: str, response: ColumnValues) -> Table:
    if len(response) != table.n_rows:
        raise SchemaError("y must be one-dimensional, with partitions as long as those of X")
    return table.joined([(name, response)])
