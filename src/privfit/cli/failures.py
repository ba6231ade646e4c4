"""How the command line fails: one line on standard error, an exit code, and never a data value."""

import os
import re
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from privfit.errors import PrivfitError

REFUSED, USAGE, STOPPED = 1, 2, 130
"""Exit codes: a named error or anything unexpected; a command line that makes no sense; Ctrl-C."""


_SPELLED = re.compile(
    r"relation='(?P<relation>\w+)'|scale=['\"]private['\"]|'[^']*'|\b(inference=False|learn_bounds)\b"
    r"|assumptions=Assumptions\((?P<guess>\w+)=(?:\{'(?P<column>[^']*)': \.\.\.\}|\.\.\.)\)"
    r"|\A(sd|center|mean|reference)\b|\b(mean|residual_sd)=\Z"
    r"|\b(random_state|n_rows|rows_per_unit|residual_bound|smoothing_width|predictor_bound|scale_share|residual_sd"
    r"|mean_weight|mean_rows|intraclass)\b"
)
"""Arguments of Python that options have another spelling for; what is quoted is a name and stays."""


class Stopped(Exception):
    """Ctrl-C, with what there is to say about it."""


class OneLineGroup(TyperGroup):
    """Commands whose every error is one line.

    A traceback, a warning or the text of another package's exception may quote cells, so none is shown.
    """

    def main(self, *args: Any, standalone_mode: bool = True, **kwargs: Any) -> Any:
        """Run a command and exit with its code; without ``standalone_mode`` let its exceptions through."""
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **kwargs)
        try:
            with warnings.catch_warnings():
                if not sys.warnoptions:
                    warnings.simplefilter("ignore")
                code = super().main(*args, standalone_mode=False, **kwargs)
            if code == STOPPED:
                typer.echo("privfit: stopped", err=True)
        except Stopped as stopped:
            code = STOPPED
            typer.echo(f"privfit: stopped; {stopped}", err=True)
        except Exception as error:
            code, line = describe(error)
            typer.echo(f"error: {line}", err=True)
        sys.exit(code if isinstance(code, int) else 0)


def describe(error: Exception) -> tuple[int, str]:
    """Return the exit code of an exception and the line that may be shown."""
    name = type(error).__name__
    if isinstance(error, PrivfitError):
        return REFUSED, f"{name}: {_one_line(_SPELLED.sub(_as_typed, str(error)))}"
    if isinstance(error, OSError):
        where = f": {error.filename}" if isinstance(error.filename, str | os.PathLike) else ""
        return REFUSED, f"{name}: {_one_line((error.strerror or 'failed') + where)}"
    if isinstance(error, typer.Abort):
        return REFUSED, "interrupted"
    spelled = getattr(error, "format_message", None)  # what a command line that does not parse raises
    if callable(spelled):
        return USAGE, f"usage: {_one_line(str(spelled()))} (try --help)"
    return REFUSED, f"{name}: unexpected, and its message is withheld because it may quote data"


def _as_typed(found: re.Match[str]) -> str:
    """Return what the command line calls an argument of Python."""
    text = found.group()
    if found["relation"]:
        return f"--relation {found['relation']}"
    if text.startswith("scale="):
        return "--scale private"
    if found["guess"]:
        column = "" if found["column"] is None else f"{found['column']}="
        return f"--{found['guess'].replace('_', '-')} {column}..."
    known = {
        "random_state": "--seed",
        "inference=False": "--no-inference",
        "learn_bounds": "privfit bounds",
    }
    return text if text.startswith("'") else known.get(text, f"--{text.replace('_', '-').rstrip('=')}")


def _one_line(text: str) -> str:
    joined = " ".join(text.split())
    return "".join(char if char.isprintable() else "\ufffd" for char in joined)
