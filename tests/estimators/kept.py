"""Stores that keep a table, for fits that are to be those in memory."""

import dask.dataframe as dd
import numpy as np

import privfit as pf

SCHEMA = pf.Schema(
    {
        "y": {"type": "numeric", "lower": -6, "upper": 6},
        "x": {"type": "numeric", "lower": -3, "upper": 3},
        "g": {"type": "categorical", "levels": ["a", "b", "c"]},
        "w": {"type": "numeric", "lower": 0, "upper": 4},
        "ill": {"type": "categorical", "levels": ["no", "yes"]},
        "kind": {"type": "categorical", "levels": ["p", "q", "r"]},
        "visits": {"type": "numeric", "lower": 0, "upper": 12},
        "years": {"type": "numeric", "lower": 0.1, "upper": 5},
    }
)


def cached(table, place, **options):
    table.to_parquet(place / "rows.parquet", row_group_size=1_111)
    return pf.RowCache(place / "rows.parquet", **options)


KEPT = {
    "cache": lambda table, folder: cached(table, folder, storage="float64"),
    "cluster": lambda table, _: dd.from_pandas(table, npartitions=5),
}


def fits_of(fit, table, store, roles, options):
    """Return a fit of a store, which has to be that of the table in memory, and one without the roles."""
    (model, formula), common = fit, {"schema": SCHEMA, **roles, **options}
    if options.get("solver") != "non-private":
        common |= {"epsilon": 5.0, "random_state": 1}
    whole, kept = (model(formula, data, **common) for data in (table, store))
    assert kept.plan == whole.plan
    np.testing.assert_allclose(kept.estimate, whole.estimate, rtol=1e-8, atol=1e-8)
    if options.get("inference", True):
        np.testing.assert_allclose(kept.bse, whole.bse, rtol=1e-6)
    return kept, model(formula, store, **(common | dict.fromkeys(roles) | {"rows_per_unit": 1}))
