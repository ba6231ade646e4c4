"""Where results go: standard output and files."""

import os
from collections.abc import Iterable
from pathlib import Path

from privfit.errors import InvalidArgument
from privfit.results import FitResult
from privfit.results.archive import write_atomically
from privfit.results.report import page


def check_writable(path: Path | None, *, option: str, inputs: Iterable[Path | None] = ()) -> None:
    """Raise `InvalidArgument` unless a file can be written there that is none of the inputs.

    Asked before any budget is spent.
    """
    if path is None:
        return
    if path.exists() and any(
        given is not None and given.exists() and path.samefile(given) for given in inputs
    ):
        raise InvalidArgument(f"{option} names a file that is read; it would be replaced")
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InvalidArgument(f"{option} must name a file in an existing folder that can be written to")


def write_html(result: FitResult, path: Path, level: float) -> None:
    """Write the summary as one self-contained page."""
    write_atomically(path, page(result.summary(level), result.target))
