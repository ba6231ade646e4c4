"""``privfit plan``: what a fit would ask, spend and buy."""

import json
import math
import textwrap
from itertools import groupby
from pathlib import Path

import numpy as np
import typer

from privfit.cli.budget import DELTA
from privfit.cli.output import check_writable, waiting
from privfit.cli.prepare import Prepared, prepare
from privfit.cli.request import Request
from privfit.cli.tables import WIDTH, text_table
from privfit.errors import BudgetExceeded, Incompatible
from privfit.estimators.forecast import PlannedFit, forecast_fit
from privfit.planning import ASSUMED_RESIDUAL
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.ledger import Ledger
from privfit.problem.plan import Plan, PlannedRelease
from privfit.results import PrivacyStatement
from privfit.results.archive import write_atomically
from privfit.results.numbers import percent, significant

_STEPS = ("gradient", "bounded_gradient", "clipped_gradient")

_KINDS = {
    "marginals": "means and spreads",
    "second_moment": "second moment",
    "sizes": "sizes of gradients",
    "lengths": "lengths of rows",
    "bounded_gradient": "bounded gradient",
    "gradient": "gradient",
    "secant": "secant",
    "hessian": "Hessian",
    "meat": "meat",
    "minimiser": "minimiser",
    "perturbed_minimiser": "perturbed minimiser",
    "draw": "random draw",
    "walk": "sampled steps",
    "stream": "one pass",
    "moments": "moments",
    "eigenvalue": "smallest eigenvalue",
    "clipped_gradient": "clipped gradient",
}


def run_plan(request: Request, rows: int, *, out: Path | None) -> None:
    """Print the plan and its forecast; write the plan as JSON if asked for."""
    check_writable(out, option="out")
    with waiting("planning"):
        prepared = prepare(request, rows=rows)
        planned = forecast_fit(
            prepared.model, prepared.encoder, prepared.schema, prepared.options, n_rows=rows
        )
    if not planned.plan.private:
        raise Incompatible(
            "solver: a fit without noise spends nothing and has no plan; choose another solver"
        )
    typer.echo(render_plan(prepared, planned, level=request.level))
    if request.ledger is not None and request.dataset is not None:
        typer.echo("\n".join(["", *_ledger_lines(request.ledger, request.dataset, planned.plan)]))
    if out is not None:
        write_atomically(out, json.dumps(planned.plan.to_dict(), indent=2, allow_nan=False) + "\n")


def render_plan(prepared: Prepared, planned: PlannedFit, *, level: float) -> str:
    """Return header, releases and forecast as text."""
    plan, double = planned.plan, "=" * WIDTH
    lines = [
        f"Plan: {prepared.model.title_for(prepared.encoder.design)} of {prepared.encoder.design.target.name}",
        double,
    ]
    lines += _header(plan, prepared.options.budget)
    lines += [double, *_releases(plan), double]
    lines += _forecast(planned, prepared, level=level)
    return "\n".join(lines)


def guarantee(plan: Plan, budget: Budget) -> str:
    """Return the guarantee of a plan in one line of notation."""
    pair = budget.notion in ("pure", "approximate")
    delta = budget.delta if pair else DELTA
    statement = PrivacyStatement(
        private=True,
        relation=plan.relation,
        unit="row",
        notion=budget.notion,
        epsilon=budget.epsilon if pair else compose(plan.events).epsilon_at(delta),
        delta=delta,
        mu=plan.mu,
        noise="",
    )
    return statement.guarantee


def _header(plan: Plan, budget: Budget) -> list[str]:
    steps = sum(release.kind in _STEPS for release in plan.solver_releases)
    scale = "" if plan.relation == "replace" else " (public scale)"
    return [
        f"Method:   {plan.solver}" + (f", {steps} steps" if steps else ""),
        f"Rows:     {plan.n_rows}{scale}",
        f"Columns:  {len(plan.columns)} after encoding",
        f"Privacy:  {guarantee(plan, budget)}",
    ]


def _releases(plan: Plan) -> list[str]:
    total = math.fsum(map(_cost, plan.releases))
    rows = []
    for phase, releases in (("solver", plan.solver_releases), ("inference", plan.inference_releases)):
        ordered = sorted(releases, key=lambda release: list(_KINDS).index(release.kind))
        for kind, group in groupby(ordered, key=lambda release: release.kind):
            rows.append((f"{phase}: {_KINDS[kind]}", _release_cells(list(group), total)))
    rows.append(("total", [str(len(plan.releases)), "", "", "", percent(1.0)]))
    table = text_table(["count", "numbers each", "sensitivity", "noise sd", "budget %"], rows)
    note = (
        "Everything that would leave the table. Sensitivity and noise are in the units of the scaled "
        "columns: numeric ones lie in [-1, 1]. budget %: share of the squared budget (of epsilon, for a pure "
        "budget)."
    )
    if any(release.sd == 0.0 for release in plan.releases):
        note += " inside: the noise is part of the method and not added to its outcome."
    return [*table[:-1], "-" * WIDTH, table[-1], *textwrap.wrap(note, WIDTH)]


def _release_cells(group: list[PlannedRelease], total: float) -> list[str]:
    share = math.fsum(map(_cost, group)) / total
    return [
        str(len(group)),
        str(group[0].size),
        _span([release.sensitivity for release in group]),
        "inside" if group[0].sd == 0.0 else _span([release.sd for release in group]),
        percent(share) if math.isfinite(share) else "",
    ]


def _cost(release: PlannedRelease) -> float:
    """Return what adds up: the squared mu, or epsilon; inf for a method that has neither."""
    if release.epsilon is None:
        return release.mu**2
    return release.epsilon if release.delta == 0 else math.inf


def _span(values: list[float]) -> str:
    low, high = significant(min(values), 3), significant(max(values), 3)
    return low if low == high else f"{low} to {high}"


def _forecast(planned: PlannedFit, prepared: Prepared, *, level: float) -> list[str]:
    expected = planned.forecast
    numbers = np.column_stack([expected.sampling, expected.noise, expected.width(level)]).tolist()
    rows = [
        (
            name,
            [_or_unknown(value, significant(value, 3)) for value in values]
            + [_or_unknown(share, percent(share))],
        )
        for name, values, share in zip(expected.names, numbers, expected.noise_share.tolist(), strict=True)
    ]
    table = text_table(["sampling sd", "noise sd", f"{100 * level:.6g}% width", "noise %"], rows)
    notes = [_assumptions(prepared), *_not_known(planned, prepared)]
    wrapped = [line for note in notes for line in textwrap.wrap(note, WIDTH)]
    return [*table, "=" * WIDTH, *wrapped]


def _or_unknown(value: float, shown: str) -> str:
    return "unknown" if math.isnan(value) else shown


def _not_known(planned: PlannedFit, prepared: Prepared) -> list[str]:
    """Say why numbers of the forecast are missing, and what to do about it."""
    if np.isnan(planned.forecast.sampling).any():
        return [
            "Unknown: a loss with a kink has no Hessian, so its standard errors cannot be told beforehand."
        ]
    if not np.isnan(planned.forecast.noise).any():
        return []
    reason = f"Unknown: the noise in what {planned.plan.solver} leads to cannot be told beforehand"
    if prepared.options.method.no_inference is not None:
        return [f"{reason}; that of --solver auto can."]
    return [f"{reason}. Without --no-inference Newton steps with known noise are planned from there."]


def _assumptions(prepared: Prepared) -> str:
    kind = prepared.encoder.design.target.kind
    if kind in ("binary", "class"):
        response = f"{'both' if kind == 'binary' else 'all'} labels equally likely for every row"
    elif prepared.model.target_kind == "count":
        response = "a mean count of 1"
    else:
        share = f"{100 * ASSUMED_RESIDUAL:g}%"
        response = f"a residual scale of {share} of half the declared range of the response"
    return (
        "Expected standard deviation of each coefficient from sampling and from privacy noise, in the units "
        "of the raw columns; width of its interval; noise %: share of the squared standard error that is "
        "noise. No data were read. Assumed are independent columns, spread evenly over their declared ranges "
        f"and levels, and {response}. Real tables are less kind: rare levels, a rare outcome, and columns "
        "that use little of their range make intervals wider."
    )


def _ledger_lines(path: Path, dataset: str, plan: Plan) -> list[str]:
    """Say whether a ledger has room for the plan; nothing is reserved."""
    remaining = Ledger(path).remaining(dataset)
    cost = compose(plan.events)
    if remaining is None or not cost.within(remaining):
        left = "nothing" if remaining is None else remaining.describe()
        raise BudgetExceeded(f"dataset {dataset!r}: the plan does not fit; left in the ledger: {left}")
    return [f"Ledger: dataset {dataset!r} has room for this plan. Left before it: {remaining.describe()}."]
