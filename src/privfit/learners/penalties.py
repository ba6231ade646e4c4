"""Penalties ``xi * norm(w) + nu * norm(w)**2`` on the distance from a parameter-free learner's start."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

from privfit._checks import in_range
from privfit.errors import Incompatible
from privfit.learners.base import Feedback, Game

PenaltyRule: TypeAlias = Callable[[Feedback], tuple[float, float]]
"""Returns ``(xi, nu)`` of the next round; it is called once a round, in order."""


class AbstractPenalty(ABC):
    """A penalty on the distance from the starting point. It is public, and costs no privacy."""

    __slots__ = ()

    @property
    def power(self) -> float:
        """Growth of the weights that suits the penalty."""
        return 1.0

    @abstractmethod
    def start(self, game: Game) -> PenaltyRule:
        """Return the rule of a game."""

    @abstractmethod
    def largest(self, game: Game) -> float:
        """Return what ``xi + 2 * nu * radius``, the penalty's slope, can reach in rounds of full size."""


@final
@dataclass(frozen=True, slots=True)
class NoPenalty(AbstractPenalty):
    """No penalty: the ball alone keeps the learner. The error bound then has its diameter."""

    def start(self, game: Game) -> PenaltyRule:
        """Return zeros."""
        del game
        return lambda _: (0.0, 0.0)

    def largest(self, game: Game) -> float:
        """Return 0."""
        del game
        return 0.0


@final
@dataclass(frozen=True, slots=True)
class ConcentrationPenalty(AbstractPenalty):
    """``xi`` is a bound on the error of the vector, so that playing far out pays only if it helps.

    ``xi = sqrt(2 log(4 T / failure) sum(b**2)) + (sqrt(d) + sqrt(2 log(2 T / failure))) * noise``, with ``b``
    the bound on a round's difference from its mean, ``noise`` as in `Feedback`, and ``nu = 0``. With
    probability ``1 - failure`` the excess risk is at most
    ``(regret + 2 * norm(u - center) * sum(xi)) / sum(weights)`` where noise is Gaussian (Pinelis 1994,
    theorem 3.5, for the differences; Gaussian concentration for the noise). All constants are explicit. The
    noise of pure budgets has heavier tails, so that a small ``failure`` says too little there.

    Parameters
    ----------
    failure : float
        Probability with which the bound may fail; it has nothing to do with delta.
    """

    failure: float = 0.05

    def __post_init__(self) -> None:
        in_range(0.0, 1.0, closed="neither", failure=self.failure)

    def start(self, game: Game) -> PenaltyRule:
        """Return the rule of a game."""
        spread, tail = self._factors(game)
        squares, before, total = 0.0, 0.0, 0.0

        def rule(feedback: Feedback) -> tuple[float, float]:
            nonlocal squares, before, total
            weight = feedback.weight
            total += weight
            moved = weight * weight / total * game.smoothness * game.diameter if before > 0.0 else 0.0
            bound = 2.0 * ((weight - before) * game.lipschitz + moved)
            squares += bound * bound / game.batch
            before = weight
            return spread * math.sqrt(squares) + tail * feedback.noise, 0.0

        return rule

    def largest(self, game: Game) -> float:
        """Return ``xi`` with the largest difference in all rounds, and noise where the tree is deepest."""
        spread, tail = self._factors(game)
        change = 2.0 * game.increment
        noise = game.nodes * game.deviation * change / game.batch
        return spread * change * math.sqrt(game.rounds / game.batch) + tail * noise

    def _factors(self, game: Game) -> tuple[float, float]:
        """Return what the root of the squared differences, and what the noise is multiplied by."""
        spread = math.sqrt(2.0 * math.log(4.0 * game.rounds / self.failure))
        tail = math.sqrt(game.dimension) + math.sqrt(2.0 * math.log(2.0 * game.rounds / self.failure))
        return spread, tail


@final
@dataclass(frozen=True, slots=True)
class SourcePenalty(AbstractPenalty):
    """The penalty of Zhang, Tran and Cutkosky 2022, theorem 11, for weights ``t**3``.

    ``xi = c_xi (8 sqrt(2) G t**2.5 + 8 sqrt(d) (G + D H) log2(2 T) t**2 / (rho m)) Phi`` and
    ``nu = c_nu 28 * 8 sqrt(2) H t**2.5 Phi``, over ``T**3``, for rounds of m rows, whose mean is the loss of
    a round. The source leaves a universal constant open (its C squared); ``c_xi`` and ``c_nu`` stand for it.
    With both at 1 the penalty outweighs the gradients until T is about 1e7.

    The constants 8 and 28 are those of ``t**3``, so other weights are refused.

    Parameters
    ----------
    c_xi, c_nu : float
    failure : float
    """

    c_xi: float = 1.0
    c_nu: float = 0.0
    failure: float = 0.05

    def __post_init__(self) -> None:
        in_range(0.0, math.inf, closed="left", c_xi=self.c_xi)
        in_range(0.0, math.inf, closed="left", c_nu=self.c_nu)
        in_range(0.0, 1.0, closed="neither", failure=self.failure)

    @property
    def power(self) -> float:
        """3."""
        return 3.0

    def start(self, game: Game) -> PenaltyRule:
        """Return the rule of a game.

        Raises
        ------
        Incompatible
            If the weights are not ``t**3``.
        """
        at = self._at(game)
        t = 0

        def rule(feedback: Feedback) -> tuple[float, float]:
            nonlocal t
            del feedback
            t += 1
            return at(t)

        return rule

    def largest(self, game: Game) -> float:
        """Return the slope at the edge of the ball in the last round."""
        xi, nu = self._at(game)(game.rounds)
        return xi + 2.0 * nu * game.radius

    def _at(self, game: Game) -> Callable[[int], tuple[float, float]]:
        """Return ``(xi, nu)`` as a function of the round."""
        if game.power != self.power:
            raise Incompatible(
                "penalty: SourcePenalty is proved for weights t**3 only; leave power= out or set it to 3, or "
                "use ConcentrationPenalty(), which suits all"
            )
        g, h, d, rounds = game.lipschitz, game.smoothness, game.dimension, game.rounds
        spread = g + game.diameter * h
        inner = 20.0 * d * rounds * math.log(2.0 * spread / g * rounds) / self.failure
        phi = math.sqrt(math.log(inner))
        over_rho = game.deviation / math.sqrt(game.nodes) / game.batch
        base = 8.0 * math.sqrt(2.0) * phi
        noisy = 8.0 * math.sqrt(d) * spread * phi * math.log2(2.0 * rounds) * over_rho

        def at(t: int) -> tuple[float, float]:
            late = t**2.5 / rounds**3
            xi = self.c_xi * (base * g * late + noisy * t**2 / rounds**3)
            return xi, self.c_nu * 28.0 * base * h * late

        return at
