"""The text of times: one spelling, whether they are Python objects or of a type of NumPy or Arrow.

A type may be decided by a cell, as that of a part of a folder, and so must not decide how others are spelled.
Fractions of a second are left out where they are 0 and have six digits, or nine, where they are not. A moment
in a time zone is spelled in UTC, since what holds many of them has the zone of one.
"""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from privfit.errors import SchemaError

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WHOLE_SECONDS = ("m", "h", "D", "W")
_LAST = np.iinfo(np.int64).min
"""What pandas and NumPy hold in place of a missing time."""


def holds_times(kind: pa.DataType) -> bool:
    """Return whether a type is of moments, times of the day or durations; dates have one spelling anyway."""
    return pa.types.is_timestamp(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind)


def text_of_times(cells: pa.Array) -> pa.Array:
    """Return the text of times as a large_string array."""
    kind = cells.type
    plain = cells.cast(pa.int32()) if pa.types.is_time32(kind) else cells
    ticks = plain.cast(pa.int64()).fill_null(_LAST).to_numpy(zero_copy_only=False)
    second, fraction = np.divmod(ticks, _PER_SECOND[kind.unit])
    if pa.types.is_timestamp(kind):
        text = _moments(second)
    else:
        text = [(_duration if pa.types.is_duration(kind) else _clock)(int(one)) for one in second]
    zone = "+00:00" if getattr(kind, "tz", None) is not None else ""
    ends = [_decimals(int(one)) + zone for one in fraction * (10**9 // _PER_SECOND[kind.unit])]
    spelled = [one + end for one, end in zip(text, ends, strict=True)]
    return pa.array(spelled, pa.large_string(), mask=ticks == _LAST)


def times_of_numpy(cells: NDArray[Any]) -> pa.Array:
    """Return moments, dates or durations of NumPy as those of Arrow.

    Raises
    ------
    SchemaError
        If they are counted in months, years or less than nanoseconds.
    """
    kind, (unit, _) = cells.dtype.kind, np.datetime_data(cells.dtype)
    if kind == "M" and unit in "DW":
        unit = "D"
    elif unit in _WHOLE_SECONDS:
        unit = "s"
    elif unit not in _PER_SECOND:
        raise SchemaError(f"has the type {cells.dtype}, which does not hold levels; convert it first")
    return pa.array(cells.astype(f"{kind}8[{unit}]"))


def text_of_time(cell: object) -> str | None:
    """Return the text of a Python object that is a time; None if it is none, or one with another spelling."""
    if isinstance(cell, pd.Timestamp):
        return _as_arrow(cell.to_datetime64(), None if cell.tzinfo is None else "UTC")
    if isinstance(cell, datetime.datetime):
        return str(cell if cell.utcoffset() is None else cell.astimezone(datetime.UTC))
    if isinstance(cell, pd.Timedelta):
        return _as_arrow(cell.to_timedelta64())
    if isinstance(cell, np.datetime64 | np.timedelta64):
        return _of_numpy(cell)
    return None


def _of_numpy(cell: np.datetime64 | np.timedelta64) -> str | None:
    unit, _ = np.datetime_data(cell.dtype)
    if unit not in (*_PER_SECOND, *_WHOLE_SECONDS) or (unit in "DW" and cell.dtype.kind == "M"):
        return None
    return _as_arrow(cell.astype(f"{cell.dtype.kind}8[{unit if unit in _PER_SECOND else 's'}]"))


def _as_arrow(cell: Any, zone: str | None = None) -> str:
    cells = pa.array(np.array([cell]))
    return text_of_times(cells if zone is None else cells.cast(pa.timestamp(cells.type.unit, zone)))[
        0
    ].as_py()


def _moments(second: NDArray[np.int64]) -> list[str]:
    return [text.replace("T", " ") for text in np.datetime_as_string(second.view("M8[s]")).tolist()]


def _clock(second: int) -> str:
    return f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _duration(second: int) -> str:
    days, rest = divmod(second, 86400)
    before = f"{days} day{'' if abs(days) == 1 else 's'}, " if days else ""
    return f"{before}{rest // 3600}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _decimals(nanoseconds: int) -> str:
    if nanoseconds % 1000:
        return f".{nanoseconds:09d}"
    return f".{nanoseconds // 1000:06d}" if nanoseconds else ""
