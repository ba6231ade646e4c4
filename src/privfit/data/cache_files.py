"""The files of a cache of encoded rows: written aside, checked, and brought into use in one step."""

import contextlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfit.errors import SchemaError

try:
    import fcntl
except ImportError:  # a system without such locks, where drafts of interrupted runs are left alone
    fcntl = None

_T = TypeVar("_T")

_FACTS: Final = "facts.json"
_LOCK: Final = "lock"
_CHECKED: Final = 1 << 22
"""Bytes that are read at once to check a file."""


class Parts:
    """Names of the files of a cache: one for each kind of number."""

    NUMBERS: Final = "numbers"
    CODES: Final = "codes"
    Y: Final = "y"
    WEIGHT: Final = "weight"
    INFLUENCE: Final = "influence"
    SHARE: Final = "share"
    UNIT: Final = "unit"
    OFFSET: Final = "offset"
    ALL: Final = (NUMBERS, CODES, Y, WEIGHT, INFLUENCE, SHARE, UNIT, OFFSET)


class Draft:
    """A cache that is being written, in a folder of its own."""

    __slots__ = ("_checksums", "_files", "_lock", "folder")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700)
        self._lock = _opened(folder / _LOCK)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._files = {name: _opened(folder / name) for name in Parts.ALL}
        self._checksums: dict[str, int] = dict.fromkeys(Parts.ALL, 0)

    def add(self, **parts: NDArray[Any]) -> None:
        """Append rows to the files, an array a file."""
        for name, rows in parts.items():
            written = np.ascontiguousarray(rows).tobytes()
            self._files[name].write(written)
            self._checksums[name] = zlib.crc32(written, self._checksums[name])

    def written(self, name: str) -> Path:
        """Return one of the files, with what was added to it so far."""
        self._files[name].flush()
        return self.folder / name

    def finish(self, facts: dict[str, Any]) -> None:
        """Write the facts about the files, and wait until all of it is on the disk."""
        text = _sealed({**facts, "checksums": self._checksums}).encode()
        with _opened(self.folder / _FACTS) as stream:
            stream.write(text)
            _settle(stream)
        for stream in self._files.values():
            _settle(stream)
        self.close()

    def close(self) -> None:
        """Close the files."""
        for stream in self._files.values():
            stream.close()

    def unlock(self) -> None:
        """Let others delete the folder."""
        self._lock.close()


@contextlib.contextmanager
def drafted(place: Path) -> Iterator[Draft]:
    """Give a draft that comes to stand at ``place`` if the block ends without an error, else is deleted.

    Raises
    ------
    SchemaError
        If the disk is full or the folder cannot be written. The message quotes no cell.
    """
    draft, folder, failure = None, place.with_name(f".{place.name}.{uuid.uuid4().hex}"), None
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _delete_stale(place)
        draft = Draft(folder)
        yield draft
        if fcntl is None:
            draft.unlock()  # nobody looks at the lock, and Windows deletes and renames nothing that is open
        _publish(folder, place)
    except OSError as error:
        failure = missing_room(error)
    finally:
        if draft is not None:
            draft.close()
            draft.unlock()
        shutil.rmtree(folder, ignore_errors=True)
    if failure is not None:
        raise failure


def missing_room(error: Exception) -> SchemaError:
    """Return the error for a cache that cannot be written or mapped."""
    reason = getattr(error, "strerror", None) or "damaged"
    return SchemaError(f"cache: its folder cannot be used ({reason}); name another folder")


def in_folder(work: Callable[[], _T]) -> _T:
    """Return what is done with the folder of a cache, or raise `missing_room` where that fails."""
    try:
        return work()
    except SchemaError:
        raise
    except (OSError, ValueError) as error:
        failure = missing_room(error)
    raise failure


def verified(place: Path) -> bool:
    """Return True if a whole cache stands there. One that is damaged is deleted.

    Raises
    ------
    SchemaError
        If nobody may look there.
    """
    if not in_folder(place.exists):
        return False
    try:
        checksums = read_facts(place)["checksums"]
        sound = all(_checksum(place / name) == checksums[name] for name in Parts.ALL)
    except (OSError, ValueError, KeyError, TypeError):
        sound = False
    if not sound:
        shutil.rmtree(place, ignore_errors=True)
    return sound


def read_facts(place: Path) -> dict[str, Any]:
    """Return the facts about the files of a cache; `ValueError` if they are not as they were written."""
    text = (place / _FACTS).read_text()
    facts = json.loads(text)["facts"]
    if _sealed(facts) != text:
        raise ValueError("facts of a cache are damaged")
    return facts


def _sealed(facts: dict[str, Any]) -> str:
    """Return facts as JSON that holds a checksum of them."""
    return json.dumps({"facts": facts, "checksum": zlib.crc32(json.dumps(facts).encode())})


def _opened(file: Path) -> BinaryIO:
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _settle(stream: BinaryIO) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _publish(folder: Path, place: Path) -> None:
    (folder / _LOCK).unlink()
    try:
        folder.rename(place)
    except OSError:
        if not place.exists():  # if it does, another run has made the same cache in the meantime
            raise
    _settle_folder(place.parent)


def _settle_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _delete_stale(place: Path) -> None:
    """Delete drafts that no process is writing any more."""
    if fcntl is None:
        return
    for folder in place.parent.glob(f".{place.name}.*"):
        try:
            with (folder / _LOCK).open("rb+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it is being written, or was just brought into use
            continue


def _checksum(file: Path) -> int:
    value = 0
    with file.open("rb") as stream:
        while piece := stream.read(_CHECKED):
            value = zlib.crc32(piece, value)
    return value
