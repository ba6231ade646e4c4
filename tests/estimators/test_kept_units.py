"""Fits of caches and clusters whose privacy unit is a person with several rows."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import privfit as pf

from .kept import KEPT, SCHEMA, cached, fits_of

N, PERSONS = 6_000, 1_500


@pytest.fixture(scope="module")
def table():
    """Rows of persons in any order, some of nobody and some that cannot count."""
    rng = np.random.default_rng(2)
    who = rng.integers(0, PERSONS, N)
    x, years = rng.uniform(-3, 3, N), rng.uniform(0.1, 5, N)
    own = rng.normal(size=PERSONS)[who]
    data = pd.DataFrame(
        {
            "y": 0.5 * x + own + rng.normal(size=N),
            "x": x,
            "g": rng.choice(["a", "b", "c"], N),
            "w": rng.uniform(0.2, 4.0, N),
            "ill": np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-x - own)), "yes", "no"),
            "kind": rng.choice(["p", "q", "r"], N),
            "visits": rng.poisson(years * np.exp(0.1 * x)),
            "years": years,
            "person": [f"p{k}" for k in who],
        }
    )
    data.loc[:4, "w"] = [np.nan, 0.0, -1.0, 1e6, 1e-9]
    data.loc[5:9, "person"] = None
    data.loc[10:14, "x"] = np.nan
    return data


FITS = {
    "ols": (pf.ols, "y ~ x + C(g)", {}),
    "exact": (pf.ols, "y ~ x", {"solver": "non-private"}),
    "logit": (pf.logit, "ill ~ x + C(g)", {"weights": "w"}),
    "classes": (pf.logit, "kind ~ x", {}),
    "pure": (pf.logit, "ill ~ x", {"delta": 0.0}),
    "prediction": (pf.logit, "ill ~ x", {"inference": False}),
    "newton": (pf.huber, "y ~ x", {"solver": "newton", "rows_per_unit": 3}),
    "exposures": (pf.poisson, "visits ~ x", {"exposure": "years"}),
    "quantile": (pf.quantile, "y ~ x", {"quantile": 0.3}),
    "secret number": (pf.ols, "y ~ x", {"relation": "add_remove", "n_rows": PERSONS}),
    "comparator": (pf.ols, "y ~ x", {"solver": "adassp"}),
}


@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize("fit", FITS)
def test_fits_are_those_in_memory(table, fit, where, tmp_path):
    model, formula, options = FITS[fit]
    store = KEPT[where](table, tmp_path)
    kept, rows = fits_of((model, formula), table, store, {"unit": "person"}, options)
    assert kept.plan.unit == "person"
    assert np.abs(rows.estimate - kept.estimate).max() > 1e-4


@pytest.mark.parametrize("where", KEPT)
def test_the_number_of_persons_is_that_in_memory(table, where, tmp_path):
    """Persons without a usable row count among them, rows of nobody do not."""
    common = {"schema": SCHEMA, "unit": "person", "solver": "non-private"}
    data = table.assign(x=table["x"].where(table["person"] != table["person"][100]))
    plan = pf.ols("y ~ x", KEPT[where](data, tmp_path), **common).plan
    assert plan.n_rows == data["person"].nunique()


@pytest.mark.parametrize("where", KEPT)
def test_persons_of_which_nobody_is_known_are_refused(table, where, tmp_path):
    with pytest.raises(pf.SchemaError, match="no row has an identifier in 'person'"):
        pf.ols("y ~ x", KEPT[where](table.assign(person=""), tmp_path), schema=SCHEMA, unit="person")


@pytest.mark.parametrize("where", KEPT)
def test_bounds_are_learned_of_persons(table, where, tmp_path):
    draft = {"x": {"type": "numeric"}, "y": {"type": "numeric"}}
    options = {"unit": "person", "epsilon": 2.0, "delta": 1e-6, "random_state": 3}
    whole = pf.learn_bounds(table, draft, **options)
    kept = pf.learn_bounds(KEPT[where](table, tmp_path), draft, **options)
    pd.testing.assert_frame_equal(kept.bounds, whole.bounds)
    fitted = [
        pf.ols("y ~ x", data, schema=draft, scale="private", **options)
        for data in (table, KEPT[where](table, tmp_path))
    ]
    np.testing.assert_allclose(fitted[1].estimate, fitted[0].estimate, rtol=1e-8)


@pytest.mark.parametrize("given", ["argument", "schema"])
def test_estimators_keep_persons_on_a_cluster(table, given):
    schema = SCHEMA.with_roles(unit="person") if given == "schema" else SCHEMA
    schema = schema.part(("y", "x", "person") if given == "schema" else ("y", "x"))
    unit = "person" if given == "argument" else None
    model = pf.LinearRegression(schema=schema, unit=unit, solver="non-private")
    whole = model.fit(table, "y").result_.bse
    spread = dd.from_pandas(table, npartitions=3)
    np.testing.assert_allclose(model.fit(spread, "y").result_.bse, whole, rtol=1e-9)
    np.testing.assert_allclose(model.fit(spread[["person", "x"]], spread["y"]).result_.bse, whole, rtol=1e-9)


def test_a_kept_cache_is_used_again_and_told_from_that_of_rows(table, tmp_path):
    rows = cached(table, tmp_path, folder=tmp_path / "kept")
    common = {"schema": SCHEMA, "solver": "non-private"}
    found = [
        [pf.ols("y ~ x", rows, unit=unit, **common).bse.iloc[1] for unit in ("person", None, "g")]
        for _ in range(2)
    ]
    assert found[0] == found[1]
    assert len(set(found[0])) == 3
    assert len(list((tmp_path / "kept").iterdir())) == 3
