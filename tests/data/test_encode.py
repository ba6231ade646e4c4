"""Encoded rows are bounded by the schema, whatever the data."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfit.data.coded import CodedMatrix
from privfit.data.encode import AbstractEncoder, SchemaEncoder, predictors_as
from privfit.data.response import standard_labels
from privfit.data.schema import Schema
from privfit.data.source import ArraySource
from privfit.data.tables import Table
from privfit.data.unit_scale import UnitScaleEncoder
from privfit.errors import LabelError, SchemaError

SCHEMA = Schema(
    {
        "age": {"type": "numeric", "lower": 17, "upper": 90},
        "gain": {"type": "numeric", "lower": 0, "upper": 1e5, "transform": "log1p", "missing": 0},
        "sex": {"type": "categorical", "levels": ["Female", "Male"]},
        "job": {"type": "categorical", "levels": ["a", "b", "c", "?"], "missing": "?", "other": "c"},
        "id": {"type": "numeric", "lower": 0, "upper": 1e9, "unit": True},
        "y": {"type": "categorical", "levels": ["no", "yes"], "target": True},
    }
)


def table(**columns):
    return Table([(name, np.array(values, dtype=object)) for name, values in columns.items()])


def test_rows_by_hand():
    encoder = SchemaEncoder(SCHEMA, target_kind="binary")
    assert encoder.needed == ("age", "gain", "sex", "job", "y")
    assert encoder.design.names == (
        "Intercept", "age", "log1p(gain)", "sex[T.Male]", "job[T.b]", "job[T.c]", "job[T.?]",
    )  # fmt: skip
    x, y = encoder.encode(
        table(
            age=["17", 90, 200, None],
            gain=["?", 1e5, -3, "inf"],
            sex=["Male ", "Female", "unheard of", "Male"],
            job=["b", "unheard of", None, "a"],
            y=["yes", " no", "yes", None],
        )
    )
    expected = [
        [1, -1, -1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0, 1, 0],
        [1, 1, -1, 0, 0, 0, 1],
        [1, np.nan, 1, 1, 0, 0, 0],
    ]
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(y, [1, 0, 1, np.nan])
    assert x.flags.c_contiguous
    assert x.dtype == y.dtype == np.float64
    np.testing.assert_array_equal(
        encoder.encode_predictors(table(**{n: ["a"] for n in encoder.needed[:-1]})).shape, (1, 7)
    )


def test_norm_bound_comes_from_the_schema_and_is_reached():
    encoder = SchemaEncoder(SCHEMA, target_kind="binary")
    design = encoder.design
    assert design.bounded
    assert design.norm_bound == pytest.approx(math.sqrt(5), rel=1e-8)
    assert Fraction(design.norm_bound) ** 2 > 5
    x, y = encoder.encode(table(age=[17], gain=[1e5], sex=["Male"], job=["c"], y=["no"]))
    assert (x**2).sum() == 5.0
    assert (weights(x, y, design.norm_bound) == 1).all()
    assert SchemaEncoder(SCHEMA, intercept=False, target_kind="binary").design.norm_bound == pytest.approx(
        2.0
    )


def test_columns_say_what_they_hold():
    columns = SchemaEncoder(SCHEMA, target_kind="binary").design.columns
    assert [column.indicator for column in columns] == [True, False, False, True, True, True, True]
    assert [column.number for column in columns] == [False, True, True, False, False, False, False]
    assert [column.term for column in columns[3:]] == ["sex", "job", "job", "job"]


@pytest.mark.parametrize(
    ("columns", "storage", "kept"),
    [
        (["age"], "float64", np.ndarray),
        (["age"], "float32", CodedMatrix),
        (["age", "sex"], "float64", CodedMatrix),
        (["age", "sex"], "float32", CodedMatrix),
    ],
)
def test_rows_are_kept_by_code_or_in_single_precision_unless_they_are_plain(columns, storage, kept):
    encoder = SchemaEncoder(SCHEMA, columns=columns, target_kind="binary")
    rows = predictors_as(encoder, table(age=[17, 90], sex=["Female", "Male"]), storage)
    assert type(rows) is kept
    assert rows.shape == (2, 1 + len(columns))


def weights(x, y, bound):
    source = ArraySource(x, y, norm_bound=bound)

    def kernel(block, out):
        out[0, : block.weight.size] = block.weight

    return source.sum(kernel, x.shape[0])


def test_row_norm_binds_only_if_smaller():
    tight = SchemaEncoder(Schema(SCHEMA.to_dict() | {"row_norm": 1.25}), target_kind="binary").design
    assert (tight.norm_bound, tight.bounded) == (1.25, False)
    loose = SchemaEncoder(Schema(SCHEMA.to_dict() | {"row_norm": 9.0}), target_kind="binary").design
    assert loose.bounded
    assert loose.norm_bound == pytest.approx(math.sqrt(5))
    same = Schema(SCHEMA.to_dict() | {"row_norm": loose.norm_bound})
    assert SchemaEncoder(same, target_kind="binary").design.bounded


def test_one_column_alone_is_within_one():
    design = SchemaEncoder(SCHEMA, columns=["age"], intercept=False, target_kind="binary").design
    assert 1.0 < design.norm_bound < 1.0 + 1e-8


CELLS = st.one_of(
    st.none(), st.text(max_size=3), st.floats(), st.integers(), st.booleans(),
    st.sampled_from(["Male", "Female", "a", "b", "c", "?", "17", "90", "1e5"]),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=8), st.booleans())
def test_no_data_leaves_the_bound(rows, intercept):
    encoder = SchemaEncoder(SCHEMA, intercept=intercept, target_kind="binary")
    names = ("age", "gain", "sex", "job")
    columns = []
    for k, name in enumerate(names):
        cells = np.empty(len(rows), dtype=object)
        cells[:] = [row[k] for row in rows]
        columns.append((name, cells))
    y = np.array(["no"] * len(rows))
    x, _ = encoder.encode(Table([*columns, ("y", y)]))
    limit = Fraction(encoder.design.norm_bound) ** 2
    for row in x:
        if not np.isnan(row).any():
            assert sum(Fraction(v) ** 2 for v in row.tolist()) <= limit
    usable = ~np.isnan(x).any(axis=1)
    np.testing.assert_array_equal(weights(x, np.zeros(len(rows)), encoder.design.norm_bound), usable)


BOUNDS = st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)).map(sorted)


@settings(max_examples=200, deadline=None)
@given(BOUNDS, st.lists(st.floats(), min_size=1, max_size=6), st.booleans())
def test_scaled_numbers_stay_within_one(bounds, values, intercept):
    try:
        schema = Schema({name: {"type": "numeric", "lower": bounds[0], "upper": bounds[1]} for name in "xy"})
    except SchemaError:
        return
    encoder = SchemaEncoder(schema, target="y", intercept=intercept)
    column = np.array(values)
    x, y = encoder.encode(Table([("x", column), ("y", column)]))
    np.testing.assert_array_equal(np.isnan(x[:, -1]), np.isnan(column))
    assert np.nanmax(np.abs(x), initial=0) <= 1
    assert np.nanmax(np.abs(y), initial=0) <= 1


def numeric_target(**options):
    return Schema({"x": {"type": "numeric", "lower": 0, "upper": 1}, "y": {"type": "numeric"} | options})


def test_numeric_target_is_clamped_and_scaled():
    encoder = SchemaEncoder(numeric_target(lower=10, upper=30), target="y")
    _, y = encoder.encode(table(x=[0, 0, 0, 0], y=[10, "25", 99, "n/a"]))
    np.testing.assert_array_equal(y, [-1, 0.5, 1, np.nan])
    assert (encoder.design.target.center, encoder.design.target.half_width) == (20, 10)
    transformed = SchemaEncoder(numeric_target(lower=1, upper=30, transform="log"), target="y").design.target
    assert transformed.name == "log(y)"


def test_count_target_keeps_its_unit():
    encoder = SchemaEncoder(numeric_target(lower=0, upper=20), target="y", target_kind="count")
    _, y = encoder.encode(table(x=[0, 0, 0], y=[3, 99, -1]))
    np.testing.assert_array_equal(y, [3, 20, 0])
    with pytest.raises(SchemaError, match="count response"):
        SchemaEncoder(numeric_target(lower=-1, upper=20), target="y", target_kind="count")


def test_counts_without_a_schema_are_moved_into_their_bounds_and_others_do_not_count():
    encoder = UnitScaleEncoder(1, norm_bound=1.0, target_kind="count", count_bound=5.0)
    y = np.array([-2.0, 0.0, 3.0, 7.0, np.inf, -np.inf, np.nan])
    _, found = encoder.encode(Table([("x0", np.zeros(7)), ("y", y)]))
    np.testing.assert_array_equal(found, [0.0, 0.0, 3.0, 5.0, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(
    ("bounds", "raw", "encoded"),
    [((0, 1), [0, 1, None, True], [0, 1, np.nan, 1]), ((-1, 1), ["-1", 1.0, np.nan, 1], [0, 1, np.nan, 1])],
)
def test_binary_target_as_numbers(bounds, raw, encoded):
    encoder = SchemaEncoder(
        numeric_target(lower=bounds[0], upper=bounds[1]), target="y", target_kind="binary"
    )
    assert encoder.design.target.labels == bounds
    _, y = encoder.encode(table(x=[0] * 4, y=raw))
    np.testing.assert_array_equal(y, encoded)


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"lower": 0, "upper": 2}, "bounds 0, 1 or -1, 1"),
        ({"lower": 0, "upper": 1, "transform": "log1p"}, "bounds 0, 1 or -1, 1"),
        ({"lower": 0, "upper": 1, "missing": 0.5}, "one of its two labels"),
    ],
)
def test_binary_target_needs_two_labels(options, rule):
    with pytest.raises(SchemaError, match=rule):
        SchemaEncoder(numeric_target(**options), target="y", target_kind="binary")
    levels = Schema(SCHEMA.to_dict() | {"y": {"type": "categorical", "levels": ["a", "b", "c"]}})
    with pytest.raises(SchemaError, match="exactly two levels"):
        SchemaEncoder(levels, target="y", target_kind="binary")


@pytest.mark.parametrize("bad", ["CANARY", 7.25, "yes."])
def test_foreign_labels_are_an_error_without_the_value(bad, said):
    encoder = SchemaEncoder(SCHEMA, target_kind="binary", columns=[])
    with pytest.raises(LabelError, match="column 'y'") as caught:
        encoder.encode(table(y=["yes", bad]))
    assert str(bad) not in said(caught.value)
    assert "\n" not in str(caught.value)
    numbers = SchemaEncoder(numeric_target(lower=0, upper=1), target="y", target_kind="binary")
    with pytest.raises(LabelError) as caught:
        numbers.encode(table(x=[1.0], y=[7.25]))
    assert "7.25" not in said(caught.value)


def test_declared_fallbacks_of_a_label_are_silent():
    options = {"type": "categorical", "levels": ["no", "yes"], "missing": "no", "other": "yes"}
    encoder = SchemaEncoder(Schema({"y": options}), target="y", target_kind="binary")
    _, y = encoder.encode(table(y=["no", None, "zzz"]))
    np.testing.assert_array_equal(y, [0, 0, 1])


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"target": "ages"}, "did you mean 'age'"),
        ({"target": "id"}, "'id' identifies the privacy unit and cannot be the response"),
        ({"columns": ["aeg"]}, "did you mean 'age'"),
        ({"columns": "age"}, "not one text"),
        ({"columns": ["id"]}, "privacy unit"),
        ({"columns": ["y"]}, "both the response and a predictor"),
        ({"columns": ["age", "age"]}, "same name"),
        ({"columns": [], "intercept": False}, "no column"),
        ({"target": "sex", "target_kind": "numeric"}, "is categorical"),
    ],
)
def test_refusals(options, rule):
    with pytest.raises(SchemaError, match=rule):
        SchemaEncoder(SCHEMA, **({"target_kind": "binary"} | options))
    with pytest.raises(SchemaError, match="target is not given"):
        SchemaEncoder(numeric_target(lower=0, upper=1))
    with pytest.raises(SchemaError, match="'age' holds the survey weights and cannot be the response"):
        SchemaEncoder(SCHEMA.with_roles(weights="age"), target="age")


def test_both_encoders_serve_the_protocol():
    encoders: list[AbstractEncoder] = [
        SchemaEncoder(SCHEMA, target_kind="binary"),
        UnitScaleEncoder(2, norm_bound=1.0),
    ]
    assert [len(encoder.design.columns) for encoder in encoders] == [7, 3]


def test_wrong_types_name_the_column():
    encoder = SchemaEncoder(SCHEMA, columns=["age"], target_kind="binary")
    data = Table([("age", np.array(["2020-01-01"], dtype="datetime64[D]")), ("y", np.array(["no"]))])
    with pytest.raises(SchemaError, match=r"column 'age' has the type datetime64\[D\]"):
        encoder.encode(data)


class TestUnitScale:
    def test_arrays_and_tables_agree(self):
        raw = np.array([[0.5, -2.0], [np.inf, 1.0]])
        encoder = UnitScaleEncoder(2, norm_bound=1.5)
        x, y = encoder.encode_arrays(raw, [3.0, np.nan])
        np.testing.assert_array_equal(x, [[1, 0.5, -2], [1, np.inf, 1]])
        np.testing.assert_array_equal(y, [3, np.nan])
        again = encoder.encode(Table([("x1", raw[:, 1]), ("y", y), ("x0", raw[:, 0])]))
        np.testing.assert_array_equal(again[0], x)
        assert encoder.needed == ("x0", "x1", "y")
        assert (encoder.design.norm_bound, encoder.design.bounded) == (1.5, False)
        assert UnitScaleEncoder(2, norm_bound=None).design.norm_bound is None
        matrix, shift = encoder.design.reporting_map()
        np.testing.assert_array_equal(matrix, np.eye(3))
        np.testing.assert_array_equal(shift, np.zeros(3))
        np.testing.assert_allclose(weights(x, y, 1.5), [1.5**2 / 5.25, 0], rtol=1e-11)

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_single_precision_is_the_rounded_row_and_what_is_beyond_it_is_infinite(self, order):
        raw = np.array([[0.1, -2.0], [1e39, 1.0], [np.nan, -1e300], [-np.inf, 1e-50]], order=order)
        encoder = UnitScaleEncoder(2, norm_bound=1.5)
        data = Table([("x0", raw[:, 0]), ("x1", raw[:, 1]), ("y", np.arange(4.0))])
        whole, x = encoder.encode_predictors(data), encoder.encode_coded(data, "float32")
        with np.errstate(over="ignore"):
            expected = whole.astype(np.float32)
        assert x.numbers.dtype == np.float32
        assert x.layout.numeric
        np.testing.assert_array_equal(x.dense(), expected)
        assert np.isinf(x.numbers[1, 0])
        np.testing.assert_array_equal(weights(x, np.arange(4.0), 1.5) > 0.0, [True, False, False, False])

    def test_without_intercept_and_with_names(self):
        encoder = UnitScaleEncoder(["a", "b"], norm_bound=1.0, intercept=False)
        x, _ = encoder.encode_arrays(pd.DataFrame({"a": [1, 2], "b": [0.5, 1]}), np.array([[1], [2]]))
        np.testing.assert_array_equal(x, [[1, 0.5], [2, 1]])
        assert encoder.design.names == ("a", "b")
        assert x.flags.c_contiguous

    def test_mixed_matrix_is_read_cell_by_cell(self):
        x, _ = UnitScaleEncoder(2, norm_bound=1.0).encode_arrays([["0.5", "?"], ["1", "2"]], [0, 1])
        np.testing.assert_array_equal(x[:, 1:], [[0.5, np.nan], [1, 2]])

    @pytest.mark.parametrize(
        ("labels", "encoded"),
        [
            ([0, 1, 1], [0, 1, 1]),
            ([-1, 1, 1], [0, 1, 1]),
            ([True, False, True], [1, 0, 1]),
            (["0", "1", "1"], [0, 1, 1]),
            ([1.0, np.nan, -1.0], [1, np.nan, 0]),
            ([0, 0, 0], [0, 0, 0]),
        ],
    )
    def test_standard_labels_need_no_declaration(self, labels, encoded):
        encoder = UnitScaleEncoder(1, norm_bound=1.0, target_kind="binary")
        _, y = encoder.encode_arrays(np.zeros((3, 1)), labels)
        np.testing.assert_array_equal(y, encoded)

    @pytest.mark.parametrize("labels", [[-1, 0, 1], [0, 1, 2], ["CANARY", "0", "1"], [0.5, 0.0, 1.0]])
    def test_other_labels_must_be_declared(self, labels, said):
        encoder = UnitScaleEncoder(1, norm_bound=1.0, target_kind="binary")
        with pytest.raises(LabelError, match="classes=") as caught:
            encoder.encode_arrays(np.zeros((3, 1)), labels)
        assert "CANARY" not in said(caught.value)

    def test_declared_classes(self, said):
        encoder = UnitScaleEncoder(1, norm_bound=1.0, target_kind="binary", classes=("no", "yes"))
        assert encoder.design.target.labels == ("no", "yes")
        _, y = encoder.encode_arrays(np.zeros((3, 1)), np.array(["yes", "no", None], dtype=object))
        np.testing.assert_array_equal(y, [1, 0, np.nan])
        with pytest.raises(LabelError) as caught:
            encoder.encode_arrays(np.zeros((2, 1)), ["yes", "CANARY"])
        assert "CANARY" not in said(caught.value)
        numbers = UnitScaleEncoder(1, norm_bound=1.0, target_kind="binary", classes=np.array([2, 1]))
        np.testing.assert_array_equal(numbers.encode_arrays(np.zeros((2, 1)), [1, 2])[1], [1, 0])

    def test_more_than_two_classes(self, said):
        encoder = UnitScaleEncoder(1, norm_bound=1.0, target_kind="class", classes=("no", "maybe", "yes"))
        assert (encoder.design.target.kind, encoder.design.target.labels) == ("class", ("no", "maybe", "yes"))
        _, y = encoder.encode_arrays(np.zeros((4, 1)), np.array(["yes", "no", None, " maybe"], dtype=object))
        np.testing.assert_array_equal(y, [2, 0, np.nan, 1])
        with pytest.raises(LabelError, match="not declared") as caught:
            encoder.encode_arrays(np.zeros((2, 1)), ["yes", "CANARY"])
        assert "CANARY" not in said(caught.value)

    @pytest.mark.parametrize("classes", [None, ("no", "yes")])
    def test_a_class_with_two_labels_is_binary(self, classes):
        encoder = UnitScaleEncoder(1, norm_bound=1.0, target_kind="class", classes=classes)
        assert encoder.design.target.kind == "binary"
        assert encoder.design.target.labels == ((0, 1) if classes is None else classes)

    @pytest.mark.parametrize(
        ("x", "y", "rule"),
        [
            (np.zeros(3), [0] * 3, "exactly 2 columns"),
            (np.zeros((3, 3)), [0] * 3, "exactly 2 columns"),
            (np.zeros((3, 2)), [0] * 2, "as long as X"),
            (np.zeros((3, 2)), np.zeros((3, 2)), "y must be one-dimensional"),
            ([[1, 2], [765.25]], [0, 0], "cannot be read as an array"),
            (np.zeros((1, 2), dtype="datetime64[D]"), [0], "X must hold numbers"),
        ],
    )
    def test_shapes(self, x, y, rule, said):
        with pytest.raises(SchemaError, match=rule) as caught:
            UnitScaleEncoder(2, norm_bound=1.0).encode_arrays(x, y)
        assert "765" not in said(caught.value)

    @pytest.mark.parametrize("empty", [np.zeros((0, 2)), [], np.zeros(0)])
    def test_a_batch_without_rows_is_none(self, empty):
        x, y = UnitScaleEncoder(2, norm_bound=1.0).encode_arrays(empty, [])
        assert (x.shape, y.shape) == ((0, 3), (0,))

    def test_no_cell_of_a_list_of_responses_decides_how_others_are_read(self):
        cells = [1.0, [2.0], "abc", None, 10**400, object()]
        _, y = UnitScaleEncoder(2, norm_bound=1.0).encode_arrays(np.zeros((6, 2)), cells)
        np.testing.assert_array_equal(np.isfinite(y), np.arange(6) == 0)

    @pytest.mark.parametrize(
        ("options", "rule"),
        [
            ({"names": ["a", "Intercept"]}, "constant column"),
            ({"names": ["a", "y"]}, "both the response"),
            ({"names": ["a", "a"]}, "same name"),
            ({"names": 1, "classes": (0, 1)}, "classes declares"),
            ({"names": 1, "classes": (0, 1, 2), "target_kind": "binary"}, "two labels"),
            ({"names": 1, "classes": ("a", "a"), "target_kind": "binary"}, "distinct"),
            ({"names": 1, "classes": ("a",), "target_kind": "class"}, "at least two labels"),
            ({"names": 1, "classes": "ab", "target_kind": "class"}, "at least two labels"),
            ({"names": 1, "classes": ("a", 1, "b"), "target_kind": "class"}, "to mix"),
        ],
    )
    def test_refusals(self, options, rule):
        with pytest.raises(SchemaError, match=rule):
            UnitScaleEncoder(**({"norm_bound": 1.0} | options))


def test_standard_labels():
    assert standard_labels(np.array([1, 1])) == (0, 1)
    assert standard_labels(np.array([1, -1])) == (-1, 1)
