"""A learner without a step size: betting on a direction, from a public starting point."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray, optional, positive
from privfit.errors import InvalidArgument
from privfit.learners.base import AbstractLearner, AbstractPlayer, Feedback, Game, into_ball, length
from privfit.learners.penalties import AbstractPenalty, NoPenalty

_NONE = NoPenalty()


@final
@dataclass(frozen=True, slots=True)
class ParameterFree(AbstractLearner):
    """Bets on the direction of the vectors, by Krichevsky and Trofimov's rule, from the centre of the ball.

    Its regret depends on how far the best point is from the start, not on the radius of the ball. Give the
    coefficients of an earlier, public fit as the starting point.

    Parameters
    ----------
    stake : float
        Money at the start, in units of the coefficients: what is lost at most (times the size of the
        vectors) if the start was the best point.
    largest : float, optional
        V, a guess at the size of the vectors at the end, for weights that end at 1. Default: what the
        bounds of the loss, the noise and the penalty allow, which real gradients do not come near. A smaller
        one learns faster; vectors are cut to it.
    penalty : AbstractPenalty
        Makes playing far from the start pay for the noise there.

    Notes
    -----
    Vectors (penalty included) are cut to norm V.
    Regret against u, of the vectors that were cut, with ``r = norm(u - center)``, at most
    ``V (r sqrt(T log(1 + 24 T**2 r**2 / stake**2)) + stake)`` (Orabona and Pal 2016, corollary 5). Points
    outside the ball are projected, and the part of the vector that points further out is left out, which
    keeps the bound (Cutkosky 2020, theorem 2).
    """

    stake: float = 1.0
    largest: float | None = None
    penalty: AbstractPenalty = _NONE

    def __post_init__(self) -> None:
        positive(stake=self.stake)
        optional(positive, largest=self.largest)
        if not isinstance(self.penalty, AbstractPenalty):
            raise InvalidArgument(
                f"penalty must be one of privfit.learners, such as NoPenalty(), "
                f"got {type(self.penalty).__name__}"
            )

    @property
    def name(self) -> str:
        """Name."""
        return "parameter-free betting"

    @property
    def power(self) -> float:
        """That of the penalty."""
        return self.penalty.power

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre."""
        return _Bettor(game, self)


class _Bettor(AbstractPlayer):
    __slots__ = ("_bet", "_gains", "_game", "_limit", "_point", "_round", "_rule", "_wealth")

    def __init__(self, game: Game, learner: ParameterFree) -> None:
        self._game, self._rule = game, learner.penalty.start(game)
        self._limit = learner.largest or game.largest + learner.penalty.largest(game)
        self._wealth, self._round = learner.stake, 1
        self._gains, self._bet = np.zeros(game.dimension), np.zeros(game.dimension)
        self._point = game.center

    def predict(self) -> FloatArray:
        return self._point

    def update(self, feedback: Feedback) -> None:
        game = self._game
        coin = -self._inward(self._penalised(feedback)) / self._limit
        norm = length(coin)
        if norm > 1.0:
            coin /= norm
        self._wealth += float(coin @ self._bet)
        self._gains += coin
        self._round += 1
        self._bet = self._gains * (self._wealth / self._round)
        self._point = into_ball(game.center + self._bet, game.center, game.radius)

    def _penalised(self, feedback: Feedback) -> FloatArray:
        xi, nu = self._rule(feedback)
        away = self._point - self._game.center
        norm = length(away)
        if norm == 0.0 or xi == nu == 0.0:
            return feedback.gradient
        return feedback.gradient + away * (xi / norm + 2.0 * nu)

    def _inward(self, gradient: FloatArray) -> FloatArray:
        """Leave out what would drive a bet outside the ball further out."""
        norm = length(self._bet)
        if norm <= self._game.radius:
            return gradient
        out = self._bet / norm
        drive = float(gradient @ out)
        return gradient - drive * out if drive < 0.0 else gradient
