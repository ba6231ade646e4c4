"""Read a file in batches of rows, whatever its size."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as pads
import pyarrow.ipc as paipc

from privfit.data.csv_text import TextForm
from privfit.data.files import (
    arrow_kind,
    csv_conversion,
    csv_form,
    csv_names,
    csv_text,
    form_of,
    guarded,
    read_arrow,
    sound,
)
from privfit.data.names import distinct, present
from privfit.data.parquet import parquet_batches

_UNBUFFERED = pads.ParquetFragmentScanOptions(pre_buffer=False)
"""Without it, all that is to be read of a file is in memory at once."""


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """How much is read at once.

    Parameters
    ----------
    rows : int
        Of a Parquet or Arrow file, at most.
    text_bytes : int
        Of a CSV file; a single row must fit.
    """

    rows: int
    text_bytes: int


def read_batches(
    path: str | os.PathLike[str], needed: Sequence[str], text: TextForm, sizes: BatchSizes
) -> Iterator[pa.RecordBatch]:
    """Return the needed columns of a CSV, Parquet or Arrow file in batches, in the order of its rows.

    Raises
    ------
    SchemaError
        If the file cannot be read or lacks a needed column; the message quotes no cell.
    """
    file, shown = Path(path), repr(str(path))
    form = form_of(file)
    said = f"{form} with all columns in every row" if form == "CSV" else form
    batches = guarded(shown, said, lambda: iter(_open(file, shown, needed, text, sizes)))
    try:
        while (batch := guarded(shown, said, lambda: next(batches, None))) is not None:
            yield batch
    finally:
        pa.default_memory_pool().release_unused()  # Arrow keeps what it once held


def _open(
    file: Path, shown: str, needed: Sequence[str], text: TextForm, sizes: BatchSizes
) -> Iterable[pa.RecordBatch]:
    form = form_of(file)
    scanned = {
        "batch_size": sizes.rows,
        "batch_readahead": 1,
        "fragment_readahead": 1,
        "use_threads": False,
    }
    if form == "Arrow":
        kind = arrow_kind(file)
        if kind == "stream":
            return _stream_batches(file, needed, sizes.rows)
        if kind == "old file":  # mapped into memory as a whole
            return read_arrow(file, needed).to_batches(max_chunksize=sizes.rows)
        dataset = pads.dataset(file, format="feather")
        names = present(dataset.schema.names, needed)
        return map(sound, dataset.to_batches(columns=names, **scanned))
    if form != "CSV":
        return parquet_batches(file, needed, fragment_scan_options=_UNBUFFERED, **scanned)
    names, start = csv_names(file, shown, text)
    return pacsv.open_csv(
        csv_text(file, shown, start=start, sep=text.sep),
        read_options=pacsv.ReadOptions(
            column_names=names, skip_rows=1, block_size=sizes.text_bytes, use_threads=False
        ),
        parse_options=csv_form(names, text.sep),
        convert_options=csv_conversion(present(names, needed)),
    )


def _stream_batches(file: Path, needed: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(file)) as mapped, paipc.open_stream(mapped) as reader:
        names = present(distinct(reader.schema.names), needed)
        for batch in reader:
            for first in range(0, batch.num_rows, rows):
                yield sound(batch.slice(first, rows).select(names))
