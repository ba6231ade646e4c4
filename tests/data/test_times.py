"""Times have one spelling, of whatever type they are."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privfit as pf
from privfit.data.columns import as_text
from privfit.data.identifiers import unit_codes
from privfit.data.levels import level_codes
from privfit.errors import SchemaError

PARIS = dt.timezone(dt.timedelta(hours=1))
MOMENT, DAY = dt.datetime(2020, 1, 1, 12), dt.timedelta(days=1)
LONGEST = 10**8 * DAY


def texts(values):
    return as_text(values).to_pylist()


def objects(*cells):
    out = np.empty(len(cells), dtype=object)
    out[:] = cells
    return out


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_the_unit_of_a_type_and_python_objects_change_no_spelling(unit):
    cells = {
        "2020-01-01 12:00:00": pa.array([MOMENT], pa.timestamp(unit)),
        "2020-01-01 12:00:00+00:00": pa.array([MOMENT], pa.timestamp(unit, "Europe/Paris")),
        "1 day, 0:00:00": pa.array([DAY], pa.duration(unit)),
        "-1 day, 23:59:59": pa.array([-dt.timedelta(seconds=1)], pa.duration(unit)),
        "12:00:00": pa.array([dt.time(12)], pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)),
    }
    for text, typed in cells.items():
        assert texts(typed) == [text]
        assert texts(typed.dictionary_encode()) == [text]
        assert texts(objects(typed[0].as_py(), "odd")) == [text, "odd"]
        assert level_codes(typed, ("x", text)).tolist() == [1]
    for number, text in ((np.datetime64(MOMENT, unit), "2020-01-01 12:00:00"), (DAY, "1 day, 0:00:00")):
        assert texts(objects(np.timedelta64(DAY, unit) if number is DAY else number)) == [text]


@settings(max_examples=100, deadline=None)
@given(st.datetimes(), st.timedeltas(-LONGEST, LONGEST), st.times())
def test_typed_times_are_spelled_as_python_objects(moment, duration, clock):
    for cell, kind in (
        (moment, pa.timestamp("us")),
        (moment.replace(tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
        (duration, pa.duration("us")),
        (clock, pa.time64("us")),
    ):
        assert texts(pa.array([cell, None], kind)) == [str(cell), None]
        assert texts(objects(cell, 7)) == [str(cell), "7"]


def test_moments_in_zones_are_spelled_in_one():
    """An array has the zone of its first cell."""
    cells = [MOMENT.replace(tzinfo=PARIS), MOMENT.replace(tzinfo=dt.UTC)]
    expected = ["2020-01-01 11:00:00+00:00", "2020-01-01 12:00:00+00:00"]
    for order in (slice(None), slice(None, None, -1)):
        for column in (
            pa.array(cells[order]),
            objects(*cells[order]),
            objects(*map(pd.Timestamp, cells[order])),
        ):
            assert texts(column) == expected[order]


def test_fractions_and_far_years():
    assert texts(pa.array([1, -1, 500], pa.int64()).cast(pa.timestamp("ns"))) == [
        "1970-01-01 00:00:00.000000001",
        "1969-12-31 23:59:59.999999999",
        "1970-01-01 00:00:00.000000500",
    ]
    stamps = pd.to_datetime([1, 500_000], unit="ns")
    assert texts(objects(*stamps)) == ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:00.000500"]
    far = pa.array([2**60, -(2**63), None], pa.int64()).cast(pa.timestamp("us"))
    assert texts(far) == ["38504-08-17 21:30:06.846976", None, None]
    assert unit_codes(far)[0].tolist() == [0, -1, -1]


@pytest.mark.parametrize("cell", [np.datetime64("2020"), np.datetime64("2020-01-01"), np.timedelta64(3, "M")])
def test_what_is_no_moment_is_spelled_as_it_is(cell):
    assert texts(objects(cell)) == [str(cell)]


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "m", "h", "D", "W"])
def test_arrays_of_numpy_are_spelled_as_their_cells(unit):
    """A column of a mapping, a response and identifiers, which are not in a frame, are such arrays."""
    for cells in (
        np.array(["2020-01-02", "NaT", "1969-12-25"], f"M8[{unit}]"),
        np.array([1, -9], f"m8[{unit}]"),
    ):
        assert texts(cells) == texts(objects(*cells))
        assert level_codes(cells, ("x", texts(cells)[0]))[0] == 1
        assert unit_codes(cells)[1] == 2


@pytest.mark.parametrize("kind", ["M8[Y]", "M8[M]", "m8[M]", "m8", "M8[ps]"])
def test_arrays_of_numpy_that_have_no_such_spelling_are_refused(kind):
    with pytest.raises(SchemaError, match="does not hold levels"):
        as_text(np.zeros(3, kind))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_are_levels_wherever_they_stand(unit):
    days = pd.date_range("2020-01-01", periods=3, unit=unit)
    frame = pd.DataFrame({"y": np.arange(300) / 300, "d": days[np.arange(300) % 3]})
    schema = pf.Schema(
        {
            "y": {"type": "numeric", "lower": 0, "upper": 1},
            "d": {"type": "categorical", "levels": [str(day) for day in days], "target": True},
        }
    )
    expected = pf.ols("y ~ d", frame, schema=schema, solver="non-private").params
    for column in (frame["d"], frame["d"].to_numpy(), pd.DatetimeIndex(frame["d"]), list(frame["d"])):
        given = {"y": frame["y"].to_numpy(), "d": column}
        found = pf.ols("y ~ d", given, schema=schema, solver="non-private").params
        np.testing.assert_array_equal(found, expected)
        by_y = pf.LogisticRegression(schema=schema, solver="non-private").fit(frame[["y"]], column)
        np.testing.assert_array_equal(
            by_y.coef_, pf.LogisticRegression(schema=schema, solver="non-private").fit(frame).coef_
        )
        grouped = pf.LinearRegression(schema=schema, solver="non-private").fit(frame, "y", groups=column)
        assert grouped.result_.nobs == 3


def test_an_empty_column():
    assert texts(pa.array([], pa.timestamp("us"))) == []
    assert texts(pa.chunked_array([], pa.duration("s"))) == []
