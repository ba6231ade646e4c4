"""The functions a formula may call, row by row, each with its range on an interval and its derivative."""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.special import xlogy

from privfit._checks import FloatArray

Interval: TypeAlias = tuple[FloatArray, FloatArray]
"""Lower and upper ends of m intervals, each of shape (m,) or ()."""

Moves: TypeAlias = Sequence[Any]
"""How fast each argument moves, an array of shape (n,), or None for one that stays; not all stay."""

Moved: TypeAlias = Callable[[Sequence[FloatArray], Moves], Any]
"""From the values of the arguments and their `Moves` to how fast a function moves, shape (n,)."""


@dataclass(frozen=True, slots=True)
class Function:
    """An elementwise function of one or two arguments.

    Parameters
    ----------
    name : str
        As it is written.
    arity : int
        Number of arguments.
    values : callable
        From arrays of shape (n,) or () to an array; entry i depends on entries i alone.
    enclose : callable
        From one `Interval` per argument to an `Interval` that holds every value of the function on it; not
        finite where the function is not finite everywhere.
    moved : callable, optional
        Its derivative along a move of the arguments, one-sided at a kink. None for a comparison, which jumps
        and is held.
    remedy : str
        What to do where the function is not finite on the declared bounds.
    exponent : int, optional
        Of a whole power.
    """

    name: str
    arity: int
    values: Callable[..., Any]
    enclose: Callable[..., Interval]
    moved: Moved | None = None
    remedy: str = "narrow the bounds in the schema, so that it does not overflow"
    exponent: int | None = None


def _increasing(function: Callable[[FloatArray], FloatArray]) -> Callable[[Interval], Interval]:
    return lambda x: (function(x[0]), function(x[1]))


def _both_increasing(
    function: Callable[[FloatArray, FloatArray], FloatArray],
) -> Callable[[Interval, Interval], Interval]:
    return lambda x, y: (function(x[0], y[0]), function(x[1], y[1]))


def _at_corners(
    function: Callable[[FloatArray, FloatArray], FloatArray],
) -> Callable[[Interval, Interval], Interval]:
    """Enclose a function that is monotone in each argument while the other one is fixed."""

    def enclose(x: Interval, y: Interval) -> Interval:
        corners = [function(a, b) for a in x for b in y]
        return functools.reduce(np.minimum, corners), functools.reduce(np.maximum, corners)

    return enclose


def _by_parts(*partials: Callable[..., Any]) -> Moved:
    """Return how fast a smooth function moves, from its partial derivatives.

    Not at all with an argument that stays where it is, however steep the function: below a hinge, as that of
    the root of ``np.maximum(x - 40, 0)``.
    """

    def moved(values: Sequence[FloatArray], moves: Moves) -> Any:
        parts = zip(partials, moves, strict=True)
        return sum(
            np.where(move == 0.0, 0.0, part(*values) * move) for part, move in parts if move is not None
        )

    return moved


def _one(*_: FloatArray) -> float:
    return 1.0


def _minus_one(*_: FloatArray) -> float:
    return -1.0


def _rates(moves: Moves) -> tuple[Any, ...]:
    """Return the moves, 0 for those that stay."""
    return tuple(np.zeros(()) if move is None else move for move in moves)


def _moved_product(values: Sequence[FloatArray], moves: Moves) -> FloatArray:
    """Return how fast a product moves: not at all where one factor stays 0, however steep the other is.

    Where one is 0 and moves at a finite rate, and the other is infinitely steep, as in ``x * sqrt(x)``, the
    product has the slope 0.
    """
    (x, y), (dx, dy) = values, _rates(moves)
    of_first = np.where((y == 0.0) & np.isfinite(dy), 0.0, y * dx)
    return of_first + np.where((x == 0.0) & np.isfinite(dx), 0.0, x * dy)


def _picked(pick: Callable[[FloatArray, FloatArray], FloatArray]) -> Moved:
    """Return how fast the smaller or larger of two moves: where they are equal, as these moves decide."""

    def moved(values: Sequence[FloatArray], moves: Moves) -> FloatArray:
        (x, y), (dx, dy) = values, _rates(moves)
        return np.where(x == y, pick(dx, dy), np.where(pick(x, y) == x, dx, dy))

    return moved


def _moved_size(values: Sequence[FloatArray], moves: Moves) -> FloatArray:
    (x,), (dx,) = values, moves
    return np.where(x == 0.0, np.abs(dx), np.sign(x) * dx)


def _divide(x: Interval, y: Interval) -> Interval:
    low, high = _at_corners(np.divide)(x, y)
    crosses = (y[0] <= 0) & (y[1] >= 0)
    return np.where(crosses, -np.inf, low), np.where(crosses, np.inf, high)


def _negative(x: Interval) -> Interval:
    return -x[1], -x[0]


def _absolute(x: Interval) -> Interval:
    low, high = np.abs(x[0]), np.abs(x[1])
    crosses = (x[0] <= 0) & (x[1] >= 0)
    return np.where(crosses, 0.0, np.minimum(low, high)), np.maximum(low, high)


def _real_power(x: Interval, y: Interval) -> Interval:
    """Enclose ``x**y`` for ``x > 0``, or ``x >= 0`` and ``y > 0``; NaN elsewhere."""
    low, high = _at_corners(np.power)(x, y)
    defined = (x[0] > 0) | ((x[0] >= 0) & (y[0] > 0))
    return np.where(defined, low, np.nan), np.where(defined, high, np.nan)


def _sine(x: Interval) -> Interval:
    def holds(peak: float) -> Any:  # whether peak + 2 pi k lies in the interval for a whole k
        return np.floor((x[1] - peak) / (2 * np.pi)) >= np.ceil((x[0] - peak) / (2 * np.pi))

    ends = np.sin(x[0]), np.sin(x[1])
    low = np.where(holds(-np.pi / 2), -1.0, np.minimum(*ends))
    return low, np.where(holds(np.pi / 2), 1.0, np.maximum(*ends))


def _cosine(x: Interval) -> Interval:
    return _sine((x[0] + np.pi / 2, x[1] + np.pi / 2))


@functools.cache
def integer_power(exponent: int) -> Function:
    """Return ``x**exponent``, which is defined for negative ``x`` too."""

    def values(x: FloatArray) -> FloatArray:
        return np.asarray(x, dtype=np.float64) ** float(exponent)

    def enclose(x: Interval) -> Interval:
        ends = values(x[0]), values(x[1])
        low, high = np.minimum(*ends), np.maximum(*ends)
        crosses = (x[0] <= 0) & (x[1] >= 0)
        if exponent < 0:
            return np.where(crosses, -np.inf, low), np.where(crosses, np.inf, high)
        if exponent == 0 or exponent % 2:
            return low, high
        return np.where(crosses, 0.0, low), high

    def partial(x: FloatArray) -> FloatArray:
        return exponent * np.asarray(x, dtype=np.float64) ** float(exponent - 1) if exponent else 0.0 * x

    return Function("**", 1, values, enclose, _by_parts(partial), _POWER, exponent)


def _less(x: Interval, y: Interval) -> Interval:
    return _truth(x[1] < y[0]), _truth(x[0] < y[1])


def _less_equal(x: Interval, y: Interval) -> Interval:
    return _truth(x[1] <= y[0]), _truth(x[0] <= y[1])


def _equal(x: Interval, y: Interval) -> Interval:
    always = (x[0] == x[1]) & (y[0] == y[1]) & (x[0] == y[0])
    return _truth(always), _truth((x[0] <= y[1]) & (y[0] <= x[1]))


def _not_equal(x: Interval, y: Interval) -> Interval:
    low, high = _equal(x, y)
    return 1.0 - high, 1.0 - low


def _truth(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _comparison(name: str, ufunc: Any, enclose: Callable[[Interval, Interval], Interval]) -> Function:
    return Function(name, 2, lambda x, y: _truth(ufunc(x, y)), enclose)


_LN2, _LN10 = math.log(2.0), math.log(10.0)

_LOG = "use log1p, or raise the lower bound in the schema, so that its argument stays above 0"
_LOG1P = "raise the lower bound in the schema, so that its argument stays above -1"
_SQRT = "raise the lower bound in the schema, so that its argument stays at or above 0"
_DIVISION = "keep the divisor away from 0, by the bounds in the schema or as in x / (1 + z)"
_POWER = "keep its base above 0 by the bounds in the schema, or take a smaller whole exponent"

ADD = Function("+", 2, np.add, _both_increasing(np.add), _by_parts(_one, _one))
SUBTRACT = Function("-", 2, np.subtract, lambda x, y: (x[0] - y[1], x[1] - y[0]), _by_parts(_one, _minus_one))
MULTIPLY = Function("*", 2, np.multiply, _at_corners(np.multiply), _moved_product)
DIVIDE = Function(
    "/", 2, np.divide, _divide, _by_parts(lambda _, y: 1.0 / y, lambda x, y: -x / y / y), _DIVISION
)
POWER = Function(
    "**",
    2,
    np.power,
    _real_power,
    _by_parts(lambda x, y: y * x ** (y - 1.0), lambda x, y: xlogy(x**y, x)),
    _POWER,
)
NEGATIVE = Function("-", 1, np.negative, _negative, _by_parts(_minus_one))

LESS = _comparison("<", np.less, _less)
LESS_EQUAL = _comparison("<=", np.less_equal, _less_equal)
GREATER = _comparison(">", np.greater, lambda x, y: _less(y, x))
GREATER_EQUAL = _comparison(">=", np.greater_equal, lambda x, y: _less_equal(y, x))
EQUAL = _comparison("==", np.equal, _equal)
NOT_EQUAL = _comparison("!=", np.not_equal, _not_equal)
COMPARISONS = (LESS, LESS_EQUAL, GREATER, GREATER_EQUAL, EQUAL, NOT_EQUAL)

CALLABLE = {
    function.name: function
    for function in (
        Function("log", 1, np.log, _increasing(np.log), _by_parts(lambda x: 1.0 / x), _LOG),
        Function("log2", 1, np.log2, _increasing(np.log2), _by_parts(lambda x: 1.0 / (_LN2 * x)), _LOG),
        Function("log10", 1, np.log10, _increasing(np.log10), _by_parts(lambda x: 1.0 / (_LN10 * x)), _LOG),
        Function("log1p", 1, np.log1p, _increasing(np.log1p), _by_parts(lambda x: 1.0 / (1.0 + x)), _LOG1P),
        Function("exp", 1, np.exp, _increasing(np.exp), _by_parts(np.exp)),
        Function("expm1", 1, np.expm1, _increasing(np.expm1), _by_parts(np.exp)),
        Function("sqrt", 1, np.sqrt, _increasing(np.sqrt), _by_parts(lambda x: 0.5 / np.sqrt(x)), _SQRT),
        Function("abs", 1, np.abs, _absolute, _moved_size),
        Function("sin", 1, np.sin, _sine, _by_parts(np.cos)),
        Function("cos", 1, np.cos, _cosine, _by_parts(lambda x: -np.sin(x))),
        Function("minimum", 2, np.minimum, _both_increasing(np.minimum), _picked(np.minimum)),
        Function("maximum", 2, np.maximum, _both_increasing(np.maximum), _picked(np.maximum)),
    )
}
"""Functions that a formula may call by name, bare or as ``np.name``."""
