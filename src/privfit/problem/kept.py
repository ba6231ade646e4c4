"""What an immutable object has found and keeps as long as it lives."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

Owner = TypeVar("Owner")
Asked = ParamSpec("Asked")
Found = TypeVar("Found")


def kept(method: Callable[Concatenate[Owner, Asked], Found]) -> Callable[Concatenate[Owner, Asked], Found]:
    """Return a method that finds every answer once, as `functools.cached_property` does."""
    name = f"_kept_by_{method.__name__}"

    @wraps(method)
    def found(self: Owner, *asked: Asked.args, **named: Asked.kwargs) -> Found:
        known = self.__dict__.setdefault(name, {})
        question = asked, tuple(named.items())
        if question not in known:
            known[question] = method(self, *asked, **named)
        return known[question]

    return found
