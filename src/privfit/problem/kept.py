"""What an immutable object has found and keeps as long as it lives."""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import TypeVar

Owner = TypeVar("Owner")
Asked = TypeVar("Asked", bound=Hashable)
Found = TypeVar("Found")


def kept(method: Callable[[Owner, Asked], Found]) -> Callable[[Owner, Asked], Found]:
    """Return a method of one argument that finds an answer once, as `functools.cached_property` does."""
    name = f"_kept_by_{method.__name__}"

    @wraps(method)
    def found(self: Owner, asked: Asked) -> Found:
        known = self.__dict__.setdefault(name, {})
        if asked not in known:
            known[asked] = method(self, asked)
        return known[asked]

    return found
