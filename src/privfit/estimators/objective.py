"""The public problem that a fit solves, and its plan."""

from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray, in_range, optional, sized
from privfit.data.clamp import Weighting, default_norm_bound, influence_weights, schweppe_weights
from privfit.data.design import Design
from privfit.data.source import MOST_ROWS
from privfit.errors import Incompatible, InvalidArgument, TooLittleData
from privfit.estimators.models import Model
from privfit.estimators.options import FitOptions
from privfit.planning import make_plan, preceded
from privfit.privacy.composition import compose
from privfit.privacy.relation import Relation
from privfit.problem.objective import LARGEST_RIDGE, Problem
from privfit.problem.plan import Plan
from privfit.solvers import NonPrivate


def make_problem(model: Model, design: Design, options: FitOptions, *, n_rows: int) -> Problem:
    """Return the public problem that a fit solves.

    Where nothing declares how long rows may be, the solver says it.
    """
    loss = model.loss(design)
    in_range(0.0, LARGEST_RIDGE, l2=options.l2)
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
    optional(sized, norm_bound=declared)
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
        numbers=design.numbers,
        margins=design.margins,
        cells=design.cells,
        response_bound=1.0 if design.target.bounded else design.target.count_bound,
        penalised=tuple(k > 0 or not design.has_intercept for k in range(len(design.columns))),
        shares=options.shares,
        exposure=design.target.exposure,
        constant=design.constant if design.has_intercept or options.l2 == 0.0 else (),
    )
    if declared is not None:
        return problem
    bound = options.method.norm_bound(problem, options.allowance)
    return replace(problem, norm_bound=bound)


def plan_fit(problem: Problem, options: FitOptions) -> Plan:
    """Return the plan of a fit, and check that it is within the budget."""
    options = options.settled(problem)
    plan = make_plan(problem, options.method, options.allowance, inference=options.inference)
    if isinstance(options.method, NonPrivate):
        return plan
    whole = preceded(plan, options.before)
    if not plan.private or not compose(whole.events).within(options.budget):
        raise Incompatible("solver: its plan exceeds the budget")
    return plan


def weighting_of(problem: Problem) -> Weighting:
    """Return how a loss has its rows bounded."""
    return schweppe_weights if problem.loss.scales_rows else influence_weights


def reporting_map(problem: Problem, design: Design) -> tuple[FloatArray, FloatArray]:
    """Return ``(A, b)`` with ``reported = A @ coefficients + b``, for all linear predictors of the loss.

    With several, differences are reported that are free of the response's scale and centre.
    """
    matrix, shift = design.reporting_map()
    return np.asarray(np.kron(problem.loss.reported, matrix), dtype=np.float64), np.tile(
        shift, problem.loss.n_outputs
    )
