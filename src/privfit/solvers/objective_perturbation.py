"""Objective perturbation: minimise an objective with a random linear term, release once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import SIZES, in_range, one_of, optional
from privfit.errors import Incompatible, PlanViolation
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import ApproximateEvent, Event, compose
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.procedures.landscape import Landscape, fully_penalised
from privfit.procedures.objective_perturbation import (
    PerturbedObjective,
    calibrate_spread,
    determinant_loss,
    ridge_for,
    settled,
)
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.requirements import need_minimiser, need_one_predictor

METHOD = "ObjectivePerturbation()"


@final
@dataclass(frozen=True, slots=True)
class ObjectivePerturbation(AbstractSolver):
    """Add ``b'theta`` with a random b to the objective, minimise, and release the minimiser.

    **The ridge acts on the intercept too** in this method, and is raised to what the guarantee needs where
    ``l2`` is smaller: ``curvature / (n (exp(curvature_share * epsilon) - 1))``, a term that vanishes as 1/n.
    The released point has both; with inference, Newton steps lead from there to the optimum of the objective
    that was asked for, and intervals are for that.

    Parameters
    ----------
    curvature_share : float
        Most of epsilon that may pay for the curvature of a row (the determinants), up to
        `MOST_CURVATURE_LOSS`. A larger share needs a smaller ridge and leaves less for the noise.
    output_share : float
        Share of epsilon that pays for noise on the outcome, which covers that minimisers, floats and the
        noise's lattice are not exact. Far smaller than the effect of b.
    radius : float, optional
        Of the ball around the start in which the minimiser is sought. Default ``10 sqrt(p)``.
    constants : {"derived", "source"}
        ``"derived"``: see `privfit.procedures.objective_perturbation`. ``"source"``: for a pure budget
        Chaudhuri, Monteleoni and Sarwate 2011, algorithm 2; with delta Kifer, Smith and Thakurta 2012,
        algorithm 1, with twice their bound on a gradient where a row is replaced.

    Notes
    -----
    *Guarantee.* One release, epsilon- or (epsilon, delta)-differentially private, under either relation.
    With delta no statement in terms of mu-GDP or zCDP is known, so such budgets are refused.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate 2011; Kifer, Smith and Thakurta 2012; Iyengar et al. 2019; Redberg,
    Koskela and Wang 2023.
    """

    curvature_share: float = 0.15
    output_share: float = 0.02
    radius: float | None = None
    constants: Literal["derived", "source"] = "derived"

    releases_a_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range(0.0, 0.9, closed="neither", curvature_share=self.curvature_share)
        in_range(1e-6, 0.5, output_share=self.output_share)
        optional(in_range, *SIZES, radius=self.radius)
        one_of(("derived", "source"), constants=self.constants)

    @property
    def name(self) -> str:
        """Name."""
        return "objective perturbation" + (", published constants" if self.constants == "source" else "")

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one release."""
        need_one_predictor(problem, METHOD)
        need_minimiser(problem, METHOD)
        epsilon, delta = _cost(allowance)
        try:
            return (self._procedure(problem, epsilon, delta).planned(problem),)
        except PlanViolation:
            if self.constants == "derived":
                raise
            raise Incompatible(
                "constants='source': the published noise is too small for this epsilon and delta; "
                "use constants='derived'"
            ) from None

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Carry the release out."""
        planned = oracle.plan.solver_releases[0]
        procedure = self.procedure_of(problem, planned)
        release = oracle.carry_out(procedure, np.array(problem.start))
        return Solution.of_point(problem, release.value)

    def procedure_of(self, problem: Problem, planned: PlannedRelease) -> PerturbedObjective:
        """Return the procedure of a planned release, with its ridge and noise."""
        return self._procedure(problem, planned.epsilon or math.inf, planned.delta)

    def _procedure(self, problem: Problem, epsilon: float, delta: float) -> PerturbedObjective:
        """Return the procedure that costs (epsilon, delta), from public facts."""
        radius = self.radius or 10.0 * math.sqrt(problem.size)
        if math.isinf(epsilon):
            return PerturbedObjective(epsilon, 0.0, problem.l2, 0.0, 0.0, radius)
        output = self.output_share * epsilon
        left = (epsilon - output) * (1.0 - 1e-12)
        if self.constants == "source":
            l2, spread = _published(problem, left, delta)
        else:
            l2, spread = settled(
                Landscape.of(fully_penalised(problem)),
                epsilon=left,
                delta=delta,
                curvature_share=self.curvature_share,
                least=problem.l2,
            )
        return PerturbedObjective(epsilon, delta, l2, spread, output, radius)


def _published(problem: Problem, epsilon: float, delta: float) -> tuple[float, float]:
    """Return ridge and spread as published."""
    bare = Landscape.of(fully_penalised(problem))
    if delta > 0:
        l2 = max(problem.l2, 2.0 * bare.curvature / (bare.n_rows * epsilon))
        return l2, bare.sensitivity * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon
    left = epsilon - 2.0 * determinant_loss(bare) if problem.l2 > 0 else 0.0
    if left > 0:
        return problem.l2, calibrate_spread(bare, epsilon=left, delta=0.0)
    return ridge_for(bare, min(epsilon / 4.0, 5.0)), calibrate_spread(bare, epsilon=epsilon / 2.0, delta=0.0)


def _cost(allowance: Allowance) -> tuple[float, float]:
    """Return the (epsilon, delta) that the release may cost."""
    if allowance.pure or math.isinf(allowance.amount):
        return allowance.amount, 0.0
    budget = allowance.budget
    if budget is None or budget.notion != "approximate":
        raise Incompatible(
            f"budget: the cost of {METHOD} is known as (epsilon, delta) only, which does not add up to a GDP "
            "or zCDP budget; give epsilon and delta, or use solver='auto' or OutputPerturbation()"
        )
    if not allowance.beside:
        return budget.epsilon, budget.delta
    return _beside(budget, allowance.beside), budget.delta / 2.0


def _beside(budget: Budget, events: Sequence[Event]) -> float:
    """Return the largest epsilon, to 0.1 percent, that fits the budget next to events, at half its delta."""

    def fits(epsilon: float) -> bool:
        return compose([*events, ApproximateEvent(epsilon, budget.delta / 2.0)]).within(budget)

    low, high = 0.0, budget.epsilon
    while high - low > 1e-3 * high and high > 1e-6 * budget.epsilon:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0.0:
        raise Incompatible(f"budget: nothing is left for {METHOD} beside the inference; raise epsilon")
    return low
