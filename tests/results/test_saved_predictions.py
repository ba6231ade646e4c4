"""A result read from JSON predicts what the fit's own does, to the bit, or says why it cannot."""

import copy
import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import privfit as pf
from privfit.errors import FormulaError, Incompatible, InvalidArgument, SchemaError
from privfit.results import FitResult, encoders
from privfit.terms.encoder import FormulaEncoder

N = 1500
VERSION_1 = Path(__file__).parent / "snapshots" / "version_1.json"

SCHEMA = {
    "age": {"type": "numeric", "lower": 17, "upper": 90},
    "dose": {"type": "numeric", "lower": 0.5, "upper": 4.0},
    "gain": {"type": "numeric", "lower": 0, "upper": 1e5, "transform": "log1p", "missing": 0},
    "sex": {"type": "categorical", "levels": ["Female", "Male"], "missing": "Male"},
    "job": {"type": "categorical", "levels": ["x", "y", "rest"], "other": "rest"},
    "grade": {"type": "categorical", "levels": [1, 2.5, 4]},
    "member": {"type": "categorical", "levels": [False, True]},
    "net income": {"type": "numeric", "lower": -1, "upper": 1},
    "high": {"type": "categorical", "levels": ["no", "yes"]},
    "size": {"type": "categorical", "levels": ["s", "m", "l"]},
    "ill": {"type": "numeric", "lower": -1, "upper": 1},
    "hours": {"type": "numeric", "lower": 0, "upper": 80},
    "cost": {"type": "numeric", "lower": 1, "upper": 1000, "transform": "log"},
    "person": {"type": "identifier", "unit": True},
    "wt": {"type": "numeric", "lower": 0, "upper": 3, "weight": True},
    "row_norm": 2.5,
}


def rows(seed=0, n=N):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(17, 90, n), rng.uniform(0.5, 4, n)
    line = (age - 50) / 20 + 0.5 * dose - 1
    return pd.DataFrame(
        {
            "age": age,
            "dose": dose,
            "gain": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.exponential(1000, n)),
            "sex": rng.choice(np.array(["Female", "Male", None], dtype=object), n),
            "job": rng.choice(["x", "y", "never heard of"], n),
            "grade": rng.choice([1, 2.5, 4], n),
            "member": rng.choice([False, True], n),
            "net income": rng.uniform(-1, 1, n),
            "high": np.where(rng.logistic(size=n) < line, "yes", "no"),
            "size": np.array(["s", "m", "l"])[
                np.clip(np.round(line + rng.normal(size=n) + 1), 0, 2).astype(int)
            ],
            "ill": np.where(rng.logistic(size=n) < line, 1, -1),
            "hours": rng.poisson(np.exp(1 + line / 3)),
            "cost": np.exp(2 + line + rng.normal(size=n) / 2),
            "person": [f"p{k}" for k in range(n)],
            "wt": rng.uniform(0, 3, n),
        },
        index=[f"row {k}" for k in range(n)],
    )


TABLE = rows()
NEW = rows(seed=1, n=9).drop(columns=["high", "size", "ill", "hours", "cost", "person", "wt"])

FITS = {
    "logit": (pf.logit, "high ~ age * C(sex) + np.log(dose)", {}),
    "logit, K classes": (pf.logit, "size ~ age + sex:dose + job", {}),
    "logit, marked numbers": (pf.logit, "ill ~ age + I(age ** 2) + member", {}),
    "ols": (pf.ols, "cost ~ age:dose + C(grade, contr.treatment(2.5)) + gain - 1", {}),
    "ols, all columns": (pf.ols, "cost ~ . - high - size - ill - hours", {}),
    "ols, functions": (
        pf.ols,
        "hours ~ np.sqrt(age) + np.maximum(age - 40, 0) + {dose / age} + I(job == 'y') + `net income`",
        {},
    ),
    "huber": (pf.huber, "cost ~ (age + job + sex)**2", {}),
    "poisson": (pf.poisson, "hours ~ age + gain + dose + I(`net income` > 0):dose", {}),
    "quantile": (pf.quantile, "cost ~ age + np.exp(-dose)", {"quantile": 0.25}),
    "svm": (pf.svm, "high ~ age + C(job) * dose", {}),
    "without inference": (pf.logit, "high ~ age + sex", {"inference": False}),
    "without rows added": (pf.logit, "high ~ age + sex", {"relation": "add_remove", "n_rows": N}),
}
ESTIMATORS = {
    "logistic": (pf.LogisticRegression, "high", {}),
    "logistic, K classes": (pf.LogisticRegression, "size", {}),
    "linear": (pf.LinearRegression, "cost", {"fit_intercept": False}),
    "huber": (pf.HuberRegressor, "cost", {"scale": 1.0}),
    "poisson": (pf.PoissonRegressor, "hours", {}),
    "svm": (pf.LinearSVC, "high", {}),
    "m-estimator": (pf.MEstimator, "cost", {"loss": pf.losses.LogCosh()}),
}
WITHOUT_SCHEMA = {
    "logistic": (pf.LogisticRegression, "binary", {}),
    "logistic, true or false": (pf.LogisticRegression, "truth", {}),
    "logistic, K classes": (pf.LogisticRegression, "three", {"classes": [3, 1, 2]}),
    "linear": (pf.LinearRegression, "number", {"fit_intercept": False, "norm_bound": 3.0}),
    "huber": (pf.HuberRegressor, "number", {}),
    "poisson": (pf.PoissonRegressor, "count", {"count_bound": 9.0}),
    "quantile": (pf.QuantileRegressor, "number", {}),
    "svm": (pf.LinearSVC, "texts", {"classes": ["no", "yes"]}),
    "m-estimator": (pf.MEstimator, "binary", {"loss": pf.losses.Logistic()}),
}


def by_formula(name):
    function, formula, options = FITS[name]
    return function(formula, TABLE, schema=SCHEMA, epsilon=20.0, random_state=3, **options)


def with_schema(name):
    cls, response, options = ESTIMATORS[name]
    columns = ("age", "gain", "sex", "job", "grade", response)
    schema = pf.Schema({column: SCHEMA[column] for column in columns})
    return cls(schema=schema, epsilon=20.0, random_state=3, **options).fit(TABLE, response).result_


def without_schema(name, names=None):
    cls, kind, options = WITHOUT_SCHEMA[name]
    rng = np.random.default_rng(5)
    x = rng.uniform(-1, 1, (N, 2))
    line = x @ [1.0, -1.0] + rng.logistic(size=N) / 3
    y = {
        "binary": (line > 0).astype(float),
        "truth": line > 0,
        "three": 1 + (line > -0.5).astype(int) + (line > 0.5),
        "texts": np.where(line > 0, "yes", "no"),
        "number": line,
        "count": rng.poisson(np.exp(line / 2)),
    }[kind]
    rows = x if names is None else pd.DataFrame(x, columns=names)
    return cls(epsilon=20.0, random_state=3, **options).fit(rows, y).result_


def same(one, other):
    """Compare to the bit: values, labels, names and types."""
    assert type(one) is type(other)
    if isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other, check_exact=True)
    elif isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
    else:
        assert one == other


def answers(result, exog):
    """Return all that a result says of new rows; a refusal as its message."""
    asked = {
        "predict": lambda: result.predict(exog),
        "decision_function": lambda: result.decision_function(exog),
        "prediction": lambda: result.get_prediction(exog).summary_frame(0.9),
        "shown": lambda: str(result.get_prediction(exog)),
        "effects": lambda: result.get_margeff(exog).summary_frame(),
        "effects shown": lambda: str(result.get_margeff(exog)),
    }
    found = {}
    for name, ask in asked.items():
        try:
            found[name] = ask()
        except pf.PrivfitError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def check(result, *tables):
    text = result.to_json()
    back = FitResult.from_json(text)
    assert back.to_json() == text
    assert back.encoder.facts == result.encoder.facts
    assert back.encoder.needed == result.encoder.needed
    assert back.encoder.variables == result.encoder.variables
    assert back.encoder.design == result.encoder.design
    assert back.form == result.form
    for exog in tables:
        for ours, theirs in zip(answers(result, exog).values(), answers(back, exog).values(), strict=True):
            same(ours, theirs)
    assert isinstance(back.predict(tables[0]), pd.Series | pd.DataFrame)
    return back


@pytest.mark.parametrize("name", FITS)
def test_formulas(name, tmp_path):
    result = by_formula(name)
    NEW.to_csv(tmp_path / "new.csv", index=False)
    back = check(result, NEW, tmp_path / "new.csv", NEW.to_dict("list"))
    assert back.predict(NEW).index.equals(NEW.index)
    assert back.decision_function(NEW).index.equals(NEW.index)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_with_a_schema(name):
    check(with_schema(name), NEW, NEW[["age", "gain", "sex", "job", "grade"]].to_numpy(dtype=object))


@pytest.mark.parametrize("name", WITHOUT_SCHEMA)
def test_estimators_without_a_schema(name):
    x = np.random.default_rng(1).uniform(-2, 2, (5, 2))
    result = without_schema(name)
    check(result, x, pd.DataFrame(x, columns=["x0", "x1"], index=list("abcde")))
    named = without_schema(name, ["x'1", "größe"])
    check(named, pd.DataFrame(x, columns=["x'1", "größe"], index=list("abcde")))


def test_the_classes_of_a_machine_are_spelled_as_they_were_declared():
    back = FitResult.from_json(without_schema("svm").to_json())
    assert set(back.predict(np.array([[1.0, -1.0], [-1.0, 1.0]]))) == {"yes", "no"}
    marked = pf.svm("ill ~ age", TABLE, schema=SCHEMA, epsilon=20.0, random_state=3)
    assert set(FitResult.from_json(marked.to_json()).predict({"age": [17.0, 90.0]})) == {-1, 1}


def test_a_result_that_was_read_twice_is_the_same(tmp_path):
    result = by_formula("logit")
    result.to_json(tmp_path / "one.json")
    FitResult.from_json(tmp_path / "one.json").to_json(tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_the_json_holds_what_the_formula_names_and_no_other_column():
    record = json.loads(by_formula("logit").to_json())
    assert record["format_version"] == 2
    kept = record["result"]["encoder"]
    named = ("age", "dose", "sex", "high")
    expected = {name: SCHEMA[name] for name in SCHEMA if name in (*named, "row_norm")}
    schema = kept.pop("schema")
    assert list(schema) == ["row_norm", *(name for name in SCHEMA if name in named)]
    assert pf.Schema(schema) == pf.Schema(expected)
    assert kept == {"kind": "formula", "formula": FITS["logit"][1], "target_kind": "class"}


@pytest.mark.parametrize(
    ("formula", "named"),
    [
        ("cost ~ age + job - job", {"cost", "age", "job"}),
        ("cost ~ age:sex + I(grade == 2.5) + np.minimum(age, dose)", {"cost", "age", "sex", "grade", "dose"}),
        ("cost ~ . - high", set(SCHEMA) - {"person", "wt", "row_norm"}),
        ("cost ~ 1", {"cost"}),
    ],
)
def test_facts_name_no_column_that_the_formula_does_not(formula, named):
    encoder = FormulaEncoder(formula, pf.Schema(SCHEMA))
    assert set(encoder.facts.schema) == named
    assert encoder.facts.encoder().design == encoder.design
    assert encoder.facts.encoder().facts == encoder.facts
    assert pickle.loads(pickle.dumps(encoder)).identity == encoder.identity  # noqa: S301 -- our own


def test_comparisons_stay_numbers_in_results_of_earlier_versions():
    """They were wherever they stood; a fit refuses this formula now."""
    with pytest.raises(FormulaError, match="for a factor"):
        pf.ols("cost ~ I(dose > 2):sex", TABLE, schema=SCHEMA)
    result = pf.ols("cost ~ I((dose > 2) * 1):sex", TABLE, schema=SCHEMA, random_state=0)
    stored = result.to_json().replace("I((dose > 2) * 1)", "I(dose > 2)")
    np.testing.assert_array_equal(FitResult.from_json(stored).predict(NEW), result.predict(NEW))


def test_nothing_in_the_saved_encoder_depends_on_rows():
    other = rows(seed=8)
    first, second = (
        json.loads(pf.logit("high ~ age * C(sex)", table, schema=SCHEMA, random_state=k).to_json())["result"]
        for k, table in enumerate((TABLE, other))
    )
    assert first["estimate"] != second["estimate"]
    of_noise = {"hiding": [], "full": None}  # what released matrices show
    assert first["encoder"] == second["encoder"]
    assert first["form"] | of_noise == second["form"] | of_noise


@pytest.mark.parametrize("name", ["age", "sex"])
def test_tables_that_do_not_fit_are_refused_as_the_fit_refuses_them(name):
    result = by_formula("logit")
    back = FitResult.from_json(result.to_json())
    for bad in (NEW.drop(columns=name), NEW.assign(age="canary-7341"), NEW.assign(sex="canary-7341")):
        with pytest.raises(SchemaError) as theirs:
            result.predict(bad)
        with pytest.raises(SchemaError) as ours:
            back.predict(bad)
        assert str(ours.value) == str(theirs.value)
        assert "canary" not in str(ours.value)
    with pytest.raises(SchemaError, match=f"'{name}'"):
        back.predict(NEW.drop(columns=name))


# --- JSON of the first version ------------------------------------------------------------------------------


def test_results_of_the_first_version_are_read_and_predict_nothing():
    result = FitResult.from_json(VERSION_1)
    assert result.params.index.tolist() == ["Intercept", "age", "C(sex)[T.Male]"]
    assert isinstance(str(result.summary()), str)
    assert len(result.wald_test_terms().terms) == 2
    asked = (result.predict, result.decision_function, result.get_prediction, result.get_margeff)
    for ask in asked:
        with pytest.raises(
            Incompatible, match="needs the schema and formula of the fit, which a result lacks"
        ):
            ask(NEW)
    again = FitResult.from_json(result.to_json())
    assert again.encoder is None
    assert again.to_json() == result.to_json()


# --- JSON of others -----------------------------------------------------------------------------------------

RECORD = json.loads(by_formula("logit").to_json())
KEPT = RECORD["result"]["encoder"]
CANARY = "PRIVFIT_JSON_CANARY"
SING = f"__import__('os').environ.__setitem__('{CANARY}', 'sang')"


def spoiled(**changes):
    """Return the JSON with entries of the encoder replaced, or removed for Ellipsis."""
    record = copy.deepcopy(RECORD)
    kept = record["result"]["encoder"] | changes
    record["result"]["encoder"] = {name: entry for name, entry in kept.items() if entry is not ...}
    return json.dumps(record)


def refusal(text):
    with pytest.raises(SchemaError) as caught:
        FitResult.from_json(text)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.__cause__ is None
    return message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"kind": ...}, "result.encoder.kind must be one of formula, schema, unit scale"),
        ({"kind": "os.system"}, "result.encoder.kind must be one of"),
        ({"kind": ["formula"]}, "result.encoder.kind must be one of"),
        ({"kind": "schema"}, "result.encoder lacks columns, intercept, target"),
        ({"kind": "unit scale"}, "result.encoder lacks classes, count_bound"),
        ({"formula": ...}, "result.encoder lacks formula"),
        ({"rows": [1, 2]}, "result.encoder may only hold formula, schema, target_kind"),
        ({"formula": 3}, "result.encoder.formula must be of type str"),
        ({"formula": ""}, "result.encoder: formula has no response"),
        ({"formula": "high ~ ("}, "result.encoder: formula: Could not find matching"),
        ({"formula": "high ~ income"}, "result.encoder: formula: column 'income' is not in the schema"),
        ({"formula": "high ~ center(age)"}, "result.encoder: formula: the call 'center'(...) is refused"),
        ({"formula": f"high ~ I({SING})"}, "result.encoder: formula: "),
        ({"formula": f"high ~ {{{SING}}}"}, "result.encoder: formula: "),
        ({"formula": f"high ~ C({SING})"}, "result.encoder: formula: "),
        ({"formula": "high ~ age.__class__"}, "result.encoder: formula: "),
        ({"formula": "high ~ I(os)"}, "result.encoder: formula: column 'os' is not in the schema"),
        ({"formula": "high ~ I(open('x'))"}, "result.encoder: formula: the call 'open'(...) is refused"),
        ({"formula": "high ~ np.load(age)"}, "result.encoder: formula: the call 'np.load'(...) is refused"),
        ({"formula": f"high ~ {'*'.join(map(str, range(99)))}"}, "result.encoder: formula: "),
        ({"formula": "high ~ age * C(sex)"}, "encoder: its columns are not those of the coefficients"),
        ({"formula": "high ~ C(sex) * age + np.log(dose)"}, "encoder: its columns are not those"),
        (
            {"formula": "ill ~ age", "schema": KEPT["schema"] | {"ill": SCHEMA["ill"]}},
            "encoder: its response is",
        ),
        ({"target_kind": "count"}, "result.encoder: column 'high' is categorical; a numeric response needs"),
        ({"target_kind": "magic"}, "result.encoder.target_kind must be one of numeric, binary, count, class"),
        ({"schema": None}, "result.encoder.schema must be an object"),
        ({"schema": []}, "result.encoder.schema must be an object"),
        ({"schema": {}}, "result.encoder.schema: schema declares no column"),
        ({"schema": {"age": 3}}, "result.encoder.schema: column 'age': a declaration must be a table"),
        ({"schema": {"age": {"type": "magic"}}}, "result.encoder.schema: column 'age': type must be"),
        ({"schema": {"": {"type": "numeric"}}}, "result.encoder.schema: schema: a column name must be text"),
        ({"schema": {"Intercept": {"type": "numeric"}}}, "result.encoder.schema: column 'Intercept'"),
        ({"schema": {"row_norm": "x", "age": {}}}, "result.encoder.schema: row_norm must be a number"),
    ],
)
def test_what_encodes_no_rows_is_refused_by_place(changes, said):
    assert refusal(spoiled(**changes)).startswith(said)
    assert CANARY not in os.environ


@pytest.mark.parametrize(
    ("column", "changes", "said"),
    [
        ("age", {"lower": 100}, "result.encoder.schema: column 'age': lower must be below upper"),
        ("age", {"upper": "90"}, "result.encoder.schema: column 'age': upper must be a number"),
        ("age", {"upper": 10**400}, "result.encoder.schema: column 'age': upper must be finite"),
        ("age", {"transform": "eval"}, "result.encoder.schema: column 'age': transform must be one of"),
        ("age", {"mean": 3}, "result.encoder.schema: column 'age': 'mean' is no option"),
        ("sex", {"levels": "MF"}, "result.encoder.schema: column 'sex': levels must be a list"),
        ("sex", {"levels": ["Female", ["Male"]]}, "result.encoder.schema: column 'sex': levels must be text"),
        ("age", {"upper": 91}, "encoder: its scales are not those of the coefficients"),
        ("dose", {"lower": 0.5001}, "encoder: its scales are not those of the coefficients"),
        ("dose", {"lower": 0}, "result.encoder: formula: 'np.log(dose)' is not finite"),
        ("sex", {"levels": ["Female", "Other"], "missing": "Other"}, "encoder: its columns are not those"),
        ("high", {"levels": ["yes", "no"]}, "encoder: its response is not that of the coefficients"),
    ],
)
def test_schemas_of_others_are_refused(column, changes, said):
    schema = KEPT["schema"] | {column: KEPT["schema"][column] | changes}
    assert refusal(spoiled(schema=schema)).startswith(said)


@pytest.mark.parametrize("value", [3, "formula", [], True])
def test_an_encoder_is_an_object_or_null(value):
    record = copy.deepcopy(RECORD)
    record["result"]["encoder"] = value
    assert refusal(json.dumps(record)) == "result.encoder must be an object or null"


def test_forms_that_do_not_go_with_the_coefficients_are_refused():
    for part, value in [
        ("columns", ["Intercept"]),
        ("terms", []),
        ("centers", [0.0]),
        ("half_widths", ["nan"]),
        ("classes", ["a"]),
        ("classes", ["a", "b", "c"]),
        ("link", "identity"),
    ]:
        for drop in (False, True):
            record = copy.deepcopy(RECORD)
            record["result"]["form"][part] = value
            if drop:
                del record["result"]["encoder"]
            with pytest.raises((SchemaError, InvalidArgument)):
                FitResult.from_json(json.dumps(record))


@pytest.mark.parametrize("scale", ["nan", "inf", 1e300])
def test_scales_that_are_no_scales_are_refused(scale):
    record = copy.deepcopy(RECORD)
    record["result"]["form"]["half_widths"][1] = scale
    assert refusal(json.dumps(record)).startswith("encoder: its scales")


def test_scales_may_be_rounded_by_another_processor():
    record = copy.deepcopy(RECORD)
    form = record["result"]["form"]
    form["centers"] = [center * (1 + 1e-15) for center in form["centers"]]
    same(FitResult.from_json(json.dumps(record)).predict(NEW), by_formula("logit").predict(NEW))


def test_every_kind_of_encoder_has_a_name():
    for result in (by_formula("logit"), with_schema("logistic"), without_schema("logistic")):
        assert encoders.written(result.encoder)["kind"] in ("formula", "schema", "unit scale")


def places(node, prefix=()):
    yield prefix
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        yield from places(child, (*prefix, key))


KINDS = [
    json.loads(result.to_json())
    for result in (by_formula("logit"), with_schema("logistic, K classes"), without_schema("poisson"))
]
PLACES = [
    (k, ("encoder", *place))
    for k, record in enumerate(KINDS)
    for place in places(record["result"]["encoder"])
]
PLACES += [
    (k, ("form", *place)) for k, record in enumerate(KINDS) for place in places(record["result"]["form"])
]
TEXTS = st.sampled_from(["inf", "nan", "numeric", "log", "high ~ .", "class", "no"]) | st.text(max_size=5)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(place=st.sampled_from(PLACES), value=VALUES, drop=st.booleans())
def test_any_part_replaced_or_dropped_is_refused_or_predicts(place, value, drop):
    k, keys = place
    record = copy.deepcopy(KINDS[k])
    parent = record["result"]
    for key in keys[:-1]:
        parent = parent[key]
    if drop:
        del parent[keys[-1]]
    else:
        parent[keys[-1]] = value
    try:
        result = FitResult.from_json(json.dumps(record))
    except (SchemaError, InvalidArgument):
        return
    assert FitResult.from_json(result.to_json()).to_json() == result.to_json()
    for answer in answers(result, NEW).values():
        assert isinstance(answer, str | pd.Series | pd.DataFrame)
