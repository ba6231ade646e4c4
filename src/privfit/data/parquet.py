"""Read Parquet files and folders part by part, so that no part decides how the cells of another are read."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from numpy.typing import NDArray

from privfit.data.columns import ColumnValues, as_text, holds_numbers, is_text
from privfit.data.names import distinct, present
from privfit.data.objects import spelled_each, text_of_bytes
from privfit.errors import SchemaError


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
    parts = [scanner.to_table() for scanner in _scanners(_dataset(file), needed)]
    return [(name, _joined([part.column(name) for part in parts])) for name in parts[0].column_names]


def parquet_batches(file: Path, needed: Sequence[str] | None, **options: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches, whose cells are those of `read_parquet`.

    Parameters
    ----------
    file, needed
        As for `read_parquet`.
    **options
        Of `pyarrow.dataset.Fragment.scanner`.
    """
    dataset = _dataset(file)
    for scanner in _scanners(dataset, needed, **options):
        for batch in scanner.to_batches():
            columns = batch.columns if len(dataset.files) == 1 else [_readable(one) for one in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _scanners(dataset: pads.Dataset, needed: Sequence[str] | None, **options: Any) -> Iterator[pads.Scanner]:
    """Yield what reads each part.

    Nothing is converted to the types of the first part: that may fail, and whether it does depends on cells.
    """
    folders = _folder_names(dataset)
    said = dict.fromkeys(folders.values())
    others = [name for name in dataset.schema.names if name not in folders and name not in said]
    names = present(distinct([*others, *said]), needed)
    for part in dataset.get_fragments():
        own = part.physical_schema
        for name in names if needed is None else needed:
            if name not in said and name not in folders and name not in own.names:
                raise SchemaError(f"column {name!r} is not in every part of the folder; add it to all")
        fields = [
            field if field.name in folders or field.name not in own.names else own.field(field.name)
            for field in dataset.schema
        ]
        texts = {_decoded(name): _decoded(text) for name, text in _keys(part).items()}
        columns = {
            name: pc.scalar(pa.scalar(texts.get(name), pa.string())) if name in said else pc.field(name)
            for name in names
        }
        yield part.scanner(schema=pa.schema(fields), columns=columns, **options)


def _joined(parts: list[pa.ChunkedArray]) -> ColumnValues:
    """Return the cells of a column; as Python objects, which are read one by one, if some are numbers."""
    if len(parts) == 1:
        return parts[0]
    readable = [_readable(part) for part in parts]
    if len({part.type for part in readable}) == 1:
        return pa.chunked_array([chunk for part in readable for chunk in _chunks(part)], readable[0].type)
    if not any(holds_numbers(part) for part in readable):
        return pa.chunked_array([as_text(part) for part in readable], pa.large_string())
    return np.concatenate([_objects(part) for part in readable])


def _readable(cells: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return numbers and text as they are, and the text of what is of another type."""
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if holds_numbers(cells) or is_text(kind) or pa.types.is_null(kind):
        return cells
    try:
        return as_text(cells)
    except SchemaError:  # lists and the like: what they are among Python objects
        return spelled_each(cells)


def _objects(cells: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return Python numbers, or text."""
    found = np.empty(len(cells), dtype=object)
    found[:] = (cells if holds_numbers(cells) else as_text(cells)).to_pylist()
    return found


def _chunks(cells: pa.Array | pa.ChunkedArray) -> list[pa.Array]:
    return cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]


def _dataset(file: Path) -> pads.Dataset:
    """Return a Parquet file or folder, in which what names of folders say is text.

    Their names are cells: a type that is guessed from all of them would be decided by a single one, and one
    that decodes to no text would make all of them unreadable.
    """
    plain = pads.dataset(file, format="parquet")
    if not plain.files:
        raise SchemaError(
            f"data folder {str(file)!r} holds no Parquet file; pass the path of a folder that does"
        )
    below = (Path(os.path.relpath(path, file)) for path in plain.files)
    folders = (folder for path in below for folder in path.parts[:-1] if "=" in folder)
    names = dict.fromkeys(folder.split("=", 1)[0] for folder in folders)
    if not names:
        return plain
    texts = pa.schema([(name, pa.string()) for name in names])
    return pads.dataset(
        file, format="parquet", partitioning=pads.HivePartitioning(texts, segment_encoding="none")
    )


def _folder_names(dataset: pads.Dataset) -> dict[str, str]:
    """Return the columns that names of folders hold, as they are spelled there, and what they are called."""
    return {name: _decoded(name) or name for part in dataset.get_fragments() for name in _keys(part)}


def _keys(part: Any) -> dict[str, str | None]:
    """Return what the names of the folders of a part say, not decoded."""
    return pads.get_partition_keys(part.partition_expression)


def _decoded(text: str | None) -> str | None:
    """Return the text that a name stands for; bytes that are no text are spelled out one by one."""
    return None if text is None else text_of_bytes(unquote_to_bytes(text.encode("utf-8", "surrogatepass")))
