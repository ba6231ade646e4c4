"""Public rows that stand in for private ones, so that a plan can be rehearsed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, ndtr, ndtri, softmax
from scipy.stats import poisson, qmc

from privfit._checks import FloatArray, in_range, positive
from privfit.data.columns import naming
from privfit.data.declarations import CategoricalColumn, Column, NumericColumn
from privfit.data.declared import encode_numeric
from privfit.data.design import INTERCEPT, Design, Target
from privfit.data.encode import AbstractEncoder
from privfit.data.schema import Schema
from privfit.data.source import ArraySource
from privfit.data.tables import Table, open_table, with_rows
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import (
    DEFAULT_BASE_RATE,
    DEFAULT_COUNT,
    Assumptions,
    as_shares,
)
from privfit.estimators.counting import counted, uneven, usual_weight
from privfit.estimators.objective import weighting_of
from privfit.estimators.repeated_rows import RepeatedRows
from privfit.losses.typical import USUAL_RESIDUAL
from privfit.problem.objective import Problem

LOG_ROWS = 13
"""Logarithm to base 2 of the number of stand-in rows."""

_WIDEST = 40.0
"""Largest intercept that is looked for."""

_CONSTANT = 1e-9
"""Standard deviation below which a column does not vary."""

_RAKINGS = 50
"""Rounds in which intercepts are moved towards the wanted shares of the classes."""


@dataclass(frozen=True, slots=True, eq=False)
class StandInRows:
    """Encoded rows that lack no cell.

    Parameters
    ----------
    x : array of shape (m, p)
    y : array of shape (m,)
        Responses.
    weight : array of shape (m,)
        Survey weights in their unit; 1 where there are none.
    offset : array of shape (m,) or None
        Logarithms of the exposures of counts that have some.
    """

    x: FloatArray
    y: FloatArray
    weight: FloatArray
    offset: FloatArray | None


def standing_in(rows: StandInRows, problem: Problem, n_rows: int) -> RepeatedRows:
    """Return encoded rows, bounded and counted as the problem has them, as a table of ``n_rows``."""
    shares, exposure, offset = counted(problem.shares, rows.weight), problem.exposure, rows.offset
    if exposure is not None and offset is not None:
        offset = offset - exposure.center(constant=bool(problem.constant))
    bounded = {"norm_bound": problem.norm_bound, "weighting": weighting_of(problem)}
    return RepeatedRows(ArraySource(rows.x, rows.y, **bounded, shares=shares, offset=offset), n_rows)


def stand_in_rows(encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions) -> StandInRows:
    """Return encoded rows and their responses as the assumptions have them.

    Raises
    ------
    InvalidArgument
        If an assumption contradicts the schema or the model.
    """
    table, chance = _assumed(encoder, schema, assumptions)
    if chance is None:
        return complete_rows(encoder, table, schema)
    x, offset = encoder.encode_predictors(table), _logarithms(encoder, table)
    y = _bounded(_responses(encoder, schema, assumptions, (x, offset, chance)), encoder.design.target)
    return _complete(x, y, _weights(table, schema), offset)


def complete_rows(encoder: AbstractEncoder, table: Table, schema: Schema) -> StandInRows:
    """Return the encoded rows of a table that lack no cell, with the weights that the schema marks."""
    y, offset = encoder.encode_response(table)
    return _complete(encoder.encode_predictors(table), y, _weights(table, schema), offset)


def _complete(x: FloatArray, y: FloatArray, weight: FloatArray, offset: FloatArray | None) -> StandInRows:
    kept = np.isfinite(x).all(axis=1) & np.isfinite(y)
    _need_some(found=bool(np.any(kept & (weight > 0.0))))
    return StandInRows(x[kept], y[kept], weight[kept], None if offset is None else offset[kept])


def _need_some(*, found: bool) -> None:
    """Raise `InvalidArgument` where no row was found that counts."""
    if not found:
        raise InvalidArgument(
            "reference has no row that counts: each lacks a cell that the plan reads, or its weight is 0"
        )


def _weights(table: Table, schema: Schema) -> FloatArray:
    """Return survey weights, 0 where one is missing; or 1 for all rows."""
    weights = schema.numbers(schema.weight)
    if weights is None:
        return np.ones(table.n_rows)
    with naming(weights[0]):
        return np.nan_to_num(encode_numeric(table.values(weights[0]), weights[1]))


def _logarithms(encoder: AbstractEncoder, table: Table) -> FloatArray | None:
    """Return the logarithms of exposures, NaN where there is none; None for responses without some."""
    exposure = encoder.design.target.exposure
    return None if exposure is None else exposure.read(table)


def stand_in_table(encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions) -> Table:
    """Return rows as the assumptions have them, as they come: no bound of the response cuts them.

    Parameters and errors as in `stand_in_rows`. Rows of a reference table may lack cells.
    """
    table, chance = _assumed(encoder, schema, assumptions)
    if chance is None:
        return table
    response, offset = encoder.needed[-1], _logarithms(encoder, table)
    y = _responses(encoder, schema, assumptions, (encoder.encode_predictors(table), offset, chance))
    return table.joined([(response, _raw(np.nan_to_num(y), encoder.design.target, schema[response]))])


def _assumed(
    encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions
) -> tuple[Table, FloatArray | None]:
    """Return raw rows, and the chances (m,) by which their responses are drawn; None if they have some."""
    names, response = encoder.needed[:-1], encoder.needed[-1]
    assumptions.check(schema, response)
    if assumptions.reference is None:
        if schema.weight in names:
            assumptions.without_mean_weight(schema.weight)
        points = _even(len(names) + 4)
        table = assumed_table(schema, names, assumptions, points[:, :-3])
        return _with_roles(table, encoder, schema, assumptions, points[:, -2:]), points[:, -3]
    table = with_rows(open_table(assumptions.reference))
    if schema.weight in table.names:
        assumptions.without_weights()
    if response in table.names:
        assumptions.without_response()
        names = (*names, response)
    table = _with_roles(table, encoder, schema, assumptions, _even(2, table.n_rows))
    roles = [role for role in (schema.weight, *encoder.design.target.beside) if role is not None]
    table = open_table(table, needed=tuple(dict.fromkeys((*names, *roles))))
    return table, None if response in names else _even(1, table.n_rows)[:, 0]


def _with_roles(
    table: Table, encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions, chances: FloatArray
) -> Table:
    """Return the table with the weights and exposures that it lacks, at quantiles (m, 2) of their laws."""
    found, weights, exposure = [], schema.numbers(schema.weight), encoder.design.target.exposure
    if weights is not None and weights[0] not in table.names:
        (name, column), mean = weights, usual_weight(*weights, assumptions)
        found.append((name, uneven(column, mean, assumptions.given_sd(*weights), chances[:, 0])))
    if exposure is not None and exposure.name not in table.names:
        name, column = exposure.name, exposure.column
        mean = positive(**{f"center of {name!r}": assumptions.center_of(name, column)})
        found.append((name, uneven(column, mean, assumptions.given_sd(name, column), chances[:, 1])))
    return table.joined(found)


def assumed_table(
    schema: Schema, names: tuple[str, ...], assumptions: Assumptions, points: FloatArray
) -> Table:
    """Return a table with the assumed marginals and correlation.

    Parameters
    ----------
    schema : Schema
    names : tuple of str
        Its k columns.
    assumptions : Assumptions
    points : array of shape (m, k + 1)
        Points that fill the open unit cube evenly; the first coordinate is the common factor.
    """
    normal, share = ndtri(points), assumptions.correlation
    joint = np.sqrt(share) * normal[:, :1] + np.sqrt(1.0 - share) * normal[:, 1:]
    columns = []
    for k, name in enumerate(names):
        column = schema[name]
        if isinstance(column, NumericColumn):
            around = assumptions.center_of(name, column), assumptions.sd_of(name, column)
            columns.append((name, _numbers(column, joint[:, k], *around)))
        else:
            shares = assumptions.shares_of(name, column)
            columns.append((name, _levels(column, ndtr(joint[:, k]), shares)))
    return Table(columns or [("constant", np.ones(len(points)))])


def _even(dimension: int, count: int = 1 << LOG_ROWS) -> FloatArray:
    """Return points that fill the open unit cube evenly, shape (count, dimension): a Sobol sequence."""
    log_count = (count - 1).bit_length()
    points = qmc.Sobol(dimension, scramble=False).random_base2(log_count)
    return np.asarray(points[:count] + 0.5 ** (log_count + 1), dtype=np.float64)


def _numbers(column: NumericColumn, normal: FloatArray, center: float, sd: float) -> FloatArray:
    values = np.clip(center + sd * normal, *column.limits)
    return np.clip(column.untransformed(values), column.lower, column.upper)


def _levels(column: CategoricalColumn, uniform: FloatArray, shares: FloatArray) -> np.ndarray:
    codes = np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right")
    return np.array(column.levels, dtype=object)[codes]


def _responses(
    encoder: AbstractEncoder,
    schema: Schema,
    assumptions: Assumptions,
    rows: tuple[FloatArray, FloatArray | None, FloatArray],
) -> FloatArray:
    """Return encoded responses that follow the assumed model, before bounds cut them; NaN for rows with NaN.

    ``rows`` are predictors (m, p), logarithms of exposures (m,) where counts have some, and the quantile (m,)
    of each row's law that its response is.
    """
    (x, offset, chance), column = rows, schema[encoder.needed[-1]]
    kept = np.isfinite(x).all(axis=1)
    law = _law(encoder.design, column)
    if offset is not None:
        kept &= np.isfinite(offset)
        law = partial(law, offset=offset[kept])
    _need_some(found=bool(kept.any()))
    found = np.full(len(x), math.nan)
    found[kept] = law(x[kept], chance[kept], encoder.design, assumptions)
    return found


def _law(design: Design, column: Column) -> Callable[..., FloatArray]:
    """Return what finds encoded responses, by what they are."""
    if design.target.labels is not None:
        return _binary if len(design.target.labels) == 2 else _classes
    if design.target.count_bound is not None:
        return _counts
    assert isinstance(column, NumericColumn)  # noqa: S101 -- as the encoder has checked
    return partial(_numeric, column=column)


def _bounded(y: FloatArray, target: Target) -> FloatArray:
    """Return encoded responses within their bounds."""
    if target.labels is not None:
        return y
    return np.clip(y, -1.0, 1.0) if target.count_bound is None else np.minimum(y, target.count_bound)


def _raw(y: FloatArray, target: Target, column: Column) -> np.ndarray:
    """Return encoded responses as they come."""
    if isinstance(column, CategoricalColumn):
        return np.array(target.labels, dtype=object)[y.astype(np.intp)]
    if target.labels is not None:
        return np.array(target.labels, dtype=np.float64)[y.astype(np.intp)]
    least = 0.0 if column.transform == "sqrt" else -math.inf  # the square of less would be above 0 again
    return column.untransformed(np.maximum(target.center + target.half_width * y, least))


def _binary(x: FloatArray, chance: FloatArray, design: Design, assumptions: Assumptions) -> FloatArray:
    given = DEFAULT_BASE_RATE if assumptions.mean is None else assumptions.mean
    rate = in_range(0.0, 1.0, closed="neither", mean=given)
    eta = _slopes(x, design, assumptions, unit=1.0, signal=1.0)[:, 0]
    return (chance < expit(eta + _offset(design, expit, eta, rate))).astype(np.float64)


def _classes(x: FloatArray, chance: FloatArray, design: Design, assumptions: Assumptions) -> FloatArray:
    shares = as_shares(assumptions.mean, design.target.labels or (), what=design.target.name)
    eta = _slopes(x, design, assumptions, unit=1.0, signal=1.0)
    odds = np.column_stack([np.zeros(len(x)), eta]) + np.log(shares)
    for _ in range(_RAKINGS if design.has_intercept else 0):
        odds += np.log(shares / softmax(odds, axis=1).mean(axis=0))
    upper = np.cumsum(softmax(odds, axis=1), axis=1)[:, :-1]
    return (chance[:, None] >= upper).sum(axis=1).astype(np.float64)


def _counts(
    x: FloatArray,
    chance: FloatArray,
    design: Design,
    assumptions: Assumptions,
    offset: FloatArray | float = 0.0,
) -> FloatArray:
    bound = design.target.count_bound or 0.0
    given = (
        max(DEFAULT_COUNT * bound, min(1.0, 0.5 * bound)) if assumptions.mean is None else assumptions.mean
    )
    mean = in_range(0.0, bound, closed="neither", mean=given)
    eta = _slopes(x, design, assumptions, unit=1.0, signal=0.5)[:, 0] + offset
    return np.asarray(poisson.ppf(chance, np.exp(eta + _offset(design, np.exp, eta, mean))))


def _numeric(
    x: FloatArray, chance: FloatArray, design: Design, assumptions: Assumptions, column: NumericColumn
) -> FloatArray:
    target, sd = design.target, USUAL_RESIDUAL
    if assumptions.residual_sd is not None:
        sd = assumptions.residual_sd / target.half_width
    eta = _slopes(x, design, assumptions, unit=sd, signal=0.5)[:, 0]
    middle = 0.0
    if assumptions.mean is not None:
        mean = np.array([in_range(column.lower, column.upper, mean=assumptions.mean)])
        middle = (float(column.transformed(mean)[0]) - target.center) / target.half_width
    return eta + (middle - eta.mean() if design.has_intercept else 0.0) + sd * ndtri(chance)


def _slopes(
    x: FloatArray, design: Design, assumptions: Assumptions, *, unit: float, signal: float
) -> FloatArray:
    """Return the encoded predictors without their intercepts, shape (m, number of predictors).

    ``signal``, if the assumptions have none, is their standard deviation in units of ``unit``.
    """
    outputs = len(design.reported_names) // len(design.columns)
    if assumptions.coefficients is not None:
        return x @ _given(design, assumptions.coefficients).reshape(outputs, -1).T
    columns = x[:, int(design.has_intercept) :]
    sds = columns.std(axis=0)
    alternating = np.where(np.arange(max(sds.size, outputs)) % 2, -1.0, 1.0)
    total = columns @ np.where(sds > _CONSTANT, alternating[: sds.size] / np.maximum(sds, _CONSTANT), 0.0)
    wanted = unit * (signal if assumptions.signal is None else assumptions.signal)
    return np.outer(total * (wanted / max(float(total.std()), _CONSTANT)), alternating[:outputs])


def _given(design: Design, coefficients: Mapping[str, float]) -> FloatArray:
    """Return the given coefficients in encoded units, one for each reported name."""
    names = design.reported_names
    unknown = [name for name in coefficients if name not in names or name.endswith(INTERCEPT)]
    if unknown:
        raise InvalidArgument(
            f"coefficients names {unknown[0]!r}, which is no slope of this model; it has "
            f"{', '.join(name for name in names if not name.endswith(INTERCEPT))}; the intercept is from mean"
        )
    values = [in_range(-math.inf, math.inf, coefficients=coefficients.get(name, 0.0)) for name in names]
    of_outputs = np.reshape(values, (-1, len(design.columns)))
    return np.concatenate([design.encoded_slopes(slopes) for slopes in of_outputs])


def _offset(design: Design, mean_of: Callable[..., FloatArray], eta: FloatArray, wanted: float) -> float:
    """Return the intercept at which the mean response is the wanted one, by bisection; 0 without one."""
    if not design.has_intercept:
        return 0.0
    low, high = -_WIDEST, _WIDEST
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(np.mean(mean_of(eta + middle))) < wanted else (low, middle)
    return 0.5 * (low + high)
