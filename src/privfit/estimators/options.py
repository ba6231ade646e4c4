"""Everything about a fit but the data and the model."""

from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from privfit._checks import whole
from privfit.data.schema import Schema
from privfit.data.shares import ShareRule
from privfit.errors import InvalidArgument, PlanViolation
from privfit.inference.infer import BudgetSplit
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.ledger import LedgerOrPath
from privfit.privacy.mechanisms import NoiseSource, NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.results.form import LearnedRange
from privfit.solvers import AbstractSolver, NonPrivate, resolve, settle


@dataclass(frozen=True, slots=True)
class BoughtBounds:
    """What looks at the rows before a fit released, at the expense of its budget.

    Parameters
    ----------
    releases : tuple of Release
    source : NoiseSource
        Where their noise came from; that of the fit goes on with it.
    ranges : tuple of LearnedRange
        What follows from them.
    """

    releases: tuple[Release, ...]
    source: NoiseSource
    ranges: tuple[LearnedRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Everything about a fit but the data and the model.

    Parameters
    ----------
    budget : Budget
        What the fit may spend. Ignored by ``solver="non-private"``.
    solver : str or AbstractSolver
        A name in `privfit.solvers.BY_NAME`, such as ``"auto"`` or ``"newton"``, or an instance from
        `privfit.solvers`.
    relation : {"replace", "add_remove"}
        Which tables are neighbours.
    l2 : float
        Ridge weight on encoded coefficients, the intercept excepted.
    inference : bool or BudgetSplit
        Whether to buy standard errors; the split says with what part of the budget.
    n_rows : int, optional
        Public number of rows that stands in for the private one under ``add_remove``.
    ledger : Ledger or path, optional
        Where the spend is reserved before a row is read.
    dataset : str, optional
        Name of the data set in the ledger.
    schema : Schema, optional
        Declared form of the table, for the ledger.
    random_state : None, int, RandomState or Generator
        None for private noise; a seed makes the fit repeatable and not private.
    shares : ShareRule
        Which rows make up a privacy unit, and how much each counts.
    before : tuple of PlannedRelease
        Looks at the rows before the fit, at the expense of the same budget.
    bought : BoughtBounds, optional
        What they showed, once they were taken.
    ordered : bool
        Whether the rows have the predictors in the order of the schema, see `ModelForm`.
    """

    budget: Budget
    solver: object = "auto"
    relation: str = "replace"
    l2: float = 0.0
    inference: bool | BudgetSplit = True
    n_rows: int | None = None
    ledger: LedgerOrPath | None = None
    dataset: str | None = None
    schema: Schema | None = None
    random_state: object = None
    shares: ShareRule = field(default_factory=ShareRule)
    before: tuple[PlannedRelease, ...] = ()
    bought: BoughtBounds | None = None
    ordered: bool = True

    def __post_init__(self) -> None:
        if self.ledger is not None and self.dataset is None:
            raise InvalidArgument("dataset is needed with ledger: name the data set that pays")
        if self.ledger is None and self.dataset is not None:
            raise InvalidArgument("dataset names an account in a ledger; give ledger too, or leave it out")
        if not isinstance(self.inference, bool | np.bool_ | BudgetSplit):
            kind = type(self.inference).__name__
            raise InvalidArgument(f"inference must be True, False or a BudgetSplit, got {kind}")
        if self.bought is not None and self.before != tuple(one.planned for one in self.bought.releases):
            raise PlanViolation("the looks that were taken are not those that the budget is charged with")

    @property
    def method(self) -> AbstractSolver:
        """The solver behind the name or instance; what is usual for ``"auto"``."""
        return resolve(self.solver, inference=bool(self.inference))

    @property
    def allowance(self) -> Allowance:
        """What the fit may cost: the budget less the cost of the looks; no limit without privacy."""
        if isinstance(self.method, NonPrivate):
            return Allowance.unlimited()
        amounts = [look.mu if look.epsilon is None else look.epsilon for look in self.before]
        events = [event for look in self.before if (event := look.event) is not None]
        whole = Allowance.of(self.budget)
        return whole.after(amounts, events) if self.before else whole

    def settled(self, problem: Problem) -> Self:
        """Return these options with the solver of a fit of this problem, and what it spends of the budget."""
        alone, inference = self.ledger is None and not self.before, bool(self.inference)
        solver, spent = settle(self.solver, problem, self.budget, inference=inference, alone=alone)
        return replace(self, solver=solver, budget=spent)

    def noise(self) -> NoiseSource:
        """Return the source of the noise."""
        if self.bought is not None:
            return self.bought.source
        if isinstance(self.method, NonPrivate):
            return NoNoise()
        return make_source(self.random_state)


def public_rows(n_rows: int, options: FitOptions) -> int:
    """Return the public number of rows, or raise where the relation keeps it private and none is given."""
    if Relation(options.relation) is Relation.REPLACE:
        if options.n_rows is not None:
            raise InvalidArgument(
                "n_rows is public under relation='replace' and read off the data; leave it out"
            )
        return whole(n_rows=n_rows)
    if options.n_rows is None:
        raise InvalidArgument(
            "n_rows is needed under relation='add_remove', where the number of rows is private: "
            "give a public approximate number"
        )
    return whole(n_rows=options.n_rows)
