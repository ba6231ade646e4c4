"""Read the results and say, cell by cell, whether the default is first."""

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Key: TypeAlias = tuple[str, str, float]
"""Task, table and epsilon."""

TASKS = ("logistic", "squared", "huber")

Rank: TypeAlias = Literal["first", "within", "behind"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One method in one cell."""

    method: str
    role: str
    tuned: bool
    excess: float
    excess_se: float
    test: float
    seconds: float
    setting: str
    note: str

    @property
    def failed(self) -> bool:
        """True where the method refused or a repetition was not finite."""
        return not math.isfinite(self.excess)


@dataclass(frozen=True, slots=True)
class CellResult:
    """All methods in one cell."""

    task: str
    table: str
    epsilon: float
    n: int
    p: int
    entries: tuple[Entry, ...]

    @property
    def default(self) -> Entry:
        """The library's default."""
        return next(entry for entry in self.entries if entry.role == "default")

    def best(self, *, tuned: bool = True) -> Entry:
        """Return the competitor with the least mean excess; without the tuned ones if ``tuned`` is False."""
        return min(
            (entry for entry in self.competitors if tuned or not entry.tuned), key=lambda entry: entry.excess
        )

    @property
    def competitors(self) -> tuple[Entry, ...]:
        """Those that are private at the stated budget, failures left out."""
        return tuple(e for e in self.entries if e.role == "competitor" and not e.failed)

    def reference(self, method: str) -> Entry:
        """Return a reference by name."""
        return next(entry for entry in self.entries if entry.method == method)

    def rank(self, *, tuned: bool = True) -> Rank:
        """Compare the default with the best competitor.

        ``within``: its mean excess is larger by no more than one standard error of the difference.
        """
        ours, theirs = self.default, self.best(tuned=tuned)
        if ours.excess <= theirs.excess:
            return "first"
        error = math.hypot(ours.excess_se, theirs.excess_se)
        return "within" if ours.excess - theirs.excess <= error else "behind"


def read(path: Path) -> dict[Key, CellResult]:
    """Return the cells in the order of the file; those without the default or a competitor are left out."""
    rows: dict[Key, list[dict[str, str]]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault((row["task"], row["table"], float(row["epsilon"])), []).append(row)
    cells = {key: _cell(key, found) for key, found in rows.items()}
    return {
        key: cell
        for key, cell in sorted(cells.items(), key=_order)
        if cell.competitors and any(entry.role == "default" for entry in cell.entries)
    }


def _order(item: tuple[Key, CellResult]) -> int:
    return TASKS.index(item[0][0])


def _cell(key: Key, rows: Iterable[Mapping[str, str]]) -> CellResult:
    task, table, epsilon = key
    found = list(rows)
    entries = tuple(_entry(row) for row in found)
    return CellResult(task, table, epsilon, int(found[0]["n"]), int(found[0]["p"]), entries)


def _entry(row: Mapping[str, str]) -> Entry:
    return Entry(
        method=row["method"],
        role=row["role"],
        tuned=row["tuned"] == "1",
        excess=_number(row["excess"]),
        excess_se=_number(row["excess_se"]),
        test=_number(row["test"]),
        seconds=_number(row["seconds"]),
        setting=row["setting"],
        note=row["note"],
    )


def _number(text: str) -> float:
    return float(text) if text else math.nan
