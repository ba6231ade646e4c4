"""One column of raw cells to numbers or text. What a cell becomes depends on that cell alone.

How cells are read:

* A cell is *missing* if it is null, NaN, or text that is blank.
* Text is compared without the whitespace at its ends.
* Where a number is expected, text counts if it spells a decimal number or an infinity; ``true`` and
  ``false``, in any case, are 1 and 0. Any other text is no number.

The type of a column is a public fact; the type of a single cell in a column of Python objects is not, so
such a column is read cell by cell.
"""

# pyright: reportAttributeAccessIssue=false
# pyarrow.compute makes its functions when it is imported.

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit._silent import silence
from privfit.data.declarations import WHITESPACE
from privfit.data.objects import numbers_of_objects, text_of_bytes, text_of_objects
from privfit.data.times import holds_times, text_of_times, times_of_numpy
from privfit.errors import SchemaError

Cells: TypeAlias = NDArray[Any] | pa.Array | pa.ChunkedArray
"""Cells of one type: a 1-D NumPy array, or an Arrow array as it lies in a file or frame."""


class Parts:
    """Cells of a column whose parts have several types, as those of a folder may: each is read by its own.

    Parameters
    ----------
    parts : sequence of Arrow arrays
        At least one, in the order of rows.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __getitem__(self, rows: slice) -> "Parts":
        """Return successive rows, without copying."""
        first, last, _ = rows.indices(len(self))
        found = []
        for part in self.parts:
            found.append(part[max(first, 0) : max(last, 0)])
            first, last = first - len(part), last - len(part)
        return Parts([part for part in found if len(part)] or found[:1])

    def as_objects(self) -> NDArray[Any]:
        """Return Python numbers and text, by which cells of different parts are compared."""
        cells = [(part if holds_numbers(part) else as_text(part)).to_pylist() for part in self.parts]
        return np.fromiter(chain.from_iterable(cells), dtype=object)


ColumnValues: TypeAlias = Cells | Parts
"""Cells of one column."""

_T = TypeVar("_T")

_GONE = {"f": np.nan, "c": np.nan, "M": "NaT", "m": "NaT"}
"""What a missing cell is in arrays of a kind that has them."""

_NUMBER = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$"


@contextlib.contextmanager
def naming(name: str, what: str = "column") -> Iterator[None]:
    """Put the name of the column in front of a `SchemaError` raised inside."""
    try:
        yield
    except SchemaError as error:
        raise type(error)(f"{what} {name!r} {error}") from None


def quietly(read: Callable[[], _T], message: str) -> _T:
    """Return ``read()``; if it fails, raise `SchemaError` that keeps no trace of the first exception.

    Messages of other packages quote cells. ``raise ... from None`` would only hide them: they would stay in
    ``__context__``. A `SchemaError` of our own passes. Nothing is warned of: that would depend on cells.
    """
    try:
        with silence:
            return read()
    except SchemaError:
        raise
    except Exception:
        failure = SchemaError(message)
    raise failure


def unmasked(values: Any) -> Any:
    """Return a masked array as a plain one in which masked cells are missing; anything else as it is.

    Its type is that of the masked array, or of Python objects where that has no missing cells: whether one is
    masked decides nothing, and least of all whether a type is refused.
    """
    if not isinstance(values, np.ma.MaskedArray):
        return values
    masked, cells = np.ma.getmaskarray(values), np.ma.getdata(values)
    kind = cells.dtype.kind
    if kind == "V":  # refused by its type wherever cells are read
        return cells
    cells = np.array(cells, dtype=None if kind in _GONE else object)
    cells[masked] = _GONE.get(kind)
    return cells


def each_value(values: ColumnValues, read: Callable[[Cells], NDArray[Any]]) -> NDArray[Any]:
    """Return ``read(values)``, where cells point to values of a dictionary by reading each of these once.

    ``read`` says what a cell becomes from that cell, and the type of its part, alone.
    """
    if isinstance(values, Parts):
        return np.concatenate([each_value(part, read) for part in values.parts])
    if isinstance(values, np.ndarray) or not pa.types.is_dictionary(values.type):
        return read(values)
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [_read_dictionary(chunk, read) for chunk in chunks]
    return (
        parts[0] if len(parts) == 1 else np.concatenate([read(pa.nulls(0, values.type.value_type)), *parts])
    )


def _read_dictionary(values: pa.DictionaryArray, read: Callable[[Cells], NDArray[Any]]) -> NDArray[Any]:
    known = values.dictionary
    found = read(
        pa.concat_arrays([known, pa.nulls(1, known.type)])
    )  # the last is what a missing cell becomes
    indices = values.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int64()), len(known))
    places = indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return np.take(found, places, mode="clip")


def holds_numbers(values: ColumnValues) -> bool:
    """Return True if the type of the column is a number or true/false; parts may be anything."""
    if isinstance(values, Parts):
        return False
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "biuf"
    kind = _value_type(values.type)
    return any(
        test(kind)
        for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    )


def holds_text(values: ColumnValues) -> bool:
    """Return True if the type of the column is text; Python objects and parts may be anything."""
    if isinstance(values, Parts):
        return False
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "UST"
    return is_text(_value_type(values.type))


def holds_truth(values: ColumnValues) -> bool:
    """Return True if the type of the column is true/false."""
    if isinstance(values, Parts):
        return False
    return values.dtype.kind == "b" if isinstance(values, np.ndarray) else pa.types.is_boolean(values.type)


def float_type(values: Cells) -> np.dtype[np.floating[Any]] | None:
    """Return the type of a column of numbers in floating point, None for any other."""
    kind = values.dtype if isinstance(values, np.ndarray) else _value_type(values.type).to_pandas_dtype()
    return np.dtype(kind) if np.issubdtype(kind, np.floating) else None


def as_number(values: ColumnValues) -> FloatArray:
    """Return the cells as float64, NaN where a cell is missing or no number; maybe a view of the input.

    Raises
    ------
    SchemaError
        If the type of the column cannot hold numbers, as dates.
    """
    if isinstance(values, Parts):
        return np.concatenate([as_number(part) for part in values.parts])
    if not holds_numbers(values):
        refuse_all_but_numbers(values)
        return numbers_of_cells(values, as_text(values))
    with np.errstate(over="ignore"):
        if isinstance(values, np.ndarray):
            return values.astype(np.float64, copy=False)
        plain = values.cast(_value_type(values.type))
        if pa.types.is_decimal(plain.type):  # rounded as those among Python objects, which Arrow's are not
            return numbers_of_text(as_text(plain))
        return plain.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def as_text(values: ColumnValues) -> pa.Array:
    """Return the cells as Arrow strings without whitespace at the ends, null where a cell is missing.

    Raises
    ------
    SchemaError
        If the type of the column has no spelling, as lists.
    """
    if isinstance(values, Parts):
        return pa.concat_arrays([as_text(part) for part in values.parts])
    text = pc.utf8_trim(_arrow_text(values), characters=WHITESPACE)
    return pc.if_else(pc.equal(text, ""), None, text)


def spelled_number(text: str) -> float:
    """Return the number that stripped text spells, or NaN."""
    lowered = text.lower()
    if lowered in ("true", "false"):
        return float(lowered == "true")
    return float(text) if is_decimal(text) else math.nan


def is_decimal(text: str) -> bool:
    """Return whether stripped text spells a number in decimal or scientific notation, or an infinity."""
    return re.match(_NUMBER, text) is not None


def numbers_of_cells(values: Cells, text: pa.Array) -> FloatArray:
    """Return the numbers that cells spell, or are though their text spells none, as that of a fraction."""
    numbers = numbers_of_text(text)
    others = np.isnan(numbers)
    if isinstance(values, np.ndarray) and values.dtype == object and others.any():
        numbers = numbers.copy()
        numbers[others] = numbers_of_objects(values[others])
    return numbers


def numbers_of_text(text: pa.Array) -> FloatArray:
    """Return the numbers that stripped text spells, NaN for other text and null."""
    spelled = pc.match_substring_regex(text, pattern=_NUMBER)
    digits = pc.if_else(spelled, text, None)
    try:
        numbers = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # a spelling that this version of Arrow does not know
        cells = digits.to_pylist()
        numbers = np.array([math.nan if cell is None else float(cell) for cell in cells])
    for word, value in (("true", 1.0), ("false", 0.0)):
        hit = pc.fill_null(pc.equal(pc.utf8_lower(text), word), False).to_numpy(zero_copy_only=False)
        if hit.any():
            numbers = np.where(hit, value, numbers)
    return numbers


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def refuse_all_but_numbers(values: Cells) -> None:
    """Raise `SchemaError` for a column whose type holds neither numbers nor what may spell them."""
    kind = values.dtype if isinstance(values, np.ndarray) else _value_type(values.type)
    readable = kind.kind in "OUST" if isinstance(kind, np.dtype) else pa.types.is_null(kind) or is_text(kind)
    if not readable:
        raise SchemaError(f"has the type {kind}, which does not hold numbers; convert it first")


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is text or bytes."""
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    string = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return binary or string or str(kind) in ("string_view", "binary_view")


def _arrow_text(values: Cells) -> pa.Array:
    """Return the cells as a large_string array, not yet stripped."""
    if isinstance(values, np.ndarray):
        return _numpy_text(values)
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _text_of_dictionary(values)
    if is_text(kind):  # a file may call bytes text that are none
        return _one_piece(_text_of_bytes(values.cast(pa.large_binary())))
    if holds_times(kind):
        return text_of_times(_one_piece(values))
    message = f"has the type {kind}, which does not hold levels; convert it first"
    if pa.types.is_nested(kind) or isinstance(kind, pa.BaseExtensionType):  # whose cells are stored as others
        raise SchemaError(message)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), None, values)
    return _one_piece(quietly(lambda: values.cast(pa.large_string()), message))


def _text_of_dictionary(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the text of cells that point to the values of a dictionary, each of which is spelled once."""
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    parts = [pc.take(_arrow_text(chunk.dictionary), chunk.indices) for chunk in chunks]
    return pa.concat_arrays([pa.nulls(0, pa.large_string()), *parts])


def _text_of_bytes(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    try:
        return cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        return _decoded(cells)


def _numpy_text(values: NDArray[Any]) -> pa.Array:
    if values.dtype.kind in "Mm":
        return _arrow_text(times_of_numpy(values))
    if values.dtype.kind in "cV":
        raise SchemaError(f"has the type {values.dtype}, which does not hold levels; convert it first")
    if values.dtype.kind == "S":
        return _arrow_text(pa.array(values.tolist(), pa.large_binary()))
    if values.dtype.kind in "biuf":
        return pa.array(values, from_pandas=True).cast(pa.large_string())
    return text_of_objects(values.astype(object, copy=False))


def _decoded(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Decode bytes one by one, so that a malformed cell changes no other cell."""
    spelled = [None if cell is None else text_of_bytes(cell) for cell in cells.to_pylist()]
    return pa.array(spelled, pa.large_string())


def _one_piece(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    joined = array.combine_chunks()
    return joined if not isinstance(joined, pa.ChunkedArray) else pa.concat_arrays(joined.chunks)
