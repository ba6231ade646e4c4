"""Read Parquet files and folders part by part, so that no part decides how the cells of another are read."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from privfit.data.columns import ColumnValues, Parts, as_text, holds_numbers, is_text
from privfit.data.names import distinct, present
from privfit.data.objects import spelled_each, text_of_bytes
from privfit.errors import SchemaError

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What the name of a folder says of rows whose cell is missing."""


def read_parquet(file: Path, needed: Sequence[str] | None) -> list[tuple[str, ColumnValues]]:
    """Return the columns of a Parquet file or folder.

    The type of a part may be decided by one of its cells, as pandas writes numbers with a missing cell, or
    text that looks like numbers. So each part is read with its own types, and what they say beyond numbers
    and text decides nothing: not how cells of another part are spelled, and not whether a fit is refused.

    Parameters
    ----------
    file : path
    needed : sequence of str or None
        Columns to read; None for all of the first part.

    Raises
    ------
    SchemaError
        If there is no Parquet file, or a part lacks a column.
    """
    tables = [scanner.to_table() for scanner in _scanners(_parts(file), needed)]
    return [(name, _joined([table.column(name) for table in tables])) for name in tables[0].column_names]


def parquet_batches(file: Path, needed: Sequence[str] | None, **options: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches, whose cells are those of `read_parquet`.

    Parameters
    ----------
    file, needed
        As for `read_parquet`.
    **options
        Of `pyarrow.dataset.Fragment.scanner`.
    """
    parts = _parts(file)
    for scanner in _scanners(parts, needed, **options):
        for batch in scanner.to_batches():
            columns = batch.columns if len(parts) == 1 else [_readable(one) for one in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def parquet_files(file: Path) -> list[Path]:
    """Return the files that are read of a Parquet file or folder, behind links, too."""
    return [Path(part.fragment.path) for part in _parts(file)]


def _scanners(
    parts: Sequence["_Part"], needed: Sequence[str] | None, **options: Any
) -> Iterator[pads.Scanner]:
    """Yield what reads each part.

    Nothing is converted to the types of the first part: that may fail, and whether it does depends on cells.
    What names of folders say of a part comes before what the part itself says.
    """
    said = dict.fromkeys(name for part in parts for name in part.texts)
    others = [name for name in parts[0].fragment.physical_schema.names if name not in said]
    names = present(distinct([*others, *said]), needed)
    for part in parts:
        own = [name for name in part.fragment.physical_schema.names if name not in part.texts]
        for name in names if needed is None else needed:
            if name not in own and name not in part.texts:
                raise SchemaError(f"column {name!r} is not in every part of the folder; add it to all")
        texts = {name: pc.scalar(pa.scalar(part.texts.get(name), pa.string())) for name in names}
        columns = {name: pc.field(name) if name in own else texts[name] for name in names}
        yield part.fragment.scanner(columns=columns, **options)


def _joined(parts: list[pa.ChunkedArray]) -> ColumnValues:
    """Return the cells of a column; in parts if their types differ and some are numbers."""
    if len(parts) == 1:
        return parts[0]
    readable = [_readable(part) for part in parts]
    if len({part.type for part in readable}) == 1:
        return pa.chunked_array([chunk for part in readable for chunk in _chunks(part)], readable[0].type)
    if not any(holds_numbers(part) for part in readable):
        return pa.chunked_array([as_text(part) for part in readable], pa.large_string())
    return Parts(readable)


def _readable(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return numbers and text as they are, and the text of what is of another type."""
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if holds_numbers(cells) or is_text(kind) or pa.types.is_null(kind):
        return cells
    try:
        return as_text(cells)
    except SchemaError:  # lists and the like: what they are among Python objects
        return spelled_each(cells)


def _chunks(cells: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]


@dataclass(frozen=True, slots=True)
class _Part:
    """A file, and the cells that the names of its folders say, the same in all of its rows."""

    fragment: Any
    texts: Mapping[str, str | None]


def _parts(file: Path) -> list[_Part]:
    """Return the parts of a Parquet file or folder.

    Names of folders are cells, so they are text: a type that is guessed from all of them would be decided by
    a single one, and one that decodes to no text would make all of them unreadable.
    """
    dataset = pads.dataset(file, format="parquet")
    if not dataset.files:
        raise SchemaError(
            f"data folder {str(file)!r} holds no Parquet file; pass the path of a folder that does"
        )
    return [_Part(part, _texts(os.path.relpath(part.path, file))) for part in dataset.get_fragments()]


def _texts(path: str) -> dict[str, str | None]:
    """Return what the names of the folders of a path say, that of the first where names repeat."""
    said = [folder.split("=", 1) for folder in Path(path).parts[:-1] if "=" in folder]
    return {_decoded(name): None if text == _NULL else _decoded(text) for name, text in reversed(said)}


def _decoded(text: str) -> str:
    """Return the text that a name stands for; bytes that are no text are spelled out one by one."""
    return text_of_bytes(unquote_to_bytes(text.encode("utf-8", "surrogatepass")))
