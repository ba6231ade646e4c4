"""The exponential mechanism over finitely many public candidates."""

from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.losses.score import AbstractScore
from privfit.privacy.mechanisms import NoiseSource
from privfit.privacy.pure_mechanisms import calibrate_selection, select_index
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.problem.score_kernels import score_kernel
from privfit.procedures.score import score_range


@final
@dataclass(frozen=True, slots=True)
class ExponentialSelection(AbstractProcedure):
    """One of m candidates, of probability proportional to ``exp(-rate * (sum of scores + n * ridge))``.

    Parameters
    ----------
    epsilon : float
    candidates : tuple of tuple of float
        m public points in encoded coordinates.
    score : AbstractScore
        What a row thinks of a candidate; it need not be convex.

    Notes
    -----
    *Guarantee.* epsilon-differentially private, exactly: the computed scores are a plain function of the
    rows, and the selection among them rounds nothing (`privfit.privacy.pure_mechanisms.select_index`).
    """

    epsilon: float
    candidates: tuple[tuple[float, ...], ...]
    score: AbstractScore

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan."""
        return PlannedRelease(
            "draw",
            problem.size,
            self._range(problem) / problem.n_rows,
            mu=np.inf,
            sd=0.0,
            epsilon=self.epsilon,
        )

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Score all candidates in one pass and select one."""
        points = np.array(self.candidates)
        kernel, size = score_kernel(self.score, points, radius=self._radius(), span=self._span(problem))
        ridge = 0.5 * problem.n_rows * np.einsum("ij,jk,ik->i", points, problem.ridge, points)
        sensitivity = 0.5 * self._range(problem)
        chosen = select_index(
            rows.sum(kernel, size) + ridge,
            sensitivity=sensitivity,
            epsilon=self.epsilon,
            scale=calibrate_selection(sensitivity=sensitivity, epsilon=self.epsilon),
            source=noise,
        )
        return points[chosen]

    def _radius(self) -> float:
        return float(np.linalg.norm(np.array(self.candidates), axis=1).max())

    def _span(self, problem: Problem) -> float:
        return self.score.span(problem.norm_bound * max(self._radius(), 1e-300))

    def _range(self, problem: Problem) -> float:
        return score_range(problem, self._span(problem))
