"""Compiled loops over stored rows, one for each type of numbers and codes."""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from numba import float64, from_dtype, int64, types, void

from privfit._compiling import lazily_compiled

VECTOR, MATRIX, PLACES = float64[::1], float64[:, ::1], int64[::1]

COLUMNS = float64[:, :]
"""Some columns of a matrix."""

STRIDED = types.Array(float64, 1, "A", readonly=True)
"""Numbers that are only read, one of them for all rows perhaps, as `numpy.broadcast_to` has it."""

_OPTIONS: Any = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract"},
}


def for_coded_rows(*others: Any) -> Callable[[Any], Any]:
    """Compile a loop over numbers, codes and arguments of these types once for each type of rows it meets."""
    return _for_stored(2, others)


def for_numbers(*others: Any) -> Callable[[Any], Any]:
    """Compile a loop over rows without codes: over numbers and arguments of these types."""
    return _for_stored(1, others)


def _for_stored(count: int, others: Any) -> Callable[[Any], Any]:
    """Compile a loop for each combination of types of its first arrays.

    It is compiled when it is first called with that type: few programs meet more than one. Arguments of
    other types, or not row-major, are a `TypeError`.

    Notes
    -----
    Each type has a function and thus a file of its own in Numba's cache. Among those of one function Numba
    numbers the files, and where two processes compile for two types at once they may take the same number:
    later processes would then read rows as what they are not.
    """

    def decorate(function: Any) -> Any:
        @cache
        def compiled(*kinds: Any) -> Any:
            name = "_".join([function.__name__, *map(str, kinds)])
            one = FunctionType(function.__code__, function.__globals__, name)
            one.__qualname__, one.__module__ = name, function.__module__
            return lazily_compiled(void(*map(_read, kinds), *others), **_OPTIONS)(one)

        def loop(*arguments: Any) -> None:
            compiled(*(array.dtype for array in arguments[:count]))(*arguments)

        return loop

    return decorate


def _read(kind: Any) -> Any:
    """Return the type of a row-major matrix that is only read."""
    return types.Array(from_dtype(kind), 2, "C", readonly=True)
