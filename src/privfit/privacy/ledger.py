"""A file that remembers what has been spent on each data set, and refuses what was not granted."""

import math
import os
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias

from privfit._checks import RelationName, column_name, one_of, positive, whole
from privfit.errors import InvalidArgument, LedgerError
from privfit.privacy.budget import Budget
from privfit.privacy.chain import ChainCheck, check_links
from privfit.privacy.composition import (
    Event,
    GaussianEvent,
    Guarantee,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.privacy.entries import (
    Book,
    Commit,
    Grant,
    Reservation,
    encode,
    event_to_dict,
    now,
    opening,
)
from privfit.privacy.filters import Account
from privfit.privacy.ledger_file import LedgerFile, refuse_no_path
from privfit.privacy.spends import events_of

_ROUNDS: Final = 64
_NEGLIGIBLE: Final = 1e-6


class Fingerprinted(Protocol):
    """What identifies the form of a table: a `Schema`."""

    @property
    def fingerprint(self) -> str:
        """A digest of public declarations."""
        ...


class Ledger:
    """A SQLite file of grants and spends, safe to share between processes on one machine.

    Holds nothing open between calls, so it may be copied, pickled and used from threads. The file must not
    lie on a network file system, whose locks cannot be relied on, and have no second name: hard links are
    refused. While it is in use, and after a crash, a file with ``-journal`` at the end of its name belongs to
    it, so that containers should be given the folder, not the file alone.

    Parameters
    ----------
    path : path-like
        Created if missing; its folder must exist.
    timeout : float, default 30.0
        Seconds to wait for another process to finish.

    Raises
    ------
    InvalidArgument
        If the path is none; from every method, if an argument is of the wrong type.
    LedgerError
        From here and every method, if the file is locked, read-only, full, corrupt or not a ledger, or its
        entries were tampered with.

    Notes
    -----
    *Guarantee.* For each data set, all reservations ever made, committed or not, are together within the
    grant, though each may have been chosen by the outcomes of earlier ones (`privfit.privacy.filters`), and
    all of them are for one neighbouring relation and one privacy unit. Entries are only ever
    added; nothing refunds a reservation, since an analysis that crashed may have released something. Each
    entry carries a hash over itself and the entry before it, and every call checks them all: a changed,
    removed or moved entry is refused. Whoever can write to the file can still cut off its end or write it
    anew; `verify` with a head that was kept elsewhere shows that, too.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        refuse_no_path(path)
        self.path = Path(path)
        self.timeout = positive(timeout=timeout)
        self._file = LedgerFile(self.path, self.timeout)
        self._file.make(encode(opening()))
        self._file.read()

    def grant(self, dataset: str, budget: Budget, *, schema: Fingerprinted | None = None) -> None:
        """Allow ``budget`` to be spent on ``dataset``, once and for all.

        Granting the same again changes nothing.

        Parameters
        ----------
        dataset : str
            Name of the data set. It is the data set's identity: nothing is computed from rows.
        budget : Budget
            In any notion.
        schema : Schema, optional
            Declared form of the data set. If given, analyses under another schema, or none, are refused:
            what is fitted is then not the data set that was meant. Which column is the response does not
            matter.

        Raises
        ------
        InvalidArgument
            If ``dataset`` is not a name or ``budget`` not a `Budget`.
        LedgerError
            If another budget or schema was granted before.
        """
        check_name(dataset)
        if not isinstance(budget, Budget):
            raise InvalidArgument(f"budget must be a Budget, got {type(budget).__name__}")
        fingerprint = _fingerprint(schema)
        with self._file.appending() as appender:
            granted = Book.read(appender.links).grants.get(dataset)
            if granted is None:
                appender.add(encode(Grant(dataset, budget, fingerprint, now())))
            elif granted.budget != budget:
                raise LedgerError(
                    f"dataset {dataset!r} already has a grant of {granted.budget!r}, and a grant is final; "
                    "grant under a new name only what may be spent on top of it"
                )
            elif granted.schema != fingerprint:
                raise LedgerError(
                    f"dataset {dataset!r} was granted with another schema, or with none, and a grant is "
                    "final; leave schema as it was"
                )

    def reserve(
        self,
        dataset: str,
        events: Iterable[Event] | Budget,
        *,
        relation: RelationName = "replace",
        unit: str | None = None,
        note: str = "",
        schema: Fingerprinted | None = None,
    ) -> int:
        """Spend the cost of ``events``, before any row is used, and return the reservation's number.

        Parameters
        ----------
        dataset : str
            A data set with a grant.
        events : iterable of events, or Budget
            Those of a plan: ``plan.events``. Or what an analysis with another tool keeps to: (ε, δ), pure or
            GDP.
        relation : {"replace", "add_remove"}
            Neighbouring relation of their guarantees.
        unit : str, optional
            Name of the column that identifies the privacy unit; by default every row is one.
        note : str, optional
            What it is for. Stored as it is, so it must not hold data.
        schema : Schema, optional
            Declared form of the table of the analysis. Its fingerprint is stored.

        Raises
        ------
        BudgetExceeded
            If all reservations together would not be within the grant. Nothing is then spent.
        Incompatible
            If an event is of an unknown type, or a budget is one of zCDP.
        InvalidArgument
            If there is no event, or an argument is of the wrong type.
        LedgerError
            If the data set has no grant, or one for another schema, or if an earlier reservation has another
            relation or unit, or none stored: such costs do not add up, and nothing is converted.

        Notes
        -----
        *Guarantee.* Check and entry are one transaction: processes that reserve at the same time cannot
        together overspend.
        """
        new = _reservation(dataset, events, relation=relation, unit=unit, schema=schema, note=note)
        with self._file.appending() as appender:
            Book.read(appender.links).check(new)
            return appender.add(encode(new))

    def check(
        self,
        dataset: str,
        events: Iterable[Event] | Budget,
        *,
        relation: RelationName = "replace",
        unit: str | None = None,
        schema: Fingerprinted | None = None,
        before: Iterable[Event] = (),
    ) -> None:
        """Raise what `reserve` would raise at this moment, or once ``before`` is reserved; spend nothing."""
        new = _reservation(dataset, events, relation=relation, unit=unit, schema=schema, note="")
        Book.read(self._file.read()).check(new, tuple(before))

    def commit(self, reservation: int) -> None:
        """Mark a reservation as done. Its cost was spent when it was reserved, and stays so either way.

        Raises
        ------
        LedgerError
            If there is no such reservation, or it was committed before (two analyses then shared it).
        """
        reservation = whole(reservation=reservation)
        with self._file.appending() as appender:
            book = Book.read(appender.links)
            if reservation not in book.reservations:
                raise LedgerError(f"there is no reservation {reservation}; commit what reserve() returned")
            if reservation in book.commits:
                raise LedgerError(
                    f"reservation {reservation} is committed already; reserve once per analysis"
                )
            appender.add(encode(Commit(reservation, now())))

    def granted(self, dataset: str) -> Budget:
        """Return the grant of a data set.

        Raises
        ------
        LedgerError
            If the data set has no grant.
        """
        return self._account(dataset).budget

    def spent(self, dataset: str) -> Guarantee:
        """Return the cost of all that was ever reserved on a data set.

        Raises
        ------
        LedgerError
            If the data set has no grant.
        """
        return compose(self._account(dataset).events)

    def remaining(self, dataset: str) -> Budget | None:
        """Return the largest budget that a further analysis may still have, or None if it is exhausted.

        The grant itself as long as nothing is spent. After that in the notion of the grant where that is
        pure, GDP or zCDP; for an (ε, δ) grant, whose remainder is no such pair, in GDP (see
        `Budget.epsilon_at`), or pure where nothing else fits. Less than a millionth of it counts as none.

        Raises
        ------
        LedgerError
            If the data set has no grant.

        Notes
        -----
        *Guarantee.* Gaussian releases of the result's ``mu`` (pure ones of its ``epsilon``, if it is pure)
        can be reserved, if nobody else reserves first.
        """
        account = self._account(dataset)
        budget = account.budget
        if not account.spent:
            return budget
        mu = _largest_left(account, GaussianEvent, budget.mu)
        if mu > 0.0:
            return Budget.zcdp(_half_square_below(mu)) if budget.notion == "zcdp" else Budget.gdp(mu)
        if budget.notion in ("gdp", "zcdp"):
            return None
        epsilon = _largest_left(account, PureEvent, budget.epsilon)
        return Budget(epsilon) if epsilon > 0.0 else None

    def verify(self, head: str | None = None) -> ChainCheck:
        """Check every entry against the chain of hashes.

        Parameters
        ----------
        head : str, optional
            The head of an earlier `verify`, kept outside of the file.

        Returns
        -------
        ChainCheck
            Number of entries, the present head, and how many entries follow ``head``.

        Raises
        ------
        LedgerError
            If an entry was changed, removed, added or moved, or if ``head`` is not among the entries, so
            that the end was cut off or the file written anew.
        """
        if head is not None and not isinstance(head, str):
            raise InvalidArgument(f"head must be text, got {type(head).__name__}")
        links = self._file.read()
        Book.read(links)
        return check_links(links, head=head)

    def export(self) -> dict[str, Any]:
        """Return all entries as JSON-ready types, oldest first, and the head of the chain."""
        links = self._file.read()
        book = Book.read(links)
        grants = [
            {
                "dataset": grant.dataset,
                "budget": grant.budget.to_dict(),
                "schema": grant.schema,
                "granted_at": grant.at,
            }
            for grant in book.grants.values()
        ]
        reservations = [
            {
                "id": number,
                "dataset": spend.dataset,
                "events": [event_to_dict(event) for event in spend.events],
                "relation": spend.relation,
                "unit": spend.unit,
                "schema": spend.schema,
                "note": spend.note,
                "reserved_at": spend.at,
                "committed_at": book.commits[number].at if number in book.commits else None,
            }
            for number, spend in book.reservations.items()
        ]
        check = check_links(links)
        return {
            "entries": check.entries,
            "head": check.head,
            "grants": grants,
            "reservations": reservations,
        }

    def close(self) -> None:
        """Do nothing, since nothing is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _account(self, dataset: str) -> Account:
        return Book.read(self._file.read()).account(check_name(dataset))


LedgerOrPath: TypeAlias = Ledger | str | os.PathLike[str]
"""What a fit takes for one."""


def _largest_left(account: Account, kind: Callable[[float], Event], top: float) -> float:
    """Return the largest size up to ``top`` of an event that may follow; 0 if next to none may."""
    if not 0.0 < top < math.inf:
        return 0.0
    if account.admits((kind(top),)):
        return top
    low, high = 0.0, top
    for _ in range(_ROUNDS):
        middle = low + (high - low) / 2
        low, high = (middle, high) if account.admits((kind(middle),)) else (low, middle)
    return low if low > _NEGLIGIBLE * top else 0.0


def _half_square_below(mu: float) -> float:
    half = Fraction(mu) ** 2 / 2
    rho = float(half)
    return rho if Fraction(rho) <= half else math.nextafter(rho, 0.0)


def _reservation(
    dataset: str,
    events: Iterable[Event] | Budget,
    *,
    relation: RelationName,
    unit: str | None,
    schema: Fingerprinted | None,
    note: str,
) -> Reservation:
    new = events_of(events)
    one_of(("replace", "add_remove"), relation=relation)
    if any(isinstance(event, SampledGaussianEvent) and event.relation != relation for event in new):
        raise InvalidArgument("relation must be the one that steps on sampled rows are accounted for under")
    column_name(unit=unit)
    if not isinstance(note, str):
        raise InvalidArgument(f"note must be text, got {type(note).__name__}")
    return Reservation(check_name(dataset), new, relation, unit, _fingerprint(schema), note, now())


def check_name(dataset: object) -> str:
    """Return the name of a data set, or raise `InvalidArgument` if it is none."""
    if not isinstance(dataset, str) or not dataset.strip():
        raise InvalidArgument("dataset must be a name, not empty")
    return dataset


def _fingerprint(schema: Fingerprinted | None) -> str | None:
    if schema is None:
        return None
    fingerprint = getattr(schema, "fingerprint", None)
    if not isinstance(fingerprint, str):
        raise InvalidArgument(
            f"schema must be a privfit.Schema, got {type(schema).__name__}; make one of declarations by "
            "privfit.Schema(mapping), or of a file by privfit.Schema.from_toml(path)"
        )
    return fingerprint
