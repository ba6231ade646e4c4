"""Open what users hold: frames, arrays and files, as one immutable table of raw columns."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privfit._threads import each_part
from privfit.data.columns import ColumnValues, naming, quietly, unmasked
from privfit.data.csv_text import TextForm
from privfit.data.files import columns_of, read_file
from privfit.data.names import absent, present
from privfit.errors import SchemaError

NO_ROW = "data has no row; pass a table with at least one"

NOT_TEXT = "data has a column name that is not text; rename its columns"


_SHOWN = 8
"""Names that a message lists."""


class Table:
    """Named raw columns of equal length. It is private: it prints nothing and cannot be pickled.

    Parameters
    ----------
    columns : sequence of (name, values)
        Values are 1-D NumPy or Arrow arrays; they are not copied.
    n_rows : int, optional
        Their length, needed where no column says it.

    Raises
    ------
    SchemaError
        If names repeat or are not text, or columns are not one-dimensional and equally long.
    """

    __slots__ = ("_columns", "_n_rows")

    def __init__(self, columns: Sequence[tuple[str, ColumnValues]], n_rows: int | None = None) -> None:
        if n_rows is None:
            if not columns:
                raise SchemaError("data has no column; pass a table with at least one")
            n_rows = len(columns[0][1])
        for name, values in columns:
            if not isinstance(name, str):
                raise SchemaError(NOT_TEXT)
            if isinstance(values, np.ndarray) and values.ndim != 1:
                raise SchemaError(f"column {name!r} must be one-dimensional")
        self._columns = dict(columns)
        if len(self._columns) != len(columns):
            raise SchemaError("data has two columns of the same name; rename one")
        if len({len(values) for values in self._columns.values()}) > 1:
            raise SchemaError("data has columns of different lengths; pass equally long columns")
        self._n_rows = n_rows

    @classmethod
    def from_arrow(cls, table: "pa.Table | pa.RecordBatch") -> "Table":
        """Wrap an Arrow table or record batch without copying; it may be empty."""
        return cls(columns_of(table))

    def __repr__(self) -> str:
        return "Table(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("a table holds private rows and cannot be pickled")

    @property
    def names(self) -> tuple[str, ...]:
        """Column names."""
        return tuple(self._columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._n_rows

    def values(self, name: str) -> ColumnValues:
        """Return a column as it lies in memory, a NumPy or Arrow array.

        Raises
        ------
        SchemaError
            If there is no such column.
        """
        if name not in self._columns:
            raise SchemaError(absent(name))
        return self._columns[name]

    def part(self, rows: slice) -> "Table":
        """Return some of the rows, without copying."""
        left = len(range(*rows.indices(self._n_rows)))
        return Table([(name, values[rows]) for name, values in self._columns.items()], left)

    def joined(self, columns: Sequence[tuple[str, ColumnValues]]) -> "Table":
        """Return a table with these columns, too, without copying."""
        return Table([*self._columns.items(), *columns])


def open_table(
    data: object,
    *,
    needed: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    header: bool = True,
    sep: str = ",",
) -> Table:
    """Open a frame, a mapping of arrays, a 2-D array, or a file, reading only what is needed.

    Parameters
    ----------
    data : frame, mapping, array or path
        pandas, polars or Arrow table, or a record batch of Arrow; mapping of column name to array-like, read
        by position; 2-D NumPy array; `Table`; or the path of a CSV file (also ``.gz``, ``.bz2`` or ``.zst``),
        a Parquet file or folder, an Arrow or Feather file.
    needed : sequence of str, optional
        Columns to keep, by default all. Without any the table still knows how many rows there are.
    columns : sequence of str, optional
        Names for what has none: the columns of a 2-D array (default ``x0``, ``x1``, ...), of a frame that
        has numbers in their place (default these), or of a CSV file without header.
    header : bool
        Whether the first line of a CSV file holds the names.
    sep : str
        Separator of a CSV file, one character.

    Returns
    -------
    Table
        CSV columns are text, whatever they hold, so that types do not depend on the data.

    Raises
    ------
    SchemaError
        If the data cannot be read, is ragged, or lacks a needed column. The message names the
        argument and the rule and never quotes a cell.
    """
    data = whole_table(data)
    if isinstance(data, Table):
        table = data
    elif isinstance(data, str | os.PathLike):
        table = Table(read_file(data, needed, TextForm(columns, header, sep)))
    elif isinstance(data, Mapping):
        _check_indexes(data if needed is None else {name: data[name] for name in needed if name in data})
        table = Table([(name, _one_column(name, values)) for name, values in data.items()])
    elif isinstance(data, np.ndarray):
        table = _from_matrix(data, columns)
    else:
        table = _from_frame(data, needed, columns if _is_unnamed(data) else None)
    if needed is None:
        return table
    return Table([(name, table.values(name)) for name in dict.fromkeys(needed)], table.n_rows)


def whole_table(data: Any) -> Any:
    """Return a record batch of Arrow as a table, a matrix of NumPy as an array, all else as it is."""
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    return np.asarray(data) if isinstance(data, np.matrix) else data


def with_rows(table: Table) -> Table:
    """Return a table that is given for its rows, or raise `SchemaError` if it has none."""
    if table.n_rows == 0:
        raise SchemaError(NO_ROW)
    return table


def default_names(count: int) -> tuple[str, ...]:
    """Return ``x0``, ``x1``, ... as scikit-learn names columns without a name."""
    return tuple(f"x{k}" for k in range(count))


def names_in_memory(data: Any) -> list[str]:
    """Return the names of the columns of a table in memory; none for what has none, or lies elsewhere."""
    if isinstance(data, Table):
        given: Sequence[Any] = data.names
    elif isinstance(data, Mapping):
        given = list(data)
    else:
        frame = quietly(lambda: nw.from_native(whole_table(data), eager_only=True, pass_through=True), "")
        given = frame.columns if isinstance(frame, nw.DataFrame) else ()
    return [name for name in given if isinstance(name, str)]


def in_order(data: Any, names: Sequence[str]) -> bool:
    """Return whether a table in memory has these columns in this order; True for what has no names."""
    listed = [name for name in names_in_memory(data) if name in set(names)]
    return not listed or listed == list(names)


def names_of_array(
    argument: str, data: Any, names: Sequence[str], *, ordered: bool = True
) -> Sequence[str] | None:
    """Return the names of the columns of what has none of its own, None for tables.

    That is a plain array, or a frame with numbers in place of names if `default_names` are looked for: it was
    fitted as an array. None, too, where no column is needed: an array of any width has rows to count.

    Parameters
    ----------
    argument : str
        What the caller calls it.
    data : object
    names : sequence of str
        What is needed, in the order in which an array has it.
    ordered : bool
        Whether that is the order of the table that was fitted.

    Raises
    ------
    SchemaError
        If it has another number of columns, or its order cannot be known.
    """
    as_array = _is_unnamed(data) and tuple(names) == default_names(len(names))
    if not names or not (isinstance(data, np.ndarray) or as_array):
        return None
    if data.ndim == 2 and data.shape[1] != len(names):
        width = f"{data.shape[1]} column" + ("" if data.shape[1] == 1 else "s")
        raise SchemaError(
            f"{argument} has {width}; an array needs one for each of the {len(names)} predictors, in this "
            f"order: {_listed(names)}"
        )
    if not ordered:
        raise SchemaError(
            f"{argument} is an array, whose columns have no names, and the table that was fitted had them in "
            f"another order than the schema; pass a data frame or a mapping of {_listed(names)}"
        )
    return names


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"


def are_numbers(names: Iterable[object]) -> bool:
    """Return whether columns have numbers for names, as pandas gives to what is made from an array."""
    given = list(names)
    return bool(given) and all(isinstance(name, int) for name in given)


def _is_unnamed(data: Any) -> bool:
    """Return whether a frame has numbers for names."""
    return nw.dependencies.is_pandas_dataframe(data) and are_numbers(data.columns)


def _check_indexes(columns: Mapping[Any, Any]) -> None:
    """Refuse series of pandas whose labels are not the same: their cells are read by position."""
    indexes = [values.index for values in columns.values() if nw.dependencies.is_pandas_series(values)]
    message = "columns have different indexes; pass a DataFrame, which aligns them"
    if not quietly(lambda: all(index.equals(indexes[0]) for index in indexes[1:]), message):
        raise SchemaError(message)


def _from_matrix(data: NDArray[Any], columns: Sequence[str] | None) -> Table:
    if data.ndim != 2:
        raise SchemaError(f"data must be a table or a 2-D array, got an array of {data.ndim} dimension(s)")
    names = default_names(data.shape[1]) if columns is None else _for_each(data.shape[1], columns)
    cells = unmasked(data)
    return Table([(name, cells[:, k]) for k, name in enumerate(names)])


def _for_each(count: int, columns: Sequence[str]) -> tuple[str, ...]:
    if len(columns) != count:
        raise SchemaError(f"columns must name all {count} columns of the array, got {len(columns)}")
    return tuple(columns)


def refuse_repeated_names(argument: str, data: Any) -> None:
    """Raise for a frame with two columns of one name."""
    names: list[object] = []
    if nw.dependencies.is_pandas_dataframe(data):
        names = [name for name in data.columns if isinstance(name, str)]
    elif nw.dependencies.is_pyarrow_table(data):
        names = data.column_names
    if len(set(names)) < len(names):
        raise SchemaError(f"{argument} has two columns of the same name; rename one")


def _from_frame(data: object, needed: Sequence[str] | None, columns: Sequence[str] | None) -> Table:
    refuse_repeated_names("data", data)
    names, series = quietly(
        lambda: _named_series(data),
        f"data of type {type(data).__name__} cannot be read; pass a pandas, polars or Arrow table in "
        "memory with distinct column names (by collect(), to_table(), read_all(), or df() of DuckDB), "
        "a mapping of arrays, a 2-D array or a path",
    )
    names = names if columns is None else _for_each(len(names), columns)
    keep = set(present(names, needed))
    kept = [(name, one) for name, one in zip(names, series, strict=True) if name in keep]
    cells: list[Any] = [None] * len(kept)

    def read(k: int) -> None:
        cells[k] = kept[k][0], _named(*kept[k])

    each_part(read, len(kept))
    return Table(cells)


def _named_series(data: Any) -> "tuple[list[str], list[nw.Series[Any]]]":
    frame = nw.from_native(data, eager_only=True)
    names = [name if isinstance(name, str) else _number_name(name) for name in frame.columns]
    return names, list(frame.iter_columns())


def _number_name(name: object) -> str:
    if isinstance(name, int):
        return str(name)
    raise SchemaError(NOT_TEXT)


def _named(name: str, series: "nw.Series[Any]") -> ColumnValues:
    with naming(name):
        return _series(series)


def _series(series: "nw.Series[Any]") -> ColumnValues:
    """Return the cells without a guess at the type of Python objects."""
    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return native
    dtype = getattr(native, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufc":
        return np.asarray(native)  # as they lie in memory; complex numbers are refused by their type
    if dtype == np.dtype(object) or series.dtype == nw.Object:
        return np.asarray(native, dtype=object)  # narwhals' own type for these depends on the first cells
    try:
        return series.to_arrow()
    except Exception:  # its message may quote cells
        message = f"has the type {series.dtype}, which cannot be read; convert it first"
        return quietly(lambda: np.asarray(native, dtype=object), message)


def single_column(name: str, values: Any) -> ColumnValues:
    """Return the cells of a column that is given by itself, one for each row, as those of a table are read.

    Parameters
    ----------
    name : str
        Of the argument.
    values : array, series, Arrow array, list, or a table or 2-D array of one column

    Raises
    ------
    SchemaError
        If there is more than one column, or the type holds no cells.
    """
    message = f"{name} must be one-dimensional, with one entry for each row"
    if getattr(values, "ndim", 1) == 2 or hasattr(values, "columns"):
        single = quietly(lambda: open_table(values), message)
        if len(single.names) != 1:
            raise SchemaError(message)
        return single.values(single.names[0])
    if getattr(values, "ndim", 1) != 1:
        raise SchemaError(message)
    return quietly(lambda: _one_column(name, values), message)


def _one_column(name: object, values: object) -> ColumnValues:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    values = unmasked(values)
    dtype = getattr(values, "dtype", None)
    if dtype is not None and not isinstance(dtype, np.dtype):  # a pandas or polars series
        with_arrow = nw.from_native(values, series_only=True, pass_through=True)
        if isinstance(with_arrow, nw.Series):
            return _series(with_arrow)
    message = f"column {name!r} cannot be read; pass an array or a list with one cell per row"
    if dtype is not None or hasattr(values, "__array__"):
        return quietly(lambda: np.asarray(values), message)
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise SchemaError(message)
    # The type that NumPy would give a list depends on its cells; a column of objects is read cell by cell.
    return quietly(lambda: np.fromiter(values, dtype=object), message)
