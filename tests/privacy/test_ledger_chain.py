"""Tampering with a ledger shows, and a ledger that cannot be written to refuses."""

import json
import sqlite3
import subprocess
import sys

import pytest

from privfit.data.schema import Schema
from privfit.errors import InvalidArgument, LedgerError
from privfit.privacy.budget import Budget
from privfit.privacy.chain import Link, next_link
from privfit.privacy.composition import PureEvent, compose
from privfit.privacy.ledger import Ledger
from privfit.privacy.ledger_file import need_ledger


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(path)
    ledger.grant("census", Budget(1.0))
    for epsilon in (0.5, 0.25, 0.125):
        ledger.commit(ledger.reserve("census", [PureEvent(epsilon)]))
    return path


def rewrite(path, *statements):
    """Change the file as somebody would who has taken the triggers away."""
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for sql, *values in statements:
        assert connection.execute(sql, values).rowcount >= 1
    connection.commit()
    connection.close()


def swapped():
    move = "UPDATE entries SET number = ? WHERE number = ?"
    return [(move, 100, 3), (move, 3, 5), (move, 5, 100)]


TAMPERING = {
    "cheaper spend": [("UPDATE entries SET body = replace(body, '0.5', '0.1') WHERE number = 3",)],
    "larger grant": [("UPDATE entries SET body = replace(body, '1.0', '9.0') WHERE number = 2",)],
    "earlier time": [("UPDATE entries SET body = replace(body, '20', '19') WHERE number = 4",)],
    "deleted spend": [("DELETE FROM entries WHERE number IN (3, 4)",)],
    "deleted start": [("DELETE FROM entries WHERE number = 1",)],
    "deleted and renumbered": [
        ("DELETE FROM entries WHERE number IN (5, 6)",),
        ("UPDATE entries SET number = number - 2 WHERE number > 6",),
    ],
    "reordered": swapped(),
    "other digest": [("UPDATE entries SET digest = ? WHERE number = 8", "0" * 64)],
    "no digest": [("UPDATE entries SET digest = '' WHERE number = 2",)],
    "emptied": [("DELETE FROM entries",)],
}


@pytest.mark.parametrize("statements", TAMPERING.values(), ids=TAMPERING)
def test_tampering_is_noticed_by_every_call(path, statements):
    ledger = Ledger(path)
    rewrite(path, *statements)
    for call in (
        ledger.verify,
        ledger.export,
        lambda: ledger.spent("census"),
        lambda: ledger.remaining("census"),
        lambda: ledger.reserve("census", [PureEvent(0.01)]),
        lambda: ledger.commit(3),
        lambda: ledger.grant("other", Budget(1.0)),
        lambda: Ledger(path),
    ):
        with pytest.raises(LedgerError, match=r"was changed, removed|lost its entries") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_head_kept_elsewhere_shows_that_the_end_was_cut_off(path):
    ledger = Ledger(path)
    head = ledger.verify().head
    rewrite(path, ("DELETE FROM entries WHERE number > 6",))
    assert ledger.verify().entries == 6
    with pytest.raises(LedgerError, match="entries at its end were cut off"):
        ledger.verify(head)


def test_a_head_kept_elsewhere_shows_that_the_file_was_written_anew(path):
    ledger = Ledger(path)
    head = ledger.verify().head
    connection = sqlite3.connect(path)
    links = [Link(*row) for row in connection.execute("SELECT * FROM entries ORDER BY number")]
    connection.close()
    forged, last = [], None
    for link in links:
        last = next_link(last, link.body.replace('"epsilon": 0.5', '"epsilon": 0.1'))
        forged.append(("UPDATE entries SET body = ?, digest = ? WHERE number = ?", last.body, last.digest))
    rewrite(path, *((sql, body, digest, k + 1) for k, (sql, body, digest) in enumerate(forged)))
    assert ledger.spent("census") == compose([PureEvent(0.1), PureEvent(0.25), PureEvent(0.125)])
    with pytest.raises(LedgerError, match="does not contain the given head"):
        ledger.verify(head)


def test_a_ledger_that_grew_contains_its_earlier_heads(path):
    ledger = Ledger(path)
    before = ledger.verify()
    assert before.since is None
    ledger.commit(ledger.reserve("census", [PureEvent(0.01)]))
    after = ledger.verify(f" {before.head.upper()}\n")
    assert (after.entries, after.since) == (before.entries + 2, 2)
    assert ledger.verify(after.head).since == 0
    assert ledger.export()["head"] == after.head
    with pytest.raises(InvalidArgument, match="head must be text"):
        ledger.verify(3)


def test_two_ledgers_share_no_head(tmp_path):
    first, second = (Ledger(tmp_path / name) for name in ("a.db", "b.db"))
    with pytest.raises(LedgerError, match="another ledger"):
        second.verify(first.verify().head)


AGE = {"type": "numeric", "lower": 0, "upper": 90}
SEX = {"type": "categorical", "levels": ["f", "m"]}


def test_a_grant_for_a_schema_is_for_that_schema_only(path):
    ledger = Ledger(path)
    schema = Schema({"age": AGE, "sex": SEX})
    ledger.grant("people", Budget(1.0), schema=schema)
    ledger.grant("people", Budget(1.0), schema=schema)
    same = Schema({"sex": {**SEX, "target": True}, "age": AGE})
    number = ledger.reserve("people", [PureEvent(0.1)], schema=same)
    for other in (None, Schema({"age": AGE}), Schema({"age": {**AGE, "upper": 91}, "sex": SEX})):
        with pytest.raises(LedgerError, match="granted with a schema"):
            ledger.reserve("people", [PureEvent(0.1)], schema=other)
        with pytest.raises(LedgerError, match="leave schema as it was"):
            ledger.grant("people", Budget(1.0), schema=other)
    with pytest.raises(InvalidArgument, match=r"must be a privfit\.Schema"):
        ledger.reserve("people", [PureEvent(0.1)], schema={"age": AGE})
    with pytest.raises(InvalidArgument, match=r"got dict; make one of declarations by privfit\.Schema\(map"):
        ledger.grant("people", Budget(1.0), schema={"age": AGE})
    exported = json.loads(json.dumps(ledger.export()))
    assert exported["grants"][-1]["schema"] == schema.fingerprint
    assert exported["reservations"][-1] | {"reserved_at": ""} == {
        "id": number,
        "dataset": "people",
        "events": [{"type": "pure", "epsilon": 0.1}],
        "relation": "replace",
        "unit": None,
        "schema": schema.fingerprint,
        "note": "",
        "reserved_at": "",
        "committed_at": None,
    }


def test_a_fingerprint_is_of_declarations_and_stable():
    schema = Schema({"age": AGE, "sex": SEX})
    assert schema.fingerprint == Schema.from_dict(schema.to_dict()).fingerprint
    assert len(schema.fingerprint) == 64
    others = [
        {"age": AGE},
        {"age": AGE, "sex": {**SEX, "levels": ["m", "f"]}},
        {"ages": AGE, "sex": SEX},
        {"age": AGE, "sex": SEX, "row_norm": 1.0},
    ]
    assert len({schema.fingerprint, *(Schema(other).fingerprint for other in others)}) == 5


FULL_DISK = """
import resource, signal, sys
from privfit.errors import LedgerError
from privfit.privacy.composition import PureEvent
from privfit.privacy.ledger import Ledger

ledger = Ledger(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    ledger.reserve("census", [PureEvent(0.01)], note="n" * 20000)
except LedgerError as error:
    print(error)
else:
    sys.exit("the reservation was made")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_disk_that_takes_no_more_refuses_and_spends_nothing(path):
    before = Ledger(path).verify()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("ledger ledger.db: ")
    assert done.stdout.endswith("check the path, its rights and the disk\n")
    assert done.stdout.count("\n") == 1
    assert Ledger(path).verify() == before


def test_a_ledger_that_is_not_there_is_refused(tmp_path):
    path = tmp_path / "account.db"
    for missing in (path, str(path), tmp_path):
        with pytest.raises(LedgerError, match="does not exist; check the path, or make it with"):
            need_ledger(missing)
    assert not path.exists()
    Ledger(path)
    need_ledger(path)
    need_ledger(str(path))
