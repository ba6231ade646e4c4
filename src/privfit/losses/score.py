"""Bounded scores of a row, convex or not, for selection among finitely many candidates."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from privfit.losses.base import ScalarFunction, scalar


@scalar
def _wrong_side(y: float, eta: float, s: float, c: float, k: float) -> float:
    return 0.0 if (eta > 0.0) == (y > 0.5) else 1.0


class AbstractScore(ABC):
    """What a row thinks of a linear predictor: smaller is better. Subclasses are final and frozen."""

    __slots__ = ()

    target_kind: ClassVar[Literal["numeric", "binary", "count"]]
    """Which response it takes, as for a loss."""

    @property
    @abstractmethod
    def value(self) -> ScalarFunction:
        """Compiled score of ``(y, eta, s, c, k)``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name with constants."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[float, float]:
        """``(c, k)`` passed to the scalar function."""

    @abstractmethod
    def span(self, radius: float) -> float:
        """Return a bound on ``sup value - inf value`` over ``abs(eta) <= radius``; rows are held to it."""


@final
@dataclass(frozen=True, slots=True)
class ZeroOne(AbstractScore):
    """1 for a row on the wrong side of the boundary ``x'theta = 0``, else 0: misclassification.

    Neither convex nor continuous, so only selection among candidates takes it.
    """

    target_kind: ClassVar[Literal["numeric", "binary", "count"]] = "binary"

    @property
    def value(self) -> ScalarFunction:
        """The compiled score."""
        return _wrong_side

    @property
    def name(self) -> str:
        """Name."""
        return "ZeroOne"

    @property
    def parameters(self) -> tuple[float, float]:
        """None used."""
        return (0.0, 0.0)

    def span(self, radius: float) -> float:
        """1, wherever."""
        del radius
        return 1.0
