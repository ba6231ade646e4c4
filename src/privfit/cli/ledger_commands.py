"""The commands about ledgers and their arguments. What they do is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

from privfit.cli import options as o
from privfit.cli.failures import USAGE
from privfit.cli.request import BudgetText

ledger_app = typer.Typer(
    invoke_without_command=True, help="Accounts of what may be spent, and was, on each data set."
)


@ledger_app.callback()
def _ledger(context: typer.Context) -> None:
    """Accounts of what may be spent, and was, on each data set."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(USAGE)


@ledger_app.command("grant")
def ledger_grant(
    *,
    ledger: o.LedgerPath,
    dataset: Annotated[str, typer.Option(help="Name of the data set.")],
    schema: Annotated[
        Path | None,
        o.PathOption(help="Refuse fits under any other schema than this TOML file."),
    ] = None,
    epsilon: o.GrantEpsilon = None,
    delta: o.GrantDelta = None,
    mu: o.Mu = None,
    rho: o.Rho = None,
) -> None:
    """Allow a budget to be spent on a data set, for good. Makes the ledger if it is missing."""
    from privfit.cli.ledger import run_grant  # noqa: PLC0415 -- heavy

    run_grant(ledger, dataset, BudgetText(epsilon, delta, mu, rho), schema)


@ledger_app.command("show")
def ledger_show(ledger: o.LedgerPath) -> None:
    """Show what was granted, what is spent and what is left."""
    from privfit.cli.ledger import run_show  # noqa: PLC0415 -- heavy

    run_show(ledger)


@ledger_app.command("verify")
def ledger_verify(
    ledger: o.LedgerPath,
    head: Annotated[
        str | None, typer.Option(help="Head that an earlier verify printed, kept outside of the file.")
    ] = None,
) -> None:
    """Check that no entry was changed, removed or moved; with --head, that none was cut off."""
    from privfit.cli.ledger import run_verify  # noqa: PLC0415 -- heavy

    run_verify(ledger, head)


@ledger_app.command("export")
def ledger_export(ledger: o.LedgerPath, out: o.LedgerExport = None) -> None:
    """Write all entries as JSON, to standard output or a file."""
    from privfit.cli.ledger import run_export  # noqa: PLC0415 -- heavy

    run_export(ledger, out)
