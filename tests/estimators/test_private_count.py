"""Under ``add_remove`` no error tells how many rows there are, and tables of one row or none are fitted."""

import re

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.errors import SchemaError

SCHEMA = pf.Schema(
    {
        "x": {"type": "numeric", "lower": 0, "upper": 1},
        "c": {"type": "categorical", "levels": ["a", "b"]},
        "y": {"type": "numeric", "lower": 0, "upper": 1, "target": True},
    }
)
PRIVATE_COUNT = {"relation": "add_remove", "n_rows": 500, "random_state": 0}


def rows(n):
    return pd.DataFrame({"x": np.linspace(0, 1, n), "c": np.full(n, "a"), "y": np.linspace(0, 1, n)})


def arrays(data, folder, **options):
    del folder
    model = pf.LinearRegression(residual_bound=1.0, **options)
    return model.fit(data[["x"]].to_numpy(), data["y"].to_numpy()).result_


def labels(data, folder, **options):
    del folder
    return pf.LogisticRegression(**options).fit(data[["x"]].to_numpy(), data["y"].to_numpy() // 1).result_


def estimator(data, folder, **options):
    del folder
    return pf.LinearRegression(residual_bound=1.0, schema=SCHEMA, **options).fit(data).result_


def formula(data, folder, **options):
    del folder
    return pf.ols("y ~ x + c", data, schema=SCHEMA, **options)


def units(data, folder, **options):
    del folder
    schema = {**SCHEMA, "who": {"type": "identifier"}}
    return pf.ols("y ~ x + c", data.assign(who=np.arange(len(data))), schema=schema, **options)


def csv(data, folder, **options):
    data.to_csv(folder / "a.csv", index=False)
    return pf.ols("y ~ x + c", folder / "a.csv", schema=SCHEMA, **options)


def parquet(data, folder, **options):
    data.to_parquet(folder / "a.parquet")
    return pf.ols("y ~ x + c", folder / "a.parquet", schema=SCHEMA, **options)


def cache(data, folder, **options):
    data.to_csv(folder / "a.csv", index=False)
    return pf.ols("y ~ x + c", pf.RowCache(folder / "a.csv"), schema=SCHEMA, **options)


def dask(data, folder, **options):
    del folder
    frames = pytest.importorskip("dask.dataframe")
    return pf.ols("y ~ x + c", frames.from_pandas(data, npartitions=1), schema=SCHEMA, **options)


FORMS = [arrays, labels, estimator, formula, units, csv, parquet, cache, dask]


@pytest.mark.parametrize("fit", FORMS)
@pytest.mark.parametrize("n", [0, 1])
def test_a_table_of_one_row_and_one_of_none_are_neighbours_and_both_are_fitted(fit, n, tmp_path):
    result = fit(rows(n), tmp_path, **PRIVATE_COUNT)
    assert np.isfinite(result.params).all()
    assert result.nobs == 500


@pytest.mark.parametrize("fit", FORMS)
def test_a_public_count_of_none_is_refused(fit, tmp_path):
    with pytest.raises(SchemaError, match=r"no row|0 sample"):
        fit(rows(0), tmp_path)


@pytest.mark.parametrize("n", [1, 7351])
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_responses_of_another_length_are_refused_without_a_count(schema, n):
    x = rows(n)[["x"]] if schema is None else rows(n)[["x", "c"]]
    model = pf.LinearRegression(residual_bound=1.0, schema=schema, **PRIVATE_COUNT)
    for y in (np.zeros(n + 1), np.zeros((n, 2)), np.zeros(n - 1)):
        with pytest.raises(SchemaError) as caught:
            model.fit(x, y)
        assert not re.search(r"\d{2}|7351|7352|7350", str(caught.value))


@pytest.mark.parametrize(
    "make", [np.zeros, lambda shape: [[]] * shape[0], lambda s: pd.DataFrame(index=range(s[0]))]
)
@pytest.mark.parametrize("groups", [False, True])
def test_neighbours_without_columns_are_refused_alike(make, groups):
    said = set()
    for n in (1, 82, 83):
        beside = {"groups": np.arange(n) // 2} if groups else {}
        model = pf.LogisticRegression() if groups else pf.LogisticRegression(**PRIVATE_COUNT)
        with pytest.raises(SchemaError, match="X has no column") as caught:
            model.fit(make((n, 0)), np.arange(n) % 2, **beside)
        said.add(str(caught.value))
    assert len(said) == 1


def test_where_the_number_of_rows_is_public_scikit_learn_says_it():
    with pytest.raises(SchemaError, match=r"0 feature\(s\) \(shape=\(83, 0\)\)"):
        pf.LogisticRegression().fit(np.zeros((83, 0)), np.arange(83) % 2)
