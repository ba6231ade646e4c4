import contextlib
import copy
import json
import multiprocessing
import os
import pickle
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import privfit.privacy.ledger_file
from privfit.errors import BudgetExceeded, Incompatible, InvalidArgument, LedgerError
from privfit.privacy.budget import Budget
from privfit.privacy.chain import Link, next_link
from privfit.privacy.composition import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.privacy.ledger import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    return Ledger(path)


def reserve_until_refused(path, start, counts):
    ledger = Ledger(path)
    start.wait()
    count = 0
    for _ in range(15):
        try:
            ledger.reserve("census", [PureEvent(0.1)])
            count += 1
        except BudgetExceeded:
            break
    counts.put(count)


def create_and_grant(path, start, failures):
    start.wait()
    try:
        Ledger(path).grant("census", Budget(1.0))
    except Exception as error:
        failures.put(repr(error))
        raise


def reserve_and_die(path):
    Ledger(path).reserve("census", [PureEvent(0.75)])
    os._exit(9)


def run_processes(target, count, *arguments):
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(count), context.Queue()
    workers = [context.Process(target=target, args=(*arguments, start, results)) for _ in range(count)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0, results.get(timeout=5)
    return results


def test_processes_together_never_overspend(path, ledger):
    ledger.grant("census", Budget(1.0))
    counts = run_processes(reserve_until_refused, 3, path)
    assert sum(counts.get(timeout=5) for _ in range(3)) == 10
    assert ledger.spent("census") == compose([PureEvent(0.1)] * 10)
    assert ledger.remaining("census") is None


def test_processes_can_create_the_same_ledger_at_once(path):
    run_processes(create_and_grant, 3, path)
    assert Ledger(path).remaining("census") == Budget(1.0)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_threads_share_one_ledger_object(ledger):
    ledger.grant("census", Budget(1.0))
    refused = []

    def spend():
        for _ in range(4):
            try:
                ledger.reserve("census", [PureEvent(0.1)])
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 2
    assert ledger.spent("census").epsilon_at(0.0) == 1.0


def test_a_crash_after_reserving_leaves_the_budget_spent(path, ledger):
    ledger.grant("census", Budget(1.0))
    process = multiprocessing.get_context("spawn").Process(target=reserve_and_die, args=(path,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    again = Ledger(path)
    assert again.remaining("census") == Budget(0.25)
    assert again.export()["reservations"][0]["committed_at"] is None
    with pytest.raises(BudgetExceeded):
        again.reserve("census", [PureEvent(0.5)])


def test_commit_neither_refunds_nor_charges(ledger):
    ledger.grant("census", Budget.gdp(1.0))
    first = ledger.reserve("census", [GaussianEvent(0.5)])
    before = ledger.spent("census")
    ledger.commit(first)
    assert ledger.spent("census") == before
    with pytest.raises(LedgerError, match="committed already"):
        ledger.commit(first)
    with pytest.raises(LedgerError, match="no reservation"):
        ledger.commit(first + 1)
    with pytest.raises(InvalidArgument):
        ledger.commit("1")


def test_every_notion_is_exhausted_exactly(ledger):
    for name, budget, event in (
        ("pure", Budget(0.3), PureEvent(0.1)),
        ("pair", Budget(0.3, 3e-7), ApproximateEvent(0.1, 1e-7)),
    ):
        ledger.grant(name, budget)
        for _ in range(3):
            ledger.reserve(name, [event])
        with pytest.raises(BudgetExceeded):
            ledger.reserve(name, [event])
    for name, budget in (("gdp", Budget.gdp(0.7)), ("zcdp", Budget.zcdp(0.2)), ("dp", Budget(1.0, 1e-6))):
        ledger.grant(name, budget)
        for _ in range(4):
            ledger.reserve(name, [GaussianEvent(budget.mu / 2)])
        assert ledger.spent(name).within(budget)
        assert ledger.remaining(name) is None
        with pytest.raises(BudgetExceeded):
            ledger.reserve(name, [GaussianEvent(1e-3 * budget.mu)])


def test_a_refused_reservation_spends_nothing(ledger):
    ledger.grant("census", Budget(1.0, 1e-6))
    before = ledger.export()
    with pytest.raises(BudgetExceeded, match="census") as caught:
        ledger.reserve("census", [GaussianEvent(0.5)])
    assert "\n" not in str(caught.value)
    assert "0.5-Gaussian" in str(caught.value)
    with pytest.raises(Incompatible):
        ledger.reserve("census", [GaussianEvent(0.1), "laplace"])
    with pytest.raises(InvalidArgument, match="nothing to reserve"):
        ledger.reserve("census", [])
    with pytest.raises(InvalidArgument, match="events must be a list of events"):
        ledger.reserve("census", 0.1)
    assert ledger.export() == before
    ledger.reserve("census", [GaussianEvent(0.1)])


@pytest.mark.parametrize(
    ("budget", "event"),
    [
        (Budget(1.0), PureEvent(0.3)),
        (Budget.gdp(1.0), GaussianEvent(0.6)),
        (Budget.gdp(1.0), PureEvent(0.6)),
        (Budget.zcdp(0.5), PureEvent(0.6)),
        (Budget.zcdp(0.5), GaussianEvent(0.3)),
        (Budget(1.0, 1e-6), GaussianEvent(0.1)),
        (Budget(1.0, 1e-6), PureEvent(0.2)),
        (Budget(1.0, 1e-6), ApproximateEvent(0.2, 1e-8)),
    ],
    ids=repr,
)
def test_what_remains_can_be_reserved_and_little_more(ledger, budget, event):
    ledger.grant("census", budget)
    assert ledger.remaining("census") == budget
    ledger.reserve("census", [event])
    left = ledger.remaining("census")
    assert left.notion in {"approximate": ("gdp", "pure")}.get(budget.notion, (budget.notion,))
    if left.notion == "pure":
        more, rest = PureEvent(left.epsilon * 1.01), PureEvent(left.epsilon)
    else:
        more, rest = GaussianEvent(left.mu * 1.01), GaussianEvent(left.mu)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("census", [more])
    ledger.reserve("census", [rest])
    assert ledger.spent("census").within(budget)


def test_what_remains_beside_releases_of_all_kinds_is_found_at_once(ledger):
    """After releases of all kinds ε and δ add up; found to the last thousandth, and no more."""
    events = (
        [GaussianEvent(0.1)] * 10 + [PureEvent(0.01)] * 20 + [PureEvent(0.3), ApproximateEvent(0.2, 1e-8)]
    )
    ledger.grant("census", Budget(3.0, 1e-6))
    ledger.reserve("census", events)
    start = time.process_time()
    left = ledger.remaining("census")
    assert time.process_time() - start < 2.0
    assert compose([*events, GaussianEvent(left.mu)]).within(Budget(3.0, 1e-6))
    with pytest.raises(BudgetExceeded):
        ledger.reserve("census", [GaussianEvent(1.001 * left.mu)])
    ledger.reserve("census", [GaussianEvent(left.mu)])


def test_what_remains_of_a_concentrated_grant_can_be_reserved_to_the_last_digit(ledger):
    for k, rho in enumerate(np.random.default_rng(8).uniform(0.1, 2.0, 40)):
        ledger.grant(f"census {k}", Budget.zcdp(rho))
        ledger.reserve(f"census {k}", [GaussianEvent(0.1 * rho)])
        mu = ledger.remaining(f"census {k}").mu
        ledger.reserve(f"census {k}", [GaussianEvent(mu)])
        assert mu**2 + (0.1 * rho) ** 2 == pytest.approx(2 * rho, rel=1e-12)


@pytest.mark.parametrize("grant", [1000.0, 1e-3])
def test_less_than_a_millionth_of_a_grant_is_nothing(ledger, grant):
    ledger.grant("census", Budget(grant))
    ledger.reserve("census", [PureEvent(grant * (1 - 1e-5))])
    assert ledger.remaining("census").epsilon == pytest.approx(1e-5 * grant, rel=1e-9)
    ledger.reserve("census", [PureEvent(grant * 0.95e-5)])
    assert ledger.remaining("census") is None


def test_data_sets_do_not_mix(ledger):
    ledger.grant("a", Budget(1.0))
    ledger.grant("b", Budget(1.0))
    ledger.reserve("a", [PureEvent(1.0)])
    assert ledger.remaining("b") == Budget(1.0)


def test_a_grant_is_final_and_may_be_repeated(ledger):
    ledger.grant("census", Budget(1.0, 1e-6))
    ledger.grant("census", Budget(1.0, 1e-6))
    for other in (Budget(2.0, 1e-6), Budget(1.0), Budget.gdp(1.0)):
        with pytest.raises(LedgerError, match="a grant is final"):
            ledger.grant("census", other)
    assert ledger.granted("census") == Budget(1.0, 1e-6)
    assert len(ledger.export()["grants"]) == 1


def test_unknown_data_set_comes_with_a_remedy(ledger):
    for call in (
        lambda: ledger.reserve("census", [PureEvent(0.1)]),
        lambda: ledger.spent("census"),
        lambda: ledger.remaining("census"),
    ):
        with pytest.raises(LedgerError, match=r"call ledger\.grant\('census', budget\) first"):
            call()


@pytest.mark.parametrize("bad", ["", "  ", None, 3])
def test_names_budgets_and_notes_are_checked(ledger, bad):
    with pytest.raises(InvalidArgument, match="dataset must"):
        ledger.grant(bad, Budget(1.0))
    with pytest.raises(InvalidArgument, match="budget must"):
        ledger.grant("census", bad)
    ledger.grant("census", Budget(1.0))
    if not isinstance(bad, str):
        with pytest.raises(InvalidArgument, match="note must"):
            ledger.reserve("census", [PureEvent(0.1)], note=bad)


def test_export_holds_everything_as_json(ledger):
    ledger.grant("census", Budget.zcdp(0.5))
    events = [GaussianEvent(0.1), PureEvent(0.2)]
    number = ledger.reserve("census", events, note="logit of income")
    ledger.commit(number)
    ledger.reserve("census", [GaussianEvent(1 / 3)])
    exported = json.loads(json.dumps(ledger.export()))
    assert exported["grants"][0]["budget"] == {"notion": "zcdp", "rho": 0.5}
    first, second = exported["reservations"]
    assert (first["id"], first["dataset"], first["note"]) == (number, "census", "logit of income")
    assert first["events"] == [{"type": "gaussian", "mu": 0.1}, {"type": "pure", "epsilon": 0.2}]
    assert first["committed_at"] >= first["reserved_at"]
    assert second["events"] == [{"type": "gaussian", "mu": 1 / 3}]
    assert second["committed_at"] is None


def test_entries_can_neither_be_changed_nor_deleted(path, ledger):
    ledger.grant("census", Budget(1.0))
    ledger.commit(ledger.reserve("census", [PureEvent(0.5)]))
    connection = sqlite3.connect(path)
    row = connection.execute("SELECT * FROM entries WHERE number = 2").fetchone()
    for sql, values in (
        ("DELETE FROM entries", ()),
        ("UPDATE entries SET body = ''", ()),
        ("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", row),
    ):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            connection.execute(sql, values)
    connection.close()
    folder = Path(privfit.privacy.ledger_file.__file__).parent
    for name in ("ledger.py", "ledger_file.py"):
        source = (folder / name).read_text()
        assert "DELETE FROM" not in source
        assert "UPDATE entries" not in source


def test_a_ledger_object_can_be_copied_and_sent(path, ledger):
    ledger.grant("census", Budget(1.0))
    for twin in (copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))):  # noqa: S301
        assert twin.remaining("census") == Budget(1.0)
    with Ledger(path) as opened:
        assert opened.remaining("census") == Budget(1.0)
    assert "ledger.db" in repr(ledger)


def test_locks_are_on_the_file_itself(path, ledger):
    """Those of a write-ahead log, which files of earlier versions have, are on one beside its name."""

    def mode(statement="PRAGMA journal_mode"):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return connection.execute(statement).fetchone()[0]

    assert mode() == "delete"
    assert mode("PRAGMA journal_mode = WAL") == "wal"
    ledger.verify()
    assert mode() == "wal"  # who only reads changes nothing
    ledger.grant("census", Budget(1.0))
    assert mode() == "delete"


def test_a_file_with_two_names_is_refused(path, ledger):
    """Nothing can be spent under either, and what was spent is still shown."""
    ledger.grant("census", Budget(1.0))
    other = path.with_name("other.db")
    os.link(path, other)
    for name in (path, other):
        expect_one_line(lambda: Ledger(name).reserve("census", [PureEvent(0.1)]), "remove all names but one")  # noqa: B023
        assert Ledger(name).remaining("census") == Budget(1.0)
    other.unlink()
    ledger.reserve("census", [PureEvent(0.1)])


def test_the_draft_of_a_maker_that_was_killed_is_no_second_name(path, ledger):
    draft = path.with_name(f".{path.name}.0a1b")
    os.link(path, draft)
    bystander = path.with_name(f".{path.name}.0a1c")
    bystander.write_bytes(b"")
    ledger.grant("census", Budget(1.0))
    assert not draft.exists()
    assert bystander.exists()


def expect_one_line(call, words):
    with pytest.raises(LedgerError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_a_locked_file_is_reported_after_the_timeout(path):
    ledger = Ledger(path, timeout=0.05)
    ledger.grant("census", Budget(1.0))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    expect_one_line(lambda: ledger.reserve("census", [PureEvent(0.1)]), "is locked; another process holds it")
    other.execute("ROLLBACK")
    other.close()
    ledger.reserve("census", [PureEvent(0.1)])


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100, b"\0" * 4096])
def test_a_file_that_is_no_ledger_is_refused_and_left_alone(path, content):
    path.write_bytes(content)
    expect_one_line(lambda: Ledger(path), "not a ledger")
    assert path.read_bytes() == content


def test_another_database_is_refused(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    expect_one_line(lambda: Ledger(path), "not a ledger")


@pytest.mark.parametrize("page", [1, 2, 3, 4, 5])
def test_damage_to_any_page_is_noticed(path, ledger, page):
    ledger.grant("census", Budget(1.0))
    for _ in range(3):
        ledger.commit(ledger.reserve("census", [PureEvent(0.1)], note="n" * 5000))
    content = bytearray(path.read_bytes())
    assert len(content) >= 6 * 4096
    content[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    expect_one_line(lambda: ledger.reserve("census", [PureEvent(0.1)]), "corrupt")


def test_a_truncated_file_is_refused(path, ledger):
    ledger.grant("census", Budget(1.0))
    path.write_bytes(path.read_bytes()[:5000])
    expect_one_line(lambda: ledger.spent("census"), "corrupt")


def append(path, body):
    """Add an entry with a correct hash, as somebody can who may write to the file."""
    connection = sqlite3.connect(path)
    last = connection.execute("SELECT * FROM entries ORDER BY number DESC LIMIT 1").fetchone()
    link = next_link(Link(*last), body)
    connection.execute("INSERT INTO entries VALUES (?, ?, ?)", (link.number, link.body, link.digest))
    connection.commit()
    connection.close()


def spend(events, **changes):
    body = {"kind": "reserve", "dataset": "census", "events": events, "schema": None, "note": "", "at": ""}
    return json.dumps({**body, **changes})


PURE = {"type": "pure", "epsilon": 0.1}


@pytest.mark.parametrize(
    "text",
    [
        "[",
        "3",
        "[" * 100_000,
        "{}",
        spend("[]"),
        spend({}),
        spend([]),
        spend([{"type": "free"}]),
        spend([{"type": "pure", "epsilon": -1}]),
        spend([{"mu": 1}]),
        spend([PURE], note=3),
        spend([PURE], note=None),
        spend([PURE], schema=3),
        spend([PURE], extra=1),
        spend([PURE], relation="swap"),
        spend([PURE], relation=3),
        spend([PURE], unit="person"),
        spend([PURE], relation="replace", unit=3),
        spend([PURE], kind="refund"),
        '{"kind": "commit", "reservation": "2", "at": ""}',
        '{"kind": "grant", "dataset": "b", "budget": {}, "schema": null, "at": ""}',
    ],
)
def test_an_unreadable_entry_is_refused_and_not_skipped(path, ledger, text):
    ledger.grant("census", Budget(1.0))
    append(path, text)
    expect_one_line(lambda: ledger.spent("census"), "cannot be read")


@pytest.mark.parametrize(
    "text",
    [
        spend([PURE], dataset="unheard of"),
        '{"kind": "commit", "reservation": 2, "at": ""}',
        '{"kind": "open", "ledger": "x", "at": ""}',
        json.dumps(
            {"kind": "grant", "dataset": "census", "budget": Budget(9.0).to_dict(), "schema": None, "at": ""}
        ),
    ],
)
def test_an_entry_that_cannot_follow_the_others_is_refused(path, ledger, text):
    ledger.grant("census", Budget(1.0))
    append(path, text)
    expect_one_line(lambda: ledger.reserve("census", [PureEvent(0.1)]), "cannot follow")


def test_a_well_formed_entry_from_outside_counts(path, ledger):
    ledger.grant("census", Budget(1.0))
    append(path, spend([PURE]))
    assert ledger.spent("census") == compose([PureEvent(0.1)])


def test_a_ledger_that_vanished_does_not_come_back_empty(path, ledger):
    ledger.grant("census", Budget(1.0))
    path.unlink()
    expect_one_line(lambda: ledger.spent("census"), "ledger.db")
    assert not path.exists()


def test_paths_that_cannot_be(tmp_path):
    expect_one_line(lambda: Ledger(tmp_path), "check the path")
    expect_one_line(lambda: Ledger(tmp_path / "missing" / "ledger.db"), "check the path")
    Ledger(tmp_path / "odd name #1?.db").grant("x", Budget(1.0))
    assert [p.name for p in tmp_path.iterdir()] == ["odd name #1?.db"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX rights")
def test_an_sqlite_without_strict_tables_is_named(path, monkeypatch):
    ledger = Ledger(path)
    ledger.grant("census", Budget(1.0))
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.36.0")
    words = r"needs SQLite 3\.37 or later, and this Python has 3\.36\.0"
    expect_one_line(lambda: ledger.reserve("census", [PureEvent(0.1)]), words)
    expect_one_line(lambda: Ledger(path.with_name("new.db")), words)
    assert [file.name for file in path.parent.iterdir() if "new" in file.name] == []
    monkeypatch.undo()
    assert ledger.spent("census").pairs == ()


def test_a_read_only_file_is_reported():
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()
    try:
        path = folder / "ledger.db"
        ledger = Ledger(path)
        ledger.grant("census", Budget(1.0))
        path.chmod(0o444)
        folder.chmod(0o555)
        if user == 0:
            os.seteuid(65534)  # the superuser may write anywhere
        expect_one_line(lambda: ledger.reserve("census", [PureEvent(0.1)]), "check the path, its rights")
        expect_one_line(lambda: Ledger(folder / "new.db"), "check the path, its rights")
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        shutil.rmtree(folder)


HIDDEN = [
    ("replace", None),
    ("add_remove", None),
    ("replace", "person"),
    ("add_remove", "person"),
    ("replace", "id"),
]


@pytest.mark.parametrize("kept", HIDDEN)
def test_costs_that_do_not_add_up_share_no_account(path, ledger, kept):
    """A release for rows promises a person nothing, and one for added rows little for replaced ones."""
    ledger.grant("census", Budget(1.0))
    relation, unit = kept
    ledger.reserve("census", [PureEvent(0.1)], relation=relation, unit=unit)
    before = ledger.export()
    for relation, unit in HIDDEN:
        if (relation, unit) == kept:
            continue
        for call in (ledger.reserve, ledger.check):
            with pytest.raises(
                LedgerError, match=r"dataset 'census' holds guarantees for .* do not add up; keep"
            ):
                call("census", [PureEvent(0.1)], relation=relation, unit=unit)
    assert ledger.export() == before
    relation, unit = kept
    Ledger(path).reserve("census", [PureEvent(0.9)], relation=relation, unit=unit)
    ledger.grant("another", Budget(1.0))
    ledger.reserve("another", [PureEvent(0.1)], relation="add_remove", unit="household")
    stored = ledger.export()["reservations"]
    assert [(spend["relation"], spend["unit"]) for spend in stored] == [
        kept,
        kept,
        ("add_remove", "household"),
    ]


def test_the_refusal_says_which_guarantees_differ(ledger):
    ledger.grant("census", Budget(1.0))
    ledger.reserve("census", [PureEvent(0.1)])
    expect_one_line(
        lambda: ledger.reserve("census", [PureEvent(0.1)], relation="add_remove", unit="person"),
        "for one row replaced, and that of this analysis is for all rows of one value of person added or",
    )


def test_an_entry_of_an_unknown_relation_counts_and_nothing_is_added_to_it(path, ledger):
    """As earlier versions wrote it. What it cost is known, for which neighbours is not."""
    ledger.grant("census", Budget(1.0))
    append(path, spend([PURE]))
    assert ledger.verify().entries == 3
    assert ledger.spent("census") == compose([PureEvent(0.1)])
    assert ledger.remaining("census") == Budget(0.9)
    assert ledger.export()["reservations"][0]["relation"] is None
    for relation, unit in HIDDEN:
        with pytest.raises(LedgerError, match="an earlier version of privfit did not write down"):
            ledger.reserve("census", [PureEvent(0.1)], relation=relation, unit=unit)
    ledger.commit(3)


@pytest.mark.parametrize("wrong", [{"relation": "swap"}, {"relation": None}, {"unit": 3}])
def test_what_a_reservation_hides_is_a_relation_and_a_name(ledger, wrong):
    ledger.grant("census", Budget(1.0))
    for call in (ledger.reserve, ledger.check):
        with pytest.raises(InvalidArgument, match=r"relation must be one of|unit must be the name"):
            call("census", [PureEvent(0.1)], **wrong)


def test_a_check_says_what_a_reservation_would_and_spends_nothing(ledger):
    with pytest.raises(LedgerError, match="has no grant"):
        ledger.check("census", [PureEvent(0.1)])
    ledger.grant("census", Budget(1.0))
    ledger.check("census", [PureEvent(1.0)])
    with pytest.raises(BudgetExceeded):
        ledger.check("census", [PureEvent(1.1)])
    assert ledger.remaining("census") == Budget(1.0)


def test_steps_on_sampled_rows_are_stored_and_spent(path, ledger):
    ledger.grant("census", Budget(1.0, 1e-6))
    event = SampledGaussianEvent("poisson", "replace", 0.3, 0.05, 200)
    ledger.reserve("census", [event, GaussianEvent(0.02)])
    assert Ledger(path).spent("census") == compose([event, GaussianEvent(0.02)])
    stored = ledger.export()["reservations"][0]["events"][0]
    assert stored == {
        "type": "sampled",
        "scheme": "poisson",
        "relation": "replace",
        "ratio": 0.3,
        "rate": 0.05,
        "steps": 200,
    }
    left = ledger.remaining("census")
    assert left is not None
    with pytest.raises(BudgetExceeded, match="200 steps"):
        ledger.reserve("census", [GaussianEvent(1.01 * left.mu)])
    other = SampledGaussianEvent("poisson", "add_remove", 0.1, 0.05, 2)
    with pytest.raises(InvalidArgument, match="relation must be the one"):
        ledger.reserve("census", [other])
    with pytest.raises(InvalidArgument, match="relation must be the one"):
        ledger.reserve("census", [GaussianEvent(0.01), other])
    with pytest.raises(LedgerError, match="do not add up"):
        ledger.reserve("census", [other], relation="add_remove")
    ledger.reserve("census", [GaussianEvent(left.mu)])


@pytest.mark.parametrize("grant", [Budget(9.0), Budget.gdp(9.0), Budget.zcdp(9.0)], ids=repr)
def test_steps_on_sampled_rows_need_a_grant_in_epsilon_and_delta(ledger, grant):
    ledger.grant("census", grant)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("census", [SampledGaussianEvent("one", "replace", 0.01, 0.001, 2)])


@pytest.mark.parametrize(
    "changes",
    [
        {"scheme": "all"},
        {"relation": "swap"},
        {"ratio": -1},
        {"rate": 2.0},
        {"steps": 0.5},
        {"extra": 1},
        {"relation": "add_remove"},
    ],
    ids=repr,
)
def test_a_stored_walk_that_makes_no_sense_is_refused(path, ledger, changes):
    ledger.grant("census", Budget(1.0, 1e-6))
    good = {
        "type": "sampled",
        "scheme": "one",
        "relation": "replace",
        "ratio": 0.3,
        "rate": 0.05,
        "steps": 2,
    }
    append(path, spend([{**good, **changes}]))
    expect_one_line(lambda: ledger.spent("census"), "cannot be read")


def test_a_ledger_of_an_earlier_version_waits_for_who_reads_it(path, ledger):
    """SQLite leaves a write-ahead log for one connection alone, and says at once if there is another."""
    ledger.grant("census", Budget(1.0))
    reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    reader.execute("PRAGMA journal_mode = WAL")
    reader.execute("SELECT count(*) FROM entries").fetchone()
    expect_one_line(
        lambda: Ledger(path, timeout=0.05).reserve("census", [PureEvent(0.1)]), "another process holds it"
    )
    threading.Timer(0.3, reader.close).start()
    ledger.reserve("census", [PureEvent(0.1)])
    assert ledger.spent("census") == compose([PureEvent(0.1)])


@pytest.mark.parametrize("path", [5, None, b"account.db", "account\0.db"])
def test_a_ledger_that_is_no_path_is_refused_by_name(path):
    with pytest.raises(InvalidArgument, match="ledger must be"):
        Ledger(path)


@pytest.mark.parametrize("promised", [Budget(0.5, 1e-7), Budget(0.5), Budget.gdp(0.1)])
def test_what_another_tool_promises_is_spent_as_it_is(ledger, promised):
    ledger.grant("census", Budget(2.0, 1e-6))
    ledger.commit(ledger.reserve("census", promised, note="a histogram"))
    delta = promised.delta if promised.notion == "approximate" else 1e-6
    spent = ledger.spent("census")
    assert spent.within(promised)
    assert spent.epsilon_at(delta) == pytest.approx(promised.epsilon_at(delta), rel=1e-9)


@pytest.mark.parametrize("grant", [Budget(0.5, 1e-7), Budget(0.5), Budget.gdp(0.1)])
def test_a_grant_is_spent_by_what_keeps_to_it(ledger, grant):
    ledger.grant("census", grant)
    ledger.check("census", grant)
    ledger.reserve("census", grant)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("census", grant)


def test_what_keeps_to_zcdp_is_not_taken_for_gaussian(ledger):
    ledger.grant("census", Budget.zcdp(1.0))
    with pytest.raises(Incompatible, match="that follows from it"):
        ledger.reserve("census", Budget.zcdp(0.1))
    assert ledger.spent("census").mu == 0.0
