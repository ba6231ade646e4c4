"""Entries of a ledger: grants, reservations and commits, and how they are written as JSON."""

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, final

from privfit._checks import whole
from privfit.errors import InvalidArgument, LedgerError, PrivfitError
from privfit.privacy.budget import Budget
from privfit.privacy.chain import Link
from privfit.privacy.composition import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
)

_EVENTS: Final = {
    "gaussian": GaussianEvent,
    "pure": PureEvent,
    "approximate": ApproximateEvent,
    "sampled": SampledGaussianEvent,
}


@final
@dataclass(frozen=True, slots=True)
class Opening:
    """First entry of every ledger, different for each, so that two ledgers share no digest."""

    ledger: str
    at: str


@final
@dataclass(frozen=True, slots=True)
class Grant:
    """A budget that may be spent on a data set; ``schema`` is a fingerprint, or None for any schema."""

    dataset: str
    budget: Budget
    schema: str | None
    at: str


@final
@dataclass(frozen=True, slots=True)
class Reservation:
    """A spend; ``schema`` is the fingerprint of the schema of the analysis, or None without one."""

    dataset: str
    events: tuple[Event, ...]
    schema: str | None
    note: str
    at: str


@final
@dataclass(frozen=True, slots=True)
class Commit:
    """The end of an analysis whose reservation has this number."""

    reservation: int
    at: str


Entry: TypeAlias = Opening | Grant | Reservation | Commit

_KINDS: Final[dict[str, type[Entry]]] = {
    "open": Opening,
    "grant": Grant,
    "reserve": Reservation,
    "commit": Commit,
}


@final
@dataclass(slots=True)
class Book:
    """All entries, sorted by what they are; reservations and commits by number of the reservation."""

    grants: dict[str, Grant] = field(default_factory=dict)
    reservations: dict[int, Reservation] = field(default_factory=dict)
    commits: dict[int, Commit] = field(default_factory=dict)

    @classmethod
    def read(cls, links: Iterable[Link]) -> "Book":
        """Read stored entries.

        Raises
        ------
        LedgerError
            If one makes no sense, alone or after the earlier ones.
        """
        book = cls()
        for link in links:
            book._add(link.number, decode(link.body))
        return book

    def grant(self, dataset: str) -> Grant:
        """Return the grant of a data set, or raise `LedgerError` with the remedy."""
        if dataset not in self.grants:
            raise LedgerError(
                f"dataset {dataset!r} has no grant; call ledger.grant({dataset!r}, budget) first, or "
                "privfit ledger grant"
            )
        return self.grants[dataset]

    def events(self, dataset: str) -> tuple[Event, ...]:
        """Return everything that was ever reserved on a data set."""
        spends = (spend for spend in self.reservations.values() if spend.dataset == dataset)
        return tuple(event for spend in spends for event in spend.events)

    def _add(self, number: int, entry: Entry) -> None:
        match entry:
            case Grant(dataset) if dataset not in self.grants:
                self.grants[dataset] = entry
            case Reservation(dataset) if dataset in self.grants:
                self.reservations[number] = entry
            case Commit(done) if done in self.reservations and done not in self.commits:
                self.commits[done] = entry
            case Opening() if number == 1:
                pass
            case _:
                raise LedgerError(f"entry {number} of the ledger cannot follow the ones before it")


def encode(entry: Entry) -> str:
    """Return an entry as JSON."""
    (kind,) = (name for name, cls in _KINDS.items() if type(entry) is cls)
    body: dict[str, Any] = {name: getattr(entry, name) for name in type(entry).__slots__}
    if isinstance(entry, Grant):
        body["budget"] = entry.budget.to_dict()
    if isinstance(entry, Reservation):
        body["events"] = [event_to_dict(event) for event in entry.events]
    return json.dumps({"kind": kind, **body}, allow_nan=False)


def decode(text: str) -> Entry:
    """Return the entry behind its JSON.

    Raises
    ------
    LedgerError
        If it cannot be read. It is never skipped: what it may have spent would be forgotten.
    """
    try:
        body = json.loads(text)
        cls = _KINDS[body.pop("kind")]
        if cls is Grant:
            body["budget"] = Budget.from_dict(body["budget"])
        if cls is Reservation:
            body["events"] = _events_from(body["events"])
        if cls is Commit:
            whole(reservation=body["reservation"])
        entry = cls(**body)
        _check_texts(entry)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, PrivfitError):
        raise LedgerError("an entry of the ledger cannot be read; restore it from a backup") from None
    return entry


def event_to_dict(event: Event) -> dict[str, Any]:
    """Return an event as JSON-ready types."""
    for kind, cls in _EVENTS.items():
        if type(event) is cls:
            return {"type": kind, **{name: getattr(event, name) for name in cls.__slots__}}
    raise InvalidArgument(f"an event of type {type(event).__name__} cannot be stored")


def opening() -> Opening:
    """Return the first entry of a new ledger."""
    return Opening(uuid.uuid4().hex, now())


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _events_from(data: object) -> tuple[Event, ...]:
    if not isinstance(data, list) or not data:
        raise TypeError
    items = [dict(item) for item in data]
    return tuple(_EVENTS[item.pop("type")](**item) for item in items)


def _check_texts(entry: Entry) -> None:
    for name in type(entry).__slots__:
        value = getattr(entry, name)
        optional = name == "schema" and value is None
        if name not in ("budget", "events", "reservation") and not optional and not isinstance(value, str):
            raise TypeError
