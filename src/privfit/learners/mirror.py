"""Online mirror descent with the squared p-norm."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray, in_range, optional
from privfit.learners.base import AbstractLearner, AbstractPlayer, Feedback, Game, p_norm


@final
@dataclass(frozen=True, slots=True)
class OnlineMirrorDescent(AbstractLearner):
    """Mirror descent on the p-norm ball, with ``norm(w - center)**2 / 2`` as mirror map.

    For p near 1 the regret depends on the largest coordinate of the vectors instead of their length: the
    method for many columns of which few matter.

    Parameters
    ----------
    p : float, optional
        In (1, 2]. Default ``1 + 1 / log(d)``, and 2 for ``d <= e``. The ball's radius is in this norm.

    Notes
    -----
    Regret at most ``D sqrt(2 / (p - 1)) sqrt(sum(norm(v)_q**2))`` with ``1/p + 1/q = 1``. The mirror map is
    (p - 1)-strongly convex (Shalev-Shwartz 2007, lemma 17), the Bregman divergence on the ball is at most
    ``2 r**2``, and the step ``r sqrt(2 (p - 1) / sum(norm(v)_q**2))`` balances the two terms. The projection
    is a rescaling, since the mirror map depends on the norm alone.
    """

    p: float | None = None

    def __post_init__(self) -> None:
        optional(in_range, 1.0, 2.0, closed="right", p=self.p)

    @property
    def name(self) -> str:
        """Name with the norm."""
        return "online mirror descent" + ("" if self.p is None else f" (p={self.p:g})")

    def exponent(self, dimension: int) -> float:
        """Return p in a number of dimensions."""
        return self.p if self.p is not None else 1.0 + 1.0 / max(1.0, math.log(dimension))

    def start(self, game: Game) -> AbstractPlayer:
        """Start at the centre."""
        return _Mirror(game, self.exponent(game.dimension))


class _Mirror(AbstractPlayer):
    __slots__ = ("_dual", "_game", "_p", "_q", "_squares")

    def __init__(self, game: Game, p: float) -> None:
        self._game, self._p, self._q = game, p, p / (p - 1.0)
        self._dual, self._squares = np.zeros(game.dimension), 0.0

    def predict(self) -> FloatArray:
        return self._game.center + _gradient(self._dual, self._q)

    def update(self, feedback: Feedback) -> None:
        self._squares += p_norm(feedback.gradient, self._q) ** 2
        if self._squares == 0.0:
            return
        step = self._game.radius * math.sqrt(2.0 * (self._p - 1.0) / self._squares)
        dual = self._dual - step * feedback.gradient
        norm = p_norm(dual, self._q)  # of the point, too: the two maps keep norms
        self._dual = dual if norm <= self._game.radius else dual * (self._game.radius / norm)


def _gradient(vector: FloatArray, q: float) -> FloatArray:
    """Return the gradient of ``norm(v)_q**2 / 2``, whose norm for the conjugate exponent is ``norm(v)_q``."""
    norm = p_norm(vector, q)
    if norm == 0.0:
        return np.zeros_like(vector)
    return np.sign(vector) * (np.abs(vector) / norm) ** (q - 1.0) * norm
