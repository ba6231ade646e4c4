"""Results that were written before."""

from pathlib import Path

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
