"""A look at columns, from raw rows to bounds: encode, plan, reserve, release."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from privfit._progress import running
from privfit._sealed import sealed, withholding
from privfit.data.draft import Draft
from privfit.data.encode import AbstractEncoder
from privfit.data.stream import RowStream
from privfit.errors import InvalidArgument, PlanViolation
from privfit.estimators.models import linear_regression
from privfit.estimators.opened import OpenedRows, RawRows
from privfit.estimators.options import FitOptions
from privfit.estimators.reserved import reserved
from privfit.planning import plan_of
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import NoiseSource
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan, Release
from privfit.solvers.column_look import ColumnLook
from privfit.solvers.column_ranges import Interval

_MODEL, _METHOD = "bounds of columns", "three looks at places"


@final
@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What was released of columns.

    Parameters
    ----------
    plan : Plan
    releases : tuple of Release
    found : dict
        Encoded bounds by name, of the columns that noise does not hide.
    private : bool
        False if the noise was seeded or absent.
    noise_label : str
        The laws of the noise, and its source.
    source : NoiseSource
        Where it came from.
    """

    plan: Plan
    releases: tuple[Release, ...]
    found: dict[str, Interval]
    private: bool
    noise_label: str
    source: NoiseSource

    def bounds(self, draft: Draft) -> dict[str, Interval]:
        """Return the bounds in raw units, for columns that were encoded by the stand-in of a draft."""
        return {name: draft.raw(name, interval) for name, interval in self.found.items()}


@sealed
@withholding
@running("learning bounds")
def look_at(
    encoder: AbstractEncoder, raw: RawRows, options: FitOptions, names: Sequence[str], allowance: Allowance
) -> Look:
    """Look at the first of the encoded columns after a constant, and at the response if there are more names.

    Parameters
    ----------
    encoder : AbstractEncoder
        With an intercept. It scales numbers to [-1, 1] by bounds that hold nearly all there are.
    raw : Table, RowStream or AbstractRowStore
    options : FitOptions
    names : sequence of str
        Those of the predictors, and of the response if it is looked at.
    allowance : Allowance
        What the look may cost.
    """
    if isinstance(raw, RowStream):
        raise InvalidArgument("data: a RowStream is read once, and a look takes three passes; pass a table")
    opened = OpenedRows.of(linear_regression(), encoder, raw, options)
    problem, noise = opened.problem, options.noise()
    plan = planned_look(problem, names, allowance)
    if plan.private and not compose(plan.events).within(options.budget):
        raise PlanViolation("a look at columns would exceed its budget")
    encoded = opened.ready()
    del opened
    oracle, spend = reserved(problem, plan, encoded, options, noise)
    look = asked(oracle, names, noise)
    spend.commit()
    return look


def planned_look(problem: Problem, names: Sequence[str], allowance: Allowance) -> Plan:
    """Return the plan of a look at these columns that costs ``allowance``."""
    return plan_of(problem, _MODEL, _METHOD, ColumnLook(len(names)).plan(problem, allowance))


def asked(oracle: Oracle, names: Sequence[str], noise: NoiseSource) -> Look:
    """Ask an oracle what is planned, by noise from a source, and return what it shows of these columns."""
    intervals = zip(names, ColumnLook(len(names)).run(oracle.problem, oracle), strict=True)
    found = {name: interval for name, interval in intervals if interval is not None}
    return Look(oracle.plan, oracle.released, found, oracle.private, oracle.noise_label, noise)
