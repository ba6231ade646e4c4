"""Write docs/solvers/compatibility.md: which loss goes with which solver under which guarantee.

    python docs/generate_compatibility.py

Nothing is fitted: a combination works if it can be planned within the budget, and a refusal is the message
that a user would see. The same cases are a test, which fits those that work.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from privfit import Budget, losses
from privfit.errors import Incompatible
from privfit.losses import AbstractLoss
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import Plan
from privfit.solvers import BY_NAME, AbstractSolver

PAGE = Path(__file__).parent / "solvers" / "compatibility.md"

ROWS, COLUMNS = 400, 2

LOSSES: tuple[AbstractLoss, ...] = (
    losses.Logistic(),
    losses.Multinomial(3),
    losses.SmoothedHinge(),
    losses.Hinge(),
    losses.Sigmoid(),
    losses.Squared(),
    losses.Huber(),
    losses.ConcomitantHuber(),
    losses.SmoothedHuber(),
    losses.LogCosh(),
    losses.PseudoHuber(),
    losses.SelfConcordantHuber(),
    losses.SmoothedQuantile(),
    losses.Quantile(),
    losses.Poisson(bound=2.0, count_bound=5.0),
    losses.Custom(
        lambda y, eta: 0.5 * (y - eta) ** 2,
        lambda y, eta: eta - y,
        lambda y, eta: 1.0 + 0.0 * (y + eta),
        slope_bound=2.0,
        curvature_bound=1.0,
        name="Custom",
    ),
)

SOLVERS: dict[str, AbstractSolver] = {
    name: solver for name, solver in BY_NAME.items() if name not in ("auto", "non-private")
}
"""Without a second name for the default and the reference, which keeps no budget."""

BUDGETS = {"P": Budget(1.0), "D": Budget(1.0, 1e-5), "G": Budget.gdp(0.5)}
"""Pure, (epsilon, delta) and Gaussian; what holds for GDP here holds for zCDP."""


@dataclass(frozen=True)
class Outcome:
    """Whether a combination can be planned, or why not."""

    plan: Plan | None
    refusal: str


def label(loss: AbstractLoss) -> str:
    """Return the loss's name without its constants."""
    return loss.name.split("(")[0]


def problem_for(loss: AbstractLoss, relation: Relation = Relation.REPLACE) -> Problem:
    """Return a small bounded problem."""
    start = (0.0,) * (COLUMNS * loss.n_outputs) + ((0.5,) if loss.has_scale else ())
    names = ("Intercept", "x")[:COLUMNS]
    return Problem(
        loss, names, 1.5, ROWS, relation, 0.0, start, (False, True), bounded=True, response_bound=1.0
    )


@cache
def outcome(
    loss: AbstractLoss,
    solver: AbstractSolver,
    budget: Budget,
    *,
    inference: bool,
    relation: Relation = Relation.REPLACE,
) -> Outcome:
    """Return the plan of a combination, or its refusal."""
    try:
        plan = make_plan(problem_for(loss, relation), solver, Allowance.of(budget), inference=inference)
    except Incompatible as error:
        return Outcome(None, str(error))
    if not plan.private or not compose(plan.events).within(budget):
        raise AssertionError(f"{solver.name} plans more than {budget!r}")
    return Outcome(plan, "")


def cell(loss: AbstractLoss, solver: AbstractSolver) -> str:
    """Return the guarantees that work, in bold where standard errors come with them."""
    marks = []
    for mark, budget in BUDGETS.items():
        if outcome(loss, solver, budget, inference=True).plan is not None:
            marks.append(f"**{mark}**")
        elif outcome(loss, solver, budget, inference=False).plan is not None:
            marks.append(mark)
    return " ".join(marks) or "—"


METHOD = re.compile(
    r"(?<=solver: )(?!the guarantee).+?(?= (?:needs|cannot|solves) )|(?<=guarantee of ).+?(?= rests)"
    r"|(?<=budget: ).+?(?= has no)|(?<=the cost of ).+?(?= is )"
)
"""Where a message names the method."""


def refusals() -> dict[str, list[str]]:
    """Return the solvers that give each refusal, names left out so that like ones fall together."""
    found: dict[str, list[str]] = {}
    for name, solver in SOLVERS.items():
        for loss in LOSSES:
            for budget in BUDGETS.values():
                for inference in (True, False):
                    text = outcome(loss, solver, budget, inference=inference).refusal
                    text = text.replace(loss.smoothed, "*smoothed loss*").replace(loss.name, "*loss*")
                    text = METHOD.sub("*method*", text)
                    if text and name not in found.setdefault(text, []):
                        found[text].append(name)
    return found


def page() -> str:
    """Return the page."""
    header = ["loss", *(f"`{name}`" for name in SOLVERS)]
    body = [[label(loss), *(cell(loss, solver) for solver in SOLVERS.values())] for loss in LOSSES]
    table = [header, ["---"] * len(header), *body]
    lines = ["| " + " | ".join(row) + " |" for row in table]
    relation = [
        f"* `{name}`: "
        + ("yes" if works_under_add_remove(solver) else "no, it has a guarantee under `replace` only")
        for name, solver in SOLVERS.items()
    ]
    reasons = [
        f"* {text}.\n  ({', '.join(f'`{name}`' for name in names)})" for text, names in refusals().items()
    ]
    return "\n".join(
        [
            "# Loss × solver × guarantee",
            "",
            "Written by `python docs/generate_compatibility.py`. `tests/test_compatibility.py` fits what is",
            "said to work here, and checks that all else is refused.",
            "",
            "**P**: pure ε (`Budget(1.0)`). **D**: (ε, δ). **G**: μ-GDP, and likewise ρ-zCDP. In bold: with",
            "standard errors (`inference=True`, the default); plain: with `inference=False`. —: refused.",
            "`auto` is `whitened` with standard errors, and `empirical-bayes` without.",
            "",
            *lines,
            "",
            '## Under `relation="add_remove"`',
            "",
            *relation,
            "",
            "## What a refusal says",
            "",
            "In brackets the solvers that say it; *method* and *loss* stand for their names.",
            "",
            *reasons,
            "",
        ]
    )


def works_under_add_remove(solver: AbstractSolver) -> bool:
    """Return whether any loss can be fitted under the other relation."""
    return any(
        outcome(loss, solver, budget, inference=False, relation=Relation.ADD_REMOVE).plan is not None
        for loss in LOSSES
        for budget in BUDGETS.values()
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
