"""Monospaced tables."""

from collections.abc import Sequence

from privfit.results.numbers import clean, display_width, shorten_all

WIDTH = 92
"""Columns of a page."""

_NAMES = 34


def text_table(headings: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """Return the lines of a table: names on the left, cells right-justified under their headings."""
    names = shorten_all([clean(name) for name, _ in rows], _NAMES)
    cells = [list(headings), *(list(row) for _, row in rows)]
    widths = [max(display_width(row[k]) for row in cells) for k in range(len(headings))]
    first = max((display_width(name) for name in names), default=0)
    return [
        name
        + " " * (first - display_width(name))
        + "".join(
            "  " + " " * (width - display_width(cell)) + cell for cell, width in zip(row, widths, strict=True)
        )
        for name, row in zip(["", *names], cells, strict=True)
    ]
