"""`--model logit` with a response of three levels, by a schema."""

import json

import pytest
from conftest_cli import CANARY

import privfit as pf
from privfit.problem.plan import Plan

pytestmark = pytest.mark.usefixtures("few_rehearsals")


@pytest.mark.usefixtures("three")
def test_fit_names_the_classes(invoke, people, schema, tmp_path):
    out = tmp_path / "result.json"
    args = ["--schema", schema, "--model", "logit", "--formula", "high ~ age + C(sex)", "--mu", 1]
    done = invoke("fit", people, *args, "--seed", 3, "--out", out)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "Multinomial logistic regression results" in done.stdout
    assert "maybe: age" in done.stdout
    expected = pf.logit(
        "high ~ age + C(sex)", people, schema=schema, budget=pf.Budget.gdp(1.0), random_state=3
    )
    assert pf.FitResult.from_json(out).params.equals(expected.params)


@pytest.mark.usefixtures("three")
def test_every_release_of_the_fit_is_in_the_plan(invoke, people, schema, tmp_path):
    out, fitted = tmp_path / "plan.json", tmp_path / "result.json"
    args = ["--schema", schema, "--model", "logit", "--mu", 1]
    planned = invoke("plan", *args, "--rows", 600, "--out", out)
    assert planned.exit_code == 0
    assert "Plan: Multinomial logistic regression of high" in planned.stdout
    assert "classes with shares of 33" in planned.stdout
    assert "yes: sex[T.Male]" in planned.stdout
    assert invoke("fit", people, *args, "--out", fitted).exit_code == 0
    assert Plan.from_dict(json.loads(out.read_text())) == pf.FitResult.from_json(fitted).plan


@pytest.mark.usefixtures("three")
def test_refusals(invoke, refused, people, schema):
    args = ["--schema", schema, "--model", "logit"]
    message = refused(
        invoke("fit", people, *args, "--solver", "output-perturbation"), 1, "Incompatible: solver"
    )
    assert "NoisyNewton" in message
    people.write_text(people.read_text().replace("maybe", CANARY))
    refused(invoke("fit", people, *args), 1, "LabelError: column 'high' holds a label that is not declared")
