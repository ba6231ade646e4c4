"""Write the picture and the printed output of docs/planning.md and docs/tests-and-effects.md.

    python docs/generate_planning.py

No data are private: tables are simulated and noise is seeded, so that the output is the same every time.
"""

import contextlib
import io
from pathlib import Path

from markers import write_between

import privfit as pf
from privfit.data.synthetic import census, census_schema

DOCS = Path(__file__).resolve().parent


PLAN = """\
import privfit as pf

planned = pf.plan(
    "income_over_50k ~ age + hours_per_week + sex + education",
    n=20_000,
    schema="income.toml",
    model="logit",
    epsilon=1.0,
    assumptions=pf.Assumptions(mean=0.25, shares={"education": [0.1, 0.3, 0.25, 0.2, 0.1, 0.05]}),
)
print(planned)
"""

NEEDED = """\
formula = "income_over_50k ~ age + hours_per_week + sex"
common = {"schema": "income.toml", "model": "logit"}
print(pf.sample_size(formula, width=0.01, coefficient="age", **common).n_rows)
print(pf.sample_size(formula, power=0.8, effect={"sex[T.Male]": 0.3}, **common).n_rows)
print(pf.sample_size(formula, width=0.01, coefficient="age", n=30_000, **common).budget)
found = pf.sample_size(formula, accuracy=0.05, radius=2.0, **common)
print(found.n_steps, found.n_rows)
"""

LEARNED = """\
draft = {"hourly_wage": {"type": "numeric", "lower": 0}, "age": {"type": "numeric"}}
guesses = pf.Assumptions(center={"age": 40}, sd={"age": 14}, mean=22, residual_sd=12)
options = {"schema": draft, "model": "ols", "scale": "private", "assumptions": guesses}
print(pf.plan("hourly_wage ~ age", n=20_000, epsilon=1.0, **options))
"""

TESTS = """\
import privfit as pf

result = pf.logit(
    "income_over_50k ~ age + hours_per_week * sex + education",
    "census.csv",
    schema="income.toml",
    epsilon=2.0,
    random_state=0,  # makes this page repeatable, and the result not private; leave it out
)
print(result.wald_test_terms(adjust="holm"))
print(result.compare_without("sex", "hours_per_week:sex"))
print(result.t_test("education[T.Master] - education[T.Bachelor], 10*age = 0.3"))
"""

EFFECTS = """\
profiles = {
    "age": [30, 50],
    "hours_per_week": [40, 40],
    "sex": ["Male", "Female"],
    "education": ["Bachelor", "Bachelor"],
}
print(result.get_prediction(profiles))
print(result.get_margeff(profiles, ["age", "sex"]))
"""


def fitted(formula: str, _path: str, **options: object) -> pf.FitResult:
    """Fit to the simulated census of `privfit demo`."""
    return pf.logit(formula, census(20_000, 2024), **{**options, "schema": census_schema()})


class Shown:
    """The package as the pages show it: files are simulated tables."""

    Assumptions = pf.Assumptions
    logit = staticmethod(fitted)

    @staticmethod
    def plan(formula: str, **options: object) -> object:
        """Plan by the schema of the simulated census, or the one that is given."""
        known = census_schema() if isinstance(options["schema"], str) else options["schema"]
        return pf.plan(formula, **{**options, "schema": known})

    @staticmethod
    def sample_size(formula: str, **options: object) -> object:
        """Find rows by the schema of the simulated census."""
        return pf.sample_size(formula, **{**options, "schema": census_schema()})


def printed(code: str, names: dict[str, object]) -> str:
    """Return a code block and what it prints."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code.replace("import privfit as pf\n", ""), names)  # noqa: S102 -- our own text
    return f"```python\n{code}```\n\n```text\n{shown.getvalue().rstrip()}\n```"


def main() -> None:
    """Write picture and pages."""
    names: dict[str, object] = {"pf": Shown}
    pages = {
        "planning.md": {"plan": PLAN, "needed": NEEDED, "learned": LEARNED},
        "tests-and-effects.md": {"tests": TESTS, "effects": EFFECTS},
    }
    for page, blocks in pages.items():
        write_between(DOCS / page, {mark: printed(code, names) for mark, code in blocks.items()})
    names["planned"].plot().savefig(DOCS / "planning.png", dpi=110)  # pyright: ignore


if __name__ == "__main__":
    main()
