"""Make the plan of a fit from public facts and the budget, and say what it will buy."""

import math

from privfit.errors import Incompatible
from privfit.inference.infer import BREAD_SHARE, MEAT_SHARE, plan_inference
from privfit.privacy.budget import Budget
from privfit.privacy.composition import GaussianEvent, compose
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan
from privfit.problem.schedule import split_budget
from privfit.solvers.base import AbstractSolver


def make_plan(problem: Problem, solver: AbstractSolver, *, mu: float, inference: bool) -> Plan:
    """Return the plan of a fit that is ``mu``-GDP in all.

    Parameters
    ----------
    problem : Problem
        Public description of the objective.
    solver : AbstractSolver
    mu : float
        Total; ``inf`` for a fit without privacy.
    inference : bool
        Whether to buy bread and meat with about a quarter of the squared budget.
    """
    share = BREAD_SHARE + MEAT_SHARE if inference else 0.0
    solver_mu, inference_mu = split_budget(mu, [1.0 - share, share]) if inference else (mu, 0.0)
    solver_releases = solver.plan(problem, solver_mu)
    final = solver.final_problem(problem, solver_releases)
    inference_releases = plan_inference(final, inference_mu) if inference else ()
    releases = solver_releases + inference_releases
    total = compose([GaussianEvent(release.mu) for release in releases]).mu if math.isfinite(mu) else mu
    return Plan(
        model=problem.loss.name,
        solver=solver.name,
        n_rows=problem.n_rows,
        columns=problem.columns,
        relation=problem.relation.value,
        mu=total if total is not None else math.inf,
        solver_releases=solver_releases,
        inference_releases=inference_releases,
    )


def gaussian_budget(budget: Budget) -> float:
    """Return the ``mu`` that a budget leaves for Gaussian releases.

    Raises
    ------
    Incompatible
        For a pure-epsilon budget, which no Gaussian release can meet.
    """
    if budget.mu == 0.0:
        raise Incompatible(
            "budget: a pure epsilon budget (delta = 0) admits no Gaussian noise; set delta > 0, "
            "or use Budget.gdp or Budget.zcdp"
        )
    return budget.mu
