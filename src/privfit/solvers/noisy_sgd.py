"""Noisy mini-batch stochastic gradient descent."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import SIZES, in_range, one_of, optional, positive, whole
from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.calibrate import calibrate_sampled
from privfit.privacy.composition import Event, compose
from privfit.privacy.mechanisms import gaussian_mu
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.procedures.noisy_sgd import SampledDescent, descent_event, sum_sensitivity
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.requirements import need_convex, need_no_scale, need_one_predictor, need_pair

_METHOD = "noisy SGD"
_STEPS = (50, 1000)
_SOURCE_BATCH = 50


@final
@dataclass(frozen=True, slots=True)
class NoisySGD(AbstractSolver):
    """``w <- w - eta (noisy sum of gradients over a Poisson sample / (q n) + ridge)``, then an average.

    Rows' gradients are bounded by the loss and the Mallows weights, so nothing is clipped and the method has
    no clipping bias.

    Parameters
    ----------
    batch_rate : float, optional
        ``q``, the probability with which each row takes part in a step. Default: so that the sample adds at
        most half as much variance as the noise, and at least ``4 mu / sqrt(T)``.
    n_steps : int, optional
        T. Default ``2 beta D / sqrt(2 v)``, at which the best step size is the largest stable one, within 50
        and 1000; ``v = 4 p L**2 / (n mu)**2`` is the noise of one step with the whole budget. 1000 for a loss
        with a kink.
    step_size : float, optional
        Default ``min(1 / (2 beta), D / sqrt(2 T V))`` with V the variance of a step's gradient from sampling
        and noise (Lan 2012, corollary 1); for a loss with a kink ``D / sqrt(T (L**2 + V))``.
    average : bool
        Whether to return the mean of the second half of the points (Rakhlin, Shamir and Sridharan 2012)
        or the last one.
    radius : float
        D, a public guess of the distance from the start to the minimum. It affects accuracy only.
    constants : {"derived", "source"}
        ``"source"`` is the mini-batch version of Bassily, Smith and Thakurta (2014), algorithm 1: 50 rows a
        step expected, ``T = 1 / q**2``, noise of standard deviation ``q sqrt(T) sqrt(32 log(n/delta)
        log(1/delta)) L / epsilon`` on a sample's sum, step sizes ``D / sqrt(t (L**2 + p sd**2 / (qn)**2))``,
        projection on the ball of radius D around the start, and the last point.

    Notes
    -----
    *Guarantee.* ``compose(events).within(budget)`` for T noisy sums over Poisson samples under the declared
    relation (`privfit.privacy.sampling`); the source's noise is used only where this accountant confirms it.

    References
    ----------
    Bassily, Smith and Thakurta 2014, *Private empirical risk minimization*, algorithm 1 and theorem 2.4;
    Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang 2016, *Deep learning with differential
    privacy*, for Poisson samples.
    """

    batch_rate: float | None = None
    n_steps: int | None = None
    step_size: float | None = None
    average: bool = True
    radius: float = 2.0
    constants: Literal["derived", "source"] = "derived"

    releases_a_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(in_range, 2.0**-53, 1.0, batch_rate=self.batch_rate)
        optional(whole, n_steps=self.n_steps)
        optional(positive, step_size=self.step_size)
        if not isinstance(self.average, bool):
            raise InvalidArgument("average must be True or False")
        in_range(*SIZES, radius=self.radius)
        one_of(("derived", "source"), constants=self.constants)

    @property
    def name(self) -> str:
        """Name."""
        return "noisy SGD" + (", constants of the source" if self.constants == "source" else "")

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan the steps as one release, with the least noise that the whole budget allows."""
        need_no_scale(problem, _METHOD)
        need_one_predictor(problem, _METHOD)
        need_convex(problem, _METHOD)
        budget = need_pair(allowance, _METHOD)
        if self.constants == "source":
            rate = _drawable(self.batch_rate or min(1.0, _SOURCE_BATCH / problem.n_rows))
            n_steps = self.n_steps or math.ceil(rate**-2.0)
            ratio = _source_ratio(problem, n_steps, rate, budget, allowance.beside)
        else:
            n_steps = self.n_steps or self._useful_steps(problem, allowance.amount)
            rate = _drawable(self.batch_rate or _useful_rate(problem, n_steps, allowance.amount))
            event = descent_event(problem, n_steps, rate, 1.0)
            ratio = calibrate_sampled(event, budget, allowance.beside).ratio
        return (self._descent(problem, n_steps, rate, ratio).planned(problem),)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Take the steps."""
        (planned,) = oracle.plan.solver_releases
        event = planned.sampled
        if event is None:
            raise Incompatible(f"solver: {_METHOD} draws rows at random and has no version without noise")
        descent = self._descent(problem, event.steps, event.rate, event.ratio)
        release = oracle.carry_out(descent, np.array(problem.start))
        return Solution.of_point(problem, release.value)

    def _useful_steps(self, problem: Problem, mu: float) -> int:
        fewest, most = _STEPS
        if not problem.loss.constants.smooth:
            return most
        useful = 2.0 * problem.ridged_smoothness * self.radius / math.sqrt(2.0 * _noise_per_step(problem, mu))
        return int(min(max(fewest, round(min(useful, 1e9))), most))

    def _descent(self, problem: Problem, n_steps: int, rate: float, ratio: float) -> SampledDescent:
        source = self.constants == "source"
        averaged = max(1, n_steps // 2) if self.average and not source else 1

        def descent(step_size: float) -> SampledDescent:
            return SampledDescent(
                n_steps=n_steps,
                batch_rate=rate,
                step_size=step_size,
                decay=0.5 if source else 0.0,
                radius=self.radius if source else math.inf,
                averaged=averaged,
                ratio=ratio,
                start=problem.start,
            )

        if self.step_size is not None:
            return descent(self.step_size)
        slope, size = problem.gradient_bound, rate * problem.n_rows
        noise = problem.size * (descent(1.0).planned(problem).sd / size) ** 2
        if source:
            return descent(self.radius / math.sqrt(slope**2 + noise))
        variance = noise + (1.0 - rate) * slope**2 / size
        if not problem.loss.constants.smooth:
            return descent(self.radius / math.sqrt(n_steps * (slope**2 + variance)))
        largest = 1.0 / (2.0 * problem.ridged_smoothness)
        return descent(min(largest, self.radius / math.sqrt(2.0 * n_steps * variance)))


def _noise_per_step(problem: Problem, mu: float) -> float:
    """Return the squared norm of the noise of a mean gradient that costs all of ``mu``."""
    change = (2.0 if problem.relation is Relation.REPLACE else 1.0) * problem.gradient_bound
    return problem.size * (change / (problem.n_rows * mu)) ** 2


def _useful_rate(problem: Problem, n_steps: int, mu: float) -> float:
    noise = _noise_per_step(problem, mu) * n_steps
    return min(
        1.0, max(4.0 * mu / math.sqrt(n_steps), 2.0 * problem.gradient_bound**2 / (problem.n_rows * noise))
    )


def _drawable(rate: float) -> float:
    """Return the rate as a multiple of ``2**-53``, which is drawn exactly."""
    return math.floor(rate * 2.0**53) * 2.0**-53


def _source_ratio(
    problem: Problem, n_steps: int, rate: float, budget: Budget, beside: tuple[Event, ...]
) -> float:
    """Return the ratio at the source's noise, or refuse where that noise does not give the budget."""
    logs = math.log(problem.n_rows / budget.delta) * math.log(1.0 / budget.delta)
    sd = rate * math.sqrt(n_steps) * math.sqrt(32.0 * logs) * problem.gradient_bound / budget.epsilon
    ratio = gaussian_mu(problem.size, sum_sensitivity(problem), sd) * (1 + 1e-12)
    if not compose([descent_event(problem, n_steps, rate, ratio), *beside]).within(budget):
        raise Incompatible(
            "constants: the source's noise does not give this budget for this many steps and this rate; "
            "use constants='derived'"
        )
    return ratio
