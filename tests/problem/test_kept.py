"""Answers that an immutable object finds once."""

from dataclasses import dataclass, replace

import pytest

from privfit.problem.kept import kept

ASKED: list[tuple[float, str]] = []


@dataclass(frozen=True)
class Priced:
    price: float

    @kept
    def of(self, kind: str) -> float:
        """Return the price of a kind."""
        ASKED.append((self.price, kind))
        if kind == "none":
            raise ValueError(kind)
        return self.price * len(kind)

    @kept
    def twice(self, kind: str) -> float:
        """Return twice the price of a kind."""
        return 2.0 * self.of(kind)


def test_answers_are_found_once_for_each_argument_and_object():
    ASKED.clear()
    one = Priced(2.0)
    other = replace(one, price=3.0)
    assert [one.of("a"), one.of("bb"), one.of("a"), other.of("a")] == [2.0, 4.0, 2.0, 3.0]
    assert ASKED == [(2.0, "a"), (2.0, "bb"), (3.0, "a")]


def test_every_method_keeps_its_own_answers():
    one = Priced(3.0)
    for _ in range(2):
        assert (one.of("a"), one.twice("a"), one.twice("bb"), one.of("bb")) == (3.0, 6.0, 12.0, 6.0)


def test_a_refusal_is_not_kept():
    ASKED.clear()
    one = Priced(2.0)
    for _ in range(2):
        with pytest.raises(ValueError, match="none"):
            one.of("none")
    assert len(ASKED) == 2
