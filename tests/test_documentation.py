"""Examples run, links lead somewhere, every page is in the site and every public name in the reference."""

import contextlib
import importlib
import re
import sys
import tomllib
from pathlib import Path
from unittest import mock

import pytest

import privfit as pf
from privfit.data.synthetic import census, census_schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)

with mock.patch.object(sys, "path", [str(DOCS), *sys.path]):
    examples = importlib.import_module("generate_examples")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the files that the examples use, of as many people as the demonstration's.

    With a fifth of them noise may hide where a column lies, and an example stops.
    """
    folder = tmp_path_factory.mktemp("examples")
    (folder / "demo-output").mkdir()
    people = census(20_000, seed=1)
    rows = zip(*people.values(), strict=True)
    lines = [",".join(people), *(",".join(map(str, row)) for row in rows)]
    (folder / "demo-output" / "census.csv").write_text("\n".join(lines))
    census_schema().to_toml(folder / "demo-output" / "income.toml")
    return folder


@pytest.mark.parametrize("page", examples.PAGES)
@pytest.mark.usefixtures("few_rehearsals")
def test_examples_run_and_print_as_much_as_the_page_shows(page, folder, monkeypatch):
    """Noise is private, so that numbers differ; what is not a number does not. Audits are of fewer runs."""

    def run(command, as_shown=examples.run_command):
        return as_shown(re.sub(r"--trials \d+", "--trials 100", command))

    monkeypatch.setattr(examples, "run_command", run)
    text = (ROOT / page).read_text(encoding="utf-8")
    for account in folder.glob("*.db"):
        account.unlink()
    with contextlib.chdir(folder):
        again = examples.filled(text)
    assert examples_of(again) == examples_of(text)
    assert again.count("NOT PRIVATE") == text.count("NOT PRIVATE")


def examples_of(text):
    """Return the blocks of a page, of what is printed the first words alone."""

    def shown(block):
        language, *lines = block.splitlines()
        if language == "```python":
            return block
        commands = [line for line in lines if line.startswith(("$ ", "    --"))]
        first = next((line for line in lines if line not in commands), "")
        return commands, re.split(r"[-\d]", first)[0].strip()

    return [shown(block) for block in FENCED.findall(text)]


def anchors(text):
    """Return the anchors of the headings of a page, as GitHub makes them."""
    found = []
    for heading in re.findall(r"^#+ (.*)$", FENCED.sub("", text), flags=re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.append(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        place, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_formulas_that_are_set_apart_are_paragraphs(page):
    """Within a paragraph the site takes the text after such a formula for mathematics."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for paragraph in re.split(r"\n\s*\n", text):
        if "$$" in paragraph:
            assert re.fullmatch(r"\$\$[^$]+\$\$", paragraph.strip()), paragraph


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_rows_of_a_table_have_as_many_cells_as_its_header(page):
    """A bar in a formula ends a cell, so that the rest of the row is cut."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for table in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1, table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_figures_say_in_words_what_they_show(page):
    assert "![](" not in page.read_text(encoding="utf-8")


def test_every_page_is_in_the_site():
    trees = re.findall(r"```{toctree}\n.*?```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines()[1:-1] if line and not line.startswith(":")]
    named = [re.sub(r".*<(.*)>", r"\1", line) for line in lines]
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in DOCS.rglob("*.md")}
    from_outside = {"overview", "changelog", "security", "contributing"}
    assert len(named) == len(set(named))
    assert set(named) == (pages - {"index"}) | from_outside


def test_every_public_name_is_in_the_reference_once():
    packages = ("auditing", "learners", "losses", "solvers")
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    named = re.findall(r"\.\. auto\w+:: privfit\.([\w.]+)", text)
    expected = {name for name in pf.__all__ if name not in packages}
    expected -= set(pf.auditing.__all__)
    expected |= {f"{package}.{name}" for package in packages for name in getattr(pf, package).__all__}
    assert sorted(named) == sorted(expected)


def test_schema_example():
    (text,) = re.findall(r"```toml\n(.*?)```", (DOCS / "schema.md").read_text(encoding="utf-8"), re.DOTALL)
    assert pf.Schema(tomllib.loads(text)).target == "income_over_50k"


def test_map_names_what_exists():
    agents = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    for name in re.findall(r"^\| `(src/[\w/.]+|tests/|docs/)`", agents, flags=re.MULTILINE):
        assert (ROOT / name).exists(), name
