"""A mean of clipped gradients."""

from dataclasses import dataclass
from typing import final

from privfit._checks import FloatArray, positive
from privfit.data.blocks import TravellingKernel
from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS
from privfit.errors import PlanViolation
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.clipped_kernels import clipped_gradient_kernel
from privfit.problem.objective import Problem
from privfit.problem.perturb import perturb_vector
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.queries import mean_sensitivity
from privfit.problem.rows import Rows
from privfit.problem.schedule import planned_noise


@final
@dataclass(frozen=True, slots=True, eq=False)
class ClippedGradient(AbstractProcedure):
    """``(1/n) sum g_i min(1, clip / norm(g_i))`` of the rows' gradients ``g_i`` at a point, with noise.

    Parameters
    ----------
    clip : float
        Largest norm of a row's gradient, in encoded units.
    at : array of shape (p,)
        Public coefficients. Does not enter the plan.
    allowance : Allowance
        What the release costs.

    Notes
    -----
    *Guarantee.* The sum changes by at most ``2 clip`` where a row is replaced and ``clip`` where one is
    added or removed, whatever the rows, the loss and the weights are, since every row's term is shortened
    to ``clip`` before it is added. The noise is calibrated to that, rounding included.
    """

    clip: float
    at: FloatArray
    allowance: Allowance

    def __post_init__(self) -> None:
        positive(clip=self.clip)

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the planned release: one vector of the size of the parameter."""
        exact = problem.relation.vector_sensitivity(self.clip)
        terms = GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS
        sensitivity = mean_sensitivity(
            exact, largest=self.clip, n_rows=problem.n_rows, terms=terms, most_rows=problem.most_rows
        )
        return planned_noise("clipped_gradient", problem.size, sensitivity, self.allowance)

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Sum the clipped gradients and add the planned noise."""
        if problem.loss.has_scale or problem.basis is not None or self.at.shape != (problem.n_coef,):
            raise PlanViolation("clipped gradients are asked for in encoded columns, without a scale")
        kernel = TravellingKernel(clipped_gradient_kernel, problem.loss, self.at, self.clip)
        mean = rows.sum(kernel, problem.n_coef) / problem.n_rows
        return perturb_vector(mean, self.planned(problem), noise)
