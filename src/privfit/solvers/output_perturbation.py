"""Output perturbation: minimise exactly, release once."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, final

import numpy as np

from privfit._checks import SIZES, in_range, one_of, optional
from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import GaussianEvent, compose
from privfit.privacy.mechanisms import gaussian_mu
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import planned_noise
from privfit.procedures.landscape import Landscape, fully_penalised
from privfit.procedures.minimise import AbstractMinimiser, CertifiedMinimiser, GradientDescent
from privfit.procedures.output_perturbation import PerturbedOutput
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.requirements import need_minimiser, need_one_predictor, need_replace

METHOD = "OutputPerturbation()"


@final
@dataclass(frozen=True, slots=True)
class OutputPerturbation(AbstractSolver):
    """Minimise on the rows without noise, then add noise to the outcome, once.

    With ``l2 > 0`` **the ridge acts on the intercept too**, in this method: otherwise the objective would not
    be strongly convex, and replacing a row could move the minimiser arbitrarily far. The released point has
    that ridge; with inference, Newton steps lead from there to the optimum of the objective that was asked
    for, and intervals are for that.

    Parameters
    ----------
    minimiser : GradientDescent or CertifiedMinimiser
        Which inner method, see `privfit.procedures.minimise`. Gradient descent serves with and without a
        ridge; the certified minimiser needs one, and then costs far fewer passes.
    distance : float, optional
        Public guess at the distance from the start to the minimiser, in encoded coordinates. Only accuracy
        rests on it. Default ``sqrt(p)``: coefficients of about 1.
    constants : {"derived", "source"}
        ``"derived"``: the sensitivities of `GradientDescent`, and noise calibrated exactly.
        ``"source"``: the published ones, ``3 L eta T / n`` and ``5 L (mu + beta) / (n mu beta)``, steps of at
        most ``1 / beta`` and ``1 / (mu + beta)``, and for a Gaussian ``sigma = sqrt(2 ln(2 / delta)) Delta /
        epsilon``, for comparison. Refused where that sigma does not give the budget.

    Notes
    -----
    *Guarantee.* One release: mu-GDP with Gaussian noise of standard deviation ``Delta / mu``, or
    epsilon-differentially private with radial noise of scale ``Delta / epsilon``, where ``Delta`` bounds the
    L2 distance of the outcomes of two tables that differ in one replaced row.

    References
    ----------
    Zhang, Zheng, Mou and Wang 2017; Chaudhuri, Monteleoni and Sarwate 2011, algorithm 1.
    """

    minimiser: AbstractMinimiser = field(default_factory=GradientDescent)
    distance: float | None = None
    constants: Literal["derived", "source"] = "derived"

    releases_a_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.minimiser, GradientDescent | CertifiedMinimiser):
            raise InvalidArgument(
                "minimiser must be a GradientDescent or CertifiedMinimiser, "
                f"got {type(self.minimiser).__name__}"
            )
        optional(in_range, *SIZES, distance=self.distance)
        one_of(("derived", "source"), constants=self.constants)
        if self.constants == "source" and not isinstance(self.minimiser, GradientDescent):
            raise InvalidArgument("constants='source' are those of GradientDescent(); use that as minimiser")

    @property
    def name(self) -> str:
        """Name."""
        return "output perturbation" + (", published constants" if self.constants == "source" else "")

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one release."""
        return (self._procedure(problem, allowance).release,)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Carry the release out."""
        planned = oracle.plan.solver_releases[0]
        minimiser = self.settled_minimiser(problem, planned)
        release = oracle.carry_out(PerturbedOutput(minimiser, planned), np.array(problem.start))
        return Solution.of_point(problem, release.value)

    def utility_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Return a bound on the expected excess ``F(released) - min F`` of the objective.

        Parameters
        ----------
        problem : Problem
        allowance : Allowance

        Returns
        -------
        float
            In the unit of the loss, over the noise alone, for every table whose minimiser lies within
            ``distance`` of the start.

        Notes
        -----
        The noise has mean zero, so by smoothness it adds at most ``beta E|z|**2 / 2`` to what the minimiser
        left over.
        """
        procedure = self._procedure(problem, allowance)
        landscape = Landscape.of(fully_penalised(problem))
        noise = problem.size * procedure.release.sd**2
        left = procedure.minimiser.gap(landscape, distance=self._distance(problem))
        return left + 0.5 * landscape.smoothness * noise

    def _distance(self, problem: Problem) -> float:
        return self.distance or math.sqrt(problem.size)

    def settled_minimiser(self, problem: Problem, release: PlannedRelease) -> AbstractMinimiser:
        """Return the inner method of a planned release with all its settings: steps, step size, tolerance."""
        landscape = Landscape.of(fully_penalised(problem))
        minimiser = self.minimiser
        if self.constants == "source" and isinstance(minimiser, GradientDescent):
            minimiser = _published_step(minimiser, landscape)
        return minimiser.settled(landscape, distance=self._distance(problem), spread=_spread(release))

    def _procedure(self, problem: Problem, allowance: Allowance) -> PerturbedOutput:
        need_one_predictor(problem, METHOD)
        need_replace(problem, METHOD)
        need_minimiser(problem, METHOD)
        published = self.constants == "source"
        unit = _published_unit(problem.size, allowance) if published else None
        unit = unit or planned_noise("minimiser", problem.size, 1.0, allowance)
        minimiser = self.settled_minimiser(problem, unit)
        landscape = Landscape.of(fully_penalised(problem))
        sensitivity = minimiser.sensitivity(landscape)
        if published:
            sensitivity = max(sensitivity, _published_sensitivity(minimiser, landscape))
        if published and unit.epsilon is None:
            release = replace(unit, sensitivity=sensitivity, sd=unit.sd * sensitivity)
        else:
            release = planned_noise("minimiser", problem.size, sensitivity, allowance)
        return PerturbedOutput(minimiser, release)


def _spread(release: PlannedRelease) -> float:
    """Return the root mean square norm of a release's noise over its sensitivity, from its cost alone.

    So that the steps chosen by it are the same when planning and when running.
    """
    if release.epsilon is not None:
        return math.sqrt(release.size * (release.size + 1.0)) / release.epsilon
    return math.sqrt(release.size) / release.mu


def _published_step(minimiser: GradientDescent, landscape: Landscape) -> GradientDescent:
    limit = 1.0 / (landscape.smoothness + landscape.l2)
    if minimiser.step_size is not None and minimiser.step_size > limit:
        raise InvalidArgument(
            f"step_size must be at most {limit:.6g} with constants='source', got {minimiser.step_size:g}"
        )
    return GradientDescent(minimiser.n_steps, minimiser.step_size or limit, minimiser.radius)


def _published_sensitivity(minimiser: AbstractMinimiser, landscape: Landscape) -> float:
    if landscape.l2 > 0:
        ratio = (landscape.l2 + landscape.smoothness) / (landscape.l2 * landscape.smoothness)
        return 5.0 * landscape.slope * ratio / landscape.n_rows
    if not isinstance(minimiser, GradientDescent) or minimiser.n_steps is None or minimiser.step_size is None:
        raise InvalidArgument("constants='source' need GradientDescent() with its steps settled")
    return 3.0 * landscape.slope * minimiser.step_size * minimiser.n_steps / landscape.n_rows


def _published_unit(size: int, allowance: Allowance) -> PlannedRelease | None:
    """Return the published Gaussian noise for a sensitivity of 1, if it gives the budget; None for radial."""
    if math.isinf(allowance.amount) or allowance.pure:
        return None
    budget = allowance.budget
    if budget is None or budget.notion != "approximate" or allowance.beside:
        raise Incompatible(
            "constants='source' need a budget with epsilon and delta that pays for nothing else: "
            "fit with inference=False, or use constants='derived'"
        )
    sd = math.sqrt(2.0 * math.log(2.0 / budget.delta)) / budget.epsilon
    mu = gaussian_mu(size, 1.0, sd) * (1.0 + 1e-9) + 2.0**-38 * math.sqrt(size)  # for any sensitivity
    if not compose([GaussianEvent(mu)]).within(budget):
        raise Incompatible(
            "constants='source': sigma = sqrt(2 ln(2 / delta)) Delta / epsilon is too small for "
            f"{budget.describe()}, whose epsilon is beyond its proof; use constants='derived'"
        )
    return PlannedRelease("minimiser", size, 1.0, mu, sd)
