"""Small tables on and beyond every bound, and the exact outcome of a procedure on them."""

import numpy as np

from privfit.data.source import ArraySource
from privfit.losses import Squared
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.rows import Rows

UNLIMITED = Allowance.unlimited()


def make_problem(loss=None, *, p=3, n_rows=7, norm_bound=1.5, relation=Relation.REPLACE, l2=0.0, **changes):
    names = tuple(f"x{k}" for k in range(p))
    loss = Squared(50.0) if loss is None else loss
    penalised = (False,) + (True,) * (p - 1)
    return Problem(loss, names, norm_bound, n_rows, relation, l2, (0.0,) * p, penalised, **changes)


def exact(procedure, problem, x, y):
    """Return the outcome without noise; the procedure must have an unlimited allowance."""
    source = ArraySource(np.atleast_2d(x), np.atleast_1d(y), norm_bound=problem.norm_bound)
    return procedure.carry_out(problem, Rows(problem, source), NoNoise())


def extreme_rows(p, *, norm_bound, responses):
    """Rows on and beyond the bound in many directions, and unusable ones."""
    directions = [*np.eye(p), *(-np.eye(p)), np.ones(p) / np.sqrt(p)]
    if p > 1:
        directions.append(np.r_[1.0, -1.0, np.zeros(p - 2)] / np.sqrt(2))
        directions.append(np.r_[0.5, np.sqrt(0.75), np.zeros(p - 2)])
    lengths = (0.0, 1e-170, 1e-9, 0.3, 1.0, 1.0 + 1e-12, 30.0, 1e200)
    rows = [(norm_bound * length * d, y) for d in directions for length in lengths for y in responses]
    return [
        *rows,
        (np.full(p, np.nan), 1.0),
        (np.r_[np.inf, np.zeros(p - 1)], 0.0),
        (np.ones(p), np.nan),
        (np.ones(p), np.inf),
    ]
