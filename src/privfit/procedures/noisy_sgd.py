"""Mini-batch gradient steps with noise, on rows that are drawn afresh at every step."""

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from privfit._checks import FloatArray
from privfit.privacy.composition import SampledGaussianEvent
from privfit.privacy.mechanisms import NoiseSource, calibrate_gaussian
from privfit.privacy.steps import gaussian_steps
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease
from privfit.problem.procedure import AbstractProcedure
from privfit.problem.rows import Rows

_CHUNK_STEPS = 256
_FAR = 1e100
"""Points are clamped to it, so that a step size that diverges raises no error on the way."""


@final
@dataclass(frozen=True, slots=True)
class SampledDescent(AbstractProcedure):
    """``w <- w - step_size * (noisy sum over the sample / (batch_rate * n) + ridge)``.

    Parameters
    ----------
    n_steps : int
    batch_rate : float
        Probability with which each row takes part in a step, independently; a multiple of ``2**-53``.
    step_size : float
        Of step k ``step_size * k**-decay``.
    decay : float
    radius : float
        Points are projected on the ball of this radius around the start; ``inf`` for no projection.
    averaged : int
        How many of the last points the outcome is the mean of.
    ratio : float
        Largest change of a step's sum over the noise's standard deviation.
    start : tuple of float
        Public.

    Notes
    -----
    *Guarantee.* Every step is a Gaussian release of the sum over a Poisson sample, the outcome
    post-processing of all steps; see `privfit.privacy.sampling`. Each row's gradient is clamped in the
    query. Steps are divided by the public expected size of the sample, never by its actual size. The
    guarantee covers the outcome, not the time taken, which shows the sizes of the samples.
    """

    n_steps: int
    batch_rate: float
    step_size: float
    decay: float
    radius: float
    averaged: int
    ratio: float
    start: tuple[float, ...]

    def planned(self, problem: Problem) -> PlannedRelease:
        """Return the entry of the plan. Sensitivity and sd are those of a step's sum over its sample."""
        sensitivity = sum_sensitivity(problem)
        sd = calibrate_gaussian(sensitivity=sensitivity, mu=self.ratio, size=problem.size)
        event = descent_event(problem, self.n_steps, self.batch_rate, self.ratio)
        return PlannedRelease("walk", problem.size, sensitivity, math.inf, sd, sampled=event)

    def carry_out(self, problem: Problem, rows: Rows, noise: NoiseSource) -> FloatArray:
        """Take the steps, and return the mean of the last points."""
        planned = self.planned(problem)
        point, total = np.array(self.start), np.zeros(problem.size)
        scale = self.batch_rate * problem.n_rows
        added, spacing = np.empty((0, problem.size)), 1.0
        for step in range(self.n_steps):
            if step % _CHUNK_STEPS == 0:
                added, spacing = gaussian_steps(
                    min(_CHUNK_STEPS, self.n_steps - step),
                    problem.size,
                    sensitivity=planned.sensitivity,
                    mu=self.ratio,
                    sd=planned.sd,
                    source=noise,
                )
            sample = np.flatnonzero(noise.uniform(rows.n_rows) < self.batch_rate)
            exact = rows.sum_over(sample, "gradient", point)
            exact = np.rint(np.where(np.isfinite(exact), exact, 0.0) / spacing) * spacing
            gradient = (exact + added[step % _CHUNK_STEPS]) / scale + problem.ridge @ point
            moved = np.clip(point - self.step_size * (step + 1.0) ** -self.decay * gradient, -_FAR, _FAR)
            away = moved - np.array(self.start)
            point = moved - away * max(0.0, 1.0 - self.radius / max(float(np.linalg.norm(away)), 1e-300))
            if step >= self.n_steps - self.averaged:
                total += point
        return total / self.averaged


def sum_sensitivity(problem: Problem) -> float:
    """Return the sensitivity of a sum of gradients over at most all rows."""
    return problem.sensitivity("gradient") * problem.n_rows * (1 + 2.0**-50)


def descent_event(problem: Problem, n_steps: int, batch_rate: float, ratio: float) -> SampledGaussianEvent:
    """Return what the steps cost."""
    return SampledGaussianEvent("poisson", problem.relation.value, ratio, batch_rate, n_steps)
