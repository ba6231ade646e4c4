"""Files that a command reads: tables, and results that were written before."""

from collections.abc import Sequence
from pathlib import Path

from privfit.cli.request import TextFile
from privfit.data.tables import Table, open_table
from privfit.errors import InvalidArgument, PrivfitError
from privfit.results import FitResult


def read_result(path: Path) -> FitResult:
    """Return the result in a file, or raise `InvalidArgument` if there is no file."""
    if not path.is_file():
        raise InvalidArgument(f"result must name a JSON file that fit --out wrote; there is none at {path}")
    try:
        return FitResult.from_json(path)
    except PrivfitError as error:
        raise type(error)(str(error).replace("text_or_path", f"result {str(path)!r}")) from None


def read_table(file: TextFile, needed: Sequence[str] | None = None) -> Table:
    """Read the needed columns of a data file, or all."""
    return open_table(file.path, needed=needed, columns=file.columns, header=file.header, sep=file.sep)
