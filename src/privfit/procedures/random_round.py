"""A walk of noisy gradient steps, each on one secret row, that ends after a random number of steps."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numba import float64, int64, void

from privfit._checks import FloatArray
from privfit._compiling import lazily_compiled
from privfit.errors import PlanViolation
from privfit.losses.pointers import address, called
from privfit.privacy.composition import SampledGaussianEvent
from privfit.privacy.mechanisms import NoiseSource, calibrate_gaussian
from privfit.privacy.steps import gaussian_steps
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows

CHUNK_STEPS = 4096
"""Steps whose rows and noise are drawn at once."""


@final
@dataclass(frozen=True, slots=True)
class RandomRoundWalk(AbstractProcedure):
    r"""``w <- w - eta_k (gradient on one row + noise + ridge)`` for k = 1 .. R - 1; the outcome is ``w``.

    R is drawn from 1 .. ``n_steps`` with ``P(R = k)`` proportional to ``2 eta_k - beta eta_k**2``.

    Parameters
    ----------
    n_steps : int
        N.
    step_size : float
        ``eta_k = step_size * k**-decay``.
    decay : float
    smoothness : float
        ``beta``, the ridge included. It affects accuracy only.
    ratio : float
        Change of a step's gradient over the noise's standard deviation, at most.
    start : tuple of float
        Public.

    Notes
    -----
    *Guarantee.* R is independent of the rows, so the outcome is post-processing of R and of ``n_steps - 1``
    noisy gradients on one row each; see `privfit.privacy.sampling` for their cost. A row's gradient is
    clamped, and lies within ``slope * norm_bound`` of 0 whatever the loss. The time taken shows R, which may
    be public; memory is read at secret places, which shared caches may show to other programs.
    """

    n_steps: int
    step_size: float
    decay: float
    smoothness: float
    ratio: float
    start: tuple[float, ...]

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the walk's entry of the plan."""
        sensitivity = problem.query("gradient").sensitivity(problem.relation, 1)
        event = walk_event(problem, self.n_steps, self.ratio)
        sd = calibrate_gaussian(sensitivity=sensitivity, mu=self.ratio, size=problem.size)
        return PlannedRelease("walk", problem.size, sensitivity, math.inf, sd, sampled=event)

    def step_sizes(self) -> FloatArray:
        """Return ``eta_1 .. eta_N``."""
        return self.step_size * np.arange(1.0, self.n_steps + 1.0) ** -self.decay

    def draw_round(self, noise: NoiseSource) -> int:
        """Draw R."""
        sizes = self.step_sizes()
        cumulated = np.cumsum(2.0 * sizes - self.smoothness * sizes**2)
        return 1 + int(np.searchsorted(cumulated[:-1], noise.uniform(1)[0] * cumulated[-1], side="right"))

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Walk, and return the last point."""
        if problem.basis is not None or problem.loss.has_scale:
            raise PlanViolation("a walk takes place in the encoded coordinates and without a scale")
        planned = self.planned(problem)
        sizes, end = self.step_sizes(), self.draw_round(noise)
        point = np.array(self.start)
        ridge, loss = np.diag(problem.ridge).copy(), problem.loss
        constants = np.array([1.0, *loss.parameters])
        for first in range(0, end - 1, CHUNK_STEPS):
            steps = sizes[first : min(first + CHUNK_STEPS, end - 1)]
            block = rows.take(noise.integers(rows.n_rows, steps.size))
            added, spacing = gaussian_steps(
                steps.size,
                problem.size,
                sensitivity=planned.sensitivity,
                mu=self.ratio,
                sd=planned.sd,
                source=noise,
            )
            bounds = np.array([loss.constants.slope, spacing])
            _walk(
                block.x,
                block.y,
                block.weight,
                steps,
                added,
                constants,
                address(loss.functions.slope),
                bounds,
                ridge,
                point,
            )
        return point


def walk_event(problem: Problem, n_steps: int, ratio: float) -> SampledGaussianEvent:
    """Return what a walk of at most ``n_steps - 1`` steps costs."""
    rate = 1.0 / problem.n_rows
    return SampledGaussianEvent("one", problem.relation.value, ratio, rate, max(1, n_steps - 1))


@lazily_compiled(
    void(
        float64[:, ::1],
        float64[::1],
        float64[::1],
        float64[::1],
        float64[:, ::1],
        float64[::1],
        int64,
        float64[::1],
        float64[::1],
        float64[::1],
    ),
    nogil=True,
)
def _walk(  # noqa: PLR0917 -- compiled functions take positional arguments
    x: Any,
    y: Any,
    weight: Any,
    steps: Any,
    noise: Any,
    loss: Any,
    slope: Any,
    bounds: Any,
    ridge: Any,
    point: Any,
) -> None:
    """Move ``point`` by one step per row; ``loss`` is (s, c, k), ``bounds`` (largest slope, spacing)."""
    bound, spacing = bounds[0], bounds[1]
    for i in range(y.size):
        eta = 0.0
        for j in range(point.size):
            eta += x[i, j] * point[j]
        pull = called(slope, y[i], eta, loss[0], loss[1], loss[2])
        pull = min(max(pull, -bound), bound)
        pull = pull * weight[i] if pull == pull else 0.0  # noqa: PLR0124 -- NaN
        for j in range(point.size):
            gradient = np.rint(pull * x[i, j] / spacing) * spacing
            point[j] -= steps[i] * (gradient + noise[i, j] + ridge[j] * point[j])
