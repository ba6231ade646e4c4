"""Arithmetic on the cells of one row, as a small tree: values, derivatives, and range on declared bounds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.errors import FormulaError
from privfit.terms.functions import COMPARISONS, Function, Interval
from privfit.terms.wording import quoted


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    """A numeric column: its cells in the raw unit, clamped to the declared bounds."""

    name: str


@dataclass(frozen=True, slots=True)
class LevelTest:
    """1 where a categorical column has the level with this code (or has not), else 0."""

    name: str
    code: int
    equal: bool


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of other expressions; ``text`` is how it was written."""

    function: Function
    arguments: tuple["Expression", ...]
    text: str = field(compare=False)


Expression: TypeAlias = Number | Variable | LevelTest | Apply

Cells: TypeAlias = Mapping[str, NDArray[Any]]
"""Column name to n numbers (float64) or n level codes (int32)."""


def evaluate(expression: Expression, cells: Cells) -> FloatArray:
    """Return the value of each row, shape (n,), or () for a constant. Row i depends on row i alone."""
    match expression:
        case Number(value):
            return np.float64(value)  # type: ignore[return-value]  # broadcasts as an array of shape ()
        case Variable(name):
            return cells[name]
        case LevelTest(name, code, equal):
            return ((cells[name] == code) == equal).astype(np.float64)
        case Apply(function, arguments):
            return function.values(*(evaluate(argument, cells) for argument in arguments))


def differentiate(
    expression: Expression, cells: Cells, name: str, direction: FloatArray
) -> tuple[FloatArray, FloatArray | None]:
    """Return the value of each row, and how fast it moves as the cells of one column do.

    Parameters
    ----------
    expression : Expression
    cells : mapping
        As for `evaluate`.
    name : str
        The column; numeric.
    direction : array of shape (n,)
        1 where a cell grows and -1 where it shrinks; they differ where a cell lies on a kink.

    Returns
    -------
    values : array of shape (n,), or () for a constant
    moves : array of shape (n,), or None
        None where nothing moves: constants, other columns, and comparisons, which are held at their values.
    """
    match expression:
        case Variable(found) if found == name:
            return cells[name], direction
        case Apply(function, arguments):
            known = [differentiate(argument, cells, name, direction) for argument in arguments]
            values, moves = [value for value, _ in known], [move for _, move in known]
            found = function.values(*values)
            if function.moved is None or all(move is None for move in moves):
                return found, None
            return found, function.moved(values, moves)
        case _:
            return evaluate(expression, cells), None


def enclose(expression: Expression, boxes: Mapping[str, Interval]) -> Interval:
    """Return an interval for each box that holds every value of the expression on it.

    Raises
    ------
    FormulaError
        If a part of the expression is not finite on every box.
    """
    match expression:
        case Number(value):
            return np.array(value), np.array(value)
        case Variable(name):
            return boxes[name]
        case LevelTest():
            return np.array(0.0), np.array(1.0)
        case Apply(function, arguments):
            low, high = function.enclose(*(enclose(argument, boxes) for argument in arguments))
            if not (np.isfinite(low).all() and np.isfinite(high).all()):
                raise FormulaError(
                    f"formula: {quoted(expression.text)} is not finite on all of the declared bounds; "
                    f"{function.remedy}"
                )
            return low, high


def is_comparison(expression: Expression) -> bool:
    """Return whether an expression is true or false, and nothing is computed with that."""
    return isinstance(expression, LevelTest) or (
        isinstance(expression, Apply) and expression.function in COMPARISONS
    )


def compared_names(expression: Expression) -> Iterator[str]:
    """Yield the columns that comparisons in an expression read, perhaps repeatedly."""
    if isinstance(expression, Apply):
        for argument in expression.arguments:
            yield from (column_names if expression.function.moved is None else compared_names)(argument)


def column_names(expression: Expression) -> Iterator[str]:
    """Yield the columns that an expression reads, perhaps repeatedly."""
    match expression:
        case Variable(name) | LevelTest(name):
            yield name
        case Apply(_, arguments):
            for argument in arguments:
                yield from column_names(argument)
        case Number():
            return
