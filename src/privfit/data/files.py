"""Read tables from disk into Arrow memory. No message holds more than the path that the caller gave."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.feather as pafeather
import pyarrow.ipc as paipc

from privfit.data.columns import ColumnValues, quietly
from privfit.data.csv_text import MARK, CheckedText, TextForm, header_names, unpacked
from privfit.data.declarations import WHITESPACE
from privfit.data.names import distinct, present
from privfit.data.parquet import read_parquet
from privfit.errors import SchemaError

PARQUET_SUFFIXES = (".parquet", ".pq")
ARROW_SUFFIXES = (".arrow", ".feather", ".ipc", ".arrows")
_FOREIGN = (
    "xlsx xls xlsb ods json jsonl ndjson xml html dta sav sas7bdat xpt rds rdata orc avro "
    "pkl pickle npy npz h5 hdf5 nc db sqlite sqlite3 duckdb zip tar tgz 7z rar xz lzma gzip zstd"
)
FOREIGN_SUFFIXES = tuple(f".{kind}" for kind in _FOREIGN.split())
"""Kinds of files that are no text in columns, which all other suffixes are taken for: those of other
packages, archives, and ways of compression that are not unpacked."""

_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""How text is unpacked, by the suffix."""

Form: TypeAlias = Literal[
    "a folder of Parquet files and no others, with distinct names of columns",
    "Parquet with distinct names of columns",
    "Arrow",
    "CSV",
]
"""What a file is read as, in words."""

_T = TypeVar("_T")
_Rows = TypeVar("_Rows", pa.Table, pa.RecordBatch)

_BLOCK_BYTES = 1 << 24
"""Bytes that are parsed at once; a single row must fit."""

_HEADER_BYTES = 1 << 20
"""Bytes within which a header must end."""


ArrowKind: TypeAlias = Literal["file", "old file", "stream"]
"""With a footer, Feather of version 1, or the streaming form."""

_MARKS: dict[bytes, ArrowKind] = {b"ARROW1": "file", b"FEA1": "old file"}
"""What those begin with that are no streams."""


def read_file(
    path: str | os.PathLike[str], needed: Sequence[str] | None, text: TextForm
) -> list[tuple[str, ColumnValues]]:
    """Read a Parquet file or folder, an Arrow or Feather file, or a CSV file, by its suffix.

    Parameters
    ----------
    path : path
        Suffixes ``.parquet``, ``.pq`` and folders are Parquet, ``.arrow``, ``.arrows``, ``.feather`` and
        ``.ipc`` are Arrow, all others are CSV, where ``.gz``, ``.bz2``, ``.zst`` and ``.lz4`` are unpacked;
        those of workbooks, JSON and the like are refused.
    needed : sequence of str or None
        Columns to read; None for all.
    text : TextForm
        Of a CSV file.

    Returns
    -------
    list of (name, values)
        All columns of a CSV file are bytes, so that neither a type nor an error depends on a cell.

    Raises
    ------
    SchemaError
        If the file is absent, damaged or ragged, or lacks a needed column.
    """
    shown, file = repr(str(path)), existing(path)
    form = form_of(file)
    if form == "Arrow":
        return columns_of(guarded(shown, form, lambda: read_arrow(file, needed)))
    if form != "CSV":
        return guarded(shown, form, lambda: read_parquet(file, needed))
    return columns_of(_read_csv(file, shown, needed, text))


def existing(path: str | os.PathLike[str]) -> Path:
    """Return the path of data, or raise `SchemaError` if nothing is there or nobody may look."""
    file, shown = Path(path), repr(str(path))

    def look() -> bool:
        try:
            file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    if not guarded(shown, "a file or a folder", look):
        raise SchemaError(f"data file {shown} does not exist; check the path")
    return file


def form_of(file: Path) -> Form:
    """Return what a file is read as, by its suffix."""
    if file.is_dir():
        return "a folder of Parquet files and no others, with distinct names of columns"
    if file.suffix.lower() in PARQUET_SUFFIXES:
        return "Parquet with distinct names of columns"
    return "Arrow" if file.suffix.lower() in ARROW_SUFFIXES else "CSV"


def guarded(shown: str, form: str, read: Callable[[], _T]) -> _T:
    """Return ``read()``, or raise `SchemaError` for a file that cannot be read as what it is taken for.

    Where the system refuses it the message says why: by the number of the error, as its text may be of
    another package.
    """

    def told() -> _T:
        try:
            return read()
        except OSError as error:
            if error.errno is None:
                raise
            reason = os.strerror(error.errno)
        raise SchemaError(f"data file {shown} cannot be read ({reason})")

    return quietly(told, f"data file {shown} cannot be read; it must be {form}")


def columns_of(rows: pa.Table | pa.RecordBatch) -> list[tuple[str, ColumnValues]]:
    """Return the columns of Arrow rows."""
    return list(zip(rows.schema.names, rows.columns, strict=True))


def _read_csv(file: Path, shown: str, needed: Sequence[str] | None, text: TextForm) -> pa.Table:
    """Read a CSV file as bytes; see `read_file`. ``shown`` is the path as messages show it."""
    names, start = csv_names(file, shown, text)
    return guarded(
        shown,
        f"CSV with {len(names)} columns separated by {text.sep!r} in every row; check its sep",
        lambda: pacsv.read_csv(
            csv_text(file, shown, start=start, sep=text.sep),
            read_options=pacsv.ReadOptions(
                column_names=names, skip_rows=1, block_size=_BLOCK_BYTES, use_threads=True
            ),
            parse_options=csv_form(names, text.sep),
            convert_options=csv_conversion(present(names, needed)),
        ),
    )


def csv_text(file: Path, shown: str, *, start: int, sep: str) -> CheckedText:
    """Return the rows of a CSV file, unpacked; ``start`` bytes are before them."""
    return CheckedText(_unpacking(file), f"data file {shown}", start=start, sep=sep)


def _unpacking(file: Path) -> pa.NativeFile:
    return pa.input_stream(file, compression=_PACKED.get(file.suffix.lower()))


def csv_form(names: Sequence[str], sep: str) -> pacsv.ParseOptions:
    """Return how rows are told apart. In a single column an empty line is a row with a missing cell."""
    return pacsv.ParseOptions(delimiter=sep, newlines_in_values=True, ignore_empty_lines=len(names) > 1)


def csv_conversion(names: Sequence[str]) -> pacsv.ConvertOptions:
    """Return options that keep the named columns, all of them as bytes and without null codes."""
    return pacsv.ConvertOptions(
        include_columns=list(names),
        column_types=dict.fromkeys(names, pa.binary()),
        strings_can_be_null=False,
        check_utf8=False,
    )


def csv_names(file: Path, shown: str, text: TextForm) -> tuple[list[str], int]:
    """Return the column names of a CSV file and the number of bytes before its rows."""
    if file.suffix.lower() in FOREIGN_SUFFIXES:
        raise SchemaError(
            f"data file {shown} is of a kind that is not read; convert it to CSV, Parquet or Arrow, or pass "
            "it as a data frame; of compressed files, CSV as .gz, .bz2 or .zst is read"
        )
    if not text.header:
        if text.columns is None:
            raise SchemaError("columns must name the columns of a file without header")
        return distinct(text.columns), 0
    if text.columns is not None:
        raise SchemaError("columns names the columns of a file without header; set header=False too")
    names, start = guarded(shown, "CSV with a header in UTF-8", lambda: _header(file, shown, text.sep))
    if not names:
        raise SchemaError(f"data file {shown} is empty; pass a file with a header and rows")
    return distinct([name.strip(WHITESPACE) for name in names]), start


def _header(file: Path, shown: str, sep: str) -> tuple[list[str], int]:
    """Return the cells of the first line that is not blank, and where it ends: not within quotes."""
    with _unpacking(file) as stream:
        head = unpacked(stream, _HEADER_BYTES, f"data file {shown}")
    start = end = len(head) - len(head.removeprefix(MARK))
    quotes = 0
    for line in head[start:].splitlines(keepends=True):
        end, quotes = end + len(line), quotes + line.count(b'"')
        if not quotes and not line.strip():
            start = end
        elif quotes % 2 == 0:
            break
    if end == _HEADER_BYTES:
        raise SchemaError(
            f"the header of data file {shown} does not end within {_HEADER_BYTES} bytes; check its line end "
            "and its quotes"
        )
    if start == end:
        return [], 0
    return header_names(head[start:end].decode().rstrip("\r\n"), f"data file {shown}", sep), end


def arrow_kind(file: Path) -> ArrowKind:
    """Return what an Arrow file is, by how it begins."""
    with file.open("rb") as opened:
        start = opened.read(max(map(len, _MARKS)))
    for mark, kind in _MARKS.items():
        if start.startswith(mark):
            return kind
    return "stream"


def read_arrow(file: Path, needed: Sequence[str] | None) -> pa.Table:
    """Return the rows of an Arrow file, sound."""
    if arrow_kind(file) == "stream":
        with paipc.open_stream(file.read_bytes()) as reader:
            table = reader.read_all()
    else:
        table = pafeather.read_table(file, memory_map=True)
    return sound(table.select(present(distinct(table.schema.names), needed)))


def sound(rows: _Rows) -> _Rows:
    """Return rows of an Arrow file after checking that a damaged file does not point outside its memory.

    Text becomes bytes, since a check of text refuses all cells for one that is malformed. For the same reason
    dates, times and decimals are checked as the numbers or bytes that they are kept as: not every number is a
    time of the day.
    """
    as_bytes = _table_viewed(rows, _type_in_bytes)
    _table_viewed(as_bytes, _type_of_any_bits).validate(full=True)
    return as_bytes


def _table_viewed(rows: _Rows, type_of: Callable[[pa.DataType], pa.DataType]) -> _Rows:
    """Return the rows with columns of the types that ``type_of`` says for theirs."""
    return rows.from_arrays([_viewed(values, type_of) for values in rows.columns], names=rows.schema.names)


def _viewed(
    values: pa.Array | pa.ChunkedArray, type_of: Callable[[pa.DataType], pa.DataType]
) -> pa.Array | pa.ChunkedArray:
    """Return the values, where they lie, as of the type that ``type_of`` says for theirs."""
    kind = type_of(values.type)
    if kind == values.type:
        return values
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_viewed(chunk, type_of) for chunk in values.chunks], kind)
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(
            values.indices, _viewed(values.dictionary, type_of), ordered=kind.ordered, safe=False
        )
    return values.view(kind)


def _type_in_bytes(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _type_in_bytes(kind.value_type), kind.ordered)
    if pa.types.is_large_string(kind):
        return pa.large_binary()
    if str(kind) == "string_view":
        return pa.binary_view()
    return pa.binary() if pa.types.is_string(kind) else kind


def _type_of_any_bits(kind: pa.DataType) -> pa.DataType:
    """Return a type that any bits of the same number are a value of."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, _type_of_any_bits(kind.value_type), kind.ordered)
    if pa.types.is_decimal(kind):
        return pa.binary(kind.bit_width // 8)
    if pa.types.is_date(kind) or pa.types.is_time(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return kind
