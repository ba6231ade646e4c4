"""Names of columns: which ones a table has."""

from collections.abc import Iterable, Sequence

from privfit.errors import SchemaError


def absent(name: str) -> str:
    """Return the message for a column that the data lack.

    It names no column that the data have: the first row of a file without header would be taken for names.
    """
    return f"column {name!r} is not in the data; check its name, and for a text file its sep and header line"


def present(names: Sequence[str], needed: Sequence[str] | None) -> list[str]:
    """Return the needed columns, each once, or raise `SchemaError` if ``names`` lacks one.

    Where none is needed the first one is read all the same, because it says how many rows there are.
    """
    if needed is None:
        return list(names)
    if not needed:
        return list(names[:1])
    for name in needed:
        if name not in names:
            raise SchemaError(absent(name))
    return list(dict.fromkeys(needed))


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names, or raise `SchemaError` if one is repeated."""
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise SchemaError("data has two columns of the same name; rename one")
    return listed
