"""Files larger than memory: the same fits, private files, and no half-written cache in use."""

import gzip
import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from wards import BOUND, ENCODER, SCHEMA, frame

import privfit as pf
from privfit.data import cache as cache_module
from privfit.data import cache_files
from privfit.data import room as room_module
from privfit.data import source as source_module
from privfit.data.batches import BatchSizes
from privfit.data.cache_files import Draft, Parts, drafted, verified
from privfit.data.clamp import schweppe_weights
from privfit.data.declarations import NumericColumn
from privfit.data.encode import SchemaEncoder
from privfit.data.reduction import CHUNK_ROWS
from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.data.tables import open_table
from privfit.errors import InvalidArgument, LabelError, SchemaError
from privfit.losses import Logistic
from privfit.problem.steep import SteepRows
from privfit.terms.encoder import FormulaEncoder


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(cache_module, "_SIZES", BatchSizes(rows=1000, text_bytes=1 << 16))


def write(data, path):
    if path.suffix == ".parquet":
        data.to_parquet(path)
    elif path.suffix == ".feather":
        data.to_feather(path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(data.to_csv(index=False).encode()))
    else:
        data.to_csv(path, index=False)
    return path


def rows_of(source):
    blocks = list(source.blocks())
    return [np.concatenate([getattr(block, name) for block in blocks]) for name in ("x", "y", "weight")]


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.feather"])
@pytest.mark.parametrize("kept", [False, True])
def test_cached_rows_are_those_of_the_table(name, kept, tmp_path, small_batches):
    data, folder = frame(), tmp_path / "kept"
    path = write(data, tmp_path / name)
    cache = pf.RowCache(path, folder=folder if kept else None, storage="float64")
    expected = ArraySource(*ENCODER.encode(open_table(data)), norm_bound=BOUND)
    for _ in range(2):
        rows = cache.rows(ENCODER, norm_bound=BOUND)
        assert rows.n_rows == len(data)
        source = rows.source(norm_bound=BOUND)
        basis = np.diag(np.arange(1.0, 8.0))
        for one, other in (
            (source, expected),
            *[[s.reweighted(basis, norm_bound=1.1, amplification=30.0) for s in (source, expected)]],
        ):
            for part, whole in zip(rows_of(one), rows_of(other), strict=True):
                usable = rows_of(expected)[2] > 0
                np.testing.assert_allclose(part[usable], whole[usable], rtol=1e-10)
                assert len(part) == len(whole)
            np.testing.assert_array_equal(rows_of(one)[2] == 0, rows_of(other)[2] == 0)
    assert folder.exists() == kept


def test_slopes_of_cached_rows_are_held_as_those_of_the_table(tmp_path, small_batches):
    data = frame()
    path = write(data, tmp_path / "rows.parquet")
    mapped = pf.RowCache(path, storage="float64").rows(ENCODER, norm_bound=BOUND).source(norm_bound=BOUND)
    whole = ArraySource(*ENCODER.encode(open_table(data)), norm_bound=BOUND)
    slopes = SteepRows(0.6, np.linspace(-1.0, 1.0, 7), 0.2).bounds(Logistic(), 0.5)
    limits = {"norm_bound": 1.1, "amplification": 30.0, "slopes": slopes}
    found, expected = (
        np.concatenate(
            [
                np.column_stack([block.weight, block.caps])
                for block in source.reweighted(np.diag(np.arange(1.0, 8.0)), **limits).blocks()
            ]
        )
        for source in (mapped, whole)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert len(np.unique(expected[:, 1])) > 100


@pytest.mark.parametrize("formula", ["ill ~ age + C(ward) + gain:sex", "ill ~ C(ward) + sex"])
@pytest.mark.parametrize("stretch", [1000, 64 * CHUNK_ROWS])
def test_a_sample_of_mapped_rows_is_that_of_the_table(formula, stretch, tmp_path, monkeypatch, in_order):
    """The second formula has no numbers, so that one file is empty."""
    monkeypatch.setattr(source_module, "_STRETCH", stretch)
    monkeypatch.setattr(source_module, "_AT_ONCE", 0 if stretch == 1000 else 2**24)
    data, rng = frame(), np.random.default_rng(1)
    encoder, bound = FormulaEncoder(formula, SCHEMA, target_kind="binary"), 1.3
    cache = pf.RowCache(write(data, tmp_path / "rows.parquet"), storage="float64")
    mapped = cache.rows(encoder, norm_bound=bound).source(norm_bound=bound)
    cells = open_table(data)
    table = ArraySource(encoder.encode_coded(cells), encoder.encode_target(cells), norm_bound=bound)
    p, coins = len(encoder.design.columns), rng.random(len(data)) < 0.3
    basis, other = rng.normal(size=(2, p, p))
    for known in (None, basis):
        if known is not None:
            mapped.reweighted(known, norm_bound=0.7, amplification=30.0)
        samples = [rows.sampled(in_order(coins), 0.3) for rows in (mapped, table)]
        with monkeypatch.context() as patch:
            patch.setattr(room_module, "_reserve", None)  # a sample makes no file
            turned = [
                [rows.reweighted(one, norm_bound=0.7, amplification=30.0) for rows in samples]
                for one in (0.3 * basis, other)
            ]
        for one, whole in (samples, *turned):
            assert one.n_rows == coins.sum()
            for found, expected in zip(rows_of(one), rows_of(whole), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-11)
            assert (rows_of(one)[2] < 0.9).any()
    for found, expected in zip(rows_of(samples[0]), rows_of(mapped), strict=True):
        np.testing.assert_array_equal(found, expected[coins])


def test_fits_are_the_same_to_rounding(tmp_path, small_batches):
    data = frame()
    path = write(data, tmp_path / "rows.parquet")
    options = {"epsilon": 5.0, "delta": 1e-6, "random_state": 1}
    for formula in ("ill ~ age + C(ward)", "ill ~ age * sex + gain:ward"):
        whole = pf.logit(formula, data, schema=SCHEMA, **options)
        cached = pf.logit(formula, pf.RowCache(path, storage="float64"), schema=SCHEMA, **options)
        np.testing.assert_allclose(cached.estimate, whole.estimate, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(cached.cov_sampling, whole.cov_sampling, rtol=1e-7)
        single = pf.logit(formula, pf.RowCache(path), schema=SCHEMA, **options)
        np.testing.assert_allclose(single.estimate, whole.estimate, rtol=1e-3, atol=1e-3)


def test_estimators_take_a_cache(tmp_path):
    data = frame()
    path = write(data, tmp_path / "rows.csv")
    fits = [
        pf.LogisticRegression(epsilon=5.0, delta=1e-6, schema=SCHEMA, random_state=3).fit(rows)
        for rows in (data, pf.RowCache(path, storage="float64"))
    ]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-9)
    complete = data.dropna()
    np.testing.assert_array_equal(fits[0].predict(complete), fits[1].predict(complete))
    with pytest.raises(InvalidArgument, match="schema is needed"):
        pf.LogisticRegression().fit(pf.RowCache(path))
    with pytest.raises(InvalidArgument, match="name of a column"):
        pf.LogisticRegression(schema=SCHEMA).fit(pf.RowCache(path), np.zeros(3))


def test_rows_that_are_scaled_keep_their_layout(tmp_path):
    data = frame(500)
    path = write(data, tmp_path / "rows.parquet")
    encoder = FormulaEncoder("gain ~ age * ward", SCHEMA)
    for storage in ("float64", "float32"):
        cache = pf.RowCache(path, folder=tmp_path / "kept", storage=storage)
        for _ in range(2):
            source = cache.rows(encoder, norm_bound=0.7, weighting=schweppe_weights).source(norm_bound=0.7)
            x, _, weight = rows_of(source)
            assert (weight * np.linalg.norm(x, axis=1) <= 0.7).all()
            assert np.linalg.norm(x, axis=1).max() > 0.69


def test_files_are_the_owners_alone(tmp_path):
    path, folder = write(frame(300), tmp_path / "rows.csv"), tmp_path / "deep" / "kept"
    before = os.umask(0)
    try:
        pf.RowCache(path, folder=folder).rows(ENCODER, norm_bound=BOUND)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (place,) = folder.iterdir()
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {file.name for file in place.iterdir()} == {*Parts.ALL, "facts.json"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}


def test_nothing_is_left_of_a_temporary_cache(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = write(frame(2000), tmp_path / "rows.csv")
    rows = pf.RowCache(path).rows(ENCODER, norm_bound=BOUND)
    source = rows.source(norm_bound=BOUND).reweighted(np.eye(7), norm_bound=1.0, amplification=9.0)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert rows_of(source)[1].size == 2000


def kept(cache):
    return {file: file.stat().st_mtime_ns for file in cache.glob("*.rows/*")}


def test_a_cache_is_used_again_only_for_the_same_rows(tmp_path):
    path, folder = write(frame(400), tmp_path / "rows.csv"), tmp_path / "kept"

    def rows(path=path, encoder=ENCODER, bound=BOUND, **options):
        pf.RowCache(path, folder=folder, **options).rows(encoder, norm_bound=bound)
        return kept(folder)

    first = rows()
    assert rows() == first
    assert len(rows(bound=0.5)) == 2 * len(first)
    assert len(rows(storage="float64")) == 3 * len(first)
    assert len(rows(encoder=FormulaEncoder("ill ~ age", SCHEMA, target_kind="binary"))) == 4 * len(first)
    os.utime(path, ns=(1, 1))
    assert len(rows()) == 5 * len(first)
    write(frame(401), path)
    assert len(rows()) == 6 * len(first)
    before = path.stat()
    other = path.with_name("other.csv")
    other.write_bytes(path.read_bytes())
    other.replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(rows()) == 7 * len(first)


def test_a_cache_of_another_version_is_made_anew(tmp_path, monkeypatch):
    path, folder = write(frame(400), tmp_path / "rows.csv"), tmp_path / "kept"
    pf.RowCache(path, folder=folder).rows(ENCODER, norm_bound=BOUND)
    monkeypatch.setattr("privfit.data.cache._ENCODING", -1)
    pf.RowCache(path, folder=folder).rows(ENCODER, norm_bound=BOUND)
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("inside", ["", "kept", "deep/kept"])
def test_a_cache_within_the_data_is_refused(tmp_path, inside):
    """Later fits would take its files for data."""
    data = tmp_path / "visits"
    data.mkdir()
    with pytest.raises(InvalidArgument, match="within the data"):
        pf.RowCache(data, folder=data / inside)
    pf.RowCache(data, folder=tmp_path / "visits-kept")


EXPOSED = SchemaEncoder(
    SCHEMA.with_roles(exposure="age"), target="gain", target_kind="count", columns=["age", "ward"]
)
WEIGHED = ShareRule("sex", weights=("age", NumericColumn(0.0, 100.0, weight=True)))
"""By which every file of a cache holds something."""


@pytest.mark.parametrize("harm", ["flip", "cut", "facts", "fewer rows", "no facts", "gone"])
@pytest.mark.parametrize("name", Parts.ALL)
def test_a_damaged_cache_is_made_anew(harm, name, tmp_path):
    path, folder = write(frame(400), tmp_path / "rows.csv"), tmp_path / "kept"
    cache, bound = pf.RowCache(path, folder=folder), EXPOSED.design.norm_bound
    good = rows_of(cache.rows(EXPOSED, norm_bound=bound, shares=WEIGHED).source(norm_bound=bound))
    (place,) = folder.iterdir()
    file = place / name
    if harm == "flip":
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif harm == "cut":
        os.truncate(file, file.stat().st_size - 1)
    elif harm == "facts":
        (place / "facts.json").write_text(json.dumps({"n_rows": 400}))
    elif harm == "fewer rows":
        facts = place / "facts.json"
        facts.write_text(facts.read_text().replace('"n_rows": 400', '"n_rows": 40'))
    elif harm == "no facts":
        (place / "facts.json").write_text("null")
    else:
        file.unlink()
    assert not verified(place)
    again = rows_of(cache.rows(EXPOSED, norm_bound=bound, shares=WEIGHED).source(norm_bound=bound))
    for one, other in zip(good, again, strict=True):
        np.testing.assert_array_equal(one, other)


KILLED = """
    import os, sys
    import privfit as pf
    from privfit.data import cache
    from privfit.data.cache_files import Draft
    from privfit.data.batches import BatchSizes
    cache._SIZES = BatchSizes(rows=100, text_bytes=1 << 12)
    added, step = Draft.{method}, [0]
    def killed(self, *args, **kwargs):
        step[0] += 1
        if step[0] == {at}:
            os._exit(9)
        return added(self, *args, **kwargs)
    Draft.{method} = killed
    schema = pf.Schema.from_toml("schema.toml")
    from privfit.data.encode import SchemaEncoder
    encoder = SchemaEncoder(schema, target_kind="binary")
    pf.RowCache("rows.csv", folder="kept").rows(encoder, norm_bound=encoder.design.norm_bound)
"""


@pytest.mark.parametrize(("method", "at"), [("add", 4), ("finish", 1), ("unlock", 1)])
def test_a_killed_run_leaves_no_cache_in_use_and_the_next_one_cleans_up(method, at, tmp_path, monkeypatch):
    write(frame(1500), tmp_path / "rows.csv")
    SCHEMA.to_toml(tmp_path / "schema.toml")
    code = textwrap.dedent(KILLED.format(method=method, at=at))
    where = {**os.environ, "PYTHONPATH": str(Path(pf.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, timeout=120, env=where)  # noqa: S603
    assert done.returncode == 9
    published = method == "unlock"
    left = list((tmp_path / "kept").iterdir())
    assert [place.name.startswith(".") for place in left] == [not published]
    monkeypatch.chdir(tmp_path)
    rows = pf.RowCache("rows.csv", folder="kept").rows(ENCODER, norm_bound=BOUND)
    assert rows.n_rows == 1500
    (place,) = (tmp_path / "kept").iterdir()
    assert verified(place)


def test_a_draft_that_another_run_is_writing_is_left_alone(tmp_path):
    place = tmp_path / "kept" / "one.rows"
    rows = {name: np.arange(3.0) for name in Parts.ALL}
    with drafted(place) as first:
        first.add(**rows)
        with drafted(place) as second:
            second.add(**rows)
            second.finish({})
        assert verified(place)
        first.add(**rows)
        first.finish({})
    assert verified(place)
    assert [other.name for other in place.parent.iterdir()] == ["one.rows"]
    assert (place / Parts.Y).stat().st_size == 24


def test_nothing_that_is_open_is_deleted_or_renamed_where_systems_refuse_that(tmp_path, monkeypatch):
    """As Windows does, which has no locks of this kind either."""
    place, opened, open_one = tmp_path / "kept" / "one.rows", [], cache_files._opened
    monkeypatch.setattr(cache_files, "fcntl", None)
    monkeypatch.setattr(cache_files, "_opened", lambda file: opened.append(open_one(file)) or opened[-1])

    def careful(done):
        def wrapper(self, *target):
            assert all(stream.closed for stream in opened)
            return done(self, *target)

        return wrapper

    for name in ("unlink", "rename"):
        monkeypatch.setattr(Path, name, careful(getattr(Path, name)))
    with drafted(place) as draft:
        draft.add(**{part: np.arange(3.0) for part in Parts.ALL})
        draft.finish({})
    assert len(opened) == len(Parts.ALL) + 2
    assert verified(place)


def test_errors_name_the_rule_and_no_cell(tmp_path, monkeypatch):
    data = frame(300)
    data.loc[7, "ill"] = "CANARY"
    path, folder = write(data, tmp_path / "rows.csv"), tmp_path / "kept"
    with pytest.raises(LabelError) as caught:
        pf.RowCache(path, folder=folder).rows(ENCODER, norm_bound=BOUND)
    assert "CANARY" not in str(caught.value)
    assert list(folder.iterdir()) == []
    with pytest.raises(SchemaError, match="does not exist"):
        pf.RowCache(tmp_path / "absent.csv").rows(ENCODER, norm_bound=BOUND)
    with pytest.raises(InvalidArgument, match="storage"):
        pf.RowCache(path, storage="float16")
    with pytest.raises(InvalidArgument, match="path"):
        pf.RowCache(data)
    full = OSError(28, "No space left on device")

    def no_room(*_args, **_kwargs):
        raise full

    good = write(frame(300), tmp_path / "good.csv")
    with monkeypatch.context() as patch:
        patch.setattr(Draft, "add", no_room)
        with pytest.raises(SchemaError, match=r"No space left on device.*name another folder"):
            pf.RowCache(good, folder=folder).rows(ENCODER, norm_bound=BOUND)
    assert list(folder.iterdir()) == []
    source = pf.RowCache(good, folder=folder).rows(ENCODER, norm_bound=BOUND).source(norm_bound=BOUND)
    monkeypatch.setattr(room_module, "_reserve", no_room)
    with pytest.raises(SchemaError, match="No space left"):
        source.reweighted(np.eye(7), norm_bound=1.0, amplification=9.0)


def test_a_cache_shows_nothing(tmp_path):
    path = write(frame(300), tmp_path / "rows.csv")
    rows = pf.RowCache(path).rows(ENCODER, norm_bound=BOUND)
    assert repr(rows) == "CachedRows(<private rows>)"
    with pytest.raises(TypeError, match="private rows"):
        rows.__reduce__()
    with pytest.raises(InvalidArgument, match="another bound"):
        rows.source(norm_bound=0.1)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"sep": 3}, SchemaError, "sep must be a text of one character, got int"),
        ({"sep": ";;"}, SchemaError, "sep must be one character other than"),
        ({"sep": '"'}, SchemaError, "sep must be one character other than"),
        ({"columns": 3}, SchemaError, "columns must be a list of column names"),
        ({"columns": "age"}, SchemaError, "columns must be a list of column names"),
        ({"folder": 3}, InvalidArgument, "folder must be the path of a folder"),
    ],
)
def test_arguments_are_checked_when_they_are_given(given, error, message):
    with pytest.raises(error, match=message):
        pf.RowCache("rows.csv", **given)


@pytest.mark.parametrize("chunk", [70, 10_000])
def test_arrow_files_of_the_streaming_form_are_read_as_others_are(tmp_path, chunk):
    table = pa.Table.from_pandas(frame(500), preserve_index=False)
    files = [tmp_path / "rows.arrow", tmp_path / "rows.arrows"]
    with pa.ipc.new_file(files[0], table.schema) as one, pa.ipc.new_stream(files[1], table.schema) as other:
        one.write_table(table)
        other.write_table(table, max_chunksize=chunk)
    fits = [pf.LogisticRegression(schema=SCHEMA, random_state=0).fit(pf.RowCache(file)) for file in files]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    for content in (b"", files[1].read_bytes()[:2000]):
        files[1].write_bytes(content)
        with pytest.raises(SchemaError, match="cannot be read; it must be Arrow"):
            pf.LogisticRegression(schema=SCHEMA).fit(pf.RowCache(files[1]))
