"""Layouts of declared columns, and rows of a table written out."""

from collections.abc import Callable, Sequence

import numpy as np

from privfit._checks import FloatArray
from privfit.data.coded import CodedMatrix, Layout, Storage
from privfit.data.declarations import Column, NumericColumn
from privfit.data.tables import Table

BLOCK_ROWS = 2**16
"""Rows encoded or written out at a time, so that what is made on the way stays small."""


def layout_of(predictors: Sequence[Column], *, intercept: bool) -> Layout:
    """Return the layout of declared columns: numbers, and factors without their first level."""
    columns, place = [], int(intercept)
    for column in predictors:
        if isinstance(column, NumericColumn):
            columns.append(place)
        place += 1 if isinstance(column, NumericColumn) else len(column.levels) - 1
    return Layout(place, intercept, tuple(columns), plain=len(predictors) - len(columns))


def written_out(encode: Callable[[Table, Storage], CodedMatrix], table: Table, size: int) -> FloatArray:
    """Return all encoded columns, shape (n, size), some rows at a time."""
    x = np.empty((table.n_rows, size))
    for start in range(0, max(table.n_rows, 1), BLOCK_ROWS):  # types are looked at without rows, too
        rows = slice(start, start + BLOCK_ROWS)
        x[rows] = encode(table.part(rows), "float64").dense()
    return x
