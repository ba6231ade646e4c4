"""Follow the regularised leader on a Euclidean ball, without and with hints."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.learners.base import AbstractLearner, AbstractPlayer, Feedback, Game, into_ball, length


@final
@dataclass(frozen=True, slots=True)
class FollowTheRegularizedLeader(AbstractLearner):
    """``w`` minimises the sum of the losses so far plus ``lam * norm(w - center)**2 / 2``.

    The weight ``lam`` grows with the squared norms of the vectors seen.

    Notes
    -----
    Regret at most ``3 / sqrt(2) * D sqrt(sum(norm(v)**2))``: that of `OptimisticFTRL` with hints of 0.
    """

    @property
    def name(self) -> str:
        """Name."""
        return "follow the regularised leader"

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre."""
        return _Leader(game, memory=0.0)


@final
@dataclass(frozen=True, slots=True)
class OptimisticFTRL(AbstractLearner):
    """Follow the regularised leader that expects the next vector to be like the last one.

    Here it is: the vectors are gradients at points that move by 1/t, with shared noise. So its regret
    adapts to the noise of single gradients, and vanishes where there is none.

    Notes
    -----
    Regret at most ``3 / sqrt(2) * D sqrt(sum(norm(v_t - v_(t-1))**2))``. With
    ``a_t = norm(v_t - v_(t-1))``, radius r and ``B_t = B_(t-1) + min(2 r a_t, a_t**2 / (2 lam_t))``,
    ``lam_(t+1) = 2 B_t / r**2``: the regret is at most ``lam r**2 / 2 + B_T = 2 B_T`` (Rakhlin and Sridharan
    2013; Orabona 2019, theorem 7.35), and ``B_t**2 - B_(t-1)**2 <= (1/2 + 4) r**2 a_t**2``.
    """

    @property
    def name(self) -> str:
        """Name."""
        return "optimistic follow the regularised leader"

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre."""
        return _Leader(game, memory=1.0)


class _Leader(AbstractPlayer):
    """``memory`` times the last vector is the hint for the next."""

    __slots__ = ("_bound", "_game", "_hint", "_memory", "_total", "_weight")

    def __init__(self, game: Game, *, memory: float) -> None:
        self._game, self._memory = game, memory
        self._total, self._hint = np.zeros(game.dimension), np.zeros(game.dimension)
        self._bound, self._weight = 0.0, 0.0

    def predict(self) -> FloatArray:
        game = self._game
        leading = self._total + self._hint
        norm = length(leading)
        if norm == 0.0:
            return game.center
        if norm >= self._weight * game.radius:
            return game.center - leading * (game.radius / norm)
        return into_ball(game.center - leading / self._weight, game.center, game.radius)

    def update(self, feedback: Feedback) -> None:
        gradient, game = feedback.gradient, self._game
        surprise = length(gradient - self._hint)
        largest = game.diameter * surprise
        if self._weight > 0.0:
            largest = min(largest, surprise * surprise / (2.0 * self._weight))
        self._bound += largest
        self._weight = 2.0 * self._bound / game.radius**2
        self._total += gradient
        self._hint = self._memory * gradient
