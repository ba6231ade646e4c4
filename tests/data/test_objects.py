"""Cells of a column of Python objects: each is read by itself, whatever stands beside it."""

import datetime
import decimal
import enum
import fractions
import math
import pathlib
import uuid
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privfit.data.columns import as_number, as_text
from privfit.data.identifiers import NOBODY, unit_codes
from privfit.data.levels import level_codes


class Sex(enum.StrEnum):
    f = "f"


class Letter(str, enum.Enum):  # noqa: UP042 -- prints as Letter.f
    f = "f"


class Loud(str):
    __slots__ = ()

    def __str__(self):
        return "other"


class Mute(bytes):
    def decode(self, *_):
        raise RuntimeError


class Whole(enum.IntEnum):
    one = 1


class Silent:
    def __str__(self):
        raise RuntimeError

    __float__ = __bool__ = __len__ = __iter__ = __array__ = __str__
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError


class Nothing:
    @property
    def __class__(self):
        raise RuntimeError


class Once:
    pass


LIVE = Once()
DEAD = weakref.proxy(LIVE)
del LIVE

ODD = {
    "missing": None,
    "not a number": math.nan,
    "no time": pd.NaT,
    "NumPy's no time": np.datetime64("NaT", "s"),
    "absent": pd.NA,
    "masked": np.ma.masked,
    "infinity": math.inf,
    "whole": 1,
    "huge": 10**5000,
    "true": True,
    "NumPy's true": np.bool_(True),
    "half float": np.float16(1.5),
    "long double": np.longdouble("1e4000"),
    "decimal": decimal.Decimal("1.50"),
    "signalling NaN": decimal.Decimal("sNaN"),
    "long decimal": decimal.Decimal("1E+3000000"),
    "longer decimal": decimal.Decimal("1E+999999999999999999"),
    "short decimal": decimal.Decimal("1E-999999999"),
    "fraction": fractions.Fraction(1, 3),
    "complex": 1j,
    "whole by name": Whole.one,
    "text": "a",
    "half a character": "\ud800",
    "text by name": Sex.f,
    "named text": Letter.f,
    "loud text": Loud("f"),
    "NumPy's text": np.str_("f"),
    "bytes": b"f",
    "malformed": b"\xff\xfe",
    "mute bytes": Mute(b"f"),
    "mutable bytes": bytearray(b"f"),
    "view": memoryview(b"f"),
    "Arrow's text": pa.scalar("f"),
    "Arrow's large text": pa.scalar("f", pa.large_string()),
    "Arrow's malformed text": pa.array([b"\xff"]).view(pa.string())[0],
    "Arrow's bytes": pa.scalar(b"f"),
    "Arrow's null": pa.scalar(None, pa.string()),
    "Arrow's number": pa.scalar(1),
    "date": datetime.date(2020, 1, 1),
    "moment": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "timestamp": pd.Timestamp("2020-01-01"),
    "duration": np.timedelta64(3, "s"),
    "period": pd.Period("2020"),
    "list": [1, 2],
    "array": np.array([1, 2]),
    "array of no dimension": np.array(math.nan),
    "series": pd.Series([1]),
    "frame": pd.DataFrame({"a": [1]}),
    "identifier": uuid.UUID(int=1),
    "path": pathlib.Path("f"),
    "type": int,
    "silent": Silent(),
    "no class": Nothing(),
    "dead": DEAD,
}
LEVELS = [("f", "a", "1"), (0, 1, 1.5), (False, True)]


def objects(cells):
    out = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells):
        out[place] = cell
    return out


def readings(cells):
    """Return what each cell becomes, and which others are the same unit."""
    column = objects(cells)
    read = np.array([as_number(column), *(level_codes(column, levels) for levels in LEVELS)])
    codes, _ = unit_codes(column)
    same = np.where(codes == NOBODY, NOBODY, codes[:, None] == codes)
    return read[:, 1:], np.array(as_text(column).to_pylist()[1:]), same[1:, 1:]


def assert_read_alike(first, second):
    """Compare the readings of two columns, but those of their first rows."""
    for one, other in zip(readings(first), readings(second), strict=True):
        np.testing.assert_array_equal(one, other)


ROWS = {
    "all kinds": [*ODD.values(), *ODD.values(), "f", "1", 1.0],
    "text": ["f", "a", None],
    "text of other classes": [Letter.f, "f", Loud("f"), None],
    "numbers": [1, 2.5],
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("rows", ROWS)
def test_one_row_changes_how_no_other_is_read(rows, odd):
    """One cell that is no text made all others what they print, so that ``Letter.f`` was no level."""
    assert_read_alike(["f", *ROWS[rows]], [ODD[odd], *ROWS[rows]])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(sorted(ODD)), min_size=2, max_size=6), st.sampled_from(sorted(ODD)))
def test_no_row_of_any_kind_changes_another(names, other):
    cells = [ODD[name] for name in names]
    assert_read_alike(cells, [ODD[other], *cells[1:]])


@pytest.mark.parametrize("beside", ["a", None, 7, b"\xff", "\ud800"])
def test_text_and_bytes_of_any_class_count_as_they_are(beside):
    kinds = [
        "named text",
        "text by name",
        "loud text",
        "NumPy's text",
        "bytes",
        "mute bytes",
        "mutable bytes",
        "view",
        "Arrow's text",
        "Arrow's bytes",
    ]
    column = objects([*(ODD[name] for name in kinds), beside])
    assert as_text(column).to_pylist()[:-1] == ["f"] * len(kinds)
    assert set(unit_codes(column)[0][:-1].tolist()) == {0}
    number = objects([Loud("1.5"), bytearray(b"1.5"), beside])
    np.testing.assert_array_equal(as_number(number)[:2], [1.5, 1.5])


@pytest.mark.parametrize("name", ["missing", "absent", "masked", "no time", "signalling NaN", "Arrow's null"])
def test_what_is_missing(name):
    assert as_text(objects([ODD[name], "f", 7])).to_pylist() == [None, "f", "7"]
