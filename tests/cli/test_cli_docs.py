"""What the documents show works."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest

import privfit as pf
from privfit.data.synthetic import census, census_schema

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def generator():
    spec = importlib.util.spec_from_file_location(
        "generate_readme_example", ROOT / "docs" / "generate_readme_example.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_readme_example_is_generated(generator):
    shown = README.split(generator.START)[1].split(generator.END)[0]
    fresh = generator.example()
    assert re.sub(r"[-\d.]+", "", fresh.splitlines()[3]) == re.sub(r"[-\d.]+", "", shown.splitlines()[5])
    assert blocks(shown, "python") == blocks(fresh, "python")
    assert "NOT PRIVATE" not in fresh


def test_scikit_learn_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "demo-output"
    folder.mkdir()
    people = census(3000, seed=1)
    rows = zip(*people.values(), strict=True)
    lines = [",".join(people), *(",".join(map(str, row)) for row in rows)]
    (folder / "census.csv").write_text("\n".join(lines))
    census_schema().to_toml(folder / "income.toml")
    (code,) = [block for block in blocks(README, "python") if "LogisticRegression" in block]
    scope = {"pf": pf}
    exec(code, scope)  # noqa: S102 -- from our own README
    assert scope["model"].result_.private


def test_schema_example():
    (text,) = blocks((ROOT / "docs" / "schema.md").read_text(encoding="utf-8"), "toml")
    schema = pf.Schema(tomllib.loads(text))
    assert schema.target == "income_over_50k"


def test_links_lead_somewhere():
    for path in [ROOT / "README.md", ROOT / "AGENTS.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (path.parent / link).exists(), f"{path.name}: {link}"


def test_map_names_what_exists():
    agents = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    for name in re.findall(r"^\| `(src/[\w/.]+|tests/|docs/)`", agents, flags=re.MULTILINE):
        assert (ROOT / name).exists(), name
