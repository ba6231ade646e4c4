import pytest
from conftest_cli import CANARY, SCHEMA
from typer.testing import CliRunner

from privfit.cli import app


@pytest.fixture
def invoke():
    """Run the command line in this process; stdout and stderr come back apart."""

    def run(*args):
        return CliRunner().invoke(app, [str(arg) for arg in args])

    return run


@pytest.fixture
def people(tmp_path):
    """Write 600 simple rows."""
    lines = ["age,sex,hours,high"]
    for k in range(600):
        age, hours = 17 + k % 74, (7 * k) % 81
        high = "yes" if (k % 74) + (k * 31 % 50) > 60 else "no"
        lines.append(f"{age},{'Male' if k % 3 else 'Female'},{hours},{high}")
    path = tmp_path / "people.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


@pytest.fixture
def draft(tmp_path):
    """The schema without the bounds of its numbers, but for the lower one of hours."""
    text = SCHEMA.replace("lower = 17\nupper = 90\n", "").replace("upper = 80\n", "")
    path = tmp_path / "draft.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def three(people, schema):
    """Give the third of the rows another label, and declare it."""
    lines = people.read_text().splitlines()
    changed = [line.rsplit(",", 1)[0] + ",maybe" if k % 3 == 1 else line for k, line in enumerate(lines)]
    people.write_text("\n".join([lines[0], *changed[1:]]) + "\n", encoding="utf-8")
    schema.write_text(schema.read_text().replace('["no", "yes"]', '["no", "maybe", "yes"]'))


@pytest.fixture
def refused():
    """Check that a command failed with one line on stderr and nothing else."""

    def check(result, code, start):
        assert result.exit_code == code, result.output
        assert result.stdout == ""
        assert result.stderr.startswith(f"error: {start}"), result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stderr.endswith("\n")
        assert CANARY not in result.stderr
        assert "Traceback" not in result.stderr
        return result.stderr

    return check
