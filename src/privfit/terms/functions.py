"""The functions a formula may call: each works row by row, and each knows its range on an interval."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from privfit._checks import FloatArray

Interval: TypeAlias = tuple[FloatArray, FloatArray]
"""Lower and upper ends of m intervals, each of shape (m,) or ()."""


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
    remedy : str
        What to do where the function is not finite on the declared bounds.
    exponent : int, optional
        Of a whole power.
    """

    name: str
    arity: int
    values: Callable[..., Any]
    enclose: Callable[..., Interval]
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

    return Function("**", 1, values, enclose, _POWER, exponent)


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


_LOG = "use log1p, or raise the lower bound in the schema, so that its argument stays above 0"
_LOG1P = "raise the lower bound in the schema, so that its argument stays above -1"
_SQRT = "raise the lower bound in the schema, so that its argument stays at or above 0"
_DIVISION = "keep the divisor away from 0, by the bounds in the schema or as in x / (1 + z)"
_POWER = "keep its base above 0 by the bounds in the schema, or take a smaller whole exponent"

ADD = Function("+", 2, np.add, _both_increasing(np.add))
SUBTRACT = Function("-", 2, np.subtract, lambda x, y: (x[0] - y[1], x[1] - y[0]))
MULTIPLY = Function("*", 2, np.multiply, _at_corners(np.multiply))
DIVIDE = Function("/", 2, np.divide, _divide, _DIVISION)
POWER = Function("**", 2, np.power, _real_power, _POWER)
NEGATIVE = Function("-", 1, np.negative, _negative)

LESS = _comparison("<", np.less, _less)
LESS_EQUAL = _comparison("<=", np.less_equal, _less_equal)
GREATER = _comparison(">", np.greater, lambda x, y: _less(y, x))
GREATER_EQUAL = _comparison(">=", np.greater_equal, lambda x, y: _less_equal(y, x))
EQUAL = _comparison("==", np.equal, _equal)
NOT_EQUAL = _comparison("!=", np.not_equal, _not_equal)

CALLABLE = {
    function.name: function
    for function in (
        Function("log", 1, np.log, _increasing(np.log), _LOG),
        Function("log2", 1, np.log2, _increasing(np.log2), _LOG),
        Function("log10", 1, np.log10, _increasing(np.log10), _LOG),
        Function("log1p", 1, np.log1p, _increasing(np.log1p), _LOG1P),
        Function("exp", 1, np.exp, _increasing(np.exp)),
        Function("expm1", 1, np.expm1, _increasing(np.expm1)),
        Function("sqrt", 1, np.sqrt, _increasing(np.sqrt), _SQRT),
        Function("abs", 1, np.abs, _absolute),
        Function("sin", 1, np.sin, _sine),
        Function("cos", 1, np.cos, _cosine),
        Function("minimum", 2, np.minimum, _both_increasing(np.minimum)),
        Function("maximum", 2, np.maximum, _both_increasing(np.maximum)),
    )
}
"""Functions that a formula may call by name, bare or as ``np.name``."""
