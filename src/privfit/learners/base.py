"""What an online learner is: configuration that starts a game, and the state that plays it."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from privfit._checks import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """Public facts of a game of linear losses on a ball, fixed before it starts.

    In round t the learner plays ``w``, sees a vector ``v`` and pays ``v @ w``. The vectors grow like the
    weights ``(t / rounds)**power``.

    Parameters
    ----------
    center : array of shape (d,)
        Centre of the ball, and where a learner starts: a public point.
    radius : float
        Of the ball, in the learner's norm.
    rounds : int
        Number of rounds, T.
    power : float
        Growth of the weights, k.
    lipschitz, smoothness : float
        G and H: bounds on the gradient of a row's loss and on how fast it changes.
    strength : float
        Strong convexity that is known from public facts, mu; 0 if none is.
    batch : int
        Rows whose gradients are averaged in a round, or one less than in some.
    deviation : float
        Standard deviation per coordinate of the noise of a node, for a node of sensitivity 1; 0 without
        noise.
    """

    center: FloatArray
    radius: float
    rounds: int
    power: float = 0.0
    lipschitz: float = 1.0
    smoothness: float = 0.0
    strength: float = 0.0
    batch: int = 1
    deviation: float = 0.0

    @property
    def dimension(self) -> int:
        """Number d of coordinates."""
        return self.center.size

    @property
    def diameter(self) -> float:
        """Of the ball, D."""
        return 2.0 * self.radius

    @property
    def nodes(self) -> int:
        """Largest number U of nodes of the tree that hold one round: ``floor(log2 T) + 1``."""
        return self.rounds.bit_length()

    @property
    def increment(self) -> float:
        """Bound on a row's difference of weighted gradients in any round: ``(k + 1) (G + D H) / T``."""
        return (self.power + 1.0) * (self.lipschitz + self.diameter * self.smoothness) / self.rounds

    @property
    def noise(self) -> float:
        """Norm that the noise exceeds seldom, where the tree is deepest."""
        typical = math.sqrt(self.dimension) + math.sqrt(2.0 * math.log(2.0 * self.rounds))
        node = self.deviation * 2.0 * self.increment / self.batch
        return typical * node * math.sqrt(self.nodes)

    @property
    def largest(self) -> float:
        """Norm that the vectors exceed seldom: G, and that of the noise."""
        return self.lipschitz + self.noise


@dataclass(frozen=True, slots=True, eq=False)
class Feedback:
    """What a learner is told after a round, all of it free of privacy cost.

    Parameters
    ----------
    gradient : array of shape (d,)
        ``v``.
    point : array of shape (d,)
        Where the gradient was taken.
    weight : float
        Weight of the round, beta.
    noise : float
        Sum over the nodes in ``v`` of the standard deviation of their noise per coordinate.
    """

    gradient: FloatArray
    point: FloatArray
    weight: float = 1.0
    noise: float = 0.0


class AbstractPlayer(ABC):
    """The state of a learner in a game."""

    __slots__ = ()

    @abstractmethod
    def predict(self) -> FloatArray:
        """Return the point ``w`` of the coming round, shape (d,), in the ball."""

    @abstractmethod
    def update(self, feedback: Feedback) -> None:
        """Learn the loss of the round that ``predict`` was played in."""


class AbstractLearner(ABC):
    """An online learner. Subclasses are final, frozen dataclasses; running state is a player's.

    Learners see noisy vectors only. Whatever they do with them is post-processing, so step sizes, clipping
    and restarts may depend on all that they saw.
    """

    __slots__ = ()

    @property
    def power(self) -> float:
        """Growth of the weights that suits the learner."""
        return 1.0

    @property
    @abstractmethod
    def name(self) -> str:
        """Name with configuration, for plans and summaries."""

    @abstractmethod
    def start(self, game: Game) -> AbstractPlayer:
        """Start a game."""


def length(vector: FloatArray) -> float:
    """Return the Euclidean norm."""
    return math.sqrt(float(vector @ vector))


def into_ball(point: FloatArray, center: FloatArray, radius: float) -> FloatArray:
    """Return the nearest point of a Euclidean ball."""
    away = point - center
    norm = length(away)
    return point if norm <= radius else center + away * (radius / norm)


def p_norm(vector: FloatArray, p: float) -> float:
    """Return the p-norm, ``1 <= p <= inf``, without overflow of powers."""
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or math.isinf(p):
        return largest
    return largest * float((np.abs(vector) / largest) @ (np.abs(vector) / largest) ** (p - 1.0)) ** (1.0 / p)
