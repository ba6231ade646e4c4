"""Tables and printed output in the documentation are those that the scripts write now."""

import importlib
import re
import shutil
import sys
from pathlib import Path
from unittest import mock

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def load(name, folder):
    """Import a script, which imports its neighbours by name."""
    with mock.patch.object(sys, "path", [str(folder), *sys.path]):
        return importlib.import_module(name)


tables, planning = load("generate_tables", DOCS), load("generate_planning", DOCS)
BLOCKS = [(page, name) for page, blocks in tables.PAGES.items() for name in blocks]
ELSEWHERE = {("planning.md", name) for name in ("plan", "needed", "learned")}
ELSEWHERE |= {("tests-and-effects.md", "tests"), ("tests-and-effects.md", "effects")}
"""What generate_planning.py writes."""


@pytest.fixture
def copy(tmp_path):
    def made(page):
        return Path(shutil.copy(DOCS / page, tmp_path / Path(page).name))

    return made


@pytest.mark.parametrize(("page", "name"), BLOCKS)
def test_a_table_is_that_of_the_committed_results(page, name, copy):
    written = copy(page)
    tables.write_between(written, {name: tables.PAGES[page][name]()})
    assert written.read_text(encoding="utf-8") == (DOCS / page).read_text(), (
        "run python docs/generate_tables.py"
    )


def test_printed_output_is_what_the_present_code_prints(copy):
    """All but the search for sample sizes, which takes ten times as long as the rest."""
    names = {"pf": planning.Shown}
    for page, blocks in (
        ("planning.md", {"plan": planning.PLAN, "learned": planning.LEARNED}),
        ("tests-and-effects.md", {"tests": planning.TESTS, "effects": planning.EFFECTS}),
    ):
        written = copy(page)
        planning.write_between(written, {k: planning.printed(code, names) for k, code in blocks.items()})
        assert written.read_text(encoding="utf-8") == (DOCS / page).read_text(), (
            "run python docs/generate_planning.py"
        )


def test_the_page_on_accuracy_is_that_of_the_committed_results(copy):
    report = load("report", ROOT / "benchmarks" / "accuracy")
    cells = list(report.read(ROOT / "benchmarks" / "accuracy" / "results" / "accuracy.csv").values())
    written = copy("accuracy.md")
    report.write_page(cells, written)
    assert written.read_text(encoding="utf-8") == (DOCS / "accuracy.md").read_text(), (
        "run python benchmarks/accuracy/report.py"
    )


def test_every_pair_of_markers_is_written_by_a_script():
    found = {
        (page.relative_to(DOCS).as_posix(), name)
        for page in DOCS.rglob("*.md")
        if page.name != "accuracy.md"
        for name in re.findall(r"<!-- (\w+): start -->", page.read_text(encoding="utf-8"))
    }
    assert found == {*BLOCKS, *ELSEWHERE}


def test_a_page_without_the_markers_is_not_passed_over(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- one: start -->\n<!-- one: end -->\n")
    tables.write_between(page, {"one": "text"})
    assert "text" in page.read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="two"):
        tables.write_between(page, {"two": "text"})
