"""Compiled loops over coded rows, one for each type of numbers and codes."""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from numba import float64, from_dtype, int64, njit, types, void

VECTOR, MATRIX, PLACES = float64[::1], float64[:, ::1], int64[::1]

_OPTIONS: Any = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract"},
}


def for_coded_rows(*others: Any) -> Callable[[Any], Any]:
    """Compile a loop over numbers, codes and arguments of these types once for each type of rows it meets.

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
        def compiled(numbers: Any, codes: Any) -> Any:
            name = f"{function.__name__}_{numbers}_{codes}"
            one = FunctionType(function.__code__, function.__globals__, name)
            one.__qualname__, one.__module__ = name, function.__module__
            return njit(void(_read(numbers), _read(codes), *others), **_OPTIONS)(one)

        def loop(numbers: Any, codes: Any, *arguments: Any) -> None:
            compiled(numbers.dtype, codes.dtype)(numbers, codes, *arguments)

        return loop

    return decorate


def _read(kind: Any) -> Any:
    """Return the type of a row-major matrix that is only read."""
    return types.Array(from_dtype(kind), 2, "C", readonly=True)
