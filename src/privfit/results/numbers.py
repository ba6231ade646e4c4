"""How numbers and names are written in summaries."""

import math
import unicodedata
from collections import Counter
from collections.abc import Sequence


def significant(value: float, digits: int = 4) -> str:
    """Write a number with ``digits`` significant digits, in positional notation where that is short."""
    if not math.isfinite(value):
        return _special(value)
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"
    exponent = int(scientific.partition("e")[2])
    if -4 <= exponent < 7:
        return f"{value:.{max(digits - 1 - exponent, 0)}f}"
    return scientific


def fixed(value: float, decimals: int) -> str:
    """Write a number with a fixed number of decimals; large ones with 4 significant digits."""
    if not math.isfinite(value):
        return _special(value)
    return f"{value:.{decimals}f}" if abs(value) < 1e5 else significant(value)


def pvalue(value: float) -> str:
    """Write a p-value with three decimals, ``<0.001`` below."""
    return "<0.001" if value < 0.001 else fixed(value, 3)


def percent(value: float) -> str:
    """Write a share as a percentage with one decimal."""
    return fixed(100 * value, 1)


def confidence(level: float) -> str:
    """Write the coverage of intervals in percent, which is never 100."""
    return _short_of(100.0 * level, 100.0)


def ends(level: float) -> tuple[str, str]:
    """Write the headings of both ends of intervals: the part of estimates below each, never 0 or 1."""
    tail = (1.0 - level) / 2.0
    upper = _short_of(1.0 - tail, 1.0) if 1.0 - tail < 1.0 else f"1-{tail:.6g}"
    return f"[{tail:.6g}", f"{upper}]"


def _short_of(value: float, limit: float) -> str:
    """Write a number below a limit with six digits, or with as many as tell it from that."""
    texts = (f"{value:.{digits}g}" for digits in range(6, 18))
    return next(text for text in texts if float(text) < limit)


def _special(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


def clean(text: str) -> str:
    """Replace control and other unprintable characters, which could garble a terminal."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    return sum(_char_width(char) for char in text)


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shorten(text: str, width: int) -> str:
    """Shorten a text to ``width`` terminal columns by an ellipsis in its middle."""
    if display_width(text) <= width:
        return text
    head = _take(text, width // 2)
    tail = _take(text[::-1], width - 1 - width // 2)[::-1]
    return f"{head}…{tail}"


def shorten_all(names: Sequence[str], width: int) -> list[str]:
    """Shorten labels to ``width`` columns; those that would look alike get their position added."""
    short = [shorten(name, width) for name in names]
    counts = Counter(short)
    return [
        label if counts[label] == 1 else _numbered(name, position, width)
        for position, (name, label) in enumerate(zip(names, short, strict=True), start=1)
    ]


def _numbered(name: str, position: int, width: int) -> str:
    suffix = f" #{position}"
    return shorten(name, max(width - len(suffix), 1)) + suffix


def _take(text: str, width: int) -> str:
    taken = 0
    for index, char in enumerate(text):
        taken += _char_width(char)
        if taken > width:
            return text[:index]
    return text
