"""diffprivlib, run by the Python that it needs."""

import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from cells import Cell
from problems import Array, Task

from competitors.base import AbstractMethod, Run, Setting, grid

_WORKER = Path(__file__).with_name("diffprivlib_worker.py")
_CONSTANTS: tuple[Task, ...] = ("logistic", "squared")


@final
@dataclass(frozen=True)
class DiffPrivLib(AbstractMethod):
    """Logistic and linear regression of diffprivlib, at pure epsilon, from an interpreter that has it.

    Its logistic regression is given the public norm bound and no intercept of its own: the constant column
    is a column like any other, so that it is penalised. Even so its noise is too small for its claim where
    the bound is above 4, because the bound enters the Hessian squared and its code takes it once. Its ridge
    is tuned.

    Parameters
    ----------
    python : str
        The interpreter.
    """

    python: str
    name: str = "diffprivlib, tuned"
    tasks: tuple[Task, ...] = _CONSTANTS
    most_repetitions: int = 3

    def settings(self, cell: Cell) -> Sequence[Setting]:
        """Return values of ``C``, 1 by default; linear regression has nothing to tune."""
        return grid(C=(1.0, 100.0)) if cell.task == "logistic" else [{}]

    def fit(self, cell: Cell, runs: Sequence[Run]) -> Array:
        """Hand rows and settings over as files; fits that fail come back as NaN."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "in.npz"), Path(folder, "out.npz")
            np.savez(
                source,
                x=cell.rows.x,
                y=cell.rows.y,
                logistic=cell.task == "logistic",
                epsilon=cell.epsilon,
                norm=cell.rows.norm_bound,
                c=np.array([setting.get("C", 1.0) for setting, _ in runs]),
                seeds=np.array([rng.integers(2**31) for _, rng in runs]),
            )
            subprocess.run([self.python, str(_WORKER), str(source), str(target)], check=True)  # noqa: S603 -- given by the caller
            with np.load(target) as found:
                return found["thetas"]
