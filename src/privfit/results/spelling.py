"""Names of coefficients and terms as a formula spells them: ```my x`:z`` for ``my x:z``."""

import re
from functools import lru_cache
from itertools import permutations

_PIECE = re.compile(r"""\s+|\w+|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`|[*<>=!]+|.""", re.DOTALL)

_MOST_ORDERED = 4
"""Factors of a term whose order is free."""


def end_of(name: str, text: str, at: int) -> int | None:
    """Return where a name that is spelled at this place of a text ends, or None if another stands there.

    It is spelled as it is, in backquotes as a whole, or with factors in them, up to their levels.

    Parameters
    ----------
    name : str
        Of a coefficient or term; factors are joined by a colon, and levels are in brackets.
    text : str
    at : int
    """
    if not name:
        return None
    for whole in (name, f"`{name}`"):
        if text.startswith(whole, at):
            return at + len(whole)
    place, quoted = 0, False
    while place < len(name) or quoted:
        here, there = name[place : place + 1], text[at : at + 1]
        if here and here == there:
            place += 1
        elif there == "`" and (here in ("", ":", "[") if quoted else _begins(name, place)):
            quoted = not quoted
        else:
            return None
        at += 1
    return at


def is_spelled(name: str, text: object) -> bool:
    """Return whether what was given is a text that spells this name and nothing else."""
    return isinstance(text, str) and end_of(name, text, 0) == len(text)


def _begins(name: str, place: int) -> bool:
    """Return whether a factor begins at this place, perhaps behind the name of a class."""
    return place == 0 or name.endswith((":", ": "), 0, place)


def end_in_other_words(name: str, text: str, at: int) -> int | None:
    """Return where a name ends that is spelled as a formula may, though its table does not; None for another.

    Within brackets spaces and the kind of quotes are free, and so is the order of factors: ``b:I(a**2)`` for
    ``I(a ** 2):b``. Whoever asks is to look for names that are spelled as they are first, and to believe this
    where it is true of one name alone.
    """
    found = _pattern(name).match(text, at)
    return found.end() if name and found else None


def is_in_other_words(name: str, text: object) -> bool:
    """Return whether a text spells this name, as in `end_in_other_words`, and nothing else."""
    return isinstance(text, str) and end_in_other_words(name, text.strip(), 0) == len(text.strip())


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    of_class, apart, product = name.rpartition(": ")
    factors = [_factor(factor) for factor in _factors(product)]
    orders = permutations(factors) if len(factors) <= _MOST_ORDERED else [factors]
    products = "|".join(r"\s*:\s*".join(order) for order in orders)
    return re.compile(f"{re.escape(of_class + apart)}(?:{products})")


def _factors(product: str) -> list[str]:
    """Return what colons outside of brackets and quotes join."""
    factors, depth = [""], 0
    for piece in _PIECE.findall(product):
        depth += (piece in ("(", "[")) - (piece in (")", "]"))
        if piece == ":" and depth == 0:
            factors.append("")
        else:
            factors[-1] += piece
    return factors


def _factor(factor: str) -> str:
    """Return a pattern of a factor as it is, or with it or all before its level in backquotes."""
    head, bracket, level = factor.partition("[")
    whole, level = _spaced(factor), re.escape(bracket + level)
    return f"(?:{whole}|`{whole}`|`{_spaced(head)}`{level})"


def _spaced(text: str) -> str:
    pattern, depth = "", 0
    for piece in _PIECE.findall(text):
        if depth and piece.isspace():
            continue
        is_text = depth > 0 and len(piece) > 1 and piece[0] in "'\""
        pattern += _quoted(piece) if is_text else re.escape(piece)
        depth = max(depth + (piece == "(") - (piece == ")"), 0)
        pattern += r"\s*" if depth else ""
    return pattern


def _quoted(literal: str) -> str:
    """Return a pattern of a text of Python in quotes of either kind."""
    content = literal[1:-1].replace("\\'", "'").replace('\\"', '"')
    either = (re.escape(quote + content.replace(quote, f"\\{quote}") + quote) for quote in "'\"")
    return f"(?:{'|'.join(either)})"
