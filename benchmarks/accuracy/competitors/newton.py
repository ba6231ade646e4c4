"""The double-noise Newton method of Ganesh, Haghifam, Steinke and Thakurta 2023."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from cells import Cell
from problems import Array, Task
from scipy.special import expit

from competitors.base import AbstractMethod, Run, Setting, grid

_GRADIENT_SHARE, _TRACE_SHARE, _TRACE_FACTOR = 0.7, 0.1, 0.5
_CURVATURE = 0.25


@final
@dataclass(frozen=True)
class DoubleNoiseNewton(AbstractMethod):
    """Noisy gradient, then noise on the Newton direction; number of steps and curvature tuned.

    Rows are divided by their public norm bound. Shares of the budget and the rule for the added eigenvalue
    are those of the authors' code. Their sensitivities are for adding a row; for a replaced row the
    gradient's is twice as large, and that of ``(H + r I)^-1 g`` the same, since it is a difference of two
    positive semi-definite terms, each bounded as theirs is.

    The curvature is the Hessian (0) or the tightest quadratic upper bound (1).
    """

    name: str = "DP-Newton (double noise), tuned"
    tasks: tuple[Task, ...] = ("logistic",)

    def settings(self, cell: Cell) -> Sequence[Setting]:  # noqa: ARG002 -- the same everywhere
        """Return numbers of steps, 15 in the source, and kinds of curvature."""
        return grid(steps=(2, 4, 8, 15), bound=(0, 1))

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Run one after the other."""
        norm = np.float32(cell.rows.norm_bound)
        x = cell.rows.clipped(float(norm)) / norm
        y = cell.rows.y.astype(np.float32)
        return np.array([_run(cell, x, y, setting, rng) for setting, rng in runs]) / norm


def _run(cell: Cell, x: Array, y: Array, setting: Setting, rng: np.random.Generator) -> Array:
    steps, n, p = int(setting["steps"]), cell.n, cell.p
    rho = 0.5 * cell.mu**2 / steps
    for_gradient, for_curvature = _GRADIENT_SHARE * rho, (1.0 - _GRADIENT_SHARE) * rho
    for_trace, for_direction = _TRACE_SHARE * for_curvature, (1.0 - _TRACE_SHARE) * for_curvature
    theta = np.zeros(p)
    for _ in range(steps):
        eta = x @ theta.astype(np.float32)
        gradient = (x.T @ (expit(eta) - y)).astype(np.float64) / n
        gradient += 2.0 / n * np.sqrt(0.5 / for_gradient) * rng.standard_normal(p)
        curvature = _curvature(x, eta, upper_bound=bool(setting["bound"]))
        trace = np.trace(curvature) + _CURVATURE / n * np.sqrt(0.5 / for_trace) * rng.standard_normal()
        added = max((_TRACE_FACTOR * max(trace, 0.0) / (n**2 * for_direction)) ** (1 / 3), 1.0 / n)
        sensitivity = np.linalg.norm(gradient) * _CURVATURE / (n * added**2 + _CURVATURE * added)
        noise = sensitivity * np.sqrt(0.5 / for_direction) * rng.standard_normal(p)
        theta = theta - np.linalg.solve(curvature + added * np.eye(p), gradient) + noise
    return theta


def _curvature(x: Array, eta: Array, *, upper_bound: bool) -> Array:
    if upper_bound:
        safe = np.where(np.abs(eta) > 1e-4, eta, 1.0)
        weight = np.where(np.abs(eta) > 1e-4, 0.5 * np.tanh(0.5 * safe) / safe, _CURVATURE)
    else:
        weight = expit(eta) * expit(-eta)
    root = np.sqrt(weight).astype(np.float32)
    scaled = x * root[:, None]
    return (scaled.T @ scaled).astype(np.float64) / len(x)
