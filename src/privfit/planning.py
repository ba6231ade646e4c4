"""Make the plan of a fit from public facts and the budget, and say what goes where."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from privfit.errors import Incompatible, InvalidArgument
from privfit.inference.infer import BudgetSplit, inference_shares, plan_inference
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import GaussianEvent, compose
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan, PlannedRelease, ReleaseKind
from privfit.solvers.base import AbstractSolver
from privfit.solvers.requirements import need_standard_errors, need_sums

Purpose: TypeAlias = Literal["geometry", "estimate", "bread", "meat"]
"""What a release is for."""

_GEOMETRY: tuple[ReleaseKind, ...] = (
    "second_moment", "marginals", "norms", "counts", "exposures", "residuals", "labels", "sizes",
    "eigenvalue", "places",
)  # fmt: skip


def make_plan(
    problem: Problem, solver: AbstractSolver, allowance: Allowance, *, inference: bool | BudgetSplit
) -> Plan:
    """Return the plan of a fit that costs ``allowance`` in all.

    Parameters
    ----------
    problem : Problem
        Public description of the objective.
    solver : AbstractSolver
    allowance : Allowance
        Total; without limit for a fit without privacy.
    inference : bool or BudgetSplit
        Whether to buy bread and meat with 10 to 43 % of the squared budget (22 % after other methods than
        the default), and, for a method that releases its answer as a whole, Newton steps from there with
        another half. A split says with how much.

    Raises
    ------
    Incompatible
        If the solver cannot serve the loss, relation or budget, or the loss or solver gives no standard
        errors. Solvers do not know whether inference is wanted, so what it needs of the loss is checked here.
    InvalidArgument
        If a split leaves the solver nothing.
    """
    if inference and solver.no_inference is not None:
        raise Incompatible(f"inference: {solver.no_inference}; fit with inference=False")
    need_sums(problem, solver)
    if inference:
        need_standard_errors(problem)
    split = inference if isinstance(inference, BudgetSplit) else BudgetSplit()
    shares = inference_shares(split, problem, solver, allowance) if inference else []
    if math.fsum(shares) >= 1.0:
        raise InvalidArgument("inference: its split leaves the solver no budget; give bread and meat less")
    for_solver, *for_inference = allowance.split([1.0 - math.fsum(shares), *shares])
    if inference:
        for_solver = for_solver.next_to(
            [event for part in for_inference if (event := part.event) is not None]
        )
    solver_releases = solver.plan(problem, for_solver if inference else allowance)
    inference_releases: tuple[PlannedRelease, ...] = ()
    if inference:
        inference_releases = plan_inference(solver.final_problem(problem, solver_releases), for_inference)
    return plan_of(problem, problem.loss.name, solver.name, solver_releases, inference_releases)


def plan_of(
    problem: Problem,
    model: str,
    method: str,
    solver_releases: tuple[PlannedRelease, ...],
    inference_releases: tuple[PlannedRelease, ...] = (),
) -> Plan:
    """Return the plan that asks a problem's rows for these releases."""
    return Plan(
        model=model,
        solver=method,
        n_rows=problem.n_rows,
        columns=problem.columns,
        relation=problem.relation.value,
        mu=_total_mu(solver_releases + inference_releases),
        solver_releases=solver_releases,
        inference_releases=inference_releases,
        unit=problem.unit,
        rows_per_unit=problem.shares.rows_per_unit,
        weights=None if problem.shares.weights is None else problem.shares.weights[0],
        exposure=None if problem.exposure is None else problem.exposure.name,
    )


def preceded(plan: Plan, looks: Sequence[PlannedRelease]) -> Plan:
    """Return the plan of all releases of a fit before which there were others, of the same budget."""
    if not looks:
        return plan
    releases = (*looks, *plan.releases)
    return replace(plan, mu=_total_mu(releases), solver_releases=(*looks, *plan.solver_releases))


def _total_mu(releases: Sequence[PlannedRelease]) -> float:
    """Return what releases cost together in mu; ``inf`` unless all are Gaussian."""
    if not all(math.isfinite(release.mu) for release in releases):
        return math.inf
    return compose([GaussianEvent(release.mu) for release in releases]).gaussian


def cost(release: PlannedRelease) -> float:
    """Return what adds up: the squared mu, or epsilon; inf for a method that has neither."""
    if release.epsilon is None:
        return release.mu**2
    return release.epsilon if release.delta == 0 else math.inf


def budget_split(plan: Plan) -> dict[Purpose, float]:
    """Return what part of the squared budget (of epsilon, for a pure one) a plan spends on what.

    Newton's steps of the inference from a released point count as estimate and bread; NaN where the cost of
    a release is neither a mu nor a pure epsilon.
    """
    parts: dict[Purpose, float] = dict.fromkeys(("geometry", "estimate", "bread", "meat"), 0.0)
    for release in plan.solver_releases:
        parts["geometry" if release.kind in _GEOMETRY else "estimate"] += cost(release)
    bought: dict[str, Purpose] = {"hessian": "bread", "meat": "meat"}
    for release in plan.inference_releases:
        parts[bought.get(release.kind, "estimate")] += cost(release)
    total = math.fsum(parts.values())
    return {name: value / total if math.isfinite(total) else math.nan for name, value in parts.items()}
