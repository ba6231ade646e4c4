"""What a method of the benchmark is: a name, what it is tuned over, and many fits at once."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
from cells import Cell
from problems import Array, Task

Setting: TypeAlias = Mapping[str, float]
Role: TypeAlias = Literal["default", "competitor", "reference"]
Run: TypeAlias = "tuple[Setting, np.random.Generator]"

ALL_TASKS: tuple[Task, ...] = ("logistic", "squared", "huber")


class AbstractMethod(ABC):
    """A method. Subclasses are final.

    Attributes
    ----------
    name : str
        In the results.
    tasks : tuple of Task
        What it can fit.
    role : {"default", "competitor", "reference"}
        References are not compared with: they are not private at the stated budget.
    most_repetitions : int
        For what is too slow for more.
    """

    name: str
    tasks: tuple[Task, ...] = ALL_TASKS
    role: Role = "competitor"
    most_repetitions: int = 10**6

    def settings(self, cell: Cell) -> Sequence[Setting]:  # noqa: ARG002 -- most have none
        """Return the hyper-parameters that hindsight may choose among; one means that nothing is tuned."""
        return [{}]

    @abstractmethod
    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Return the coefficients of every run, shape (len(runs), p)."""


def grid(**axes: Sequence[float]) -> list[Setting]:
    """Return all combinations of the named values."""
    combined: list[dict[str, float]] = [{}]
    for name, values in axes.items():
        combined = [{**old, name: value} for old in combined for value in values]
    return combined


def grouped(runs: Sequence[Run], *names: str) -> dict[tuple[float, ...], list[int]]:
    """Return the positions of runs by their values of the named hyper-parameters."""
    groups: dict[tuple[float, ...], list[int]] = {}
    for position, (setting, _) in enumerate(runs):
        groups.setdefault(tuple(setting[name] for name in names), []).append(position)
    return groups


def column(runs: Sequence[Run], name: str) -> Array:
    """Return one hyper-parameter of every run, shape (m,), in single precision."""
    return np.array([setting[name] for setting, _ in runs], dtype=np.float32)


def normals(runs: Sequence[Run], size: int) -> Array:
    """Return standard normal numbers, one column a run, shape (size, m)."""
    return np.column_stack([rng.standard_normal(size) for _, rng in runs])
