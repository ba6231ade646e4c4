"""Modules that experiments and benchmarks share."""

import csv
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


resumable = load(ROOT / "experiments" / "resumable.py")
measure = load(ROOT / "benchmarks" / "speed" / "measure.py")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "cells.csv"


def table(path):
    return resumable.ResultsTable(path, ("n", "epsilon", "error"), 2)


def test_a_run_goes_on_where_the_last_one_stopped(path, capsys):
    first = table(path)
    assert first.lacks(100, 0.5)
    first.add({"n": 100, "epsilon": 0.5, "error": 1.25}, {"n": 100, "epsilon": 0.5, "error": 2.5})
    assert capsys.readouterr().out.splitlines()[0].endswith("s 100 0.5 1.25")
    again = table(path)
    for one in (first, again):
        assert not one.lacks(100, 0.5)
        assert one.lacks(100, 0.25)
        assert one.lacks(1000, 0.5)
    again.add({"n": 1000, "epsilon": 0.5, "error": 0.125})
    expected = [("100", "0.5", "1.25"), ("100", "0.5", "2.5"), ("1000", "0.5", "0.125")]
    assert [tuple(row.values()) for row in resumable.read(path)] == expected
    assert path.read_text().splitlines()[0] == "n,epsilon,error"
    assert path.read_text().count("epsilon") == 1


def divided(cell):
    n, epsilon, numerator = cell
    return {"n": n, "epsilon": epsilon, "error": numerator / n}


def test_only_cells_that_are_lacking_are_found(path):
    one = table(path)
    one.add({"n": 4, "epsilon": 0.5, "error": 9.0})
    one.fill(divided, [(4, 0.5), (2, 0.5)], 1.0, workers=1)
    assert [tuple(row.values()) for row in resumable.read(path)] == [("4", "0.5", "9.0"), ("2", "0.5", "0.5")]


def test_a_table_is_made_with_its_header(path):
    assert resumable.read(path) == []
    table(path)
    assert path.read_text() == "n,epsilon,error\n"
    assert resumable.read(path) == []


def test_a_row_lacks_and_adds_no_column(path):
    one = table(path)
    with pytest.raises(ValueError, match="extra"):
        one.add({"n": 1, "epsilon": 1.0, "error": 0.0, "extra": 1})
    with path.open(newline="") as file:
        assert list(csv.DictReader(file)) == []


def test_a_time_too_short_to_measure_has_no_ratio():
    measured = {
        name: {"clock_ms": 1.0, "processor_ms": ms} for name, ms in (("a", 3.0), ("b", 2.0), ("c", 0.0))
    }
    assert measure.ratios(measured, [("a", "b"), ("a", "c"), ("c", "b")]) == {"a / b": 1.5, "c / b": 0.0}
