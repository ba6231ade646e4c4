"""Layouts of declared columns, and rows of a table written out."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from privfit._checks import FloatArray
from privfit._threads import each_part, thread_count
from privfit.data.coded import CodedMatrix, Layout, Storage
from privfit.data.declarations import Column, NumericColumn
from privfit.data.tables import Table

BLOCK_ROWS = 2**19
"""Rows encoded or written out at a time at most, so that what is made on the way stays small."""

_ALONE = 2**15
"""Rows up to which one thread has done all before others have begun."""


def layout_of(predictors: Sequence[Column], *, intercept: bool) -> Layout:
    """Return the layout of declared columns: numbers, and factors without their first level."""
    columns, place = [], int(intercept)
    for column in predictors:
        if isinstance(column, NumericColumn):
            columns.append(place)
        place += 1 if isinstance(column, NumericColumn) else len(column.levels) - 1
    return Layout(place, intercept, tuple(columns), plain=len(predictors) - len(columns))


Fill: TypeAlias = Callable[[CodedMatrix, Table], None]
"""``fill(x, table)`` sets the rows of ``x``, which has as many as the table, from its cells."""


def coded_rows(fill: Fill, layout: Layout, table: Table, storage: Storage) -> CodedMatrix:
    """Return the rows of a table by code, some rows at a time."""
    x = CodedMatrix.empty(layout, table.n_rows, storage)
    _each_block(lambda rows: fill(x[rows], table.part(rows)), table.n_rows)
    return x


def written_out(fill: Fill, layout: Layout, table: Table) -> FloatArray:
    """Return all encoded columns, shape (n, layout.size), some rows at a time."""
    x = np.empty((table.n_rows, layout.size))

    def write(rows: slice) -> None:
        part = table.part(rows)
        coded = CodedMatrix.empty(layout, part.n_rows)
        fill(coded, part)
        coded.write_out(x[rows])

    _each_block(write, table.n_rows)
    return x


def _each_block(work: Callable[[slice], None], n_rows: int) -> None:
    """Call ``work(rows)`` for every block of some rows, for no rows once, on several threads.

    Threads wait for each other between what they do to a block, so that there are as few as possible, and as
    many for each thread.
    """
    blocks = -(-n_rows // BLOCK_ROWS)
    if n_rows > _ALONE:
        blocks = -(-blocks // thread_count()) * thread_count()
    length = -(-n_rows // max(blocks, 1))

    def one(k: int) -> None:
        with np.errstate(all="ignore"):  # a warning would depend on cells, and threads have their own state
            work(slice(k * length, (k + 1) * length))

    each_part(one, max(blocks, 1))  # types are looked at without rows, too
