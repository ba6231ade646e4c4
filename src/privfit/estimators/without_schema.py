"""Fits without a schema: arguments of their own, predictors refused by type, and which cells are missing."""

import os
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from privfit._checks import FloatArray
from privfit._silent import silence
from privfit.data.cache import RowCache
from privfit.data.columns import quietly, unmasked
from privfit.data.number_types import UNREADABLE, refuse_text_columns
from privfit.data.stream import RowStream
from privfit.data.tables import refuse_repeated_names, whole_table
from privfit.errors import InvalidArgument, SchemaError

_DECLARED = {
    "norm_bound": "as row_norm in the schema bounds its rows",
    "count_bound": "as the declared upper bound of the response is that of counts",
    "classes": "as the declared levels of the response are the classes",
}
"""Arguments of fits without a schema, and why they are not those of others."""

_QUOTE_NOTHING = (
    "Found array with",
    "X has ",
    "The feature names",
    "Feature names are only supported",
    "Sparse data",
)
"""How those messages of scikit-learn's validation begin that quote no cell."""

_NUMBERS: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": False, "input_name": "X"}
"""What scikit-learn's validation makes of predictors."""


def refuse_declared(estimator: object, *, labels: bool) -> None:
    """Raise for an argument that says what a schema declares: beside one it would count for nothing.

    Whether it declares ``labels``, too, the caller knows.
    """
    for argument, why in _DECLARED.items():
        if getattr(estimator, argument, None) is not None and (labels or argument != "classes"):
            raise InvalidArgument(f"{argument} is for fits without a schema, {why}; leave it out")


def refuse_names(X: object, y: object) -> None:
    """Raise for what only a schema can say: what the columns of a file are, and that one is the response."""
    if isinstance(X, str | os.PathLike):
        raise InvalidArgument("schema is needed to fit a file: it says what the columns are")
    if isinstance(y, str) and not isinstance(X, RowStream | RowCache):
        raise InvalidArgument(
            "y may be the name of a column only with a schema, which declares it; without one pass the "
            "response itself, and X without it"
        )


def numbers_of(estimator: BaseEstimator, X: Any, *, fewest: int = 1, reset: bool = True) -> FloatArray:
    """Return what scikit-learn's validation returns; what it refuses is a `SchemaError` that quotes no cell.

    Nor does one say how many rows there are, where none are asked for. Names of columns are public, and it
    may warn of them.
    """
    given = whole_table(X)
    X = missing_as_nan(unmasked(given))
    shape = getattr(X, "shape", None) or np.shape(quietly(lambda: np.asarray(X), UNREADABLE))
    if len(shape) != 2:
        raise SchemaError(
            "X must be two-dimensional: an array or a data frame in memory. Reshape your data to "
            "(rows, columns), or collect() a lazy frame"
        )
    if not shape[1] and (isinstance(X, pd.DataFrame) or not fewest):
        raise SchemaError("X has no column; pass an array or a data frame with at least one")
    refuse_complex("X", X)
    refuse_repeated_names("X", X)
    refuse_text_columns(given)
    message = UNREADABLE
    try:
        validate_data(estimator, X, skip_check_array=True, reset=reset)
        with np.errstate(all="ignore"), silence:  # a warning would depend on cells
            return np.asarray(check_array(X, **_NUMBERS, ensure_min_samples=fewest, estimator=estimator))
    except Exception as error:
        if type(error) in (ValueError, TypeError) and str(error).startswith(_QUOTE_NOTHING):
            message = str(error)
    raise SchemaError(message)


def refuse_complex(argument: str, values: Any) -> None:
    """Raise for an array of complex numbers, of which scikit-learn's message would quote cells."""
    if getattr(getattr(values, "dtype", None), "kind", "") == "c":
        raise SchemaError(f"Complex data not supported: {argument} must hold real numbers")


def missing_as_nan(X: Any) -> Any:
    """Return X with NaN in place of whatever is missing among Python objects and decimals.

    Columns that are sparse are written out. Anything else as it is: scikit-learn takes None for missing, and
    fails on what else pandas does, and on sparse columns by what they are filled with.
    """
    if isinstance(X, pd.DataFrame):
        filled = X.copy(deep=False)
        for k, kind in enumerate(X.dtypes):
            if kind == np.dtype(object) or _is_decimal(kind):
                filled.isetitem(k, _filled(X.iloc[:, k].to_numpy(dtype=object)))
            elif isinstance(kind, pd.SparseDtype):
                filled.isetitem(k, X.iloc[:, k].to_numpy())
        return filled
    if isinstance(X, list | tuple):
        cells = quietly(lambda: np.asarray(X), UNREADABLE)
        return X if cells.dtype != object else _filled(cells)
    return _filled(X) if isinstance(X, np.ndarray) and X.dtype == object else X


def _is_decimal(kind: Any) -> bool:
    return isinstance(kind, pd.ArrowDtype) and pa.types.is_decimal(kind.pyarrow_dtype)


def _filled(cells: NDArray[Any]) -> NDArray[Any]:
    filled = cells.copy()
    filled[quietly(lambda: pd.isna(cells), UNREADABLE)] = np.nan
    return filled
