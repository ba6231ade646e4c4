"""Persons with several rows, as caches and clusters bring their rows together."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from stored import assert_alike, cached, on_cluster, rows_of
from wards import BOUND, ENCODER, frame

import privfit as pf
from privfit.data import gathering as gathering_module
from privfit.data.declarations import NumericColumn
from privfit.data.gathering import UnitGathering
from privfit.data.identifiers import NOBODY, new_salt, unit_codes
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.data.tables import Table, open_table

RULE = ShareRule("id", weights=("w", NumericColumn(0.0, 2.0, weight=True)))
RULES = {"alike": ShareRule("id"), "some": ShareRule("id", rows_per_unit=3), "weighted": RULE}
NAMES = ("x", "y", "weight", "influence", "share")


def table(rows=20_000, persons=3_000):
    data, rng = frame(rows), np.random.default_rng(8)
    data["w"] = rng.uniform(0.1, 2.5, len(data))
    data.loc[:6, "w"] = [np.nan, 0.0, -1.0, 1e6, 1e-9, np.inf, 5e-324]
    data["id"] = rng.integers(0, persons, len(data)).astype(float)
    data.loc[5:20, "id"] = np.nan
    return data


def in_memory(data, rule):
    rows = open_table(data)
    x, y = ENCODER.encode_coded(rows), ENCODER.encode_target(rows)
    return ArraySource(x, y, norm_bound=BOUND, shares=rule.read(rows))


def kept_as(kept, data, folder, rule):
    return kept(data, folder).rows(ENCODER, norm_bound=BOUND, shares=rule).source(norm_bound=BOUND)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_cache_keeps_persons_as_they_are_in_memory(rule, tmp_path):
    data = table()
    stored, whole = kept_as(cached, data, tmp_path, rule), in_memory(data, rule)
    assert (stored.unit, stored.n_units) == ("id", data["id"].nunique())
    assert_alike(stored, whole, names=NAMES)
    np.testing.assert_array_equal(stored._shares.unit, whole._shares.unit)
    basis = np.diag(np.arange(1.0, 1.0 + len(ENCODER.design.columns)))
    turned = [rows.reweighted(basis, norm_bound=1.1, amplification=30.0) for rows in (stored, whole)]
    assert_alike(*turned, names=NAMES)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_cluster_keeps_the_shares_of_persons(rule):
    data = table()
    stored, whole = kept_as(on_cluster, data, None, rule), in_memory(data, rule)
    assert (stored.unit, stored.n_units) == ("id", data["id"].nunique())
    left, right = rows_of(stored, NAMES), rows_of(whole, NAMES)
    for name in NAMES[1:]:
        np.testing.assert_allclose(np.sort(left[name]), np.sort(right[name]), rtol=1e-13)
    joint = [np.column_stack([one["x"], one["y"], one["share"]])[one["weight"] > 0] for one in (left, right)]
    np.testing.assert_allclose(*(one[np.lexsort(one.T)] for one in joint), rtol=1e-13)


@pytest.mark.parametrize("parts", [1, 2, 5, 64])
def test_all_rows_of_a_person_come_to_one_partition(monkeypatch, parts):
    dd = pytest.importorskip("dask.dataframe")
    from privfit.data import dask_tables

    monkeypatch.setattr(dask_tables, "_UNIT_PARTS", parts)
    data = table(400, persons=70)
    rows = dask_tables.DaskTable(dd.from_pandas(data, npartitions=9)).rows(
        ENCODER, norm_bound=BOUND, shares=ShareRule("id")
    )
    gathered = [one for group in rows._kept.answers(rows._kept.tasks) for one in group]
    assert len(gathered) == min(parts, 9)
    assert sum(one.y.size for one in gathered) == rows.n_rows == 400
    assert sum(one.shares.n_units for one in gathered) == rows.n_units == data["id"].nunique()
    sizes = np.concatenate([np.bincount(one.shares.unit[one.shares.unit != NOBODY]) for one in gathered])
    np.testing.assert_array_equal(np.sort(sizes), np.sort(data["id"].value_counts()))


def test_the_graph_that_brings_rows_together_has_few_layers():
    """Dask takes a time that grows with the square of their number."""
    pytest.importorskip("dask.dataframe")
    from privfit.data import dask_tables

    encoded = dask_tables.tasks_of(tuple, "encode", [((),)] * 30)
    gathered = dask_tables._gathered(encoded)
    assert len(gathered) == 30
    assert len({layer for one in gathered for layer in one.dask.layers}) < 4 * 30


SPELLINGS = [
    pa.array([7, 12]),
    pa.array([7.0, 12.0]),
    pa.array([7, 12], pa.int8()),
    pa.array([7, 12], pa.decimal128(9, 3)),
    pa.array(["7 ", "12"]),
    pa.array([b"7", b"12"]),
    pa.array(["12", "7"]).dictionary_encode().take(pa.array([1, 0])),
]


@pytest.mark.parametrize("where", [cached, on_cluster])
def test_persons_are_told_whatever_the_types_of_parts(where, tmp_path):
    """A part of a folder, or a partition, may hold the same identifiers in another type."""
    import pyarrow.parquet as pq

    rule, data = ShareRule("id"), frame(2 * len(SPELLINGS))
    parts = [
        pa.Table.from_pandas(data[2 * k : 2 * k + 2], preserve_index=False).append_column("id", one)
        for k, one in enumerate(SPELLINGS)
    ]
    if where is cached:
        (tmp_path / "parts").mkdir()
        for k, part in enumerate(parts):
            pq.write_table(part, tmp_path / "parts" / f"{k}.parquet")
        store = pf.RowCache(tmp_path / "parts")
    else:
        dask = pytest.importorskip("dask")
        import dask.dataframe as dd

        from privfit.data.dask_tables import DaskTable

        frames = [part.to_pandas(types_mapper=pd.ArrowDtype) for part in parts]
        meta = frames[4].iloc[:0]
        store = DaskTable(dd.from_delayed([dask.delayed(one) for one in frames], meta, verify_meta=False))
    rows = store.rows(ENCODER, norm_bound=BOUND, shares=rule)
    assert (rows.n_rows, rows.n_units) == (2 * len(SPELLINGS), 2)


@pytest.mark.parametrize("n_rows", [0, 1, 5, 1_000])
@pytest.mark.parametrize("bits", [1, 7])
def test_units_are_numbered_as_in_memory(monkeypatch, tmp_path, n_rows, bits):
    """However few rows are looked at together, and wherever batches end."""
    monkeypatch.setattr(gathering_module, "_ROWS", 7)
    monkeypatch.setattr(gathering_module, "_SPREAD", 2)
    monkeypatch.setattr(gathering_module, "_BITS", bits)
    rng = np.random.default_rng(n_rows)
    identifiers = pa.array(rng.choice([*"abcdefgh", "ü", " a", "", None], n_rows), pa.string())
    usable = rng.random(n_rows) < 0.8
    rule = ShareRule("id", rows_per_unit=2)
    with UnitGathering(rule, tmp_path) as gathering:
        for rows in np.split(np.arange(n_rows), np.sort(rng.integers(0, n_rows + 1, 9))):
            part = Table.from_arrow(pa.table({"id": identifiers.take(rows)}).combine_chunks())
            gathering.add(part, usable[rows])
        units = gathering.numbered()
        found = list(units.shares())
        assert not list(tmp_path.iterdir())
    codes, count = unit_codes(identifiers)
    expected = RowShares(rule, rule.factor(Table.from_arrow(pa.table({"id": identifiers}))), codes, count)
    assert units.sizes.size == count
    if n_rows:
        np.testing.assert_array_equal(np.concatenate([unit for _, unit, _ in found]), codes)
        shares = np.concatenate([share for _, _, share in found])
        np.testing.assert_array_equal(shares, expected.among(usable))


def test_units_with_most_of_the_rows_take_no_more_memory(monkeypatch, tmp_path):
    """Nothing is as long as the table where one unit has all rows of it, as a hospital may."""
    monkeypatch.setattr(gathering_module, "_ROWS", 1_000)
    n_rows, part = 200_000, Table.from_arrow(pa.table({"id": ["a"] * 1_000}))
    with UnitGathering(ShareRule("id"), tmp_path) as gathering:
        for _ in range(n_rows // 1_000):
            gathering.add(part, np.ones(1_000, dtype=bool))
        tracemalloc.start()
        try:
            units = gathering.numbered()
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    np.testing.assert_array_equal(units.sizes, [n_rows])
    assert most < 8 * n_rows / 4


def test_what_gathers_units_shows_nothing(tmp_path):
    with UnitGathering(ShareRule("id"), tmp_path) as gathering:
        assert repr(gathering) == "UnitGathering(<private rows>)"
        assert "array" not in repr(gathering.numbered())
    assert "array" not in repr(ShareRule("id").ungathered(open_table(table(20)), new_salt()))
