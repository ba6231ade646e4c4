"""The commands and their arguments. What they do is imported when they run."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from privfit.cli import options as o
from privfit.cli.failures import USAGE, OneLineGroup
from privfit.cli.ledger_commands import ledger_app
from privfit.cli.request import (
    ANY_ROWS,
    BudgetText,
    ConstantsText,
    GuessesText,
    LookRequest,
    Request,
    TargetText,
    TextFile,
    by_column,
    fitted_level,
    interval_level,
    split_scale,
)

app = typer.Typer(
    cls=OneLineGroup,
    add_completion=False,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    help="Differentially private regression with honest confidence intervals.",
    epilog="Exit codes: 0 done; 1 refused, with a one-line error; 2 the command line makes no sense; "
    "130 stopped.",
)

app.add_typer(ledger_app, name="ledger")


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        from privfit import __version__  # noqa: PLC0415 -- the package is being imported

        typer.echo(f"privfit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Differentially private regression with honest confidence intervals."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(USAGE)


@app.command()
def fit(
    *,
    data: o.DataFile,
    schema: o.SchemaFile,
    model: o.Model,
    formula: o.Formula = None,
    target: o.TargetName = None,
    quantile: o.Quantile = None,
    residual_bound: o.ResidualBound = None,
    threshold: o.Threshold = None,
    scale: o.Scale = None,
    scale_share: o.ScaleShare = None,
    smoothing_width: o.Smoothing = None,
    predictor_bound: o.PredictorBound = None,
    solver: o.Solver = "auto",
    l2: o.Ridge = 0.0,
    no_inference: o.NoInference = False,
    level: o.FittedLevel = None,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    mu: o.Mu = None,
    rho: o.Rho = None,
    relation: o.Relation = o.RelationName.REPLACE,
    n_rows: o.PublicRows = None,
    unit: o.Unit = None,
    rows_per_unit: o.RowsPerUnit = 1,
    weights: o.Weights = None,
    exposure: o.Exposure = None,
    ledger: o.LedgerFile = None,
    dataset: o.Dataset = None,
    seed: o.Seed = None,
    sep: o.Separator = ",",
    no_header: o.NoHeader = False,
    columns: o.Columns = None,
    cache: o.Cache = None,
    out: o.OutFile = None,
    html: o.HtmlFile = None,
    report: o.ReportFile = None,
) -> None:
    """Fit a regression and print its summary."""
    residual_scale, share = split_scale(scale, scale_share)
    request = Request(
        schema=schema,
        model=model.value,
        formula=formula,
        target=target,
        constants=ConstantsText(
            quantile=quantile,
            residual_bound=residual_bound,
            threshold=threshold,
            scale=residual_scale,
            smoothing_width=smoothing_width,
            predictor_bound=predictor_bound,
        ),
        share=share,
        solver=solver,
        l2=l2,
        inference=not no_inference,
        level=fitted_level(level, inference=not no_inference),
        budget=BudgetText(epsilon, delta, mu, rho),
        relation=relation.value,
        n_rows=n_rows,
        unit=unit,
        rows_per_unit=rows_per_unit,
        weights=weights,
        exposure=exposure,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
    )
    from privfit.cli.fit import run_fit  # noqa: PLC0415 -- heavy

    file = TextFile.read(data, sep, no_header=no_header, columns=columns, cache=cache)
    run_fit(request, file, out=out, html=html, report=report)


@app.command()
def plan(
    *,
    schema: o.SchemaFile,
    model: o.Model,
    rows: o.PlannedRows = None,
    formula: o.Formula = None,
    target: o.TargetName = None,
    quantile: o.Quantile = None,
    residual_bound: o.ResidualBound = None,
    threshold: o.Threshold = None,
    scale: o.Scale = None,
    scale_share: o.ScaleShare = None,
    smoothing_width: o.PlannedSmoothing = None,
    predictor_bound: o.PredictorBound = None,
    solver: o.Solver = "auto",
    l2: o.Ridge = 0.0,
    no_inference: o.NoInference = False,
    level: o.FittedLevel = None,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    mu: o.Mu = None,
    rho: o.Rho = None,
    relation: o.Relation = o.RelationName.REPLACE,
    unit: o.Unit = None,
    rows_per_unit: o.RowsPerUnit = 1,
    weights: o.Weights = None,
    exposure: o.Exposure = None,
    ledger: o.LedgerFile = None,
    dataset: o.Dataset = None,
    width: o.Width = None,
    power: o.Power = None,
    effect: o.Effect = None,
    coefficient: o.Coefficient = None,
    mean: o.MeanResponse = None,
    residual_sd: o.ResidualSd = None,
    sd: o.Sd = None,
    center: o.Center = None,
    mean_weight: o.MeanWeight = None,
    mean_rows: o.MeanRows = None,
    intraclass: o.Intraclass = None,
    reference: o.Reference = None,
    sep: o.Separator = ",",
    no_header: o.NoHeader = False,
    columns: o.Columns = None,
    out: o.PlanFile = None,
) -> None:
    """Show what a fit would ask, spend and buy, or which rows or epsilon a target needs. Needs no data."""
    residual_scale, share = split_scale(scale, scale_share)
    request = Request(
        schema=schema,
        model=model.value,
        formula=formula,
        target=target,
        constants=ConstantsText(
            quantile=quantile,
            residual_bound=residual_bound,
            threshold=threshold,
            scale=residual_scale,
            smoothing_width=smoothing_width,
            predictor_bound=predictor_bound,
        ),
        share=share,
        solver=solver,
        l2=l2,
        inference=not no_inference,
        level=fitted_level(level, inference=not no_inference),
        budget=BudgetText(epsilon, delta, mu, rho),
        relation=relation.value,
        n_rows=(rows or ANY_ROWS) if relation is o.RelationName.ADD_REMOVE else None,
        unit=unit,
        rows_per_unit=rows_per_unit,
        weights=weights,
        exposure=exposure,
        ledger=ledger,
        dataset=dataset,
        seed=None,
    )
    goal = TargetText(rows, width, power, effect, coefficient)
    goal.check(request.budget)
    guesses = GuessesText(
        mean=mean,
        residual_sd=residual_sd,
        sd=by_column(sd, option="--sd"),
        center=by_column(center, option="--center"),
        mean_weight=mean_weight,
        mean_rows=mean_rows,
        intraclass=intraclass,
        reference=TextFile.of_reference(reference, sep, no_header=no_header, columns=columns),
    )
    from privfit.cli.plan import run_plan  # noqa: PLC0415 -- heavy

    run_plan(request, goal, guesses, out=out)


@app.command()
def check(
    data: o.DataFile,
    schema: o.SchemaFile,
    sep: o.Separator = ",",
    no_header: o.NoHeader = False,
    columns: o.Columns = None,
) -> None:
    """List what in a table does not fit its schema. For the curator: not for release."""
    from privfit.cli.check import run_check  # noqa: PLC0415 -- heavy

    run_check(schema, TextFile.read(data, sep, no_header=no_header, columns=columns))


@app.command()
def bounds(
    *,
    data: o.DataFile,
    schema: o.DraftFile,
    epsilon: o.LookEpsilon = None,
    delta: o.Delta = None,
    mu: o.Mu = None,
    rho: o.Rho = None,
    relation: o.Relation = o.RelationName.REPLACE,
    n_rows: o.PublicRows = None,
    unit: o.Unit = None,
    rows_per_unit: o.RowsPerUnit = 1,
    weights: o.Weights = None,
    ledger: o.LedgerFile = None,
    dataset: o.Dataset = None,
    seed: o.Seed = None,
    sep: o.Separator = ",",
    no_header: o.NoHeader = False,
    columns: o.Columns = None,
    out: o.SchemaOut = None,
) -> None:
    """Learn, with privacy, the bounds of numeric columns for which the schema declares none."""
    request = LookRequest(
        schema=schema,
        budget=BudgetText(epsilon, delta, mu, rho),
        relation=relation.value,
        n_rows=n_rows,
        unit=unit,
        rows_per_unit=rows_per_unit,
        weights=weights,
        ledger=ledger,
        dataset=dataset,
        seed=seed,
    )
    from privfit.cli.bounds import run_bounds  # noqa: PLC0415 -- heavy

    run_bounds(request, TextFile.read(data, sep, no_header=no_header, columns=columns), out=out)


@app.command()
def report(
    result: o.ResultFile,
    level: o.Level = 0.95,
    out: Annotated[Path | None, o.PathOption(help="Write summary, plot and releases as HTML.")] = None,
) -> None:
    """Show a result again, and write it as a page. Needs no data and spends nothing."""
    from privfit.cli.report import run_report  # noqa: PLC0415 -- heavy

    run_report(result, level=level, out=out)


@app.command()
def predict(
    *,
    result: o.ResultFile,
    data: o.DataFile,
    intervals: o.Intervals = False,
    level: o.IntervalLevel = None,
    sep: o.Separator = ",",
    no_header: o.NoHeader = False,
    columns: o.Columns = None,
    out: o.PredictionFile = None,
) -> None:
    """Predict public rows by a saved result. What is predicted of private ones is not protected."""
    from privfit.cli.predict import run_predict  # noqa: PLC0415 -- heavy

    file = TextFile.read(data, sep, no_header=no_header, columns=columns)
    run_predict(result, file, level=interval_level(level, intervals=intervals), out=out)


@app.command()
def audit(
    *,
    solver: o.Solver = "auto",
    trials: Annotated[int, typer.Option(help="Runs on each of two tables.")] = 2_000,
    confidence: Annotated[float, typer.Option(help="Probability with which the bounds hold.")] = 0.99,
    epsilon: o.Epsilon = None,
    delta: o.Delta = None,
    mu: o.Mu = None,
    rho: o.Rho = None,
    relation: o.Relation = o.RelationName.REPLACE,
    out: o.AuditFile = None,
) -> None:
    """Attack a solver and show lower bounds on its privacy loss. Needs no data."""
    from privfit.cli.audit import run_audit  # noqa: PLC0415 -- heavy

    budget = BudgetText(epsilon, delta, mu, rho)
    run_audit(solver, budget, relation=relation.value, trials=trials, confidence=confidence, out=out)


@app.command()
def demo(
    folder: Annotated[Path, o.PathOption("--dir", help="Where the files go.")] = Path("demo-output"),
    rows: Annotated[int, typer.Option(help="Number of simulated people.")] = 20_000,
) -> None:
    """Simulate a census-like table, plan, and fit two models to it."""
    from privfit.cli.demo import run_demo  # noqa: PLC0415 -- heavy

    run_demo(folder, rows)
