"""One cell of the benchmark: a table, a task and a privacy budget, and how coefficients are scored in it."""

import zlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from problems import Array, Scores, Task, losses, minimum
from tables import Rows

from privfit.privacy.budget import Budget

DELTA_POWER = 1.1
"""Delta is the number of rows to minus this power."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A table, a task and an epsilon. Every method gets exactly this; neighbours replace one row."""

    rows: Rows
    task: Task
    epsilon: float

    @property
    def n(self) -> int:
        """Number of training rows."""
        return len(self.rows.y)

    @property
    def p(self) -> int:
        """Number of coefficients, the constant included."""
        return self.rows.x.shape[1]

    @property
    def budget(self) -> Budget:
        """The (epsilon, delta) of the cell."""
        return Budget(self.epsilon, self.n**-DELTA_POWER)

    @property
    def mu(self) -> float:
        """The largest Gaussian privacy that fits, for methods with Gaussian noise."""
        return self.budget.mu

    @property
    def row_clips(self) -> tuple[float, ...]:
        """Norms that rows may be clipped to, for methods that tune it; a schema bounds rows already."""
        factors = (1.0, 0.7, 0.5, 0.35) if self.rows.design.bounded else (2.0, 1.4, 1.0, 0.7)
        return tuple(factor * self.rows.norm_bound for factor in factors)

    def generator(self, method: str, repetition: int) -> np.random.Generator:
        """Return the generator of a repetition, the same in every run of the benchmark."""
        key = zlib.crc32(f"{self.rows.name}/{self.task}/{self.epsilon:g}/{method}".encode())
        return np.random.default_rng([key, repetition])

    def scores(self, theta: Array) -> Scores:
        """Return the accuracy of coefficients of shape (p,)."""
        rows = self.rows
        if not np.isfinite(theta).all():
            return Scores(np.inf, np.nan)
        excess = _mean_loss(self.task, rows.x, rows.y, theta) - least_loss(rows, self.task)
        if self.task == "squared":
            excess *= 2.0 / rows.y.var()
        eta = rows.x_test @ theta
        if self.task == "logistic":
            return Scores(excess, float(((eta > 0) == rows.y_test).mean()))
        return Scores(excess, 1.0 - float(((eta - rows.y_test) ** 2).mean() / rows.y_test.var()))


@lru_cache(maxsize=256)
def optimum(rows: Rows, task: Task, ridge: float = 0.0) -> Array:
    """Return the exact minimiser on the training rows, without privacy."""
    return minimum(task, rows.x, rows.y, ridge)


@lru_cache(maxsize=64)
def least_loss(rows: Rows, task: Task) -> float:
    """Return the exact unregularised minimum of the mean training loss."""
    return _mean_loss(task, rows.x, rows.y, optimum(rows, task))


def _mean_loss(task: Task, x: Array, y: Array, theta: Array) -> float:
    return float(losses(task, y, x @ theta).mean())
