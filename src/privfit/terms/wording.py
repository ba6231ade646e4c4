"""How error messages quote a formula: in one line, short, and printable."""

import re
from collections.abc import Iterable

from privfit.data.schema import suggestion

_LONGEST = 60


def quoted(text: str) -> str:
    """Return text in quotes, shortened, with escapes for what does not print."""
    return repr(shortened(text))


def shortened(text: str) -> str:
    """Return text in one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def undeclared(name: str, known: Iterable[str]) -> str:
    """Return that a formula names a column that is not declared, and which one may be meant."""
    names = list(known)
    parted = [one for one in names if not one.isidentifier() and name in re.split(r"\W+", one)]
    near = f"; write names like {quoted(parted[0])} in backticks" if parted else suggestion(name, names)
    return f"formula: column {quoted(name)} is not in the schema{near}"
