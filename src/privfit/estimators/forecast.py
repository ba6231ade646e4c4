"""Plan a fit without data, and say what it would buy."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from privfit.data.declarations import NumericColumn
from privfit.data.encode import Encoder
from privfit.data.schema import Schema
from privfit.data.tables import Table
from privfit.estimators.fit import FitOptions, make_problem, plan_fit, reporting_map
from privfit.estimators.models import Model
from privfit.planning import Forecast, forecast
from privfit.problem.plan import Plan

_GRID_ROWS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class PlannedFit:
    """A plan and its forecast."""

    plan: Plan
    forecast: Forecast


def forecast_fit(
    model: Model, encoder: Encoder, schema: Schema, options: FitOptions, *, n_rows: int
) -> PlannedFit:
    """Return the plan of a fit of ``n_rows`` rows and what it is expected to buy.

    The forecast assumes independent columns, uniform over their declared ranges and levels.
    """
    problem = make_problem(model, encoder.design, options, n_rows=n_rows)
    plan = plan_fit(problem, options)
    x = encoder.encode_predictors(uniform_table(schema, encoder.needed[:-1]))
    x = x[np.isfinite(x).all(axis=1)]
    matrix, _ = reporting_map(problem, encoder.design)
    expected = forecast(
        problem,
        options.method,
        plan,
        moment=x.T @ x / len(x),
        directions=matrix,
        names=encoder.design.reported_names,
    )
    return PlannedFit(plan, expected)


def uniform_table(schema: Schema, names: tuple[str, ...]) -> Table:
    """Return a public table whose columns cover their ranges and levels evenly (a Sobol sequence)."""
    points = qmc.Sobol(max(len(names), 1), scramble=False).random(_GRID_ROWS)
    columns = []
    for k, name in enumerate(names):
        column = schema[name]
        if isinstance(column, NumericColumn):
            columns.append((name, column.lower + points[:, k] * (column.upper - column.lower)))
        else:
            levels = np.array(column.levels, dtype=object)
            columns.append((name, levels[(points[:, k] * len(levels)).astype(int)]))
    return Table(columns)
