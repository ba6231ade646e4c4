"""Make the plan of a fit from public facts and the budget, and say what it will buy."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from privfit._checks import FloatArray
from privfit.errors import Incompatible
from privfit.inference.infer import inference_shares, plan_inference
from privfit.inference.polish import N_COMBINED
from privfit.losses.typical import typical
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import GaussianEvent, compose
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan
from privfit.solvers.base import AbstractSolver
from privfit.solvers.requirements import need_hessian

ASSUMED_RESIDUAL = 0.25
"""Residual scale that a forecast assumes, in units of the encoded response."""


def make_plan(problem: Problem, solver: AbstractSolver, allowance: Allowance, *, inference: bool) -> Plan:
    """Return the plan of a fit that costs ``allowance`` in all.

    Parameters
    ----------
    problem : Problem
        Public description of the objective.
    solver : AbstractSolver
    allowance : Allowance
        Total; without limit for a fit without privacy.
    inference : bool
        Whether to buy bread and meat with about a quarter of the squared budget, and, for a method that
        releases its answer as a whole, Newton steps from there with another half.

    Raises
    ------
    Incompatible
        If the solver cannot serve the loss, relation or budget, or the loss or solver gives no standard
        errors. Solvers do not know whether inference is wanted, so what it needs of the loss is checked here.
    """
    if inference and solver.no_inference is not None:
        raise Incompatible(f"inference: {solver.no_inference}; fit with inference=False")
    if inference:
        need_hessian(problem)
    shares = inference_shares(solver) if inference else []
    for_solver, *for_inference = allowance.split([1.0 - math.fsum(shares), *shares])
    if inference:
        for_solver = for_solver.next_to(
            [event for part in for_inference if (event := part.event) is not None]
        )
    solver_releases = solver.plan(problem, for_solver if inference else allowance)
    final = solver.final_problem(problem, solver_releases)
    inference_releases = plan_inference(final, for_inference) if inference else ()
    releases = solver_releases + inference_releases
    gaussian = all(math.isfinite(release.mu) for release in releases)
    return Plan(
        model=problem.loss.name,
        solver=solver.name,
        n_rows=problem.n_rows,
        columns=problem.columns,
        relation=problem.relation.value,
        mu=compose([GaussianEvent(release.mu) for release in releases]).gaussian if gaussian else math.inf,
        solver_releases=solver_releases,
        inference_releases=inference_releases,
    )


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
    problem: Problem,
    solver: AbstractSolver,
    plan: Plan,
    *,
    moment: FloatArray,
    directions: FloatArray,
    names: tuple[str, ...] | None = None,
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
    directions : array of shape (k, n_linear)
        Reported coefficients as linear functions of the encoded ones.
    names : tuple of str, optional
        Labels of the k reported coefficients. Default: those of the encoded columns.

    Notes
    -----
    Where a solver releases its answer as a whole and no inference is asked for, the noise of the outcome is
    not known beforehand and is given as NaN; so is all for a loss with a kink.

    A binary response is taken at even odds, with the largest curvature; a numeric one with a normal
    residual of a quarter of half the declared range; a count with mean 1; classes are
    equally likely. The noise is that of the
    gradients of the second half of the steps, combined in one Newton step. A rare level or a rare outcome
    makes the real intervals wider than this forecast.
    """
    names = problem.columns if names is None else names
    if not problem.loss.constants.smooth:
        unknown = np.full(len(directions), math.nan)
        return Forecast(names=names, sampling=unknown, noise=unknown)
    basis = problem.each_output(solver.expected_basis(problem, moment, plan.solver_releases))
    moment = problem.each_output(moment)
    sd = _gradient_noise(plan, solver)
    curvature, score = typical(problem.loss, residual=ASSUMED_RESIDUAL)
    inverse = np.linalg.pinv(curvature * basis.T @ moment @ basis, hermitian=True)
    reported = directions @ basis @ inverse
    meat = score * basis.T @ moment @ basis / problem.n_rows
    return Forecast(
        names=names,
        sampling=np.sqrt(np.einsum("ij,jk,ik->i", reported, meat, reported)),
        noise=sd * np.linalg.norm(reported, axis=1),
    )


def _gradient_noise(plan: Plan, solver: AbstractSolver) -> float:
    """Return the noise sd of the gradient that the reported estimate rests on; NaN if there is none."""
    if not plan.private:
        return 0.0
    bought = [release for release in plan.inference_releases if release.kind == "gradient"]
    steps = [release for release in plan.solver_releases if release.kind == "gradient"]
    late = bought[-N_COMBINED:] if solver.releases_a_point else steps[len(steps) // 2 :]
    return math.sqrt(1.0 / math.fsum(release.sd**-2 for release in late)) if late else math.nan
