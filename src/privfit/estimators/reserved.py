"""The spend of a fit in a ledger: written before a row is read, committed when the fit is done."""

from dataclasses import dataclass
from typing import Self, final

from privfit.data.schema import Schema
from privfit.errors import Incompatible
from privfit.privacy.ledger import Ledger
from privfit.problem.plan import Plan

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
        ledger: Ledger | str | None,
        dataset: str | None,
        schema: Schema | None,
        *,
        seeded: bool,
    ) -> Self:
        """Reserve the cost of a plan, if there is a ledger, with a note that says what it is for."""
        if ledger is None or dataset is None:
            return cls(None, 0)
        if not plan.private:
            raise Incompatible("ledger: a fit without noise cannot be charged to a ledger; leave it out")
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        note = plan.model + (SEEDED if seeded else "")
        number = book.reserve(
            dataset, plan.events, relation=plan.relation, unit=plan.unit, note=note, schema=schema
        )
        return cls(book, number)

    def commit(self) -> None:
        """Mark the spend as done."""
        if self.ledger is not None:
            self.ledger.commit(self.number)
