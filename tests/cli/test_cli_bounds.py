import tomllib

from conftest_cli import CANARY

import privfit as pf

BUDGET = ("--epsilon", 4)


def bounds_in(path):
    columns = tomllib.loads(path.read_text(encoding="utf-8"))
    return {name: (columns[name].get("lower"), columns[name].get("upper")) for name in ("age", "hours")}


def test_a_draft_becomes_the_schema_of_a_fit(invoke, people, draft, tmp_path):
    out = tmp_path / "learned.toml"
    result = invoke("bounds", people, "--schema", draft, *BUDGET, "--seed", 1, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "NOT PRIVATE" in result.stdout
    assert out.read_text(encoding="utf-8").startswith("# NOT PRIVATE (seeded noise)")
    (low, high), (least, most) = bounds_in(out).values()
    assert -60 <= low <= 17
    assert 90 <= high <= 250
    assert least == 0
    assert 70 <= most <= 300
    for bound in (low, high, most):
        assert f"{float(bound):g}" in result.stdout
    assert tomllib.loads(out.read_text())["high"]["target"] is True
    fitted = invoke("fit", people, "--schema", out, "--model", "logit", *BUDGET)
    assert fitted.exit_code == 0, fitted.stderr


def test_a_file_of_private_bounds_needs_no_warning(invoke, people, draft, tmp_path):
    out = tmp_path / "learned.toml"
    assert invoke("bounds", people, "--schema", draft, *BUDGET, "--out", out).exit_code == 0
    assert "NOT PRIVATE" not in out.read_text(encoding="utf-8")


def test_without_a_file_the_table_is_all(invoke, people, draft, tmp_path):
    before = sorted(tmp_path.iterdir())
    result = invoke("bounds", people, "--schema", draft, *BUDGET)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "NOT PRIVATE" not in result.stdout
    assert "(ε = 4, δ = 1e-06)-DP" in result.stdout
    assert sorted(tmp_path.iterdir()) == before


def test_the_default_is_a_tenth(invoke, people, draft):
    result = invoke("bounds", people, "--schema", draft)
    assert result.exit_code == 0
    assert "(ε = 0.1, δ = 1e-06)-DP" in result.stdout


def test_columns_that_noise_hides_stay_a_draft(invoke, people, draft, tmp_path):
    out = tmp_path / "learned.toml"
    result = invoke("bounds", people, "--schema", draft, "--epsilon", 0.01, "--out", out)
    assert result.exit_code == 0
    assert result.stdout.count("none") > 2
    assert bounds_in(out) == {"age": (None, None), "hours": (0, None)}


def test_an_account_pays(invoke, people, draft, tmp_path, refused):
    account = tmp_path / "account.db"
    arguments = ("bounds", people, "--schema", draft, *BUDGET, "--ledger", account, "--dataset", "people")
    refused(invoke(*arguments), 1, "LedgerError: ledger")
    pf.Ledger(account).grant("people", pf.Budget(4.5, 1e-6))
    assert invoke(*arguments).exit_code == 0
    (spend,) = pf.Ledger(account).export()["reservations"]
    assert spend["note"] == "bounds of columns"
    refused(invoke(*arguments), 1, "BudgetExceeded")
    refused(invoke(*arguments[:-2]), 2, "usage: Invalid value: --ledger and --dataset go together")


def test_no_cell_is_quoted(invoke, people, draft, refused):
    lines = people.read_text().splitlines()
    lines[5] = f"{CANARY},Male,3,no"
    people.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = invoke("bounds", people, "--schema", draft, *BUDGET)
    assert (result.exit_code, result.stderr) == (0, "")
    assert CANARY not in result.stdout
    lines[5] = f'{CANARY}"x,Male,3,no'
    people.write_text("\n".join(lines) + "\n", encoding="utf-8")
    refused(invoke("bounds", people, "--schema", draft, *BUDGET), 1, "SchemaError")


def test_a_schema_that_lacks_nothing_is_refused(invoke, people, schema, refused):
    refused(invoke("bounds", people, "--schema", schema), 1, "InvalidArgument: schema: no numeric column")


def test_what_cannot_be_is_one_line(invoke, people, draft, tmp_path, refused):
    refused(invoke("bounds", tmp_path / "none.csv", "--schema", draft), 1, "SchemaError: ")
    refused(invoke("bounds", people, "--schema", tmp_path / "none.toml"), 1, "SchemaError: ")
    refused(invoke("bounds", people, "--schema", draft, "--out", draft), 1, "InvalidArgument: --out names")
    refused(
        invoke("bounds", people, "--schema", draft, "--mu", 1, "--rho", 1),
        2,
        "usage: Invalid value: give the budget",
    )
    refused(invoke("bounds", people), 2, "usage: ")
    refused(invoke("fit", people, "--schema", draft, "--model", "logit"), 1, "SchemaError: column 'age'")
