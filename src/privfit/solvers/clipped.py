"""Gradient descent on clipped per-row gradients: the comparator that users know from deep learning."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import MOST_RELEASES, SIZES, in_range, optional, positive, whole
from privfit.data.clamp import UNWEIGHTED, default_norm_bound
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import allowance_of, growing_shares
from privfit.procedures.clipped_gradient import ClippedGradient
from privfit.solvers.base import AbstractSolver, Solution, Step
from privfit.solvers.requirements import need_no_scale, need_one_predictor, need_smooth


@final
@dataclass(frozen=True, slots=True)
class ClippedGradientDescent(AbstractSolver):
    """``theta <- theta - step_size * (mean of clipped gradients + noise)``, a fixed number of steps.

    Each row's gradient ``g`` is multiplied by ``min(1, clip / norm(g))``. That bounds any row's influence
    without weights, so rows without declared bounds are not weighted down, unless the estimator is given a
    ``norm_bound``. It comes at a price that weights do not have: the clipped equations do not vanish at the
    true coefficients, so for logistic regression the estimate stays biased however many rows there are. For
    least squares with symmetric errors it is consistent.

    Parameters
    ----------
    clip : float
        Largest norm of a row's gradient, in encoded units.
    n_steps : int, optional
        Default ``round(6 log n)``.
    step_size : float, optional
        Default ``1 / (curvature * L + l2)`` with ``L`` the smaller of the squared norm bound of rows and
        ``max(p / 2, min(p, 2))``, the typical squared norm on a unit scale.

    Notes
    -----
    *Guarantee.* mu-GDP: each gradient has its sensitivity ``2 clip / n`` (``clip / n`` where a row is added
    or removed) over ``mu_k`` as noise sd, and the steps compose. Under a pure budget the noise is radial
    and the epsilons of the steps add up. It does not rest on the loss: rows are clipped whatever it says.

    References
    ----------
    Abadi, Chu, Goodfellow, McMahan, Mironov, Talwar and Zhang 2016, *Deep learning with differential
    privacy*, algorithm 1, without sampling; Song, Steinke, Thakkar and Thakurta 2021, *Evading the curse of
    dimensionality in unconstrained private GLMs*, for what clipping minimises; Avella-Medina, Bradshaw and
    Loh 2023, section 3.2.2, for the bias.
    """

    no_inference: ClassVar[str | None] = (
        "clipped gradients do not vanish at the true coefficients (for logistic regression the bias stays "
        "however many rows there are), so no interval around the estimate would be honest; solver='auto' and "
        "NoisyGradientDescent() weight rows instead and have intervals"
    )

    clip: float = 1.0
    n_steps: int | None = None
    step_size: float | None = None

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        in_range(*SIZES, clip=self.clip)
        optional(whole, 1, MOST_RELEASES, n_steps=self.n_steps)
        optional(positive, step_size=self.step_size)

    @property
    def name(self) -> str:
        """Name with the clipping norm."""
        return f"gradient descent, clipped at {self.clip:g}"

    def norm_bound(self, problem: Problem, allowance: Allowance) -> float:
        """Weight no row down: clips bound what a row can do."""
        del problem, allowance
        return UNWEIGHTED

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one clipped gradient a step."""
        need_no_scale(problem, "clipped gradient descent")
        need_one_predictor(problem, "clipped gradient descent")
        need_smooth(problem, "clipped gradient descent")
        n_steps = self.n_steps or max(2, round(6 * math.log(problem.n_rows)))
        start = np.array(problem.start)
        return tuple(
            ClippedGradient(self.clip, start, part).planned(problem)
            for part in allowance.split(growing_shares(n_steps, 1.0))
        )

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Run the planned steps."""
        preconditioner = self._step_size(problem) * np.eye(problem.size)
        theta = np.array(problem.start)
        steps: list[Step] = []
        for planned in oracle.plan.solver_releases:
            gradient = ClippedGradient(self.clip, theta, allowance_of(planned))
            release = oracle.carry_out(gradient, theta)
            step = Step(release, release.value + problem.ridge @ theta, preconditioner)
            steps.append(step)
            theta = theta - preconditioner @ step.gradient
        return Solution(problem, theta, tuple(steps), (), "last")

    def _step_size(self, problem: Problem) -> float:
        if self.step_size is not None:
            return self.step_size
        squared = min(problem.norm_bound, default_norm_bound(problem.n_coef)) ** 2
        return 1.0 / (problem.loss.constants.curvature * squared + problem.l2)
