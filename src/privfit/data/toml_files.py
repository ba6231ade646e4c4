"""Declarations of columns in TOML files."""

import contextlib
import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

from privfit._checks import is_path
from privfit.errors import SchemaError

ROW_NORM = "row_norm"
"""Key of the bound on rows, beside the names of columns."""


def read_declarations(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises
    ------
    SchemaError
        If the file cannot be read or is not TOML.
    """
    file = _file(path)
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise SchemaError(f"schema file {str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"schema file {str(path)!r} must be UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        rule = " ".join(str(error).split())
        raise SchemaError(f"schema file {str(path)!r} is not TOML: {rule}") from None


def write_declarations(
    path: str | os.PathLike[str], entries: dict[str, Any], *, remark: str | None = None
) -> None:
    """Write tables as TOML, below a remark; an existing file is replaced in one step or left alone.

    Raises
    ------
    SchemaError
        If the file cannot be written.
    """
    target = _file(path)
    draft = target.parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        head = "" if remark is None else f"# {remark}\n\n"
        draft.write_text(head + _toml(entries), encoding="utf-8", newline="\n")
        draft.replace(target)
    except OSError as error:
        raise SchemaError(f"schema file {str(path)!r} cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def _file(path: object) -> Path:
    if not is_path(path):
        raise SchemaError(f"schema file must be the path of a TOML file, got {type(path).__name__}")
    return Path(path)


def _toml(entries: dict[str, Any]) -> str:
    lines = [f"{ROW_NORM} = {_toml_value(entries[ROW_NORM])}\n"] if _has_row_norm(entries) else []
    for name, table in entries.items():
        if isinstance(table, dict):
            body = (f"{key} = {_toml_value(value)}" for key, value in table.items())
            lines.append("\n".join([f"[{_toml_key(name)}]", *body]) + "\n")
    return "\n".join(lines)


def _has_row_norm(entries: dict[str, Any]) -> bool:
    return isinstance(entries.get(ROW_NORM), float)


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml_value(name)


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value)
