"""The type in which numbers of large tables are kept: a public matter, which results hardly show."""

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.data import coded
from privfit.data.coded import MANY_ROWS, CodedMatrix, storage_of

N = 6000
SCHEMA = {
    "a": {"type": "numeric", "lower": -3, "upper": 3},
    "b": {"type": "numeric", "lower": 0, "upper": 50},
    "c": {"type": "categorical", "levels": ["u", "v", "w"]},
    "y": {"type": "categorical", "levels": ["no", "yes"]},
    "z": {"type": "numeric", "lower": -5, "upper": 5},
}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def people():
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=N), rng.gamma(2.0, 8.0, N)
    z = 0.5 * a + 0.02 * b + rng.normal(size=N)
    y = np.where(z + rng.logistic(size=N) > 0.3, "yes", "no")
    return pd.DataFrame({"a": a, "b": b, "c": rng.choice(["u", "v", "w"], N), "y": y, "z": z})


def arrays():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(N, 4))
    return x, x @ [0.5, -0.2, 0.0, 0.1] + 0.5 * rng.normal(size=N)


def logit(**options):
    return pf.logit("y ~ a * C(c) + b", people(), schema=SCHEMA, **options)


def numeric(**options):
    return pf.ols("z ~ a + b", people(), schema=SCHEMA, **options)


def of_arrays(estimator, **options):
    x, y = arrays()
    return estimator(**options).fit(x, y).result_


FITS = {
    "by code": logit,
    "a schema of numbers": numeric,
    "arrays": lambda **options: of_arrays(pf.LinearRegression, **options),
    "rows that are scaled": lambda **options: of_arrays(pf.HuberRegressor, **options),
    "without intervals": lambda **options: of_arrays(pf.LinearRegression, inference=False, **options),
    "the median": lambda **options: of_arrays(pf.QuantileRegressor, inference=False, **options),
}


@pytest.fixture
def kept(monkeypatch):
    """Return the types of the matrices of numbers that are made."""
    empty, seen = CodedMatrix.empty.__func__, []

    def watched(cls, layout, n_rows, storage="float64"):
        if n_rows == N:
            seen.append(storage)
        return empty(cls, layout, n_rows, storage)

    monkeypatch.setattr(CodedMatrix, "empty", classmethod(watched))
    return seen


@pytest.mark.parametrize("name", FITS)
def test_results_are_those_of_double_precision_given_the_same_noise(name, kept, monkeypatch):
    fit = FITS[name]
    budget = {"epsilon": 4.0, "delta": 1e-6, "random_state": 7}
    exact = fit(**budget)
    assert "float32" not in kept
    monkeypatch.setattr(coded, "MANY_ROWS", N)
    result = fit(**budget)
    assert "float32" in kept
    np.testing.assert_allclose(result.params, exact.params, **CLOSE)
    if name not in ("without intervals", "the median"):
        np.testing.assert_allclose(result.bse, exact.bse, **CLOSE)


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_fits_without_noise_keep_double_precision(fit, kept, monkeypatch):
    exact = fit(solver="non-private")
    monkeypatch.setattr(coded, "MANY_ROWS", 1)
    np.testing.assert_array_equal(fit(solver="non-private").params, exact.params)
    assert "float32" not in kept


def test_the_type_follows_from_the_public_number_of_rows(kept, monkeypatch):
    assert storage_of(MANY_ROWS, private=True) == "float32"
    assert storage_of(MANY_ROWS - 1, private=True) == storage_of(10 * MANY_ROWS, private=False) == "float64"
    monkeypatch.setattr(coded, "MANY_ROWS", 2 * N)
    x, y = arrays()
    for n_rows in (N, 2 * N):
        pf.LinearRegression(relation="add_remove", n_rows=n_rows).fit(x, y)
        assert ("float32" in kept) == (n_rows >= 2 * N)
