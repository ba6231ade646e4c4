"""How error messages quote a formula: in one line, short, and printable."""

_LONGEST = 60


def quoted(text: str) -> str:
    """Return text in quotes, shortened, with escapes for what does not print."""
    return repr(shortened(text))


def shortened(text: str) -> str:
    """Return text in one line of at most 60 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
