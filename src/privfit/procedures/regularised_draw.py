"""The regularised exponential mechanism: Gaussian differential privacy from strong convexity."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import UNIT_ROUNDOFF, FloatArray
from privfit.data.reduction import summation_error
from privfit.privacy.mechanisms import NoiseSource
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows
from privfit.procedures.exponential_draw import rounded_draw, scaled_objective
from privfit.procedures.score import lattice_bits, lattice_margin, range_over_ball
from privfit.procedures.tangent_boxes import Exponent, fine_uniform

MARGIN = 1e-6
"""Relative margin on mu for rounding to the lattice of the proposals, and of the temperature."""

_LOSS_ROUNDINGS = 16
"""Roundings that the value or slope of a loss takes, with room to spare."""

_FAR = 12.0
"""Standard deviations, beyond the root of their number, within which normal numbers are but for 2**-100."""

_PROPOSALS = 64
_NEWTON_STEPS = 12
_SHORTENED = 2.0 ** -np.arange(12.0)


def largest_mean_curvature(problem: Problem) -> float:
    """Return a bound on the mean eigenvalue of the objective's Hessian.

    That is at most ``curvature * S + l2``, S the second moment of the rows, and the trace of S at most
    ``norm_bound**2``.
    """
    return problem.loss.constants.curvature * problem.norm_bound**2 / problem.size + problem.l2


def inverse_temperature(problem: Problem, strength: float, mu: float) -> float:
    """Return k with ``sensitivity * sqrt(k / strength) = mu``, less the margin.

    Notes
    -----
    *Guarantee.* Densities ``exp(-F)`` and ``exp(-F')`` that are m-strongly log-concave on a convex set, with
    ``F - F'`` G-Lipschitz, are ``G / sqrt(m)``-GDP (Gopi, Lee and Liu 2022, Theorem 4.1): here ``G = k s``, s
    the sensitivity of the mean gradient, and ``m = k strength``. Equality for linear losses.
    """
    return strength * (mu * (1.0 - MARGIN) / problem.sensitivity("gradient")) ** 2


@final
@dataclass(frozen=True, slots=True)
class RegularisedBallDraw(AbstractProcedure):
    """A point of a ball with density ``exp(-k (objective + strength * norm(theta)**2 / 2))``.

    Parameters
    ----------
    mu : float
    strength : float
    radius : float

    Notes
    -----
    *Guarantee.* mu-GDP, see `inverse_temperature`; rounding to the public lattice is post-processing.
    """

    mu: float
    strength: float
    radius: float

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan."""
        return PlannedRelease("draw", problem.size, problem.sensitivity("gradient"), mu=self.mu, sd=0.0)

    def bits(self, problem: Problem) -> int:
        """Return b of the public lattice of spacing ``radius * 2**-b`` that the answer is rounded to."""
        slope = problem.gradient_bound
        slope += (problem.l2 + self.strength) * self.radius
        return lattice_bits(inverse_temperature(problem, self.strength, self.mu) * slope, self.radius)

    def temperature(self, problem: Problem) -> float:
        """Return k, which leaves room in mu for the rounding of a draw."""
        mu = self.mu - 4.0 * lattice_margin(problem.size, self.bits(problem))
        return inverse_temperature(problem, self.strength, mu)

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Draw the point."""
        bits, k = self.bits(problem), self.temperature(problem)
        objective = scaled_objective(
            problem,
            rows,
            rate=k / problem.n_rows,
            radius=self.radius,
            span=range_over_ball(problem, self.radius),
        )

        def exponent(points: FloatArray) -> tuple[FloatArray, FloatArray]:
            value, gradient = objective(points)
            pull = k * self.strength * points
            return value + 0.5 * np.einsum("ij,ij->i", points, pull), gradient + pull

        return rounded_draw(problem, rows, exponent, noise, radius=self.radius, bits=bits)


@final
@dataclass(frozen=True, slots=True)
class DrawRounding:
    """What rounding can do to a draw.

    Parameters
    ----------
    mu : float
        What it can cost.
    below : float
        How far the exponent can be below that of the proposals.
    """

    mu: float
    below: float


@final
@dataclass(frozen=True, slots=True)
class RegularisedGaussianDraw(AbstractProcedure):
    """A point of the whole space with density ``exp(-k (objective + strength * norm(theta)**2 / 2))``.

    Proposals are Gaussian with variance ``1 / (k strength)``: with ``a`` any point and f the objective,
    ``f(theta) >= f(a) + f'(a)(theta - a)`` by convexity, and that with the quadratic is the
    exponent of a Gaussian around ``-f'(a) / strength``. A proposal is accepted with probability ``exp(-k
    (f(theta) - f(a) - f'(a)(theta - a)))``. The answer is exact for every ``a``, acceptance
    best at the minimum.

    Parameters
    ----------
    mu : float
    strength : float

    Notes
    -----
    *Guarantee.* mu-GDP, see `inverse_temperature`; `rounding` is taken off before.
    """

    mu: float
    strength: float

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan."""
        return PlannedRelease("draw", problem.size, problem.sensitivity("gradient"), mu=self.mu, sd=0.0)

    def rounding(self, problem: Problem) -> DrawRounding:
        """Return what rounding can do, from public facts.

        Notes
        -----
        Let G bound the gradient of the mean loss. The minimum of an objective that is not above its value at
        0 is at most ``2 G / strength`` from there, and so are proposals, but for their noise, as that is as
        far as a tangent leads. Hence every mean of terms of rows is at most G times that distance.
        A value is off by at most that times the roundings of a term and of the sum, which is compensated
        within chunks (`privfit.problem.score_kernels`), and the tangent by those of a product of vectors. The
        gradient need not be exact: any line will do, but what is accepted must stay above it.

        If exponents are off by up to r, probabilities are off by factors within ``exp(+-2 r)``, and so are
        those of the complement. A quantile of the normal law then moves by at most ``2 r sqrt(pi / 2)``, as
        Mills' ratio is below ``sqrt(pi / 2)``, and two tables by twice that: less than ``6 r``.
        """
        k, size = inverse_temperature(problem, self.strength, self.mu), problem.size
        replaced = problem.relation is Relation.REPLACE
        steepest = problem.gradient_bound * (1.0 if replaced else problem.most_rows / problem.n_rows)
        at = 2.0 * steepest / self.strength
        slope = steepest + problem.l2 * at
        far = slope / self.strength + (math.sqrt(size) + _FAR) / math.sqrt(k * self.strength)
        term = (size + _LOSS_ROUNDINGS) * UNIT_ROUNDOFF
        rows = problem.most_rows
        compensated = summation_error(rows, 4 + rows.bit_length()) + term
        value = (far + 1.0) * (slope + problem.l2 * far) * compensated
        tangent = (far + at) * slope * (size + 6) * UNIT_ROUNDOFF
        below = 2.0 * (far + at + 1.0) * (slope + problem.l2 * far) * (summation_error(rows) + term)
        return DrawRounding(mu=6.0 * k * (value + tangent), below=k * below)

    def acceptance(self, problem: Problem) -> float:
        """Return a lower bound on the probability of accepting a proposal, from public facts.

        It leaves `rounding` aside. The determinant of ``1 + H / strength`` is largest for equal eigenvalues.
        """
        return math.exp(-0.5 * problem.size * math.log1p(largest_mean_curvature(problem) / self.strength))

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Draw the point."""
        rounding = self.rounding(problem)
        k = inverse_temperature(problem, self.strength, self.mu - rounding.mu)
        objective = scaled_objective(problem, rows, rate=1.0 / problem.n_rows, radius=0.0, span=math.inf)
        at = self._minimum(problem, rows, objective)
        values, gradients = objective(at[None])
        value, gradient = float(values[0]), gradients[0]
        center = np.tile(-gradient / self.strength, _PROPOSALS)
        while True:
            flat = noise.gaussian(center, 1.0 / math.sqrt(k * self.strength))
            points = flat.reshape(_PROPOSALS, problem.size)
            excess = objective(points)[0] - value - (points - at) @ gradient
            height = k * excess + rounding.below
            accepted = np.flatnonzero(height < -np.log(fine_uniform(_PROPOSALS, noise)))
            if accepted.size:
                return points[accepted[0]]

    def _minimum(self, problem: Problem, rows: Rows, objective: Exponent) -> FloatArray:
        """Return about the minimum, by a fixed number of Newton steps, each the best of some lengths."""
        at = np.zeros(problem.size)
        for _ in range(_NEWTON_STEPS):
            gradient = objective(at[None])[1][0] + self.strength * at
            hessian = rows.mean("hessian", at) + problem.ridge + self.strength * np.eye(at.size)
            tried = np.vstack([at, at - _SHORTENED[:, None] * np.linalg.solve(hessian, gradient)])
            height = objective(tried)[0] + 0.5 * self.strength * np.einsum("ij,ij->i", tried, tried)
            at = tried[height.argmin()]
        return at
