"""Online subgradient descent for strongly convex losses."""

from dataclasses import dataclass
from typing import final

from privfit._checks import FloatArray, optional, positive
from privfit.errors import Incompatible
from privfit.learners.base import AbstractLearner, AbstractPlayer, Feedback, Game, into_ball


@final
@dataclass(frozen=True, slots=True)
class StronglyConvexOSD(AbstractLearner):
    """Steps of ``1 / M``, with M the strong convexity of all rounds so far.

    Each vector is completed by half of the strong convexity around the point where it was taken: the loss
    of a round is ``v @ w + weight * strength / 4 * norm(w - point)**2``.

    Parameters
    ----------
    strength : float, optional
        Public number mu such that the objective is mu-strongly convex. Default: the smallest eigenvalue of
        the ridge, where every coefficient has one. If it is too large the estimate suffers, not privacy.

    Notes
    -----
    With ``s = v + weight * strength / 2 * (w - point)`` the regret is at most ``sum(norm(s)**2 / (2 M))``
    (Hazan, Agarwal and Kale 2007). Zhang, Tran and Cutkosky 2022, section 4. Their theorem 8 uses
    ``sum(t**(k-2)) <= T**(k-1)``, which is false for k = 1; so the weights grow with k = 2 here.
    """

    strength: float | None = None

    def __post_init__(self) -> None:
        optional(positive, strength=self.strength)

    @property
    def name(self) -> str:
        """Name."""
        return "strongly convex online subgradient descent"

    @property
    def power(self) -> float:
        """2."""
        return 2.0

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre.

        Raises
        ------
        Incompatible
            If no strong convexity is known.
        """
        strength = self.strength or game.strength
        if not strength > 0.0:
            raise Incompatible(
                "learner: StronglyConvexOSD needs a public strength= where the ridge does not act on every "
                "coefficient (the intercept has none); give one, or use AdaGradNorm()"
            )
        return _Strong(game, strength)


class _Strong(AbstractPlayer):
    __slots__ = ("_game", "_half", "_point", "_total")

    def __init__(self, game: Game, strength: float) -> None:
        self._game, self._half = game, 0.5 * strength
        self._point, self._total = game.center, 0.0

    def predict(self) -> FloatArray:
        return self._point

    def update(self, feedback: Feedback) -> None:
        curvature = self._half * feedback.weight
        self._total += curvature
        slope = feedback.gradient + curvature * (self._point - feedback.point)
        moved = self._point - slope / self._total
        self._point = into_ball(moved, self._game.center, self._game.radius)
