"""Fits of the command line that learn missing bounds, and their plans."""

import json

import numpy as np
import pytest

import privfit as pf
from privfit.problem.plan import Plan

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


PLAN = ("--model", "ols", "--formula", "hours ~ age", "--rows", 600)

GUESSES = ("--sd", "age=21", "--center", "age=53", "--residual-sd", 10, "--mean", 40)


def test_a_plan_needs_bounds_or_guesses(invoke, draft, schema, refused):
    line = "SchemaError: column 'age': lower is missing"
    refused(invoke("plan", "--schema", draft, *PLAN), 1, line)
    line = "InvalidArgument: --scale private: no numeric column of the schema lacks"
    refused(invoke("plan", "--schema", schema, *PLAN, "--scale", "private"), 1, line)
    options = ("--schema", draft, *PLAN, "--scale", "private")
    line = "InvalidArgument: --sd: the bounds of 'age' are open, so that nothing says how much it varies"
    assert "give --sd age=..., or a public" in refused(invoke("plan", *options), 1, line)
    line = "InvalidArgument: --residual-sd: the bounds of 'hours' are open"
    assert "give --residual-sd ..., or" in refused(invoke("plan", *options, *GUESSES[:4]), 1, line)
    line = "InvalidArgument: --center is about predictors, and 'hours' is the response; give --mean"
    refused(invoke("plan", *options, *GUESSES[:4], "--center", "hours=3"), 1, line)
    line = "InvalidArgument: --sd of 'age' must be positive"
    refused(invoke("plan", *options, "--sd", "age = -1"), 1, line)


@pytest.mark.usefixtures("few_rehearsals")
def test_every_release_of_a_fit_with_learned_bounds_is_in_its_plan(invoke, people, draft, tmp_path):
    planned, fitted = tmp_path / "plan.json", tmp_path / "result.json"
    options = ("--schema", draft, *PLAN[:4], "--epsilon", 8, "--scale", "private", "--scale-share", 0.3)
    done = invoke("plan", *options, *PLAN[4:], *GUESSES, "--out", planned)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "solver: places of columns" in done.stdout
    assert "bounds of age, hours as each fit learns them" in " ".join(done.stdout.split())
    assert invoke("fit", people, *options, "--out", fitted).exit_code == 0
    assert Plan.from_dict(json.loads(planned.read_text())) == pf.FitResult.from_json(fitted).plan


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_is_the_one_of_python(invoke, draft, people, tmp_path):
    out, more = tmp_path / "plan.json", ("--epsilon", 8, "--scale", "private", "--reference", people)
    done = invoke("plan", "--schema", draft, *PLAN, *more, "--out", out)
    assert (done.exit_code, done.stderr) == (0, "")
    expected = pf.plan(
        "hours ~ age",
        n=600,
        schema=draft,
        model="ols",
        epsilon=8.0,
        scale="private",
        assumptions=pf.Assumptions(reference=people),
    )
    assert Plan.from_dict(json.loads(out.read_text())) == expected.plan
    words = next(line for line in done.stdout.splitlines() if line.startswith("age ")).split()
    assert float(words[3]) == pytest.approx(expected.width["age"], rel=1e-3)


@pytest.mark.parametrize(
    "typed", [("age",), ("age=",), ("=3",), ("age=3", "age=4"), ("age=three",)], ids=" ".join
)
@pytest.mark.parametrize("option", ["--sd", "--center"])
def test_a_guess_of_a_column_names_it_once(invoke, draft, refused, option, typed):
    given = [part for text in typed for part in (option, text)]
    line = f"usage: Invalid value: {option} is COLUMN=NUMBER"
    refused(invoke("plan", "--schema", draft, *PLAN, "--scale", "private", *given), 2, line)


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
