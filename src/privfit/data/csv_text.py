"""The bytes of a CSV file, checked while they are read, so that no row decides where others begin."""

import atexit
import csv
import gc
import io
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, final
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from privfit.errors import SchemaError

_QUOTE, _RETURN = ord('"'), ord("\r")
MARK = b"\xef\xbb\xbf"
"""The mark of UTF-8, which may stand at the start of a file."""


_WAITS: Final = 500
"""Milliseconds that the end of the process waits for threads that read."""

_read: Final = WeakSet["CheckedText"]()
"""What Arrow may still hold."""


@atexit.register
def _let_go() -> None:
    """Wait until Arrow's threads have let go of what they read.

    They do so after they have handed out the last rows. The process would be aborted where one of them asks
    for Python's lock once the interpreter ends.
    """
    if _read:
        gc.collect()
    for _ in range(_WAITS):
        if not _read:
            break
        time.sleep(1e-3)


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a CSV file is laid out, as in `privfit.data.tables.open_table`.

    Raises
    ------
    SchemaError
        If names of columns are no names, or the separator is none.
    """

    columns: Sequence[str] | None = None
    header: bool = True
    sep: str = ","

    def __post_init__(self) -> None:
        if not isinstance(self.sep, str):
            raise SchemaError(f"sep must be a text of one character, got {type(self.sep).__name__}")
        if len(self.sep) != 1 or self.sep in "\r\n\"'":
            raise SchemaError("sep must be one character other than a quote or a line end")
        if self.columns is None:
            return
        if isinstance(self.columns, str) or not isinstance(self.columns, Iterable):
            raise SchemaError("columns must be a list of column names")
        object.__setattr__(self, "columns", tuple(self.columns))


@final
class CheckedText(io.RawIOBase):
    """The rows of a CSV file as bytes after an empty line, refused where a quote encloses no whole cell.

    Parameters
    ----------
    stream : pyarrow.NativeFile
        The whole file, unpacked.
    shown : str
        What messages call it.
    start : int
        Bytes before the first row.
    sep : str
        Separator of cells.

    Raises
    ------
    SchemaError
        While it is read.

    Notes
    -----
    A quote opens a cell if it is first in it, and closes it if it is last; within the cell it is written
    twice. Parsers differ in what they make of others, most of which let a quote that is never closed swallow
    the rows after it.

    *Guarantee.* A row does not change how others are read. As no other quotes are let pass, each one begins
    or ends quoted text. So whatever stands in place of a row of a file that is read, with an even number of
    quotes it leaves the others as they are, and with an odd number it leaves the end of the file in quoted
    text, and the file is refused.
    """

    def __init__(self, stream: pa.NativeFile, shown: str, *, start: int, sep: str) -> None:
        super().__init__()
        _read.add(self)
        self._stream, self._shown = stream, shown
        self._beside = np.zeros(256, dtype=np.bool_)
        self._beside[[*sep.encode(), *b'\r\n"']] = True
        self._inside, self._last = 0, ord("\n")
        unpacked(stream, start, shown)
        head = b"" if start else unpacked(stream, len(MARK), shown)
        self._head = b"\n" + (b"" if head == MARK else head)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Fill the buffer with what comes next, and return its length, 0 at the end."""
        ahead = self._head + unpacked(self._stream, max(0, len(buffer) - len(self._head)), self._shown)
        end = min(len(ahead), len(buffer))
        if end > 1 and ahead[end - 1] == _RETURN:
            end -= 1  # Arrow takes a line feed first in a block for the end of a line that the last one ended
        found, self._head = ahead[:end], ahead[end:]
        buffer[: len(found)] = found
        self._check(np.frombuffer(found or b"\n", dtype=np.uint8))
        if self._inside and not found:
            raise self._refusal()
        return len(found)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()

    def _check(self, text: NDArray[np.uint8]) -> None:
        """Refuse a quote that opens no cell and closes none; those in a cell do both, as they are two."""
        quotes = np.flatnonzero(text == _QUOTE)
        opening, closing = quotes[self._inside :: 2], quotes[1 - self._inside :: 2]
        before = np.where(opening > 0, text[opening - 1], self._last)
        after = text[closing[closing < text.size - 1] + 1]
        closed = self._last == _QUOTE and not self._inside
        if not (self._beside[before].all() and self._beside[after].all()):
            raise self._refusal()
        if closed and not self._beside[text[0]]:
            raise self._refusal()
        self._inside, self._last = (self._inside + quotes.size) % 2, int(text[-1])

    def _refusal(self) -> SchemaError:
        return SchemaError(_stray(self._shown))


def unpacked(stream: pa.NativeFile, size: int, shown: str) -> bytes:
    """Return what comes next of a file, or raise `SchemaError` where that cannot be read or was cut off."""
    try:
        return stream.read(size)
    except (OSError, pa.ArrowException):
        pass
    raise SchemaError(f"{shown} is damaged or incomplete, and cannot be read to its end; copy it again")


def header_names(header: str, shown: str, sep: str) -> list[str]:
    """Return the cells of a header without its line end.

    Raises
    ------
    SchemaError
        If a quote encloses no whole cell; spaces around such a cell are no part of it.
    """
    texts = f"{sep}{header}{sep}".split('"')  # those at even places are not in quotes
    for text in texts[::2]:
        cells = text if sep == " " else text.strip(" ")
        if text and not (cells.startswith(sep) and cells.endswith(sep)):
            raise SchemaError(_stray(shown))
    if len(texts) % 2 == 0:
        raise SchemaError(_stray(shown))
    (names,) = csv.reader([header], delimiter=sep, skipinitialspace=True)
    return names


def _stray(shown: str) -> str:
    return (
        f"{shown} has quotes that do not enclose whole cells, which could hide rows; check sep, "
        "and write a cell that holds a quote in quotes, and that quote twice, as CSV writers do"
    )
