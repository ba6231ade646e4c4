"""The exponential mechanism for convex losses on a ball, drawn exactly."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.problem.score_kernels import slope_kernel
from privfit.procedures.frame import about_minimum, frame_around
from privfit.procedures.score import lattice_bits, lattice_margin, range_over_ball, score_range
from privfit.procedures.tangent_boxes import Exponent, draw_from_ball


@final
@dataclass(frozen=True, slots=True)
class ExponentialDraw(AbstractProcedure):
    """A point of the ball of density proportional to ``exp(-rate * (sum of losses + n * ridge))``.

    Parameters
    ----------
    epsilon : float
    radius : float
        Of the feasible ball in encoded coordinates.

    Notes
    -----
    *Guarantee.* epsilon-differentially private: the log density of neighbouring tables differs by at most
    ``rate * (sup h - inf h)`` (McSherry and Talwar 2007, Theorem 6), every row being held to a public range,
    and the rate leaves room for `lattice_margin`. The drawing algorithm needs a convex loss.
    """

    epsilon: float
    radius: float

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan."""
        moved = score_range(problem, range_over_ball(problem, self.radius))
        return PlannedRelease(
            "draw", problem.size, moved / problem.n_rows, mu=math.inf, sd=0.0, epsilon=self.epsilon
        )

    def bits(self, problem: Problem) -> int:
        """Return b of the public lattice of spacing ``radius * 2**-b`` that the answer is rounded to."""
        whole = score_range(problem, range_over_ball(problem, self.radius))
        slope = problem.ridged_gradient_bound(self.radius)
        return lattice_bits(self.epsilon / whole * problem.n_rows * slope, self.radius)

    def rate(self, problem: Problem) -> float:
        """Return what the summed losses are multiplied by: epsilon, less the margin, over their range."""
        margin = 2.0 * lattice_margin(problem.size, self.bits(problem))
        return (self.epsilon - margin) / score_range(problem, range_over_ball(problem, self.radius))

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Draw the point."""
        span = range_over_ball(problem, self.radius)
        exponent = scaled_objective(problem, rows, rate=self.rate(problem), radius=self.radius, span=span)
        return rounded_draw(problem, rows, exponent, noise, radius=self.radius, bits=self.bits(problem))


def rounded_draw(
    problem: Problem, rows: Rows, exponent: Exponent, noise: NoiseSource, *, radius: float, bits: int
) -> FloatArray:
    """Return a point of the ball of density ``exp(-exponent)``, rounded to the public lattice."""
    moment = rows.mean("second_moment", np.zeros(problem.size)) + problem.ridge
    center = about_minimum(exponent, moment, radius)
    if problem.loss.constants.smooth:
        moment = rows.mean("hessian", center) + problem.ridge
    drawn = draw_from_ball(exponent, frame_around(exponent, center, moment, radius), noise)
    step = radius * 2.0**-bits
    return np.rint(drawn / step) * step


def scaled_objective(problem: Problem, rows: Rows, *, rate: float, radius: float, span: float) -> Exponent:
    """Return ``rate * (sum of losses + n * ridge)`` and its gradient, as a function of points (m, p)."""
    n, ridge = problem.n_rows, problem.ridge

    def exponent(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        m, p = points.shape
        total = rows.sum(*slope_kernel(problem.loss, points, radius=radius, span=span))
        pull = points @ ridge
        value = total[:m] + 0.5 * n * np.einsum("ij,ij->i", points, pull)
        return rate * value, rate * (total[m:].reshape(m, p) + n * pull)

    return exponent
