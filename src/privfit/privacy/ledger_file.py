"""The SQLite file of a ledger: made in one step, opened with checks, and only ever added to."""

import contextlib
import glob
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from privfit._checks import is_path
from privfit.errors import InvalidArgument, LedgerError, PrivfitError
from privfit.privacy.chain import Link, check_links, next_link

_APPLICATION: Final = 0x70666974
_VERSION: Final = 2

_OLDEST_SQLITE: Final = (3, 37)
"""The first version with strict tables."""

_JOURNAL: Final = "PRAGMA journal_mode = DELETE"
"""Locks are then on the file itself. Those of a write-ahead log are on a file beside its name, so that
processes that know it by two names would not see each other's."""

_PAUSES: Final = (0.002, 0.02)
"""Seconds between tries to change a file of an earlier version, at random."""


def refuse_no_path(path: object) -> None:
    """Refuse what cannot be the path of a ledger."""
    if not is_path(path):
        raise InvalidArgument(f"ledger must be a Ledger or the path of a file, got {type(path).__name__}")


def need_ledger(path: str | os.PathLike[str]) -> None:
    """Refuse the path of a ledger that is not there: a fit that made one would find no grant in it."""
    refuse_no_path(path)
    if not os.path.isfile(path):  # noqa: PTH113 -- Path.is_file fails where a name is too long
        raise LedgerError(
            f"ledger {str(path)!r} does not exist; check the path, or make it with privfit ledger grant or "
            "privfit.Ledger(path).grant(dataset, budget)"
        )


@final
@dataclass(frozen=True, slots=True)
class LedgerFile:
    """A file of chained entries. Holds nothing open between calls.

    Parameters
    ----------
    path : Path
    timeout : float
        Seconds to wait for another process.

    Notes
    -----
    *Guarantee.* What was added while `appending` survives a crash of the process and, as far as the disk
    keeps its promises, of the machine. Every failure of SQLite or of the file system is a `LedgerError` of
    one line.
    """

    path: Path
    timeout: float

    def make(self, first: str) -> None:
        """Make the file with its first entry, unless it is there.

        It is written aside and linked into place, so that no one ever sees half of one.
        """
        with self._translated():
            if self.path.exists():
                return
            _refuse_old_sqlite()
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            with self._translated(), contextlib.closing(sqlite3.connect(draft)) as connection:
                _lay_out(connection)
                _insert(connection, next_link(None, first))
                connection.commit()
            with self._translated(), contextlib.suppress(FileExistsError):
                os.link(draft, self.path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    def read(self) -> tuple[Link, ...]:
        """Return all entries, after checking the file and the chain."""
        with self._connect() as connection:
            return _links(connection)

    @contextlib.contextmanager
    def appending(self) -> Iterator["Appender"]:
        """Hold the file alone, so that what is added rests on entries that nobody can add to meanwhile.

        If the block raises, nothing is added.
        """
        with self._translated():
            self._refuse_other_names()
            self._leave_log()
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Appender(connection, _links(connection))
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with self._translated():
            # mode=rw: a ledger that was moved away must not come back empty.
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            _refuse_old_sqlite()
            connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
            with contextlib.closing(connection):
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA trusted_schema = OFF")
                application = connection.execute("PRAGMA application_id").fetchone()[0]
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if (application, version) != (_APPLICATION, _VERSION):
                    raise LedgerError(f"{self.path.name} is not a ledger of this version of privfit")
                if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                    raise LedgerError(f"ledger {self.path.name} is corrupt; restore it from a backup")
                yield connection

    def _refuse_other_names(self) -> None:
        """Raise if the file has another name: what a crash leaves unfinished lies beside one of them alone.

        A process that was killed while it made the file has left its draft as a name, which is taken away.
        """
        path = self.path.resolve()
        for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
            with contextlib.suppress(FileNotFoundError):
                if path.samefile(draft):
                    draft.unlink()
        if path.stat().st_nlink > 1:
            raise LedgerError(
                f"ledger {self.path.name} has another name (a hard link), under which it could be overspent; "
                "remove all names but one"
            )

    def _leave_log(self) -> None:
        """Change a file of an earlier version, which has a write-ahead log.

        SQLite does that for one connection alone, and does not wait for others to close: hence short ones.
        """
        last = time.monotonic() + self.timeout
        while True:
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=0.0, isolation_level=None)
            with contextlib.closing(connection):
                try:
                    connection.execute(_JOURNAL)
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error) or time.monotonic() > last:
                        raise
                else:
                    return
            time.sleep(_PAUSES[0] + (_PAUSES[1] - _PAUSES[0]) * os.urandom(1)[0] / 255)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the errors of files and SQLite into `LedgerError` of one line."""
        try:
            yield
        except PrivfitError:
            raise
        except sqlite3.OperationalError as error:
            busy = "locked" in str(error) or "busy" in str(error)
            remedy = (
                "another process holds it; try again" if busy else "check the path, its rights and the disk"
            )
            raise LedgerError(f"ledger {self.path.name}: {_line(error)}; {remedy}") from error
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise LedgerError(
                f"ledger {self.path.name}: {_line(error)}; it is corrupt or not a ledger"
            ) from error
        except OSError as error:
            raise LedgerError(
                f"ledger {self.path.name}: {error.strerror}; check the path and its rights"
            ) from error


@final
class Appender:
    """The entries of a ledger that is held alone, and the means to add one."""

    __slots__ = ("_connection", "links")

    def __init__(self, connection: sqlite3.Connection, links: tuple[Link, ...]) -> None:
        self._connection, self.links = connection, links

    def add(self, body: str) -> int:
        """Add an entry and return its number."""
        link = next_link(self.links[-1], body)
        _insert(self._connection, link)
        self.links = (*self.links, link)
        return link.number


def _line(error: Exception) -> str:
    return "".join(c if c.isprintable() else "?" for c in " ".join(str(error).split()))[:200]


def _refuse_old_sqlite() -> None:
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        needed = ".".join(map(str, _OLDEST_SQLITE))
        raise LedgerError(
            f"a ledger needs SQLite {needed} or later, and this Python has {sqlite3.sqlite_version}; "
            "use a Python with a later one"
        )


def _lay_out(connection: sqlite3.Connection) -> None:
    connection.execute(_JOURNAL)
    connection.execute(
        "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, digest TEXT NOT NULL) STRICT"
    )
    for change in ("UPDATE", "DELETE"):
        connection.execute(
            f"CREATE TRIGGER entries_no_{change.lower()} BEFORE {change} ON entries "
            "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
        )
    connection.execute(
        "CREATE TRIGGER entries_no_replace BEFORE INSERT ON entries "
        "WHEN EXISTS (SELECT 1 FROM entries WHERE number = NEW.number) "
        "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
    )
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")


def _insert(connection: sqlite3.Connection, link: Link) -> None:
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (link.number, link.body, link.digest))


def _links(connection: sqlite3.Connection) -> tuple[Link, ...]:
    rows = connection.execute("SELECT number, body, digest FROM entries ORDER BY number")
    links = tuple(Link(*row) for row in rows)
    check_links(links)
    return links
