"""Where arrays as long as the table lie: in memory, or in files of which only what is in use is in memory."""

import mmap
import os
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.errors import SchemaError

_LONGER = 1.25
"""How many times as long as an array the memory that it takes over may be."""


class AbstractRoom(ABC):
    """Makes arrays with a number for every row, and is told which rows a pass has done with."""

    @abstractmethod
    def new(self, n_rows: int) -> FloatArray:
        """Return an array of shape (n_rows,) to be filled."""

    @abstractmethod
    def leave(self, rows: slice) -> None:
        """Let go of what is in memory of these rows."""


@final
class InMemory(AbstractRoom):
    """Everything stays in memory."""

    def new(self, n_rows: int) -> FloatArray:
        """Return an array in memory."""
        return np.empty(n_rows)

    def leave(self, rows: slice) -> None:
        """Keep all."""
        del rows


@final
class Reused(AbstractRoom):
    """Memory of arrays that are no longer in use stays, for others of about their length.

    Where a process gives free memory back at once, as workers of Dask do, taking it anew costs as much as
    what is written to it.

    Parameters
    ----------
    most : int
        Bytes that are kept for later at most.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._free: list[FloatArray] = []
        self._lock = threading.RLock()  # what is collected while it is held comes back to the same thread

    def new(self, n_rows: int) -> FloatArray:
        """Return an array in memory, which comes back once no part of it is in use."""
        if n_rows == 0:
            return np.empty(0)
        with self._lock:
            fits = [k for k, free in enumerate(self._free) if n_rows <= free.size <= _LONGER * n_rows]
            memory = self._free.pop(fits[0]) if fits else np.empty(n_rows)
        array = np.frombuffer(memory.data, count=n_rows)  # which parts of it keep, and not its memory alone
        weakref.finalize(array, self._back, memory).atexit = False
        return array

    def leave(self, rows: slice) -> None:
        """Keep all."""
        del rows

    def _back(self, memory: FloatArray) -> None:
        """Keep the memory of an array that is gone, as far as there is room."""
        with self._lock:
            if memory.nbytes + sum(free.nbytes for free in self._free) <= self._most:
                self._free.append(memory)


@final
class OnDisk(AbstractRoom):
    """Arrays are mapped files; their pages are let go after use.

    Parameters
    ----------
    folder : Path, optional
        Where files of new arrays are made, by default that for temporary files. They have no name there, so
        that they end with the process.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._maps: list[tuple[mmap.mmap, int]] = []

    def mapped(self, file: Path, dtype: "np.dtype[Any]", width: int, n_rows: int) -> NDArray[Any]:
        """Return the rows in a file, shape (n_rows, width). What is written to them stays in memory."""
        if width * n_rows == 0:
            return np.empty((n_rows, width), dtype=dtype)
        with file.open("rb") as stream:
            pages = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        self._maps.append((pages, width * dtype.itemsize))
        return np.frombuffer(pages, dtype=dtype, count=n_rows * width).reshape(n_rows, width)

    def new(self, n_rows: int) -> FloatArray:
        """Return an array in a file of its own.

        Raises
        ------
        SchemaError
            If the disk has no room for it.
        """
        if n_rows == 0:
            return np.empty(0)
        try:
            with tempfile.TemporaryFile(dir=self._folder) as stream:
                _reserve(stream.fileno(), 8 * n_rows)
                pages = mmap.mmap(stream.fileno(), 8 * n_rows)
        except OSError as error:
            failure = SchemaError(f"cache: a file cannot be made in its folder ({error.strerror})")
        else:
            self._maps.append((pages, 8))
            return np.frombuffer(pages, dtype=np.float64)
        raise failure

    def leave(self, rows: slice) -> None:
        """Let go of the pages that hold these rows only; they are read again when they are needed."""
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        for pages, width in self._maps:
            first = -(-rows.start * width // mmap.PAGESIZE) * mmap.PAGESIZE
            length = min(rows.stop * width, len(pages)) // mmap.PAGESIZE * mmap.PAGESIZE - first
            if length > 0:
                pages.madvise(mmap.MADV_DONTNEED, first, length)


def _reserve(file: int, size: int) -> None:
    """Take room on the disk now: a write to a mapped file that finds none would end the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)
    else:
        os.ftruncate(file, size)
