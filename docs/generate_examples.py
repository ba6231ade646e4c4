"""Run the examples of README.md, docs/tutorial.md and docs/how-to.md and write what they print below them.

    python docs/generate_examples.py

The blocks of a page are run one after the other, in a folder with the files of ``privfit demo``: Python, and
commands that begin with ``$ privfit``. Blocks that begin with ``# a sketch`` are not. The table is simulated
and the same every time; the noise is private, so that the numbers differ from run to run.
"""

import contextlib
import io
import os
import re
import shlex
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from privfit.cli import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/tutorial.md", "docs/how-to.md")

_PYTHON = re.compile(r"```python\n(?!# a sketch)(?P<code>.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(?P<command>\$ privfit (?:[^\n]*\\\n)*[^\n]*\n)[^$]*?```\n", re.DOTALL)


def run_command(command: str) -> str:
    """Return what a command line prints."""
    words = shlex.split(command.replace("\\\n", ""))
    result = CliRunner().invoke(app, words[2:])
    if result.exit_code:
        raise RuntimeError(result.stderr)
    return result.stdout.rstrip()


def run_python(code: str, names: dict[str, object]) -> str:
    """Return what a block of code prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, names)  # noqa: S102 -- our own pages
    return printed.getvalue().rstrip()


def filled(text: str) -> str:
    """Return a page with what its blocks print now, run in the present folder."""
    names: dict[str, object] = {}

    def anew(match: re.Match[str]) -> str:
        command = match["command"]
        if command:
            return f"```console\n{command}{run_command(command)}\n```\n"
        code = match["code"]
        printed = run_python(code, names)
        return f"```python\n{code}```\n" + (f"\n```text\n{printed}\n```\n" if printed else "")

    either = f"{_PYTHON.pattern}|{_CONSOLE.pattern}"
    return re.sub(either, anew, text, flags=re.DOTALL)


def main() -> None:
    """Rewrite the pages."""
    for page in PAGES:
        path = ROOT / page
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            run_command("$ privfit demo")
            text = filled(path.read_text(encoding="utf-8"))
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        draft.write_text(text, encoding="utf-8", newline="\n")
        draft.replace(path)


if __name__ == "__main__":
    main()
