"""``privfit demo``: from a simulated table to two published regressions."""

import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import typer

from privfit._checks import whole
from privfit._progress import running
from privfit.cli.budget import DELTA, EPSILON
from privfit.cli.output import check_writable, write_html
from privfit.cli.prepare import prepare
from privfit.cli.request import BudgetText, Request, TextFile
from privfit.cli.tables import WIDTH
from privfit.data.synthetic import CensusTarget, census, census_coefficients, census_schema
from privfit.errors import InvalidArgument
from privfit.estimators.fit import fit
from privfit.estimators.objective import make_problem, plan_fit
from privfit.estimators.options import FitOptions
from privfit.privacy.composition import compose, round_up
from privfit.problem.plan import Plan
from privfit.results import FitResult, PrivacyStatement
from privfit.results.archive import write_atomically

_TABLE_SEED = 2024
"""The people are simulated and the same every time; the noise is private and never the same."""

_LEVEL = 0.95
_BUDGET = ("--epsilon", f"{EPSILON:g}", "--delta", f"{DELTA:g}")

_OPENING = (
    "A statistical office holds a table of people. It wants to publish two regressions, but nothing about "
    "any single person. privfit adds calibrated noise to the sums from which the coefficients are computed. "
    "How much the published numbers may depend on any one row is limited by the privacy budget ε: at ε = 1 "
    "the odds of anything one might conclude about a person change by a factor of at most 2.7 (but for one "
    "chance in a million, δ) compared with a table in which somebody else stands in that row. The price is "
    "wider confidence intervals, and the summaries say how much of their width is noise. The people here are "
    "simulated, so that the intervals can be compared with the truth."
)
_CLOSING = (
    "The noise is drawn from the operating system, so that the numbers differ from run to run and from those "
    "above. Add --seed 1 for repeatable noise: such a result is marked NOT PRIVATE."
)


@dataclass(frozen=True, slots=True)
class _Study:
    """One of the two regressions."""

    model: str
    target: CensusTarget
    schema: Path

    def request(self) -> Request:
        return Request(
            schema=self.schema,
            model=self.model,
            formula=None,
            target=None,
            solver="auto",
            l2=0.0,
            inference=True,
            level=_LEVEL,
            budget=BudgetText(EPSILON, DELTA, None, None),
            relation="replace",
            n_rows=None,
            ledger=None,
            dataset=None,
            seed=None,
        )

    def command(self, data: Path) -> str:
        words = ["privfit", "fit", str(data), "--schema", str(self.schema), "--model", self.model]
        return shlex.join([*words, *_BUDGET])

    def plan_command(self, rows: int) -> str:
        words = ["privfit", "plan", "--schema", str(self.schema), "--model", self.model, "--rows", str(rows)]
        return shlex.join([*words, *_BUDGET])


def run_demo(folder: Path, rows: int) -> None:
    """Write the table and its schemas, plan, fit, compare, and say where everything is."""
    whole(100, rows=rows)
    if folder.exists() and not folder.is_dir():
        raise InvalidArgument(f"--dir must be a folder, and {str(folder)!r} is a file")
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / "census.csv"
    check_writable(data, option="--dir")
    studies = (
        _Study("logit", "income_over_50k", folder / "income.toml"),
        _Study("huber", "hourly_wage", folder / "wage.toml"),
    )
    _say(_OPENING)
    _write_inputs(data, studies, rows)
    _say(
        f"Simulated {rows} people: {data}. What is publicly known of the columns: {studies[0].schema} and "
        f"{studies[1].schema}."
    )
    results = [_run(study, data, folder, rows) for study in studies]
    _say(_together(results))
    _say("Files")
    typer.echo("\n".join(f"  {path}" for path in _files(data, studies, folder)))
    _say("To repeat the fits, and to see a plan in full")
    commands = [*(study.command(data) for study in studies), studies[0].plan_command(rows)]
    typer.echo("\n".join(f"  {command}" for command in commands))
    _say(_CLOSING)


def _write_inputs(data: Path, studies: tuple[_Study, ...], rows: int) -> None:
    write_atomically(data, pd.DataFrame(census(rows, _TABLE_SEED)).to_csv(index=False, lineterminator="\n"))
    for study in studies:
        census_schema(study.target).to_toml(study.schema)


def _run(study: _Study, data: Path, folder: Path, rows: int) -> FitResult:
    with running("planning and fitting"):
        prepared = prepare(study.request())
        problem = make_problem(prepared.model, prepared.encoder.design, prepared.options, n_rows=rows)
        plan = plan_fit(problem, prepared.options)
        table = prepared.open(TextFile(data, ",", header=True, columns=None))
        result, _ = fit(prepared.model, prepared.encoder, table, prepared.options)
    _say(_plan_in_words(prepared.model.title_for(prepared.encoder.design), plan, prepared.options))
    typer.echo(f"\n{result.summary(_LEVEL).as_text()}")
    _say(_against_truth(study, result))
    json_file, html_file = _result_files(study, folder)
    result.to_json(json_file)
    write_html(result, html_file, _LEVEL)
    return result


def _plan_in_words(title: str, plan: Plan, options: FitOptions) -> str:
    """Sum a plan up in one sentence."""
    guarantee = PrivacyStatement.of(options.budget, plan, private=plan.private, noise="").guarantee
    steps = sum(release.kind == "gradient" for release in plan.solver_releases)
    return (
        f"{title}. The plan, made before a row is read: {steps} steps, {len(plan.releases)} noisy answers in "
        f"all, {guarantee}. Nothing else leaves the table."
    )


def _against_truth(study: _Study, result: FitResult) -> str:
    """Count the finite intervals that contain the coefficients with which the table was simulated."""
    truth, interval = census_coefficients(study.target), result.conf_int(_LEVEL)
    lower, upper = interval["lower"].to_numpy(), interval["upper"].to_numpy()
    finite = np.isfinite(lower) & np.isfinite(upper)
    values = np.array([truth[name] for name in interval.index])
    hits, total = int(np.sum(finite & (lower <= values) & (values <= upper))), int(np.sum(finite))
    if not total:
        return "No interval is finite: with so few rows or so little budget noise hides the coefficients."
    return (
        f"Only a simulation can tell: {hits} of {total} intervals contain the coefficient that the table was "
        f"simulated with (about {_LEVEL * total:.0f} are expected)."
    )


def _together(results: list[FitResult]) -> str:
    """Say what the two fits cost together, because they used the same people."""
    events = [event for result in results for event in result.plan.events]
    epsilon = round_up(compose(events).epsilon_at(DELTA))
    return (
        f"Both fits used the same people, so their costs add up: together they are (ε = {epsilon}, "
        f"δ = {DELTA:g})-differentially private. A ledger keeps such accounts; see privfit ledger."
    )


def _result_files(study: _Study, folder: Path) -> tuple[Path, Path]:
    stem = study.schema.stem
    return folder / f"{stem}.json", folder / f"{stem}.html"


def _files(data: Path, studies: tuple[_Study, ...], folder: Path) -> list[Path]:
    results = [path for study in studies for path in _result_files(study, folder)]
    return [data, *(study.schema for study in studies), *results]


def _say(text: str) -> None:
    typer.echo("\n" + "\n".join(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)))
