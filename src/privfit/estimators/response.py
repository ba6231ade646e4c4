"""A response as it is given to an estimator: by name, in a table, or beside the rows."""

import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import column_or_1d

from privfit._silent import silence
from privfit.data.columns import ColumnValues, holds_text, quietly
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.tables import Table, single_column
from privfit.errors import SchemaError

UNEQUAL = "y must be one-dimensional and as long as X"


def cells_of(values: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    """Return a list as an array of numbers, or one in which no cell decides how others are read.

    One of true and false alone is no exception: a single cell of another kind would change the classes.
    """
    with suppress(Exception), silence:  # of cells
        numbers = np.asarray(values)
        if numbers.dtype.kind in "iuf" or numbers.ndim != 1:
            return numbers
    return np.fromiter(values, dtype=object)


def one_dimensional(y: Any) -> NDArray[Any]:
    """Return a response as a vector; a single column is one, of which scikit-learn warns by its shape."""
    response = quietly(lambda: column_or_1d(y), UNEQUAL)
    if getattr(y, "ndim", 1) > 1:
        message = "A column-vector y was passed when a 1d array was expected; y.ravel() is one"
        warnings.warn(message, DataConversionWarning, stacklevel=2)
    return response


def refuse_text(response: ColumnValues) -> None:
    """Raise for a response whose type is text, by that alone: cells of Python objects are not looked at.

    The message does not say the type, as that of NumPy has the length of the longest cell in it.
    """
    if holds_text(response):
        raise SchemaError("y is of a type that holds text; convert it to numbers, or declare it in a schema")


def none_of(collection: Any) -> ColumnValues:
    """Return no cell of the type of a Dask series or array."""
    kind = collection.dtype
    return single_column("y", np.empty(0, kind) if isinstance(kind, np.dtype) else pd.Series(dtype=kind))


def response_name(schema: Schema, y: object) -> str:
    """Return the name that ``y`` is, or else that of the marked column, or else that of a series ``y``.

    The mark comes first, because what is computed from a series of pandas keeps its name.
    """
    name = y if isinstance(y, str) else schema.target or getattr(y, "name", None)
    if isinstance(name, str) and (name in schema or isinstance(y, str)):
        return name
    raise SchemaError(
        "y: the schema marks no response; mark its column with target=true in the schema, or give y as the "
        "name of a column of X or as a series that has the name of a column of the schema"
    )


def with_response(table: Table, encoder: SchemaEncoder, y: Any) -> Table:
    """Return a table with the response that was given beside it, too."""
    response = single_column("y", y)
    if len(response) != table.n_rows:
        raise SchemaError(UNEQUAL)
    return table.joined([(encoder.needed[-1], response)])
