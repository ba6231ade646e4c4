"""Choices from bytes, so that one target serves hypothesis and coverage-guided fuzzing alike."""

import struct
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class BytesReader:
    """Reads decisions off ``data``; past its end every decision is the first one."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        return max(len(self._data) - self._at, 0)

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        self._at += count
        return part

    def rest(self) -> bytes:
        return self.take(self.left)

    def below(self, bound: int) -> int:
        return int.from_bytes(self.take(2 if bound > 256 else 1), "little") % bound

    def chance(self) -> bool:
        return self.below(2) == 1

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def some(self, options: Sequence[T], most: int) -> list[T]:
        return [self.one(options) for _ in range(self.below(most + 1))]

    def real(self) -> float:
        """Return any float, mostly a troublesome one."""
        if self.below(4):
            return self.one(TROUBLESOME)
        return struct.unpack("<d", self.take(8).ljust(8, b"\0"))[0]

    def text(self, most: int = 12) -> str:
        return self.take(self.below(most + 1)).decode("utf-8", "surrogateescape")


TROUBLESOME = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    1e-6,
    1e6,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    float("inf"),
    float("-inf"),
    float("nan"),
    1e-17,
    0.1,
    100.0,
)
