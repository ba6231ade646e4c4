"""A solver that returns a fixed public point and asks for nothing: a start for inference of known badness."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit.solvers.base import AbstractSolver, Solution


@final
@dataclass(frozen=True, slots=True)
class FixedPoint(AbstractSolver):
    point: tuple
    releases_a_point: ClassVar[bool] = True

    @property
    def name(self):
        return "fixed point"

    def plan(self, problem, allowance):
        return ()

    def run(self, problem, oracle):
        return Solution(problem, np.array(self.point, dtype=float), (), (), "point")
