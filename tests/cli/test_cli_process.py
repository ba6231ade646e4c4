"""The command line as users start it: a process of its own."""

import subprocess
import sys

import pytest
from conftest_cli import CANARY

import privfit


def privfit_process(*args, encoding="utf-8"):
    command = [sys.executable, "-m", "privfit", *map(str, args)]
    return subprocess.run(command, capture_output=True, encoding=encoding, check=False, timeout=120)  # noqa: S603


def test_fits_are_private_with_fresh_noise_on_terminals_with_and_without_greek(
    people, schema, tmp_path, invoke, monkeypatch
):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    out = tmp_path / "here.json", tmp_path / "apart.json"
    args = ["fit", people, "--schema", schema, "--model", "logit", "--out"]
    here, apart = invoke(*args, out[0]), privfit_process(*args, out[1], encoding="latin-1")
    assert (here.exit_code, here.stderr) == (apart.returncode, apart.stderr) == (0, "")
    for text, statement in (
        (here.stdout, "(ε = 1, δ = 1e-06)-DP"),
        (apart.stdout, "(? = 1, ? = 1e-06)-DP"),
    ):
        assert "Logistic regression results" in text
        assert statement in text
    results = [privfit.FitResult.from_json(path) for path in out]
    assert all(result.private for result in results)
    assert (results[0].params.to_numpy() != results[1].params.to_numpy()).all()


def test_refusal(people, schema):
    people.write_text(people.read_text().replace("yes", CANARY))
    done = privfit_process("fit", people, "--schema", schema, "--model", "logit")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: LabelError: ")
    assert done.stderr.count("\n") == 1
    assert CANARY not in done.stderr


def test_version():
    done = privfit_process("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"privfit {privfit.__version__}")


@pytest.mark.parametrize(
    "command", [(), ("fit",), ("plan",), ("check",), ("bounds",), ("report",), ("predict",), ("demo",)]
)
def test_help(invoke, command):
    result = invoke(*command, "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "Usage:" in result.stdout
