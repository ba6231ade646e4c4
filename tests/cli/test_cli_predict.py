"""``privfit predict``: rows by a saved result, and no cell in any error."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest_cli import CANARY
from pyarrow import csv

import privfit as pf
from privfit.results.regression import PUBLIC

OF_MEANS = "Intervals are for the mean at these covariates, not for a new response."
VERSION_1 = Path(__file__).parents[1] / "results" / "snapshots" / "version_1.json"


@pytest.fixture
def saved(invoke, people, schema, tmp_path):
    """Return what fits a model and gives the JSON file of its result."""

    def fit(model="logit", formula="high ~ age * C(sex)", *more):
        path = tmp_path / "result.json"
        args = ["--schema", schema, "--model", model, "--formula", formula, "--epsilon", 20, "--out", path]
        fitted = invoke("fit", people, *args, *more)
        assert fitted.exit_code == 0, fitted.output
        return path

    return fit


@pytest.fixture
def small(saved):
    """Return the JSON file of a logit."""
    return saved()


@pytest.fixture
def new(tmp_path):
    """Write three rows, with a column that no model knows."""
    path = tmp_path / "new.csv"
    path.write_text(f"sex,age,note\nMale,20,{CANARY}\nFemale,95,{CANARY}\nMale,50,\n", encoding="utf-8")
    return path


def read(path):
    return csv.read_csv(path).to_pandas() if path.suffix == ".csv" else pd.read_parquet(path)


def test_of_an_intercept_alone_there_is_a_line_for_each_row(invoke, saved, new):
    done = invoke("predict", saved(formula="high ~ 1"), new)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 4)
    assert len(set(done.stdout.splitlines()[1:])) == 1


@pytest.mark.parametrize("more", [(), ("--intervals",)])
def test_the_scale_of_a_transformed_response_is_said(invoke, tmp_path, new, more):
    path = tmp_path / "log.json"
    age, pay = {"type": "numeric", "lower": 20, "upper": 80}, {"type": "numeric", "lower": 1, "upper": 50}
    table = pd.DataFrame({"pay": np.exp(np.linspace(1.0, 3.0, 500)), "age": np.linspace(20, 80, 500)})
    pf.ols("pay ~ age", table, schema={"age": age, "pay": pay | {"transform": "log"}}).to_json(path)
    done = invoke("predict", path, new, *more)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 4)
    assert "The schema transforms the response: all is on the scale of log(pay)." in done.stderr


@pytest.mark.parametrize(("option", "suffix"), [("--out", ".csv"), ("--output", ".parquet")])
def test_probabilities_are_those_of_python(invoke, saved, new, option, suffix):
    path, out = saved(), new.with_name(f"predictions{suffix}")
    done = invoke("predict", path, new, option, out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{PUBLIC}\n"
    found = read(out)
    assert list(found) == ["P(yes)"]
    np.testing.assert_array_equal(found["P(yes)"], pf.FitResult.from_json(path).predict(new))


def test_without_a_file_they_go_to_standard_output_and_words_beside(invoke, saved, new):
    path = saved("ols", "hours ~ age")
    done = invoke("predict", path, new)
    assert (done.exit_code, done.stderr) == (0, f"{PUBLIC}\n")
    assert done.stdout.splitlines()[0] == "mean"
    np.testing.assert_array_equal(
        [float(line) for line in done.stdout.splitlines()[1:]], pf.FitResult.from_json(path).predict(new)
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_intervals_are_those_of_python(invoke, saved, new, tmp_path, suffix):
    path, out = saved("ols", "hours ~ age + C(sex)"), tmp_path / f"predictions{suffix}"
    done = invoke("predict", path, new, "--intervals", "--level", 0.9, "--out", out)
    assert (done.exit_code, done.stdout) == (0, f"{OF_MEANS}\n{PUBLIC}\n")
    expected = pf.FitResult.from_json(path).get_prediction(new).summary_frame(0.9)
    found = read(out)
    assert list(found) == ["mean", "mean std err", "mean lower", "mean upper"]
    np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())


def test_quantiles_are_called_so(invoke, saved, new, tmp_path):
    path, out = saved("quantile", "hours ~ age", "--quantile", 0.9), tmp_path / "predictions.csv"
    done = invoke("predict", path, new, "--intervals", "--out", out)
    assert (done.exit_code, done.stdout) == (0, f"{OF_MEANS.replace('mean', 'quantile')}\n{PUBLIC}\n")
    name = "quantile(0.9)"
    assert list(read(out)) == [name, f"{name} std err", f"{name} lower", f"{name} upper"]
    assert invoke("predict", path, new).stdout.splitlines()[0] == name


@pytest.mark.usefixtures("three")
def test_every_class_has_its_columns(invoke, saved, new, tmp_path):
    path, out = saved(), tmp_path / "predictions.csv"
    result = pf.FitResult.from_json(path)
    assert invoke("predict", path, new, "--out", out).exit_code == 0
    pd.testing.assert_frame_equal(read(out), result.predict(new), check_exact=True)
    assert invoke("predict", path, new, "--intervals", "--out", out).exit_code == 0
    found, expected = read(out), result.get_prediction(new).summary_frame()
    for name in ("P(no)", "P(maybe)", "P(yes)"):
        of_class = expected.xs(name, level="class")
        np.testing.assert_array_equal(found[name], of_class["mean"])
        np.testing.assert_array_equal(found[f"{name} std err"], of_class["mean_se"])
        np.testing.assert_array_equal(found[f"{name} upper"], of_class["mean_ci_upper"])


def test_a_machine_predicts_classes(invoke, refused, saved, new, tmp_path):
    path, out = saved("svm", "high ~ age"), tmp_path / "predictions.csv"
    assert invoke("predict", path, new, "--out", out).exit_code == 0
    assert read(out)["high"].tolist() == pf.FitResult.from_json(path).predict(new).tolist()
    refused(
        invoke("predict", path, new, "--intervals"), 1, "Incompatible: get_prediction needs a model of a mean"
    )


def test_infinite_standard_errors_are_explained(invoke, people, schema, new, tmp_path):
    path = tmp_path / "result.json"
    args = ["--schema", schema, "--model", "ols", "--formula", "hours ~ age", "--epsilon", 0.001]
    assert invoke("fit", people, *args, "--out", path).exit_code == 0
    done = invoke("predict", path, new, "--intervals")
    assert done.exit_code == 0
    assert "inf" in done.stdout
    assert "the privacy noise left no usable standard error" in done.stderr


def test_a_result_that_is_not_private_says_so(invoke, saved, new, tmp_path):
    path = saved("logit", "high ~ age", "--seed", 3)
    assert invoke("predict", path, new).stderr.startswith("NOT PRIVATE")
    assert invoke("predict", path, new, "--out", tmp_path / "p.csv").stdout.startswith("NOT PRIVATE")


def test_tables_are_read_as_by_other_commands(invoke, saved, new, tmp_path):
    path = saved()
    expected = invoke("predict", path, new).stdout
    rows = pd.read_csv(new)
    rows.to_parquet(tmp_path / "new.parquet")
    rows.to_csv(tmp_path / "new.tsv", sep="\t", index=False, header=False)
    assert invoke("predict", path, tmp_path / "new.parquet").stdout == expected
    args = ["--sep", "\\t", "--no-header", "--columns", "sex,age,note"]
    assert invoke("predict", path, tmp_path / "new.tsv", *args).stdout == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"sex,years\n{CANARY},20\n", "column 'age' is not in the data"),
        (f"sex,age\nMale,{CANARY}\n", "column 'age' holds a cell that is missing or no number"),
        (f"sex,age\n{CANARY},20\n", "column 'sex' holds a value that is no level"),
        (f"sex,age\n,{CANARY}\n", "column '"),
        (f"sex,age\nMale,20,{CANARY}\n", "data file"),
        ("sex,age\n", "data has no row"),
        ("", "data file"),
    ],
)
def test_tables_that_do_not_fit_are_one_line_without_a_cell(invoke, refused, small, content, said):
    small.with_name("bad.csv").write_text(content)
    out = small.with_name("predictions.csv")
    for more in ([], ["--intervals"]):
        done = invoke("predict", small, small.with_name("bad.csv"), "--out", out, *more)
        assert said in refused(done, 1, "SchemaError: ")
        assert not out.exists()


def test_what_cannot_predict_is_refused(invoke, refused, small, people, new):
    def fails(*args, start):
        refused(invoke("predict", *args), 1, start)

    none = new.with_name("none.json")
    fails(none, new, start="InvalidArgument: result must name a JSON file")
    fails(people, new, start="SchemaError: ")
    fails(small, none.with_suffix(".csv"), start="SchemaError: data file")
    fails(VERSION_1, new, start="Incompatible: predict needs the schema and formula")
    fails(small, new, "--intervals", "--level", 95, start="InvalidArgument: level")
    for replaced in (small, new):
        fails(small, new, "--out", replaced, start="InvalidArgument: --out names a file that is read")
    folder = new.with_name("parts")
    folder.mkdir()
    part = folder / "a.parquet"
    pd.DataFrame({"age": [50.0]}).to_parquet(part)
    before = part.read_bytes()
    fails(small, folder, "--out", part, start="InvalidArgument: --out names a file in a folder that is read")
    assert part.read_bytes() == before
    fails(small, new, "--out", none.with_suffix(".xlsx"), start="InvalidArgument: --out must end in")
    fails(small, new, "--out", none / "p.csv", start="InvalidArgument: --out must")
    refused(invoke("predict", small), 2, "usage: ")
    refused(invoke("predict", small, new, "--columns", "a"), 2, "usage: ")
    refused(invoke("predict", small, new, "--level", 0.9), 2, "usage: ")


def test_a_result_that_was_tampered_with_is_refused(invoke, refused, small, new):
    record = json.loads(small.read_text())
    kept = record["result"]["encoder"]
    kept["formula"] = f"high ~ I(__import__('os').system('{new}'))"
    small.write_text(json.dumps(record))
    refused(invoke("predict", small, new), 1, "SchemaError: result.encoder: formula: the call")
    kept["schema"]["age"]["upper"] = 10
    small.write_text(json.dumps(record))
    refused(
        invoke("predict", small, new), 1, "SchemaError: result.encoder.schema: column 'age': lower must be"
    )


def test_fits_without_inference_predict_but_have_no_intervals(invoke, refused, saved, new):
    path = saved("logit", "high ~ age", "--no-inference")
    assert invoke("predict", path, new).exit_code == 0
    refused(
        invoke("predict", path, new, "--intervals"), 1, "Incompatible: get_prediction needs standard errors"
    )
