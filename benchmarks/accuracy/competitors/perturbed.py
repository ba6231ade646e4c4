"""Minimisers of objectives with a random linear term."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from cells import Cell
from problems import SLOPE, SMOOTHNESS, Array, Task, slopes
from tables import Rows

from competitors.base import AbstractMethod, Run, Setting, grid, grouped, normals
from privfit.procedures.objective_perturbation import profile_mu

_SMOOTH: tuple[Task, ...] = ("logistic", "huber")
_MOST_STEPS = 400
_TOLERANCE = 1e-5
"""Norm of the gradient, in the majorant's metric, at which a minimiser is taken to be found."""


@final
@dataclass(frozen=True)
class TunedObjectivePerturbation(AbstractMethod):
    """Objective perturbation with approximate accounting; ridge, norm clip and split tuned.

    Rows are shortened to a clipping norm L. With ridge r on all coefficients the determinants cost at most
    ``log(1 + curvature / (n r))`` of epsilon; a Gaussian linear term pays for the rest by its exact profile,
    as in this library's `ObjectivePerturbation` (Kifer, Smith and Thakurta 2012; Redberg, Koskela and Wang
    2023). The minimiser is taken as exact, so that no noise is added to it.
    """

    name: str = "objective perturbation, tuned"
    tasks: tuple[Task, ...] = _SMOOTH

    def settings(self, cell: Cell) -> Sequence[Setting]:
        """Return clipping norms, and shares of epsilon that a small or a large ridge leaves to pay."""
        return grid(clip=cell.row_clips, share=(0.5, 0.2, 0.05, 0.01, 0.002))

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Minimise the perturbed objectives."""
        ridges, spreads = [], []
        for setting, _ in runs:
            clip, paid = setting["clip"], min(setting["share"] * cell.epsilon, 1.0)
            ridges.append(SMOOTHNESS[cell.task] * clip**2 / (cell.n * math.expm1(paid)))
            mu = profile_mu(cell.epsilon - paid, cell.budget.delta)
            spreads.append(2.0 * SLOPE[cell.task] * clip / (cell.n * mu))
        tilts = normals(runs, cell.p) * spreads
        return perturbed_minima(cell, runs, np.array(ridges), tilts)


@final
@dataclass(frozen=True)
class ApproximateMinimaPerturbation(AbstractMethod):
    """AMP of Iyengar et al. 2019 with its own constants, ``L`` a bound on rows and gradients.

    Of epsilon, ``out`` pays for noise on the outcome and ``split`` of the rest for the linear term. The
    gradient of the perturbed objective is taken to be at most ``gamma = 1 / n**2`` at the outcome.

    Parameters
    ----------
    tuned : bool
        Whether the clipping norm and the split are tuned; else the split is that of AMP-NT and rows are
        clipped to their public bound.
    """

    name: str
    tuned: bool
    tasks: tuple[Task, ...] = ("logistic",)

    def settings(self, cell: Cell) -> Sequence[Setting]:
        """Return clipping norms and splits."""
        if not self.tuned:
            return [{"clip": cell.rows.norm_bound, "split": tuning_free_split(cell.epsilon)}]
        least = 1.0 - 1.0 / cell.epsilon + 0.001
        return grid(clip=cell.row_clips, split=sorted({max(s, least) for s in (0.6, 0.8, 0.9, 0.96)}))

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Minimise the perturbed objectives and add noise to the outcomes."""
        delta_out = 0.01 * cell.budget.delta
        delta_objective = cell.budget.delta - delta_out
        out = 0.01 * cell.epsilon
        ridges, spreads, last = [], [], []
        for setting, _ in runs:
            clip, left = setting["clip"], cell.epsilon - out
            ridge = 2.0 * clip**2 / (left - setting["split"] * left)
            ridges.append(ridge / cell.n)
            spreads.append(2.0 * clip / cell.n * _gaussian(delta_objective) / (setting["split"] * left))
            last.append(1.0 / (cell.n * ridge) * _gaussian(delta_out) / out)
        tilts = normals(runs, cell.p) * spreads
        found = perturbed_minima(cell, runs, np.array(ridges), tilts)
        return found + (normals(runs, cell.p) * last).T


def tuning_free_split(epsilon: float) -> float:
    """Return the part of epsilon for the linear term in AMP-NT."""
    return max(min(0.88671 + 0.0186607 / epsilon**0.372906, 0.99), 1.0 - 1.0 / epsilon + 0.001)


def _gaussian(delta: float) -> float:
    return 1.0 + math.sqrt(2.0 * math.log(1.0 / delta))


def perturbed_minima(cell: Cell, runs: Sequence[Run], ridges: Array, tilts: Array) -> Array:
    """Return ``argmin mean loss + ridge/2 |theta|^2 + tilt'theta`` of every run, shape (m, p).

    Rows are clipped to ``clip`` of each run. Steps of the quadratic majorant with the loss's largest
    curvature (Böhning and Lindsay 1988), with Nesterov's momentum, restarted where it no longer points down.
    """
    thetas = np.empty((len(runs), cell.p))
    for (clip,), places in grouped(runs, "clip").items():
        rows = cell.rows.clipped(clip)
        values, vectors = _spectrum(cell.rows, clip)
        scale = SMOOTHNESS[cell.task] * values[:, None] + ridges[places]
        thetas[places] = _accelerated(cell, rows, ridges[places], tilts[:, places], vectors, scale).T
    return thetas


@lru_cache(maxsize=8)
def _spectrum(rows: Rows, clip: float) -> tuple[Array, Array]:
    x = rows.clipped(clip).astype(np.float64)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    return np.maximum(values, 0.0), vectors


def _accelerated(cell: Cell, x: Array, ridges: Array, tilts: Array, vectors: Array, scale: Array) -> Array:  # noqa: PLR0917
    y = cell.rows.y.astype(np.float32)
    theta = np.zeros_like(tilts)
    point, momentum = theta.copy(), np.ones(len(ridges))
    for _ in range(_MOST_STEPS):
        slope = slopes(cell.task, y, x @ point.astype(np.float32))
        gradient = (x.T @ slope).astype(np.float64) / cell.n + ridges * point + tilts
        turned = vectors.T @ gradient
        step = vectors @ (turned / scale)
        following = point - step
        if np.sqrt((turned * turned / scale).sum(axis=0)).max() < _TOLERANCE:
            return following
        restart = (gradient * (following - theta)).sum(axis=0) > 0
        momentum = np.where(restart, 1.0, momentum)
        grown = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        point = following + (momentum - 1.0) / grown * (following - theta)
        theta, momentum = following, grown
    return theta
