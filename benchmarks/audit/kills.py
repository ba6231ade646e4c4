"""Kill fits that charge a ledger, at random moments and several at once, and check the accounts afterwards.

    python benchmarks/audit/kills.py [--kills 1000] [--direct]

Every process fits the same small table again and again, with noise that is private, and is killed by SIGKILL
after a random time. It notes what it does in a file of its own. Half of the ledgers have grants that run out,
so that refusals are hit, too. With ``--direct`` a process only reserves and commits.

Checked after each ledger: the chain of hashes; that all that was ever handed out or committed is still
there, and nothing twice; that no release preceded its reservation; that every finished analysis is
committed; that what was reserved is what the ledger says is spent, and within the grant. Writes
benchmarks/audit/results/kills.json.
"""

import argparse
import json
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import privfit as pf
from privfit.privacy.composition import GaussianEvent, compose
from privfit.privacy.entries import Book
from privfit.privacy.ledger_file import LedgerFile
from privfit.problem.oracle import Oracle

RESULTS = Path(__file__).parent / "results" / "kills.json"
DATASET = "people"
AT_ONCE = 4
MU = 0.05
"""Cost of one fit."""
TIGHT, WIDE = pf.Budget.gdp(0.25), pf.Budget.gdp(100.0)
"""Room for 25 fits, and for all."""


class Diary:
    """What a process does, one line each. A line that was written outlives the process."""

    def __init__(self, path: Path) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, line: str) -> None:
        """Add a line."""
        os.write(self.file, f"{line}\n".encode())


class ObservedLedger(pf.Ledger):
    """A ledger whose user keeps a diary."""

    def observe(self, diary: Diary) -> None:
        """Set the diary."""
        self.diary = diary

    def reserve(self, *args: object, **kwargs: object) -> int:
        """Reserve, with a note before and after."""
        self.diary.note("ask")
        number = super().reserve(*args, **kwargs)  # type: ignore[arg-type]
        self.diary.note(f"got {number}")
        return number

    def commit(self, reservation: int) -> None:
        """Commit, with a note before and after."""
        self.diary.note("commit")
        super().commit(reservation)
        self.diary.note(f"committed {reservation}")


def table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (60, 2))
    return x, (x[:, 0] + rng.normal(size=60) > 0).astype(int)


def fit_for_ever(path: Path, diary: Diary) -> None:
    """Fit until killed, and note every release."""
    ledger = ObservedLedger(path)
    ledger.observe(diary)
    record = Oracle._record

    def observed(self, *args):
        release = record(self, *args)
        diary.note("release")
        return release

    Oracle._record = observed
    x, y = table()
    model = pf.LogisticRegression(budget=pf.Budget.gdp(MU), ledger=ledger, dataset=DATASET)
    while True:
        try:
            model.fit(x, y)
        except pf.BudgetExceeded:
            diary.note("refused")
        else:
            diary.note("done")


def reserve_for_ever(path: Path, diary: Diary) -> None:
    """Reserve and commit until killed."""
    ledger = ObservedLedger(path)
    ledger.observe(diary)
    while True:
        try:
            number = ledger.reserve(DATASET, [GaussianEvent(MU)])
            diary.note("release")
            ledger.commit(number)
        except pf.BudgetExceeded:
            diary.note("refused")
        else:
            diary.note("done")


def spawn(work, path: Path, diary: Path) -> int:
    """Return the number of a forked process that works until it is killed."""
    pid = os.fork()
    if pid == 0:
        try:
            work(path, Diary(diary))
        except BaseException as error:
            Diary(diary).note(f"failed {error!r}")
        finally:
            os._exit(3)
    return pid


@dataclass
class Outcome:
    """What one ledger looked like in the end."""

    kills: int = 0
    reservations: int = 0
    commits: int = 0
    unanswered: int = 0
    done: int = 0
    refused: int = 0
    lost: int = 0
    doubled: int = 0
    stages: Counter[str] = field(default_factory=Counter)


def kill_round(
    folder: Path, work, *, kills: int, grant: pf.Budget, rng: np.random.Generator, longest: float
) -> Outcome:
    """Run and kill processes on one ledger, several at once, and check it."""
    path = folder / "ledger.db"
    pf.Ledger(path).grant(DATASET, grant)
    running: dict[int, float] = {}
    diaries: dict[int, Path] = {}
    started = 0
    while started < kills or running:
        while started < kills and len(running) < AT_ONCE:
            diary = folder / f"diary-{started}"
            pid = spawn(work, path, diary)
            diaries[pid] = diary
            running[pid] = time.monotonic() + float(rng.uniform(0.0, longest))
            started += 1
        first = min(running, key=running.__getitem__)
        time.sleep(max(0.0, running.pop(first) - time.monotonic()))
        os.kill(first, signal.SIGKILL)
        _, status = os.waitpid(first, 0)
        assert os.WIFSIGNALED(status), f"a process ended by itself: {diaries[first].read_text()[-300:]}"
    lines = [d.read_text().splitlines() if d.exists() else [] for d in diaries.values()]
    return check(path, lines, kills, grant)


def check(path: Path, diaries: list[list[str]], kills: int, grant: pf.Budget) -> Outcome:
    """Raise unless nothing was lost, doubled or overspent."""
    ledger = pf.Ledger(path)
    links = LedgerFile(path, 30.0).read()
    assert ledger.verify().entries == len(links)
    book = Book.read(links)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    outcome = Outcome(kills=kills, reservations=len(book.reservations), commits=len(book.commits))
    got: list[int] = []
    committed: list[int] = []
    for lines in diaries:
        assert not any(line.startswith("failed") for line in lines), lines[-1]
        read_diary(lines, got, committed, outcome)
    outcome.doubled = len(got) - len(set(got))
    outcome.lost = len(set(got) - set(book.reservations)) + len(set(committed) - set(book.commits))
    outcome.unanswered = len(book.reservations) - len(got)
    assert outcome.unanswered <= outcome.stages["ask"], "more was spent than was asked for"
    assert len(book.commits) - len(committed) <= outcome.stages["commit"]
    events = [event for spend in book.reservations.values() for event in spend.events]
    spent = ledger.spent(DATASET)
    assert spent == compose(events)
    assert spent.within(grant)
    assert outcome.done <= outcome.commits <= outcome.reservations
    floor = MU * outcome.done**0.5
    assert spent.mu is not None
    assert spent.mu >= floor * (1 - 1e-6), "less is spent than came out"
    if outcome.refused:
        left = ledger.remaining(DATASET)
        assert left is None or left.mu < MU, "a fit was refused although it would have fitted"
    return outcome


def read_diary(lines: list[str], got: list[int], committed: list[int], outcome: Outcome) -> None:
    """Collect what a process did, in the only order that is allowed."""
    allowed = {
        "start": {"ask"},
        "ask": {"got", "refused"},
        "refused": {"ask"},
        "got": {"release"},
        "release": {"release", "commit"},
        "commit": {"committed"},
        "committed": {"done"},
        "done": {"ask"},
    }
    last = "start"
    for line in lines:
        word, _, number = line.partition(" ")
        assert word in allowed[last], f"{word} after {last}"
        last = word
        if word == "got":
            got.append(int(number))
        if word == "committed":
            committed.append(int(number))
        outcome.done += word == "done"
        outcome.refused += word == "refused"
    outcome.stages[last] += 1


def longest_life(work) -> float:
    """Return a time in which a process does a few rounds of its work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pf.Ledger(folder / "ledger.db").grant(DATASET, WIDE)
        pid = spawn(work, folder / "ledger.db", folder / "diary")
        begun = time.monotonic()
        while not (folder / "diary").exists() or (folder / "diary").read_text().count("done") < 3:
            time.sleep(0.005)
            assert time.monotonic() - begun < 120
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return AT_ONCE * (time.monotonic() - begun)


def play(kills: int, *, direct: bool, per_ledger: int, seed: int = 11) -> dict[str, object]:
    """Kill so many processes, on a fresh ledger after every 50, and return totals."""
    work = reserve_for_ever if direct else fit_for_ever
    if not direct:
        pf.LogisticRegression(budget=pf.Budget.gdp(MU)).fit(*table())  # compiles before the forks
    rng, longest = np.random.default_rng(seed), longest_life(work)
    outcomes = []
    for first in range(0, kills, per_ledger):
        with tempfile.TemporaryDirectory() as name:
            grant = TIGHT if (first // per_ledger) % 2 else WIDE
            count = min(per_ledger, kills - first)
            outcomes.append(kill_round(Path(name), work, kills=count, grant=grant, rng=rng, longest=longest))
    stages: Counter[str] = sum((outcome.stages for outcome in outcomes), Counter())
    numbers = ("kills", "reservations", "commits", "unanswered", "done", "refused", "lost", "doubled")
    return {
        "work": "reserve and commit" if direct else "fit",
        "at_once": AT_ONCE,
        "ledgers": len(outcomes),
        **{name: sum(getattr(outcome, name) for outcome in outcomes) for name in numbers},
        "last_note_before_the_kill": dict(sorted(stages.items())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--per-ledger", type=int, default=50)
    parser.add_argument("--no-file", action="store_true", help="print only")
    arguments = parser.parse_args()
    found = play(arguments.kills, direct=arguments.direct, per_ledger=arguments.per_ledger)
    text = json.dumps(found, indent=2)
    sys.stdout.write(text + "\n")
    if found["lost"] or found["doubled"]:
        sys.exit("budget was lost or doubled")
    if not arguments.no_file:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
