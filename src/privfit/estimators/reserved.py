"""The spend of a fit in a ledger: written before a row is read, committed when the fit is done."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self, final

from privfit import _progress
from privfit.data.schema import Schema
from privfit.data.source import RowSource
from privfit.errors import Incompatible, LedgerError
from privfit.estimators.options import FitOptions
from privfit.privacy.ledger import Ledger, LedgerOrPath
from privfit.privacy.ledger_file import need_ledger
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan

_UNFINISHED = (
    "the ledger could not be written when the fit was done, and shows it as unfinished. It is paid for, and "
    "complete: do not fit again"
)

_reservations = 0
"""Made by this process."""

SEEDED = "; seeded noise, not private"
"""What the note of a spend ends with whose noise can be repeated: it is charged, and promises nothing."""


@final
@dataclass(frozen=True, slots=True)
class ReservedSpend:
    """A spend that was written to a ledger, or none."""

    ledger: Ledger | None
    number: int

    @classmethod
    def of(
        cls,
        plan: Plan,
        ledger: LedgerOrPath | None,
        dataset: str | None,
        schema: Schema | None,
        *,
        seeded: bool,
    ) -> Self:
        """Reserve the cost of a plan, if there is a ledger, with a note that says what it is for."""
        if ledger is None or dataset is None:
            return cls(None, 0)
        book = _opened(ledger, plan)
        note = plan.model + (SEEDED if seeded else "")
        number = book.reserve(
            dataset, plan.events, relation=plan.relation, unit=plan.unit, note=note, schema=schema
        )
        _count()
        return cls(book, number)

    def commit(self) -> None:
        """Mark the spend as done. What was bought is not lost where the ledger cannot be written by then."""
        if self.ledger is None:
            return
        try:
            self.ledger.commit(self.number)
        except LedgerError:
            with suppress(UserWarning):  # where warnings are errors: the ledger says that it is unfinished
                warnings.warn(_UNFINISHED, stacklevel=2)


def reservations() -> int:
    """Return how many spends this process has reserved in ledgers."""
    return _reservations


def _count() -> None:
    global _reservations  # noqa: PLW0603 -- of the process
    _reservations += 1


def reserved(
    problem: Problem, plan: Plan, encoded: Callable[[], RowSource], options: FitOptions, noise: NoiseSource
) -> tuple[Oracle, ReservedSpend]:
    """Reserve the cost of a plan and then read the rows; return what answers it, and the spend to commit."""
    spend = ReservedSpend.of(plan, options.ledger, options.dataset, options.schema, seeded=not noise.private)
    _progress.expect("passes", len(plan.releases), rows=problem.n_rows)
    return Oracle(problem, plan, encoded(), noise), spend


def check_affordable(plan: Plan, options: FitOptions, *, before: Plan) -> None:
    """Raise unless the ledger, if there is one, can pay for a plan after another; spend nothing."""
    if options.ledger is not None and options.dataset is not None:
        book = _opened(options.ledger, plan)
        book.check(
            options.dataset,
            plan.events,
            relation=plan.relation,
            unit=plan.unit,
            schema=options.schema,
            before=before.events,
        )


def _opened(ledger: LedgerOrPath, plan: Plan) -> Ledger:
    """Return the ledger that a plan is to be charged to."""
    if not plan.private:
        raise Incompatible("ledger: a fit without noise cannot be charged to a ledger; leave it out")
    if isinstance(ledger, Ledger):
        return ledger
    need_ledger(ledger)
    return Ledger(ledger)
