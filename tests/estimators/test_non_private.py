"""Fits without noise: what their tables say, and what they make of rows that determine no coefficient."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privfit as pf
from tests.small_sample import hc1

N = 300
SCHEMA = {
    "x": {"type": "numeric", "lower": -1, "upper": 1},
    "z": {"type": "numeric", "lower": -1, "upper": 1},
    "c": {"type": "categorical", "levels": ["u", "v", "w"]},
    "y": {"type": "numeric", "lower": -3, "upper": 3},
    "b": {"type": "categorical", "levels": ["no", "yes"]},
}
PLAIN = {"schema": SCHEMA, "solver": "non-private"}


def people(**changes):
    rng = np.random.default_rng(0)
    x, z = rng.uniform(-1, 1, size=(2, N))
    data = {"x": x, "z": z, "c": rng.choice(["u", "v"], N), "y": x + rng.normal(0, 0.3, N)}
    data["b"] = np.where(x + rng.normal(0, 0.5, N) > 0, "yes", "no")
    return {**data, **{name: change(data) for name, change in changes.items()}}


def test_a_table_without_noise_speaks_of_none():
    result = pf.ols("y ~ x + z", people(), **PLAIN)
    for shown in (result.summary().as_text(), str(result.t_test("x = 0"))):
        assert "privacy noise" not in shown
        assert "noise %" not in shown
        assert "larger budget" not in shown
    assert "sampling variation alone" in result.summary().as_text()
    assert "noise-aware" not in result.summary().as_text()
    bare = pf.ols("y ~ x + z", people(), inference=False, **PLAIN).summary().as_text()
    assert "privacy noise" not in bare


UNDETERMINED = {  # model, formula, columns that are changed, coefficients that rows then say nothing of
    "a constant column": ("ols", "y ~ x + z", {"z": lambda _: np.full(N, 0.5)}, ["Intercept", "z"]),
    "a column of zeros": ("ols", "y ~ x + z", {"z": lambda _: np.zeros(N)}, ["z"]),
    "equal columns": ("ols", "y ~ x + z", {"z": lambda data: data["x"]}, ["x", "z"]),
    "a level that is absent": ("ols", "y ~ x + c", {}, ["c[T.w]"]),
    "zeros in a logit": ("logit", "b ~ x + z", {"z": lambda _: np.zeros(N)}, ["z"]),
    "one class": ("logit", "b ~ x + z", {"b": lambda _: np.full(N, "no")}, ["Intercept", "x", "z"]),
    "a level of one class": (
        "logit",
        "b ~ x + c",
        {"b": lambda data: np.where(data["c"] == "u", "yes", data["b"])},
        ["Intercept", "c[T.v]", "c[T.w]"],
    ),
    "a rare level of one class": (
        "logit",
        "b ~ x + c",
        {
            "c": lambda data: np.where(np.arange(N) < 3, "w", data["c"]),
            "b": lambda data: np.where(np.arange(N) < 3, "no", data["b"]),
        },
        ["c[T.w]"],
    ),
    "no events": ("poisson", "y ~ x + z", {"y": lambda _: np.zeros(N)}, ["Intercept", "x", "z"]),
}


@pytest.mark.parametrize("case", UNDETERMINED.values(), ids=UNDETERMINED)
def test_coefficients_that_rows_do_not_determine_have_infinite_intervals(case):
    """Warnings are errors here, those of NumPy included."""
    model, formula, changes, unknown = case
    schema = {**SCHEMA, "y": {**SCHEMA["y"], "lower": 0}} if model == "poisson" else SCHEMA
    result = getattr(pf, model)(formula, people(**changes), schema=schema, solver="non-private")
    infinite = np.isinf(result.bse)
    assert set(result.bse.index[infinite]) == set(unknown)
    assert np.isfinite(result.bse[~infinite]).all()
    ends = result.conf_int()
    assert (ends["lower"][unknown] == -np.inf).all()
    assert (ends["upper"][unknown] == np.inf).all()
    assert (result.pvalues[unknown] == 1.0).all()
    text = " ".join(result.summary().as_text().split())
    assert "the rows do not determine this coefficient" in text
    assert "budget" not in text


def test_a_reference_level_that_no_row_has():
    """What helps is said, and does; differences of the other levels are those from there."""
    schema = {**SCHEMA, "c": {"type": "categorical", "levels": ["none", *SCHEMA["c"]["levels"]]}}
    found = pf.ols("y ~ x + c", people(), schema=schema, solver="non-private")
    assert np.isinf(found.bse["c[T.v]"])
    said = "no row may have the reference level: then name another one"
    assert said in " ".join(str(found.summary()).split())
    named = pf.ols("y ~ x + C(c, Treatment('u'))", people(), schema=schema, solver="non-private")
    contrast = found.t_test("c[T.v] - c[T.u]")
    np.testing.assert_allclose(contrast.params, named.params["C(c, Treatment('u'))[T.v]"], rtol=1e-9)
    np.testing.assert_allclose(contrast.bse, named.bse["C(c, Treatment('u'))[T.v]"], rtol=1e-3)


def test_a_perfect_fit_has_no_standard_error():
    result = pf.ols("y ~ x + z", people(y=lambda data: 0.5 * data["x"] - data["z"]), **PLAIN)
    np.testing.assert_allclose(result.params, [0.0, 0.5, -1.0], atol=1e-12)
    assert (result.bse < 1e-12).all()


def test_a_response_of_zeros_gives_no_evidence():
    result = pf.ols("y ~ x + z", people(y=lambda _: np.zeros(N)), **PLAIN)
    assert (result.bse < 1e-12).all()
    assert (result.pvalues == 1.0).all()


def test_columns_of_very_different_sizes_are_determined():
    """Without a schema nothing is scaled; a column of incomes hides no other one."""
    rng = np.random.default_rng(1)
    x = np.column_stack([1e5 * rng.random(N), rng.random(N)])
    y = 1e-5 * x[:, 0] + rng.normal(size=N)
    model = pf.LinearRegression(solver="non-private", residual_bound=1e3).fit(x, y)
    design = np.column_stack([np.ones(N), x])
    residuals = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    inverse = np.linalg.inv(design.T @ design)
    expected = np.sqrt(np.diag(inverse @ (design.T * residuals**2) @ design @ inverse) * N / (N - 3))
    np.testing.assert_allclose(model.result_.bse, expected, rtol=1e-3)


@pytest.mark.parametrize("fit", [pf.ols, pf.quantile])
def test_a_constant_response_shows_no_effects(fit):
    """Slopes of 1e-17 had a standard error of 0."""
    rng = np.random.default_rng(5)
    bounds = {"type": "numeric", "lower": 0, "upper": 1}
    data = {"x": rng.random(200), "z": rng.random(200), "y": np.full(200, 2.0)}
    schema = {"x": bounds, "z": bounds, "y": {"type": "numeric", "lower": -5, "upper": 5}}
    result = fit("y ~ x + z", data, schema=schema, solver="non-private")
    np.testing.assert_allclose(result.params, [2.0, 0.0, 0.0], atol=1e-12)
    assert (result.pvalues[["x", "z"]] > 0.05).all()
    assert result.pvalues["Intercept"] < 0.001
    assert (result.bse[["x", "z"]] < 1e-10).all()
    assert result.bse["Intercept"] < 1e-4  # residuals within the smallest class of a look are not told apart


def in_wide_bounds(reach, lower=None):
    """A column whose declared range is far wider than its values, beside one that is not."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(5.0, 1.0, N), rng.normal(size=N)
    y = 1.0 + 0.5 * x - z + rng.standard_t(5, size=N)
    table = pd.DataFrame({"x": x, "z": z, "y": y, "b": (y > 3.0).astype(int)})
    bounds = {"x": (-reach if lower is None else lower, reach), "z": (-5, 5), "y": (-40, 40)}
    schema = {name: {"type": "numeric", "lower": low, "upper": high} for name, (low, high) in bounds.items()}
    return table, {**schema, "b": {"type": "categorical", "levels": [0, 1]}}


@pytest.mark.parametrize("reach", [1e3, 1e5, 1e7, 1e10])
@pytest.mark.parametrize("model", ["ols", "logit"])
def test_a_column_that_hardly_varies_within_its_bounds_counts_like_any_other(model, reach):
    """It was taken for collinear: its coefficient was 0, or its standard error infinite or wrong."""
    table, schema = in_wide_bounds(reach)
    formula = "y ~ x + z" if model == "ols" else "b ~ x + z"
    result = getattr(pf, model)(formula, table, schema=schema, solver="non-private")
    fit = getattr(smf, model)(formula, table).fit(cov_type="HC0", **({} if model == "ols" else {"disp": 0}))
    np.testing.assert_allclose(result.params, fit.params, rtol=1e-6)
    np.testing.assert_allclose(result.bse, hc1(fit).bse, rtol=1e-6)


@pytest.mark.parametrize("upper", [1e2, 1e6, 1e8])
def test_counts_far_below_their_bound_have_the_intervals_of_any_other_bound(upper):
    """Their curvature is a small part of that bound's in every direction."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, 20_000)
    table = pd.DataFrame({"x": x, "y": rng.poisson(0.01 * np.exp(0.5 * x))})
    bounds = {"x": (-2, 2), "y": (0, upper)}
    schema = {name: {"type": "numeric", "lower": low, "upper": high} for name, (low, high) in bounds.items()}
    result = pf.poisson("y ~ x", table, schema=schema, solver="non-private")
    fit = smf.poisson("y ~ x", table).fit(cov_type="HC0", disp=0)
    np.testing.assert_allclose(result.bse, hc1(fit).bse, rtol=1e-6)


def test_the_units_of_a_column_do_not_change_a_fit_with_a_scale():
    fits = []
    for reach in (10.0, 1e8):
        table, schema = in_wide_bounds(reach)
        fits.append(pf.huber("y ~ x + z", table, schema=schema, solver="non-private"))
    np.testing.assert_allclose(fits[1].params, fits[0].params, rtol=1e-6)
    np.testing.assert_allclose(fits[1].bse, fits[0].bse, rtol=1e-6)
    assert fits[1].scale == pytest.approx(fits[0].scale, rel=1e-6)


def test_a_column_far_from_the_middle_of_its_bounds_is_told_from_the_intercept():
    table, schema = in_wide_bounds(1e4, lower=0.0)
    result = pf.ols("y ~ x + z", table, schema=schema, solver="non-private")
    fit = smf.ols("y ~ x + z", table).fit(cov_type="HC1")
    np.testing.assert_allclose(result.params, fit.params, rtol=1e-4)
    np.testing.assert_allclose(result.bse, fit.bse, rtol=1e-4)


@pytest.mark.parametrize("reach", [10.0, 1e7])
def test_collinear_columns_of_very_different_units_are_both_undetermined(reach):
    table, schema = in_wide_bounds(reach)
    table["w"] = table["x"] + table["z"]
    schema["w"] = {"type": "numeric", "lower": -100, "upper": 100}
    result = pf.ols("y ~ x + z + w", table, schema=schema, solver="non-private")
    assert np.isinf(result.bse[["x", "z", "w"]]).all()
    assert np.isfinite(result.bse["Intercept"])
    fitted = result.predict(table)
    np.testing.assert_allclose(fitted, smf.ols("y ~ x + z", table).fit().fittedvalues, rtol=1e-6)


NOTHING = {"x": lambda _: np.full(N, np.nan), "y": lambda _: np.full(N, np.nan)}


@pytest.mark.parametrize("missing", NOTHING)
@pytest.mark.parametrize("model", ["ols", "huber", "quantile", "logit", "svm", "poisson"])
def test_where_no_row_counts_nothing_is_determined(model, missing):
    """Standard errors were nan, with warnings of NumPy."""
    response, schema = ("b", SCHEMA) if model in ("logit", "svm") else ("y", SCHEMA)
    if model == "poisson":
        schema = {**SCHEMA, "y": {**SCHEMA["y"], "lower": 0}}
    name = response if missing == "y" else missing
    nothing = {name: lambda _: np.full(N, None, dtype=object) if name == "b" else np.full(N, np.nan)}
    result = getattr(pf, model)(f"{response} ~ x + z", people(**nothing), schema=schema, solver="non-private")
    assert np.isinf(result.bse).all()
    assert (result.pvalues == 1.0).all()
    assert "the rows do not determine this coefficient" in " ".join(result.summary().as_text().split())


def test_a_scale_that_no_row_shows_leaves_nothing_determined():
    """All rows are at the upper bound of the response, so that none has a curvature."""
    far = people(x=lambda data: data["x"] + 1e6, y=lambda data: data["y"] + 1e6)
    assert np.isinf(pf.huber("y ~ x", far, **PLAIN).bse).all()
