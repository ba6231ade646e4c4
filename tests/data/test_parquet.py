"""Parts of a folder of Parquet files are read each with its own types, cell by cell."""

from decimal import Decimal
from urllib.parse import unquote_to_bytes

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from raw_cells import raw_cells

import privfit as pf
from privfit.data.batches import BatchSizes, read_batches
from privfit.data.check import check_table
from privfit.data.columns import as_number, as_text
from privfit.data.csv_text import TextForm
from privfit.data.encode import SchemaEncoder
from privfit.data.identifiers import unit_codes
from privfit.data.levels import MISSING, UNKNOWN, level_codes
from privfit.data.objects import text_of_bytes
from privfit.data.schema import Schema
from privfit.data.tables import Table, open_table
from privfit.errors import SchemaError

SCHEMA = Schema(
    {
        "x": {"type": "numeric", "lower": 0, "upper": 10, "missing": 5},
        "code": {"type": "categorical", "levels": ["1", "2", "3"], "missing": "3", "other": "2"},
        "y": {"type": "numeric", "lower": 0, "upper": 1, "target": True},
    }
)
ENCODER = SchemaEncoder(SCHEMA)
Y = [0.0, 0.5, 1.0]
PLAIN = pa.array([1, 2, 3])
PARTS = {
    "a missing cell": pa.array([1.0, None, 3.0]),
    "half": pa.array([1.0, 2.5, 3.0]),
    "text": pa.array(["1", "?", "3"]),
    "nothing": pa.array([None, None, None]),
    "true": pa.array([True, False, None]),
    "category": pa.array(["1", "2", "x"]).dictionary_encode(),
    "bytes": pa.array([b"1", b"\xff", b"3"]),
    "large": pa.array([2**53 + 1, 2, 3]),
    "single": pa.array([0.1, 2.0, None], pa.float32()),
    "half precision": pa.array(np.array([0.1, 2.0, 3.0], np.float16)),
    "decimal": pa.array([Decimal("1.5"), Decimal("2.0"), None]),
    "malformed": pa.array([b"\xff", b"1\xff", b"3"]).view(pa.string()),
    "malformed category": pa.array([b"1\xff2", b"1", b"3"]).view(pa.string()).dictionary_encode(),
}


def folder(path, *parts):
    for k, cells in enumerate(parts):
        pq.write_table(pa.table({"x": cells, "code": cells, "y": Y}), path / f"part-{k}.parquet")
    return path


def encoded(parts):
    """Return the rows of parts that are encoded each by itself."""
    return [
        np.concatenate(both)
        for both in zip(
            *(ENCODER.encode(Table([("x", one), ("code", one), ("y", np.array(Y))])) for one in parts),
            strict=True,
        )
    ]


def in_batches(path):
    sizes = BatchSizes(rows=2, text_bytes=99)
    batches = read_batches(path, ENCODER.needed, TextForm(), sizes)
    return [
        np.concatenate(both)
        for both in zip(*(ENCODER.encode(Table.from_arrow(one)) for one in batches), strict=True)
    ]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", PARTS)
def test_a_cell_in_one_part_changes_no_cell_of_another(tmp_path, kind, first):
    parts = [PARTS[kind], PLAIN, PLAIN] if first else [PLAIN, PLAIN, PARTS[kind]]
    path, expected = folder(tmp_path, *parts), encoded(parts)
    for found in (ENCODER.encode(open_table(path, needed=ENCODER.needed)), in_batches(path)):
        np.testing.assert_array_equal(found[0], expected[0])
        np.testing.assert_array_equal(found[1], expected[1])


def test_pandas_gives_one_part_another_type_for_one_cell(tmp_path):
    """The fit must not stop because of it, and says the same with a cache as in memory."""
    rng = np.random.default_rng(4)
    for k in range(3):
        rows = pd.DataFrame({"x": rng.integers(0, 10, 200), "code": rng.integers(1, 4, 200)})
        rows["y"] = rng.random(200)
        if k == 1:
            rows["x"] = rows["x"].astype(float)
            rows.loc[7, "x"] = 2.5
        rows.to_parquet(tmp_path / f"{k}.parquet")
    fits = [
        pf.ols("y ~ x + code", data, schema=SCHEMA, solver="non-private")
        for data in (tmp_path, pf.RowCache(tmp_path, storage="float64"))
    ]
    assert fits[0].nobs == 600
    np.testing.assert_allclose(fits[0].params, fits[1].params, rtol=1e-12)


def test_types_that_agree_are_read_as_they_are(tmp_path):
    opened = open_table(folder(tmp_path, PLAIN, PLAIN))
    assert opened.values("x").type == pa.int64()
    assert opened.names == ("x", "code", "y")


MOMENTS = pa.array([0, 1, 2**60], pa.int64()).cast(pa.timestamp("us"))
NO_TEXT = {
    "moment": MOMENTS,
    "zone": MOMENTS.cast(pa.timestamp("us", "Europe/Paris")),
    "duration": pa.array([1, 2, 2**60], pa.int64()).cast(pa.duration("us")),
    "time": pa.array([1, 2, 3], pa.int64()).cast(pa.time64("us")),
    "date": pa.array([1, 2, 2**30], pa.int32()).cast(pa.date32()),
    "list": pa.array([["1"], [], None]),
    "struct": pa.array([{"a": b"\xff"}, {"a": b"1"}, None]).cast(pa.struct({"a": pa.binary()})),
}

SPELLED = {"list": ["['1']", "[]", None], "struct": ["{'a': b'\\xff'}", "{'a': b'1'}", None]}


@pytest.mark.parametrize("other", [pa.nulls(3), PLAIN, pa.array(["1", "2", "x"]), None])
@pytest.mark.parametrize("kind", NO_TEXT)
def test_no_cell_of_a_part_decides_how_others_are_spelled_or_whether_a_fit_stops(tmp_path, kind, other):
    """A part of missing cells alone made the column one of Python objects, which have other spellings."""
    own = NO_TEXT[kind]
    expected, _ = encoded([pc.if_else(own.is_valid(), "no level", None)])
    path = folder(tmp_path, own, own if other is None else other)
    opened = open_table(path)
    for found in (ENCODER.encode(opened), in_batches(path)):
        np.testing.assert_array_equal(found[0][:3], expected)
        assert len(found[1]) == 6
    text = as_text(opened.values("x")).to_pylist()[:3]
    assert text == (SPELLED[kind] if kind in SPELLED else as_text(own).to_pylist())


def test_people_are_the_same_whatever_type_another_part_has(tmp_path):
    ids = pa.array([2**62, 2**62 + 1, 7])
    same = [unit_codes(open_table(folder(tmp_path, ids, other)).values("x"))[0] for other in PARTS.values()]
    assert all(codes[:3].tolist() == [0, 1, 2] for codes in same)
    scales = [pa.array([Decimal("2.50"), Decimal("7.00"), None]), pa.array([Decimal("2.5"), None, None])]
    assert unit_codes(open_table(folder(tmp_path, *scales)).values("x"))[0].tolist() == [0, 1, -1, 0, -1, -1]


@settings(max_examples=100, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20))
def test_decimals_are_the_same_numbers_among_python_objects(number):
    among = np.array([number, "x"], dtype=object)
    assert as_number(pa.array([number]))[0] == as_number(among)[0] == float(number)


@pytest.mark.parametrize("n_parts", [1, 2])
def test_a_malformed_cell_stops_no_fit(tmp_path, n_parts):
    """It is one person's, and the fit had been paid for."""
    y, fits = np.random.default_rng(4).random(300), []
    for first in (b"?", b"1\xff2"):
        path = tmp_path / repr(first)
        path.mkdir()
        text = pa.array([first, *(str(k % 10).encode() for k in range(299))]).view(pa.string())
        for k, cells in enumerate([text, pa.nulls(300)][:n_parts]):
            pq.write_table(pa.table({"x": cells, "code": [1] * 300, "y": y}), path / f"{k}.parquet")
        for data in (path, path / "0.parquet", pf.RowCache(path, storage="float64")):
            fits.append(pf.ols("y ~ x", data, schema=SCHEMA, solver="non-private").params)
        stream = pf.LinearRegression(schema=SCHEMA, solver=pf.solvers.OnlineToBatch(), inference=False)
        fits.append(stream.set_params(random_state=1).fit(pf.RowStream(path, n_rows=300)).coef_)
    for one, other in zip(fits[:4], fits[4:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_part_that_lacks_a_needed_column_is_refused(tmp_path):
    """Its rows counted for nothing, and nobody was told. What is not needed may be missing."""
    path = folder(tmp_path, PLAIN)
    pq.write_table(pa.table({"y": Y, "code": PLAIN}), path / "part-1.parquet")
    schema = Schema({"x": SCHEMA["x"], "y": SCHEMA["y"]})
    for table in (path, pf.RowCache(path)):
        with pytest.raises(SchemaError, match="'x' is not in every part of the folder"):
            pf.ols("y ~ x", table, schema=schema, solver="non-private")
    with pytest.raises(SchemaError, match="'x' is not in every part of the folder"):
        open_table(path)
    assert open_table(path, needed=["y", "code"]).n_rows == open_table(path, needed=[]).n_rows == 6
    pq.write_table(pa.table({"x": PLAIN, "y": Y, "extra": PLAIN}), path / "part-2.parquet")
    with pytest.raises(SchemaError, match="'extra' is not in the data"):
        open_table(path, needed=["extra"])


@pytest.mark.parametrize(
    "name", ["v", "%ff", "%zz", "a%20b", "%C3%A9", "%", "3000000000", "99999999999999999999"]
)
def test_neighbours_that_differ_in_the_name_of_a_folder(tmp_path, name):
    """One row in a folder of its own: whatever its name, the other rows are read, and it as what it says."""
    for level, part in (("1", [0.1, 0.2]), ("2", [0.3]), (name, [0.4])):
        path = tmp_path / f"g={level}" / f"{'h h' if level == '2' else 'h%20h'}={level}"
        path.mkdir(parents=True)
        pq.write_table(pa.table({"x": part}), path / "a.parquet")
    expected = {0.1: "1", 0.2: "1", 0.3: "2", 0.4: text_of_bytes(unquote_to_bytes(name))}
    opened = open_table(tmp_path)
    for column in ("g", "h h"):
        cells = as_text(opened.values(column)).to_pylist()
        assert dict(zip(raw_cells(opened, "x").tolist(), cells, strict=True)) == expected
    found = {}
    for batch in read_batches(tmp_path, ["x", "g"], TextForm(), BatchSizes(9, 99)):
        found |= dict(zip(batch.column("x").to_pylist(), as_text(batch.column("g")).to_pylist(), strict=True))
    assert found == expected


def test_people_whose_names_differ_in_malformed_bytes_of_folders_are_different(tmp_path):
    """As names in another encoding than UTF-8: each malformed byte became the same character."""
    for name in ("%FC1", "%F61", "%FC%F6", "a1"):
        path = tmp_path / f"g={name}"
        path.mkdir()
        pq.write_table(pa.table({"x": [0.1, 0.2]}), path / "a.parquet")
    codes, people = unit_codes(open_table(tmp_path).values("g"))
    assert people == 4
    assert np.bincount(codes).tolist() == [2, 2, 2, 2]


def test_neighbours_that_differ_in_the_name_of_a_folder_whose_column_the_files_have_too(tmp_path):
    """Whether names are read as numbers and the files' text refused was decided by one of them."""
    for name in ("8", "a"):
        for folder in ("x=7", f"x={name}"):
            path = tmp_path / name / folder
            path.mkdir(parents=True)
            pq.write_table(pa.table({"x": ["u"], "z": [0.1]}), path / "a.parquet")
        assert sorted(as_text(open_table(tmp_path / name).values("x")).to_pylist()) == ["7", name]


@pytest.mark.parametrize("levels", [[0.1, 0.2, 0.3], ["0.1", "0.2", "0.3"]])
@pytest.mark.parametrize("own", [np.float32, np.float16, np.float64])
@pytest.mark.parametrize("other", [["0.1", "?"], [0.1, 0.2], [1, 2], [True, None], [Decimal("0.1"), None]])
def test_no_cell_of_a_part_decides_how_precise_another_is(tmp_path, own, other, levels):
    """As numbers of Python, cells of less precision matched no level, and their rows all became another."""
    cells = np.array([0.1, 0.3, 0.2, 0.7, np.nan], dtype=own)
    for k, part in enumerate([pa.array(cells, from_pandas=False), pa.array(other)]):
        pq.write_table(pa.table({"c": part}), tmp_path / f"{k}.parquet")
    values = open_table(tmp_path).values("c")
    batches = read_batches(tmp_path, ["c"], TextForm(), BatchSizes(rows=2, text_bytes=99))
    expected = [0, 2, 1, UNKNOWN, MISSING]
    for found in (
        level_codes(values, levels),
        np.concatenate([level_codes(batch.column("c"), levels) for batch in batches]),
        np.concatenate([level_codes(values[k : k + 3], levels) for k in range(0, 7, 3)]),
    ):
        assert found[:5].tolist() == expected
        np.testing.assert_array_equal(found[5:], level_codes(pa.array(other), levels))
    np.testing.assert_array_equal(as_number(values)[:5], cells.astype(float))
    assert len(values[2:2]) == len(as_number(values[2:2])) == 0


def test_check_counts_what_parts_of_several_types_lack(tmp_path):
    for k, part in enumerate([pa.array([0.5, np.nan, None], pa.float32()), pa.array(["?", "", "2"])]):
        pq.write_table(pa.table({"x": part}), tmp_path / f"{k}.parquet")
    schema = Schema({"x": {"type": "numeric", "lower": 0, "upper": 1}})
    found = {finding.kind: finding.count for finding in check_table(open_table(tmp_path), schema)}
    assert found == {"missing": 3, "unparseable": 1, "above": 1}


def write_by_key(path, *, root=None, **own):
    """Write a part for each key, of rows that have these cells, too, and one outside their folders."""
    for key in ("b", "c"):
        (path / f"g={key}").mkdir()
        cells = {name: [cell] * 2 for name, cell in own.items()}
        pq.write_table(pa.table({"x": [1.0, 2.0], **cells}), path / f"g={key}" / "0.parquet")
    if root is not None:
        pq.write_table(pa.table({"x": [3.0, 4.0], **root}), path / "new.parquet")
    return path


def both_ways(path, needed):
    """Return the text of cells as they are read in memory and in batches."""
    table = open_table(path, needed=needed)
    batches = list(read_batches(path, needed, TextForm(), BatchSizes(rows=9, text_bytes=99)))
    for name in needed:
        read = [cell for batch in batches for cell in as_text(batch.column(name)).to_pylist()]
        assert as_text(table.values(name)).to_pylist() == read
    return {name: as_text(table.values(name)).to_pylist() for name in needed}


@pytest.mark.parametrize("cells", [["a", "b"], [1, 2], [0.5, 2.5]])
def test_a_part_outside_the_folders_of_a_key_has_its_own_column(tmp_path, cells):
    """Its cells were missing, so that its rows counted for nothing."""
    path = write_by_key(tmp_path, root={"g": cells})
    assert both_ways(path, ["x", "g"])["g"] == ["b", "b", "c", "c", *map(str, cells)]
    assert open_table(path).names == ("x", "g")


def test_a_part_that_has_no_key_at_all_is_refused(tmp_path):
    path = write_by_key(tmp_path, root={"z": [1, 2]})
    for needed in (["g"], ["x", "g"], None):
        with pytest.raises(SchemaError, match="'g' is not in every part of the folder; add it to all"):
            open_table(path, needed=needed)
    assert both_ways(path, ["x"])["x"] == ["1", "2", "1", "2", "3", "4"]
    assert open_table(path, needed=[]).n_rows == 6


@pytest.mark.parametrize("own", [1, 1.5, "b", "z", b"z", True, Decimal("1.5")])
def test_files_may_hold_the_key_of_their_folder_in_any_type(tmp_path, own):
    """Those that polars and pandas write were refused as no folder of Parquet files."""
    assert both_ways(write_by_key(tmp_path, g=own), ["x", "g"])["g"] == ["b", "b", "c", "c"]


@pytest.mark.parametrize("write", [pl.DataFrame.write_parquet, pd.DataFrame.to_parquet])
@pytest.mark.parametrize("key", [[1, 2, 1], ["u v", "é", "u v"]])
def test_folders_that_polars_and_pandas_write_by_key_are_read(tmp_path, write, key):
    rows = {"g": key, "x": [0.1, 0.2, 0.3]}
    partition = {"partition_by": "g"} if write is pl.DataFrame.write_parquet else {"partition_cols": ["g"]}
    write((pl if "partition_by" in partition else pd).DataFrame(rows), tmp_path / "rows", **partition)
    found = both_ways(tmp_path / "rows", ["x", "g"])
    assert sorted(zip(found["x"], found["g"], strict=True)) == [
        (str(x), str(g)) for x, g in zip(rows["x"], key, strict=True)
    ]


def test_a_missing_key_and_one_that_is_named_twice(tmp_path):
    for name in ("g=__HIVE_DEFAULT_PARTITION__", "g=b/g=c"):
        (tmp_path / name).mkdir(parents=True)
        pq.write_table(pa.table({"x": [1.0]}), tmp_path / name / "0.parquet")
    assert both_ways(tmp_path, ["g"])["g"] == [None, "b"]
