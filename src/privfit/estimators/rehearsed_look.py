"""Looks at columns whose bounds are open, rehearsed on public rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, final

from privfit._checks import FloatArray
from privfit.data.draft import Draft
from privfit.data.encode import Encoder, SchemaEncoder
from privfit.data.schema import Schema
from privfit.data.source import ArraySource
from privfit.data.tables import Table
from privfit.estimators.look import asked, planned_look
from privfit.estimators.models import linear_regression
from privfit.estimators.objective import make_problem, weighting_of
from privfit.estimators.options import FitOptions
from privfit.estimators.scales import learned_by, look_encoder, with_roles_of
from privfit.estimators.stand_in import StandIn, complete_rows
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan


@final
@dataclass(frozen=True, slots=True)
class RehearsedLook:
    """Stand-in rows of columns whose bounds are open, and what a fit learns them by.

    Parameters
    ----------
    draft : Draft
    names : tuple of str
        Columns that are looked at.
    outline : Schema
        That of the draft, with the unit and the weights.
    encoder_of : callable
        Returns the encoder of the fit by a schema.
    share : float
        Part of the budget.
    table : Table
        The rows as they come.
    rough : SchemaEncoder
        By which they are looked at.
    places : tuple of array
        Rows that it encodes, ``x`` (m, k) and ``y`` (m,).
    """

    draft: Draft
    names: tuple[str, ...]
    outline: Schema
    encoder_of: Callable[[Schema], Encoder]
    share: float
    table: Table
    rough: SchemaEncoder
    places: tuple[FloatArray, FloatArray]

    @classmethod
    def prepare(  # noqa: PLR0917
        cls,
        draft: Draft,
        names: tuple[str, ...],
        outline: Schema,
        encoder_of: Callable[[Schema], Encoder],
        share: float,
        table: Table,
    ) -> Self:
        """Encode the rows for the look."""
        rough = look_encoder(draft, names, outline)
        return cls(draft, names, outline, encoder_of, share, table, rough, complete_rows(rough, table))

    def before(self, options: FitOptions, *, n_rows: int) -> FitOptions:
        """Return the options of the fit of ``n_rows`` rows that follows a look, whatever that shows."""
        return replace(options, before=self._planned(options, n_rows=n_rows)[1].releases)

    def within(self, options: FitOptions, *, n_rows: int) -> tuple[Encoder, FitOptions]:
        """Return the encoder of a fit within the bounds that a look shows, and the options of the fit.

        Raises
        ------
        TooLittleData, FormulaError
            As `privfit.estimators.scales.bought_schema` does.
        """
        problem, plan = self._planned(options, n_rows=n_rows)
        rows = ArraySource(*self.places, norm_bound=problem.norm_bound, weighting=weighting_of(problem))
        noise = options.noise()
        look = asked(Oracle(problem, plan, StandIn(rows, n_rows), noise), self.names, noise)
        completed, fitted = learned_by(look, self.draft, self.names, options)
        return self.encoder_of(with_roles_of(self.outline, completed.outline)), fitted

    def _planned(self, options: FitOptions, *, n_rows: int) -> tuple[Problem, Plan]:
        part, _ = options.allowance.split([self.share, 1.0 - self.share])
        problem = make_problem(linear_regression(), self.rough.design, options, n_rows=n_rows)
        return problem, planned_look(problem, self.names, part)
