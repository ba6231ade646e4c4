"""Looks at columns whose bounds are open, rehearsed on public rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, final

from privfit.data.encode import AbstractEncoder, SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.estimators.look import asked, planned_look
from privfit.estimators.models import linear_regression
from privfit.estimators.objective import make_problem
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import OpenBounds, learned_by, look_encoder, with_roles_of
from privfit.estimators.stand_in import StandInRows, complete_rows, standing_in
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan


@final
@dataclass(frozen=True, slots=True)
class RehearsedLook:
    """Stand-in rows of columns whose bounds are open, and what a fit learns them by.

    Parameters
    ----------
    bounds : OpenBounds
    names : tuple of str
        Columns that are looked at.
    outline : Schema
        That of the draft, with the unit and the weights.
    encoder_of : callable
        Returns the encoder of the fit by a schema.
    table : Table
        The rows as they come.
    rough : SchemaEncoder
        By which they are looked at.
    places : StandInRows
        Rows that it encodes.
    """

    bounds: OpenBounds
    names: tuple[str, ...]
    outline: Schema
    encoder_of: Callable[[Schema], AbstractEncoder]
    table: Table
    rough: SchemaEncoder
    places: StandInRows

    @classmethod
    def prepare(
        cls,
        bounds: OpenBounds,
        names: tuple[str, ...],
        outline: Schema,
        encoder_of: Callable[[Schema], AbstractEncoder],
        table: Table,
    ) -> Self:
        """Encode the rows for the look."""
        rough = look_encoder(bounds.draft, names, outline)
        places = complete_rows(rough, table, outline)
        return cls(bounds, names, outline, encoder_of, table, rough, places)

    def before(self, options: FitOptions, *, n_rows: int) -> FitOptions:
        """Return the options of the fit of ``n_rows`` rows that follows a look, whatever that shows."""
        return replace(options, before=self._planned(options, n_rows=n_rows)[1].releases)

    def within(self, options: FitOptions, *, n_rows: int) -> tuple[AbstractEncoder, FitOptions]:
        """Return the encoder of a fit within the bounds that a look shows, and the options of the fit.

        Raises
        ------
        TooLittleData, FormulaError
            As `privfit.estimators.scales.bought_schema` does.
        """
        problem, plan = self._planned(options, n_rows=n_rows)
        noise = options.noise()
        oracle = Oracle(problem, plan, standing_in(self.places, problem, n_rows), noise)
        look = asked(oracle, self.names, noise)
        completed, fitted = learned_by(look, self.bounds.draft, self.names, options)
        return self.encoder_of(with_roles_of(self.outline, completed.outline)), fitted

    def _planned(self, options: FitOptions, *, n_rows: int) -> tuple[Problem, Plan]:
        problem = make_problem(linear_regression(), self.rough.design, options, n_rows=n_rows)
        return problem, planned_look(problem, self.names, self.bounds.allowance(options))
