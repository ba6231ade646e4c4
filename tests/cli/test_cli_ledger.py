import json

import pytest

import privfit as pf
from privfit.privacy.composition import GaussianEvent

pytestmark = pytest.mark.usefixtures("few_rehearsals")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "account.db"


def granted(invoke, path, *more):
    result = invoke("ledger", "grant", path, "--dataset", "people", "--epsilon", 2, "--delta", 1e-6, *more)
    assert (result.exit_code, result.stderr) == (0, "")
    return result


def fit(invoke, people, schema, path, *more):
    args = ["--schema", schema, "--model", "logit", "--ledger", path, "--dataset", "people"]
    return invoke("fit", people, *args, *more)


def head_of(result):
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("Head: ")]
    return line.split()[1]


def test_from_a_grant_to_an_account(invoke, people, schema, path, refused):
    assert "(2, 1e-06)-differential privacy granted" in granted(invoke, path).stdout
    assert pf.Ledger(path).remaining("people") == pf.Budget(2.0, 1e-6)
    assert fit(invoke, people, schema, path).exit_code == 0
    shown = invoke("ledger", "show", path)
    assert shown.exit_code == 0
    lines = {
        line.split()[0]: line.split(maxsplit=1)[1] for line in shown.stdout.splitlines() if line[0] == " "
    }
    assert lines["granted"] == "(2, 1e-06)-differential privacy"
    cost = pf.Ledger(path).spent("people")
    spent, left = (lines[kind].partition(", ") for kind in ("spent", "left"))
    assert spent[0] == cost.describe()
    assert spent[2] == "ε = 1 at δ = 1e-06"
    largest = float(left[0].partition("-")[0])
    assert largest <= pf.Ledger(path).remaining("people").mu < 1.001 * largest
    pf.Ledger(path).check("people", [GaussianEvent(largest)])
    largest = float(left[2].removeprefix("a fit with ε up to ").removesuffix(" at δ = 1e-06"))
    refused(fit(invoke, people, schema, path, "--epsilon", largest + 0.01), 1, "BudgetExceeded")
    assert lines["hidden"] == "one row replaced"
    assert lines["analyses"] == "1, of which 0 unfinished or crashed"
    assert fit(invoke, people, schema, path, "--epsilon", largest).exit_code == 0
    refused(fit(invoke, people, schema, path, "--epsilon", 2), 1, "BudgetExceeded")


def test_an_account_says_which_analyses_are_seeded(invoke, people, schema, path):
    """They are charged, and were told apart from private ones by nothing."""
    granted(invoke, path)
    assert fit(invoke, people, schema, path, "--epsilon", 0.5).exit_code == 0
    assert "seeded" not in invoke("ledger", "show", path).stdout
    assert fit(invoke, people, schema, path, "--epsilon", 0.5, "--seed", 1).exit_code == 0
    shown = invoke("ledger", "show", path).stdout
    assert "analyses  2" in shown
    assert "seeded    1 of them, so not private: do not release" in shown
    notes = [spend["note"] for spend in pf.Ledger(path).export()["reservations"]]
    assert notes == ["Logistic", "Logistic; seeded noise, not private"]


def test_what_a_pure_fit_spent_is_its_epsilon(invoke, people, schema, path):
    assert invoke("ledger", "grant", path, "--dataset", "people", "--epsilon", 2, "--delta", 0).exit_code == 0
    assert fit(invoke, people, schema, path, "--epsilon", 0.5, "--delta", 0).exit_code == 0
    spent, left = (
        next(line for line in invoke("ledger", "show", path).stdout.splitlines() if f"  {word} " in line)
        for word in ("spent", "left")
    )
    assert spent.split(maxsplit=1)[1] == "0.5-differential privacy"
    assert left.split(maxsplit=1)[1] == "1.5-differential privacy (pure)"


def test_plans_and_fits_under_another_relation_are_refused(invoke, people, schema, path, refused):
    granted(invoke, path)
    assert fit(invoke, people, schema, path).exit_code == 0
    other = ["--relation", "add_remove", "--epsilon", 0.1]
    refused(
        fit(invoke, people, schema, path, *other, "--n-rows", 600), 1, "LedgerError: dataset 'people' holds"
    )
    account = ["--schema", schema, "--model", "logit", "--ledger", path, "--dataset", "people"]
    planned = invoke("plan", *account, *other, "--rows", 600)
    assert planned.exit_code == 1
    assert planned.stderr.startswith(
        "error: LedgerError: dataset 'people' holds guarantees for one row replaced"
    )


def test_verify_counts_from_a_head(invoke, people, schema, path, refused):
    head = head_of(granted(invoke, path))
    assert fit(invoke, people, schema, path).exit_code == 0
    done = invoke("ledger", "verify", path, "--head", head)
    assert done.exit_code == 0
    assert "4 entries, none changed" in done.stdout
    assert "2 entries were added since" in done.stdout
    assert head_of(done) == pf.Ledger(path).verify().head == head_of(invoke("ledger", "show", path))
    refused(
        invoke("ledger", "verify", path, "--head", "0" * 64), 1, "LedgerError: the ledger does not contain"
    )
    damaged = bytearray(path.read_bytes())
    at = damaged.index(b'"budget"')
    damaged[at : at + 8] = b'"bugdet"'
    path.write_bytes(bytes(damaged))
    for command in ("verify", "show", "export"):
        refused(invoke("ledger", command, path), 1, "LedgerError: entry 2 of the ledger was changed")


def test_export_is_the_export(invoke, path, tmp_path):
    granted(invoke, path)
    out = tmp_path / "account.json"
    assert json.loads(invoke("ledger", "export", path).stdout) == pf.Ledger(path).export()
    assert invoke("ledger", "export", path, "--out", out).exit_code == 0
    assert json.loads(out.read_text(encoding="utf-8")) == pf.Ledger(path).export()


def test_a_grant_for_a_schema_binds_fits(invoke, people, schema, path, refused):
    granted(invoke, path, "--schema", schema)
    assert "for one schema only" in invoke("ledger", "show", path).stdout
    assert fit(invoke, people, schema, path).exit_code == 0
    wider = path.with_name("wider.toml")
    wider.write_text(schema.read_text().replace("upper = 90", "upper = 99"))
    before = pf.Ledger(path).spent("people")
    refused(fit(invoke, people, wider, path), 1, "LedgerError: dataset 'people' was granted with a schema")
    assert pf.Ledger(path).spent("people") == before


def test_what_a_grant_needs(invoke, path, refused):
    grant = ["ledger", "grant", path, "--dataset", "people"]
    for budget in ([], ["--epsilon", 1], ["--delta", 1e-6]):
        refused(invoke(*grant, *budget), 2, "usage: ")
    refused(invoke(*grant, "--mu", 1, "--rho", 1), 2, "usage: ")
    refused(invoke("ledger", "grant", path, "--epsilon", 1, "--delta", 0), 2, "usage: ")
    refused(invoke(*grant, "--mu", -1), 1, "InvalidArgument: mu")
    assert not path.exists()
    assert invoke(*grant, "--rho", 0.1).exit_code == 0
    refused(invoke(*grant, "--rho", 0.2), 1, "LedgerError: dataset 'people' already has a grant")


def test_no_command_but_grant_makes_a_ledger(invoke, path, refused):
    for command in ("show", "verify", "export"):
        refused(invoke("ledger", command, path), 1, "LedgerError: ledger")
        assert not path.exists()
    bare = invoke("ledger")
    assert bare.exit_code == 2
    assert "grant" in bare.output


def test_a_grant_that_is_refused_makes_no_ledger(invoke, path, refused):
    for name in ("", "  "):
        refused(
            invoke("ledger", "grant", path, "--dataset", name, "--epsilon", 1, "--delta", 0),
            1,
            "InvalidArgument: dataset must be a name",
        )
        assert not path.exists()


def interrupt(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize("reading", [True, False])
def test_who_stops_a_run_is_told_what_the_ledger_counts(
    invoke, people, schema, path, monkeypatch, *, reading
):
    """Before the spend is reserved nothing is counted, afterwards all of it."""
    granted(invoke, path)
    place = "privfit.problem.oracle.Oracle.release" if reading else "privfit.estimators.fit.plan_fit"
    told = "privfit: stopped; the ledger counts what was reserved for it as spent\n"
    with monkeypatch.context() as patched:
        patched.setattr(place, interrupt)
        done = fit(invoke, people, schema, path)
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == (told if reading else "privfit: stopped\n")
    spends = pf.Ledger(path).export()["reservations"]
    assert len(spends) == reading
    with monkeypatch.context() as patched:
        patched.setattr(place, interrupt)
        done = invoke("fit", people, "--schema", schema, "--model", "logit")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "privfit: stopped\n")


def test_who_stops_a_look_at_bounds_is_told_what_the_ledger_counts(invoke, people, draft, path, monkeypatch):
    granted(invoke, path)
    with monkeypatch.context() as patched:
        patched.setattr("privfit.estimators.look.asked", interrupt)
        args = ["--schema", draft, "--epsilon", 0.1, "--delta", 1e-7, "--ledger", path, "--dataset", "people"]
        done = invoke("bounds", people, *args)
    assert (done.exit_code, done.stdout) == (130, "")
    assert done.stderr == "privfit: stopped; the ledger counts what was reserved for it as spent\n"
    assert len(pf.Ledger(path).export()["reservations"]) == 1
