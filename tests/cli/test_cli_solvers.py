"""Every solver that has a name works from the command line, or says in one line what would."""

import pytest

from privfit.cli import options
from privfit.solvers import BY_NAME

pytestmark = pytest.mark.usefixtures("few_rehearsals")

ONLY_LEAST_SQUARES = {"adassp": "LinearRegression()", "sufficient-statistics": "LinearRegression()"}


@pytest.fixture
def few(tmp_path, people):
    """The first 150 rows of a table: some methods draw noise for hours on long ones."""
    path = tmp_path / "few.csv"
    path.write_text("".join(people.read_text().splitlines(keepends=True)[:151]), encoding="utf-8")
    return path


def both(invoke, table, schema, solver, *args):
    args = ["--schema", schema, "--formula", "high ~ age", "--model", "logit", "--solver", solver, *args]
    return invoke("plan", *args, "--rows", 150), invoke("fit", table, *args)


@pytest.mark.parametrize("solver", sorted(BY_NAME))
def test_every_solver_plans_and_fits_or_names_a_remedy(invoke, few, schema, refused, solver):
    planned, fitted = both(invoke, few, schema, solver)
    remedy = ONLY_LEAST_SQUARES.get(solver)
    if solver == "clipped-gradient-descent":
        remedy = "fit with --no-inference"
    if remedy is not None:
        assert remedy in refused(planned, 1, "Incompatible: ")
        assert remedy in refused(fitted, 1, "Incompatible: ")
        return
    assert fitted.exit_code == 0, fitted.output
    if solver == "non-private":
        assert "choose another solver" in refused(planned, 1, "Incompatible: solver")
        return
    assert planned.exit_code == 0, planned.output
    assert "nan" not in planned.stdout
    assert "unknown" not in planned.stdout.lower()


@pytest.mark.parametrize("solver", ["adassp", "sufficient-statistics"])
def test_solvers_of_least_squares(invoke, few, schema, solver):
    args = ["--schema", schema, "--formula", "hours ~ age", "--model", "ols", "--solver", solver]
    for result in (invoke("plan", *args, "--rows", 150), invoke("fit", few, *args)):
        assert result.exit_code == 0, result.output
        assert "unknown" not in result.stdout.lower()


@pytest.mark.parametrize(
    "solver", ["clipped-gradient-descent", "exponential-mechanism", "online-to-batch", "output-perturbation"]
)
def test_noise_that_is_not_known_beforehand_is_said_in_words(invoke, few, schema, solver):
    planned, fitted = both(invoke, few, schema, solver, "--no-inference")
    assert planned.exit_code == fitted.exit_code == 0
    assert "nan" not in planned.stdout
    said = " ".join(planned.stdout.split())
    assert "buys no standard errors" in said


def test_help_lists_the_solvers(invoke):
    (option,) = options.Solver.__metadata__
    assert all(name in option.help for name in BY_NAME)
    assert list(options.SOLVERS) == sorted(BY_NAME)
    for command in ("plan", "fit"):
        assert "adassp" in invoke(command, "--help").stdout
