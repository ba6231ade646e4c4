"""Frozen dataclasses to strict JSON and back, with every float kept exactly.

Reading trusts nothing: types are checked against the field annotations, no name in the text is ever looked up
or executed, and a message says where the text is wrong, never what it holds. Only what a schema declares, and
its names, may be quoted, by the errors of schemas.
"""

import contextlib
import errno
import json
import math
import numbers
import os
import secrets
import types
from collections.abc import Callable, Set
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from privfit._checks import FloatArray, is_path
from privfit.data.schema import Schema
from privfit.errors import Incompatible, InvalidArgument, PrivfitError, SchemaError

T = TypeVar("T")

MAX_BYTES = 2**28
"""Largest file or text that is read."""

_PLAIN = (str, bool, int)
"""Types whose values are JSON as they are."""

_NO_PLACE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
"""Errors of the system about a path that no file can be written to."""

_SPECIAL = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_PACKAGES = ("privfit", "numpy", "scipy", "opendp")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    return {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"


def kept_as(write: Callable[[Any], Any], read: Callable[[Any, str], Any]) -> dict[str, Any]:
    """Return metadata of a dataclass field whose value is no plain record.

    Parameters
    ----------
    write : callable
        From the value to JSON-ready types.
    read : callable
        From what is in the JSON, and its place for messages, to the value; raises `SchemaError`.
    """
    return {"write": write, "read": read}


# --- writing ------------------------------------------------------------------------------------------------


def encode(value: object) -> Any:
    """Return a value as JSON-ready types; floats that JSON lacks become "inf", "-inf" and "nan"."""
    if value is None or type(value) in _PLAIN or isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_ | numbers.Real):
        return _encode_number(value)
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if isinstance(value, Schema):
        return {name: _encode_declaration(entry) for name, entry in value.to_dict().items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {name: write(getattr(value, name)) for name, write in _writers(type(value)).items()}
    raise InvalidArgument(f"a {type(value).__name__} cannot be part of a result's JSON")


@cache
def _writers(cls: type[Any]) -> dict[str, Callable[[Any], Any]]:
    """Return what writes each field of a dataclass: a plan may hold ten thousand records of one class."""
    return {field.name: field.metadata.get("write", encode) for field in fields(cls)}


def _encode_declaration(entry: Any) -> Any:
    """Return a column of a schema as it was declared, or the bound on its rows."""
    return {key: encode(item) for key, item in entry.items()} if isinstance(entry, dict) else encode(entry)


def _encode_number(value: Any) -> bool | int | float | str:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return int(value) if isinstance(value, numbers.Integral) else _encode_float(float(value))


def _encode_float(value: float) -> float | str:
    return value if math.isfinite(value) else "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _encode_array(array: np.ndarray[Any, Any]) -> Any:
    if array.ndim == 1:
        return [_encode_float(item) for item in array.astype(float).tolist()]
    return [_encode_array(row) for row in array]


def dumps(record: dict[str, Any]) -> str:
    """Return strict JSON: one line per entry of the record, and of the objects in it, to be easy to read."""
    return _dump(record, depth=0) + "\n"


def _dump(value: Any, depth: int) -> str:
    if isinstance(value, dict) and value and depth < 3:
        pad = "  " * (depth + 1)
        lines = [f"{pad}{_scalar(key)}: {_dump(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + "  " * depth + "}"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Write a file so that readers find the old or the new content, never a part; text is UTF-8.

    Raises
    ------
    InvalidArgument
        If it is no path, or not in a folder that can be written to. A disk that fails is an OSError.
    """
    if not is_path(path):
        raise InvalidArgument(f"path must be the path of a file, got {type(path).__name__}")
    try:
        _replace(Path(path), content.encode() if isinstance(content, str) else content)
    except OSError as error:
        if not isinstance(error, _NO_PLACE) and error.errno != errno.ENAMETOOLONG:
            raise
        raise InvalidArgument(
            f"path must name a file in an existing folder that can be written to, got {str(path)!r}"
        ) from error


def _replace(target: Path, content: bytes) -> None:
    if target.is_dir():
        raise IsADirectoryError
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with draft.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


# --- reading ------------------------------------------------------------------------------------------------


def read_text(text_or_path: object) -> str:
    """Return JSON text itself, or the content of the file that a path names."""
    if isinstance(text_or_path, str) and text_or_path.lstrip("\ufeff \t\r\n").startswith("{"):
        text = text_or_path
    elif isinstance(text_or_path, str | os.PathLike):
        text = _read_file(text_or_path)
    else:
        raise InvalidArgument("text_or_path must be JSON text (starting with '{') or the path of a file")
    if len(text) > MAX_BYTES:
        raise InvalidArgument(f"text_or_path is larger than the limit of {MAX_BYTES} bytes")
    return text.lstrip("\ufeff")


def _read_file(path: Any) -> str:
    try:
        file = Path(path)
        if not file.is_file():
            raise InvalidArgument(
                "text_or_path is neither JSON text (starting with '{') nor an existing file"
            )
        if file.stat().st_size > MAX_BYTES:
            raise InvalidArgument(f"text_or_path is larger than the limit of {MAX_BYTES} bytes")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SchemaError("text_or_path is not a text file in UTF-8") from None
    except PrivfitError:
        raise
    except (OSError, ValueError, TypeError) as error:
        raise InvalidArgument(f"text_or_path cannot be read: {type(error).__name__}") from None


def loads(text: str) -> dict[str, Any]:
    """Parse strict JSON (no NaN literals, no key twice) that holds an object, or raise `SchemaError`."""
    try:
        record = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except SchemaError:
        raise
    except RecursionError:
        raise SchemaError("the JSON is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise SchemaError(
            f"the JSON is malformed at line {error.lineno}, column {error.colno}: {error.msg}"
        ) from None
    except ValueError:
        raise SchemaError("the JSON holds a number that is too long") from None
    if not isinstance(record, dict):
        _refuse("the JSON", "an object")
    return record


def _refuse_constant(_: str) -> NoReturn:
    raise SchemaError("the JSON holds NaN or Infinity; write them as strings")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise SchemaError("the JSON holds a key twice")
    return result


@cache
def _readers(cls: type[Any]) -> tuple[dict[str, Callable[[Any, str], Any]], frozenset[str]]:
    """Return what reads each field of a dataclass, and the fields that have no default."""
    hints, wanted = get_type_hints(cls), fields(cls)
    readers = {one.name: one.metadata.get("read") or partial(_decode, hints[one.name]) for one in wanted}
    required = {one.name for one in wanted if one.default is MISSING and one.default_factory is MISSING}
    return readers, frozenset(required)


def decode_dataclass(cls: type[T], value: Any, where: str) -> T:
    """Build a dataclass from `encode`'s output, checking every field against its annotation.

    ``where`` names the place in messages, e.g. ``"result.plan"``.
    """
    if not isinstance(value, dict):
        _refuse(where, "an object")
    readers, required = _readers(cls)
    check_keys(value, required, readers.keys(), where)
    decoded = {name: readers[name](item, f"{where}.{name}") for name, item in value.items()}
    try:
        return cls(**decoded)
    except Incompatible:
        raise SchemaError(f"{where} holds entries that do not go together") from None


def check_keys(value: dict[str, Any], required: Set[str], allowed: Set[str], where: str) -> None:
    """Raise `SchemaError` unless the object has all required keys and no others than the allowed ones."""
    missing = sorted(required - value.keys())
    if missing:
        raise SchemaError(f"{where} lacks {', '.join(missing)}")
    if value.keys() - allowed:
        raise SchemaError(f"{where} may only hold {', '.join(sorted(allowed))}")


def _decode(hint: Any, value: Any, where: str) -> Any:
    """Return the value as the annotated type; the order of the cases is from simple to composed."""
    origin, inner = _parts(hint)
    if hint in (str, bool, int, float) or origin is Literal:
        return _decode_scalar(hint, value, where)
    if origin is np.ndarray:
        return decode_array(value, where)
    if origin in (Union, types.UnionType):
        return _decode_union(inner, value, where)
    if origin is tuple:
        return tuple(_decode(inner[0], item, f"{where}[{i}]") for i, item in enumerate(_list(value, where)))
    return _decode_schema(value, where) if hint is Schema else decode_dataclass(hint, value, where)


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type's class, also where NumPy names its arrays by an alias (2.5), and what it is of."""
    origin = get_origin(hint)
    return get_origin(getattr(origin, "__value__", None)) or origin, get_args(hint)


def _decode_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    """Return None, or the one type that there is beside it, or one of several scalar types as it is."""
    some = [option for option in options if option is not types.NoneType]
    if value is None and len(some) < len(options):
        return None
    if len(some) == 1:
        return _decode(some[0], value, where)
    names = ", ".join(option.__name__ for option in some)
    return value if type(value) in some else _refuse(where, f"of one of the types {names}")


def _decode_scalar(hint: Any, value: Any, where: str) -> str | bool | int | float:
    if hint is float:
        return _decode_float(value, where)
    if get_origin(hint) is Literal:
        options = get_args(hint)
        known = isinstance(value, str) and value in options
        return value if known else _refuse(where, f"one of {', '.join(options)}")
    # by identity: true is no whole number although bool is a subclass of int
    return value if type(value) is hint else _refuse(where, f"of type {hint.__name__}")


def _decode_schema(value: Any, where: str) -> Schema:
    """Return the schema that a mapping declares; its errors name the column."""
    if not isinstance(value, dict):
        _refuse(where, "an object")
    try:
        return Schema(value)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None


def _decode_float(value: Any, where: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(where, "a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    return number if math.isfinite(number) else _refuse(where, "within the range of a float64")


def decode_array(value: Any, where: str) -> FloatArray:
    """Return a list of numbers, or of equally long lists of numbers, as an array of shape (m,) or (m, k)."""
    items = _list(value, where)
    if not items or not isinstance(items[0], list):
        return np.array([_decode_float(item, where) for item in items], dtype=float)
    rows = [[_decode_float(item, where) for item in _list(row, where)] for row in items]
    if len({len(row) for row in rows}) != 1:
        _refuse(where, "a matrix with rows of the same length")
    return np.array(rows, dtype=float)


def _list(value: Any, where: str) -> list[Any]:
    return value if isinstance(value, list) else _refuse(where, "a list")


def _refuse(where: str, rule: str) -> NoReturn:
    raise SchemaError(f"{where} must be {rule}")
