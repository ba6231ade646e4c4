"""Which privacy unit each row of a file belongs to, told apart on the disk.

A dictionary of all identifiers may not fit in memory where the rows do not. Digests of them are put apart in
files, by their first bits, each of which is sorted by itself; what stays in memory is a few numbers a unit.
"""

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit.data.identifiers import NOBODY, Keys, new_salt, told_apart
from privfit.data.room import OnDisk
from privfit.data.shares import ShareRule
from privfit.data.tables import Table

_BITS = 7
"""First bits of a digest: there is a file for each of their values."""

_ROWS = 1 << 18
"""Rows that are looked at together once all are there."""

_ENTRY = 24
"""Bytes of a row in these files: its number, and the digest of its identifier."""

_SPREAD = _ROWS >> _BITS
"""Rows of a file that are as far apart."""


@final
class UnitGathering:
    """Rows that arrive some at a time, whose shares are known once all are there.

    Parameters
    ----------
    rule : ShareRule
        With a unit.
    folder : Path
        Where files are made while it lasts; they have no name there. It holds identifiers as digests.
    """

    __slots__ = ("_factors", "_files", "_folder", "_n_rows", "_open", "_rule", "_salt")

    def __init__(self, rule: ShareRule, folder: Path) -> None:
        self._rule, self._folder, self._salt, self._n_rows = rule, folder, new_salt(), 0
        self._open = contextlib.ExitStack()
        self._files = [self._file() for _ in range(1 << _BITS)]
        self._factors = self._file()

    def __repr__(self) -> str:
        return "UnitGathering(<private rows>)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def add(self, table: Table, usable: NDArray[np.bool_]) -> None:
        """Take note of rows, of which ``usable`` says which can count at all."""
        shares = self._rule.ungathered(table, self._salt)
        self._factors.write(np.where(usable, shares.factor, 0.0).tobytes())
        known = np.flatnonzero(shares.keys.any(axis=1))
        self._put_apart(self._n_rows + known, shares.keys[known])
        self._n_rows += usable.size

    def numbered(self) -> "GatheredUnits":
        """Return the units of all rows, numbered in the order of their first rows as those in memory are."""
        room = OnDisk(self._folder)
        unit, factor = (room.new(self._n_rows) for _ in range(2))
        unit = unit.view(np.int64)
        rank = self._told_apart(unit, room)
        sizes = np.zeros(rank.size, dtype=np.int64)
        self._factors.seek(0)
        for rows in _stretches(self._n_rows):
            factor[rows] = np.frombuffer(self._factors.read(8 * factor[rows].size))
            known = unit[rows] != NOBODY
            unit[rows][known] = rank[unit[rows][known]]
            factor[rows][~known] = 0.0
            np.add.at(sizes, unit[rows][factor[rows] > 0.0], 1)
            room.leave(rows)
        return GatheredUnits(self._rule, room, unit, factor, sizes)

    def _told_apart(self, unit: IntArray, room: OnDisk) -> IntArray:
        """Give the units of rows numbers, and return the places of these by order of appearance."""
        for rows in _stretches(unit.size):
            unit[rows] = NOBODY
            room.leave(rows)
        firsts = [np.empty(0, dtype=np.int64)]
        count = 0
        for file in self._files:
            before = count
            for row, whose, first in _units_in(file):
                for some in range(0, row.size, _SPREAD):  # a few of its rows are in any page of memory
                    part = slice(some, some + _SPREAD)
                    unit[row[part]] = before + whose[part]
                    room.leave(slice(int(row[part][0]), int(row[part][-1]) + 1))
                firsts.append(first)
                count += first.size
        rank = np.empty(count, dtype=np.int64)
        rank[np.argsort(np.concatenate(firsts))] = np.arange(count)
        return rank

    def _put_apart(self, rows: IntArray, keys: Keys) -> None:
        """Write the numbers of rows and their digests to the files that these belong to."""
        found = np.column_stack([rows.view(np.uint64), keys])
        place = keys[:, 0] >> np.uint64(64 - _BITS)
        order = np.argsort(place, kind="stable")
        ends = np.searchsorted(place[order], np.arange((1 << _BITS) + 1, dtype=np.uint64))
        found = found[order]
        for file, first, last in zip(self._files, ends[:-1], ends[1:], strict=True):
            file.write(found[first:last].tobytes())

    def _file(self) -> BinaryIO:
        return self._open.enter_context(tempfile.TemporaryFile(dir=self._folder))


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GatheredUnits:
    """Private: the units of all rows, in files.

    Parameters
    ----------
    rule : ShareRule
    room : OnDisk
        Where the arrays lie.
    unit, factor : array of shape (n,)
        Number of each row's unit, and what it would count by itself; 0 if it is not to count.
    sizes : array of shape (n_units,)
        How many rows of each unit count.
    """

    rule: ShareRule
    room: OnDisk
    unit: IntArray
    factor: FloatArray
    sizes: IntArray

    def shares(self) -> Iterator[tuple[slice, IntArray, FloatArray]]:
        """Return rows in their order, some at a time, with their units and shares."""
        for rows in _stretches(self.unit.size):
            unit, share = self.unit[rows].copy(), self.factor[rows].copy()
            counting = share > 0.0
            share[counting] = self.rule.divided(share[counting], self.sizes[unit[counting]])
            yield rows, unit, share
            self.room.leave(rows)


def _stretches(n_rows: int) -> Iterator[slice]:
    for first in range(0, n_rows, _ROWS):
        yield slice(first, min(first + _ROWS, n_rows))


def _units_in(file: BinaryIO) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield the numbers of the rows in a file, of the unit of each, and of the first rows of new units.

    Some rows at a time: few units may have all rows of a table, and then one file has.
    """
    known = np.empty((0, 2), dtype=np.uint64)
    file.seek(0)
    while piece := file.read(_ENTRY * _ROWS):
        found = np.frombuffer(piece, dtype=np.uint64).reshape(-1, 3)
        row, keys = np.ascontiguousarray(found[:, 0]).view(np.int64), np.concatenate([known, found[:, 1:]])
        codes, first = told_apart(keys)  # those that are known come first
        new = first >= len(known)
        number = np.where(new, len(known) - 1 + np.cumsum(new), first)
        yield row, number[codes[len(known) :]], row[first[new] - len(known)]
        known = np.concatenate([known, keys[first[new]]])
