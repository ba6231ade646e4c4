"""Run the example of README.md and write its real output between the markers.

    python docs/generate_readme_example.py

The table is simulated and the same every time; the noise is private, so the numbers differ from run to run.
"""

import contextlib
import io
import os
import tempfile
from pathlib import Path

from typer.testing import CliRunner

from privfit.cli import app

README = Path(__file__).resolve().parent.parent / "README.md"
START, END = "<!-- example: start -->", "<!-- example: end -->"

COMMAND = (
    "fit",
    "demo-output/census.csv",
    "--schema",
    "demo-output/income.toml",
    "--model",
    "logit",
    "--formula",
    "income_over_50k ~ age + hours_per_week + C(sex) + C(education)",
    "--epsilon",
    "1",
)

PYTHON = """\
import privfit as pf

result = pf.logit(
    "income_over_50k ~ age + hours_per_week + C(sex) + C(education)",
    "demo-output/census.csv",
    schema="demo-output/income.toml",
    epsilon=1.0,
)
print(result.conf_int().loc[["age", "C(sex)[T.Male]"]].round(3))
print(result.wald_test("C(education)[T.Master] = C(education)[T.Bachelor]"))
print(result.privacy.guarantee)
"""


def run_command(*words: str) -> str:
    """Return what a command prints."""
    result = CliRunner().invoke(app, words)
    if result.exit_code:
        raise SystemExit(result.stderr)
    return result.stdout.rstrip()


def run_python(code: str) -> str:
    """Return what the Python example prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})  # noqa: S102 -- the constant above
    return printed.getvalue().rstrip()


def example() -> str:
    """Return the example and its output as Markdown."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        run_command("demo")
        summary, printed = run_command(*COMMAND), run_python(PYTHON)
    shown = " ".join(f'"{word}"' if " " in word else word for word in COMMAND)
    shown = shown.replace(" --model", " \\\n    --model").replace(" --epsilon", " \\\n    --epsilon")
    return "\n".join(
        [
            "On the command line:",
            "",
            f"```console\n$ privfit {shown}\n{summary}\n```",
            "",
            "The same in Python:",
            "",
            f"```python\n{PYTHON}```",
            "",
            f"```text\n{printed}\n```",
        ]
    )


def main() -> None:
    """Rewrite the block in README.md."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(START)
    _, after = rest.split(END)
    block = f"{START}\n\n{example()}\n\n{END}"
    draft = README.with_name(f".README.{os.getpid()}.tmp")
    draft.write_text(before + block + after, encoding="utf-8", newline="\n")
    draft.replace(README)


if __name__ == "__main__":
    main()
