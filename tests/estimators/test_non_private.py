"""Fits without noise: what their tables say, and what they make of rows that determine no coefficient."""

import numpy as np
import pytest

import privfit as pf

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
    expected = np.sqrt(np.diag(inverse @ (design.T * residuals**2) @ design @ inverse))
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
