"""``privfit audit``: attack a solver."""

import json
from pathlib import Path

import typer

from privfit._progress import running
from privfit.auditing import audit
from privfit.cli.budget import budget_from
from privfit.cli.output import check_writable
from privfit.cli.request import BudgetText
from privfit.errors import PlanViolation
from privfit.results.archive import write_atomically


def run_audit(
    solver: str, budget: BudgetText, *, relation: str, trials: int, confidence: float, out: Path | None
) -> None:
    """Audit, print the finding, and fail if a claim is violated."""
    check_writable(out, option="--out")
    with running("attacking"):
        found = audit(
            solver,
            budget=budget_from(budget),
            relation=relation,
            trials=trials,
            confidence=confidence,
        )
    typer.echo(found.summary())
    if out is not None:
        write_atomically(out, json.dumps(found.to_dict(), indent=2) + "\n")
    if found.violated:
        raise PlanViolation("the audit found more than the solver claims; see above, and report it")
