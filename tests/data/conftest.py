"""Helpers shared by the tests of the data layer."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

REAL_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def real_data():
    """Return a function from file name to path; the test is skipped where the file is absent."""

    def locate(name: str) -> Path:
        path = REAL_DATA / name
        if not path.exists():
            pytest.skip(f"{name} is not here")
        return path

    return locate


@pytest.fixture
def in_order():
    """Return a function that makes coins that fall as given ones did, one after the other."""

    def coins(fallen):
        left = iter(fallen)
        return lambda size: np.fromiter(left, dtype=np.bool_, count=size)

    return coins


def _chain(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    if error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        yield from _chain(error.__cause__, seen)
        yield from _chain(error.__context__, seen)


@pytest.fixture
def said():
    """Return a function: all that an exception and those behind it say, hidden contexts included."""

    def text(error: BaseException) -> str:
        return " ".join(f"{e!s} {e!r} {e.args!r} {getattr(e, '__notes__', '')}" for e in _chain(error, set()))

    return text
