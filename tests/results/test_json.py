import copy
import json
import math
import types
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any

import numpy as np
import pytest
from handmade_result import make_result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privfit.errors import InvalidArgument, SchemaError
from privfit.privacy.composition import SampledGaussianEvent
from privfit.problem.plan import PlannedRelease
from privfit.results import FitResult, archive

TEXT = make_result().to_json()
RECORD = json.loads(TEXT)


def strict(text):
    return json.loads(text, parse_constant=pytest.fail)


def read_or_refuse(text):
    """Corrupt input is refused by a named error, or is a result that can be shown."""
    try:
        result = FitResult.from_json(text)
    except (SchemaError, InvalidArgument):
        return
    assert isinstance(result, FitResult)
    for render in (repr(result), str(result.summary()), result._repr_html_(), result.summary().as_latex()):
        assert isinstance(render, str)
    assert FitResult.from_json(result.to_json()).to_json() == result.to_json()


@pytest.mark.parametrize("kind", ["result", "seeded", "noiseless", "estimate_only"])
def test_round_trip(kind, request):
    result = request.getfixturevalue(kind)
    back = FitResult.from_json(result.to_json())
    assert back.to_json() == result.to_json()
    assert back.plan == result.plan
    assert back.statement == result.statement
    assert back.private is result.private
    for name in ("estimate", "cov_sampling", "cov_noise", "dof"):
        np.testing.assert_array_equal(getattr(back, name), getattr(result, name))
    for ours, theirs in zip(back.releases, result.releases, strict=True):
        assert ours.planned == theirs.planned
        np.testing.assert_array_equal(ours.at, theirs.at)
        np.testing.assert_array_equal(ours.value, theirs.value)
        assert ours.value.dtype == np.float64


class Alias:
    """What NumPy's name for arrays is from NumPy 2.5 and Python 3.12 on."""

    __value__ = np.ndarray[Any, np.dtype[np.float64]]

    def __getitem__(self, arguments):
        return types.GenericAlias(self, arguments)


def test_arrays_are_read_where_an_alias_stands_for_their_type():
    @dataclass(frozen=True)
    class Numbers:
        found: Alias()[np.float64]

    numbers = make_result().estimate
    read = archive.decode_dataclass(Numbers, {"found": archive.encode(numbers)}, "it")
    np.testing.assert_array_equal(read.found, numbers)


@given(st.lists(st.floats(width=64), min_size=5, max_size=5), st.floats(allow_nan=False))
def test_floats_are_exact(values, scale):
    result = replace(make_result(), estimate=np.array(values), scale=scale)
    back = FitResult.from_json(result.to_json())
    np.testing.assert_array_equal(back.estimate, result.estimate)
    known = ~np.isnan(result.estimate)
    np.testing.assert_array_equal(np.signbit(back.estimate[known]), np.signbit(result.estimate[known]))
    assert back.scale == scale
    strict(result.to_json())


@given(st.lists(st.text(min_size=1), min_size=5, max_size=5, unique=True))
def test_any_names(names):
    result = replace(make_result(), names=tuple(names))
    assert FitResult.from_json(result.to_json()).names == tuple(names)


def test_content(result):
    record = strict(result.to_json())
    assert set(record) == {"format", "format_version", "warning", "guarantee", "versions", "result"}
    assert set(record["versions"]) == {"privfit", "numpy", "scipy", "opendp"}
    assert record["versions"]["numpy"] == metadata.version("numpy")
    assert record["warning"] is None
    assert "(ε = 1, δ = 1e-06)-DP, replace one row; μ = 0.2367" in record["guarantee"]
    assert "Replacing any one row" in record["guarantee"]
    statement = record["result"]["statement"]
    assert (statement["epsilon"], statement["delta"], statement["mu"]) == (1.0, 1e-6, 0.23667)
    assert record["result"]["dof"][2] == "inf"
    assert record["result"]["plan"]["n_rows"] == 48842
    assert record["result"]["releases"][0]["value"][2] == 1 / 3


def test_numpy_scalars_are_numbers(result):
    statement = replace(result.statement, private=np.bool_(True), epsilon=np.float64(1.0))
    plan = replace(result.plan, n_rows=np.int64(48842))
    assert replace(result, statement=statement, plan=plan, scale=np.float32(0.5)).to_json() == (
        replace(result, scale=0.5).to_json()
    )


def test_file(result, tmp_path):
    path = tmp_path / "result.json"
    path.write_text("old")
    text = result.to_json(path)
    assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]
    for name in (path, str(path)):
        assert FitResult.from_json(name).to_json() == text


def test_failed_write_keeps_the_old_file(result, tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(_):
        raise OSError("disk full")

    monkeypatch.setattr(archive.os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        result.to_json(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_to_is_refused_by_name(result, tmp_path):
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.write_text("old")
    for place in (tmp_path / "none" / "result.json", file / "result.json", folder, ".", "..", "/", "x" * 300):
        with pytest.raises(InvalidArgument, match="path must name a file in an existing folder") as caught:
            result.to_json(place)
        assert str(place) in str(caught.value)
    for no_place in (3, result, "a\0b"):
        with pytest.raises(InvalidArgument, match="path must be the path of a file"):
            result.to_json(no_place)
    assert sorted(tmp_path.rglob("*")) == [file, folder]
    assert file.read_text() == "old"


@pytest.mark.parametrize(
    "argument", [None, 3, b"{}", [], "", "no/such/file.json", "a\0b", "x" * 10_000, "[1]"]
)
def test_wrong_arguments(argument):
    with pytest.raises(InvalidArgument, match="text_or_path"):
        FitResult.from_json(argument)


def test_wrong_files(tmp_path):
    with pytest.raises(InvalidArgument, match="existing file"):
        FitResult.from_json(tmp_path)
    path = tmp_path / "binary"
    path.write_bytes(b"\x80\x04\x95pickle")
    with pytest.raises(SchemaError, match="UTF-8"):
        FitResult.from_json(path)


def test_huge_input(result, tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    result.to_json(path)
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    for argument in (path, TEXT):
        with pytest.raises(InvalidArgument, match="larger"):
            FitResult.from_json(argument)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "{}",
        '{"format": "other"}',
        TEXT + "}",
        TEXT.replace("1e-06", "NaN"),
        TEXT.replace("1e-06", "-Infinity"),
        TEXT.replace("48842", "9" * 5000),
        TEXT.replace("0.041234", "9" * 400),
        TEXT.replace("0.041234", "1e999"),
        TEXT.replace('"format_version": 2', '"format_version": 3'),
        TEXT.replace('"format_version": 2', '"format_version": true'),
        TEXT.replace('"private": true', '"private": true, "private": true'),
        TEXT.replace('"private": true', '"private": 1'),
        TEXT.replace('"replace"', '"swap"'),
        TEXT.replace("48842", "48842.0"),
        TEXT.replace('"scale": null', '"scale": null, "rows": [1, 2]'),
        TEXT.replace('"scale": null', '"scale": "Inf"'),
        TEXT.replace('"scale": null,', ""),
        TEXT.replace('"warning": null', '"warning": 1'),
        TEXT.replace('"age", ', "", 1),
        TEXT.replace("[31.5, 40.25,", "[31.5, [40.25],"),
        '{"a":' * 100_000,
    ],
)
def test_malformed_content(text):
    with pytest.raises((SchemaError, InvalidArgument)):
        FitResult.from_json(text)


def test_messages_name_the_place_and_hold_no_value():
    with pytest.raises(
        SchemaError, match=r"result\.plan\.solver_releases\[0\]\.sd must be a number"
    ) as caught:
        FitResult.from_json(TEXT.replace('"sd": 0.002', '"sd": "secret-value"', 1))
    assert "secret" not in str(caught.value)


def test_newer_format_names_the_remedy():
    with pytest.raises(SchemaError, match="upgrade privfit"):
        FitResult.from_json(TEXT.replace('"format_version": 2', '"format_version": 3'))


def paths(node, prefix=()):
    yield prefix
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in items:
        yield from paths(child, (*prefix, key))


texts = st.sampled_from(["inf", "-inf", "nan"]) | st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(path=st.sampled_from([p for p in paths(RECORD) if p]), value=json_values, drop=st.booleans())
def test_any_part_replaced_or_dropped(path, value, drop):
    record = copy.deepcopy(RECORD)
    parent = record
    for key in path[:-1]:
        parent = parent[key]
    if drop:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    read_or_refuse(json.dumps(record))


@settings(max_examples=200, deadline=None)
@given(
    start=st.integers(0, len(TEXT)),
    length=st.integers(0, 30),
    insert=st.text(max_size=5) | st.sampled_from(['"', "}", "]", ",", "e9", "-", "0", "null", "\\u0000"]),
)
def test_any_stretch_of_text_replaced(start, length, insert):
    read_or_refuse(TEXT[:start] + insert + TEXT[start + length :])


@given(st.text(max_size=40), st.booleans())
def test_any_text(text, brace):
    with pytest.raises((SchemaError, InvalidArgument)):
        FitResult.from_json("{" + text if brace else text)


def test_signed_infinities_are_kept(result):
    back = FitResult.from_json(replace(result, estimate=[math.inf, -math.inf, math.nan, -0.0, 0.0]).to_json())
    assert repr(back.estimate.tolist()) == "[inf, -inf, nan, -0.0, 0.0]"


def walked():
    result = make_result()
    event = SampledGaussianEvent("one", "replace", 0.25, 1 / 48842, 10**6)
    walk = PlannedRelease("walk", 5, 2e-4, math.inf, 8e-4, sampled=event)
    plan = replace(result.plan, mu=math.inf, solver_releases=(walk,))
    releases = (replace(result.releases[0], planned=walk), *result.releases[1:])
    return replace(result, plan=plan, releases=releases)


def test_sampled_steps_are_kept_exactly():
    back = FitResult.from_json(walked().to_json())
    assert back.plan == walked().plan
    assert back.plan.solver_releases[0].event == SampledGaussianEvent(
        "one", "replace", 0.25, 1 / 48842, 10**6
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"scheme": "one"', '"scheme": "two"'),
        ('"relation": "replace", "ratio"', '"relation": "add_remove", "ratio"'),
        ('"ratio": 0.25', '"ratio": -0.25'),
        ('"ratio": 0.25', '"ratio": "nan"'),
        ('"steps": 1000000', '"steps": 1e6'),
        ('"steps": 1000000', '"steps": 0'),
        ('"steps": 1000000', '"steps": 1000000, "more": 1'),
        ('"ratio": 0.25, ', ""),
    ],
)
def test_sampled_steps_that_make_no_sense_are_refused(old, new):
    text = walked().to_json()
    assert old in text
    with pytest.raises((SchemaError, InvalidArgument)):
        FitResult.from_json(text.replace(old, new))
