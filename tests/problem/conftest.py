import numpy as np
import pytest

from privfit.losses import ConcomitantHuber, Huber, Logistic, Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem

LOSSES = [Logistic(), Squared(0.8), Huber(0.5), ConcomitantHuber()]


def make_problem(loss, *, p=3, n_rows=7, norm_bound=1.5, relation=Relation.REPLACE, l2=0.0, **changes):
    start = (0.0,) * p + ((0.6,) if loss.has_scale else ())
    names = tuple(f"x{k}" for k in range(p))
    return Problem(
        loss, names, norm_bound, n_rows, relation, l2, start, (False,) + (True,) * (p - 1), **changes
    )


@pytest.fixture
def rng():
    return np.random.default_rng(20240501)
