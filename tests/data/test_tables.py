"""The same data gives the same rows however it is held, and no error tells a cell."""

import bz2
import copy
import errno
import gzip
import io
import lzma
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather
from raw_cells import raw_cells

import privfit as pf
from privfit.data import files
from privfit.data.batches import BatchSizes, read_batches
from privfit.data.columns import as_number, as_text
from privfit.data.csv_text import TextForm
from privfit.data.encode import SchemaEncoder
from privfit.data.levels import level_codes
from privfit.data.schema import Schema
from privfit.data.stream import RowStream
from privfit.data.synthetic import census, census_schema
from privfit.data.tables import Table, in_order, open_table, single_column
from privfit.errors import SchemaError

CANARY = "CANARY7351"


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(census(3000, seed=5))


FORMS = [
    "dict", "pandas", "pandas-nullable", "pandas-category", "polars", "polars-category", "arrow", "batch",
    "csv", "csv.gz", "crlf", "semicolon", "quoted", "no header", "parquet", "folder", "hive", "feather",
    "stream", "object", "lists",
]  # fmt: skip


def hold(frame, form, path):  # noqa: PLR0911, PLR0912
    """Return the data in one form, and the options to open it."""
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    text = frame.to_csv(index=False)
    match form:
        case "dict":
            return {name: frame[name].to_numpy() for name in frame}, {}
        case "pandas":
            return frame, {}
        case "pandas-nullable":
            return frame.convert_dtypes(), {}
        case "pandas-category":
            return frame.astype({"sex": "category", "region": "category", "occupation": "category"}), {}
        case "polars":
            return pl.from_pandas(frame), {}
        case "polars-category":
            return pl.from_pandas(frame).with_columns(pl.col("sex", "region").cast(pl.Categorical)), {}
        case "arrow":
            return arrow, {}
        case "batch":
            (batch,) = arrow.combine_chunks().to_batches()
            return batch, {}
        case "lists":
            return {name: frame[name].tolist() for name in frame}, {}
        case "object":
            return frame.astype(object), {}
        case "csv":
            (path / "a.csv").write_text(text)
            return path / "a.csv", {}
        case "csv.gz":
            (path / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
            return str(path / "a.csv.gz"), {}
        case "crlf":
            (path / "a.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode() + b"\r\n")
            return path / "a.csv", {}
        case "semicolon":
            frame.to_csv(path / "a.txt", index=False, sep=";")
            return path / "a.txt", {"sep": ";"}
        case "quoted":
            frame.to_csv(path / "a.csv", index=False, quoting=1)
            return path / "a.csv", {}
        case "no header":
            body = text.split("\n", 1)[1].replace(",", ", ") + "\n"
            (path / "a.data").write_text(body)
            return path / "a.data", {"header": False, "columns": list(frame)}
        case "parquet":
            pq.write_table(arrow, path / "a.parquet", row_group_size=700)
            return path / "a.parquet", {}
        case "folder":
            for k in range(4):
                pq.write_table(arrow.slice(750 * k, 750), path / f"part-{k}.parquet")
            return path, {}
        case "hive":
            for k in range(2):
                (path / f"year={k}").mkdir()
                pq.write_table(arrow.slice(1500 * k, 1500), path / f"year={k}" / "a.parquet")
            return str(path), {}
        case "feather":
            feather.write_feather(arrow, path / "a.feather")
            return path / "a.feather", {}
        case "stream":
            with pa.ipc.new_stream(path / "a.arrow", arrow.schema) as writer:
                writer.write_table(arrow)
            return path / "a.arrow", {}
    raise AssertionError(form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["income_over_50k", "hourly_wage"])
def test_same_rows_from_every_form(frame, form, target, tmp_path):
    kind = "binary" if target == "income_over_50k" else "numeric"
    encoder = SchemaEncoder(census_schema(target), target_kind=kind)
    expected = encoder.encode(Table([(name, frame[name].to_numpy(dtype=object)) for name in frame]))
    data, options = hold(frame, form, tmp_path)
    for needed in (None, encoder.needed):
        opened = open_table(data, needed=needed, **options)
        assert opened.n_rows == 3000
        if needed is not None:
            assert opened.names == needed
        x, y = encoder.encode(opened)
        np.testing.assert_array_equal(x, expected[0])
        np.testing.assert_array_equal(y, expected[1])


def test_cells_of_files_are_text_and_those_of_memory_have_types(tmp_path):
    (tmp_path / "a.csv").write_text('n,t\n1,"x, y"\n,"a\nb"\n')
    from_csv = open_table(tmp_path / "a.csv")
    assert raw_cells(from_csv, "t").tolist() == ["x, y", "a\nb"]
    assert raw_cells(from_csv, "n").tolist() == ["1", None]
    memory = open_table(
        {
            "n": np.array([1, 2]),
            "t": ["a", None],
            "b": pa.array([True, None]),
            "m": np.ma.array([1, 2], mask=[0, 1]),
        }
    )
    assert raw_cells(memory, "n").dtype == raw_cells(memory, "b").dtype == np.float64
    np.testing.assert_array_equal(raw_cells(memory, "b"), [1.0, np.nan])
    assert raw_cells(memory, "t").tolist() == ["a", None]
    assert memory.names == ("n", "t", "b", "m")
    assert raw_cells(open_table(pa.table({"t": ["a", None]})), "t").tolist() == ["a", None]
    series = open_table({"s": pd.Series([1.0, None]), "p": pl.Series([1, 2])})
    np.testing.assert_array_equal(raw_cells(series, "s"), [1.0, np.nan])


def test_a_cell_of_a_list_is_read_without_regard_to_the_others():
    """NumPy would read the first list as numbers and the second as text."""
    schema = Schema(
        {
            "c": {"type": "categorical", "levels": ["a", "1"]},
            "y": {"type": "numeric", "lower": 0, "upper": 9, "target": True},
        }
    )
    rows = [
        SchemaEncoder(schema).encode(open_table({"c": [1.0, other], "y": [1, other]}))
        for other in (2.0, "a", None)
    ]
    assert len({(x[0].tobytes(), y[0].tobytes()) for x, y in rows}) == 1


def test_matrices_get_names():
    data = np.arange(6.0).reshape(3, 2)
    assert open_table(data).names == ("x0", "x1")
    assert raw_cells(open_table(data, columns=["a", "b"], needed=["b"]), "b").tolist() == [1, 3, 5]
    assert open_table(pd.DataFrame(data)).names == ("0", "1")
    with pytest.raises(SchemaError, match="name all 2 columns"):
        open_table(data, columns=["a"])
    with pytest.raises(SchemaError, match="2-D array"):
        open_table(data[0])


def test_a_table_is_private():
    data = open_table({"a": [CANARY]})
    assert CANARY not in repr(data) + str(data)
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="private rows"):
            action(data)
    assert open_table(data, needed=["a"]).names == ("a",)


def write(path, name, content):
    (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path / name


def in_parquet(rows):
    written = io.BytesIO()
    pq.write_table(rows, written)
    return written.getvalue()


BAD_FILES = [
    ("ragged.csv", f"a,b\n1,2\n{CANARY}\n", {}, "2 columns separated by ','"),
    ("long.csv", f"a,b\n1,2\n1,2,{CANARY}\n", {}, "2 columns"),
    ("sep.csv", f"a;b\n1;{CANARY},3\n", {}, "1 columns separated by ',' in every row; check its sep"),
    ("empty.csv", "", {}, "is empty"),
    ("blank.csv", "\n\n", {}, "is empty"),
    ("same.csv", "a, a\n1,2\n", {}, "same name"),
    ("raw.csv", f"{CANARY},2\n", {"header": False}, "columns must name"),
    ("raw.csv", f"{CANARY},2\n", {"header": False, "columns": ["a"]}, "1 columns"),
    ("raw.csv", f"{CANARY},2\n", {"header": False, "columns": ["a", "a"]}, "same name"),
    ("both.csv", "a,b\n1,2\n", {"columns": ["a", "b"]}, "set header=False"),
    ("sep2.csv", "a,b\n1,2\n", {"sep": ", "}, "one character"),
    (
        "a.csv",
        "alpha,b\n1,2\n",
        {"needed": ["alhpa"]},
        "'alhpa' is not in the data; check its name, and for a text file its sep",
    ),
    ("latin.csv", "\xe9,b\n1,2\n".encode("latin-1"), {}, "header in UTF-8"),
    (
        "bad.csv.gz",
        gzip.compress(b"a,b\n" + b"".join(b"%d,7351\n" % k**7 for k in range(9999)))[:-200],
        {},
        "cannot be read",
    ),
    ("bad.csv.gz", b"plain " + CANARY.encode(), {}, "cannot be read"),
    ("bad.parquet", CANARY, {}, "must be Parquet"),
    ("book.xlsx", CANARY, {}, "convert it to CSV, Parquet or Arrow"),
    ("lines.JSON", CANARY, {}, "convert it to CSV, Parquet or Arrow"),
    (
        "rows.csv.xz",
        lzma.compress(CANARY.encode()),
        {},
        "of compressed files, CSV as .gz, .bz2 or .zst is read",
    ),
    ("rows.csv.zip", CANARY, {}, "CSV as .gz, .bz2 or .zst is read"),
    ("bad.arrow", CANARY, {}, "must be Arrow"),
    (
        "twice.parquet",
        in_parquet(pa.table([[CANARY], ["1"]], names=["a", "a"])),
        {"needed": ["b"]},
        "must be Parquet with distinct names of columns",
    ),
]


@pytest.mark.parametrize("case", BAD_FILES, ids=lambda case: case[0])
def test_bad_files_are_refused_without_their_contents(tmp_path, case, said):
    name, content, options, rule = case
    path = write(tmp_path, name, content)
    with pytest.raises(SchemaError, match=rule) as caught:
        open_table(path, **options)
    assert CANARY not in said(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "rule"),
    [([], "holds no Parquet file"), (["a.csv", "b.txt"], "must be a folder of Parquet files and no others")],
)
def test_folders_hold_parquet(tmp_path, names, rule, said):
    for name in names:
        write(tmp_path, name, f"a,b\n1,{CANARY}\n")
    for read in (open_table, lambda path: list(read_batches(path, ["a"], TextForm(), BatchSizes(9, 99)))):
        with pytest.raises(SchemaError, match=rule) as caught:
            read(tmp_path)
        assert CANARY not in said(caught.value)


@pytest.mark.parametrize(
    ("name", "pack"), [("A.CSV.GZ", gzip.compress), ("A.Bz2", bz2.compress), ("A.CSV", bytes)]
)
def test_suffixes_may_be_in_capitals(tmp_path, name, pack):
    path = write(tmp_path, name, pack(b"a,b\n1,2\n"))
    assert raw_cells(open_table(path), "b").tolist() == ["2"]
    (batch,) = read_batches(path, ["b"], TextForm(), BatchSizes(9, 99))
    assert batch.num_rows == 1


def test_feather_files_of_version_1_are_read_in_batches_too(tmp_path):
    data = pd.DataFrame({"a": np.arange(100.0), "b": [f"{k}" for k in range(100)]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that this version is an old one
        feather.write_feather(data, tmp_path / "a.feather", version=1)
    whole = open_table(tmp_path / "a.feather")
    batches = list(read_batches(tmp_path / "a.feather", ["b", "a"], TextForm(), BatchSizes(30, 99)))
    assert [batch.num_rows for batch in batches] == [30, 30, 30, 10]
    for name in ("a", "b"):
        cells = [cell for batch in batches for cell in raw_cells(Table.from_arrow(batch), name)]
        assert cells == raw_cells(whole, name).tolist()


@pytest.mark.parametrize("name", ["loop.csv", "n" * 300])
def test_what_the_system_refuses_is_told_with_its_reason(tmp_path, name, said):
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    refused = "Too many levels of symbolic links|File name too long"
    for read in (open_table, lambda path: RowStream(path, n_rows=1).source(None, norm_bound=1.0)):
        with pytest.raises(SchemaError, match=rf"cannot be read \({refused}\)") as caught:
            read(tmp_path / name)
        assert "must be" not in said(caught.value)


def test_a_file_that_may_not_be_read_is_told_to_be_so(tmp_path, monkeypatch, said):
    def refused(*_args, **_kwargs):
        raise PermissionError(errno.EACCES, CANARY)

    monkeypatch.setattr(files, "_unpacking", refused)
    path = write(tmp_path, "a.csv", "a,b\n1,2\n")
    for read in (open_table, lambda path: list(read_batches(path, ["a"], TextForm(), BatchSizes(9, 99)))):
        with pytest.raises(SchemaError, match=r"cannot be read \(Permission denied\)$") as caught:
            read(path)
        assert CANARY not in said(caught.value)


def test_a_matrix_is_an_array():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    assert raw_cells(open_table(matrix, columns=["a", "b"]), "b").tolist() == [2.0, 4.0]
    assert single_column("y", matrix[:, 1]).tolist() == [2.0, 4.0]


def test_no_cell_of_a_column_of_lists_decides_whether_it_is_read():
    """A list in place of a number is a missing cell, in a table and in a column by itself."""
    for cells in ([1.0, 2.0], [1.0, [2.0]], [[1.0], [2.0]]):
        alone = as_number(single_column("y", cells))
        np.testing.assert_array_equal(alone, as_number(open_table({"y": cells}).values("y")))
        np.testing.assert_array_equal(np.isnan(alone), [isinstance(cell, list) for cell in cells])


def test_paths_show_as_they_were_given(tmp_path, monkeypatch, said):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "a.csv", f"a,b\n{CANARY}\n")
    (tmp_path / "folder").mkdir()
    for given in ("a.csv", "absent.csv", "folder"):
        with pytest.raises(SchemaError) as caught:
            open_table(given)
        assert tmp_path.name not in said(caught.value)
        assert CANARY not in said(caught.value)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        ({"a": [1, 2], "b": [CANARY]}, "different lengths"),
        ({"a": CANARY}, "cannot be read"),
        ({"a": np.zeros((2, 2))}, "one-dimensional"),
        ({"a": 3}, "cannot be read"),
        ({3: [1]}, "not text"),
        ({}, "no column"),
        (pd.DataFrame([[1, CANARY]], columns=["a", "a"]), "data has two columns of the same name"),
        (
            pd.DataFrame([[1, CANARY]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])),
            "rename|not text",
        ),
        (pa.table([[1], [CANARY]], names=["a", "a"]), "data has two columns of the same name"),
        (pl.LazyFrame({"a": [CANARY]}), "in memory"),
        ([[1, CANARY]], "type list"),
        (None, "type NoneType"),
        (CANARY.join(["", ".csv"])[:0] + "absent.csv", "does not exist"),
    ],
)
def test_bad_tables_are_refused(data, rule, said):
    with pytest.raises(SchemaError, match=rule) as caught:
        open_table(data)
    assert CANARY not in said(caught.value)
    assert "\n" not in str(caught.value)


def test_a_separator_is_a_text(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SchemaError, match="sep must be a text of one character, got int"):
        open_table(tmp_path / "rows.csv", sep=3)


def test_series_with_different_indexes_are_no_mapping():
    """They were read by position, where a frame of the same series aligns them."""
    x, y = pd.Series([1.0, 2.0], [CANARY, "b"]), pd.Series([3.0, 4.0], [CANARY, "b"])
    for other in (y, y.to_numpy(), pl.Series([3.0, 4.0])):
        assert raw_cells(open_table({"x": x, "y": other}), "y").tolist() == [3.0, 4.0]
    assert open_table({"x": x.reset_index(drop=True), "y": pd.Series(y.to_numpy())}).n_rows == 2
    for other in (y[::-1], y.reset_index(drop=True), y.set_axis([["a", "a"], [CANARY, "c"]])):
        with pytest.raises(SchemaError, match="different indexes; pass a DataFrame, which") as caught:
            open_table({"x": x, "y": other})
        assert CANARY not in str(caught.value)


@pytest.mark.parametrize("name", ["x", "y"])
def test_complex_numbers_of_a_frame_are_refused_as_those_of_a_mapping(name):
    """They spent the budget on rows of weight 0."""
    columns = {"x": np.linspace(0, 1, 50), "y": np.linspace(0, 1, 50)}
    columns[name] = columns[name] + 0j
    bounds = {"type": "numeric", "lower": 0, "upper": 1}
    for data in (columns, pd.DataFrame(columns)):
        with pytest.raises(SchemaError, match=f"column '{name}' has the type complex128"):
            pf.ols("y ~ x", data, schema={"x": bounds, "y": bounds}, solver="non-private")


def test_a_type_of_a_column_that_cannot_be_read_is_named():
    """128-bit numbers of polars fit neither Arrow nor NumPy."""
    frame = pl.DataFrame({"a": pl.Series([1, 2], dtype=pl.Int128)})
    with pytest.raises(SchemaError, match="column 'a' has the type Int128, which cannot be read; convert it"):
        open_table(frame)


def test_unknown_columns_are_named_and_those_of_the_data_are_not():
    for data in (pd.DataFrame({"alpha": [1], "beta": [2]}), {"alpha": [1], "beta": [2]}):
        with pytest.raises(SchemaError, match="is not in the data"):
            open_table(data, needed=["beta", "alhpa"])
    many = open_table({f"column {k}": [0] for k in range(30)})
    with pytest.raises(SchemaError, match="'zzz' is not in the data") as caught:
        many.values("zzz")
    assert "column 1" not in str(caught.value)


def test_dirty_cells_never_raise_or_warn(tmp_path, caplog):
    schema = Schema(
        {
            "n": {"type": "numeric", "lower": 0, "upper": 1},
            "c": {"type": "categorical", "levels": ["a", "b"]},
            "y": {"type": "numeric", "lower": 0, "upper": 1, "target": True},
        }
    )
    cells = [
        b"",
        b"?",
        b"1",
        b" 2 ",
        b"\xff\xfe",
        b"NaN",
        b"1e999",
        b"NULL",
        b'"a"',
        b'"x\ny"',
        b"0x1",
        b"\x00",
        b"b",
    ]
    body = b"n,c,y\n" + b"".join(b",".join((x, z, x)) + b"\n" for x in cells for z in cells)
    path = write(tmp_path, "dirty.csv", body)
    encoder = SchemaEncoder(schema)
    x, y = encoder.encode(open_table(path))
    assert x.shape == (len(cells) ** 2, 3)
    assert np.nanmax(np.abs(x)) <= 1
    assert np.isfinite(y).sum() == 3 * len(cells)
    mixed = pd.DataFrame({"n": [1, "x", None, CANARY, b"\xff", 2.5, [1]], "c": [object()] * 7, "y": [1] * 7})
    encoder.encode(open_table(mixed))
    assert not caplog.records


def test_adult_raw_file(real_data):
    names = ["age", "workclass", "fnlwgt", "education", "education_num", "marital", "occupation"]
    names += ["relationship", "race", "sex", "gain", "loss", "hours", "country", "income"]
    schema = Schema(
        {
            "age": {"type": "numeric", "lower": 17, "upper": 90},
            "workclass": {"type": "categorical", "levels": ["Private", "Self-emp-not-inc", "?"]},
            "hours": {"type": "numeric", "lower": 1, "upper": 99},
            "gain": {"type": "numeric", "lower": 0, "upper": 99999, "transform": "log1p"},
            "sex": {"type": "categorical", "levels": ["Female", "Male"]},
            "income": {"type": "categorical", "levels": ["<=50K", ">50K"], "target": True},
        }
    )
    encoder = SchemaEncoder(schema, target_kind="binary")
    data = open_table(real_data("adult_data.csv.gz"), header=False, columns=names, needed=encoder.needed)
    x, y = encoder.encode(data)
    assert x.shape == (32561, 7)
    assert y.sum() == 7841
    assert np.isfinite(x).all()
    assert x[:, encoder.design.names.index("workclass[T.?]")].sum() == 1836
    assert x[:, encoder.design.names.index("sex[T.Male]")].sum() == 21790
    age = encoder.design.columns[1]
    assert (x[:, 1] * age.half_width + age.center).mean() == pytest.approx(38.5816, abs=1e-4)


def test_bank_file(real_data):
    schema = Schema(
        {
            "age": {"type": "numeric", "lower": 18, "upper": 95},
            "balance": {"type": "numeric", "lower": -9000, "upper": 110000},
            "poutcome": {"type": "categorical", "levels": ["unknown", "failure", "other", "success"]},
            "y": {"type": "categorical", "levels": ["no", "yes"], "target": True},
        }
    )
    encoder = SchemaEncoder(schema, target_kind="binary")
    x, y = encoder.encode(open_table(real_data("bank_full.csv.gz"), sep=";", needed=encoder.needed))
    assert (x.shape, y.sum()) == ((45211, 6), 5289)
    assert (x[:, 3:].sum(axis=1) == 0).sum() == 36959


def test_every_real_file_opens(real_data):
    rows = {"bike_hour": 17379, "california_housing": 20640, "rand_hie_full": 20190, "insurance": 1338}
    for name, count in rows.items():
        assert open_table(real_data(f"{name}.csv.gz")).n_rows == count


def test_a_row_larger_than_arrows_default_block(tmp_path):
    long = "z" * (1 << 21)
    path = write(tmp_path, "long.csv", f'a,b\n1,"{long}"\n2,c\n')
    assert raw_cells(open_table(path), "b")[0] == long
    assert pacsv.ReadOptions().block_size < len(long)


@pytest.mark.parametrize("first", [None, np.nan, pd.NaT])
def test_the_first_cells_of_a_column_of_objects_do_not_decide_how_the_others_are_read(first):
    """narwhals asks the first hundred cells for the type of such a column, and Arrow all of them."""
    usual = [first] * 100 + [1.0, 2.0] * 200
    columns = {"usual": usual, "odd": ["x", *usual[1:]]}
    tables = {
        name: open_table(pd.DataFrame({"a": pd.Series(cells, dtype=object)}))
        for name, cells in columns.items()
    }
    codes = [level_codes(raw_cells(table, "a"), ("1.0", "2.0"))[1:] for table in tables.values()]
    np.testing.assert_array_equal(codes[0], codes[1])
    assert set(codes[0][99:]) == {0, 1}


def test_what_names_of_folders_say_is_text_whatever_the_others_are(tmp_path):
    for name, months in {"usual": ["01", "02"], "odd": ["01", "02", "unknown"]}.items():
        for month in months:
            folder = tmp_path / name / f"month={month}"
            folder.mkdir(parents=True)
            pd.DataFrame({"a": [1.0, 2.0]}).to_parquet(folder / "part.parquet")
        opened = open_table(tmp_path / name)
        assert set(np.asarray(raw_cells(opened, "month"))) == set(months)


def test_an_empty_line_of_a_single_column_is_a_row_with_a_missing_cell(tmp_path):
    """How many rows there are is printed, so that no cell may decide it."""
    path = tmp_path / "one.csv"
    path.write_text("a\n1\n\n3\n")
    assert raw_cells(open_table(path), "a").tolist() == ["1", None, "3"]
    batches = read_batches(path, ["a"], TextForm(), BatchSizes(9, 99))
    assert sum(batch.num_rows if hasattr(batch, "num_rows") else batch.n_rows for batch in batches) == 3


@pytest.mark.parametrize("kind", ["string", "large_string", "dictionary"])
@pytest.mark.parametrize("suffix", ["arrow", "arrows"])
def test_malformed_text_in_an_arrow_file_is_one_odd_cell(tmp_path, kind, suffix):
    path = tmp_path / f"a.{suffix}"
    cells = pa.array([b"a", b"\xff\xfe", None, b"b"])
    wide = pa.large_binary() if kind == "large_string" else pa.binary()
    text = cells.cast(wide).view(pa.large_string() if kind == "large_string" else pa.string())
    if kind == "dictionary":
        text = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3]), text)
    table = pa.table({"t": text, "n": [1.0, 2.0, 3.0, 4.0]})
    opener = pa.ipc.new_stream if suffix == "arrows" else pa.ipc.new_file
    with opener(path, table.schema) as writer:
        writer.write_table(table)
    opened = open_table(path)
    assert level_codes(opened.values("t"), ("a", "b")).tolist() == [0, -2, -1, 1]
    assert raw_cells(opened, "n").tolist() == [1, 2, 3, 4]
    if suffix == "arrow":
        (batch,) = read_batches(path, ["t"], TextForm(), BatchSizes(9, 99))
        assert level_codes(batch.column("t"), ("a", "b")).tolist() == [0, -2, -1, 1]


ODD_NUMBERS = {
    "date": (pa.date64(), np.int64, [86_400_000, 1, -1, 2**62]),
    "time": (pa.time32("s"), np.int32, [5, 86_400, -1, 2**31 - 1]),
    "time of nanoseconds": (pa.time64("ns"), np.int64, [5, -1, 2**62]),
    "decimal": (pa.decimal128(5, 2), "V16", [b"\1" + bytes(15), b"\x7f" * 16, b"\xff" * 16]),
    "wide decimal": (pa.decimal256(5, 2), "V32", [b"\1" + bytes(31), b"\x7f" * 32]),
}


@pytest.mark.parametrize("pointing", [False, True], ids=["plain", "dictionary"])
@pytest.mark.parametrize("kind", ODD_NUMBERS)
def test_files_with_a_number_that_its_type_does_not_allow_are_read_as_in_memory(tmp_path, kind, pointing):
    """Neighbours that differ in a cell: nothing is refused, and no other cell is read otherwise."""
    arrow, plain, odd = ODD_NUMBERS[kind]
    path = tmp_path / "a.arrow"
    for number in odd:
        numbers = np.zeros(4, plain)
        numbers[2] = np.array(number, plain)
        cells = pa.Array.from_buffers(arrow, 4, [None, pa.py_buffer(numbers.tobytes())])
        if pointing:
            cells = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3]), cells)
        table = pa.table({"t": cells})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        expected = as_text(table["t"]).to_pylist()
        assert len({*expected[:2], expected[3]}) == 1
        assert as_text(open_table(path).values("t")).to_pylist() == expected
        (batch,) = read_batches(path, ["t"], TextForm(), BatchSizes(9, 99))
        assert as_text(batch.column("t")).to_pylist() == expected


@pytest.mark.parametrize("rows", [300, 100_000])
@pytest.mark.parametrize("harm", ["cut in the middle", "cut at the end", "changed"])
@pytest.mark.parametrize("name", ["a.csv.gz", "a.csv.bz2", "a.csv.zst"])
def test_a_packed_file_that_is_damaged_is_told_to_be_so(name, harm, rows, tmp_path):
    """Long ones are found out after the header."""
    if (name, harm) == ("a.csv.zst", "changed"):
        pytest.skip("it was written without a checksum")
    text = "a,b\n" + "".join(f"{7919 * k % 104729},canary-{k}\n" for k in range(rows))
    pack = {"a.csv.gz": gzip.compress, "a.csv.bz2": bz2.compress}.get(name, _zstd)
    packed = bytearray(pack(text.encode()))
    if harm == "changed":
        packed[len(packed) // 2] ^= 255
    else:
        del packed[len(packed) // 2 if harm == "cut in the middle" else -5 :]
    (tmp_path / name).write_bytes(packed)
    with pytest.raises(SchemaError, match=f"{name}' is damaged or incomplete, and cannot") as caught:
        open_table(tmp_path / name)
    assert caught.value.__context__ is None
    assert "canary" not in str(caught.value)


def _zstd(text):
    return pa.compress(text, "zstd", asbytes=True)


def test_the_order_of_columns_is_told_by_whatever_has_names():
    table = pa.table({"b": [1.0], "a": [2.0], "c": [3.0]})
    for data in (table, table.to_batches()[0], table.to_pandas(), pl.from_arrow(table), table.to_pydict()):
        assert in_order(data, ("b", "c"))
        assert not in_order(data, ("a", "b"))
    assert in_order(np.ones((1, 3)), ("a", "b"))
