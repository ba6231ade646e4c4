"""``privfit report``."""

from pathlib import Path

import typer

from privfit._checks import coverage
from privfit.cli.inputs import read_result
from privfit.cli.output import check_writable


def run_report(result: Path, *, level: float, out: Path | None) -> None:
    """Print the summary of a result that was written as JSON, and write its report if that was asked for."""
    check_writable(out, option="--out", inputs=(result,))
    level = coverage(level)
    found = read_result(result)
    typer.echo(found.summary(level).as_text())
    if out is not None:
        found.report(out, level)
