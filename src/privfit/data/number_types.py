"""What the types of columns say where no schema does, by the types alone: no cell decides that."""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from privfit.data.columns import ColumnValues, holds_text, is_text, quietly
from privfit.data.tables import whole_table
from privfit.errors import SchemaError

UNREADABLE = (
    "X must hold numbers; declare text columns in a schema, or make columns of true and false of their "
    "levels, as pandas.get_dummies does"
)

_OTHER_TYPES = (
    *(nw.String, nw.Binary, nw.Categorical, nw.Enum),
    *(nw.Datetime, nw.Date, nw.Duration, nw.Time),
)


def refuse_text_columns(X: Any) -> None:
    """Raise for an array or a frame with a column of text, bytes, categories or times, by the types alone.

    Whether all cells of it spell numbers would depend on each of them. Columns of Python objects are not
    looked at: what they hold is no public fact.

    Raises
    ------
    SchemaError
        If there is one.
    """
    if getattr(getattr(X, "dtype", None), "kind", "") in ("U", "S", "T", "M", "m"):
        raise SchemaError(UNREADABLE)
    if any(_is_text(column) for column in _without_cells(X)):
        raise SchemaError(UNREADABLE)


def places_of_truths(X: Any) -> tuple[int, ...]:
    """Return the places of the columns of an array or a frame whose type is true/false.

    Columns of Python objects are not looked at.
    """
    if isinstance(X, np.ndarray):
        return tuple(range(X.shape[1])) if X.dtype.kind == "b" else ()
    return tuple(place for place, column in enumerate(_without_cells(X)) if _is_truth(column))


def refuse_text(response: ColumnValues) -> None:
    """Raise for a response whose type is text, by that alone: cells of Python objects are not looked at.

    The message does not say the type, as that of NumPy has the length of the longest cell in it.
    """
    if holds_text(response):
        raise SchemaError("y is of a type that holds text; convert it to numbers, or declare it in a schema")


def _without_cells(X: Any) -> list[Any]:
    """Return the columns of a frame, without rows; none for anything else."""
    numbered = nw.dependencies.is_pandas_dataframe(X)  # names may repeat
    frame = X.set_axis(range(X.shape[1]), axis=1) if numbered else whole_table(X)
    frame = quietly(lambda: nw.from_native(frame, eager_only=True, pass_through=True), UNREADABLE)
    return list(frame.head(0).iter_columns()) if isinstance(frame, nw.DataFrame) else []


def _is_truth(column: Any) -> bool:
    """Return whether a column is of true/false, with or without missing cells, sparse or not."""
    kind = getattr(column.to_native(), "dtype", None)
    return isinstance(column.dtype, nw.Boolean) or getattr(kind, "subtype", None) == np.dtype(np.bool_)


def _is_text(column: Any) -> bool:
    """Return whether a column is of text, bytes, categories or times.

    narwhals takes Python objects for text if none is, and does not know some types of Arrow.
    """
    native = column.to_native()
    dtype = getattr(native, "dtype", None)
    kind = native.type if isinstance(native, pa.ChunkedArray) else getattr(dtype, "pyarrow_dtype", None)
    if kind is not None and (is_text(kind) or isinstance(kind, pa.BaseExtensionType)):
        return True
    return dtype != np.dtype(object) and isinstance(column.dtype, _OTHER_TYPES)
