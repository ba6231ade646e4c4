"""Streams of rows: exactly the declared rows, once, whatever they come from."""

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from privfit.data.encode import SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.stream import RowStream
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import InvalidArgument, PlanViolation, SchemaError, UnexpectedError

SCHEMA = Schema(
    {
        "age": {"type": "numeric", "lower": 0, "upper": 100},
        "group": {"type": "categorical", "levels": ["a", "b"]},
        "income": {"type": "numeric", "lower": 0, "upper": 10, "target": True},
    }
)


def unit(p=2):
    return UnitScaleEncoder(p, norm_bound=1.5)


def pairs(n, size, seed=0):
    rng = np.random.default_rng(seed)
    for first in range(0, n, size):
        m = min(size, n - first)
        yield rng.normal(size=(m, 2)), rng.normal(size=m)


def read(stream, encoder=None):
    encoder = encoder or unit()
    blocks = list(stream.source(encoder, norm_bound=1.5).blocks())
    return tuple(np.concatenate([getattr(block, part) for block in blocks]) for part in ("x", "y", "weight"))


@pytest.mark.parametrize("n_rows", [1, 7, 10, 25])
@pytest.mark.parametrize("size", [1, 4, 10])
def test_there_are_exactly_the_declared_rows(n_rows, size):
    """Ten rows are there: rows beyond the declared number are not used, missing ones weigh nothing."""
    x, y, weight = read(RowStream(pairs(10, size), n_rows=n_rows, columns=2))
    assert len(x) == len(y) == len(weight) == n_rows
    whole = read(RowStream(pairs(10, size), n_rows=10, columns=2))
    kept = min(n_rows, 10)
    np.testing.assert_array_equal(x[:kept], whole[0][:kept])
    np.testing.assert_array_equal(y[:kept], whole[1][:kept])
    assert (weight[:kept] > 0).all()
    assert (weight[kept:] == 0).all()
    assert (weight * (x**2).sum(axis=1) <= 1.5**2).all()


def test_rows_beyond_the_declared_number_are_not_asked_for():
    asked = []

    def batches():
        for k in range(100):
            asked.append(k)
            yield np.zeros((5, 2)), np.zeros(5)

    read(RowStream(batches(), n_rows=10, columns=2))
    assert asked == [0, 1]


def test_a_stream_is_read_once():
    stream = RowStream(pairs(10, 5), n_rows=10, columns=2)
    source = stream.source(unit(), norm_bound=1.5)
    list(source.blocks())
    for again in (
        source.blocks,
        lambda: stream.source(unit(), norm_bound=1.5),
        lambda: source.sum(lambda block, out: None, 1),
        lambda: source.take(np.array([0])),
        lambda: source.reweighted(np.eye(3), norm_bound=1.0, amplification=1.0),
        lambda: source.sampled(np.ones, 0.5),
    ):
        with pytest.raises(PlanViolation):
            again()


def test_streams_are_private():
    stream = RowStream(pairs(3, 3), n_rows=3, columns=2)
    source = stream.source(unit(), norm_bound=1.5)
    assert "private rows" in repr(stream)
    assert "private rows" in repr(source)
    for one in (stream, source):
        with pytest.raises(TypeError):
            one.__reduce__()


def test_bad_arguments_name_themselves():
    with pytest.raises(InvalidArgument, match="n_rows"):
        RowStream([], n_rows=0)
    with pytest.raises(SchemaError, match="columns must"):
        _ = RowStream([], n_rows=3).columns
    with pytest.raises(SchemaError, match="pairs"):
        read(RowStream([np.zeros((3, 2))], n_rows=3, columns=2))
    with pytest.raises(SchemaError, match="does not exist"):
        RowStream("/nowhere.csv", n_rows=3).source(unit(), norm_bound=1.0)
    with pytest.raises(SchemaError, match="sep must be"):
        RowStream("rows.csv", n_rows=3, sep="ab")
    with pytest.raises(SchemaError, match="list of column names"):
        RowStream("rows.csv", n_rows=3, columns="age", header=False)


def table(n=2500, seed=1):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "income": rng.uniform(0, 10, n),
            "group": rng.choice(["a", "b"], n),
            "other": np.arange(n),
            "age": rng.uniform(0, 100, n),
        }
    )


@pytest.mark.parametrize("form", ["parquet", "csv", "csv.gz", "arrow", "frames"])
def test_files_give_the_rows_of_the_table(form, tmp_path):
    whole, file = table(), tmp_path / f"rows.{form}"
    encoder = SchemaEncoder(SCHEMA)
    if form == "parquet":
        pq.write_table(whole, file, row_group_size=700)
    elif form.startswith("csv"):
        whole.to_pandas().to_csv(file, index=False)
    elif form == "arrow":
        with pa.ipc.new_file(file, whole.schema) as writer:
            writer.write_table(whole, max_chunksize=600)
    batches = [whole.slice(k, 800).to_pandas() for k in range(0, 2500, 800)] if form == "frames" else file
    x, y, _ = read(RowStream(batches, n_rows=2500), encoder)
    from privfit.data.tables import open_table

    expected = encoder.encode(open_table(whole, needed=encoder.needed))
    np.testing.assert_allclose(x, expected[0], atol=1e-12)
    np.testing.assert_allclose(y, expected[1], atol=1e-12)


def test_a_file_without_header_takes_its_names_from_the_caller(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("10;a;5\n20;b;7\n")
    stream = RowStream(file, n_rows=2, columns=["age", "group", "income"], header=False, sep=";")
    x, y, _ = read(stream, SchemaEncoder(SCHEMA))
    assert len(x) == 2
    assert y[0] == pytest.approx(0.0)


def test_a_damaged_file_is_refused_without_a_cell(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("age,group,income\n10,a,5\n20,canary\n")
    with pytest.raises(SchemaError) as caught:
        read(RowStream(file, n_rows=2), SchemaEncoder(SCHEMA))
    seen = [caught.value]
    while seen[-1].__context__ is not None:
        seen.append(seen[-1].__context__)
    assert not any("canary" in str(one) for one in seen)


@pytest.mark.parametrize("kind", ["U4", "S4", np.dtypes.StringDType()])
@pytest.mark.parametrize("rows", [0, 3])
def test_arrays_of_text_are_refused_by_their_type(kind, rows):
    """Their cells were taken for missing ones."""
    cells, numbers = np.full((rows, 2), "2020").astype(kind), np.zeros((rows, 2))
    with pytest.raises(SchemaError, match="X must hold numbers; declare text columns in a schema"):
        read(RowStream([(cells, numbers[:, 0])], n_rows=5, columns=2))
    with pytest.raises(SchemaError, match="y is of a type that holds text"):
        read(RowStream([(numbers, cells[:, 0])], n_rows=5, columns=2))


def test_frames_with_a_column_of_text_are_refused_by_their_type():
    for kind in ("string", "category"):
        batch = pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series(["1", "2"], dtype=kind)})
        with pytest.raises(SchemaError, match="X must hold numbers"):
            read(RowStream([(batch, np.zeros(2))], n_rows=5, columns=2))


@pytest.mark.parametrize("given", ["generator", "no iterable"])
def test_what_the_callers_batches_raise_is_told_by_its_type(given, said):
    def batches():
        yield next(pairs(3, 3))
        raise KeyError("canary 7351")

    stream = RowStream(batches() if given == "generator" else 3, n_rows=5, columns=2)
    with pytest.raises(
        UnexpectedError, match=r"the iterable of batches failed with (Key|Type)Error"
    ) as caught:
        read(stream)
    assert "canary" not in said(caught.value)
    assert "report" not in said(caught.value)


def test_our_own_errors_leave_the_callers_batches_as_they_are():
    def batches():
        raise SchemaError("column 'a' has dates")
        yield

    with pytest.raises(SchemaError, match="has dates"):
        read(RowStream(batches(), n_rows=5, columns=2))


def test_memory_does_not_grow_with_the_stream():
    """Peak of reading 200 000 rows against 20 000, in batches of 1000."""
    peaks = []
    for n in (20_000, 200_000):
        source = RowStream(pairs(n, 1000), n_rows=n, columns=2).source(unit(), norm_bound=1.5)
        tracemalloc.start()
        for _ in source.blocks():
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < 2_000_000
