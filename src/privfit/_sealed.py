"""Errors that leave without what was on the stack: rows, and numbers that are not released."""

import functools
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from privfit.errors import PrivfitError, UnexpectedError

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")

_PACKAGE: Final = Path(__file__).parent


def sealed(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Wrap a function that is given rows, so that its errors keep no frame and no earlier error.

    A frame of a traceback holds the local variables of the function that failed: rows, exact sums. Whatever
    prints or stores tracebacks with their variables would publish them, and an interactive session keeps the
    last one. An error's message is its own; see `privfit.errors`.

    Notes
    -----
    *Guarantee.* What is raised has frames of the caller and of this wrapper only, without arguments in the
    latter, no ``__cause__`` and no ``__context__`` of its own.
    """
    return _raising(function, without_frames)


def withholding(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
    """Wrap a function that works on rows, so that its errors quote nothing; see `withheld`."""
    return _raising(function, withheld)


def _raising(
    function: Callable[_Arguments, _Answer], made_of: Callable[[BaseException], BaseException]
) -> Callable[_Arguments, _Answer]:
    """Wrap a function, so that it raises what is made of its errors in place of them."""

    @functools.wraps(function)
    def guarded(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            failure = made_of(error)
        del args, kwargs
        raise failure

    return guarded


def without_frames(error: BaseException) -> BaseException:
    """Return the error without its traceback and without the errors that led to it."""
    error.__cause__ = None
    error.__context__ = None
    return error.with_traceback(None)


def withheld(error: BaseException) -> BaseException:
    """Return an error that quotes nothing in place of one that may: an interrupt and our own stay.

    The place is named, so that a defect can be found: a file of this package and a line.
    """
    if isinstance(error, PrivfitError) or not isinstance(error, Exception):
        return error
    where = _place(error.__traceback__)
    return UnexpectedError(
        f"unexpected {type(error).__name__}{where}; its message is withheld because it may quote data. "
        "Please report it with this line"
    )


def _place(traceback: TracebackType | None) -> str:
    """Return the innermost place in this package that a traceback goes through."""
    place = ""
    while traceback is not None:
        file = Path(traceback.tb_frame.f_code.co_filename)
        if file.is_relative_to(_PACKAGE):
            place = f" in {file.relative_to(_PACKAGE).as_posix()}, line {traceback.tb_lineno}"
        traceback = traceback.tb_next
    return place
