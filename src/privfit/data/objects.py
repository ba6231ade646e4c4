"""The cells of a column of Python objects, each read by itself: as text, as a number, or as missing."""

import codecs
import contextlib
import math
from collections.abc import Iterable
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit._silent import silence
from privfit.data.times import text_of_time


def text_of_objects(cells: NDArray[Any]) -> pa.Array:
    """Return the text of Python objects as a large_string array, not yet stripped, null where missing.

    Notes
    -----
    *Guarantee.* The text of a cell depends on that cell alone. `pyarrow.array` reads all cells at once only
    where all are text, which it reads as `spelled` does: where one cell is anything else it would refuse all.
    """
    if only_text(cells):
        with contextlib.suppress(Exception):  # text with half a character, or a NaN of NumPy
            return pa.array(cells, pa.large_string(), from_pandas=True)
    return spelled_each(cells)


def spelled_each(cells: Iterable[object]) -> pa.Array:
    """Return what `spelled` does of each cell; nothing is warned of, as a cell may when it is printed."""
    with silence:
        return pa.array([spelled(cell) for cell in cells], pa.large_string())


def spelled(cell: object) -> str | None:
    """Return the text of a Python object; None if it is missing, or cannot be printed.

    Text and bytes of any class count as they are, whatever the class prints in their place.
    """
    try:
        text = _text(cell)
        return None if text is None else text_of_bytes(text.encode("utf-8", "surrogatepass"))
    except Exception:  # an object that cannot be printed is a missing cell, not an error
        return None


def text_of_bytes(cell: bytes) -> str:
    """Return the text that bytes hold, those that are none spelled out: cells that differ stay apart."""
    return cell.decode("utf-8", _MALFORMED)


def _spelled_out(error: UnicodeError) -> tuple[str, int]:
    """Return malformed bytes as text that is neither a number nor a level, and where to go on."""
    assert isinstance(error, UnicodeDecodeError)  # noqa: S101 -- the handler decodes only
    return "".join(f"\ufffd{byte:02x}" for byte in error.object[error.start : error.end]), error.end


_MALFORMED = "privfit.spelled_out"
codecs.register_error(_MALFORMED, _spelled_out)


def number(cell: Any) -> float:
    """Return a number or true/false as a float; NaN for anything else, text that spells a number included."""
    try:
        return float(cell) if _is_number(cell) else math.nan
    except OverflowError:  # beyond floating point, which no level is
        return math.inf
    except Exception:  # a duration is a whole number to NumPy, and a signalling NaN one to Python
        return math.nan


def numbers_of_objects(cells: NDArray[Any]) -> FloatArray:
    """Return the numbers and true/false among Python objects, NaN for all others."""
    if only_text(cells):
        return np.full(cells.size, np.nan)
    with silence:  # a cell may warn when it is read
        return np.array([number(cell) for cell in cells], dtype=np.float64)


def only_text(cells: NDArray[Any]) -> bool:
    """Return whether Python objects are text or missing, so that none needs to be looked at as a number."""
    try:
        with silence:
            return pd.api.types.infer_dtype(cells) == "string"
    except Exception:  # an object that cannot be asked what it is
        return False


def _text(cell: Any) -> str | None:
    if isinstance(cell, str):
        return str.__str__(cell)
    if isinstance(cell, bytes | bytearray | memoryview):
        return text_of_bytes(memoryview(cell).tobytes())
    if isinstance(cell, pa.Scalar):
        return _text(cell.as_py())
    if _is_missing(cell):
        return None
    time = text_of_time(cell)
    return str(cell) if time is None else time


def _is_missing(cell: Any) -> bool:
    if type(cell) in (int, bool):
        return False
    found = cell is np.ma.masked or pd.isna(cell)
    return isinstance(found, bool | np.bool_) and bool(found)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Real | Decimal | np.bool_) and not isinstance(cell, str)
