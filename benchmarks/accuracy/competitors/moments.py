"""Least squares from noisy second moments."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from cells import Cell
from problems import Array, Task
from tables import Rows

from competitors.base import AbstractMethod, Run, Setting, grid

_SQUARED: tuple[Task, ...] = ("squared",)


@final
@dataclass(frozen=True)
class PublishedAdaSSP(AbstractMethod):
    """AdaSSP of Wang 2018, algorithm 2, with its own constants; one in a hundred for its bounds.

    Each of three releases costs (epsilon/3, delta/3) by ``sqrt(log(6 / delta)) / (epsilon / 3)``. The source
    takes the sensitivity of ``X'X`` as the squared norm bound and that of ``X'y`` as the product of the
    bounds, as for one row added; for a replaced row they are ``sqrt(2)`` and 2 times that, as used here.
    """

    name: str = "AdaSSP, published constants"
    tasks: tuple[Task, ...] = _SQUARED

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Solve the noisy normal equations."""
        squared, cross = sums(cell.rows, cell.rows.norm_bound)
        bound, p = cell.rows.norm_bound**2, cell.p
        logs = math.log(6.0 / cell.budget.delta)
        unit = math.sqrt(logs) / (cell.epsilon / 3.0)
        smallest = float(np.linalg.eigvalsh(squared)[0])
        thetas = []
        for _, rng in runs:
            low = smallest + unit * bound * rng.standard_normal() - logs / (cell.epsilon / 3.0) * bound
            noise_size = math.sqrt(2.0) * bound * unit
            ridge = max(0.0, noise_size * math.sqrt(p * math.log(2.0 * p**2 / 0.01)) - max(low, 0.0))
            matrix = squared + noise_size * symmetric_noise(p, rng)
            vector = cross + 2.0 * cell.rows.norm_bound * unit * rng.standard_normal(p)
            thetas.append(np.linalg.solve(matrix + ridge * np.eye(p), vector))
        return np.array(thetas)


@final
@dataclass(frozen=True)
class TunedStatistics(AbstractMethod):
    """Sufficient statistics with exact Gaussian accounting; row clip and ridge tuned.

    Half of the squared budget pays for the matrix and half for the vector. Eigenvalues of the ridged matrix
    are raised to 3 percent of the noise's spectral norm.
    """

    name: str = "sufficient statistics, tuned"
    tasks: tuple[Task, ...] = _SQUARED

    def settings(self, cell: Cell) -> Sequence[Setting]:
        """Return clipping norms, and ridges in units of the noise's spectral norm."""
        return grid(clip=cell.row_clips, ridge=(0.0, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0))

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Solve the noisy normal equations."""
        half = cell.mu / math.sqrt(2.0)
        thetas = []
        for setting, rng in runs:
            squared, cross = sums(cell.rows, setting["clip"])
            sd = math.sqrt(2.0) * setting["clip"] ** 2 / half
            matrix = squared + sd * symmetric_noise(cell.p, rng)
            vector = cross + 2.0 * setting["clip"] / half * rng.standard_normal(cell.p)
            spectral = sd * math.sqrt(2.0 * cell.p)
            values, vectors = np.linalg.eigh(matrix)
            values = np.maximum(values + setting["ridge"] * spectral, 0.03 * spectral)
            thetas.append(vectors @ ((vectors.T @ vector) / values))
        return np.array(thetas)


@lru_cache(maxsize=16)
def sums(rows: Rows, clip: float) -> tuple[Array, Array]:
    """Return ``X'X`` and ``X'y`` of the rows clipped to a norm."""
    x = rows.clipped(clip).astype(np.float64)
    return x.T @ x, x.T @ np.clip(rows.y, -1.0, 1.0)


def symmetric_noise(p: int, rng: np.random.Generator) -> Array:
    """Return a symmetric normal matrix whose upper triangle, off-diagonals times sqrt(2), is standard."""
    noise = rng.standard_normal((p, p))
    return 0.5 * (noise + noise.T)
