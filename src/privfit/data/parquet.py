"""Read Parquet files and folders part by part, so that no part decides how the cells of another are read."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads

from privfit.data.columns import ColumnValues
from privfit.data.names import distinct, present
from privfit.errors import SchemaError


def scanners(file: Path, needed: Sequence[str] | None, **options: Any) -> Iterator[pads.Scanner]:
    """Yield what reads each part of a Parquet file or folder, with the types of the part.

    The type of a part may be decided by one of its cells, as pandas writes numbers with a missing cell, or
    text that looks like numbers. Nothing is converted to the types of the first part: that may fail, and
    whether it does depends on cells, too.

    Parameters
    ----------
    file : path
    needed : sequence of str or None
        Columns to read; None for all of the first part.
    **options
        Of `pyarrow.dataset.Fragment.scanner`.

    Raises
    ------
    SchemaError
        If there is no Parquet file, or a column is missing.
    """
    dataset = _dataset(file)
    names = present(distinct(dataset.schema.names), needed)
    folders = set(_folder_names(dataset))
    for part in dataset.get_fragments():
        own = part.physical_schema
        fields = [
            field if field.name in folders or field.name not in own.names else own.field(field.name)
            for field in dataset.schema
        ]
        yield part.scanner(schema=pa.schema(fields), columns=names, **options)


def read_parquet(file: Path, needed: Sequence[str] | None) -> list[tuple[str, ColumnValues]]:
    """Return the columns of all parts; see `scanners`."""
    parts = [scanner.to_table() for scanner in scanners(file, needed)]
    return [(name, _joined([part.column(name) for part in parts])) for name in parts[0].column_names]


def _joined(parts: list[pa.ChunkedArray]) -> ColumnValues:
    """Return the cells of a column; as Python objects, which are read one by one, if types differ."""
    if len({part.type for part in parts}) == 1:
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], parts[0].type)
    return np.fromiter((cell for part in parts for cell in part.to_pylist()), dtype=object)


def _dataset(file: Path) -> pads.Dataset:
    """Return a Parquet file or folder, in which what names of folders say is text.

    Their names are cells: a type that is guessed from all of them would be decided by a single one.
    """
    guessed = pads.dataset(file, format="parquet", partitioning="hive")
    if not guessed.files:
        raise SchemaError(
            f"data folder {str(file)!r} holds no Parquet file; pass the path of a folder that does"
        )
    names = _folder_names(guessed)
    if not names:
        return guessed
    texts = pa.schema([(name, pa.string()) for name in names])
    return pads.dataset(file, format="parquet", partitioning=pads.partitioning(texts, flavor="hive"))


def _folder_names(dataset: pads.Dataset) -> list[str]:
    """Return the columns that names of folders hold."""
    keys = [pads.get_partition_keys(part.partition_expression) for part in dataset.get_fragments()]
    return list(dict.fromkeys(name for found in keys for name in found))
