"""Linear hypotheses on coefficients, written as text: ``"age = 0, 2*hours - age = 40"``.

The parser knows the coefficients' names, so that ``C(education)[T.Some-college, no degree]`` needs no quoting
although it holds operators and a comma. Where a name reads like a number it is put in backquotes, and factors
may be in them as in a formula.
formulaic's ``LinearConstraints`` would not do: it refuses interactions (``sex[T.Male]:age``) and ``age=-1``.
"""

import re
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from privfit._checks import FloatArray
from privfit.data.schema import suggestion
from privfit.errors import InvalidArgument
from privfit.inference.wald import hypothesis_matrix, hypothesis_values
from privfit.results.numbers import clean, shorten
from privfit.results.spelling import end_in_other_words, end_of

_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_OPERATORS = "+-*/=,"
_SHOWN = 60
_MAX_LENGTH = 100_000
_LARGEST = 1e100

Token: TypeAlias = tuple[Literal["name", "number", "operator"], str]


def hypotheses(
    R: ArrayLike | str | Sequence[str], r: ArrayLike | None, names: Sequence[str]
) -> tuple[FloatArray, FloatArray]:
    """Return hypotheses that were given as text or texts, or as a matrix and values, as matrix and vector."""
    texts = _texts(R)
    if texts:
        if r is not None:
            raise InvalidArgument('r must be None where R is a text; write the values in it: "age = 40"')
        parsed = [parse_constraints(text, names) for text in texts]
        R, r = np.vstack([rows for rows, _ in parsed]), np.concatenate([values for _, values in parsed])
    matrix = hypothesis_matrix(_in_order(R, names), len(names))
    return matrix, hypothesis_values(r, len(matrix))


def _texts(R: ArrayLike | str | Sequence[str]) -> list[str]:
    """Return the texts that hypotheses were given as; none if they were given as numbers."""
    given = list(R) if isinstance(R, list | tuple) else [R]
    texts = [one for one in given if isinstance(one, str)]
    if texts and len(texts) < len(given):
        raise InvalidArgument("R must be numbers, a text, or a list of nothing but texts")
    return texts


def _in_order(R: ArrayLike, names: Sequence[str]) -> ArrayLike:
    """Return columns of a frame, or entries of a series, that have names in the order of coefficients."""
    frame = R.to_frame().T if isinstance(R, pd.Series) else R
    if not isinstance(frame, pd.DataFrame) or isinstance(frame.columns, pd.RangeIndex):
        return R
    if sorted(map(str, frame.columns)) != sorted(names):
        raise InvalidArgument(
            "R: columns of a frame, or entries of a series, must be the coefficients, each by its name once"
        )
    return frame[list(names)]


def parse_constraints(text: str, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Translate hypotheses separated by commas into a matrix and a vector.

    Each hypothesis is ``expression`` (tested to be 0) or ``expression = expression``, or a chain of these, of
    which each but the last is tested to equal the last (``age = hours = 0``); an expression is a sum of
    terms such as ``3``, ``age``, ``2*age``, ``2 age``, ``age*2``, ``age/10``.

    Parameters
    ----------
    text : str
    names : sequence of q str
        Names of the coefficients.

    Returns
    -------
    R : array of shape (k, q)
    r : array of shape (k,)
        ``R @ b = r``.
    """
    if len(text) > _MAX_LENGTH:
        raise InvalidArgument(f"R must be a text of at most {_MAX_LENGTH} characters; pass an array instead")
    index = {name: position for position, name in enumerate(names)}
    rows = [row for part in _split(_tokens(text, names), ",") for row in _hypothesis(part, index)]
    combined = np.vstack(rows)
    return combined[:, :-1], 0.0 - combined[:, -1]


def describe_constraints(R: FloatArray, r: FloatArray, names: Sequence[str]) -> str:
    """Write the hypotheses ``R b = r`` in words, e.g. ``"age = 0, 2*hours - age = 40"``."""
    return ", ".join(
        f"{describe_combination(row, names)} = {value:g}" for row, value in zip(R, r, strict=True)
    )


def describe_combination(row: FloatArray, names: Sequence[str]) -> str:
    """Write a linear combination of the coefficients in words, e.g. ``"2*hours - age"``."""
    text = ""
    for weight, name in zip(row, names, strict=True):
        if weight:
            sign = ("-" if weight < 0 else "") if not text else (" - " if weight < 0 else " + ")
            text += sign + (name if abs(weight) == 1 else f"{abs(weight):g}*{name}")
    return text


def _tokens(text: str, names: Sequence[str]) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        token, at = _token(text, at, names)
        tokens.append(token)
    return tokens


def _token(text: str, at: int, names: Sequence[str]) -> tuple[Token, int]:
    number = _NUMBER.match(text, at)
    ends = _names_at(text, at, names)
    name = max(ends, key=lambda name: ends[name], default=None)
    if name is not None and (number is None or ends[name] > number.end()):
        return ("name", name), ends[name]
    if number is not None:
        return ("number", number[0]), number.end()
    if text[at] in _OPERATORS:
        return ("operator", text[at]), at + 1
    if text[at] == "`":
        raise _no_quoted(text, at, names)
    if _wordy(text[at]):
        raise _no_coefficient(_unknown(text, at), names)
    raise InvalidArgument(
        f"R cannot be read at character {at + 1}: expected a coefficient's name, a number or one of +-*/=,"
    )


def _unknown(text: str, at: int) -> str:
    """Return what stands in the place of a name: all up to an operator outside of brackets, shortened."""
    depth, end = 0, at
    while end < len(text) and (depth > 0 or text[end] not in _OPERATORS):
        depth += (text[end] in "([") - (text[end] in ")]")
        end += 1
    return text[at:end].strip()


def _no_coefficient(word: str, names: Sequence[str]) -> InvalidArgument:
    shown = shorten(clean(word), _SHOWN)
    return InvalidArgument(f"R names {shown!r}, which is no coefficient{suggestion(shown, names)}")


def _no_quoted(text: str, at: int, names: Sequence[str]) -> InvalidArgument:
    word, closed, rest = text[at + 1 :].partition("`")
    if closed and word.strip():
        return _no_coefficient(f"`{word}`{_unknown(rest, 0)}" if rest.startswith(":") else word, names)
    return InvalidArgument(f"R has no coefficient's name between the backquotes at character {at + 1}")


def _names_at(text: str, at: int, names: Sequence[str]) -> dict[str, int]:
    """Return which names stand at this place and where they end; in other words, at most one."""
    ends = {name: end for name in names if (end := _stands_at(name, text, at, end_of)) is not None}
    if ends:
        return ends
    for name in names:
        end = _stands_at(name, text, at, end_in_other_words)
        if end is not None:
            ends[name] = end
    furthest = [name for name in ends if ends[name] == max(ends.values())]
    return {name: ends[name] for name in furthest} if len(furthest) == 1 else {}


def _stands_at(name: str, text: str, at: int, find: Callable[[str, str, int], int | None]) -> int | None:
    """Return where the name ends that stands at this place; None for another, or if a longer word does."""
    end = find(name, text, at)
    if end is None or end == len(text):
        return end
    longer = text[end:].lstrip()[:1] == ":" or (_wordy(text[end - 1]) and _wordy(text[end]))
    return None if longer else end


def _wordy(char: str) -> bool:
    return char.isalnum() or char in "_.[("


def _split(tokens: list[Token], operator: str) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in tokens:
        if token == ("operator", operator):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _hypothesis(tokens: list[Token], index: dict[str, int]) -> list[FloatArray]:
    """Return each side minus the last one: weights of the q coefficients, then the constant."""
    sides = _split(tokens, "=")
    if not all(sides):
        raise InvalidArgument('R must hold hypotheses such as "age = 0", separated by commas')
    *left, right = (_expression(side, index) for side in sides)
    rows = [side - right for side in left] or [right]
    if not all(np.any(row[:-1]) for row in rows):
        raise InvalidArgument("R holds a hypothesis without any coefficient's name")
    return rows


def _expression(tokens: list[Token], index: dict[str, int]) -> FloatArray:
    row = np.zeros(len(index) + 1)
    sign, factors = 1.0, []
    for previous, token in zip([("operator", "+"), *tokens], tokens, strict=False):
        if token in (("operator", "+"), ("operator", "-")):
            if factors and previous not in (("operator", "*"), ("operator", "/")):
                _add_term(row, sign, factors, index)
                sign, factors = 1.0, []
            sign *= -1.0 if token[1] == "-" else 1.0
        else:
            factors.append(token)
    _add_term(row, sign, factors, index)
    return row


def _add_term(row: FloatArray, sign: float, factors: list[Token], index: dict[str, int]) -> None:
    """Add one product of numbers and at most one name to the row."""
    weight, position, divide, operand_next = sign, len(index), False, True
    for kind, text in factors:
        if kind == "operator":
            if operand_next:
                raise InvalidArgument("R holds an operator without a number or name on each side")
            divide, operand_next = text == "/", True
            continue
        if kind == "name":
            if position != len(index) or divide:
                raise InvalidArgument("R must be linear: no products of coefficients, no division by one")
            position = index[text]
        else:
            weight = _times(weight, float(text), divide=divide)
        divide, operand_next = False, False
    if operand_next:
        raise InvalidArgument("R holds an operator without a number or name on each side")
    row[position] += weight


def _times(weight: float, number: float, *, divide: bool) -> float:
    if divide and number == 0:
        raise InvalidArgument("R divides by zero")
    result = weight / number if divide else weight * number
    if abs(result) > _LARGEST:  # sums of such terms cannot overflow
        raise InvalidArgument("R holds a number that is too large")
    return result
