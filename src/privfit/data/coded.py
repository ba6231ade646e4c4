"""Encoded rows that keep categorical columns as codes: a matrix that is never written out as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Literal, TypeAlias, TypeGuard, overload

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.data import coded_loops, norm_loops
from privfit.errors import SchemaError

Storage: TypeAlias = Literal["float64", "float32"]
"""The type that numbers of encoded rows are kept in; what is computed with them is computed in float64."""

MANY_ROWS = 2**17
"""Rows from which numbers of tables in memory and on clusters are kept in float32 for private fits."""

MOST_COLUMNS = 2**16 - 2
"""Encoded columns that 16-bit codes can name."""


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the entries of a coded row stand among the encoded columns. It is public.

    Parameters
    ----------
    size : int
        Number p of encoded columns.
    constant : bool
        Whether the first of them is 1 in every row; it is not stored.
    columns : tuple of int
        Encoded columns of the first numbers of a row, in their order.
    plain : int
        Codes whose entry is 1. A code is the encoded column of the entry, p for none, and p + 1 in a row that
        may not contribute.
    paired : int
        Codes after these, whose entries are the last numbers of a row, one each.
    """

    size: int
    constant: bool
    columns: tuple[int, ...]
    plain: int = 0
    paired: int = 0

    def __post_init__(self) -> None:
        if self.has_codes and self.size > MOST_COLUMNS:
            raise SchemaError(f"the design has more than {MOST_COLUMNS} columns; declare fewer levels")
        for found in ("numeric", "places"):  # at once: what is pickled must not say whether rows asked
            getattr(self, found)

    @property
    def none(self) -> int:
        """The code of no entry."""
        return self.size

    @property
    def missing(self) -> int:
        """The code in a row that may not contribute."""
        return self.size + 1

    @property
    def has_codes(self) -> bool:
        """Whether any column is kept as a code."""
        return self.plain + self.paired > 0

    @cached_property
    def numeric(self) -> bool:
        """Whether rows are their numbers in order, behind the constant if there is one."""
        return not self.has_codes and self.columns == tuple(range(int(self.constant), self.size))

    @property
    def n_numbers(self) -> int:
        """Numbers of a row."""
        return len(self.columns) + self.paired

    @property
    def n_codes(self) -> int:
        """Codes of a row."""
        return self.plain + self.paired

    @property
    def code_type(self) -> "np.dtype[Any]":
        """The smallest type that holds all codes."""
        return np.dtype(np.uint8 if self.missing < 2**8 else np.uint16)

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """What compiled loops need: p, constant, plain, paired, then the columns."""
        return np.array([self.size, self.constant, self.plain, self.paired, *self.columns], dtype=np.int64)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False, repr=False)
class CodedMatrix:
    """Rows as numbers and codes; it acts like the matrix (m, p) of their encoded columns.

    Parameters
    ----------
    layout : Layout
    numbers : array of shape (m, layout.n_numbers), row-major, float64 or float32
    codes : array of shape (m, layout.n_codes), row-major, uint8 or uint16

    Notes
    -----
    What is computed with a number is computed in float64, whatever it is stored in.
    """

    layout: Layout
    numbers: NDArray[Any]
    codes: NDArray[Any]

    __array_ufunc__ = None  # so that NumPy leaves products to this class

    @classmethod
    def empty(cls, layout: Layout, n_rows: int, storage: str = "float64") -> "CodedMatrix":
        """Return a matrix whose numbers are not set and whose codes are `Layout.none`."""
        codes = np.full((n_rows, layout.n_codes), layout.none, dtype=layout.code_type)
        return cls(layout, np.empty((n_rows, layout.n_numbers), dtype=storage), codes)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and encoded columns."""
        return len(self.numbers), self.layout.size

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def entries(self) -> int:
        """Entries of a row that may be other than 0."""
        return int(self.layout.constant) + len(self.layout.columns) + self.layout.n_codes

    @classmethod
    def of_array(cls, layout: Layout, x: FloatArray, storage: str) -> "CodedMatrix":
        """Return a matrix without codes whose numbers are the columns of ``x`` (m, p)."""
        numbers = np.ascontiguousarray(x[:, int(layout.constant) :], dtype=storage)
        return cls(layout, numbers, np.empty((len(x), 0), dtype=layout.code_type))

    @overload
    def __getitem__(self, rows: slice) -> "CodedMatrix": ...
    @overload
    def __getitem__(self, rows: NDArray[np.int64]) -> "CodedMatrix": ...
    def __getitem__(self, rows: Any) -> "CodedMatrix":
        return self.picked(itemgetter(rows))

    def picked(self, pick: Callable[[NDArray[Any]], NDArray[Any]]) -> "CodedMatrix":
        """Return the rows that ``pick`` takes of an array."""
        return CodedMatrix(self.layout, pick(self.numbers), pick(self.codes))

    def __matmul__(self, other: FloatArray) -> FloatArray:
        """Return the product with a vector (p,) or a matrix (p, q)."""
        if self.layout.numeric and other.ndim > 1:
            return self.dense() @ other
        wide = np.zeros((self.layout.size + 2, *other.shape[1:]))
        wide[:-2], wide[-1] = other, np.nan
        out = np.empty((len(self), *other.shape[1:]))
        loop = coded_loops.dots if other.ndim == 1 else coded_loops.products
        loop(self.numbers, self.codes, self.layout.places, wide, out)
        return out

    def quadratic(self, form: FloatArray) -> FloatArray:
        """Return ``x' form x`` of the rows, shape (m,), for a symmetric form, shape (p, p)."""
        size, layout = self.layout.size, self.layout
        wide = np.zeros((size + 2, size + 2))
        wide[:size, :size], wide[-1], wide[:, -1] = form, np.nan, np.nan
        head = np.concatenate([np.zeros(int(layout.constant), dtype=np.int64), layout.columns]).astype(
            np.int64
        )
        out = np.empty(len(self))
        leading = np.ascontiguousarray(wide[:, head])
        coded_loops.quadratic(self.numbers, self.codes, layout.places, wide, leading, out)
        return out

    def dense(self) -> FloatArray:
        """Return the encoded columns, shape (m, p), row-major; rows that may not contribute are NaN."""
        out = np.empty(self.shape)
        self.write_out(out)
        return out

    def write_out(self, out: FloatArray) -> None:
        """Fill ``out`` (m, p), row-major, with what `dense` returns."""
        if self.layout.numeric:
            coded_loops.widen(self.numbers, int(self.layout.constant), out)
            return
        out[:] = 0.0
        coded_loops.expand(self.numbers, self.codes, self.layout.places, out)

    def square_dots(self, factors: FloatArray) -> FloatArray:
        """Return the sums of squared entries times factors (p,), shape (m,); NaN as in `dense`."""
        out = np.empty(len(self))
        wide = np.append(factors, (0.0, np.nan))
        coded_loops.square_dots(self.numbers, self.codes, self.layout.places, wide, out)
        return out

    def squared_norms(self) -> FloatArray:
        """Return the squared norms of the rows, shape (m,); NaN for rows that may not contribute."""
        return self.square_dots(np.ones(self.layout.size))

    def squared(self) -> "CodedMatrix":
        """Return the matrix of squared entries, its numbers in float64."""
        return CodedMatrix(self.layout, self.numbers.astype(np.float64) ** 2, self.codes)

    def blanked(self, usable: NDArray[np.bool_]) -> "CodedMatrix":
        """Return a matrix whose other rows hold the constant only."""
        numbers = np.where(usable[:, None], self.numbers, np.zeros((), self.numbers.dtype))
        codes = np.where(usable[:, None], self.codes, np.array(self.layout.none, self.codes.dtype))
        return CodedMatrix(self.layout, numbers, codes)

    def scaled(self, factor: FloatArray) -> "CodedMatrix":
        """Return the rows times factors, shape (m,): every entry then needs a number of its own."""
        layout, column = self.layout, factor.astype(self.numbers.dtype)[:, None]
        if layout.numeric:
            return self._scaled_numbers(column)
        first, ones = len(layout.columns), layout.plain + layout.constant
        numbers = self.numbers * column
        constant = np.zeros((len(self), int(layout.constant)), self.codes.dtype)
        return CodedMatrix(
            replace(layout, constant=False, plain=0, paired=ones + layout.paired),
            np.hstack([numbers[:, :first], np.repeat(column, ones, axis=1), numbers[:, first:]]),
            np.hstack([constant, self.codes]),
        )

    def _scaled_numbers(self, factor: NDArray[Any]) -> "CodedMatrix":
        first, size = int(self.layout.constant), self.layout.size
        numbers = np.empty(self.shape, dtype=self.numbers.dtype)
        numbers[:, :first] = factor
        np.multiply(self.numbers, factor, out=numbers[:, first:])
        return CodedMatrix(Layout(size, False, tuple(range(size))), numbers, self.codes)


Matrix = FloatArray | CodedMatrix
"""Encoded rows, shape (m, p)."""


def storage_of(n_rows: int, *, private: bool) -> Storage:
    """Return the type that numbers of a table in memory or on a cluster are kept in, from public facts alone.

    A pass over many rows waits for memory. What float32 takes from a number, ``2**-24`` of its size, is then
    far below the noise of a private fit, but is to be seen beside what other packages compute without noise.
    """
    return "float32" if private and n_rows >= MANY_ROWS else "float64"


def kept_as(x: Matrix, storage: Storage) -> Matrix:
    """Return rows with numbers of this type; those written out as numbers in order, unless in float64."""
    if isinstance(x, CodedMatrix):
        return replace(x, numbers=x.numbers.astype(storage, copy=False))
    if storage == "float64":
        return x
    return CodedMatrix.of_array(Layout(x.shape[1], False, tuple(range(x.shape[1]))), x, storage)


def by_code(x: Matrix) -> TypeGuard[CodedMatrix]:
    """Return whether rows are more than numbers in order."""
    return isinstance(x, CodedMatrix) and not x.layout.numeric


def numbers_of(x: Matrix) -> tuple[NDArray[Any], int]:
    """Return the numbers of rows that are not by code, and how many columns of ones are before them."""
    assert not by_code(x)  # noqa: S101 -- what is not among the numbers would be left out
    return (x.numbers, int(x.layout.constant)) if isinstance(x, CodedMatrix) else (x, 0)


def fill_squared_norms(x: Matrix, out: FloatArray) -> None:
    """Fill ``out`` (m,) with the squared norms of the rows, without a warning."""
    if by_code(x):
        out[:] = x.squared_norms()
        return
    numbers, constant = numbers_of(x)
    norm_loops.squares(np.ascontiguousarray(numbers), constant, out)


def stacked_rows(parts: Sequence[Matrix]) -> Matrix:
    """Return the rows of matrices of one kind one after the other."""
    first = parts[0]
    if not isinstance(first, CodedMatrix):
        return np.concatenate([np.asarray(part) for part in parts])
    coded = [part for part in parts if isinstance(part, CodedMatrix)]
    numbers, codes = ([part.numbers for part in coded], [part.codes for part in coded])
    return CodedMatrix(first.layout, np.concatenate(numbers), np.concatenate(codes))
