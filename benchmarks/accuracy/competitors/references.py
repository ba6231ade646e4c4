"""What methods are held against and not compared with: neither is private at the stated budget."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from cells import Cell, optimum
from problems import SLOPE, Array, curvatures, minimum

from competitors.base import AbstractMethod, Role, Run, Setting, grid, grouped


@final
@dataclass(frozen=True)
class OneShotOracle(AbstractMethod):
    """The noise that one Gaussian gradient at the exact optimum would bring; ridge in hindsight.

    ``theta + (H + r I)^-1 noise`` with theta the exact ridge fit and H its exact Hessian: it knows the
    optimum, its curvature and the best ridge.
    """

    name: str = "isotropic one-shot oracle"
    role: Role = "reference"

    def settings(self, cell: Cell) -> Sequence[Setting]:  # noqa: ARG002 -- the same everywhere
        """Return ridges."""
        return grid(ridge=(0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1))

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Add the noise to the exact fits."""
        x, y = cell.rows.x, cell.rows.y
        sd = 2.0 * SLOPE[cell.task] * cell.rows.norm_bound / (cell.n * cell.mu)
        thetas = np.empty((len(runs), cell.p))
        for (ridge,), places in grouped(runs, "ridge").items():
            theta = optimum(cell.rows, cell.task, ridge)
            hessian = (x * curvatures(cell.task, y, x @ theta)[:, None]).T @ x / cell.n
            values, vectors = np.linalg.eigh(hessian)
            values = np.maximum(values + ridge, 1e-9)
            for place in places:
                noise = sd * runs[place][1].standard_normal(cell.p)
                thetas[place] = theta + vectors @ ((vectors.T @ noise) / values)
        return thetas


@final
@dataclass(frozen=True)
class Constant(AbstractMethod):
    """The best constant predictor, from the exact rows."""

    name: str = "constant predictor"
    role: Role = "reference"

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Fit the intercept alone."""
        theta = np.zeros(cell.p)
        theta[:1] = minimum(cell.task, cell.rows.x[:, :1], cell.rows.y)
        return np.tile(theta, (len(runs), 1))
