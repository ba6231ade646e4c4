"""Entries of a ledger: grants, reservations and commits, and how they are written as JSON."""

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias, final

from privfit._checks import RelationName, whole
from privfit.errors import BudgetExceeded, InvalidArgument, LedgerError, PrivfitError
from privfit.privacy.budget import Budget
from privfit.privacy.chain import Link
from privfit.privacy.composition import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.privacy.filters import Account
from privfit.privacy.relation import Relation
from privfit.privacy.words import cost_in_words, neighbours_in_words

_EVENTS: Final = {
    "gaussian": GaussianEvent,
    "pure": PureEvent,
    "approximate": ApproximateEvent,
    "sampled": SampledGaussianEvent,
}


_ONLY_PLANNED: Final = (
    "Planned at once they would fit; of fits each of which may be chosen by earlier results less is known: "
    "after Gaussian or pure ones squared mu add up (a pure epsilon counts as some 1.25 mu) and others may "
    "not follow, after others epsilon and delta add up. Grant this one a budget under another name"
)


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
    """A spend; ``schema`` is the fingerprint of the schema of the analysis, or None without one.

    ``unit`` names the column that identifies the privacy unit, None for rows. Entries of versions that did
    not store the neighbouring relation have None for it, and say nothing about the unit.
    """

    dataset: str
    events: tuple[Event, ...]
    relation: RelationName | None
    unit: str | None
    schema: str | None
    note: str
    at: str

    @property
    def neighbours(self) -> str:
        """What its guarantee hides, in words; costs add up only where this is the same."""
        return neighbours_in_words(self.relation, self.unit)


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

    def spends(self, dataset: str) -> dict[int, Reservation]:
        """Return all reservations on a data set."""
        return {k: spend for k, spend in self.reservations.items() if spend.dataset == dataset}

    def account(self, dataset: str) -> Account:
        """Return what was spent of a grant, and what may follow."""
        return Account(self.grant(dataset).budget, [spend.events for spend in self.spends(dataset).values()])

    def check(self, new: Reservation, before: tuple[Event, ...] = ()) -> None:
        """Raise if a reservation may not follow: `BudgetExceeded`, or `LedgerError` where it is another's.

        ``before`` is what another one is to cost that comes first.
        """
        dataset, grant = new.dataset, self.grant(new.dataset)
        if grant.schema is not None and grant.schema != new.schema:
            raise LedgerError(
                f"dataset {dataset!r} was granted with a schema, and this analysis has another one or "
                "none; fit with that schema, or name the data set that is meant"
            )
        others = {spend.neighbours for spend in self.spends(dataset).values()} - {new.neighbours}
        if others:
            raise LedgerError(
                f"dataset {dataset!r} holds guarantees for {others.pop()}, and that of this analysis is for "
                f"{new.neighbours}: their costs do not add up; keep to the relation and the privacy unit of "
                "the account, or grant a budget under another name"
            )
        old, asked = self.account(dataset), (*before, *new.events)
        if not old.followed_by(before).admits(new.events):
            cost, spent = (cost_in_words(compose(events), grant.budget) for events in (asked, old.events))
            message = (
                f"dataset {dataset!r}: {cost} does not fit into the grant of {grant.budget.describe()}, of "
                f"which was spent: {spent}"
            )
            planned = compose((*old.events, *asked)).within(grant.budget)
            raise BudgetExceeded(f"{message}. {_ONLY_PLANNED}" if planned else message)

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
            body = {"relation": None, "unit": None, **body, "events": _events_from(body["events"])}
            _check_neighbours(body["relation"], body["unit"])
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


def _check_neighbours(relation: str | None, unit: str | None) -> None:
    if relation is not None:
        Relation(relation)
    elif unit is not None:
        raise TypeError


def _check_texts(entry: Entry) -> None:
    for name in type(entry).__slots__:
        value = getattr(entry, name)
        optional = name in ("schema", "relation", "unit") and value is None
        if name not in ("budget", "events", "reservation") and not optional and not isinstance(value, str):
            raise TypeError
