"""Stores that keep a table, for fits that are to be those in memory."""

import dask.dataframe as dd

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
