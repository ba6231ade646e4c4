"""The command line as users start it: a process of its own."""

import subprocess
import sys

import pytest
from conftest_cli import CANARY

import privfit


def privfit_process(*args, encoding="utf-8"):
    command = [sys.executable, "-m", "privfit", *map(str, args)]
    return subprocess.run(command, capture_output=True, encoding=encoding, check=False, timeout=120)  # noqa: S603


def test_fit(people, schema, tmp_path):
    out = tmp_path / "result.json"
    done = privfit_process("fit", people, "--schema", schema, "--model", "logit", "--out", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Logistic regression results" in done.stdout
    assert privfit.FitResult.from_json(out).private


def test_noise_is_fresh(people, schema):
    args = ["fit", people, "--schema", schema, "--model", "logit", "--no-inference"]
    assert privfit_process(*args).stdout != privfit_process(*args).stdout


def test_refusal(people, schema):
    people.write_text(people.read_text().replace("yes", CANARY))
    done = privfit_process("fit", people, "--schema", schema, "--model", "logit")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: LabelError: ")
    assert done.stderr.count("\n") == 1
    assert CANARY not in done.stderr


def test_terminal_without_greek(people, schema, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    done = privfit_process("fit", people, "--schema", schema, "--model", "logit", encoding="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(? = 1, ? = 1e-06)-DP" in done.stdout


def test_version():
    done = privfit_process("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"privfit {privfit.__version__}")


@pytest.mark.parametrize(
    "command", [(), ("fit",), ("plan",), ("check",), ("report",), ("predict",), ("demo",)]
)
def test_help(invoke, command):
    result = invoke(*command, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Usage:" in result.stdout
