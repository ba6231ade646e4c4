import gzip
import json

import numpy as np
import pytest
from conftest_cli import CANARY

import privfit as pf

pytestmark = pytest.mark.usefixtures("few_rehearsals")


def test_fit_prints_the_summary_and_nothing_else(invoke, people, schema):
    result = invoke("fit", people, "--schema", schema, "--model", "logit", "--epsilon", 5)
    assert result.exit_code == 0
    assert result.stderr == ""
    lines = result.stdout.splitlines()
    assert lines[0].strip() == "Logistic regression results"
    assert "(ε = 5, δ = 1e-06)-DP, replace one row" in result.stdout
    assert "NOT PRIVATE" not in result.stdout


def test_all_columns_of_the_schema_are_used_without_a_formula(invoke, people, schema, tmp_path):
    out = tmp_path / "result.json"
    assert invoke("fit", people, "--schema", schema, "--model", "logit", "--out", out).exit_code == 0
    result = pf.FitResult.from_json(out)
    assert result.names == ("Intercept", "age", "sex[T.Male]", "hours")
    assert (result.target, result.private, result.nobs) == ("high", True, 600)
    assert (result.privacy.epsilon, result.privacy.delta) == (1.0, 1e-6)


def test_formula_gives_the_same_fit_as_the_function(invoke, people, schema, tmp_path):
    out = tmp_path / "result.json"
    formula = "high ~ age * C(sex)"
    done = invoke(
        "fit", people, "--schema", schema, "--model", "logit", "--formula", formula, "--seed", 3, "--out", out
    )
    assert done.exit_code == 0
    expected = pf.logit(formula, people, schema=schema, random_state=3)
    assert pf.FitResult.from_json(out).params.equals(expected.params)


@pytest.mark.parametrize("model", ["ols", "huber"])
def test_numeric_response_and_target_option(invoke, people, schema, model):
    schema.write_text(schema.read_text().replace("target = true\n", ""))
    result = invoke("fit", people, "--schema", schema, "--model", model, "--target", "hours", "--mu", 2)
    assert result.exit_code == 0
    assert "μ = 2" in result.stdout
    assert "hours" in result.stdout


@pytest.mark.parametrize(
    ("args", "title"),
    [
        (["--model", "svm"], "Linear support vector machine"),
        (["--model", "quantile", "--target", "hours"], "Quantile regression (quantile 0.5"),
        (["--model", "quantile", "--quantile", 0.8, "--formula", "hours ~ age"], "(quantile 0.8"),
        (["--model", "poisson", "--formula", "hours ~ age + C(sex)"], "Poisson regression"),
    ],
)
def test_further_models(invoke, people, schema, args, title):
    if "--target" in args:
        schema.write_text(schema.read_text().replace("target = true\n", ""))
    result = invoke("fit", people, "--schema", schema, "--mu", 2, *args)
    assert (result.exit_code, result.stderr) == (0, "")
    assert title in result.stdout
    plan = invoke("plan", "--schema", schema, "--mu", 2, "--rows", 600, *args)
    assert plan.exit_code == 0, plan.output
    assert title in plan.stdout


def test_summary_file_is_a_page_and_level_is_used(invoke, people, schema, tmp_path):
    page = tmp_path / "summary.html"
    args = ["--schema", schema, "--model", "logit", "--epsilon", 20, "--level", 0.9, "--html", page]
    result = invoke("fit", people, *args)
    assert result.exit_code == 0
    assert "90% intervals" in result.stdout
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "90% intervals" in text


def test_seeded_results_say_so_everywhere(invoke, people, schema, tmp_path):
    out, page = tmp_path / "result.json", tmp_path / "summary.html"
    args = ["--schema", schema, "--model", "logit", "--seed", 1, "--out", out, "--html", page]
    result = invoke("fit", people, *args)
    assert result.exit_code == 0
    for text in (result.stdout, out.read_text(encoding="utf-8"), page.read_text(encoding="utf-8")):
        assert "NOT PRIVATE" in text
    assert json.loads(out.read_text(encoding="utf-8"))["result"]["statement"]["private"] is False
    assert invoke("fit", people, *args).stdout == result.stdout


def test_non_private_reference_says_so(invoke, people, schema):
    result = invoke("fit", people, "--schema", schema, "--model", "logit", "--solver", "non-private")
    assert result.exit_code == 0
    assert "NOT PRIVATE" in result.stdout


def test_raw_compressed_file_without_header(invoke, people, schema, tmp_path):
    raw = tmp_path / "raw.csv.gz"
    body = people.read_text().split("\n", 1)[1].replace(",", ";")
    raw.write_bytes(gzip.compress(body.encode()))
    columns = "age, sex, hours, high"
    args = ["--schema", schema, "--model", "logit", "--seed", 1]
    result = invoke("fit", raw, *args, "--sep", ";", "--no-header", "--columns", columns)
    assert result.exit_code == 0
    assert result.stdout == invoke("fit", people, *args).stdout


def test_names_of_columns_may_hold_commas(invoke, tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, 400)
    raw = tmp_path / "raw.csv"
    np.savetxt(raw, np.stack([x, x + 0.1 * rng.normal(size=400)], axis=1), delimiter=",")
    numbers = {"type": "numeric", "lower": -2, "upper": 2}
    schema = tmp_path / "s.toml"
    pf.Schema({"a, b": numbers, "y": numbers}).to_toml(schema)
    args = ["--schema", schema, "--model", "ols", "--target", "y", "--seed", 1, "--no-header"]
    result = invoke("fit", raw, *args, "--columns", '"a, b",y')
    assert result.exit_code == 0
    assert "a, b" in result.stdout


def test_a_file_larger_than_memory_is_kept_encoded(invoke, people, schema, tmp_path):
    folder = tmp_path / "kept"
    args = ["--schema", schema, "--model", "logit", "--seed", 1, "--cache", folder]
    first = invoke("fit", people, *args)
    assert (first.exit_code, first.stderr) == (0, "")
    files = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    assert len(files) > 4
    assert invoke("fit", people, *args).stdout == first.stdout
    assert {file: file.stat().st_mtime_ns for file in folder.rglob("*")} == files


def test_a_folder_that_cannot_be_written_is_one_line(invoke, people, schema):
    result = invoke("fit", people, "--schema", schema, "--model", "logit", "--cache", people / "sub")
    assert result.exit_code == 1
    assert "name another folder" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_tab_may_be_spelled(invoke, people, schema):
    people.write_text(people.read_text().replace(",", "\t"))
    args = ["--schema", schema, "--model", "logit", "--sep", "\\t"]
    assert invoke("fit", people, *args).exit_code == 0


def test_no_inference(invoke, people, schema):
    result = invoke("fit", people, "--schema", schema, "--model", "logit", "--no-inference")
    assert result.exit_code == 0
    assert "std err" not in result.stdout


def test_add_remove_reports_the_public_number_of_rows_only(invoke, people, schema):
    args = ["--schema", schema, "--model", "logit", "--relation", "add_remove", "--n-rows", 550]
    result = invoke("fit", people, *args)
    assert result.exit_code == 0
    assert "550 (public scale)" in result.stdout
    assert "600" not in result.stdout.split()  # as a part of a noisy number it may be there


def test_ledger_is_charged_and_refuses(invoke, people, schema, tmp_path, refused):
    path = tmp_path / "ledger.db"
    ledger = pf.Ledger(path)
    ledger.grant("people", pf.Budget(1.5, 1e-6))
    args = ["--schema", schema, "--model", "logit", "--ledger", path, "--dataset", "people"]
    assert invoke("fit", people, *args).exit_code == 0
    spent = ledger.spent("people").mu
    assert spent is not None
    assert 0 < spent <= pf.Budget(1.0, 1e-6).mu
    plan = ["plan", "--rows", 600, *args]
    assert "has room for this plan" in invoke(*plan, "--epsilon", 0.1).stdout
    refused(invoke("fit", people, *args, "--epsilon", 2), 1, "BudgetExceeded: dataset 'people'")
    assert ledger.spent("people").mu == spent


def test_nothing_is_spent_where_the_output_could_not_be_written(invoke, people, schema, tmp_path, refused):
    path = tmp_path / "ledger.db"
    ledger = pf.Ledger(path)
    ledger.grant("people", pf.Budget(1.5, 1e-6))
    args = ["--schema", schema, "--model", "logit", "--ledger", path, "--dataset", "people"]
    refused(invoke("fit", people, *args, "--out", tmp_path / "no" / "r.json"), 1, "InvalidArgument: --out")
    refused(invoke("fit", people, *args, "--html", tmp_path), 1, "InvalidArgument: --html")
    assert ledger.spent("people").mu == 0


@pytest.fixture
def visits(tmp_path, people):
    """The rows of `people`, three a person, with a survey weight."""
    first, *lines = people.read_text().splitlines()
    rows = [f"{line},{CANARY}-{k // 3},{1 + k % 4}" for k, line in enumerate(lines)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join([f"{first},person,weight", *rows]) + "\n", encoding="utf-8")
    return path


def test_a_person_with_several_rows_and_survey_weights(invoke, visits, schema, tmp_path):
    out = tmp_path / "result.json"
    schema.write_text(schema.read_text() + '\n[weight]\ntype = "numeric"\nlower = 0\nupper = 4\n')
    roles = ("--unit", "person", "--rows-per-unit", 2, "--weights", "weight")
    done = invoke("fit", visits, "--schema", schema, "--model", "logit", *roles, "--out", out)
    assert done.exit_code == 0, done.output
    assert "replace one value of person" in done.stdout
    assert CANARY not in done.stdout + out.read_text()
    plan = pf.FitResult.from_json(out).plan
    assert (plan.n_rows, plan.unit, plan.rows_per_unit, plan.weights) == (200, "person", 2, "weight")
    planned = invoke("plan", "--schema", schema, "--model", "logit", "--rows", 200, *roles)
    assert planned.exit_code == 0, planned.output
    assert "Units:    200" in planned.stdout
    assert "replace one value of person" in planned.stdout


def test_a_schema_may_name_the_unit(invoke, visits, schema, refused):
    schema.write_text(schema.read_text() + '\n[person]\ntype = "identifier"\n')
    done = invoke("fit", visits, "--schema", schema, "--model", "logit", "--formula", "high ~ .")
    assert "No. units:        200" in done.stdout
    refused(
        invoke("fit", visits, "--schema", schema, "--model", "logit", "--unit", "age"),
        1,
        "SchemaError: unit='age'",
    )
    refused(
        invoke(
            "fit", visits, "--schema", schema, "--model", "logit", "--solver", "noisy-sgd", "--no-inference"
        ),
        1,
        "Incompatible: solver: noisy SGD",
    )


def test_what_is_paid_for_is_written_though_nobody_reads_on(invoke, people, schema, tmp_path, monkeypatch):
    out, page = tmp_path / "result.json", tmp_path / "page.html"

    def closed(text, **options):
        raise BrokenPipeError

    monkeypatch.setattr("privfit.cli.output.typer.echo", closed)
    arguments = ("fit", people, "--schema", schema, "--model", "logit", "--out", out, "--html", page)
    assert invoke(*arguments).exit_code != 0
    assert pf.FitResult.from_json(out).target == "high"
    assert page.exists()


def test_a_summary_is_printed_though_a_file_is_not_written(invoke, people, schema, tmp_path, monkeypatch):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pf.FitResult, "to_json", full)
    out, page = tmp_path / "result.json", tmp_path / "page.html"
    done = invoke("fit", people, "--schema", schema, "--model", "logit", "--out", out, "--html", page)
    assert done.exit_code == 1
    assert "No space left" in done.stderr
    assert "Logistic regression results" in done.stdout
    assert page.exists()
