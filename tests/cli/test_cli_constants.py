"""Constants of models have options, and each option goes with the models that take it."""

import inspect

import pytest
import typer.main

import privfit as pf
from privfit.cli import app
from privfit.cli.request import ConstantsText

pytestmark = pytest.mark.usefixtures("few_rehearsals")

FUNCTIONS = {
    "logit": pf.logit,
    "ols": pf.ols,
    "huber": pf.huber,
    "svm": pf.svm,
    "quantile": pf.quantile,
    "poisson": pf.poisson,
}
SPELLED = {
    "budget": "mu",
    "header": "no_header",
    "inference": "no_inference",
    "random_state": "seed",
    "width": "smoothing_width",
}
GIVEN = [
    ("ols", "--residual-bound", "residual_bound", 15.0),
    ("huber", "--threshold", "threshold", 2.0),
    ("huber", "--scale", "scale", 12.0),
    ("svm", "--smoothing-width", "width", 0.5),
    ("quantile", "--width", "width", 3.0),
    ("quantile", "--quantile", "quantile", 0.7),
    ("poisson", "--predictor-bound", "predictor_bound", 3.0),
]


def formula_for(model):
    return "high ~ age" if model == "svm" else "hours ~ age"


def options(command):
    group = typer.main.get_group(app)
    return {one.name for one in group.commands[command].params}


@pytest.mark.parametrize("model", FUNCTIONS)
def test_every_argument_of_a_function_has_an_option(model):
    asked = {SPELLED.get(name, name) for name in inspect.signature(FUNCTIONS[model]).parameters}
    assert asked <= options("fit")
    constants = asked & {one.name for one in ConstantsText.__dataclass_fields__.values()}
    constants -= {"scale"} if model != "huber" else set()  # there it is only "private"
    assert constants <= options("plan")
    for name in ConstantsText.__dataclass_fields__:
        given = ConstantsText(**{name: 0.5})
        if name in constants:
            given.check(model)
        else:
            with pytest.raises(typer.BadParameter, match="goes with --model"):
                given.check(model)


@pytest.mark.parametrize("given", GIVEN)
def test_an_option_means_what_the_argument_does(invoke, people, schema, tmp_path, given):
    model, option, argument, value = given
    out, formula = tmp_path / "result.json", formula_for(model)
    args = ["--schema", schema, "--model", model, "--formula", formula, "--epsilon", 8, "--seed", 3]
    done = invoke("fit", people, *args, option, value, "--out", out)
    assert (done.exit_code, done.stderr) == (0, "")
    common = {"schema": schema, "epsilon": 8.0, "random_state": 3}
    expected = FUNCTIONS[model](formula, people, **common, **{argument: value})
    assert pf.FitResult.from_json(out).params.equals(expected.params)
    assert not expected.params.equals(FUNCTIONS[model](formula, people, **common).params)


@pytest.mark.parametrize("given", GIVEN)
def test_a_plan_takes_it_too(invoke, schema, given):
    model, option, argument, value = given
    option = "--smoothing-width" if argument == "width" else option
    args = ["--schema", schema, "--model", model, "--formula", formula_for(model), "--epsilon", 8]
    plain, changed = (invoke("plan", *args, "--rows", 600, *more) for more in ([], [option, value]))
    assert (changed.exit_code, changed.stderr) == (0, "")
    assert changed.stdout != plain.stdout


@pytest.fixture
def fit(invoke, people, schema):
    return lambda model, *args: invoke("fit", people, "--schema", schema, "--model", model, *args)


@pytest.mark.parametrize(
    ("model", "args", "line"),
    [
        ("logit", ["--scale", 1], "--scale goes with --model huber; leave it out"),
        ("ols", ["--threshold", 1], "--threshold goes with --model huber; leave it out"),
        ("huber", ["--residual-bound", 1], "--residual-bound goes with --model ols; leave it out"),
        ("ols", ["--width", 1], "--smoothing-width goes with --model quantile or svm; leave it out"),
        ("svm", ["--predictor-bound", 1], "--predictor-bound goes with --model poisson; leave it out"),
        ("svm", ["--quantile", 0.5], "--quantile goes with --model quantile; leave it out"),
    ],
)
def test_a_model_that_does_not_take_it_is_named(fit, refused, model, args, line):
    said = refused(fit(model, *args), 2, "usage: ")
    assert line in said


@pytest.mark.parametrize(
    ("model", "option", "value"),
    [
        ("ols", "--residual-bound", 0),
        ("huber", "--threshold", -1),
        ("huber", "--scale", "nan"),
        ("svm", "--smoothing-width", 0),
        ("quantile", "--quantile", 1),
        ("poisson", "--predictor-bound", 51),
    ],
)
def test_values_are_checked(fit, refused, model, option, value):
    name = option if "-" in option[2:] else option[2:]
    refused(fit(model, "--formula", formula_for(model), option, value), 1, f"InvalidArgument: {name} must ")
