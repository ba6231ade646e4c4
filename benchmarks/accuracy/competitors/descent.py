"""Gradient descent on clipped gradients, over all rows or over samples of them, tuned in hindsight."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from cells import Cell
from problems import SLOPE, SMOOTHNESS, Array, Task, slopes

from competitors.base import AbstractMethod, Run, Setting, column, grid, grouped, normals
from privfit.privacy.budget import Budget
from privfit.privacy.calibrate import calibrate_sampled
from privfit.privacy.composition import SampledGaussianEvent

_CLIPS = (1.0, 0.4, 0.15, 0.05, 0.02, 0.008)
"""Clipping norms of a row's gradient, in units of the public bound on it."""

_LONG_CLIPS = (3.0, 1.7)
"""More of them where no schema bounds the rows, so that some are longer than the bound."""

_RATES = (0.25, 1.0, 4.0, 16.0, 48.0, 160.0)
"""Step sizes in units of one over the public bound on the smoothness."""

_STEP_LENGTHS = (0.03, 20.0)
"""Range of clip times rate; what lies beyond was never best where it was tried."""

_SAMPLED = ((6, 512), (4, 512), (4, 2048), (4, 8192))
"""Sampling rates, as powers of a half, and numbers of steps."""

_UNCLIPPED = float(2**60)

_BLOCK = 1024
"""Rows whose slopes are computed at once, so that they stay in the cache."""


@final
@dataclass(frozen=True)
class TunedGradientDescent(AbstractMethod):
    """Full-batch descent with Gaussian noise, as in Yu et al. 2020, averaged over its second half.

    The clipping norm, the step size and the number of steps are tuned. The budget is split evenly and
    composed exactly: noise of standard deviation ``2 clip sqrt(steps) / (n mu)`` on the mean of the clipped
    gradients of rows, each row's gradient of norm at most ``clip``.
    """

    name: str = "DP-GD, tuned"

    def settings(self, cell: Cell) -> Sequence[Setting]:
        """Return clipping norms, step sizes and numbers of steps."""
        return [{**rest, "steps": steps} for rest in _clips_and_rates(cell) for steps in (40, 200, 500)]

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Run all with the same number of steps at once."""
        thetas = np.empty((len(runs), cell.p))
        for (steps,), places in grouped(runs, "steps").items():
            thetas[places] = _descend(cell, [runs[place] for place in places], int(steps)).T
        return thetas


def _clips_and_rates(cell: Cell) -> list[Setting]:
    """Return the pairs of a clipping norm and a step size that are worth trying."""
    low, high = _STEP_LENGTHS
    clips = _CLIPS if cell.rows.design.bounded else _LONG_CLIPS + _CLIPS
    return [pair for pair in grid(clip=clips, rate=_RATES) if low <= pair["clip"] * pair["rate"] <= high]


def _descend(cell: Cell, runs: Sequence[Run], steps: int) -> Array:
    x, y, lengths = _float_rows(cell)
    clip, size = _clips(cell, runs), _sizes(cell, runs)
    noise = 2.0 * clip * np.sqrt(steps) / (cell.n * cell.mu)
    theta = np.zeros((cell.p, len(runs)), dtype=np.float32)
    total = np.zeros_like(theta)
    for step in range(steps):
        gradient = _clipped_sum(cell.task, x, y, lengths, theta, clip) / cell.n
        theta -= size * (gradient + noise * normals(runs, cell.p)).astype(np.float32)
        if step >= steps // 2:
            total += theta
    return total / (steps - steps // 2)


@final
@dataclass(frozen=True)
class TunedSGD(AbstractMethod):
    """Noisy descent on Poisson samples (Abadi et al. 2016), averaged over its second half.

    The clipping norm, the step size, the sampling rate and the number of steps are tuned. The noise is the
    least that this library's numerical accounting of sampled steps allows, under replacement of a row.
    """

    name: str = "DP-SGD, tuned"

    def settings(self, cell: Cell) -> Sequence[Setting]:
        """Return clipping norms, step sizes, and pairs of sampling rate and number of steps."""
        pairs = [{"sampled": 2.0**-power, "steps": steps} for power, steps in _SAMPLED]
        return [{**pair, **rest} for pair in pairs for rest in _clips_and_rates(cell)]

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Run every setting; those of a group share the samples of rows, not the noise."""
        thetas = np.empty((len(runs), cell.p))
        for (sampled, steps), places in grouped(runs, "sampled", "steps").items():
            ratio = _ratio(cell.budget, sampled, int(steps))
            chosen = [runs[place] for place in places]
            thetas[places] = _sampled_descent(cell, chosen, sampled, int(steps), ratio).T
        return thetas


def _sampled_descent(cell: Cell, runs: Sequence[Run], sampled: float, steps: int, ratio: float) -> Array:
    x, y, lengths = _float_rows(cell)
    clip, size = _clips(cell, runs), _sizes(cell, runs)
    expected = sampled * cell.n
    noise = 2.0 * clip / (ratio * expected)
    theta = np.zeros((cell.p, len(runs)), dtype=np.float32)
    total = np.zeros_like(theta)
    for step in range(steps):
        rng = runs[step % len(runs)][1]
        drawn = rng.choice(cell.n, rng.binomial(cell.n, sampled), replace=False, shuffle=False)
        part = x[drawn]
        gradient = _clipped_sum(cell.task, part, y[drawn], lengths[drawn], theta, clip) / expected
        theta -= size * (gradient + noise * normals(runs, cell.p)).astype(np.float32)
        if step >= steps // 2:
            total += theta
    return total / (steps - steps // 2)


@lru_cache(maxsize=256)
def _ratio(budget: Budget, sampled: float, steps: int) -> float:
    """Return the sensitivity of a step's sum over the standard deviation of its noise."""
    event = SampledGaussianEvent("poisson", "replace", 1.0, sampled, steps)
    return calibrate_sampled(event, budget, ()).ratio


def _float_rows(cell: Cell) -> tuple[Array, Array, Array]:
    """Return the rows as they are, in single precision, and their norms; gradients are clipped later."""
    x = cell.rows.clipped(_UNCLIPPED)
    return x, cell.rows.y.astype(np.float32), np.linalg.norm(x, axis=1)


def _clips(cell: Cell, runs: Sequence[Run]) -> Array:
    return column(runs, "clip") * np.float32(SLOPE[cell.task] * cell.rows.norm_bound)


def _sizes(cell: Cell, runs: Sequence[Run]) -> Array:
    return column(runs, "rate") / np.float32(SMOOTHNESS[cell.task] * cell.rows.norm_bound**2)


def _clipped_sum(task: Task, x: Array, y: Array, lengths: Array, theta: Array, clip: Array) -> Array:  # noqa: PLR0917
    """Return the sum (p, m) of rows' gradients, none of them longer than ``clip``, of shape (m,)."""
    total = np.zeros_like(theta)
    for first in range(0, len(y), _BLOCK):
        rows = slice(first, first + _BLOCK)
        bound = clip / np.maximum(lengths[rows], np.float32(1e-12))[:, None]
        slope = slopes(task, y[rows], x[rows] @ theta)
        np.minimum(slope, bound, out=slope)
        np.maximum(slope, np.negative(bound, out=bound), out=slope)
        total += x[rows].T @ slope
    return total
