"""From a request to the objects of a fit, all of it from public facts."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from privfit._checks import coverage
from privfit.cli.budget import budget_from
from privfit.cli.inputs import read_table
from privfit.cli.request import ANY_ROWS, Request, TextFile
from privfit.data.cache import RowCache
from privfit.data.encode import AbstractEncoder
from privfit.data.schema import Schema
from privfit.data.shares import ShareRule
from privfit.data.tables import Table
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.models import Model, model_named
from privfit.estimators.objective import make_problem, plan_fit
from privfit.estimators.opened import columns_read
from privfit.estimators.options import FitOptions, public_rows
from privfit.estimators.rehearsal import Rehearsal
from privfit.estimators.scales import PRIVATE, OpenBounds, bought_schema, bought_share, outlined
from privfit.privacy.ledger_file import need_ledger
from privfit.terms.encoder import encoder_of


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything about a fit but the rows.

    Where scales are bought the schema has the widest bounds in place of those that its draft lacks.
    """

    request: Request
    model: Model
    schema: Schema
    bounds: OpenBounds | None
    encoder: AbstractEncoder
    options: FitOptions

    def open(self, file: TextFile) -> Table:
        """Read the columns that the fit needs."""
        return read_table(file, columns_read(self.encoder, self.options))

    def within_learned_bounds(self, rows: Table | RowCache) -> Self:
        """Buy the bounds that a draft lacks, if there is one; see `bought_schema` for what is raised."""
        if self.bounds is None:
            return self
        encoder, options = bought_schema(self.model, self.encoder_of, rows, self.options, self.bounds)
        return replace(self, bounds=None, encoder=encoder, options=options)

    def rehearsal(self, assumptions: Assumptions) -> Rehearsal:
        """Return stand-in rows by which the fit is rehearsed."""
        return Rehearsal.prepare(self.model, self.encoder_of, self.schema, assumptions, self.bounds)

    def encoder_of(self, schema: Schema) -> AbstractEncoder:
        """Return the encoder of the fit by a schema."""
        return encoder_of(schema, self.request.formula, self.request.target, self.model.target_kind)


def prepare(request: Request, *, rows: int | None = None) -> Prepared:
    """Build schema, model, encoder and options, and refuse what can be refused without data.

    Parameters
    ----------
    request : Request
    rows : int, optional
        Number of rows of a plan; a fit learns it from the table, and a plan may look for it.

    Raises
    ------
    PrivfitError
        A named subclass.
    """
    coverage(request.level)
    share = None if request.share is None else bought_share(PRIVATE, request.share)
    schema, bounds = outlined(
        request.schema, share, unit=request.unit, weights=request.weights, exposure=request.exposure
    )
    model = model_named(request.model, **asdict(request.constants))
    options = FitOptions(
        budget=budget_from(request.budget),
        solver=request.solver,
        relation=request.relation,
        l2=request.l2,
        inference=request.inference,
        n_rows=request.n_rows,
        ledger=existing_ledger(request.ledger),
        dataset=request.dataset,
        schema=schema,
        random_state=request.seed,
        shares=ShareRule.of(schema, request.rows_per_unit),
    )
    encoder = encoder_of(schema, request.formula, request.target, model.target_kind)
    stand_in = ANY_ROWS if rows is None else rows
    plan_fit(make_problem(model, encoder.design, options, n_rows=public_rows(stand_in, options)), options)
    return Prepared(request, model, schema, bounds, encoder, options)


def existing_ledger(ledger: Path | None) -> str | None:
    """Return the path of a ledger, which must be there."""
    if ledger is None:
        return None
    need_ledger(ledger)
    return str(ledger)
