import json

from privfit.privacy.noise import SecureNoise


def test_an_audit_prints_and_writes_its_finding(invoke, tmp_path):
    out = tmp_path / "audit.json"
    result = invoke("audit", "--solver", "sufficient-statistics", "--mu", 1, "--trials", 200, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "mu: at least" in result.stdout
    assert "claimed 1" in result.stdout
    found = json.loads(out.read_text(encoding="utf-8"))
    assert (found["trials"], found["violated"], found["private_noise"]) == (200, False, True)


def test_a_violation_is_an_error(invoke, monkeypatch):
    gaussian = SecureNoise.gaussian
    monkeypatch.setattr(SecureNoise, "gaussian", lambda self, value, sd: gaussian(self, value, sd / 20))
    result = invoke("audit", "--solver", "sufficient-statistics", "--mu", 1, "--trials", 200)
    assert result.exit_code == 1
    assert "VIOLATED" in result.stdout
    assert result.stderr.startswith("error: PlanViolation: the audit found more than the solver claims")


def test_refusals(invoke, refused):
    refused(invoke("audit", "--solver", "noisy-sgd", "--mu", 1), 1, "Incompatible: ")
    refused(invoke("audit", "--mu", 1, "--rho", 1), 2, "usage: ")
    refused(invoke("audit", "--trials", 3), 1, "InvalidArgument: trials must be at least 100, got 3")
    refused(invoke("audit", "--confidence", 1), 1, "InvalidArgument: confidence")
