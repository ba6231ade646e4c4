"""Parts of a folder of Parquet files are read each with its own types, cell by cell."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privfit as pf
from privfit.data.batches import BatchSizes, TextForm, read_batches
from privfit.data.encode import SchemaEncoder
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
    "decimal": pa.array([Decimal("1.5"), Decimal("2.0"), None]),
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
    sizes = BatchSizes(rows=2, text_bytes=99, ahead=1)
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


def test_a_column_that_a_part_lacks_is_missing_there(tmp_path):
    path = folder(tmp_path, PLAIN)
    pq.write_table(pa.table({"y": Y, "code": PLAIN}), path / "part-1.parquet")
    assert np.isnan(open_table(path).column("x")[3:]).all()
    assert len(in_batches(path)[1]) == 6
    pq.write_table(pa.table({"x": PLAIN, "y": Y, "extra": PLAIN}), path / "part-2.parquet")
    with pytest.raises(SchemaError, match="'extra' is not in the data"):
        open_table(path, needed=["extra"])
