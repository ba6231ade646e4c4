"""Small problems on which solvers and inference are tested."""

from functools import lru_cache

import numpy as np

from privfit.data.source import ArraySource
from privfit.inference.infer import infer
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Release


def rows(loss, n, rng, p=3):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    eta = x @ np.resize([0.5, -1.0, 0.7], p)
    if loss.target_kind == "binary":
        return x, (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    return x, eta + 0.5 * rng.normal(size=n)


def problem_for(loss, x, *, norm_bound=1.6, l2=0.0):
    n, p = x.shape
    start = (0.0,) * p + ((1.0,) if loss.has_scale else ())
    names = tuple(f"x{k}" for k in range(p))
    return Problem(loss, names, norm_bound, n, Relation.REPLACE, l2, start, (False,) + (True,) * (p - 1))


@lru_cache(maxsize=16)
def plan_once(problem, solver, allowance, *, inference):
    """Return the plan of all fits of one problem, which does not depend on rows or seeds."""
    return make_plan(problem, solver, allowance, inference=inference)


def oracle_for(problem, solver, x, y, *, mu, seed=0):
    plan = plan_once(problem, solver, Allowance.gaussian(mu), inference=True)
    noise = make_source(seed) if np.isfinite(mu) else NoNoise()
    return Oracle(problem, plan, ArraySource(x, y, norm_bound=problem.norm_bound), noise)


class Watcher:
    """An oracle that carries nothing out and keeps the procedure that it was asked for."""

    def __init__(self, plan):
        self.plan, self.asked = plan, None

    def carry_out(self, procedure, at):
        self.asked = procedure
        return Release(procedure.planned, at, at)


def procedure_of(problem, solver, allowance):
    """Return the procedure that a solver asks for, from public facts."""
    watcher = Watcher(plan_once(problem, solver, allowance, inference=False))
    solver.run(problem, watcher)
    return watcher.asked


def inferred(problem, solver, x, y, *, mu, seed=0):
    oracle = oracle_for(problem, solver, x, y, mu=mu, seed=seed)
    return infer(solver.run(problem, oracle), oracle, directions=np.eye(problem.n_coef))
