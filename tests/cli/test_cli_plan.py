import json

import pytest

import privfit as pf
from privfit.data.synthetic import census_schema
from privfit.problem.plan import Plan

pytestmark = pytest.mark.usefixtures("few_rehearsals")


@pytest.fixture
def wage_schema(tmp_path):
    path = tmp_path / "wage.toml"
    census_schema("hourly_wage").to_toml(path)
    return path


def table(stdout, start):
    """Return the rows of a printed table whose name starts with a text, split into words."""
    return [line.split() for line in stdout.splitlines() if line.startswith(start)]


def test_plan_shows_releases_and_forecast(invoke, schema):
    result = invoke("plan", "--schema", schema, "--model", "logit", "--rows", 20_000)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "(ε = 1, δ = 1e-06)-DP, replace one row" in result.stdout
    (age,) = table(result.stdout, "age")
    sampling, noise, width, share, finite = map(float, age[1:])
    plain = 2 * 1.96 * (sampling**2 + noise**2) ** 0.5
    assert 0.97 * plain < width < 1.25 * plain
    assert share == pytest.approx(100 * noise**2 / (noise**2 + sampling**2), abs=0.6)
    assert finite == 100
    shares = [float(words[-1]) for words in table(result.stdout, ("solver:", "inference:"))]
    assert sum(shares) == pytest.approx(100, abs=0.3)
    assert "of rows with the label 'yes'" in " ".join(result.stdout.split())


def test_a_plan_is_told_how_much_rows_count(invoke, tmp_path, refused):
    path = tmp_path / "weighted.toml"
    weight = {"type": "numeric", "lower": 0, "upper": 2, "weight": True}
    pay = {"type": "numeric", "lower": -5, "upper": 5}
    age = {"type": "numeric", "lower": 20, "upper": 80}
    pf.Schema({"pay": pay, "age": age, "wt": weight, "pid": {"type": "identifier"}}).to_toml(path)
    args = ["plan", "--schema", path, "--model", "ols", "--formula", "pay ~ age", "--rows", 5000]
    result = invoke(*args, "--mean-weight", 0.5, "--rows-per-unit", 4, "--mean-rows", 3)
    told = " ".join(result.stdout.split())
    assert "weights of 0.5, of at most 2, all alike, for which intervals are shortest: sd says how" in told
    assert "; 3 rows for each value of pid; " in told
    apart = invoke(*args, "--rows-per-unit", 4, "--intraclass", 0.5)
    assert "; an intraclass correlation of 0.5." in " ".join(apart.stdout.split())
    refused(invoke(*args, "--intraclass", 0.5), 1, "InvalidArgument: --intraclass goes with units of several")
    refused(invoke(*args, "--intraclass", 1.5), 1, "InvalidArgument: --intraclass must lie in")
    refused(invoke(*args, "--mean-weight", 3), 1, "InvalidArgument: --mean-weight must be at most the bound")
    refused(invoke(*args, "--mean-rows", 0.5), 1, "InvalidArgument: --mean-rows must be at least 1")


def test_every_release_of_the_fit_is_in_the_plan(invoke, people, schema, tmp_path):
    out, fitted = tmp_path / "plan.json", tmp_path / "result.json"
    args = ["--schema", schema, "--model", "logit", "--formula", "high ~ age + C(sex)", "--mu", 1]
    assert invoke("plan", *args, "--rows", 600, "--out", out).exit_code == 0
    assert invoke("fit", people, *args, "--out", fitted).exit_code == 0
    result = pf.FitResult.from_json(fitted)
    assert Plan.from_dict(json.loads(out.read_text())) == result.plan
    assert sorted(release.planned.mu for release in result.releases) == sorted(
        planned.mu for planned in result.plan.releases
    )


@pytest.mark.parametrize("solver", ["auto", "newton", "gradient-descent"])
@pytest.mark.parametrize("model", ["ols", "huber"])
def test_models_and_solvers(invoke, wage_schema, model, solver):
    args = ["--schema", wage_schema, "--model", model, "--rho", 0.1, "--solver", solver, "--rows", 5000]
    result = invoke("plan", *args)
    assert result.exit_code == 0, result.output
    assert "log(hourly_wage)" in result.stdout
    assert "a response about" in " ".join(result.stdout.split())


def test_counts_and_quantiles(invoke, schema):
    args = ["--schema", schema, "--rows", 5000, "--formula", "hours ~ age"]
    count = invoke("plan", *args, "--model", "poisson")
    assert "a mean count of" in " ".join(count.stdout.split())
    default, median = (invoke("plan", *args, "--model", "quantile", *q) for q in ([], ["--quantile", 0.5]))
    assert default.stdout == median.stdout
    one, other = (invoke("plan", *args, "--model", "quantile", "--quantile", q) for q in (0.5, 0.9))
    assert one.exit_code == other.exit_code == 0
    widths = [float(table(plan.stdout, "age")[0][3]) for plan in (one, other)]
    assert widths[1] > widths[0]


def test_add_remove(invoke, schema):
    args = ["--schema", schema, "--model", "logit", "--rows", 5000, "--relation", "add_remove"]
    result = invoke("plan", *args)
    assert result.exit_code == 0
    assert "5000 (public scale)" in result.stdout


def test_without_inference_fewer_releases(invoke, schema):
    args = ["plan", "--schema", schema, "--model", "logit", "--rows", 5000]
    assert table(invoke(*args).stdout, "inference:")
    assert not table(invoke(*args, "--no-inference").stdout, "inference:")


def test_refusals(invoke, schema, refused):
    args = ["plan", "--schema", schema, "--model", "logit"]
    refused(invoke(*args, "--rows", 3), 1, "TooLittleData: ")
    refused(invoke(*args, "--rows", 0), 1, "InvalidArgument: rows must be at least 1")
    refused(invoke(*args, "--rows", 10**13), 1, "InvalidArgument: rows must be at most")
    refused(invoke(*args, "--rows", 500, "--solver", "non-private"), 1, "Incompatible: solver")
    refused(invoke(*args, "--rows", 500, "--epsilon", 0), 1, "InvalidArgument: epsilon")
    refused(invoke(*args, "--rows", 500, "--out", "/no/such/folder/plan.json"), 1, "InvalidArgument: --out")


def test_full_ledger(invoke, schema, tmp_path, refused):
    path = tmp_path / "ledger.db"
    pf.Ledger(path).grant("people", pf.Budget.gdp(0.1))
    args = ["--schema", schema, "--model", "logit", "--rows", 600, "--ledger", path, "--dataset", "people"]
    result = invoke("plan", *args, "--mu", 1)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: BudgetExceeded: dataset 'people'")


def test_rows_for_a_target_and_guesses(invoke, schema, tmp_path):
    args = ["plan", "--schema", schema, "--model", "ols", "--formula", "hours ~ age + C(sex)", "--epsilon", 4]
    found = invoke(*args, "--width", 0.2, "--coefficient", "age")
    assert found.exit_code == 0, found.output
    needed = int(found.stdout.split()[1].replace(",", ""))
    assert found.stdout.startswith(f"Needed: {needed:,} rows\n")
    assert f"Rows:     {needed}" in found.stdout
    assert float(table(found.stdout, "age")[0][3]) <= 0.22
    assert invoke(*args, "--power", 0.8, "--effect", 0.1, "--coefficient", "age").exit_code == 0
    reference = tmp_path / "reference.csv"
    reference.write_text("age,sex\n" + "\n".join(f"{40 + k % 5},Male" for k in range(50)) + "\n20,Female\n")
    narrow = invoke(*args, "--rows", needed, "--reference", reference, "--mean", 30)
    assert float(table(narrow.stdout, "age")[0][3]) > 0.4
    assert "a response about 30" in " ".join(narrow.stdout.split())


def test_a_reference_of_any_layout(invoke, refused, schema, tmp_path):
    args = ["plan", "--schema", schema, "--model", "ols", "--formula", "hours ~ age + C(sex)", "--rows", 5000]
    rows = [(f"{40 + k % 5}", "Male") for k in range(50)] + [("20", "Female")]
    path = tmp_path / "reference.csv"

    def plan(header, sep, *more):
        path.write_text("\n".join(sep.join(f'"{cell}"' for cell in row) for row in [*header, *rows]) + "\n")
        return invoke(*args, "--reference", path, *more)

    header = [("age", "sex")]
    expected = plan(header, ",").stdout
    assert expected.startswith("Plan: ")
    assert plan(header, ";", "--sep", ";").stdout == expected
    assert plan(header, "\t", "--sep", "\\t").stdout == expected
    assert plan([], ",", "--no-header", "--columns", "age,sex").stdout == expected
    for wrong in (plan(header, ";"), plan(header, ",", "--sep", ";"), plan(header, "|", "--sep", ";")):
        assert "check sep" in refused(wrong, 1, "SchemaError: ")
    path.write_text("age;sex\n40;Male\n")
    message = refused(invoke(*args, "--reference", path), 1, "SchemaError: column 'age' is not in the data")
    assert "for a text file its sep" in message
    for more in (["--sep", ";"], ["--no-header", "--columns", "age"], ["--columns", "age"]):
        refused(invoke(*args, *more), 2, "usage: ")


@pytest.mark.parametrize(
    "target",
    [
        [],
        ["--rows", 500, "--width", 0.1, "--power", 0.8, "--effect", 0.1],
        ["--power", 0.8],
        ["--rows", 500, "--effect", 0.1],
        ["--rows", 500, "--coefficient", "age"],
    ],
)
def test_rows_or_a_target(invoke, schema, target):
    result = invoke("plan", "--schema", schema, "--model", "logit", *target)
    assert result.exit_code == 2
    assert any(option in result.stderr for option in ("--rows", "--effect", "--coefficient says"))


def test_epsilon_for_a_target(invoke, schema, refused, few_rehearsals):
    """The answer is that of Python, and the plan with it meets the target."""
    args = ["plan", "--schema", schema, "--model", "ols", "--formula", "hours ~ age + C(sex)", "--rows", 5000]
    found = invoke(*args, "--width", 0.2, "--coefficient", "age", "--delta", 1e-7)
    assert found.exit_code == 0, found.output
    epsilon = float(found.stdout.split()[3])
    assert found.stdout.startswith(f"Needed: epsilon = {epsilon:.3g}\n")
    assert f"(ε = {epsilon:.3g}, δ = 1e-07)-DP" in found.stdout
    assert float(table(found.stdout, "age")[0][3]) <= 0.2
    common = {"schema": pf.Schema.from_toml(schema), "model": "ols", "n": 5000, "width": 0.2, "delta": 1e-7}
    expected = pf.sample_size("hours ~ age + C(sex)", coefficient="age", **common)
    assert expected.budget.epsilon == pytest.approx(epsilon, rel=0.005)
    for stated in (["--epsilon", 1], ["--mu", 1], ["--rho", 1]):
        message = refused(invoke(*args, "--width", 0.2, "--coefficient", "age", *stated), 2, "usage: ")
        assert "leave --epsilon, --mu and --rho out" in message
    hopeless = invoke(*args, "--width", 1e-6, "--coefficient", "age")
    assert "no budget up to epsilon 64" in refused(hopeless, 1, "Incompatible: ")


def test_room_in_a_ledger_is_in_the_words_of_its_accounts(invoke, people, schema, tmp_path):
    path = tmp_path / "ledger.db"
    pf.Ledger(path).grant("people", pf.Budget(3.0, 1e-6))
    args = ["--schema", schema, "--model", "logit", "--epsilon", 1, "--ledger", path, "--dataset", "people"]
    assert invoke("fit", people, *args).exit_code == 0
    shown = invoke("ledger", "show", path).stdout
    left = next(line for line in shown.splitlines() if line.startswith("  left")).split(maxsplit=1)[1]
    assert "a fit with ε up to" in left
    planned = invoke("plan", *args, "--rows", 600)
    assert f"Left before it: {left}." in planned.stdout
