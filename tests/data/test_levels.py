"""Codes of so many digits that floating point takes one for another."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfit as pf
from privfit.data.levels import MISSING, UNKNOWN, level_codes
from privfit.data.tables import open_table

CODES = [900000000000207008, 900000000000207009, 900000000000207100, 900000000000207001]
LEVELS = [str(code) for code in CODES]
FEW, MANY = LEVELS, [*LEVELS, *(str(k) for k in range(9))]
CELLS = [CODES[3], CODES[1], 900000000000207002, CODES[0], CODES[2]]
EXPECTED = [3, 1, UNKNOWN, 0, 2]


def decimals(kind):
    return pa.array([Decimal(cell) for cell in CELLS], pa.decimal256(40, kind)).cast(pa.decimal128(38, kind))


COLUMNS = {
    "text": np.array([str(cell) for cell in CELLS], dtype=object),
    "int64": np.array(CELLS),
    "uint64": np.array(CELLS, dtype=np.uint64),
    "Int64": pd.Series(CELLS, dtype="Int64"),
    "category": pd.Series(CELLS).astype("category"),
    "objects": np.array(CELLS, dtype=object),
    "odd objects": np.array(
        [np.int64(CELLS[0]), Decimal(CELLS[1]), Fraction(CELLS[2]), CELLS[3], f" {CELLS[4]}"], dtype=object
    ),
    "polars": pl.Series(CELLS),
    "Arrow": pa.array(CELLS),
    "chunks": pa.chunked_array([CELLS[:2], [], CELLS[2:]]),
    "dictionary": pa.array(CELLS).dictionary_encode(),
    "decimals": decimals(0),
    "decimals with a point": decimals(2),
}


@pytest.mark.parametrize("levels", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_long_codes_match_digit_by_digit_in_all_types(kind, levels):
    """They went through floating point, where the first of the levels that are the same was taken."""
    values = open_table({"code": COLUMNS[kind]}).values("code")
    assert level_codes(values, levels).tolist() == EXPECTED


def test_long_codes_of_files_match_digit_by_digit(tmp_path):
    frame = pd.DataFrame({"code": CELLS})
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    for name in ("a.parquet", "a.csv"):
        assert level_codes(open_table(tmp_path / name).values("code"), LEVELS).tolist() == EXPECTED


def test_a_missing_cell_beside_long_codes_is_missing():
    for values in (pa.array([CODES[1], None]), np.array([CODES[1], None], dtype=object)):
        assert level_codes(values, LEVELS).tolist() == [1, MISSING]


@pytest.mark.parametrize("levels", [["9007199254740992", "1"], [2**53, 1], [float(2**53), 1]])
def test_no_long_cell_matches_a_level_by_rounding(levels):
    cells = [2**53 + 1, 2**53, 2**53 - 1, 1, 10**400]
    text = np.array([str(cell) for cell in cells], dtype=object)
    for values in (np.array(cells[:4]), pa.array(cells[:4]), np.array(cells, dtype=object), text):
        expected = [UNKNOWN, 0, UNKNOWN, 1, UNKNOWN]
        assert level_codes(values, levels).tolist() == expected[: len(values)]


def test_long_cells_in_floating_point_match_the_only_level_that_rounds_to_them():
    """Of several that do, none: a missing cell turns whole numbers of pandas to floating point."""
    for make in (np.array, pa.array, lambda cells: np.array([*cells, "x"], dtype=object)[:-1]):
        values = make([float(CODES[0]), float(CODES[2]), 1e18, 7.0])
        found = level_codes(values, [*LEVELS, "1000000000000000001", "7"])
        assert found.tolist() == [UNKNOWN, 2, 4, 5]
        assert level_codes(values, ["7", "1e18", "1000000000000000000"]).tolist()[2:] == [1, 0]


def test_levels_beyond_floating_point_stop_nothing():
    levels = ["9" * 400, "1e9999999999999999999", "inf", "nan", "sNaN"]
    assert level_codes(np.array([int("9" * 400), 10**400, 2**60], dtype=object), levels).tolist() == [
        0,
        -2,
        -2,
    ]
    assert level_codes(np.array([2**60, 3]), levels).tolist() == [UNKNOWN] * 2


LONG = st.integers(2**53 - 3, 2**53 + 3) | st.integers(2**62, 2**62 + 600) | st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=200, deadline=None)
@given(st.lists(LONG, min_size=2, max_size=12, unique=True), st.lists(LONG, min_size=1, max_size=9))
def test_whole_numbers_match_levels_as_their_text_does(levels, others):
    levels, cells = [str(level) for level in levels], [*others, *levels[:3]]
    cells = [int(cell) for cell in cells]
    expected = level_codes(np.array([str(cell) for cell in cells], dtype=object), levels)
    mixed = np.array([*cells, "x"], dtype=object)[:-1]
    for values in (np.array(cells), pa.array(cells), mixed, pa.array([Decimal(cell) for cell in cells])):
        np.testing.assert_array_equal(level_codes(values, levels), expected)


def test_a_fit_is_the_same_for_long_codes_as_text_and_as_numbers():
    rng = np.random.default_rng(0)
    code = rng.choice(CODES, 500)
    frame = pd.DataFrame({"code": code, "y": (rng.random(500) < np.where(code == CODES[1], 0.8, 0.3)) * 1})
    schema = {
        "code": {"type": "categorical", "levels": LEVELS},
        "y": {"type": "numeric", "lower": 0, "upper": 1},
    }
    fits = [
        pf.logit("y ~ C(code)", data, schema=schema, solver="non-private").params
        for data in (frame, frame.astype({"code": str}))
    ]
    np.testing.assert_array_equal(*fits)
