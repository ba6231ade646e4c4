"""A chain of hashes over the entries of a ledger, so that a change to an old entry shows."""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

from privfit.errors import LedgerError

ROOT: Final = "0" * 64
"""What stands where the hash before the first entry would."""


@final
@dataclass(frozen=True, slots=True)
class Link:
    """One entry as it is stored.

    Parameters
    ----------
    number : int
        1 for the first entry, and one more for each further one.
    body : str
        The entry as JSON.
    digest : str
        `digest_of` the entry and of the digest before it, in hexadecimal.
    """

    number: int
    body: str
    digest: str


@final
@dataclass(frozen=True, slots=True)
class ChainCheck:
    """A chain that is unbroken.

    Parameters
    ----------
    entries : int
        Number of entries.
    head : str
        Digest of the last one. Kept elsewhere, it shows later whether the end of the ledger was cut off.
    since : int or None
        Entries after the head that was asked for; None if none was.
    """

    entries: int
    head: str
    since: int | None = None


def digest_of(previous: str, number: int, body: str) -> str:
    """Return SHA-256 of the previous digest, the number and the body, in hexadecimal."""
    return hashlib.sha256(f"{previous}\n{number}\n{body}".encode()).hexdigest()


def next_link(previous: Link | None, body: str) -> Link:
    """Return the entry that follows another one, or the first."""
    number, before = (1, ROOT) if previous is None else (previous.number + 1, previous.digest)
    return Link(number, body, digest_of(before, number, body))


def check_links(links: Sequence[Link], *, head: str | None = None) -> ChainCheck:
    """Return what the chain says, or raise where it is broken.

    Parameters
    ----------
    links : sequence of Link
        All entries, by number.
    head : str, optional
        The digest of an entry, written down earlier.

    Raises
    ------
    LedgerError
        If there is no entry; if one was changed, removed, added or moved; or if no entry has the digest
        ``head``, so that entries at the end are gone or the whole was written anew.

    Notes
    -----
    *Guarantee.* Only a collision of SHA-256 lets another sequence of entries up to ``head`` pass. Without a
    head, whoever can write the file can cut off its end or compute all digests anew.
    """
    if not links:
        raise LedgerError("the ledger has lost its entries; restore it from a backup")
    expected = None
    for link in links:
        expected = next_link(expected, link.body)
        if link.number != expected.number or not hmac.compare_digest(link.digest, expected.digest):
            raise LedgerError(
                f"entry {expected.number} of the ledger was changed, removed, added or moved: its chain of "
                "hashes is broken; restore it from a backup and find out who wrote to it"
            )
    if head is None:
        return ChainCheck(len(links), links[-1].digest)
    wanted = head.strip().lower()
    for link in links:
        if link.digest == wanted:
            return ChainCheck(len(links), links[-1].digest, len(links) - link.number)
    raise LedgerError(
        "the ledger does not contain the given head: entries at its end were cut off, or it is another "
        "ledger; restore it from a backup"
    )
