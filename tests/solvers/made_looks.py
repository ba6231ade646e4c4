"""Looks at residuals that are made by hand, and problems that they are of."""

import math
from types import SimpleNamespace

import numpy as np

from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.share_kernels import SIDE_CLASSES
from privfit.solvers.geometry import Frame
from privfit.solvers.residuals import BOTH_EDGES

UNIT = math.sqrt(2.0)
"""Of residuals where responses are within 1."""

FRAME = Frame(np.eye(1), np.zeros(1), 1.0, np.eye(1), 1.0)

FOUR = Frame(np.eye(4), np.zeros(4), 4.0, np.eye(4), 4.0)


def shares_of(law, scale, shift=0.0):
    """Return the shares of residuals of a law, in units of the largest edge."""
    inner = BOTH_EDGES[1:-1]
    below = law.cdf((inner - shift) / scale)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def single(shares):
    """Return shares by number of the class, from the lowest residuals to the highest."""
    return np.array([shares.get(number, 0.0) for number in range(2 * SIDE_CLASSES)])


class Made:
    """An oracle whose looks at residuals are made by hand; it keeps where they were."""

    plan = SimpleNamespace(inference_releases=())

    def __init__(self, *looks):
        self.looks, self.asked, self.loss = list(looks), [], None

    def remaining(self, kind):
        return len(self.looks) if kind == "residuals" else 0

    def change_basis(self, problem):
        assert problem.norm_bound == 2.0**-8

    def change_loss(self, loss):
        self.loss = loss

    def release(self, kind, at):
        assert kind == "residuals"
        self.asked.append(at.tolist())
        return self.looks.pop(0)


def look(shares, sd):
    planned = PlannedRelease("residuals", 2 * SIDE_CLASSES, 1.0, 1.0, sd)
    return Release(planned, np.zeros(1), np.asarray(shares, dtype=float))


def problem_of(loss, n=20_000, *, constant=True, bound=1.0, p=1):
    names, penalised = tuple("abcd"[:p]), (not constant, *[True] * (p - 1))
    return Problem(loss, names, 1.0, n, Relation.REPLACE, 0.0, (0.0,) * p, penalised, response_bound=bound)
