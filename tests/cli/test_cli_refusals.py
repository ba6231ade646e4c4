"""Whatever is wrong, one line says so, and no cell is in it."""

import os

import pandas as pd
import pytest
from conftest_cli import CANARY

from privfit.cli import fit as fit_module
from privfit.cli.failures import describe
from privfit.errors import SchemaError
from privfit.results import FitResult


@pytest.fixture
def fit(invoke, people, schema):
    """Fit the good table with some options replaced or added."""

    def run(*args, data=people, model="logit", toml=schema):
        return invoke("fit", data, "--schema", toml, "--model", model, *args)

    return run


@pytest.mark.parametrize(
    ("args", "start"),
    [
        (["--epsilon", 0], "InvalidArgument: epsilon"),
        (["--epsilon", -1], "InvalidArgument: epsilon"),
        (["--epsilon", "nan"], "InvalidArgument: epsilon"),
        (["--delta", 1], "InvalidArgument: delta"),
        (["--mu", 0], "InvalidArgument: mu"),
        (["--rho", "inf"], "InvalidArgument: rho"),
        (["--l2", -1], "InvalidArgument: l2"),
        (["--l2", "1e51"], "InvalidArgument: l2 must lie in [0, 1e+50], got 1e+51"),
        (["--level", 1], "InvalidArgument: level"),
        (["--level", 0.05], "InvalidArgument: level is the coverage"),
        (["--solver", "magic"], "InvalidArgument: solver"),
        (["--seed", -1], "InvalidArgument: --seed must be at least 0"),
        (["--relation", "add_remove"], "InvalidArgument: --n-rows is needed under --relation add_remove,"),
        (["--n-rows", 600], "InvalidArgument: --n-rows is public under --relation replace and"),
        (["--rows-per-unit", 2], "InvalidArgument: --rows-per-unit goes with unit"),
        (["--formula", "high ~ I(n_rows + 1)"], "FormulaError: formula: column 'n_rows' is not"),
        (["--formula", "high ~ agee"], "FormulaError"),
        (["--formula", "high ~"], "FormulaError"),
        (["--formula", "high ~ __import__('os').system('id')"], "FormulaError"),
        (["--formula", "high ~ center(age)"], "FormulaError"),
        (["--formula", "high ~ age\nhours"], "FormulaError"),
        (["--target", "salary"], "SchemaError"),
        (["--sep", ";;"], "SchemaError: sep"),
        (["--ledger", "absent.db", "--dataset", "people"], "LedgerError: ledger 'absent.db' does not exist"),
    ],
)
def test_named_errors(fit, refused, args, start):
    refused(fit(*args), 1, start)


@pytest.mark.parametrize(
    "args",
    [
        ["--model", "magic"],
        ["--epsilon", "much"],
        ["--relation", "same"],
        ["--mu", 1, "--rho", 1],
        ["--quantile", 0.5],
        ["--mu", 1, "--delta", 0.1],
        ["--formula", "high ~ age", "--target", "high"],
        ["--dataset", "people"],
        ["--no-header"],
        ["--columns", "a,b"],
        ["--no-inference", "--level", 0.9],
        ["--frobnicate"],
    ],
)
def test_usage_errors(fit, refused, args):
    refused(fit(*args), 2, "usage: ")


@pytest.mark.parametrize("option", ["--out", "--html", "--report"])
def test_what_is_read_is_not_replaced(fit, refused, people, schema, option):
    for path in (people, schema):
        before = path.read_text(encoding="utf-8")
        refused(fit(option, path.parent / "." / path.name), 1, f"InvalidArgument: {option} names a file that")
        assert path.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("option", ["--out", "--html", "--report"])
def test_no_file_goes_into_a_folder_that_is_read(fit, refused, people, tmp_path, option):
    folder = tmp_path / "parts"
    (folder / "g=1").mkdir(parents=True)
    part = folder / "g=1" / "a.parquet"
    pd.read_csv(people).to_parquet(part)
    before = part.read_bytes()
    for path in (part, folder / "new.json", folder / "g=1" / ".." / "new.json"):
        refused(fit(option, path, data=folder), 1, f"InvalidArgument: {option} names a file in a folder")
    assert part.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["g=1"]


@pytest.mark.parametrize("there", [True, False])
def test_two_outputs_are_two_files(fit, refused, people, tmp_path, there):
    """Of two that were one file the second took the place of the first, and the budget was spent."""
    path = tmp_path / "result.html"
    if there:
        path.write_text("before")
    (tmp_path / "link").symlink_to(tmp_path)
    other = tmp_path / "link" / "result.html"
    for first, second in (("out", "html"), ("out", "report"), ("html", "report")):
        says = f"InvalidArgument: --{second} names the file of --{first}"
        refused(fit(f"--{first}", path, f"--{second}", other), 1, says)
    assert path.exists() == there


def test_missing_arguments_and_unknown_commands(invoke, refused):
    refused(invoke("fit"), 2, "usage: ")
    refused(invoke("plan", "--rows", 10), 2, "usage: ")
    without = ("plan", "--rows", 10, "--schema", "s", "--model", "ols", "--no-inference", "--level", 0.9)
    assert "--no-inference buys none" in refused(invoke(*without), 2, "usage: ")
    refused(invoke("regress"), 2, "usage: ")
    assert invoke().exit_code == 2


def test_no_such_files(fit, refused, tmp_path):
    refused(fit(data=tmp_path / "none.csv"), 1, "SchemaError: data file")
    refused(fit(toml=tmp_path / "none.toml"), 1, "SchemaError: schema file")


def test_the_parser_asks_no_rights(fit, refused, invoke, schema, monkeypatch):
    """What opens a file finds out, and refuses it as it refuses one that is absent: exit code 1, not 2."""
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode, **more: mode != os.R_OK and may(path, mode, **more))
    refused(fit("--target", "salary"), 1, "SchemaError: ")
    refused(invoke("report", schema), 1, "SchemaError: ")
    refused(invoke("ledger", "show", schema), 1, "LedgerError: ")
    plan = ("plan", "--schema", schema, "--model", "logit", "--rows", 500, "--formula", "high ~ none")
    refused(invoke(*plan, "--reference", schema), 1, "FormulaError: ")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may read all")
def test_files_that_may_not_be_read(fit, refused, people, schema):
    for path, start in ((schema, "SchemaError: schema file"), (people, "SchemaError: data file")):
        path.chmod(0)
        assert "Permission denied" in refused(fit(), 1, start)
        path.chmod(0o600)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "age,sex,hours,high\n",
        f"age,sex,hours,high\n1,Male,{CANARY},no,5\n",
        f'age,sex,hours,high\n1,"{CANARY},40,no\n',
        f"age,sex,high\n1,{CANARY},no\n",
        f"age,sex,hours,high,age\n1,{CANARY},40,no,1\n",
    ],
    ids=["empty", "no rows", "ragged", "open quote", "lacks a column", "repeated name"],
)
def test_broken_tables(fit, refused, tmp_path, content):
    path = tmp_path / "broken.csv"
    path.write_text(content)
    refused(fit(data=path), 1, "SchemaError: ")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv.gz"])
def test_damaged_files(fit, refused, tmp_path, suffix):
    path = tmp_path / f"damaged{suffix}"
    path.write_text(f"{CANARY}\n" * 100)
    refused(fit(data=path), 1, "SchemaError: data file")


def test_wrong_label(fit, refused, people):
    people.write_text(people.read_text().replace("yes", CANARY))
    refused(fit(), 1, "LabelError: column 'high'")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("upper = 90", "upper = 10"),
        ("upper = 90", "upper = inf"),
        ('levels = ["no", "yes"]', 'levels = ["no"]'),
        ("lower = 17", "lowest = 17"),
        ("[age]", "[age"),
        ("target = true", "target = true\nunit = true"),
    ],
)
def test_contradictory_schemas(fit, refused, schema, old, new):
    schema.write_text(schema.read_text().replace(old, new))
    refused(fit(), 1, "SchemaError: ")


def test_a_machine_of_two_classes_refuses_three(fit, refused, schema):
    schema.write_text(schema.read_text().replace('levels = ["no", "yes"]', 'levels = ["no", "yes", "maybe"]'))
    assert "exactly two levels" in refused(fit(model="svm"), 1, "SchemaError: ")


def test_too_few_rows(fit, refused, people):
    people.write_text("\n".join(people.read_text().split("\n")[:5]))
    refused(fit(), 1, "TooLittleData: ")


def test_odd_cells_are_silent(fit, people):
    text = people.read_text().replace("17,", "1e400,").replace("Male", CANARY).replace(",0,", ",nan,")
    people.write_text(text)
    result = fit()
    assert (result.exit_code, result.stderr) == (0, "")
    assert CANARY not in result.stdout


def test_unexpected_errors_show_their_type_only(fit, refused, monkeypatch):
    def fail(*args, **kwargs):
        raise KeyError(CANARY)

    monkeypatch.setattr(fit_module, "fit", fail)
    refused(fit(), 1, "KeyError: unexpected")


def test_failing_disk_is_one_line(fit, monkeypatch, tmp_path):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device", "result.json")

    monkeypatch.setattr(FitResult, "to_json", full)
    result = fit("--out", tmp_path / "result.json")
    assert result.exit_code == 1
    assert result.stderr == "error: OSError: No space left on device: result.json\n"
    assert "Logistic regression results" in result.stdout  # what was paid for is not lost


def test_lines_are_one_line_and_printable():
    assert describe(SchemaError("a\nb\x1b[31m")) == (1, "SchemaError: a b\ufffd[31m")
    assert describe(OSError())[1] == "OSError: failed"


def test_models_check_their_options_and_their_response(fit, refused):
    refused(fit("--quantile", 1, model="quantile"), 1, "InvalidArgument: quantile")
    refused(fit(model="poisson"), 1, "SchemaError: ")
    refused(fit("--formula", "sex ~ age", model="quantile"), 1, "SchemaError: ")
    refused(fit("--formula", "hours ~ age", model="svm"), 1, "SchemaError: ")
