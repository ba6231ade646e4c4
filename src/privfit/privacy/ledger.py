"""A file that remembers what has been spent on each data set, and refuses what was not granted."""

import contextlib
import json
import math
import os
import sqlite3
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from privfit._checks import positive, whole
from privfit.errors import BudgetExceeded, InvalidArgument, LedgerError, PrivfitError
from privfit.privacy.budget import Budget
from privfit.privacy.composition import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    Guarantee,
    PureEvent,
    SampledGaussianEvent,
    compose,
)

_T = TypeVar("_T")

_APPLICATION: Final = 0x70666974
_VERSION: Final = 1
_EVENTS: Final = {
    "gaussian": GaussianEvent,
    "pure": PureEvent,
    "approximate": ApproximateEvent,
    "sampled": SampledGaussianEvent,
}
_EXACT_ROUNDS: Final = 64
_NUMERICAL_ROUNDS: Final = 30
_NEGLIGIBLE: Final = 1e-6
_TABLES: Final = {
    "grants": "dataset TEXT PRIMARY KEY, budget TEXT NOT NULL, at TEXT NOT NULL",
    "reservations": "id INTEGER PRIMARY KEY AUTOINCREMENT, dataset TEXT NOT NULL REFERENCES grants, "
    "events TEXT NOT NULL, note TEXT NOT NULL, at TEXT NOT NULL",
    "commits": "reservation INTEGER PRIMARY KEY REFERENCES reservations, at TEXT NOT NULL",
}


class Ledger:
    """A SQLite file of grants and spends, safe to share between processes on one machine.

    Holds nothing open between calls, so it may be copied, pickled and used from threads. The file must not
    lie on a network file system, whose locks cannot be relied on.

    Parameters
    ----------
    path : path-like
        Created if missing; its folder must exist.
    timeout : float, default 30.0
        Seconds to wait for another process to finish.

    Raises
    ------
    LedgerError
        From here and every method, if the file is locked, read-only, full, corrupt or not a ledger.

    Notes
    -----
    *Guarantee.* For each data set, the composition of all reservations ever made, committed or not, is within
    the grant. Rows are only ever inserted; nothing refunds a reservation, since an analysis that crashed may
    have released something. Whoever can write to the file can also forge it.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self.path = Path(path)
        self.timeout = positive(timeout=timeout)
        with self._translated():
            missing = not self.path.exists()
        if missing:
            self._create()
        with self._connect():
            pass

    def grant(self, dataset: str, budget: Budget) -> None:
        """Allow ``budget`` to be spent on ``dataset``, once and for all.

        Granting the same budget again changes nothing.

        Raises
        ------
        InvalidArgument
            If ``dataset`` is not a name or ``budget`` not a `Budget`.
        LedgerError
            If another budget was granted before.
        """
        _check_name(dataset)
        if not isinstance(budget, Budget):
            raise InvalidArgument(f"budget must be a Budget, got {type(budget).__name__}")
        with self._connect() as connection, _writing(connection):
            granted = _granted(connection, dataset)
            if granted is None:
                values = (dataset, json.dumps(budget.to_dict()), _now())
                connection.execute("INSERT INTO grants VALUES (?, ?, ?)", values)
            elif granted != budget:
                raise LedgerError(
                    f"dataset {dataset!r} already has a grant of {granted!r}, and a grant is final; "
                    "grant under a new name only what may be spent on top of it"
                )

    def reserve(self, dataset: str, events: Iterable[Event], *, note: str = "") -> int:
        """Spend the cost of ``events``, before any row is read, and return the reservation's number.

        Parameters
        ----------
        dataset : str
            A data set with a grant.
        events : iterable of GaussianEvent, PureEvent, ApproximateEvent or SampledGaussianEvent
            At least one.
        note : str, optional
            What it is for. Stored as it is, so it must not hold data.

        Raises
        ------
        BudgetExceeded
            If all reservations together would not be within the grant. Nothing is then spent.
        Incompatible
            If an event is of an unknown type.
        InvalidArgument
            If there is no event, or an argument is of the wrong type.
        LedgerError
            If the data set has no grant.

        Notes
        -----
        *Guarantee.* Check and entry are one transaction: processes that reserve at the same time cannot
        together overspend.
        """
        _check_name(dataset)
        if not isinstance(note, str):
            raise InvalidArgument(f"note must be text, got {type(note).__name__}")
        new = tuple(events)
        if not new:
            raise InvalidArgument("events must not be empty: there is nothing to reserve")
        compose(new)
        with self._connect() as connection, _writing(connection):
            budget, old = _state(connection, dataset)
            if not compose((*old, *new)).within(budget):
                raise BudgetExceeded(
                    f"dataset {dataset!r}: {compose(new).describe()} does not fit into the grant of "
                    f"{budget.describe()}, of which was spent: {compose(old).describe()}"
                )
            cursor = connection.execute(
                "INSERT INTO reservations (dataset, events, note, at) VALUES (?, ?, ?, ?)",
                (dataset, json.dumps([_event_to_dict(event) for event in new]), note, _now()),
            )
            return int(cursor.lastrowid or 0)

    def commit(self, reservation: int) -> None:
        """Mark a reservation as done. Its cost was spent when it was reserved, and stays so either way.

        Raises
        ------
        LedgerError
            If there is no such reservation, or it was committed before (two analyses then shared it).
        """
        reservation = whole(reservation=reservation)
        with self._connect() as connection, _writing(connection):
            known = connection.execute("SELECT 1 FROM reservations WHERE id = ?", (reservation,)).fetchone()
            if known is None:
                raise LedgerError(f"there is no reservation {reservation}; commit what reserve() returned")
            done = connection.execute(
                "SELECT 1 FROM commits WHERE reservation = ?", (reservation,)
            ).fetchone()
            if done is not None:
                raise LedgerError(
                    f"reservation {reservation} is committed already; reserve once per analysis"
                )
            connection.execute("INSERT INTO commits VALUES (?, ?)", (reservation, _now()))

    def spent(self, dataset: str) -> Guarantee:
        """Return the cost of all that was ever reserved on a data set.

        Raises
        ------
        LedgerError
            If the data set has no grant.
        """
        with self._connect() as connection:
            return compose(_state(connection, _check_name(dataset))[1])

    def remaining(self, dataset: str) -> Budget | None:
        """Return the largest budget that a further analysis may still have, or None if it is exhausted.

        The grant itself as long as nothing is spent. After that in the notion of the grant where that is
        pure, GDP or zCDP; for an (ε, δ) grant, whose remainder is no such pair, in GDP (see
        `Budget.epsilon_at`). Less than a millionth of the grant counts as nothing.

        Raises
        ------
        LedgerError
            If the data set has no grant.

        Notes
        -----
        *Guarantee.* A `GaussianEvent` of the result's ``mu`` (a `PureEvent` of its ``epsilon``, if it is
        pure) can be reserved, if nobody else reserves first.
        """
        with self._connect() as connection:
            budget, events = _state(connection, _check_name(dataset))
        if not events:
            return budget
        kind = PureEvent if budget.notion == "pure" else GaussianEvent
        top = budget.epsilon if budget.notion == "pure" else budget.mu
        numerical = budget.notion == "approximate" and compose(events).mu is None
        rounds = _NUMERICAL_ROUNDS if numerical else _EXACT_ROUNDS
        size = _largest(lambda size: compose((*events, kind(size))).within(budget), top, rounds)
        if size <= _NEGLIGIBLE * top:
            return None
        match budget.notion:
            case "pure":
                return Budget(size)
            case "zcdp":
                return Budget.zcdp(_half_square_below(size))
            case _:
                return Budget.gdp(size)

    def export(self) -> dict[str, Any]:
        """Return all entries as JSON-ready types, oldest first."""
        with self._connect() as connection:
            grants = connection.execute("SELECT dataset, budget, at FROM grants ORDER BY rowid").fetchall()
            rows = connection.execute(
                "SELECT r.id, r.dataset, r.events, r.note, r.at, c.at FROM reservations r "
                "LEFT JOIN commits c ON c.reservation = r.id ORDER BY r.id"
            ).fetchall()
        names = ("id", "dataset", "events", "note", "reserved_at", "committed_at")
        return {
            "grants": [{"dataset": d, "budget": _load(b, dict), "granted_at": at} for d, b, at in grants],
            "reservations": [{**dict(zip(names, r, strict=True)), "events": _load(r[2], list)} for r in rows],
        }

    def close(self) -> None:
        """Do nothing, since nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _create(self) -> None:
        """Write an empty ledger aside and link it into place, so that no one ever sees half of one."""
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        try:
            with self._translated(), contextlib.closing(sqlite3.connect(draft)) as connection:
                connection.execute("PRAGMA journal_mode = WAL")
                for table, columns in _TABLES.items():
                    connection.execute(f"CREATE TABLE {table} ({columns}) STRICT")
                    for change in ("UPDATE", "DELETE"):
                        connection.execute(
                            f"CREATE TRIGGER {table}_no_{change.lower()} BEFORE {change} ON {table} "
                            "BEGIN SELECT RAISE(ABORT, 'a ledger only grows'); END"
                        )
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            with self._translated(), contextlib.suppress(FileExistsError):
                os.link(draft, self.path)
        finally:
            with contextlib.suppress(OSError):
                draft.unlink()

    @contextlib.contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with self._translated():
            # mode=rw: a ledger that was moved away must not come back empty.
            uri = f"{self.path.absolute().as_uri()}?mode=rw"
            connection = sqlite3.connect(uri, uri=True, timeout=self.timeout, isolation_level=None)
            with contextlib.closing(connection):
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("PRAGMA foreign_keys = ON")
                application = connection.execute("PRAGMA application_id").fetchone()[0]
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if (application, version) != (_APPLICATION, _VERSION):
                    raise LedgerError(f"{self.path.name} is not a ledger of this version of privfit")
                if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                    raise LedgerError(f"ledger {self.path.name} is corrupt; restore it from a backup")
                yield connection

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the errors of files, SQLite and JSON into `LedgerError` of one line."""
        try:
            yield
        except PrivfitError:
            raise
        except sqlite3.OperationalError as error:
            busy = "locked" in str(error) or "busy" in str(error)
            remedy = (
                "another process holds it; try again" if busy else "check the path, its rights and the disk"
            )
            raise LedgerError(f"ledger {self.path.name}: {error}; {remedy}") from error
        except sqlite3.Error as error:
            raise LedgerError(f"ledger {self.path.name}: {error}; it is corrupt or not a ledger") from error
        except OSError as error:
            raise LedgerError(
                f"ledger {self.path.name}: {error.strerror}; check the path and its rights"
            ) from error


@contextlib.contextmanager
def _writing(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _granted(connection: sqlite3.Connection, dataset: str) -> Budget | None:
    row = connection.execute("SELECT budget FROM grants WHERE dataset = ?", (dataset,)).fetchone()
    return None if row is None else _load(row[0], Budget.from_dict)


def _state(connection: sqlite3.Connection, dataset: str) -> tuple[Budget, tuple[Event, ...]]:
    budget = _granted(connection, dataset)
    if budget is None:
        raise LedgerError(f"dataset {dataset!r} has no grant; call ledger.grant({dataset!r}, budget) first")
    rows = connection.execute("SELECT events FROM reservations WHERE dataset = ? ORDER BY id", (dataset,))
    return budget, tuple(event for (text,) in rows for event in _load(text, _events_from_list))


def _load(text: str, build: Callable[[Any], _T]) -> _T:
    try:
        return build(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerError("an entry of the ledger cannot be read; restore it from a backup") from error


def _event_to_dict(event: Event) -> dict[str, Any]:
    for kind, cls in _EVENTS.items():
        if type(event) is cls:
            return {"type": kind, **{name: getattr(event, name) for name in cls.__slots__}}
    raise InvalidArgument(f"an event of type {type(event).__name__} cannot be stored")


def _events_from_list(data: list[dict[str, Any]]) -> tuple[Event, ...]:
    items = [dict(item) for item in data]
    return tuple(_EVENTS[item.pop("type")](**item) for item in items)


def _largest(fits: Callable[[float], bool], top: float, rounds: int) -> float:
    """Return the largest number up to ``top`` that fits, by bisection from below; 0 if none."""
    if fits(top):
        return top
    low, high = 0.0, top
    for _ in range(rounds):
        middle = low + (high - low) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _half_square_below(mu: float) -> float:
    half = Fraction(mu) ** 2 / 2
    rho = float(half)
    return rho if Fraction(rho) <= half else math.nextafter(rho, 0.0)


def _check_name(dataset: object) -> str:
    if not isinstance(dataset, str) or not dataset.strip():
        raise InvalidArgument("dataset must be a name, not empty")
    return dataset


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
