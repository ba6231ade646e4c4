"""``privfit report``."""

from pathlib import Path

import typer

from privfit._checks import coverage
from privfit.cli.output import check_writable
from privfit.errors import InvalidArgument
from privfit.results import FitResult


def run_report(result: Path, *, level: float, out: Path | None) -> None:
    """Print the summary of a result that was written as JSON, and write its report if that was asked for."""
    check_writable(out, option="out", inputs=(result,))
    level = coverage(level)
    if not result.is_file():
        raise InvalidArgument(f"result must name a JSON file that fit --out wrote; there is none at {result}")
    found = FitResult.from_json(result)
    typer.echo(found.summary(level).as_text())
    if out is not None:
        found.report(out, level)
