"""``privfit check``: the curator's report."""

from pathlib import Path

import typer

from privfit.cli.inputs import read_table
from privfit.cli.request import TextFile
from privfit.data.check import MARK, check_table, render_findings
from privfit.data.schema import Schema
from privfit.data.tables import with_rows


def run_check(schema: Path, file: TextFile) -> None:
    """Print what does not fit, every line marked as not for release."""
    declared = Schema.from_toml(schema)
    table = with_rows(read_table(file))
    typer.echo(f"{MARK} {table.n_rows} row(s), {len(table.names)} column(s) in the data")
    if not set(declared) & set(table.names):
        typer.echo(f"{MARK} no column of the schema is in the data; for a text file check --sep")
    typer.echo(render_findings(check_table(table, declared)))
