"""What workers do to bring all rows of a privacy unit to one partition: nothing here raises."""

import itertools
from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from privfit._checks import IntArray
from privfit.data.coded import stacked_rows
from privfit.data.partitions import EncodedRows, quiet
from privfit.data.shares import UngatheredShares


@quiet
def parted(group: tuple[EncodedRows, ...], count: int) -> tuple[EncodedRows, ...]:
    """Return the rows of partitions in so many parts; units that are alike in a digest are in one part."""
    rows = _joined(group)
    place = _ungathered(rows).keys[:, 0] % np.uint64(count)
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(count + 1, dtype=np.uint64))
    return tuple(_picked(rows, order[first:last]) for first, last in itertools.pairwise(ends))


@quiet
def part_of(parts: tuple[EncodedRows, ...], place: int) -> EncodedRows:
    """Return one of these parts."""
    return parts[place]


@quiet
def gathered(*parts: EncodedRows) -> tuple[EncodedRows, ...]:
    """Return one partition of the rows of these parts, which hold all rows of the units in them."""
    rows = _joined(parts)
    return (EncodedRows(rows.x, rows.y, rows.offset, _ungathered(rows).gathered()),)


def _ungathered(rows: EncodedRows) -> UngatheredShares:
    assert isinstance(rows.shares, UngatheredShares)  # noqa: S101 -- for type checkers
    return rows.shares


def _picked(rows: EncodedRows, wanted: IntArray) -> EncodedRows:
    offset = None if rows.offset is None else rows.offset[wanted]
    return EncodedRows(rows.x[wanted], rows.y[wanted], offset, _ungathered(rows).picked(itemgetter(wanted)))


def _joined(parts: Iterable[EncodedRows]) -> EncodedRows:
    """Return the rows of parts one after the other."""
    some = list(parts)
    offsets = [rows.offset for rows in some if rows.offset is not None]
    return EncodedRows(
        stacked_rows([rows.x for rows in some]),
        np.concatenate([rows.y for rows in some]),
        np.concatenate(offsets) if offsets else None,
        UngatheredShares.joined([_ungathered(rows) for rows in some]),
    )
