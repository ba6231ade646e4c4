"""Projected online subgradient descent, with a fixed and with an adaptive step."""

import math
from dataclasses import dataclass
from typing import final

from privfit._checks import FloatArray, optional, positive
from privfit.learners.base import AbstractLearner, AbstractPlayer, Feedback, Game, into_ball


@final
@dataclass(frozen=True, slots=True)
class OnlineSubgradientDescent(AbstractLearner):
    """``w <- projection of w - step_size * v``, with one step size for all rounds.

    Parameters
    ----------
    step_size : float, optional
        In units of the coefficients over those of the gradient, for weights that end at 1. Default:
        ``R sqrt((2k + 1) / (3 T)) / V``, R the radius of the ball and V the size of the last vectors near the
        answer, where gradients add up to 0: what a mean of ``batch`` of them is off by, ``G / sqrt(batch)``,
        and the noise. At most ``2 / H``, beyond which gradient descent goes too far.

    Notes
    -----
    Regret at most ``R**2 / (2 step_size) + step_size / 2 * sum(norm(v)**2)``, as the start is the centre
    (Zinkevich 2003).
    """

    step_size: float | None = None

    def __post_init__(self) -> None:
        optional(positive, step_size=self.step_size)

    @property
    def name(self) -> str:
        """Name."""
        return "online subgradient descent"

    def step(self, game: Game) -> float:
        """Return the step size in a game."""
        if self.step_size is not None:
            return self.step_size
        size = math.hypot(game.lipschitz / math.sqrt(game.batch), game.noise)
        step = game.radius * math.sqrt((2 * game.power + 1) / (3 * game.rounds)) / size
        return min(step, 2.0 / game.smoothness) if game.smoothness > 0.0 else step

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre."""
        return _FixedStep(game, self.step(game))


class _FixedStep(AbstractPlayer):
    __slots__ = ("_game", "_point", "_step")

    def __init__(self, game: Game, step: float) -> None:
        self._game, self._step, self._point = game, step, game.center

    def predict(self) -> FloatArray:
        return self._point

    def update(self, feedback: Feedback) -> None:
        moved = self._point - self._step * feedback.gradient
        self._point = into_ball(moved, self._game.center, self._game.radius)


@final
@dataclass(frozen=True, slots=True)
class AdaGradNorm(AbstractLearner):
    """Projected online subgradient descent with step ``D / sqrt(2 * sum of norm(v)**2 so far)``.

    It needs no scale of the vectors, which here grow with the weights and carry noise of unknown size.

    Notes
    -----
    Regret at most ``sqrt(2) D sqrt(sum(norm(v)**2))`` (Streeter and McMahan 2010; Orabona 2019, *A modern
    introduction to online learning*, theorem 4.14).
    """

    @property
    def name(self) -> str:
        """Name."""
        return "AdaGrad-norm"

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre."""
        return _AdaptiveStep(game)


class _AdaptiveStep(AbstractPlayer):
    __slots__ = ("_game", "_point", "_squares")

    def __init__(self, game: Game) -> None:
        self._game, self._squares, self._point = game, 0.0, game.center

    def predict(self) -> FloatArray:
        return self._point

    def update(self, feedback: Feedback) -> None:
        gradient, game = feedback.gradient, self._game
        self._squares += float(gradient @ gradient)
        if self._squares > 0.0:
            step = game.diameter / math.sqrt(2.0 * self._squares)
            self._point = into_ball(self._point - step * gradient, game.center, game.radius)
