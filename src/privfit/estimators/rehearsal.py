"""A plan, rehearsed on public rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self, final

from privfit._checks import whole
from privfit.data.encode import AbstractEncoder
from privfit.data.schema import Schema
from privfit.data.tables import open_table
from privfit.errors import FormulaError, Incompatible, TooLittleData
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.counting import sampling_part, stand_in_rule
from privfit.estimators.expected import expected
from privfit.estimators.fit import carry_out
from privfit.estimators.forecast import Forecast, enough_rehearsals
from privfit.estimators.models import Model
from privfit.estimators.objective import make_problem, plan_fit
from privfit.estimators.options import FitOptions
from privfit.estimators.rehearsed_look import RehearsedLook
from privfit.estimators.scales import OpenBounds, ranges_in_words, with_roles_of
from privfit.estimators.stand_in import StandInRows, complete_rows, stand_in_rows, stand_in_table, standing_in
from privfit.planning import preceded
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, PlannedRelease
from privfit.problem.schedule import with_part
from privfit.results import FitResult


@final
@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A model and stand-in rows, ready to forecast any number of rows and any budget.

    Parameters
    ----------
    model : Model
    encoder : AbstractEncoder
    rows : StandInRows
    schema : Schema
        With the bounds that are expected in place of those that a fit learns.
    assumptions : Assumptions
        What the rows rest on.
    look : RehearsedLook or None
        How a fit learns bounds; None if all are declared.
    """

    model: Model
    encoder: AbstractEncoder
    rows: StandInRows
    schema: Schema
    assumptions: Assumptions
    look: RehearsedLook | None = None

    @classmethod
    def prepare(
        cls,
        model: Model,
        encoder_of: Callable[[Schema], AbstractEncoder],
        schema: Schema,
        assumptions: Assumptions,
        bounds: OpenBounds | None = None,
    ) -> Self:
        """Make the stand-in rows.

        Parameters
        ----------
        model : Model
        encoder_of : callable
            Returns the encoder by a schema.
        schema : Schema
            With the widest bounds in place of those that the fit learns.
        assumptions : Assumptions
        bounds : OpenBounds, optional
            Those that it learns.

        Raises
        ------
        InvalidArgument
            If an assumption contradicts the schema or the model, or nothing is assumed of an open column.
        FormulaError
            If a term makes no sense within the bounds that are expected.
        """
        encoder = encoder_of(schema)
        names = () if bounds is None else bounds.read_by(encoder)
        if bounds is None or not names:
            return cls(model, encoder, stand_in_rows(encoder, schema, assumptions), schema, assumptions)
        if assumptions.reference is not None:
            assumptions = replace(assumptions, reference=open_table(assumptions.reference))
        response = encoder.needed[-1]
        assumptions.check(schema, response)
        completed, assumptions = expected(bounds.draft, names, response, model.target_kind, assumptions)
        likely = with_roles_of(schema, completed.outline)
        try:
            encoder = encoder_of(likely)
        except FormulaError as error:
            guessed = ranges_in_words(completed, names)
            raise FormulaError(
                f"{error}; assumed is {guessed}: change what is assumed, or declare bounds"
            ) from None
        table = stand_in_table(encoder, likely, assumptions)
        look = RehearsedLook.prepare(bounds, names, schema, encoder_of, table)
        return cls(model, encoder, complete_rows(encoder, table, likely), likely, assumptions, look)

    def plan(self, options: FitOptions, *, n_rows: int) -> tuple[Problem, Plan]:
        """Return the problem and the plan of a fit of ``n_rows`` rows, with the look before it.

        Raises
        ------
        Incompatible
            If the fit would have no noise.
        PrivfitError
            Another named subclass, as the fit would raise it.
        """
        n_rows = whole(n_rows=n_rows)
        if self.look is not None:
            options = self.look.before(options, n_rows=n_rows)
        problem = make_problem(self.model, self.encoder.design, options, n_rows=n_rows)
        plan = preceded(plan_fit(problem, options), options.before)
        if not plan.private:
            raise Incompatible(
                "solver: a fit without noise spends nothing and has no plan; choose another solver"
            )
        return problem, plan

    def forecast(self, options: FitOptions, *, n_rows: int, rehearsals: int | None = None) -> Forecast:
        """Return what a fit of ``n_rows`` rows is expected to report.

        The solver and the inference run as they would, with the planned noise, on the stand-in rows, and
        before them the look at columns, if there is one. Each row stands for a privacy unit with one row, and
        counts as those of a unit are assumed to do on average. What sampling adds is less where
        units have several rows that are not alike (`privfit.estimators.counting.sampling_part`): a meat that
        is a part of another has as much more noise, relative to it. Without ``rehearsals`` there are
        `privfit.estimators.forecast.enough_rehearsals`.
        """
        part = sampling_part(options.shares, self.assumptions)
        options = replace(options, shares=stand_in_rule(options.shares, self.assumptions))
        problem, plan = self.plan(options, n_rows=n_rows)
        if rehearsals is None:
            rehearsals = enough_rehearsals(problem, plan)
        count = rehearsals if options.inference else 1
        seeded = [replace(options, random_state=seed) for seed in range(count)]
        if self.look is None:
            planned = _of_smaller_meat(plan, part)
            results = [self._fit(self.encoder, self.rows, one, problem, planned) for one in seeded]
        else:
            results = [self._looked(self.look, one, part, n_rows=n_rows) for one in seeded]
        names = self.encoder.design.reported_names
        return Forecast.of(names, results, part) if options.inference else Forecast.unknown(names)

    def _looked(
        self, look: RehearsedLook, options: FitOptions, part: float, *, n_rows: int
    ) -> FitResult | None:
        """Return a fit within the bounds that a look shows; None if it is refused for them."""
        try:
            encoder, options = look.within(options, n_rows=n_rows)
        except (TooLittleData, FormulaError):
            return None
        problem = make_problem(self.model, encoder.design, options, n_rows=n_rows)
        plan = _of_smaller_meat(plan_fit(problem, options), part)
        rows = complete_rows(encoder, look.table, self.schema)
        return self._fit(encoder, rows, options, problem, plan)

    def _fit(
        self,
        encoder: AbstractEncoder,
        rows: StandInRows,
        options: FitOptions,
        problem: Problem,
        plan: Plan,
    ) -> FitResult:
        oracle = Oracle(problem, plan, standing_in(rows, problem, problem.n_rows), options.noise())
        return carry_out(self.model, encoder, options, oracle)[0]


def _of_smaller_meat(plan: Plan, part: float) -> Plan:
    """Return the plan with as much more noise in the meat as makes one of this part as clear as it is."""
    if part == 1.0:
        return plan

    def noisier(releases: Sequence[PlannedRelease]) -> tuple[PlannedRelease, ...]:
        return tuple(with_part(one, part) if one.kind == "meat" else one for one in releases)

    return replace(
        plan,
        solver_releases=noisier(plan.solver_releases),
        inference_releases=noisier(plan.inference_releases),
    )
