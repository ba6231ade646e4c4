"""Blocks of encoded rows, and the kernels that sum them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Self, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit.data.coded import CodedMatrix, stacked_rows
from privfit.data.predictors import predictors, predictors_at

Parts: TypeAlias = tuple[FloatArray, FloatArray] | None

Pick: TypeAlias = Callable[[NDArray[Any]], NDArray[Any]]
"""Takes some of the rows of an array."""


@dataclass(frozen=True, slots=True, repr=False)
class AbstractBlock(ABC):
    """Encoded rows: ``x`` (m, p), ``y`` (m,), ``weight`` (m,), all finite.

    Every row satisfies ``weight <= 1`` and ``weight * norm(x)**2 <= norm_bound**2`` in exact arithmetic.
    A row that may not contribute has weight 0.

    Where rows count by shares (see `privfit.data.shares`), ``weight`` is ``influence * share``: what a row's
    loss counts. ``influence`` (m,) alone satisfies the bounds, too, and a term that is bounded by it in
    another way than as a multiple of it is multiplied by ``share`` (m,). By default the share is 1.

    Where rows have ``caps`` (m,), slopes are held to them, and ``influence * cap * norm(x)`` is bounded as
    well; see `privfit.data.caps`.

    Where rows have an ``offset`` (m,), it is added to the linear predictor; see `privfit.data.exposure`.
    """

    x: Any
    y: FloatArray
    weight: FloatArray
    parts: Parts = None
    """``(influence, share)``, where not all shares are 1."""
    caps: FloatArray | None = None
    """Bounds on the slopes of single rows, where they have any."""
    offset: FloatArray | None = None
    """Known part of the linear predictor, where it has one."""

    def predictors(self, theta: FloatArray) -> FloatArray:
        """Return the linear predictors of the rows at coefficients ``theta`` (p,), shape (m,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            eta = predictors(self.x, theta)
            return eta if self.offset is None else eta + self.offset

    def caps_within(self, bound: float) -> FloatArray:
        """Return bounds on the slopes of the rows; one of shape (1,) where all share it."""
        return np.array([bound]) if self.caps is None else self.caps

    def along(self, points: FloatArray) -> FloatArray:
        """Return `predictors` at the first two of these points (p, 3) and, without the offset, at the last.

        Returns
        -------
        array of shape (3, m)
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = predictors_at(self.x, points.T)
            if self.offset is not None:
                found[:2] += self.offset
        return found

    @property
    def influence(self) -> FloatArray:
        """Weights that bound rows, their shares aside."""
        return self.weight if self.parts is None else self.parts[0]

    @property
    def share(self) -> FloatArray:
        """Shares of the rows."""
        return np.broadcast_to(1.0, self.weight.shape) if self.parts is None else self.parts[1]

    def part(self, rows: slice | IntArray) -> Self:
        """Return some of the rows."""
        return self.picked(itemgetter(rows))

    def picked(self, pick: Pick) -> Self:
        """Return the rows that ``pick`` takes of every array."""
        x = self.x.picked(pick) if isinstance(self.x, CodedMatrix) else pick(self.x)
        parts = None if self.parts is None else (pick(self.parts[0]), pick(self.parts[1]))
        caps, offset = (None if one is None else pick(one) for one in (self.caps, self.offset))
        return type(self)(x, pick(self.y), pick(self.weight), parts, caps, offset)

    @abstractmethod
    def written_out(self) -> "Block":
        """Return the rows with all their columns."""


@final
@dataclass(frozen=True, slots=True, repr=False)
class Block(AbstractBlock):
    """Rows written out: ``x`` is row-major; all are float64."""

    x: FloatArray

    def written_out(self) -> "Block":
        """Return the block itself."""
        return self


@final
@dataclass(frozen=True, slots=True, repr=False)
class CodedBlock(AbstractBlock):
    """Rows by code."""

    x: CodedMatrix

    def written_out(self) -> Block:
        """Return the rows with all their columns."""
        return Block(self.x.dense(), self.y, self.weight, self.parts, self.caps, self.offset)


_Block = TypeVar("_Block", bound=AbstractBlock)


def stacked(blocks: Sequence[_Block]) -> _Block:
    """Return the rows of blocks of one kind one after the other."""
    first = blocks[0]

    def rows_of(values: Callable[[_Block], NDArray[Any]]) -> NDArray[Any]:
        return np.concatenate([values(block) for block in blocks])

    x, parts = stacked_rows([block.x for block in blocks]), None
    if first.parts is not None:
        parts = rows_of(lambda b: b.influence), rows_of(lambda b: b.share)
    caps = None if first.caps is None else rows_of(lambda b: b.caps_within(0.0))
    offset = (
        None if first.offset is None else np.concatenate([b.offset for b in blocks if b.offset is not None])
    )
    return type(first)(x, rows_of(lambda b: b.y), rows_of(lambda b: b.weight), parts, caps, offset)


BlockKernel = Callable[[Block, FloatArray], None]
"""``kernel(block, out)`` adds the sum of rows ``k*CHUNK_ROWS .. (k+1)*CHUNK_ROWS`` to ``out[k]``.

``out`` has shape (number of chunks, size). A kernel keeps no state and releases the GIL where it can.
"""

RowTerms = Callable[[Block], FloatArray]
"""``terms(block)`` returns the terms of the rows one by one, shape (m, size)."""


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class UnitKernel:
    """A kernel over privacy units, each of which is the sum of the terms of its rows.

    It can be pickled: what computes something is made anew in another process.

    Parameters
    ----------
    terms : callable
        ``terms()`` returns `RowTerms`.
    size : int
        Numbers of a term.
    norm_bound : float
        What the summed terms of a unit are held to, as rows are.
    kernel : callable
        ``kernel()`` returns a `BlockKernel`.
    """

    terms: Callable[[], RowTerms]
    size: int
    norm_bound: float
    kernel: Callable[[], BlockKernel]


@final
@dataclass(frozen=True, slots=True, eq=False)
class CodedKernel:
    """A kernel that takes blocks of coded rows as well; others get them written out, chunk by chunk."""

    kernel: Callable[[Block | CodedBlock, FloatArray], None]

    def __call__(self, block: Block | CodedBlock, out: FloatArray) -> None:
        """Add the sum of each chunk of rows to a row of ``out``."""
        self.kernel(block, out)


@final
class TravellingKernel:
    """A kernel with the call that makes it, by which it can be pickled and made anew in another process.

    Parameters
    ----------
    make : callable
        Function of a module, or bound method of what can be pickled; it returns the kernel.
    *arguments
        Its arguments.
    """

    __slots__ = ("_arguments", "_make", "kernel")

    def __init__(self, make: Callable[..., BlockKernel], *arguments: Any) -> None:
        self._make, self._arguments = make, arguments
        self.kernel = make(*arguments)

    def __call__(self, block: Block, out: FloatArray) -> None:
        """Add the sum of each chunk of rows to a row of ``out``."""
        self.kernel(block, out)

    def __repr__(self) -> str:
        return "TravellingKernel(<private point>)"

    def __reduce__(self) -> tuple[Any, ...]:
        return TravellingKernel, (self._make, *self._arguments)
