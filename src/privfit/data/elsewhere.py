"""Recognise tables that are encoded where they lie, without importing what serves few of them."""

from typing import Any

from privfit.data.stores import AbstractRowStore
from privfit.errors import InvalidArgument


def is_dask(data: object) -> bool:
    """Return whether data is a collection of Dask, without importing it."""
    return type(data).__module__.partition(".")[0] == "dask"


def as_store(data: object, response: Any = None, columns: Any = None) -> AbstractRowStore | None:
    """Return data as a store of rows; None if it is none.

    Parameters
    ----------
    data : RowCache, or Dask DataFrame or array
    response : Dask series or array, optional
        The response, where it is not a column of ``data``.
    columns : sequence of str, optional
        Names of the columns of a Dask array.

    Raises
    ------
    InvalidArgument
        If one of both is Dask's, or the response of a file is not a column of it.
    """
    if isinstance(data, AbstractRowStore):
        if response is not None:
            raise InvalidArgument("y must be left out or the name of a column of the file")
        return data
    if not is_dask(data):
        if is_dask(response):
            raise InvalidArgument("y is Dask's and X is not; compute y, or pass both as Dask collections")
        return None
    from privfit.data.dask_tables import DaskTable  # noqa: PLC0415 -- an extra, and long to import

    return DaskTable(data, response, columns)
