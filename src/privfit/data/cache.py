"""Files larger than memory: encoded once, block by block, into compact files that a fit maps."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias, final

import numpy as np

from privfit.data.batches import BatchSizes, read_batches
from privfit.data.blocks import CodedBlock
from privfit.data.cache_files import Draft, Parts, drafted, in_folder, read_facts, verified
from privfit.data.clamp import Weighting, influence_weights
from privfit.data.coded import CodedMatrix, Layout, Storage
from privfit.data.csv_text import TextForm
from privfit.data.encode import AbstractEncoder
from privfit.data.files import existing, form_of, guarded
from privfit.data.gathering import GatheredUnits, UnitGathering
from privfit.data.parquet import parquet_files
from privfit.data.room import OnDisk
from privfit.data.shares import ALIKE, RowShares, ShareRule
from privfit.data.source import ArraySource, share_out
from privfit.data.stores import AbstractRowStore, AbstractStoredRows
from privfit.data.tables import Table
from privfit.errors import InvalidArgument, SchemaError

_ENCODING = 10
"""Version of the files and of what encoders make of cells. Raise it whenever either changes."""

_Version: TypeAlias = tuple[str, str, int, int, int]
"""Names of a file, as it is read and behind links, its inode, size and time of change."""

_SIZES = BatchSizes(rows=1 << 15, text_bytes=1 << 22)


@final
class RowCache(AbstractRowStore):
    """A file of rows that need not fit in memory, for any fit with a schema.

    Rows are encoded block by block into compact columnar files, numbers and integer codes. Every pass of the
    fit maps these into memory, a part at a time.

    Parameters
    ----------
    path : path
        A CSV file (also ``.gz``, ``.bz2`` or ``.zst``), a Parquet file or folder, an Arrow or Feather file.
    folder : path, optional
        Where encoded rows are kept for later fits with the same formula and schema; it is made if it is not
        there. By default they are in a temporary folder (``TMPDIR``) and have no name there any more once the
        fit has begun, so that they end with it.
    storage : {"float32", "float64"}
        Type in which numbers are kept. Rows are bounded as they are kept, and what is computed with numbers
        is computed in float64.
    columns : sequence of str, optional
        Names of the columns of a CSV file without header.
    header : bool
        Whether the first line of a CSV file holds the names.
    sep : str
        Separator of a CSV file, one character.

    Notes
    -----
    *The folder holds private rows.* Its files are readable for the owner alone (mode 0600, folders 0700).
    Treat it as the data, and delete it when you no longer need it. Fits that learn bounds anew
    (``scale="private"``) have rows of their own; `privfit.learn_bounds` once serves several fits.

    *Guarantee.* A cache comes into use only when all of it is on the disk: it is written aside and renamed.
    What an interrupted run leaves aside is deleted by the next one. A cache that is found is used if the
    files that are read (path, inode, size and time of change, behind links, too), schema, formula, options
    and version of the encoding are the same and its checksums hold, and is made anew otherwise.

    Examples
    --------
    >>> import privfit as pf
    >>> rows = pf.RowCache("visits.parquet")
    >>> result = pf.logit("readmitted ~ age + C(ward)", rows, schema=schema)  # doctest: +SKIP
    """

    __slots__ = ("_folder", "_path", "_storage", "_text")

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        folder: str | os.PathLike[str] | None = None,
        storage: Storage = "float32",
        columns: tuple[str, ...] | list[str] | None = None,
        header: bool = True,
        sep: str = ",",
    ) -> None:
        if storage not in ("float64", "float32"):
            raise InvalidArgument("storage must be 'float64' or 'float32'")
        if not isinstance(path, str | os.PathLike):
            raise InvalidArgument("path must be the path of a file or of a Parquet folder")
        if not isinstance(folder, str | os.PathLike | None):
            raise InvalidArgument("folder must be the path of a folder")
        within = folder is not None and Path(folder).resolve().is_relative_to(Path(path).resolve())
        if within and Path(path).is_dir():
            raise InvalidArgument(f"folder {str(folder)!r} is within the data; keep the cache elsewhere")
        self._path, self._folder = Path(path), None if folder is None else Path(folder)
        self._storage: Storage = storage
        self._text = TextForm(columns, header, sep)

    def __repr__(self) -> str:
        return f"RowCache({str(self._path)!r})"

    def rows(
        self,
        encoder: AbstractEncoder,
        *,
        norm_bound: float,
        weighting: Weighting = influence_weights,
        storage: Storage = "float64",
        shares: ShareRule = ALIKE,
    ) -> "CachedRows":
        """Return the encoded and bounded rows, from the cache if it holds them, in the type of its files.

        Raises
        ------
        SchemaError
            If the file cannot be read or encoded, or changes meanwhile, or the folder cannot be written.
        """
        del storage
        versions = self._versions()
        key = self._key(versions, encoder, norm_bound, weighting, shares)
        folder = self._folder or Path(in_folder(lambda: tempfile.mkdtemp(prefix="privfit-")))
        try:
            place = folder / f"{key}.rows"
            if not verified(place):
                with drafted(place) as draft:
                    self._write(draft, encoder, norm_bound, weighting, shares)
                    if self._versions() != versions:
                        raise SchemaError(
                            f"data file {str(self._path)!r} changed while it was read; run again"
                        )
            room = OnDisk(self._folder)
            return in_folder(lambda: CachedRows.mapped(place, norm_bound, room, shares))
        finally:
            if self._folder is None:
                shutil.rmtree(folder, ignore_errors=True)

    def _versions(self) -> list[_Version]:
        """Return the states of the files that are read."""
        file = existing(self._path)
        return guarded(repr(str(file)), form_of(file), lambda: _versions(file))

    def _key(
        self,
        versions: list[_Version],
        encoder: AbstractEncoder,
        norm_bound: float,
        weighting: Weighting,
        shares: ShareRule,
    ) -> str:
        """Return what names the encoded rows: everything that they are a function of."""
        described = (
            [_ENCODING, self._storage, norm_bound.hex(), weighting.__name__, encoder.identity, encoder.read],
            asdict(self._text),
            shares.identity,
            versions,
        )
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]

    def _write(
        self,
        draft: Draft,
        encoder: AbstractEncoder,
        norm_bound: float,
        weighting: Weighting,
        shares: ShareRule,
    ) -> None:
        n_rows, layout, n_units = 0, encoder.layout, 0
        with contextlib.ExitStack() as until:
            units = None if shares.unit is None else until.enter_context(UnitGathering(shares, draft.folder))
            for table in self._tables(shares.beside(encoder.read)):
                with np.errstate(all="ignore"):  # a warning would depend on cells
                    known = shares.shares_of(table) if units is None else None
                    y, offset = encoder.encode_response(table)
                    x = encoder.encode_coded(table, self._storage)
                source = ArraySource(
                    x, y, norm_bound=norm_bound, weighting=weighting, shares=known, offset=offset
                )
                block = source.bounded
                assert isinstance(block, CodedBlock)  # noqa: S101 -- as its rows are
                layout, n_rows = block.x.layout, n_rows + block.y.size
                _add_rows(draft, block, counted=units is None)
                if units is not None:
                    units.add(table, block.weight > 0.0)
            if units is not None:
                n_units = _add_shares(draft, units.numbered())
        draft.finish(
            {
                "n_rows": n_rows,
                "n_units": n_rows if shares.unit is None else n_units,
                "layout": asdict(layout),
                "storage": self._storage,
                "exposed": encoder.design.target.exposure is not None,
            }
        )

    def _tables(self, names: tuple[str, ...]) -> Iterator[Table]:
        """Return these columns of the file, some rows at a time."""
        for batch in read_batches(self._path, names, self._text, _SIZES):
            if batch.num_rows:
                yield Table.from_arrow(batch)


def _add_rows(draft: Draft, block: CodedBlock, *, counted: bool) -> None:
    """Add rows to the files, and how much they count where that is known."""
    parts = {"numbers": block.x.numbers, "codes": block.x.codes, "y": block.y}
    if block.offset is not None:
        parts["offset"] = block.offset
    if not counted:
        parts["influence"] = block.weight
    elif block.parts is None:
        parts["weight"] = block.weight
    else:
        parts |= {"weight": block.weight, "influence": block.influence, "share": block.share}
    draft.add(**parts)


def _add_shares(draft: Draft, units: GatheredUnits) -> int:
    """Add how much the rows count that are in the files, and return the number of units."""
    float_type, n_rows = np.dtype(np.float64), units.factor.size
    influence = units.room.mapped(draft.written(Parts.INFLUENCE), float_type, 1, n_rows)[:, 0]
    for rows, unit, share in units.shares():
        weight = np.empty(share.size)
        share_out(influence[rows], share, weight)
        draft.add(unit=unit, share=share, weight=weight)
    return units.sizes.size


def _versions(path: Path) -> list[_Version]:
    """Return what changes with the files that are read: names as read and behind links, and their states."""
    names = sorted(parquet_files(path)) if path.is_dir() else [path]
    stats = [(os.path.relpath(name, path.parent), str(name.resolve()), name.stat()) for name in names]
    return [(name, place, stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, place, stat in stats]


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CachedRows(AbstractStoredRows):
    """Encoded and bounded rows in mapped files."""

    block: CodedBlock
    norm_bound: float
    room: OnDisk
    shares: RowShares | None

    @classmethod
    def mapped(cls, place: Path, norm_bound: float, room: OnDisk, shares: ShareRule) -> "CachedRows":
        """Map the files of a published cache."""
        facts = read_facts(place)
        described = facts["layout"]
        layout = Layout(**{**described, "columns": tuple(described["columns"])})
        n_rows, n_units = facts["n_rows"], facts["n_units"]
        shared, grouped, exposed = not shares.plain, shares.unit is not None, int(facts["exposed"])
        numbers, codes, y, weight, influence, share, unit, offset = (
            room.mapped(place / name, dtype, width, n_rows)
            for name, dtype, width in (
                (Parts.NUMBERS, np.dtype(facts["storage"]), layout.n_numbers),
                (Parts.CODES, layout.code_type, layout.n_codes),
                (Parts.Y, np.dtype(np.float64), 1),
                (Parts.WEIGHT, np.dtype(np.float64), 1),
                (Parts.INFLUENCE, np.dtype(np.float64), int(shared)),
                (Parts.SHARE, np.dtype(np.float64), int(shared)),
                (Parts.UNIT, np.dtype(np.int64), int(grouped)),
                (Parts.OFFSET, np.dtype(np.float64), exposed),
            )
        )
        block = CodedBlock(
            CodedMatrix(layout, numbers, codes),
            y[:, 0],
            weight[:, 0],
            (influence[:, 0], share[:, 0]) if shared else None,
            offset=offset[:, 0] if exposed else None,
        )
        whose = unit[:, 0] if grouped else None
        known = RowShares(shares, share[:, 0], whose, n_units) if shared else None
        return cls(block, norm_bound, room, known)

    def __repr__(self) -> str:
        return "CachedRows(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("a cache holds private rows and cannot be pickled")

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.block.y.size

    @property
    def n_units(self) -> int:
        """Number of privacy units."""
        return self.n_rows if self.shares is None else self.shares.n_units

    def source(self, *, norm_bound: float, storage: Storage = "float64") -> ArraySource:
        """Return the rows as a source, in the type of the files.

        Raises
        ------
        InvalidArgument
            If they were bounded by another number.
        """
        del storage
        if norm_bound != self.norm_bound:
            raise InvalidArgument("the cache was made for another bound on rows")
        return ArraySource.of_bounded(self.block, self.norm_bound, self.room, self.shares)
