"""One private pass over the rows, by any online learner."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import SIZES, finite_numbers, in_range, one_of, optional, positive, whole
from privfit.errors import Incompatible, InvalidArgument
from privfit.learners.base import AbstractLearner
from privfit.learners.subgradient import OnlineSubgradientDescent
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import allowance_of
from privfit.procedures.online_to_batch import PURE_NOISE, NoiseMode, OnePass
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.requirements import need_no_scale, need_one_predictor, need_replace, need_smooth

_DEFAULT = OnlineSubgradientDescent()

_ROUNDS = 1_000
"""Rounds at most, unless the rows of one are given."""


@final
@dataclass(frozen=True, slots=True)
class OnlineToBatch(AbstractSolver):
    """One pass over the rows: an online learner steered by noisy sums of gradient differences.

    Each row is read once, in the order of the table, so the rows may come from a `privfit.RowStream` that
    does not fit in memory. The guarantee needs neither convexity nor that the loss's bounds hold. Accuracy
    needs rows in a random order: shuffle a table that is sorted by its response, a predictor or time.

    Parameters
    ----------
    learner : AbstractLearner
        From `privfit.learners`. Default `OnlineSubgradientDescent()`, whose step suits the expected noise.
    power : float, optional
        Rows of round t have weight ``t**power``; at least 1. Default: what suits the learner.
    radius : float
        The estimate stays in the ball of this radius around ``start``, in coefficients of encoded columns
        (which lie on a unit scale). Public; the error grows with it where the learner is not
        parameter-free. With `OnlineMirrorDescent` it is a p-norm ball.
    start : sequence of float, optional
        Public starting point, one number for each encoded column, the intercept first: for example the
        coefficients of an earlier fit of public data. Default 0.
    batch_size : int, optional
        Most rows of a round; rounds are as even as can be. Noise is drawn once a round and dominates the
        time. Default: what makes 1,000 rounds, or one row each: more rounds take longer and have more noise
        (``experiments/online_to_batch/rounds.py``).
    noise : {"tight", "source"}
        ``"tight"`` has the noise that the differences need. ``"source"`` has that of the source's equation
        (6), which is larger, for comparison.
    noise_norm : float
        Exponent of the norm that gradients are bounded in and that the noise follows. 2 serves best under
        a Gaussian budget. Under a pure one ``inf`` has less noise where rows are bounded entry by entry,
        and 1 where few entries of a row are not 0; others than 1, 2 and ``inf`` are refused there.
    row_bound : float, optional
        Public bound on this norm of the encoded rows, for example 1 for ``inf`` where a schema bounds
        every column. Gradients are held to it, so a wrong one costs accuracy only. Default: what follows
        from the Euclidean bound.

    Notes
    -----
    *Guarantee.* mu-GDP, or epsilon-DP under a pure budget, under ``replace``: see
    `privfit.procedures.online_to_batch.OnePass`. With inference, Newton steps are bought at the outcome, and
    the estimate that they lead to is reported.

    References
    ----------
    Zhang, Tran and Cutkosky 2022, *Differentially private online-to-batch for smooth losses*.
    """

    learner: AbstractLearner = _DEFAULT
    power: float | None = None
    radius: float = 4.0
    start: Sequence[float] | None = None
    batch_size: int | None = None
    noise: NoiseMode = "tight"
    noise_norm: float = 2.0
    row_bound: float | None = None
    releases_a_point: ClassVar[bool] = True
    one_pass: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.learner, AbstractLearner):
            raise InvalidArgument(
                f"learner must be one of privfit.learners, got {type(self.learner).__name__}"
            )
        optional(in_range, 1.0, 20.0, power=self.power)
        in_range(*SIZES, radius=self.radius)
        if self.start is not None:
            points = finite_numbers(self.start)
            if points is None or points.ndim != 1:
                raise InvalidArgument("start must be a list of finite numbers, one for each column")
            object.__setattr__(self, "start", tuple(points.tolist()))
        optional(whole, batch_size=self.batch_size)
        one_of(("tight", "source"), noise=self.noise)
        in_range(1.0, math.inf, noise_norm=self.noise_norm)
        optional(positive, row_bound=self.row_bound)

    @property
    def name(self) -> str:
        """Name with the learner."""
        return f"one pass, {self.learner.name}"

    def procedure(self, problem: Problem, allowance: Allowance) -> OnePass:
        """Return the pass that costs ``allowance``.

        Raises
        ------
        InvalidArgument
            If ``start`` has another length than there are columns.
        """
        center = problem.start if self.start is None else tuple(self.start)
        if len(center) != problem.size:
            raise InvalidArgument(f"start must hold {problem.size} finite numbers, one for each column")
        return OnePass(
            learner=self.learner,
            power=self.power if self.power is not None else self.learner.power,
            center=center,
            radius=self.radius,
            batch=min(self.batch_size or -(-problem.n_rows // _ROUNDS), problem.n_rows),
            mode=self.noise,
            amount=allowance.amount,
            pure=allowance.pure,
            norm=self.noise_norm,
            row_bound=self.row_bound,
        )

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan the pass."""
        need_no_scale(problem, "OnlineToBatch")
        need_one_predictor(problem, "OnlineToBatch")
        need_replace(problem, "OnlineToBatch")
        need_smooth(problem, "OnlineToBatch")
        if allowance.pure and self.noise_norm not in PURE_NOISE:
            raise Incompatible(
                "noise_norm: pure noise can be drawn exactly for 1, 2 and inf only; take one of them, "
                "or set delta > 0"
            )
        one = self.procedure(problem, allowance)
        self.learner.start(one.game(problem))  # refuses what it cannot play
        return (one.planned(problem),)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Make the pass."""
        (planned,) = oracle.plan.solver_releases
        one = self.procedure(problem, allowance_of(planned))
        theta = oracle.carry_out(one, np.array(one.center)).value
        return Solution.of_point(problem, theta)
