"""Attack every query by itself, on the two tables that its bound says are furthest apart.

    python benchmarks/audit/queries.py [--trials 100000] [--only marginals norms]

A plan of many releases of one query, each of which costs μ = 1 (or ε = 1) by itself, gives that many
independent runs. The tables have ten units; one of them is in the first table as it pulls most one way, and
in the second as it pulls most another way; or it is missing in the first. Cases named "unit" have units of
five rows.

Writes benchmarks/audit/results/queries.json, case by case: a run replaces the cases that it has finished and
leaves the others. Exits with 1 if a claim is violated, or if a case shows less than 80 % of its claim.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from privfit.auditing import compare_outcomes
from privfit.auditing.compare import Claim
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import ArraySource
from privfit.losses import Logistic, Multinomial, Squared
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.mechanisms import make_source, svec
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.problem.schedule import planned_release

RESULTS = Path(__file__).parent / "results" / "queries.json"
CONFIDENCE = 0.999
UNITS, ROWS, AT_ONCE = 10, 5, 1000
FAR = 1e6
UP, ACROSS, SHORT, LONG = (1.0, 0.0), (0.0, 1.0), (2.0**-8, 0.0), (30.0, 0.0)
"""Two rows on the bound, a short one, and one far beyond it."""

SQUARED = Squared(1.0)

Row = tuple[tuple[float, float], float]


@dataclass(frozen=True)
class Case:
    """One attack: what the differing unit holds in either table; None if it is missing."""

    kind: Any
    first: Row | None
    second: Row
    loss: Any = SQUARED
    pure: bool = False
    unit: bool = False

    @property
    def name(self) -> str:
        """What tells it from the others."""
        loss = "" if isinstance(self.loss, Squared) else f", {self.loss.name}"
        gone = ", add_remove" if self.first is None else ""
        return f"{self.kind}{loss}{gone}{', unit' * self.unit}{', pure' * self.pure}"


CASES = [
    Case("gradient", (UP, -FAR), (UP, FAR)),
    Case("gradient", None, (UP, FAR)),
    Case("gradient", (UP, -FAR), (UP, FAR), unit=True),
    Case("bounded_gradient", (UP, -FAR), (UP, FAR)),
    Case("bounded_gradient", None, (UP, FAR), unit=True),
    Case("second_moment", (UP, 0.0), (ACROSS, 0.0)),
    Case("second_moment", None, (UP, 0.0)),
    Case("second_moment", (UP, 0.0), (ACROSS, 0.0), unit=True),
    Case("hessian", (UP, 0.0), (ACROSS, 0.0)),
    Case("hessian", (UP, 0.0), (ACROSS, 0.0), Logistic()),
    Case("meat", (UP, FAR), (ACROSS, FAR)),
    Case("meat", (UP, FAR), (ACROSS, FAR), unit=True),
    Case("secant", (UP, -FAR), (UP, FAR)),
    Case("secant", (UP, -FAR), (UP, FAR), pure=True),
    Case("marginals", None, (UP, FAR)),
    Case("marginals", None, (UP, FAR), unit=True),
    Case("marginals", None, (UP, 1.0), Multinomial(3)),
    Case("sizes", (SHORT, 0.0), (UP, FAR)),
    Case("residuals", (SHORT, 0.0), (UP, FAR)),
    Case("norms", (LONG, 0.0), (UP, 0.0)),
    Case("norms", (LONG, 0.0), (UP, 0.0), unit=True),
]


def problem_of(case: Case) -> Problem:
    relation = Relation.ADD_REMOVE if case.first is None else Relation.REPLACE
    return Problem(
        loss=case.loss,
        columns=("a", "b"),
        norm_bound=1.0,
        n_rows=UNITS,
        relation=relation,
        l2=0.0,
        start=(0.0,) * (2 * case.loss.n_outputs),
        penalised=(True, True),
        bounded=True,
        response_bound=1.0,
        shares=ShareRule("person") if case.unit else ShareRule(),
    )


def source_of(case: Case, special: Row | None, problem: Problem) -> ArraySource:
    """Return the table: rows of zeros, and one unit that is as given."""
    each = ROWS if case.unit else 1
    zero: Row = ((0.0, 0.0), 0.0)
    units = [*([] if special is None else [special]), *([zero] * (UNITS - 1))]
    x = np.array([row[0] for row in units for _ in range(each)])
    y = np.array([row[1] for row in units for _ in range(each)])
    shares = None
    if case.unit:
        codes = np.repeat(np.arange(len(units)), each)
        shares = RowShares(problem.shares, np.ones(len(y)), codes, len(units))
    return ArraySource(x, y, norm_bound=problem.norm_bound, shares=shares)


def outcomes(case: Case, special: Row | None, trials: int) -> np.ndarray:
    """Return released values, shape (trials, k): a plan of a thousand releases at a time."""
    problem = problem_of(case)
    allowance = Allowance(1.0, pure=case.pure)
    release = planned_release(problem, case.kind, allowance)
    plan = Plan(
        problem.loss.name, "audit", UNITS, problem.columns, problem.relation.value,
        math.inf if case.pure else math.sqrt(AT_ONCE), (release,) * AT_ONCE, (), problem.unit,
    )  # fmt: skip
    at = np.zeros(problem.size)
    if case.kind == "secant":
        at = np.append(at, [1.0, *at[1:]])
    found: list[np.ndarray] = []
    while len(found) < trials:
        oracle = Oracle(problem, plan, source_of(case, special, problem), make_source(None))
        for _ in range(min(AT_ONCE, trials - len(found))):
            value = oracle.release(case.kind, at).value
            found.append(value if value.ndim == 1 else svec(value))
    return np.array(found)


def attack(case: Case, trials: int) -> dict[str, Any]:
    begun = time.process_time()
    first, second = (outcomes(case, special, trials) for special in (case.first, case.second))
    delta = 0.0 if case.pure else 1e-6
    relation = problem_of(case).relation.value
    claim = Claim(subject=case.name, relation=relation, epsilon=1.0, delta=delta)
    if not case.pure:
        epsilon = Budget.gdp(1.0).epsilon_at(delta)
        claim = Claim(subject=case.name, relation=relation, epsilon=epsilon, delta=delta, mu=1.0)
    found = compare_outcomes(first, second, claim, confidence=CONFIDENCE)
    seconds = round(time.process_time() - begun, 1)
    return {"case": case.name, **found.to_dict(), "seconds": seconds}


def write(row: dict[str, Any]) -> None:
    """Add a row to the results, or replace the one of the same case."""
    RESULTS.parent.mkdir(exist_ok=True)
    old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    order = [case.name for case in CASES]
    rows = [*(other for other in old if other["case"] != row["case"] and other["case"] in order), row]
    rows.sort(key=lambda one: order.index(one["case"]))
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000, help="runs on each table")
    parser.add_argument("--only", nargs="*", help="kinds")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    arguments = parser.parse_args()
    bad = False
    for case in CASES:
        if arguments.only is None or case.kind in arguments.only:
            row = attack(case, arguments.trials)
            if not arguments.dry:
                write(row)
            shown = ("case", "epsilon", "mu", "tightness", "violated", "seconds")
            print(json.dumps({name: row[name] for name in shown}), flush=True)
            bad |= row["violated"] or row["tightness"] < 0.8
    if bad:
        sys.exit("a claim is violated, or not shown to be tight")


if __name__ == "__main__":
    main()
