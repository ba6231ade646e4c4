"""Stores that keep a table, for fits that are to be those in memory."""

import dask.dataframe as dd

import privfit as pf


def cached(table, place, **options):
    table.to_parquet(place / "rows.parquet", row_group_size=1_111)
    return pf.RowCache(place / "rows.parquet", **options)


KEPT = {
    "cache": lambda table, folder: cached(table, folder, storage="float64"),
    "cluster": lambda table, _: dd.from_pandas(table, npartitions=5),
}
