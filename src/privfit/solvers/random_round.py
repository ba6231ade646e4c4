"""Random-round private stochastic gradient descent, for losses that need not be convex."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import in_range, one_of, optional, positive, whole
from privfit.errors import Incompatible
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.calibrate import calibrate_sampled
from privfit.privacy.composition import Event, compose
from privfit.privacy.mechanisms import gaussian_mu
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.procedures.random_round import RandomRoundWalk, walk_event
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.requirements import (
    need_compiled,
    need_no_scale,
    need_one_predictor,
    need_pair,
    need_replace,
    need_smooth,
)

_METHOD = "random-round SGD"
_MOST_NUMBERS = 10**6
"""Random numbers that the default number of steps may need: private noise is drawn one by one."""


@final
@dataclass(frozen=True, slots=True)
class RandomRoundSGD(AbstractSolver):
    """Steps ``w <- w - eta_k (gradient on one secret row + noise)``, stopped after a random number of them.

    The outcome is the point before update R, with ``P(R = k)`` proportional to ``2 eta_k - beta eta_k**2``
    for k = 1 .. N: for a smooth loss, convex or not, its expected squared gradient is bounded.

    Parameters
    ----------
    n_steps : int, optional
        N, at least 2. Default ``n**2 mu**2 / (8 p)``, half of where more steps help little, but at least n
        and at most ``max(1e4, 1e6 / p)``.
    step_size : float, optional
        ``eta``, less than ``2 / beta``. Default ``min(1 / beta, D / (S sqrt(N)))``; see *Notes*.
    decay : float
        ``eta_k = eta * k**-decay``, in [0, 1).
    initial_gap : float, optional
        Public bound on how far the objective at the start is above its minimum. It affects accuracy only.
        Default ``slope * norm_bound``, which holds if a minimum is within 1 of the start.
    constants : {"derived", "source"}
        ``"source"`` takes ``N = n**2`` steps by default and the noise of Zhang, Zheng, Mou and Wang (2017),
        ``sigma**2 = 32 L**2 log(n/delta) log(1/delta) / epsilon**2``, about ten times what is needed.

    Notes
    -----
    *Guarantee.* ``compose(events).within(budget)`` for N - 1 steps on one evenly drawn row, replace-one
    (`privfit.privacy.sampling`). It needs nothing but clamped gradients, so it holds for every loss. The
    argument of the source takes amplification of a pure guarantee for that of an approximate one; its noise
    is used only where this accountant confirms the budget.

    *Accuracy.* With L the bound on a row's gradient, ``S**2 = L**2 + p sigma**2`` and
    ``D = sqrt(2 (F(w_1) - min F) / beta)``, at a constant step size ``E norm(grad F(w_R))**2 <= beta (beta
    D**2 / N + 2 D S / sqrt(N))`` (Ghadimi and Lan 2013, theorem 2.1 and corollary 2.2).

    References
    ----------
    Zhang, Zheng, Mou and Wang 2017, *Efficient private ERM for smooth objectives*, algorithm 2.
    """

    n_steps: int | None = None
    step_size: float | None = None
    decay: float = 0.0
    initial_gap: float | None = None
    constants: Literal["derived", "source"] = "derived"

    releases_a_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(whole, 2, n_steps=self.n_steps)
        optional(positive, step_size=self.step_size)
        optional(positive, initial_gap=self.initial_gap)
        in_range(0.0, 1.0, closed="left", decay=self.decay)
        one_of(("derived", "source"), constants=self.constants)

    @property
    def name(self) -> str:
        """Name."""
        return "random-round SGD" + (", constants of the source" if self.constants == "source" else "")

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one walk, with the least noise that the whole budget allows beside inference."""
        need_replace(problem, _METHOD)
        need_no_scale(problem, _METHOD)
        need_one_predictor(problem, _METHOD)
        need_smooth(problem, _METHOD)
        need_compiled(problem, _METHOD)
        budget = need_pair(allowance, _METHOD)
        if self.step_size is not None and self.step_size * problem.ridged_smoothness >= 2.0:
            raise Incompatible(
                f"step_size: random-round SGD needs less than {2.0 / problem.ridged_smoothness:.4g}, "
                "2 over the largest curvature, for this loss and row bound"
            )
        n_steps = self._n_steps(problem, allowance)
        if self.constants == "source":
            ratio = _source_ratio(problem, n_steps, budget, allowance.beside)
        else:
            event = walk_event(problem, n_steps, 1.0)
            ratio = calibrate_sampled(event, budget, allowance.beside).ratio
        return (self._walk(problem, n_steps, ratio).planned(problem),)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Walk."""
        (planned,) = oracle.plan.solver_releases
        event = planned.sampled
        if event is None:
            raise Incompatible(f"solver: {_METHOD} draws rows at random and has no version without noise")
        walk = self._walk(problem, event.steps + 1, event.ratio)
        release = oracle.carry_out(walk, np.array(problem.start))
        return Solution.of_point(problem, release.value)

    def _n_steps(self, problem: Problem, allowance: Allowance) -> int:
        if self.n_steps is not None:
            return self.n_steps
        n, p = problem.n_rows, problem.size
        if self.constants == "source":
            return max(2, n**2)
        useful = math.ceil(min(1e12, (n * allowance.amount) ** 2 / (8 * p)))
        return max(2, min(max(n, useful), max(10**4, _MOST_NUMBERS // p)))

    def _walk(self, problem: Problem, n_steps: int, ratio: float) -> RandomRoundWalk:
        beta = problem.ridged_smoothness

        def walk(step_size: float) -> RandomRoundWalk:
            return RandomRoundWalk(n_steps, step_size, self.decay, beta, ratio, problem.start)

        if self.step_size is not None:
            return walk(self.step_size)
        slope = problem.gradient_bound
        noise = math.sqrt(slope**2 + problem.size * walk(1.0).planned(problem).sd ** 2)
        reach = math.sqrt(2.0 * (self.initial_gap or slope) / beta)
        return walk(min(1.0 / beta, reach / (noise * math.sqrt(n_steps))))


def _source_ratio(problem: Problem, n_steps: int, budget: Budget, beside: tuple[Event, ...]) -> float:
    """Return the ratio at the source's noise, or refuse where that noise does not give the budget."""
    query = problem.query("gradient")
    logs = math.log(problem.n_rows / budget.delta) * math.log(1.0 / budget.delta)
    sd = math.sqrt(32.0 * logs) * problem.gradient_bound / budget.epsilon
    # A part in 1e12 more, from which the plan's calibration comes back to this noise.
    ratio = gaussian_mu(problem.size, query.sensitivity(problem.relation, 1), sd) * (1 + 1e-12)
    if not compose([walk_event(problem, n_steps, ratio), *beside]).within(budget):
        raise Incompatible(
            "constants: the source's noise does not give this budget for this many steps; "
            "use constants='derived'"
        )
    return ratio
