"""The solvers of privfit, its default among them, on rows that are already encoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from cells import Cell
from problems import HUBER_SCALE, Array, Task

from competitors.base import ALL_TASKS, AbstractMethod, Role, Run
from privfit.data.coded import CodedMatrix, Layout, Storage
from privfit.data.design import Design
from privfit.data.tables import Table
from privfit.estimators.fit import fit
from privfit.estimators.models import Model, huber_regression, linear_regression, logistic_regression
from privfit.estimators.options import FitOptions
from privfit.solvers import (
    AdaSSP,
    ClippedGradientDescent,
    NoisyGradientDescent,
    NoisyNewton,
    NoisySGD,
    ObjectivePerturbation,
    OnlineToBatch,
    OutputPerturbation,
    ProjectedNoisyGradientDescent,
    SufficientStatistics,
)


@final
@dataclass(frozen=True, slots=True)
class Encoded:
    """Stands for the library's encoder where the rows are encoded already."""

    design: Design
    x: Array
    y: Array

    @property
    def needed(self) -> tuple[str, ...]:
        """Names of the raw columns."""
        return (*self.design.names, self.design.target.name)

    @property
    def layout(self) -> Layout:
        """Numbers only."""
        size = len(self.design.columns)
        return Layout(size, False, tuple(range(size)))

    @property
    def identity(self) -> str:
        """Not asked for: such rows are not cached."""
        return repr(self.design)

    def encode_coded(self, table: Table, storage: Storage = "float64") -> CodedMatrix:  # noqa: ARG002
        """Return the rows without the response, as numbers."""
        return CodedMatrix.of_array(self.layout, self.x, storage)

    def encode_target(self, table: Table) -> Array:  # noqa: ARG002 -- encoded before
        """Return the response."""
        return self.y

    def encode_response(self, table: Table) -> tuple[Array, None]:  # noqa: ARG002 -- encoded before
        """Return the response, without exposures."""
        return self.y, None

    def encode_predictors(self, table: Table) -> Array:  # noqa: ARG002 -- encoded before
        """Return the rows without the response."""
        return self.x


@final
@dataclass(frozen=True)
class Library(AbstractMethod):
    """A solver of this library with its defaults, without inference."""

    name: str
    solver: object
    tasks: tuple[Task, ...] = ALL_TASKS
    role: Role = "competitor"
    most_repetitions: int = 10**6

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Fit through the function behind every estimator of the library."""
        encoder = Encoded(cell.rows.design, cell.rows.x, cell.rows.y)
        table = Table([("y", cell.rows.y)])
        model = _model(cell)
        thetas = []
        for _, rng in runs:
            options = FitOptions(
                budget=cell.budget,
                solver=self.solver,
                inference=False,
                random_state=int(rng.integers(2**31)),
            )
            thetas.append(fit(model, encoder, table, options)[1][: cell.p])
        return np.array(thetas)


def _model(cell: Cell) -> Model:
    if cell.task == "logistic":
        return logistic_regression()
    if cell.task == "squared":
        return linear_regression()
    return huber_regression(scale=HUBER_SCALE * cell.rows.design.target.half_width)


_SMOOTH: tuple[Task, ...] = ("logistic", "huber")
_SQUARED: tuple[Task, ...] = ("squared",)

DEFAULT = Library("privfit default", "auto", role="default")

SOLVERS = (
    Library("noisy gradient descent", NoisyGradientDescent(report="last")),
    Library("projected noisy gradient descent", ProjectedNoisyGradientDescent(), most_repetitions=5),
    Library("noisy Newton", NoisyNewton()),
    Library("output perturbation", OutputPerturbation()),
    Library("objective perturbation", ObjectivePerturbation(), _SMOOTH),
    Library("noisy SGD", NoisySGD(), most_repetitions=5),
    Library("noisy SGD, 10,000 steps", NoisySGD(n_steps=10_000), most_repetitions=3),
    Library("clipped gradient descent", ClippedGradientDescent()),
    Library("online-to-batch", OnlineToBatch()),
    Library("AdaSSP", AdaSSP(), _SQUARED),
    Library("sufficient statistics", SufficientStatistics(), _SQUARED),
)
"""The library's other solvers that fit several columns in reasonable time."""
