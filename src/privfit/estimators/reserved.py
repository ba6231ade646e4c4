"""The spend of a fit in a ledger: written before a row is read, committed when the fit is done."""

from dataclasses import dataclass
from typing import Self, final

from privfit.data.schema import Schema
from privfit.errors import Incompatible
from privfit.privacy.ledger import Ledger
from privfit.problem.plan import Plan


@final
@dataclass(frozen=True, slots=True)
class ReservedSpend:
    """A spend that was written to a ledger, or none."""

    ledger: Ledger | None
    number: int

    @classmethod
    def of(cls, plan: Plan, ledger: Ledger | str | None, dataset: str | None, schema: Schema | None) -> Self:
        """Reserve the cost of a plan, if there is a ledger."""
        if ledger is None or dataset is None:
            return cls(None, 0)
        if not plan.private:
            raise Incompatible("ledger: a fit without noise cannot be charged to a ledger; leave it out")
        book = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        number = book.reserve(
            dataset, plan.events, relation=plan.relation, unit=plan.unit, note=plan.model, schema=schema
        )
        return cls(book, number)

    def commit(self) -> None:
        """Mark the spend as done."""
        if self.ledger is not None:
            self.ledger.commit(self.number)
