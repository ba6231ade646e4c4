"""Tables of results that a run goes on with where an earlier one stopped."""

import argparse
import csv
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, final


def read(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@final
class ResultsTable:
    """A CSV of finished cells, to which others are added.

    Parameters
    ----------
    path : Path
        Made, with a header, where it is missing.
    fields : sequence of str
        Names of the columns. Those that tell cells apart come first.
    n_keys : int
        How many tell cells apart. A cell may have several rows.
    """

    def __init__(self, path: Path, fields: Sequence[str], n_keys: int) -> None:
        self._path, self._fields, self._keys = path, fields, fields[:n_keys]
        self._started = time.monotonic()
        self._held = {self._key(row) for row in read(path)}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._append([])

    def lacks(self, *key: object) -> bool:
        """Return whether no row starts with these values, as they are written."""
        return tuple(map(str, key)) not in self._held

    def add(self, *rows: Mapping[str, object]) -> None:
        """Append the rows of a cell, and show them with the seconds since the start."""
        self._append(rows)
        self._held.update(map(self._key, rows))
        for row in rows:
            print(f"{time.monotonic() - self._started:.0f} s", *row.values(), flush=True)

    def fill(
        self,
        cell: Callable[[Any], Mapping[str, object]],
        grid: Iterable[tuple[Any, ...]],
        *beside: object,
        workers: int,
    ) -> None:
        """Add ``cell((*key, *beside))`` for the keys that are lacking, found in so many processes."""
        todo = [(*key, *beside) for key in grid if self.lacks(*key)]
        with ProcessPoolExecutor(workers) as pool:
            for row in pool.map(cell, todo):
                self.add(row)

    def _key(self, row: Mapping[str, object]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self._keys)

    def _append(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Add rows to the file, below a header if it is empty."""
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self._fields, lineterminator="\n")
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)


def filled_by_command(
    description: str | None,
    path: Path,
    fields: Sequence[str],
    cell: Callable[[Any], Mapping[str, object]],
    grid: Iterable[tuple[Any, ...]],
) -> None:
    """Add the cells of a grid that a table lacks, as options of the command line say.

    Parameters
    ----------
    description : str
        What ``--help`` prints.
    path : Path
        Where the results are kept by default.
    fields : sequence of str
        Columns; those before ``"repetitions"`` tell cells apart.
    cell : callable
        From the values that do, and the number of repetitions, to a row.
    grid : iterable
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=path)
    options = parser.parse_args()
    table = ResultsTable(options.out, fields, list(fields).index("repetitions"))
    table.fill(cell, grid, options.repetitions, workers=options.workers)
