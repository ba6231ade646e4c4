"""A response as it is given to an estimator: by name, in a table, or beside the rows."""

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import column_or_1d

from privfit._silent import silence
from privfit.data.columns import ColumnValues, quietly
from privfit.data.declarations import Level
from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.tables import Table, names_in_memory, single_column
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


def none_of(collection: Any) -> ColumnValues:
    """Return no cell of the type of a Dask series or array."""
    kind = collection.dtype
    return single_column("y", np.empty(0, kind) if isinstance(kind, np.dtype) else pd.Series(dtype=kind))


def undeclared(schema: Schema | None, y: object) -> bool:
    """Return whether a response is given beside the rows of which no schema says anything."""
    return schema is None or (y is not None and _name_in(schema, y) is None)


def with_declared(schema: Schema, y: object, classes: Sequence[Level] | None) -> tuple[Schema, str]:
    """Return a schema that declares the response, and its name.

    That is ``y``, or else the marked column, or else the series ``y``. The mark comes first, because what is
    computed from a series of pandas keeps its name.

    Parameters
    ----------
    schema : Schema
    y : object
    classes : sequence of labels, optional
        Those of a response that the schema says nothing of.

    Raises
    ------
    SchemaError
        If neither the schema nor ``classes`` says anything of it.
    """
    name = _name_in(schema, y)
    if name is not None:
        return schema, name
    if classes is not None:
        name = "y"
        while name in schema:
            name += "_"
        return Schema(schema.to_dict() | {name: {"type": "categorical", "levels": list(classes)}}), name
    raise SchemaError(
        "y: the schema marks no response; mark its column with target=true in the schema, or give y as the "
        "name of a column of X or as a series that has the name of a column of the schema"
    )


def refuse_absent(X: Any, predictors: Sequence[str]) -> None:
    """Raise for a declared column that a table in memory lacks, where nothing says which of them y is."""
    given = names_in_memory(X)
    for name in predictors:
        if given and name not in given:
            raise SchemaError(
                f"column {name!r} of the schema is not in X; if it is the response, mark it with "
                "target=true in the schema, or give y as a series that has its name"
            )


def _name_in(schema: Schema, y: object) -> str | None:
    """Return the name of the response, which a schema has unless ``y`` is a text; None if there is none."""
    name = y if isinstance(y, str) else schema.target or getattr(y, "name", None)
    return name if isinstance(name, str) and (name in schema or isinstance(y, str)) else None


def with_response(table: Table, encoder: SchemaEncoder, y: Any) -> Table:
    """Return a table with the response that was given beside it, too."""
    response = single_column("y", y)
    if len(response) != table.n_rows:
        raise SchemaError(UNEQUAL)
    return table.joined([(encoder.needed[-1], response)])
