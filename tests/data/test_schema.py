"""Schemas: what they accept, refuse and write."""

import copy
import os
import pickle
import string
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfit.data.schema import CategoricalColumn, NumericColumn, Schema
from privfit.errors import SchemaError

FULL = {
    "row_norm": 2.5,
    "age": {"type": "numeric", "lower": 17, "upper": 90, "missing": 40},
    "capital gain": {"type": "numeric", "lower": 0, "upper": 1e5, "transform": "log1p"},
    'odd "name".\n\t\\ü': {"type": "numeric", "lower": -1e-300, "upper": 1e300},
    "sex": {"type": "categorical", "levels": [" Female", "Male "], "missing": "Male", "other": "Female"},
    "code": {"type": "categorical", "levels": [1, 2.5, -3], "missing": 1},
    "flag": {"type": "categorical", "levels": [False, True], "missing": False, "other": True},
    "income": {"type": "categorical", "levels": ["<=50K", ">50K"], "target": True},
    "person": {"type": "numeric", "lower": 0, "upper": 1e9, "unit": True},
}
NUM = {"type": "numeric", "lower": 0, "upper": 1}
CAT = {"type": "categorical", "levels": ["a", "b"]}


def test_contents():
    schema = Schema(FULL)
    assert schema["age"] == NumericColumn(17.0, 90.0, missing=40.0)
    assert schema["sex"] == CategoricalColumn(("Female", "Male"), missing="Male", other="Female")
    assert schema["flag"].missing is False
    assert (schema.target, schema.unit, schema.row_norm) == ("income", "person", 2.5)
    assert list(schema) == [name for name in FULL if name != "row_norm"]
    assert len(schema) == 8
    assert "age" in schema
    with pytest.raises(KeyError):
        schema["nothing"]
    with pytest.raises(TypeError):
        schema["age"] = NUM  # pyright: ignore
    with pytest.raises(AttributeError):
        schema.row_norm = 1.0  # pyright: ignore
    with pytest.raises(AttributeError):
        schema["age"].lower = 1.0  # pyright: ignore


def test_round_trips(tmp_path):
    schema = Schema(FULL)
    path = tmp_path / "schema.toml"
    schema.to_toml(path)
    schema.to_toml(path)
    assert Schema.from_toml(path) == schema == Schema.from_dict(schema.to_dict()) == Schema(schema)
    assert tomllib.loads(path.read_text()) == schema.to_dict()
    assert Schema.from_toml(str(path)).to_dict() == schema.to_dict()
    assert os.listdir(tmp_path) == ["schema.toml"]  # noqa: PTH208
    assert pickle.loads(pickle.dumps(schema)) == schema == copy.deepcopy(schema)  # noqa: S301
    assert hash(Schema(FULL)) == hash(schema)
    assert eval(repr(schema), {"Schema": Schema}) == schema  # noqa: S307
    assert [type(x) for x in Schema.from_toml(path)["code"].levels] == [int, float, int]


def test_equality_sees_every_part():
    schema = Schema(FULL)
    assert schema != Schema({k: v for k, v in FULL.items() if k != "row_norm"})
    assert schema != Schema({k: v for k, v in FULL.items() if k != "age"})
    assert schema != Schema(FULL | {"age": NUM})
    assert schema != FULL


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda s: s != "row_norm"
)
LEVELS = st.one_of(
    st.lists(NAMES.filter(lambda s: s.strip(" \t\r\n\f\v\u00a0")), min_size=2, max_size=5),
    st.lists(
        st.one_of(st.integers(-(2**53), 2**53), st.floats(-1e9, 1e9)), min_size=2, max_size=5, unique=True
    ),
)


@st.composite
def declarations(draw):
    if draw(st.booleans()):
        lower, upper = sorted(draw(st.tuples(st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))))
        upper = max(upper, lower + 1.0 + 1e-6 * abs(lower))
        return {"type": "numeric", "lower": lower, "upper": upper, "missing": lower}
    levels = draw(LEVELS)
    keys = [x.strip(" \t\r\n\f\v\u00a0") if isinstance(x, str) else x for x in levels]
    if len(set(keys)) < len(keys):
        levels = ["a", "b"]
    return {"type": "categorical", "levels": levels, "other": levels[-1]}


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(NAMES, declarations(), min_size=1, max_size=4))
def test_toml_round_trip_of_any_schema(tmp_path_factory, mapping):
    if "Intercept" in mapping:
        return
    schema = Schema(mapping)
    path = tmp_path_factory.mktemp("toml") / "s.toml"
    schema.to_toml(path)
    assert Schema.from_toml(path).to_dict() == schema.to_dict()


BAD = [
    ({}, "declares no column"),
    ({"a": 3}, "must be a table"),
    ({"a": NUM, "target": "a"}, "column 'target': .* target, unit, weight and exposure are options in a"),
    ({"a": {"lower": 0, "upper": 1}}, "type is missing"),
    ({"a": {"unit": True}}, 'type is missing; give .* "identifier"'),
    ({"a": {"type": "number", "lower": 0, "upper": 1}}, "'categorical' or 'identifier'"),
    ({"a": NUM | {"uper": 3}}, "did you mean 'upper'"),
    ({"a": CAT | {"level": 3}}, "did you mean 'levels'"),
    ({"a": {"type": "numeric", "min": 0, "max": 1}}, "'min' is no option .*; did you mean 'lower'"),
    ({"a": {"type": "numeric", "lower": 0, "max": 1}}, "did you mean 'upper'"),
    ({"a": {"type": "categorical", "categories": ["b", "c"]}}, "did you mean 'levels'"),
    ({"a": CAT | {"lower": 0}}, "'lower' is no option of a categorical column; it is one of a numeric"),
    ({"a": {"type": "numeric", "lower": 0}}, "upper is missing"),
    ({"a": {"type": "numeric", "lower": 0, "weight": True}}, "upper is missing; a numeric column needs it$"),
    ({"a": {"type": "categorical"}}, "levels is missing"),
    ({"a": NUM | {"lower": 1}}, "lower must be below upper"),
    ({"a": NUM | {"lower": 2}}, "lower must be below upper"),
    ({"a": NUM | {"lower": float("-inf")}}, "lower must be finite"),
    ({"a": NUM | {"upper": float("nan")}}, "upper must be finite"),
    ({"a": NUM | {"upper": 10**400}}, "upper must be finite"),
    ({"a": NUM | {"upper": "1"}}, "upper must be a number"),
    ({"a": NUM | {"upper": True}}, "upper must be a number"),
    ({"a": {"type": "numeric", "lower": 1, "upper": 1 + 2**-52}}, "too close"),
    ({"a": {"type": "numeric", "lower": 0, "upper": 5e-324}}, "too close"),
    ({"a": NUM | {"transform": "exp"}}, "transform must be one of"),
    ({"a": NUM | {"transform": "log"}}, "above 0 for transform"),
    ({"a": NUM | {"transform": "log1p", "lower": -1}}, "above -1 for transform"),
    ({"a": NUM | {"transform": "sqrt", "lower": -0.1}}, "at least 0 for transform"),
    ({"a": NUM | {"missing": 2}}, "within the bounds"),
    ({"a": NUM | {"missing": "?"}}, "missing must be a number"),
    ({"a": NUM | {"target": 1}}, "target must be true or false"),
    ({"a": NUM | {"target": True, "unit": True}}, "same column"),
    ({"a": CAT | {"levels": "ab"}}, "must be a list"),
    ({"a": CAT | {"levels": {"a", "b"}}}, "must be a list"),
    ({"a": CAT | {"levels": ["a"]}}, "at least two"),
    ({"a": CAT | {"levels": ["a", " a "]}}, "distinct"),
    ({"a": CAT | {"levels": [1, 1.0]}}, "distinct"),
    ({"a": CAT | {"levels": ["a", 1]}}, "all text, all numbers"),
    ({"a": CAT | {"levels": [True, 2]}}, "all text, all numbers"),
    ({"a": CAT | {"levels": ["a", "  "]}}, "blank"),
    ({"a": CAT | {"levels": ["a", None]}}, "must be text, numbers"),
    ({"a": CAT | {"levels": [1.0, float("nan")]}}, "2\\*\\*53"),
    ({"a": CAT | {"levels": [1, 2**53 + 1]}}, "2\\*\\*53"),
    ({"a": CAT | {"levels": ["a", "\ud800"]}}, "Unicode"),
    ({"a": CAT | {"missing": "?"}}, "missing must be one of the levels"),
    ({"a": CAT | {"other": "c"}}, "other must be one of the levels"),
    ({"a": {"type": "categorical", "levels": [0, 1], "other": True}}, "other must be one of the levels"),
    ({"a": NUM | {"target": True}, "b": NUM | {"target": True}}, "more than one column with target"),
    ({"a": NUM | {"unit": True}, "b": NUM | {"unit": True}}, "more than one column with unit"),
    ({"": NUM}, "not empty"),
    ({3: NUM}, "must be text"),
    ({"\ud800": NUM}, "Unicode"),
    ({"Intercept": NUM}, "constant column"),
    ({"a": NUM, "row_norm": 0}, "row_norm must be positive"),
    ({"a": NUM, "row_norm": float("nan")}, "row_norm must be positive"),
    ({"a": NUM, "row_norm": "1"}, "row_norm must be a number"),
    ([("a", NUM)], "must be a mapping"),
]


@pytest.mark.parametrize(("mapping", "rule"), BAD)
def test_bad_schemas_are_refused_in_one_line(mapping, rule):
    with pytest.raises(SchemaError, match=rule) as caught:
        Schema(mapping)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 200
    if isinstance(mapping, dict) and set(mapping) == {"a"}:
        assert message.startswith("column 'a': ")


def test_row_norm_may_also_name_a_column(tmp_path):
    schema = Schema({"row_norm": NUM})
    assert schema.row_norm is None
    schema.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == schema


@pytest.mark.parametrize(
    ("content", "rule"), [(b"a = [", "is not TOML"), (b"\xff\xfe", "UTF-8"), (None, "cannot be read")]
)
def test_bad_files(tmp_path, content, rule):
    path = tmp_path / "s.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SchemaError, match=rule) as caught:
        Schema.from_toml(path)
    assert "\n" not in str(caught.value)


def test_failed_write_leaves_the_old_file(tmp_path):
    folder = tmp_path / "absent"
    with pytest.raises(SchemaError, match="cannot be written"):
        Schema(FULL).to_toml(folder / "s.toml")
    occupied = tmp_path / "taken"
    occupied.mkdir()
    with pytest.raises(SchemaError, match="cannot be written"):
        Schema(FULL).to_toml(occupied)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


@pytest.mark.parametrize("path", [None, 3, b"s.toml", "a\0b"])
@pytest.mark.parametrize("use", [Schema.from_toml, Schema(FULL).to_toml])
def test_what_is_no_path_is_refused(use, path):
    with pytest.raises(SchemaError, match="schema file must be the path of a TOML file"):
        use(path)


@pytest.mark.parametrize("path", [".", "..", "", "x" * 300])
def test_a_name_that_no_file_can_have_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchemaError, match="cannot be written"):
        Schema(FULL).to_toml(path)
    assert not list(tmp_path.iterdir())


def test_lookup_suggests_a_near_name():
    schema = Schema(FULL)
    with pytest.raises(SchemaError, match="did you mean 'income'"):
        schema.lookup("incme")
    with pytest.raises(SchemaError, match="known are 'age'"):
        schema.lookup(string.punctuation)


def test_a_part_keeps_the_order_and_the_bound_on_rows():
    entries = {
        "row_norm": 2.0,
        "b": {"type": "numeric", "lower": 0, "upper": 1},
        "who": {"type": "identifier"},
        "a": {"type": "categorical", "levels": ["x", "y"], "target": True},
        "c": {"type": "numeric", "lower": 0, "upper": 1},
    }
    part = Schema(entries).part(["a", "b", "absent"])
    assert list(part) == ["b", "a"]
    assert (part.row_norm, part.target, part.unit) == (2.0, "a", None)
