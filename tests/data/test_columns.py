"""What a single cell becomes, and that it depends on that cell alone."""

import datetime
import decimal
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfit.data.columns import (
    as_number,
    as_text,
    spelled_number,
)
from privfit.data.declared import encode_categorical, encode_numeric
from privfit.data.identifiers import unit_codes
from privfit.data.levels import MISSING, UNKNOWN, level_codes
from privfit.data.objects import text_of_bytes
from privfit.data.schema import CategoricalColumn, NumericColumn
from privfit.errors import SchemaError

NAN = math.nan


def objects(*cells):
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("39", 39.0),
        (" 39\t", 39.0),
        ("+5", 5.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.25e+2", -125.0),
        ("1E5", 1e5),
        ("0.1", 0.1),
        ("1e999", math.inf),
        ("-Infinity", -math.inf),
        ("inf", math.inf),
        ("TRUE", 1.0),
        ("false", 0.0),
        ("?", NAN),
        ("", NAN),
        ("NaN", NAN),
        ("1,000", NAN),
        ("1_000", NAN),
        ("0x10", NAN),
        ("1 2", NAN),
        ("١", NAN),
        ("e5", NAN),
        (".", NAN),
        ("39\n40", NAN),
        ("9" * 400, math.inf),
    ],
)
def test_text_that_spells_a_number(text, number):
    assert as_number(objects(text, "7"))[0] == pytest.approx(number, nan_ok=True, abs=0, rel=0)
    assert as_number(pa.array([text.encode()]))[0] == pytest.approx(number, nan_ok=True, abs=0, rel=0)
    assert spelled_number(text.strip()) == pytest.approx(number, nan_ok=True, abs=0, rel=0)


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False))
def test_written_floats_come_back_exactly(number):
    assert as_number(objects(repr(number), "x"))[0] == number


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, NAN, 0.0]),
        np.array([1.0, NAN, 0.0], dtype=np.float32),
        objects(1, None, False),
        objects("1", "?", "0"),
        objects(1.0, pd.NA, decimal.Decimal(0)),
        objects(b"1", float("nan"), np.float32(0)),
        np.array(["1", "?", "0.0"]),
        np.array([b"1", b"\xff", b"0"]),
        np.array(["1", "", "0"], dtype=np.dtypes.StringDType()),
        pa.array([1, None, 0]),
        pa.array([True, None, False]),
        pa.array(["1", None, "0"]),
        pa.array(["1", None, "0"], pa.string_view()),
        pa.array([b"1", b"\xff", b"0"]),
        pa.array(["1", "??", "0"]).dictionary_encode(),
        pa.array([1, None, 0]).dictionary_encode(),
        pa.array([decimal.Decimal("1.0"), None, decimal.Decimal("0.0")]),
        pa.chunked_array([["1"], [], [None, "0"]]),
        pa.chunked_array([[1], [None, 0]]),
    ],
)
def test_every_type_that_can_hold_numbers(values):
    np.testing.assert_array_equal(as_number(values), [1.0, NAN, 0.0])
    np.testing.assert_array_equal(level_codes(values, (0, 1))[[0, 2]], [1, 0])
    assert level_codes(values, (0, 1))[1] in (MISSING, UNKNOWN)


def test_all_null_columns_are_missing():
    for values in (pa.nulls(3), objects(None, None, NAN), pa.array([None] * 3, pa.string())):
        assert np.isnan(as_number(values)).all()
        assert (level_codes(values, ("a", "b")) == MISSING).all()


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.array([1 + 2j]),
        pa.array([datetime.date(2020, 1, 1)]),
        pa.array([[1, 2]]),
        pa.array([datetime.date(2020, 1, 1)]).dictionary_encode(),
    ],
)
def test_types_without_numbers_are_refused_by_type(values, said):
    with pytest.raises(SchemaError, match="does not hold numbers") as caught:
        as_number(values)
    assert "2020" not in said(caught.value)


def test_lists_hold_no_levels():
    with pytest.raises(SchemaError, match="does not hold levels"):
        level_codes(pa.array([[1, 2]]), ("a", "b"))
    assert level_codes(pa.array([datetime.date(2020, 1, 1)]), ("x", "2020-01-01"))[0] == 1


@pytest.mark.parametrize(
    "values",
    [
        pa.array(pd.Series(pd.PeriodIndex(["2020-01", "2021-05"], freq="M"))),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, b"b" * 16], pa.binary(16))),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"a" * 16, b"\xff" * 16], pa.binary(16))),
    ],
    ids=["months", "text", "no text"],
)
def test_cells_that_are_stored_as_others_are_refused_by_type(values):
    """They were read as what stores them, and for that one cell decided whether a column was refused."""
    for read in (lambda: level_codes(values, ("2020-01", "600")), lambda: unit_codes(values)):
        with pytest.raises(SchemaError, match="does not hold levels; convert it first"):
            read()


def test_numeric_is_clamped_transformed_and_filled():
    column = NumericColumn(0, 100, transform="log1p", missing=10)
    values = np.array([-5.0, 0.0, 50.0, 1e9, np.inf, -np.inf, NAN])
    expected = np.log1p([0, 0, 50, 100, 100, 0, 10])
    np.testing.assert_allclose(encode_numeric(values, column), expected, rtol=1e-15)
    assert math.isnan(encode_numeric(values, NumericColumn(0, 100))[-1])
    np.testing.assert_array_equal(values[:2], [-5.0, 0.0])
    low, high = column.limits
    assert ((encode_numeric(values, column) >= low) & (encode_numeric(values, column) <= high)).all()


TEXT = CategoricalColumn(("a", "1", "1.50"))


@pytest.mark.parametrize(
    ("values", "levels", "codes"),
    [
        (objects("a", " a\t", "A", "1", "1.0", None, "  "), ("a", "1"), [0, 0, -2, 1, -2, -1, -1]),
        (np.array([1, 2, 3]), ("2", "1"), [1, 0, -2]),
        (np.array([1.5, NAN, 1.0]), ("a", "1.50"), [1, -1, -2]),
        (objects("1", "1.0", "true", "01", "x", ""), (0, 1), [1, 1, 1, 1, -2, -1]),
        (np.array([True, False]), (0, 1), [1, 0]),
        (np.array([True, False]), ("False", "True"), [1, 0]),
        (np.array([1.0, 0.0, 2.0]), (False, True), [1, 0, -2]),
        (objects("True", "FALSE", "0", "yes"), (False, True), [1, 0, 0, -2]),
        (np.array([-0.0, np.inf]), (0, 5), [0, -2]),
        (objects(1, 1.0, "1", "1.0"), ("1", "1.0"), [0, 0, 0, 1]),
        (np.array([1, 1]), ("1", "1.0"), [0, 0]),
        (pa.array(["é", "e"]), ("é", "e"), [0, 1]),
        (pa.array([b"\xc3\xa9", b"\xe9"]), ("é", "e"), [0, -2]),
    ],
)
def test_matching_rules(values, levels, codes):
    np.testing.assert_array_equal(level_codes(values, levels), codes)


def test_unknown_and_missing_go_where_declared():
    values = objects("a", "z", None, "c")
    np.testing.assert_array_equal(
        encode_categorical(values, CategoricalColumn(("a", "b", "c"))), [0, 0, -1, 2]
    )
    declared = CategoricalColumn(("a", "b", "c"), missing="b", other="c")
    np.testing.assert_array_equal(encode_categorical(values, declared), [0, 2, 1, 2])


CELLS = st.one_of(
    st.none(),
    st.text(max_size=4),
    st.sampled_from(["1", " 1", "1.0", "a", "a ", "true", "?", "inf", "\ud800", "1e400"]),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.booleans(),
    st.binary(max_size=3),
    st.just(datetime.date(2020, 1, 1)),
    st.just([1, 2]),
    st.floats(width=32).map(np.float32),
    st.just(pd.NaT),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=6))
def test_a_cell_is_read_without_regard_to_the_others(cells):
    """Otherwise a row could change the encoding of another, and the sensitivity would be wrong."""
    together = objects(*cells)
    alone = [objects(cell) for cell in cells]
    np.testing.assert_array_equal(as_number(together), np.concatenate([as_number(a) for a in alone]))
    for levels in (("a", "1", "1.0"), (0, 1, 2.5), (False, True)):
        expected = np.concatenate([level_codes(a, levels) for a in alone])
        np.testing.assert_array_equal(level_codes(together, levels), expected)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=6), min_size=1, max_size=5))
def test_bytes_of_a_file_are_read_without_regard_to_the_others(cells):
    together = as_text(pa.array(cells, pa.binary())).to_pylist()
    assert together == [as_text(pa.array([cell], pa.binary())).to_pylist()[0] for cell in cells]


ODD = {
    "signalling NaN": decimal.Decimal("sNaN"),
    "NaN": decimal.Decimal("NaN"),
    "huge": decimal.Decimal("1E+999999"),
    "duration": np.timedelta64(1, "D"),
    "date": np.datetime64("2024-01-01"),
    "complex": 1j,
    "array": np.array([1.0, 2.0]),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("cells", [(1, 2.5, None), ("a", " 7", ""), ("a", 7.0, decimal.Decimal(7))])
def test_an_odd_python_object_stops_nothing_and_changes_no_other_cell(cells, odd):
    """A signalling NaN and a duration raised errors, so that one cell decided whether a fit stopped."""
    plain, among = objects(*cells, cells[0]), np.empty(4, dtype=object)
    among[:3], among[3] = objects(*cells), odd
    number, level = NumericColumn(lower=-5, upper=5), CategoricalColumn(levels=("a", "7"))
    np.testing.assert_array_equal(encode_numeric(among, number)[:3], encode_numeric(plain, number)[:3])
    for codes in (encode_categorical, lambda cells, column: level_codes(cells, column.levels)):
        np.testing.assert_array_equal(codes(among, level)[:3], codes(plain, level)[:3])
    by_value = CategoricalColumn(levels=(1, 7))
    np.testing.assert_array_equal(
        encode_categorical(among, by_value)[:3], encode_categorical(plain, by_value)[:3]
    )
    assert as_text(among).to_pylist()[:3] == as_text(plain).to_pylist()[:3]
    (units, _), (others, _) = unit_codes(among), unit_codes(plain)
    assert [list(units[:3]).index(k) for k in units[:3]] == [list(others[:3]).index(k) for k in others[:3]]


def test_polars_categories_are_read():
    series = pl.Series(["a", "b", None], dtype=pl.Categorical).to_arrow()
    np.testing.assert_array_equal(level_codes(series, ("b", "a")), [1, 0, -1])


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.binary(2), object])
def test_malformed_identifiers_that_differ_are_of_different_people(kind):
    """As names in another encoding than UTF-8: each malformed byte became the same character."""
    cells = [b"\xfc1", b"\xf61", b"\xfc1", b"\xfc\xf6", b"a1"]
    if kind is object:
        values = np.array([*cells[:3], "\ud800", "?"], dtype=object)
    else:
        stored = pa.array(cells)
        values = stored.view(kind) if kind == pa.string() else stored.cast(kind)
    assert unit_codes(values)[0].tolist() == [0, 1, 0, 2, 3]
    assert level_codes(values, ("\ufffd1", "?")).tolist()[:4] == [UNKNOWN] * 4


@pytest.mark.parametrize("kind", [pa.decimal32(3, 1), pa.decimal64(3, 1), pa.decimal128(3, 1)])
def test_identifiers_may_be_short_decimals(kind):
    cells = pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("2"), decimal.Decimal("1.5")], kind)
    assert unit_codes(cells)[0].tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary_view()])
@pytest.mark.parametrize("malformed", [b"\xff", b"1\xff2", b"1\xff", b"\xc3"])
def test_malformed_text_in_a_text_column_is_no_error(kind, malformed):
    """Inside a cell it stopped the comparison with true and false."""
    cells = [malformed, b" 1 ", None, b"TRUE"]
    text = pa.array(cells).cast(pa.binary_view()) if kind == pa.binary_view() else None
    broken = pa.array(cells).view(pa.string()).cast(kind) if text is None else text
    pointing = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3]), broken)
    for values in (broken, pointing, pa.chunked_array([broken]), pa.chunked_array([pointing])):
        assert as_text(values).to_pylist() == [text_of_bytes(malformed), "1", None, "TRUE"]
        np.testing.assert_array_equal(as_number(values), [NAN, 1.0, NAN, 1.0])
        assert level_codes(values, (0, 1)).tolist() == [UNKNOWN, 1, MISSING, 1]
        assert level_codes(values, ("0", "1")).tolist() == [UNKNOWN, 1, MISSING, UNKNOWN]
        assert unit_codes(values)[0].tolist() == [0, 1, -1, 2]


@pytest.mark.parametrize("levels", [["a", "b", "7"], [7, 1.5, True]])
@pytest.mark.parametrize(
    "cells", [["a", " b", None, "7", "7.0", "?", "true"], [7.0, 1.5, None, 1.0, 3.0], [None, None], []]
)
def test_dictionaries_are_read_as_the_cells_that_they_stand_for(levels, cells):
    kind = pa.float64() if cells and isinstance(cells[0], float) else pa.string()
    plain = pa.array(cells, kind)
    for encoded in (plain.dictionary_encode(), plain.dictionary_encode(null_encoding="encode")):
        sliced = pa.chunked_array([encoded, encoded[1:]], encoded.type)
        expected = level_codes(pa.chunked_array([plain, plain[1:]], kind), levels)
        np.testing.assert_array_equal(level_codes(sliced, levels), expected)
        np.testing.assert_array_equal(level_codes(encoded, levels), level_codes(plain, levels))
        assert level_codes(encoded, levels).dtype == np.int32


def test_fractions_are_numbers_as_decimals_are():
    cells = np.array([Fraction(1, 3), Fraction(7, 2), decimal.Decimal("3.5"), None, "1/3", 2.0], dtype=object)
    np.testing.assert_array_equal(as_number(cells), [1 / 3, 3.5, 3.5, np.nan, np.nan, 2.0])
    np.testing.assert_array_equal(level_codes(cells[:3], [2.0, 3.5]), [UNKNOWN, 1, 1])


@pytest.mark.parametrize("levels", [[0.1, 0.2, 0.7], [".1", ".2", ".7"]])
def test_cells_of_less_precision_match_levels_as_they_would_be_stored(levels):
    cells = np.array([0.1, 0.7, 0.3, np.nan], dtype=np.float32)
    expected = [0, 2, UNKNOWN, MISSING]
    for column in (cells, cells.astype(np.float16), pa.array(cells, from_pandas=True)):
        np.testing.assert_array_equal(level_codes(column, levels), expected)
    close = [1.0, 1.0 + 2.0**-30]  # one number in single precision: compared as they are
    np.testing.assert_array_equal(level_codes(np.ones(1, np.float32), close), [0])
