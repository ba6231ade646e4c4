"""Fits by formula agree with statsmodels where no noise is added, and check their arguments first."""

import doctest
import importlib
import inspect

import numpy as np
import pytest
import statsmodels.api as sm
from formulaic import model_matrix
from tests.small_sample import hc1
from tests.terms.formula_table import ROW_SCHEMA, table

from privfit.data.schema import Schema
from privfit.errors import FormulaError, InvalidArgument, SchemaError
from privfit.formula import huber, logit, ols, poisson, quantile, svm
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import Ledger

FORMULAS = [
    "age * sex + dose",
    "C(job) * C(sex) + np.log(dose)",
    "I(age ** 2) + age + sex + I(dose > 2):sex",
    "0 + sex + job + age:job",
    "age + dose - 1",
    "gain + `net income` + C(job, contr.treatment('z')):age",
    "(age + dose + sex) ** 2",
    "age * dose * `net income`",
    "C(job) * age * dose",
    "C(job) + C(job):age",
    "C(job):age",
    "age + I(age ** 2) + I(age ** 3)",
    "age * dose + I(age ** 2) + I(age ** 2):dose",
    "np.log(dose) * age",
    "age * dose - 1",
    "1",
]
EXACT = {"solver": "non-private"}
TOLERANCE = {"rtol": 1e-6, "atol": 1e-9}
"""NonPrivate stops at a gradient of 1e-12; the rest is the conditioning of these designs."""


@pytest.fixture(scope="module")
def data():
    rows = table(4_000, seed=7)
    rng = np.random.default_rng(8)
    effect = 0.3 * rows["age"] - 0.5 * rows["dose"] + 0.4 * (rows["sex"] == "M") + 0.8 * (rows["job"] == "z")
    rows["y"] = np.clip(1 + 2 * effect + (0.5 + rows["dose"] / 4) * rng.standard_normal(len(rows)), -20, 20)
    happened = rng.random(len(rows)) < 1 / (1 + np.exp(-effect))
    rows["yes"] = np.where(happened, "yes", "no")
    return rows


def design(right, data):
    x = model_matrix(right, data.assign(gain=np.log1p(data["gain"])), context={})
    return x.astype(float).rename(columns={"gain": "log1p(gain)"})


def check(result, reference):
    assert list(result.params.index) == list(reference.params.index)
    np.testing.assert_allclose(result.params, reference.params, **TOLERANCE)
    np.testing.assert_allclose(result.bse, reference.bse, **TOLERANCE)
    np.testing.assert_allclose(result.cov_params(), reference.cov_params(), **TOLERANCE)


@pytest.mark.parametrize("right", FORMULAS)
def test_ols_is_least_squares_with_the_hc1_sandwich(right, data):
    reference = hc1(sm.OLS(data["y"], design(right, data)).fit(cov_type="HC0"))
    check(ols(f"y ~ {right}", data, schema=ROW_SCHEMA, residual_bound=40, **EXACT), reference)


@pytest.mark.parametrize(
    "right",
    [
        "I(dose > 2)",
        "I(dose > 2) * age",
        "age + I(dose > 2):age",
        "sex + I(dose > 2):sex",
        "0 + sex + I(dose > 2)",
        "I(dose > 2) * I(age > 0) * job",
        "I((dose > 2) * 1):sex + I((age > 0) * 1) - 1",
    ],
)
def test_comparisons_are_what_statsmodels_makes_of_them(right, data):
    ours = ols(f"y ~ {right}", data, schema=ROW_SCHEMA, residual_bound=40, **EXACT)
    theirs = sm.OLS.from_formula(f"y ~ {right}", data).fit()
    names = [name.replace(")[T.True]", ")") for name in theirs.params.index]
    np.testing.assert_allclose(ours.params[names], theirs.params, **TOLERANCE)
    assert len(ours.params) == len(names)


@pytest.mark.parametrize("right", FORMULAS)
def test_logit_is_maximum_likelihood_with_the_hc1_sandwich(right, data):
    happened = (data["yes"] == "yes").astype(float)
    reference = sm.Logit(happened, design(right, data)).fit(
        cov_type="HC0", disp=False, tol=1e-13, maxiter=200
    )
    check(logit(f"yes ~ {right}", data, schema=ROW_SCHEMA, **EXACT), hc1(reference))


def test_huber_with_a_known_scale_solves_hubers_equations(data):
    result = huber("y ~ age * sex", data, schema=ROW_SCHEMA, scale=0.8, threshold=1.5, **EXACT)
    x = design("age * sex", data).to_numpy()
    residual = data["y"].to_numpy() - x @ result.params.to_numpy()
    score = x.T @ np.clip(residual, -1.2, 1.2) / len(data)
    np.testing.assert_allclose(score, 0, atol=1e-9)


def test_huber_estimates_the_scale_along(data):
    result = huber("y ~ age + dose + sex + job", data, schema=ROW_SCHEMA, **EXACT)
    assert 0.5 < result.scale < 2.0
    assert result.params["age"] == pytest.approx(0.6, abs=0.05)


def test_poisson_is_maximum_likelihood_with_the_hc1_sandwich(data):
    visits = np.random.default_rng(4).poisson(np.exp(0.2 * data["age"] + 0.1 * data["dose"]))
    rows = data.assign(visits=visits.astype(float))
    schema = Schema(ROW_SCHEMA.to_dict() | {"visits": {"type": "numeric", "lower": 0, "upper": 200}})
    x = design("age * sex + dose", data)
    reference = sm.GLM(rows["visits"], x, family=sm.families.Poisson()).fit(cov_type="HC0", tol=1e-13)
    check(poisson("visits ~ age * sex + dose", rows, schema=schema, **EXACT), hc1(reference))
    with pytest.raises(SchemaError, match="count response"):
        poisson("y ~ age", data, schema=ROW_SCHEMA)


def test_a_rate_weighted_by_its_exposure_is_the_regression_with_that_offset(data):
    rng = np.random.default_rng(5)
    years = rng.uniform(0.5, 3.0, len(data))
    visits = rng.poisson(years * np.exp(0.2 * data["age"] + 0.1 * data["dose"]))
    rows = data.assign(years=years, rate=visits / years)
    bounds = {"years": {"lower": 0, "upper": 3}, "rate": {"lower": 0, "upper": 100}}
    schema = Schema(
        ROW_SCHEMA.to_dict() | {name: {"type": "numeric", **bound} for name, bound in bounds.items()}
    )
    reference = sm.GLM(
        visits, design("age * sex + dose", data), family=sm.families.Poisson(), exposure=years
    ).fit(cov_type="HC0", tol=1e-13)
    check(poisson("rate ~ age * sex + dose", rows, schema=schema, weights="years", **EXACT), hc1(reference))


def test_a_narrow_quantile_regression_is_the_usual_one(data):
    result = quantile("y ~ age + dose", data, schema=ROW_SCHEMA, quantile=0.3, width=0.05, **EXACT)
    reference = sm.QuantReg(data["y"], design("age + dose", data)).fit(q=0.3)
    np.testing.assert_allclose(result.params, reference.params, atol=0.03)


@pytest.mark.parametrize("options", [EXACT, {"epsilon": 4.0, "random_state": 0}])
@pytest.mark.parametrize(("size", "known"), [(2.0**300, True), (2.0**460, True), (2.0**550, False)])
def test_a_variance_that_is_no_number_of_double_precision_is_unknown(size, known, options):
    x = np.random.default_rng(0).uniform(size=(4_000, 2))

    def fit(size):
        bounds = {"x": (0, size), "y": (-1, 2)}
        schema = {name: {"type": "numeric", "lower": a, "upper": b} for name, (a, b) in bounds.items()}
        return ols("y ~ x", {"x": x[:, 0] * size, "y": x[:, 1]}, schema=schema, **options)

    result, expected = fit(size), fit(1.0)
    assert result.bse["Intercept"] == pytest.approx(expected.bse["Intercept"])
    assert result.bse["x"] == pytest.approx(expected.bse["x"] / size if known else np.inf)
    assert result.pvalues["x"] == pytest.approx(expected.pvalues["x"] if known else 1.0)
    if known:
        np.testing.assert_allclose(result.dof, expected.dof)


def test_svm_is_the_estimator(data):
    from privfit.estimators import LinearSVC
    from privfit.losses import SmoothedHinge

    result = svm("yes ~ age + dose", data, schema=ROW_SCHEMA, width=0.6, **EXACT)
    names = ("yes", "age", "dose")
    schema = Schema({name: ROW_SCHEMA.to_dict()[name] for name in names})
    model = LinearSVC(schema=schema, loss=SmoothedHinge(0.6), **EXACT).fit(data[list(names)], "yes")
    np.testing.assert_allclose(result.params, model.result_.params, rtol=1e-9)


@pytest.mark.parametrize("container", ["dict", "polars", "csv", "csv.gz", "parquet", "arrow", "raw csv"])
def test_any_container_gives_the_same_fit(container, data, tmp_path):
    formula, options = "y ~ age * C(sex) + np.log(dose)", {"schema": ROW_SCHEMA, "random_state": 5}
    expected = ols(formula, data, **options)
    layout = {}
    if container == "dict":
        other = {name: data[name].to_numpy() for name in data}
    elif container in ("polars", "arrow"):
        pl = pytest.importorskip("polars")
        other = pl.DataFrame({name: data[name].to_list() for name in data})
        other = other.to_arrow() if container == "arrow" else other
    elif container == "parquet":
        other = tmp_path / "rows.parquet"
        data.to_parquet(other)
    elif container == "raw csv":
        other = tmp_path / "rows.data"
        data.to_csv(other, index=False, header=False, sep=";")
        layout = {"sep": ";", "header": False, "columns": list(data.columns)}
    else:
        other = tmp_path / f"rows.{container}"
        data.to_csv(other, index=False)
    result = ols(formula, other, **options, **layout)
    np.testing.assert_array_equal(result.params, expected.params)
    np.testing.assert_array_equal(result.bse, expected.bse)


def test_a_seeded_fit_repeats_and_is_marked_and_an_unseeded_one_is_private(data):
    fits = [logit("yes ~ age + sex", data, schema=ROW_SCHEMA, random_state=1) for _ in range(2)]
    assert fits[0].to_json() == fits[1].to_json()
    assert not fits[0].private
    private = logit("yes ~ age + sex", data, schema=ROW_SCHEMA)
    assert private.private
    assert (private.privacy.epsilon, private.privacy.delta) == (1.0, 1e-6)
    assert private.params["age"] != fits[0].params["age"]


def test_a_schema_may_be_a_mapping_or_a_file(data, tmp_path):
    path = tmp_path / "schema.toml"
    ROW_SCHEMA.to_toml(path)
    fits = [
        ols("y ~ age", data, schema=schema, **EXACT)
        for schema in (ROW_SCHEMA, ROW_SCHEMA.to_dict(), path, str(path))
    ]
    assert len({fit.to_json() for fit in fits}) == 1
    with pytest.raises(SchemaError):
        ols("y ~ age", data, schema=None)


def test_budgets_of_other_notions(data):
    result = ols("y ~ age", data, schema=ROW_SCHEMA, budget=Budget.gdp(0.5), random_state=0)
    assert result.plan.mu <= 0.5
    assert result.plan.mu == pytest.approx(0.5, rel=1e-6)


RESPONSE = {logit: "yes", svm: "yes", poisson: "dose"}
"""Responses that the functions take; the others take y."""


@pytest.mark.parametrize("fit", [logit, ols, huber, svm, quantile, poisson])
@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"epsilon": 0}, InvalidArgument, "epsilon"),
        ({"epsilon": -1.0}, InvalidArgument, "epsilon"),
        ({"epsilon": float("nan")}, InvalidArgument, "epsilon"),
        ({"epsilon": "1"}, InvalidArgument, "epsilon"),
        ({"delta": 1.0}, InvalidArgument, "delta"),
        ({"delta": -1e-9}, InvalidArgument, "delta"),
        ({"budget": 1.0}, InvalidArgument, "budget"),
        ({"budget": Budget.gdp(1.0), "epsilon": 2.0}, InvalidArgument, "budget"),
        ({"budget": Budget(1.0, 1e-6), "delta": 1e-9}, InvalidArgument, "budget"),
        ({"solver": "quantum"}, InvalidArgument, "solver"),
        ({"relation": "swap"}, InvalidArgument, "relation"),
        ({"relation": "add_remove"}, InvalidArgument, "n_rows"),
        ({"n_rows": 100}, InvalidArgument, "n_rows"),
        ({"relation": "add_remove", "n_rows": 0}, InvalidArgument, "n_rows"),
        ({"l2": -1.0}, InvalidArgument, "l2"),
        ({"inference": "yes"}, InvalidArgument, "inference"),
        ({"ledger": "l.db"}, InvalidArgument, "dataset"),
        ({"dataset": "census"}, InvalidArgument, "ledger"),
        ({"formula": "RESPONSE ~ agge"}, FormulaError, "did you mean 'age'"),
        ({"schema": Schema({"age": ROW_SCHEMA["age"]})}, FormulaError, "not in the schema"),
    ],
)
def test_arguments_are_checked_before_the_data_are_opened(fit, options, error, names, tmp_path):
    response = RESPONSE.get(fit, "y")
    formula = options.get("formula", f"{response} ~ age").replace("RESPONSE", response)
    given = {"schema": ROW_SCHEMA} | {name: value for name, value in options.items() if name != "formula"}
    with pytest.raises(error) as caught:
        fit(formula, tmp_path / "no such file.csv", **given)
    message = str(caught.value)
    assert names in message
    assert len(message.splitlines()) == 1
    assert "no such file" not in message


@pytest.mark.parametrize("fit", [ols, huber, svm, quantile, poisson])
def test_a_response_with_three_levels_is_for_logit(fit, tmp_path):
    with pytest.raises(SchemaError, match="'job'"):
        fit("job ~ age", tmp_path / "no such file.csv", schema=ROW_SCHEMA)


@pytest.mark.parametrize(
    ("fit", "options"),
    [
        (ols, {"residual_bound": 0}),
        (huber, {"threshold": -1}),
        (huber, {"scale": 0}),
        (huber, {"scale": "a"}),
        (svm, {"width": 0}),
        (quantile, {"quantile": 1.0}),
        (quantile, {"width": -1}),
        (poisson, {"predictor_bound": 0}),
        (poisson, {"predictor_bound": 51}),
    ],
)
def test_options_of_a_model_are_checked_first(fit, options, tmp_path):
    with pytest.raises(InvalidArgument, match=next(iter(options))):
        fit(f"{RESPONSE.get(fit, 'y')} ~ age", tmp_path / "no such file.csv", schema=ROW_SCHEMA, **options)


def test_a_ledger_is_charged_once_and_only_for_a_fit_that_ran(data, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.grant("people", Budget(2.0, 1e-5))
    account = {"ledger": ledger, "dataset": "people", "schema": ROW_SCHEMA}
    before = ledger.remaining("people")
    with pytest.raises(FormulaError):
        ols("y ~ lag(age)", data, **account)
    with pytest.raises(SchemaError):
        ols("y ~ age", data.drop(columns="age"), **account)
    assert ledger.remaining("people") == before
    ols("y ~ age", data, **account)
    assert ledger.remaining("people") != before


def test_the_documented_signature():
    for fit in (logit, ols, huber, svm, quantile, poisson):
        parameters = inspect.signature(fit).parameters
        assert list(parameters)[:3] == ["formula", "data", "schema"]
        assert parameters["epsilon"].default == 1.0
        assert parameters["delta"].default == 1e-6
        assert parameters["schema"].kind is inspect.Parameter.KEYWORD_ONLY
        documented = inspect.getdoc(fit)
        assert all(name in documented for name in parameters)
    assert inspect.signature(huber).parameters["threshold"].default == 1.345


@pytest.mark.parametrize("module", ["models", "margins", "quantiles", "counts", "robust"])
def test_examples_in_docstrings(module):
    outcome = doctest.testmod(importlib.import_module(f"privfit.formula.{module}"))
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("options", "n"), [({}, 500), ({"relation": "add_remove", "n_rows": 800}, 800), ({"unit": "who"}, 250)]
)
def test_a_summary_says_that_delta_is_large_for_the_public_number_of_rows(data, options, n):
    rows = data[:500].assign(who=np.repeat(np.arange(250), 2))
    fit = logit("yes ~ age", rows, schema=ROW_SCHEMA, delta=1 / n, inference=False, **options)
    assert f"1/n or larger: with n = {n} " in " ".join(str(fit.summary()).split())
