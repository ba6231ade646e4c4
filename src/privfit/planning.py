"""Make the plan of a fit from public facts and the budget, and say what it will buy."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privfit._checks import FloatArray
from privfit.errors import Incompatible
from privfit.inference.infer import BREAD_SHARE, MEAT_SHARE, plan_inference
from privfit.losses.typical import typical
from privfit.privacy.budget import Budget
from privfit.privacy.composition import GaussianEvent, compose
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan
from privfit.problem.schedule import split_budget
from privfit.solvers.base import AbstractSolver

ASSUMED_RESIDUAL = 0.25
"""Residual scale that a forecast assumes, in units of the encoded response."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Forecast:
    """What a plan is expected to buy, under stated public assumptions.

    Parameters
    ----------
    names : tuple of str
        Labels of the reported coefficients.
    sampling, noise : array of shape (k,)
        Expected standard deviation of each coefficient from sampling and from privacy noise, in the
        reported units.
    """

    names: tuple[str, ...]
    sampling: FloatArray
    noise: FloatArray

    @property
    def noise_share(self) -> FloatArray:
        """Share of the squared standard error that is privacy noise."""
        return self.noise**2 / (self.noise**2 + self.sampling**2)

    def width(self, level: float = 0.95) -> FloatArray:
        """Return the expected width of a confidence interval."""
        return 2.0 * float(ndtri(0.5 + 0.5 * level)) * np.hypot(self.noise, self.sampling)


def forecast(
    problem: Problem, solver: AbstractSolver, plan: Plan, *, moment: FloatArray, directions: FloatArray
) -> Forecast:
    """Return the expected standard errors of a plan, without data.

    Parameters
    ----------
    problem : Problem
    solver : AbstractSolver
        The solver that made the plan.
    plan : Plan
    moment : array of shape (p, p)
        Assumed second moment of the encoded rows, e.g. of independent columns that are uniform over
        their declared ranges.
    directions : array of shape (k, p)
        Reported coefficients as linear functions of the encoded ones.

    Notes
    -----
    A binary response is taken at even odds, with the largest curvature; a numeric one with a normal
    residual of a quarter of half the declared range; a count with mean 1. The noise is that of the
    gradients of the second half of the steps, combined in one Newton step. A rare level or a rare outcome
    makes the real intervals wider than this forecast.
    """
    basis = solver.expected_basis(moment, plan.solver_releases)
    gradients = [release for release in plan.solver_releases if release.kind == "gradient"]
    late = gradients[len(gradients) // 2 :]
    sd = math.sqrt(1.0 / sum(release.sd**-2 for release in late)) if plan.private else 0.0
    curvature, score = typical(problem.loss, residual=ASSUMED_RESIDUAL)
    inverse = np.linalg.pinv(curvature * basis.T @ moment @ basis, hermitian=True)
    reported = directions @ basis @ inverse
    meat = score * basis.T @ moment @ basis / problem.n_rows
    return Forecast(
        names=problem.columns,
        sampling=np.sqrt(np.einsum("ij,jk,ik->i", reported, meat, reported)),
        noise=sd * np.linalg.norm(reported, axis=1),
    )
