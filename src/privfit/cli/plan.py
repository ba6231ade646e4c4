"""``privfit plan``: what a fit would ask, spend and buy."""

import json
import math
import textwrap
from itertools import groupby
from pathlib import Path

import typer

from privfit._progress import running
from privfit.cli.inputs import read_table
from privfit.cli.output import check_writable
from privfit.cli.prepare import prepare
from privfit.cli.request import GuessesText, Request, TargetText
from privfit.cli.tables import WIDTH, text_table
from privfit.data.schema import Schema
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.options import FitOptions
from privfit.estimators.planned import PlannedFit, described, planned_rows
from privfit.estimators.rehearsal import Rehearsal
from privfit.estimators.sample_size import Wanted, epsilon_needed, rows_needed
from privfit.planning import cost
from privfit.privacy.ledger import Ledger
from privfit.privacy.words import remainder_in_words
from privfit.problem.plan import Plan, PlannedRelease
from privfit.results import printer
from privfit.results.archive import write_atomically
from privfit.results.numbers import percent, significant

_STEPS = ("gradient", "bounded_gradient", "clipped_gradient")

_KINDS = {
    "places": "places of columns",
    "marginals": "means and spreads",
    "second_moment": "second moment",
    "sizes": "sizes of gradients",
    "norms": "norms of rows",
    "counts": "sizes of counts",
    "exposures": "sizes of exposures",
    "residuals": "sizes of residuals",
    "labels": "shares of labels",
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


def run_plan(request: Request, target: TargetText, guesses: GuessesText, *, out: Path | None) -> None:
    """Print the plan and its forecast; write the plan as JSON if asked for."""
    reference = guesses.reference
    inputs = (request.schema, request.ledger, None if reference is None else reference.path)
    check_writable(out, option="--out", inputs=inputs)
    rows = None if target.rows is None else planned_rows(rows=target.rows)
    with running("planning"):
        prepared = prepare(request, rows=rows)
        assumptions = Assumptions(
            mean=guesses.mean,
            residual_sd=guesses.residual_sd,
            sd=guesses.sd,
            center=guesses.center,
            mean_weight=guesses.mean_weight,
            mean_rows=guesses.mean_rows,
            intraclass=guesses.intraclass,
            reference=None if reference is None else read_table(reference),
        )
        answer, planned = _answered(
            prepared.rehearsal(assumptions), prepared.options, target, level=request.level
        )
    typer.echo(answer + render_plan(planned))
    if request.ledger is not None and request.dataset is not None:
        typer.echo(
            "\n".join(["", *_ledger_lines(request.ledger, request.dataset, planned.plan, prepared.schema)])
        )
    if out is not None:
        write_atomically(out, json.dumps(planned.plan.to_dict(), indent=2, allow_nan=False) + "\n")


def _answered(
    rehearsal: Rehearsal, options: FitOptions, target: TargetText, *, level: float
) -> tuple[str, PlannedFit]:
    """Return the rows, or beside these the epsilon, that a target needs, in words, and the plan with them."""
    if target.rows is not None and not target.wanted:
        return "", described(rehearsal, options, n_rows=target.rows, level=level)
    if not options.inference:
        raise InvalidArgument(
            "width and power are of intervals and tests, so --no-inference cannot meet them"
        )
    wanted = Wanted(
        width=target.width,
        power=target.power,
        effect=target.effect,
        coefficient=target.coefficient,
        level=level,
    )
    if target.rows is None:
        found = rows_needed(rehearsal, options, wanted)
    else:
        found = epsilon_needed(rehearsal, options, wanted, n_rows=target.rows)
    return f"{found.answer}\n\n", found.planned


def render_plan(planned: PlannedFit) -> str:
    """Return header, releases and forecast as text."""
    double = "=" * WIDTH
    lines = [f"Plan: {planned.model} of {planned.target}", double, *_header(planned), double]
    return "\n".join([*lines, *_releases(planned.plan), double, *_forecast(planned)])


def _header(planned: PlannedFit) -> list[str]:
    plan = planned.plan
    steps = sum(release.kind in _STEPS for release in plan.solver_releases)
    scale = "" if plan.relation == "replace" else " (public scale)"
    return [
        f"Method:   {plan.solver}" + (f", {steps} steps" if steps else ""),
        f"{'Rows: ' if plan.unit is None else 'Units:'}    {plan.n_rows}{scale}",
        f"Columns:  {len(plan.columns)} after encoding",
        f"Privacy:  {planned.statement.guarantee}",
    ]


def _releases(plan: Plan) -> list[str]:
    total = math.fsum(map(cost, plan.releases))
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
    share = math.fsum(map(cost, group)) / total
    return [
        str(len(group)),
        str(group[0].size),
        _span([release.sensitivity for release in group]),
        "inside" if group[0].sd == 0.0 else _span([release.sd for release in group]),
        percent(share) if math.isfinite(share) else "",
    ]


def _span(values: list[float]) -> str:
    low, high = significant(min(values), 3), significant(max(values), 3)
    return low if low == high else f"{low} to {high}"


def _forecast(planned: PlannedFit) -> list[str]:
    summary = planned.summary()
    notes = [line for note in summary.footers for line in textwrap.wrap(note, WIDTH)]
    if not planned.forecast.known:
        return notes
    labels = [column.label for column in summary.columns]
    rows = [(name, printer.cells(summary.columns, values)) for name, values in summary.rows]
    return [*text_table(labels, rows), "=" * WIDTH, *notes]


def _ledger_lines(path: Path, dataset: str, plan: Plan, schema: Schema) -> list[str]:
    """Say whether a ledger has room for the plan; nothing is reserved."""
    ledger = Ledger(path)
    ledger.check(dataset, plan.events, relation=plan.relation, unit=plan.unit, schema=schema)
    before = remainder_in_words(ledger.remaining(dataset), ledger.granted(dataset))
    return [f"Ledger: dataset {dataset!r} has room for this plan. Left before it: {before}."]
