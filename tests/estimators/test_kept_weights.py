"""Fits of caches and clusters whose rows have survey weights."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import privfit as pf

from .kept import KEPT, SCHEMA, cached, fits_of

N = 4_000


@pytest.fixture(scope="module")
def table():
    """Rows of which some have no weight, or none within bounds."""
    rng = np.random.default_rng(2)
    x, years = rng.uniform(-3, 3, N), rng.uniform(0.1, 5, N)
    data = pd.DataFrame(
        {
            "y": 0.5 * x + rng.normal(size=N),
            "x": x,
            "g": rng.choice(["a", "b", "c"], N),
            "w": rng.uniform(0.2, 4.0, N),
            "ill": np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-x)), "yes", "no"),
            "visits": rng.poisson(years * np.exp(0.1 * x)),
            "years": years,
        }
    )
    data.loc[:4, "w"] = [np.nan, 0.0, -1.0, 1e6, 1e-9]
    return data


@pytest.mark.parametrize("where", KEPT)
@pytest.mark.parametrize(
    ("fit", "options"),
    [
        ((pf.ols, "y ~ x + C(g)"), {}),
        ((pf.ols, "y ~ x"), {"solver": "non-private"}),
        ((pf.logit, "ill ~ x + C(g)"), {}),
        ((pf.logit, "ill ~ x"), {"delta": 0.0}),
        ((pf.logit, "ill ~ x"), {"inference": False}),
        ((pf.huber, "y ~ x"), {"solver": "newton"}),
        ((pf.poisson, "visits ~ x"), {"exposure": "years"}),
        ((pf.logit, "ill ~ x"), {"solver": pf.solvers.NoisySGD(n_steps=30), "inference": False}),
        ((pf.logit, "ill ~ x"), {"solver": pf.solvers.OnlineToBatch(), "inference": False}),
    ],
    ids=["ols", "exact", "logit", "pure", "prediction", "newton", "exposures", "sgd", "online"],
)
def test_fits_are_those_in_memory(table, fit, options, where, tmp_path):
    kept, unweighted = fits_of(fit, table, KEPT[where](table, tmp_path), {"weights": "w"}, options)
    assert np.abs(unweighted.estimate - kept.estimate).max() > 1e-3


def test_weights_count(table, tmp_path):
    """Rows of one level count a hundredth: the mean is nearly that of the others."""
    heavy = table["g"] == "a"
    data = table.assign(w=np.where(heavy, 4.0, 0.04), y=np.where(heavy, 2.0, -2.0))
    result = pf.ols(
        "y ~ 1", cached(data, tmp_path), schema=SCHEMA, weights="w", solver="non-private", residual_bound=50
    )
    expected = np.average(data["y"], weights=data["w"])
    assert result.params["Intercept"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("where", KEPT)
def test_bounds_are_learned_beside_weights(table, where, tmp_path):
    draft = {"x": {"type": "numeric"}, "w": {"type": "numeric", "lower": 0, "upper": 4}}
    options = {"weights": "w", "epsilon": 1.0, "delta": 1e-6, "random_state": 3}
    whole = pf.learn_bounds(table, draft, **options)
    kept = pf.learn_bounds(KEPT[where](table, tmp_path), draft, **options)
    pd.testing.assert_frame_equal(kept.bounds, whole.bounds)


@pytest.mark.parametrize("given", ["argument", "schema"])
def test_estimators_keep_weights_on_a_cluster(table, given):
    schema = SCHEMA if given == "argument" else SCHEMA.with_roles(weights="w")
    schema = schema.part(("y", "x", "w"))
    model = pf.LinearRegression(
        schema=schema,
        weights="w" if given == "argument" else None,
        solver="non-private",
        residual_bound=50,
    )
    whole = model.fit(table, "y").coef_
    spread = dd.from_pandas(table, npartitions=3)
    np.testing.assert_allclose(model.fit(spread, "y").coef_, whole, rtol=1e-9)
    np.testing.assert_allclose(model.fit(spread[["w", "x"]], spread["y"]).coef_, whole, rtol=1e-9)


def test_a_store_without_the_column_is_refused(table, tmp_path):
    for store in KEPT.values():
        with pytest.raises(pf.SchemaError, match="'w'"):
            pf.ols("y ~ x", store(table.drop(columns="w"), tmp_path), schema=SCHEMA, weights="w")
