import shlex

import pytest
from conftest_cli import CANARY

import privfit as pf
from privfit.data.check import MARK
from privfit.data.synthetic import census_coefficients


def test_check_marks_every_line(invoke, people, schema):
    people.write_text(people.read_text().replace("\n17,Female,0,", f"\n999,{CANARY},0,"))
    result = invoke("check", people, "--schema", schema)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert all(line.startswith(MARK) for line in lines)
    assert any("'age': above" in line for line in lines)
    assert any(CANARY in line for line in lines)  # the curator may see it


def test_check_of_a_clean_table(invoke, people, schema):
    result = invoke("check", people, "--schema", schema)
    assert result.stdout.splitlines()[1:] == [f"{MARK} every cell fits the schema"]


@pytest.mark.parametrize("sep", [";", "\t"])
def test_check_of_a_table_with_another_separator_says_so(invoke, people, schema, sep):
    people.write_text(people.read_text().replace(",", sep))
    lines = invoke("check", people, "--schema", schema).stdout.splitlines()
    assert "check --sep" in lines[1]
    assert "--sep" not in invoke("check", people, "--schema", schema, "--sep", sep).stdout


def test_check_reports_missing_files_in_one_line(invoke, people, schema, tmp_path, refused):
    refused(invoke("check", tmp_path / "none.csv", "--schema", schema), 1, "SchemaError: ")
    refused(invoke("check", people, "--schema", tmp_path / "none.toml"), 1, "SchemaError: ")
    refused(invoke("check", people), 2, "usage: ")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the demonstration once."""
    from typer.testing import CliRunner

    from privfit.cli import app

    folder = tmp_path_factory.mktemp("some where") / "demo"
    return CliRunner().invoke(app, ["demo", "--dir", str(folder), "--rows", "4000"]), folder


def test_demo_tells_the_story(demo):
    result, _ = demo
    assert (result.exit_code, result.stderr) == (0, "")
    assert "NOT PRIVATE (" not in result.stdout
    assert result.stdout.count("(ε = 1, δ = 1e-06)-DP, replace one row") == 4  # two plans, two summaries
    told = ("Only a simulation can tell", "No interval is finite")
    assert sum(result.stdout.count(words) for words in told) == 2
    assert "together they are (ε = 1.4" in result.stdout


def test_demo_writes_what_it_says(demo):
    result, folder = demo
    names = ["census.csv", "income.toml", "wage.toml", "income.json", "income.html", "wage.json", "wage.html"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert all(str(folder / name) in result.stdout for name in names)
    for stem, target in (("income", "income_over_50k"), ("wage", "hourly_wage")):
        fitted = pf.FitResult.from_json(folder / f"{stem}.json")
        assert fitted.private
        assert list(fitted.names) == list(census_coefficients(target))
        assert fitted.nobs == 4000


def test_commands_of_the_demo_work(demo, invoke):
    result, _ = demo
    commands = [shlex.split(line) for line in result.stdout.splitlines() if line.startswith("  privfit ")]
    assert [command[1] for command in commands] == ["fit", "fit", "plan"]
    for command in commands:
        assert invoke(*command[1:]).exit_code == 0


def test_demo_refuses_in_one_line(invoke, tmp_path, refused):
    refused(invoke("demo", "--dir", tmp_path / "d", "--rows", 5), 1, "InvalidArgument: rows")
    (tmp_path / "file").write_text("")
    refused(invoke("demo", "--dir", tmp_path / "file"), 1, "InvalidArgument: --dir must be a folder")
