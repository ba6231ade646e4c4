"""One pass over the rows: an online learner steered by noisy sums of gradient differences."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, final

import numpy as np

from privfit._checks import FloatArray
from privfit.data.blocks import Block
from privfit.learners.base import AbstractLearner, Feedback, Game
from privfit.privacy.mechanisms import NoiseSource, NoNoise
from privfit.privacy.repeated import (
    AbstractRepeatedNoise,
    ExactRepeated,
    RepeatedCube,
    RepeatedGaussian,
    RepeatedLaplace,
    RepeatedRadial,
)
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.procedures.differences import Bounds, RoundRows, WeightedDifference
from privfit.procedures.tree import NoisyTree, depth

NoiseMode = Literal["tight", "source"]

_SLACK = 1.0 - 1e-12
"""Keeps the cost of all nodes of a row at or below the whole in floating point."""


@final
@dataclass(frozen=True, slots=True)
class OnePass(AbstractProcedure):
    """Anytime online-to-batch conversion with tree aggregation. Each row is used in one round.

    In round t, with weights ``b_t = (t / T)**power``, the learner plays w, the iterate becomes the weighted
    mean x of all plays, and the rows of the round add ``b_t grad(x_t) - b_(t-1) grad(x_(t-1))`` to a sum
    whose noisy value goes back to the learner. The outcome is ``x_(T+1)``, which depends on all rows.

    Parameters
    ----------
    learner : AbstractLearner
    power : float
        Growth of the weights, at least 1.
    center : tuple of float
        Public starting point, of length ``problem.size``.
    radius : float
        Of the ball around it that the iterates stay in.
    batch : int
        Most rows of a round. Rounds are as few as that allows, and as even as can be: the mean of a short one
        would have far more noise.
    mode : {"tight", "source"}
        Whether a node's noise follows from the balls that differences are held to, or from the looser
        bound of the source, equation (6).
    amount : float
        Cost: ``mu``, or ``epsilon`` if ``pure``; ``inf`` for no noise.
    pure : bool
    norm : float
        Exponent q of the norm that differences are held to and that the noise follows: in [1, inf], for
        pure noise 1, 2 or inf.
    row_bound : float, optional
        Bound on this norm of the rows, times the root of their weight. Default: what follows from
        ``problem.norm_bound``.

    Notes
    -----
    *Guarantee.* Under ``replace``, mu-GDP (or epsilon-DP) for any rows and any loss, at the planned cost. A
    row enters one difference, which is held to a ball whose centre and radius r are functions of earlier
    releases; so replacing the row changes the difference by at most ``2 r / rows of the round``, and with
    it at most ``U = floor(log2 T) + 1`` released sums. Each is ``mu / sqrt(U)``-GDP (``epsilon / U``-DP)
    given the earlier ones, and composes (Dong, Roth and Su 2022, corollary 3.3). Iterates, noise levels and
    the learner are functions of releases. With another norm than the Euclidean, pure noise has the density
    ``exp(-norm(z) / scale)`` of that norm; Gaussian noise is larger by ``d**(1/2 - 1/q)`` for q > 2, since
    ``norm(v)_2 <= d**(1/2 - 1/q) norm(v)_q``. Convexity, independence of rows, and G and H being right matter
    to accuracy only.

    References
    ----------
    Zhang, Tran and Cutkosky 2022, *Differentially private online-to-batch for smooth losses*, algorithm 1
    and theorem 3.
    """

    learner: AbstractLearner
    power: float
    center: tuple[float, ...]
    radius: float
    batch: int
    mode: NoiseMode
    amount: float
    pure: bool = False
    norm: float = 2.0
    row_bound: float | None = None

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the planned outcome, at the cost of the whole pass.

        Its sensitivity is a bound on that of a round's difference.
        """
        game = self.game(problem)
        sensitivity = 2.0 * game.increment / game.batch
        mu = math.inf if self.pure else self.amount
        epsilon = self.amount if self.pure else None
        return PlannedRelease("stream", problem.size, sensitivity, mu, 0.0, epsilon=epsilon)

    def game(self, problem: Problem) -> Game:
        """Return the public facts that the learner is told."""
        return Game(
            center=np.array(self.center),
            radius=self.radius,
            rounds=self.rounds(problem),
            power=self.power,
            lipschitz=problem.gradient_bound,
            smoothness=problem.smoothness,
            strength=max(0.0, float(np.linalg.eigvalsh(problem.ridge)[0])),
            batch=problem.n_rows // self.rounds(problem),
            deviation=self._noise(problem, NoNoise()).deviation * self._inflation(problem),
        )

    def rounds(self, problem: Problem) -> int:
        """Return the number of rounds, T."""
        return -(-problem.n_rows // self.batch)

    def node_amount(self, rounds: int) -> float:
        """Return the cost of a node."""
        count = depth(rounds) if self.mode == "tight" else math.log2(2.0 * rounds)
        return self.amount / (count if self.pure else math.sqrt(count)) * _SLACK

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Make the pass."""
        game = self.game(problem)
        rounds, player = game.rounds, self.learner.start(game)
        tree = NoisyTree(problem.size, rounds, self._noise(problem, noise), ratio=self.batch)
        leaf = _Leaf(problem, game, self._bounds(problem), mode=self.mode, norm=self.norm)
        inflation = self._inflation(problem)
        point = before = player.predict()
        played, total, beta = before, 0.0, 0.0
        for t, batch in enumerate(_batches(rows, problem.n_rows, rounds, problem.basis), start=1):
            last, beta = beta, (t / rounds) ** self.power
            total += beta
            before, point = point, point + (beta / total) * (played - point)
            apart = played - before
            vector, sensitivity = leaf.difference(batch, (point, before), (beta, last), apart)
            total_vector, spread = tree.step(vector, sensitivity * inflation)
            gradient = total_vector + beta * (problem.ridge @ point)
            player.update(Feedback(gradient, point, beta, spread))
            played = player.predict()
        beta = ((rounds + 1) / rounds) ** self.power
        return point + (beta / (total + beta)) * (played - point)

    def _noise(self, problem: Problem, source: NoiseSource) -> AbstractRepeatedNoise:
        if math.isinf(self.amount):
            return ExactRepeated(problem.size, source)
        node = self.node_amount(self.rounds(problem))
        if not self.pure:
            return RepeatedGaussian(problem.size, node, source)
        return PURE_NOISE[self.norm](problem.size, node, source)

    def _inflation(self, problem: Problem) -> float:
        """Return by how much the norm that noise is calibrated in can exceed the norm of the ball."""
        exponent = 0.0 if self.pure else max(0.0, 0.5 - 1.0 / self.norm)
        return math.nextafter(problem.size**exponent, math.inf) if exponent > 0.0 else 1.0

    def _bounds(self, problem: Problem) -> Bounds:
        constants, euclidean = problem.loss.constants, problem.norm_bound
        if self.norm == 2.0 and self.row_bound is None:
            return Bounds(constants.slope * euclidean, problem.smoothness, problem.loss.convex)
        largest = self.row_bound
        if largest is None:
            largest = euclidean * problem.size ** max(0.0, 1.0 / self.norm - 0.5)
        return Bounds(constants.slope * largest, constants.curvature * euclidean * largest, centred=False)


PURE_NOISE: dict[float, Callable[[int, float, NoiseSource], AbstractRepeatedNoise]] = {
    1.0: RepeatedLaplace,
    2.0: RepeatedRadial,
    math.inf: RepeatedCube,
}
"""Noise of density ``exp(-norm(z) / scale)`` by the exponent of the norm, where it can be drawn exactly."""


class _Leaf:
    """Differences of a round and their sensitivities."""

    __slots__ = ("_bounds", "_differences", "_farthest", "_game", "_mode")

    def __init__(self, problem: Problem, game: Game, bounds: Bounds, *, mode: NoiseMode, norm: float) -> None:
        self._bounds = bounds
        largest = -(-problem.n_rows // game.rounds)
        self._differences = WeightedDifference(problem.loss, game.dimension, largest, norm)
        self._game, self._mode, self._farthest = game, mode, 0.0

    def difference(
        self,
        batch: RoundRows,
        points: tuple[FloatArray, FloatArray],
        betas: tuple[float, float],
        apart: FloatArray,
    ) -> tuple[FloatArray, float]:
        """Return the mean difference of a round, and its sensitivity.

        ``apart`` is the learner's play minus the iterate before. Where the source has ``norm(w_1 - x_0)``
        with an ``x_0`` that may lie outside of the ball, the first round has 0: its weight before is 0.
        """
        ball = self._bounds.ball(points[0] - points[1], *betas)
        vector = self._differences.mean(batch, points, betas, ball)
        radius, count = ball[1], batch.last - batch.first
        if self._mode == "source":
            self._farthest = max(self._farthest, math.sqrt(float(apart @ apart)))
            radius = max(radius, self._source_bound(betas[0]))
        return vector, 2.0 * radius / count * (1.0 + count * count * 2.0**-50)

    def _source_bound(self, beta: float) -> float:
        """Return ``(k + 1) t**(k-1) (G + H max norm(w_i - x_(i-1)))`` over ``T**k``."""
        game = self._game
        growth = (game.power + 1.0) * beta ** ((game.power - 1.0) / game.power) / game.rounds
        return growth * (game.lipschitz + game.smoothness * self._farthest)


def round_size(n_rows: int, rounds: int, t: int) -> int:
    """Return the number of rows of round t: ``n_rows / rounds``, rounded down or up."""
    return n_rows * t // rounds - n_rows * (t - 1) // rounds


def _batches(rows: Rows, n_rows: int, rounds: int, basis: FloatArray | None) -> Iterator[RoundRows]:
    """Return all ``n_rows`` rows in so many rounds, whatever blocks they come in."""
    rest: Block | None = None
    t, size = 1, round_size(n_rows, rounds, 1)
    for one in rows.blocks():
        block, first = _joined(rest, _turned(one, basis)), 0
        while t <= rounds and first + size <= block.y.size:
            yield RoundRows(block, first, first + size)
            first, t = first + size, t + 1
            size = round_size(n_rows, rounds, t)
        rest = Block(block.x[first:], block.y[first:], block.weight[first:])


def _turned(block: Block, basis: FloatArray | None) -> Block:
    if basis is None:
        return block
    return Block(np.ascontiguousarray(block.x @ basis), block.y, block.weight)


def _joined(one: Block | None, other: Block) -> Block:
    if one is None or one.y.size == 0:
        return other
    return Block(
        np.concatenate([one.x, other.x]),
        np.concatenate([one.y, other.y]),
        np.concatenate([one.weight, other.weight]),
    )
