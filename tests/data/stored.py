"""Tables in caches and on clusters, and how their rows compare with those in memory."""

import numpy as np
import pytest

import privfit as pf


def cached(data, folder):
    data.to_parquet(folder / "rows.parquet", row_group_size=1_111)
    return pf.RowCache(folder / "rows.parquet", storage="float64")


def on_cluster(data, folder):
    del folder
    dd = pytest.importorskip("dask.dataframe")
    from privfit.data.dask_tables import DaskTable

    return DaskTable(dd.from_pandas(data, npartitions=6))


def rows_of(source, names):
    """Return arrays of a source by these names of a block, those of blocks without rows left out."""
    blocks = [block for block in source.blocks() if block.y.size]
    return {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}


def assert_alike(found, expected, names):
    """Compare the arrays of rows; those of weight 0 may hold anything."""
    left, right = rows_of(found, names), rows_of(expected, names)
    counts = right["weight"] > 0.0
    np.testing.assert_array_equal(left["weight"] > 0.0, counts)
    for name in names:
        np.testing.assert_allclose(left[name][counts], right[name][counts], rtol=1e-13)
