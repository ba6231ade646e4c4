"""Checks of public arguments. The keyword is the argument's name, so messages are free."""

import math
import numbers
import os
from collections.abc import Callable, Collection, Mapping, Set
from typing import Any, Literal, TypeAlias, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from privfit.errors import InvalidArgument

FloatArray: TypeAlias = NDArray[np.float64]
"""Any float64 array; shapes are given in the docstrings."""

IntArray: TypeAlias = NDArray[np.int64]

UNIT_ROUNDOFF = 2.0**-53
"""Relative error of an operation on float64 numbers."""

SIZES = (1e-60, 1e60)
"""Range of public sizes whose products and squares are to stay within floating point."""

RelationName: TypeAlias = Literal["replace", "add_remove"]

_T = TypeVar("_T")

_TRUTHS = (bool, np.bool_)


def _number(name: str, value: object) -> float:
    if not isinstance(value, float) and (isinstance(value, _TRUTHS) or not isinstance(value, numbers.Real)):
        raise InvalidArgument(f"{name} must be a number, got {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond floating point
        number = math.inf
    if math.isnan(number):
        raise InvalidArgument(f"{name} must not be NaN")
    return number


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Return whether a value can be the path of a file, whether there is one or not."""
    return isinstance(value, str | os.PathLike) and "\0" not in str(value)


def positive(**kwargs: object) -> float:
    """Return the single keyword's value as a float > 0 and finite, or raise `InvalidArgument`."""
    ((name, value),) = kwargs.items()
    number = _number(name, value)
    if not 0 < number < math.inf:
        raise InvalidArgument(f"{name} must be positive and finite, got {number:g}")
    return number


def sized(**kwargs: object) -> float:
    """Return the single keyword's value as a float in [1e-25, 1e25], whose powers are numbers, or raise."""
    return in_range(1e-25, 1e25, closed="both", **kwargs)


def in_range(low: float, high: float, *, closed: str = "both", **kwargs: object) -> float:
    """Return the keyword's value as a float within the range, or raise `InvalidArgument`.

    ``closed`` is "both", "left", "right" or "neither", as in pandas.
    """
    ((name, value),) = kwargs.items()
    number = _number(name, value)
    above = number >= low if closed in ("both", "left") else number > low
    below = number <= high if closed in ("both", "right") else number < high
    if not (above and below):
        opening = "[" if closed in ("both", "left") else "("
        closing = "]" if closed in ("both", "right") else ")"
        raise InvalidArgument(f"{name} must lie in {opening}{low:g}, {high:g}{closing}, got {number:g}")
    return number


def coverage(level: object) -> float:
    """Return the coverage of intervals as a float, or raise `InvalidArgument`.

    Below one half it is surely statsmodels' ``alpha``, whose place ``level`` has.
    """
    number = in_range(0.0, 1.0, closed="neither", level=level)
    if number < 0.5:
        raise InvalidArgument(
            f"level is the coverage of the intervals, at least 0.5, got {number:g}; "
            f"statsmodels' alpha={number:g} is level={1.0 - number:g}"
        )
    return number


MOST_RELEASES = 10**6
"""Steps with a release each that may be asked for: plans list every one of them."""


def whole(minimum: int = 1, maximum: int | None = None, **kwargs: object) -> int:
    """Return the keyword's value as an int from ``minimum`` to ``maximum``, or raise `InvalidArgument`."""
    ((name, value),) = kwargs.items()
    if type(value) is not int and (isinstance(value, _TRUTHS) or not isinstance(value, numbers.Integral)):
        raise InvalidArgument(f"{name} must be a whole number, got {type(value).__name__}")
    if int(value) < minimum:
        raise InvalidArgument(f"{name} must be at least {minimum}, got {int(value)}")
    if maximum is not None and int(value) > maximum:
        raise InvalidArgument(f"{name} must be at most {maximum}, got {int(value)}")
    return int(value)


def optional(check: Callable[..., _T], *limits: object, **kwargs: object) -> _T | None:
    """Return what a check with these limits says of the last keyword's value; None where that is None."""
    *_, value = kwargs.values()
    return None if value is None else check(*limits, **kwargs)


def true_or_false(**kwargs: object) -> bool:
    """Return the keyword's value as a bool, or raise `InvalidArgument`."""
    ((name, value),) = kwargs.items()
    if not isinstance(value, bool | np.bool_):
        raise InvalidArgument(f"{name} must be True or False, got {type(value).__name__}")
    return bool(value)


def finite_numbers(values: object) -> FloatArray | None:
    """Return the values as an array, or None if some of them are no finite real numbers."""
    try:
        found = np.asarray(values)
        spelled = found.dtype == object and any(isinstance(one, str | bytes) for one in found.flat)
        if spelled or found.dtype.kind not in "biufO":  # text that spells numbers is text
            return None
        numbers = found.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def column_name(**kwargs: object) -> str | None:
    """Return the keyword's value if it is a text or None, or raise `InvalidArgument`."""
    ((name, value),) = kwargs.items()
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{name} must be the name of a column, a text; got {type(value).__name__}")
    return value


def listed(what: str, **kwargs: object) -> tuple[Any, ...]:
    """Return the keyword's value, a list of ``what`` in an order, as a tuple, or raise `InvalidArgument`."""
    ((name, value),) = kwargs.items()
    if isinstance(value, str | bytes | Set | Mapping) or not isinstance(value, Collection):
        raise InvalidArgument(f"{name} must be a list of {what}, got {type(value).__name__}")
    return tuple(value)


def one_of(options: tuple[str, ...], **kwargs: object) -> str:
    """Return the keyword's value if it is one of ``options``, or raise `InvalidArgument`."""
    ((name, value),) = kwargs.items()
    if not isinstance(value, str) or value not in options:
        raise InvalidArgument(f"{name} must be one of {', '.join(options)}; got {value!r}")
    return value
