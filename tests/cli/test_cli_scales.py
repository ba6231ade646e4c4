"""Fits of the command line that learn missing bounds."""

import numpy as np
import pytest

import privfit as pf

FIT = ("--model", "logit", "--epsilon", 8)


@pytest.mark.parametrize("more", [(), ("--formula", "high ~ age + np.log1p(hours)"), ("--cache", "rows")])
def test_missing_bounds_are_part_of_the_fit(invoke, people, draft, tmp_path, monkeypatch, more):  # noqa: PLR0917
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "result.json"
    done = invoke("fit", people, "--schema", draft, *FIT, "--scale", "private", "--out", out, *more)
    assert (done.exit_code, done.stderr) == (0, "")
    result = pf.FitResult.from_json(out)
    assert [release.kind for release in result.plan.releases[:4]].count("places") == 3
    assert result.statement.private
    predicted = invoke("predict", out, people)
    assert predicted.exit_code == 0, predicted.stderr


def test_it_is_the_fit_of_python(invoke, people, draft, tmp_path):
    out, formula = tmp_path / "result.json", "hours ~ age"
    options = (
        "--model",
        "ols",
        "--formula",
        formula,
        "--scale",
        "private",
        "--scale-share",
        0.3,
        "--seed",
        3,
    )
    done = invoke("fit", people, "--schema", draft, "--epsilon", 8, *options, "--out", out)
    assert (done.exit_code, done.stderr) == (0, "")
    seeded = {"epsilon": 8.0, "random_state": 3, "scale": "private", "scale_share": 0.3}
    expected = pf.ols(formula, people, schema=draft, **seeded)
    np.testing.assert_array_equal(pf.FitResult.from_json(out).params, expected.params)


def test_an_account_pays_twice(invoke, people, draft, tmp_path):
    account = tmp_path / "account.db"
    pf.Ledger(account).grant("people", pf.Budget(8.0, 1e-6))
    paid = ("--ledger", account, "--dataset", "people")
    done = invoke("fit", people, "--schema", draft, *FIT, "--scale", "private", *paid)
    assert (done.exit_code, done.stderr) == (0, "")
    assert len(pf.Ledger(account).export()["reservations"]) == 2


@pytest.mark.parametrize(
    ("options", "code", "line"),
    [
        (("--scale", "public"), 2, "usage: Invalid value: --scale is a number or 'private', got 'public'"),
        (("--scale-share", 0.2), 2, "usage: Invalid value: --scale-share goes with --scale private"),
        (("--scale", "private", "--scale-share", 1), 1, "InvalidArgument: --scale-share must lie in (0, 1)"),
        (
            ("--scale", "private", "--formula", "high ~ np.log(age)"),
            1,
            "FormulaError: formula: 'np.log(age)'",
        ),
        (
            ("--scale", "private", "--weights", "age"),
            1,
            "SchemaError: weights='age': its bounds are not learned",
        ),
        (
            (),
            1,
            "SchemaError: column 'age': lower is missing; a numeric column needs it, or has it learned by a "
            "fit with --scale private, or by privfit bounds",
        ),
    ],
)
def test_what_makes_no_sense_is_one_line(invoke, draft, refused, options, code, line):  # noqa: PLR0917
    """The data are not there: nothing of them is read."""
    refused(invoke("fit", "nowhere.csv", "--schema", draft, *FIT, *options), code, line)


def test_what_noise_hides_is_named(invoke, people, draft, refused):
    options = ("--model", "logit", "--epsilon", 0.01, "--scale", "private")
    refused(
        invoke("fit", people, "--schema", draft, *options), 1, "TooLittleData: --scale private: noise hides"
    )


def test_a_plan_needs_bounds(invoke, draft, schema, refused):
    options = ("--model", "huber", "--formula", "hours ~ age", "--rows", 600)
    refused(invoke("plan", "--schema", draft, *options), 1, "SchemaError: column 'age': lower is missing")
    line = "usage: Invalid value: --scale private is for fits; plan with the bounds that you expect"
    refused(invoke("plan", "--schema", schema, *options, "--scale", "private"), 2, line)


def test_a_draft_serves_formulas_that_read_none_of_its_open_columns(invoke, people, draft, schema, refused):
    options = (*FIT, "--formula", "high ~ C(sex)", "--scale", "private")
    done = invoke("fit", people, "--schema", draft, *options)
    assert (done.exit_code, done.stderr) == (0, "")
    line = "InvalidArgument: --scale private: no numeric column of the schema lacks"
    refused(invoke("fit", people, "--schema", schema, *options), 1, line)


def test_labels_that_are_not_declared_cost_nothing(invoke, people, draft, tmp_path, refused):
    people.write_text(people.read_text().replace("yes", "Yes"), encoding="utf-8")
    account = tmp_path / "account.db"
    pf.Ledger(account).grant("people", pf.Budget(8.0, 1e-6))
    options = (*FIT, "--scale", "private", "--ledger", account, "--dataset", "people")
    refused(invoke("fit", people, "--schema", draft, *options), 1, "LabelError: ")
    assert pf.Ledger(account).export()["reservations"] == []
