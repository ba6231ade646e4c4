"""Functions that Numba compiles when they are first called."""

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Any

from numba import njit

_COMPILING = RLock()
"""Held by what compiles: two threads that call a function at once would each do so."""


def lazily_compiled(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for arguments of these types when it is first called, and keep it on disk.

    A fit calls few of the functions there are: whether all are compiled when their modules are imported, or
    read from the disk, every process would wait for them.

    Parameters
    ----------
    signature : Numba signature
        Arguments of other types are a `TypeError`.
    **options
        Of `numba.njit`.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        found: list[Callable[..., Any]] = []

        def made() -> Callable[..., Any]:
            with _COMPILING:
                if not found:
                    found.append(njit(signature, cache=True, **options)(function))
            return found[0]

        @wraps(function)
        def call(*arguments: Any) -> Any:
            return (found[0] if found else made())(*arguments)

        return call

    return decorate
