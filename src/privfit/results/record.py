"""The JSON file around a result: what it is, which versions wrote it, and what it promises."""

import os
from typing import Any

from privfit.errors import SchemaError
from privfit.results import archive

_FORMAT = "privfit.FitResult"
_FORMAT_VERSION = 2
"""Version 1 lacks what encodes new rows, and the scales of columns."""
_KEYS = {"format", "format_version", "warning", "guarantee", "versions", "result"}


def written(result: object, *, warning: str | None, guarantee: str) -> str:
    """Return a result as strict JSON."""
    return archive.dumps(
        {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "warning": warning,
            "guarantee": guarantee,
            "versions": archive.package_versions(),
            "result": archive.encode(result),
        }
    )


def read(text_or_path: str | os.PathLike[str]) -> Any:
    """Return what stands for the result in a text or file that `written` made, the rest of it checked."""
    record = archive.loads(archive.read_text(text_or_path))
    _check(record)
    return record["result"]


def _check(record: dict[str, Any]) -> None:
    """Raise `SchemaError` unless the outer object is of this format and version."""
    if record.get("format") != _FORMAT:
        raise SchemaError(f'format must be "{_FORMAT}": the JSON was not written by FitResult.to_json')
    version = record.get("format_version")
    if type(version) is not int or version < 1:
        raise SchemaError("format_version must be a whole number from 1")
    if version > _FORMAT_VERSION:
        raise SchemaError("format_version is newer than this privfit can read; upgrade privfit")
    archive.check_keys(record, _KEYS, _KEYS, "the JSON")
    if not isinstance(record["warning"], str | None) or not isinstance(record["guarantee"], str):
        raise SchemaError("warning and guarantee must be texts")
    versions = record["versions"]
    if not isinstance(versions, dict) or not all(isinstance(item, str) for item in versions.values()):
        raise SchemaError("versions must be an object of texts")
