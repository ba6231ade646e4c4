"""Losses, problems and densities on which the exponential mechanism is tested."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit.data.source import ArraySource
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar, zero
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.rows import Rows


@scalar
def _absolute(y, eta, s, c, k):
    return abs(y - eta)


@scalar
def _sign(y, eta, s, c, k):
    return 1.0 if eta > y else -1.0


@scalar
def _exploding(y, eta, s, c, k):
    return 50.0 * (y - eta) ** 3


@final
@dataclass(frozen=True, slots=True)
class Absolute(AbstractLoss):
    """Least absolute deviations, as a stranger would write it."""

    target_kind: ClassVar = "numeric"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_absolute, _sign, zero)

    name = "Absolute"
    parameters = (0.0, 0.0)

    @property
    def constants(self):
        return LossConstants(slope=1.0, curvature=np.inf)


@final
@dataclass(frozen=True, slots=True)
class Liar(AbstractLoss):
    """Claims slope 1 and is cubic."""

    target_kind: ClassVar = "numeric"
    functions: ClassVar[ScalarFunctions] = ScalarFunctions(_exploding, _sign, zero)
    proven: ClassVar[bool] = False

    name = "Liar"
    parameters = (0.0, 0.0)

    @property
    def constants(self):
        return LossConstants(slope=1.0, curvature=1.0)


def problem_of(loss, n, p=1, *, norm_bound=1.0, relation=Relation.REPLACE, l2=0.0):
    names = tuple(f"x{k}" for k in range(p))
    return Problem(loss, names, norm_bound, n, relation, l2, (0.0,) * p, (False,) + (True,) * (p - 1))


def rows_of(problem, x, y):
    return Rows(
        problem, ArraySource(np.asarray(x, float), np.asarray(y, float), norm_bound=problem.norm_bound)
    )


def log_density(exponent, grid):
    """Normalised log density on an evenly spaced grid (m, p), up to the grid's cell."""
    height = -exponent(grid)[0]
    return height - np.logaddexp.reduce(height)
