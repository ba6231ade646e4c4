"""One fit, from raw columns to a result: encode, plan, reserve, release, infer, report."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from privfit import _progress
from privfit._checks import FloatArray, in_range, whole
from privfit._sealed import sealed, withheld
from privfit._threads import small_matrices
from privfit.data.clamp import Weighting, default_norm_bound, influence_weights, schweppe_weights
from privfit.data.coded import Storage, storage_of
from privfit.data.design import Design
from privfit.data.encode import Encoder, predictors_as
from privfit.data.schema import Schema
from privfit.data.shares import RowShares, ShareRule
from privfit.data.source import MOST_ROWS, ArraySource, RowSource
from privfit.data.stores import AbstractRowStore, AbstractStoredRows
from privfit.data.stream import RowStream
from privfit.data.tables import NO_ROW, Table
from privfit.errors import Incompatible, InvalidArgument, SchemaError, TooLittleData
from privfit.estimators.models import Model
from privfit.estimators.reserved import ReservedSpend
from privfit.estimators.shares import arguments_of
from privfit.inference.infer import BudgetSplit, Inference, estimate_only, infer
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import compose
from privfit.privacy.ledger import Ledger
from privfit.privacy.mechanisms import NoiseSource, NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Plan
from privfit.results import FitResult, PrivacyStatement
from privfit.results.form import ModelForm
from privfit.solvers import AbstractSolver, NonPrivate, resolve, settle

RawRows: TypeAlias = Table | RowStream | AbstractRowStore
"""What a fit can be made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitOptions:
    """Everything about a fit but the data and the model.

    Parameters
    ----------
    budget : Budget
        What the fit may spend. Ignored by ``solver="non-private"``.
    solver : str or AbstractSolver
        A name (``"auto"``, ``"gradient-descent"``, ``"newton"``, ``"non-private"``) or an instance from
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
    """

    budget: Budget
    solver: object = "auto"
    relation: str = "replace"
    l2: float = 0.0
    inference: bool | BudgetSplit = True
    n_rows: int | None = None
    ledger: "Ledger | str | None" = None
    dataset: str | None = None
    schema: Schema | None = None
    random_state: object = None
    shares: ShareRule = field(default_factory=ShareRule)

    def __post_init__(self) -> None:
        if self.ledger is not None and self.dataset is None:
            raise InvalidArgument("dataset is needed with ledger: name the data set that pays")
        if self.ledger is None and self.dataset is not None:
            raise InvalidArgument("dataset names an account in a ledger; give ledger too, or leave it out")
        if not isinstance(self.inference, bool | np.bool_ | BudgetSplit):
            kind = type(self.inference).__name__
            raise InvalidArgument(f"inference must be True, False or a BudgetSplit, got {kind}")

    @property
    def method(self) -> AbstractSolver:
        """The solver behind the name or instance; what is usual for ``"auto"``."""
        return resolve(self.solver, inference=bool(self.inference))

    def settled(self, problem: Problem) -> AbstractSolver:
        """Return the solver of a fit of this problem."""
        return settle(self.solver, problem, self.budget, inference=bool(self.inference))


@sealed
def fit(model: Model, encoder: Encoder, table: RawRows, options: FitOptions) -> tuple[FitResult, FloatArray]:
    """Fit a model to a table.

    Parameters
    ----------
    model : Model
    encoder : Encoder
        Built from public facts.
    table : Table, RowStream or AbstractRowStore
        The rows.
    options : FitOptions

    Returns
    -------
    result : FitResult
    theta : array of shape (n_linear,)
        Released coefficients of the encoded columns, p for each linear predictor of the loss, for
        prediction.

    Raises
    ------
    PrivfitError
        A named subclass: before any budget is spent, if the table's form, the plan or the ledger do not
        allow the fit; after it, if cells do not, as a label that was not declared. Errors of other packages
        come as an `UnexpectedError` without their message, and none keeps a frame in which rows are.

    Notes
    -----
    *Guarantee.* The result is ``options.budget``-private under ``options.relation``, for one row, or for all
    rows of one value of ``options.shares.unit``.
    """
    try:
        with _progress.running("fitting"):
            return _fit(model, encoder, table, options)
    except Exception as error:
        failure = withheld(error)
    raise failure


def _fit(model: Model, encoder: Encoder, raw: RawRows, options: FitOptions) -> tuple[FitResult, FloatArray]:
    if isinstance(raw, RowStream):
        refuse_many_passes(options)
    table = _stored(model, encoder, raw, options) if isinstance(raw, AbstractRowStore) else raw
    shares = _shares(table, options)
    n_units = table.n_rows if shares is None else shares.n_units
    if n_units == 0 and Relation(options.relation) is Relation.REPLACE:
        nobody = f"unit: no row has an identifier in {options.shares.unit!r}, so there is nobody to count"
        raise SchemaError(NO_ROW if table.n_rows == 0 else nobody)
    problem = make_problem(model, encoder.design, options, n_rows=public_rows(n_units, options))
    plan = plan_fit(problem, options)
    noise = _noise(options)
    encoded = _ready(encoder, table, problem, shares, _storage(problem, options))
    del table  # workers let go of rows that are not bounded
    reservation = ReservedSpend.of(
        plan, options.ledger, options.dataset, options.schema, seeded=not noise.private
    )
    _progress.expect("passes", len(plan.releases), rows=problem.n_rows)
    outcome = carry_out(model, encoder, options, Oracle(problem, plan, encoded(), noise))
    reservation.commit()
    return outcome


def carry_out(
    model: Model, encoder: Encoder, options: FitOptions, oracle: Oracle
) -> tuple[FitResult, FloatArray]:
    """Ask an oracle all that is planned and return what `fit` does."""
    problem = oracle.problem
    matrix, shift = reporting_map(problem, encoder.design)
    with small_matrices(problem.size):
        solution = options.settled(problem).run(problem, oracle)
        inference = (
            infer(solution, oracle, directions=matrix) if options.inference else estimate_only(solution)
        )
    estimate = matrix @ inference.theta + shift
    return _result(
        model=model,
        encoder=encoder,
        options=options,
        oracle=oracle,
        inference=inference,
        estimate=estimate,
    ), inference.theta


def reporting_map(problem: Problem, design: Design) -> tuple[FloatArray, FloatArray]:
    """Return ``(A, b)`` with ``reported = A @ coefficients + b``, for all linear predictors of the loss.

    With several, differences are reported that are free of the response's scale and centre.
    """
    matrix, shift = design.reporting_map()
    return np.asarray(np.kron(problem.loss.reported, matrix), dtype=np.float64), np.tile(
        shift, problem.loss.n_outputs
    )


def refuse_many_passes(options: FitOptions) -> None:
    """Raise unless a fit reads every row once, as a stream allows."""
    if not options.method.one_pass:
        raise Incompatible("solver: a stream of rows is read once; use solver=OnlineToBatch()")
    if options.inference:
        raise Incompatible(
            "inference: a stream of rows is read once, and standard errors need another pass; "
            "fit with inference=False"
        )
    if not options.shares.plain:
        raise Incompatible(
            f"{arguments_of(options.shares)}: a stream of rows is read once, so that the rows of a unit "
            "cannot be gathered and survey weights are not read; pass a table"
        )


def _storage(problem: Problem, options: FitOptions) -> Storage:
    """Return the type that numbers of the rows are kept in."""
    return storage_of(problem.n_rows, private=not isinstance(options.method, NonPrivate))


def weighting_of(problem: Problem) -> Weighting:
    """Return how a loss has its rows bounded."""
    return schweppe_weights if problem.loss.scales_rows else influence_weights


def _stored(
    model: Model, encoder: Encoder, store: AbstractRowStore, options: FitOptions
) -> AbstractStoredRows:
    """Return the rows of a store, encoded where they lie, once public facts allow the fit."""
    if not options.shares.plain:
        raise Incompatible(
            f"{arguments_of(options.shares)}: a cache or cluster does not keep identifiers and survey "
            "weights; pass a table in memory"
        )
    known = store.n_rows or options.n_rows
    problem = make_problem(model, encoder.design, options, n_rows=public_rows(known or MOST_ROWS, options))
    return store.rows(
        encoder,
        norm_bound=problem.norm_bound,
        weighting=weighting_of(problem),
        storage=_storage(problem, options) if known else "float64",
    )


def _shares(table: Table | RowStream | AbstractStoredRows, options: FitOptions) -> RowShares | None:
    """Return which unit each row belongs to and how much it counts; None if all count alike."""
    if not isinstance(table, Table) or options.shares.plain:
        return None
    if table.n_rows > MOST_ROWS:
        raise InvalidArgument(f"data must have at most {MOST_ROWS} rows")
    with np.errstate(all="ignore"):  # a warning would depend on cells
        return options.shares.read(table)


def _ready(
    encoder: Encoder,
    table: Table | RowStream | AbstractStoredRows,
    problem: Problem,
    shares: RowShares | None,
    storage: Storage,
) -> Callable[[], RowSource]:
    """Return what bounds the rows, after a look at their form: what it finds wrong costs no budget.

    The form is what a table without rows would have, too, and that all labels are declared. Whatever else
    depends on cells comes after the reservation. The rows of a stream are read later still.
    """
    if isinstance(table, AbstractStoredRows):
        kept = table.source(norm_bound=problem.norm_bound, storage=storage)
        return lambda: kept
    weighting = weighting_of(problem)
    if isinstance(table, RowStream):
        stream = table.source(encoder, norm_bound=problem.norm_bound, weighting=weighting)
        return lambda: stream
    encoder.encode(table.part(slice(0, 0)))
    labels = None if encoder.design.target.labels is None else encoder.encode_target(table)

    def encoded() -> RowSource:
        with np.errstate(all="ignore"):  # a warning would depend on cells
            x = predictors_as(encoder, table, storage)
            y = encoder.encode_target(table) if labels is None else labels
            return ArraySource(x, y, norm_bound=problem.norm_bound, weighting=weighting, shares=shares)

    return encoded


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


def make_problem(model: Model, design: Design, options: FitOptions, *, n_rows: int) -> Problem:
    """Return the public problem that a fit solves.

    Where nothing declares how long rows may be, the solver says it.
    """
    loss = model.loss(design)
    in_range(0.0, math.inf, closed="left", l2=options.l2)
    if n_rows > MOST_ROWS:
        raise InvalidArgument(f"n_rows must be at most {MOST_ROWS}")
    n_coef = len(design.columns) * loss.n_outputs
    if n_rows < 2 * n_coef and not isinstance(options.method, NonPrivate):
        rows = f"{n_rows} rows" if options.shares.unit is None else f"so few of {options.shares.unit!r}"
        raise TooLittleData(f"{rows} cannot support {n_coef} coefficients; give at least {2 * n_coef}")
    start = [0.0] * n_coef
    if loss.has_scale:
        start.append(0.5 if design.target.bounded else 1.0)
    declared = design.norm_bound
    problem = Problem(
        loss=loss,
        columns=design.names,
        norm_bound=default_norm_bound(len(design.columns)) if declared is None else declared,
        n_rows=n_rows,
        relation=Relation(options.relation),
        l2=options.l2,
        start=tuple(start),
        bounded=design.bounded,
        indicators=tuple(column.indicator for column in design.columns),
        factors=design.factors,
        response_bound=1.0 if design.target.bounded else design.target.count_bound,
        penalised=tuple(k > 0 or not design.has_intercept for k in range(len(design.columns))),
        shares=options.shares,
    )
    if declared is not None:
        return problem
    bound = options.method.norm_bound(problem, Allowance.of(options.budget))
    return replace(problem, norm_bound=bound)


def plan_fit(problem: Problem, options: FitOptions) -> Plan:
    """Return the plan of a fit, and check that it is within the budget."""
    solver = options.settled(problem)
    if isinstance(solver, NonPrivate):
        return make_plan(problem, solver, Allowance.unlimited(), inference=options.inference)
    plan = make_plan(problem, solver, Allowance.of(options.budget), inference=options.inference)
    if not plan.private or not compose(plan.events).within(options.budget):
        raise Incompatible("solver: its plan exceeds the budget")
    return plan


def _noise(options: FitOptions) -> NoiseSource:
    if isinstance(options.method, NonPrivate):
        return NoNoise()
    return make_source(options.random_state)


def _result(
    *,
    model: Model,
    encoder: Encoder,
    options: FitOptions,
    oracle: Oracle,
    inference: Inference,
    estimate: FloatArray,
) -> FitResult:
    design = encoder.design
    scale = None if inference.scale is None else inference.scale * design.target.half_width
    return FitResult(
        model=model.fitted_title(oracle.problem.loss, design),
        target=design.target.name,
        names=design.reported_names,
        estimate=np.asarray(estimate),
        cov_sampling=inference.cov_sampling,
        cov_noise=inference.cov_noise,
        dof=inference.dof,
        joint_dof=inference.joint_dof,
        scale=scale,
        statement=PrivacyStatement.of(
            options.budget, oracle.plan, private=oracle.private, noise=oracle.noise_label
        ),
        plan=oracle.plan,
        releases=oracle.released if oracle.plan.private else (),
        form=ModelForm(
            columns=design.names,
            terms=design.terms,
            link=model.link,
            classes=() if design.target.labels is None else tuple(map(str, design.target.labels)),
            centers=tuple(column.center for column in design.columns),
            half_widths=tuple(column.half_width for column in design.columns),
            quantile=model.quantile,
        ),
        encoder=encoder,
    )
