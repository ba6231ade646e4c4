"""Output perturbation: minimise without noise, then add noise to the outcome."""

from dataclasses import dataclass
from typing import final

from privfit._checks import FloatArray
from privfit.errors import PlanViolation
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.perturb import perturb_vector
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.procedures.landscape import Landscape, Objective, fully_penalised
from privfit.procedures.minimise import AbstractMinimiser


@final
@dataclass(frozen=True, slots=True)
class PerturbedOutput(AbstractProcedure):
    """A minimiser's outcome with Gaussian or radial noise.

    Parameters
    ----------
    minimiser : AbstractMinimiser
        With all its settings given.
    release : PlannedRelease
        Noise and cost.

    Notes
    -----
    *Guarantee.* The release's event: the noise is verified against the release's sensitivity, and that
    against the minimiser's (Chaudhuri, Monteleoni and Sarwate 2011, algorithm 1).
    """

    minimiser: AbstractMinimiser
    release: PlannedRelease

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the release, if it does not understate the minimiser's sensitivity on this problem."""
        landscape = Landscape.of(fully_penalised(problem))
        if self.minimiser.sensitivity(landscape) > self.release.sensitivity:
            raise PlanViolation("the plan understates the sensitivity of a minimiser")
        return self.release

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Minimise and add the noise."""
        ridged = fully_penalised(problem)
        outcome = self.minimiser.minimise(Landscape.of(ridged), Objective(ridged, rows))
        return perturb_vector(outcome, self.release, noise)
