"""Public rows that stand in for private ones, so that a plan can be rehearsed."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
from scipy.special import expit, ndtr, ndtri, softmax
from scipy.stats import poisson, qmc

from privfit._checks import FloatArray, IntArray, in_range
from privfit.data.blocks import Block, BlockKernel, UnitKernel
from privfit.data.caps import SlopeBounds
from privfit.data.declarations import CategoricalColumn, Column, NumericColumn
from privfit.data.design import INTERCEPT, Design, Target
from privfit.data.encode import AbstractEncoder
from privfit.data.schema import Schema
from privfit.data.source import ArraySource, Coins, RowSource
from privfit.data.tables import Table, open_table, with_rows
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import (
    DEFAULT_BASE_RATE,
    DEFAULT_COUNT,
    Assumptions,
    as_shares,
)
from privfit.estimators.counting import counted
from privfit.estimators.objective import weighting_of
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


class StandIn:
    """A few public rows, over and over, as a table of many: a `RowSource`.

    Sums are those over the few rows, scaled up, so that a mean is as quick for a billion rows as for a
    thousand.

    Parameters
    ----------
    rows : RowSource
    n_rows : int
        Number of rows that they stand for.
    """

    __slots__ = ("_rows", "n_rows")

    def __init__(self, rows: RowSource, n_rows: int) -> None:
        self._rows, self.n_rows = rows, n_rows

    @property
    def unit(self) -> str | None:
        """Name of the column by which the few rows were grouped, or None."""
        return self._rows.unit

    @property
    def n_units(self) -> int:
        """Number of privacy units that they stand for."""
        return self.n_rows

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._rows.norm_bound

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum over the few rows, scaled up."""
        return self._rows.sum(kernel, size) * (self.n_rows / self._rows.n_rows)

    def sum_units(self, kernel: UnitKernel, size: int) -> FloatArray:
        """Return the sum over the few units, scaled up."""
        return self._rows.sum_units(kernel, size) * (self.n_rows / self._rows.n_units)

    def blocks(self) -> Iterator[Block]:
        """Return the few rows again and again, until they are many."""
        left = self.n_rows
        while left > 0:
            for block in self._rows.blocks():
                part = block.part(slice(min(left, block.y.size)))
                yield part
                left -= part.y.size

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers, counted round and round."""
        return self._rows.take(indices % self._rows.n_rows)

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "StandIn":
        """Return the same rows with other weights."""
        rows = self._rows.reweighted(basis, norm_bound=norm_bound, amplification=amplification, slopes=slopes)
        return StandIn(rows, self.n_rows)

    def exposed(self, shift: float, most: float) -> "StandIn":
        """Return the same rows with other exposures."""
        return StandIn(self._rows.exposed(shift, most), self.n_rows)

    def sampled(self, coins: Coins, part: float) -> "StandIn":
        """Return the same rows, standing for fewer."""
        del coins
        return StandIn(self._rows, max(round(part * self.n_rows), 1))


def standing_in(rows: tuple[FloatArray, FloatArray], problem: Problem, n_rows: int) -> StandIn:
    """Return encoded rows, bounded and counted as the problem has them, as a table of ``n_rows``."""
    shares = counted(problem.shares, len(rows[1]))
    weighting = weighting_of(problem)
    offset = None if problem.exposure is None else np.zeros(len(rows[1]))
    source = ArraySource(
        *rows, norm_bound=problem.norm_bound, weighting=weighting, shares=shares, offset=offset
    )
    return StandIn(source, n_rows)


def stand_in_rows(
    encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions
) -> tuple[FloatArray, FloatArray]:
    """Return encoded rows ``x`` (m, p) and responses ``y`` (m,) as the assumptions have them.

    Raises
    ------
    InvalidArgument
        If an assumption contradicts the schema or the model.
    """
    table, chance = _assumed(encoder, schema, assumptions)
    if chance is None:
        return complete_rows(encoder, table)
    x = encoder.encode_predictors(table)
    y = _bounded(_responses(encoder, schema, assumptions, (x, chance)), encoder.design.target)
    return _complete(x, y)


def complete_rows(encoder: AbstractEncoder, table: Table) -> tuple[FloatArray, FloatArray]:
    """Return the encoded rows ``x`` (m, p) and ``y`` (m,) of a table that lack no cell."""
    return _complete(*encoder.encode(table))


def _complete(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    kept = np.isfinite(x).all(axis=1) & np.isfinite(y)
    return x[kept], y[kept]


def stand_in_table(encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions) -> Table:
    """Return rows as the assumptions have them, as they come: no bound of the response cuts them.

    Parameters and errors as in `stand_in_rows`. Rows of a reference table may lack cells.
    """
    table, chance = _assumed(encoder, schema, assumptions)
    if chance is None:
        return table
    response = encoder.needed[-1]
    y = _responses(encoder, schema, assumptions, (encoder.encode_predictors(table), chance))
    return table.joined([(response, _raw(np.nan_to_num(y), encoder.design.target, schema[response]))])


def _assumed(
    encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions
) -> tuple[Table, FloatArray | None]:
    """Return raw rows, and the chances (m,) by which their responses are drawn; None if they have some."""
    names, response = encoder.needed[:-1], encoder.needed[-1]
    assumptions.check(schema, response)
    if assumptions.reference is None:
        points = _even(len(names) + 2)
        return assumed_table(schema, names, assumptions, points[:, :-1]), points[:, -1]
    table = with_rows(open_table(assumptions.reference))
    if response in table.names:
        assumptions.without_response()
        return open_table(table, needed=encoder.needed), None
    return open_table(table, needed=names), _even(1, table.n_rows)[:, 0]


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
    encoder: AbstractEncoder, schema: Schema, assumptions: Assumptions, rows: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """Return encoded responses that follow the assumed model, before bounds cut them; NaN for rows with NaN.

    ``rows`` are predictors (m, p) and the quantile (m,) of each row's law that its response is.
    """
    (x, chance), column = rows, schema[encoder.needed[-1]]
    kept = np.isfinite(x).all(axis=1)
    found = np.full(len(x), math.nan)
    found[kept] = _law(encoder.design, column)(x[kept], chance[kept], encoder.design, assumptions)
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


def _counts(x: FloatArray, chance: FloatArray, design: Design, assumptions: Assumptions) -> FloatArray:
    bound = design.target.count_bound or 0.0
    given = (
        max(DEFAULT_COUNT * bound, min(1.0, 0.5 * bound)) if assumptions.mean is None else assumptions.mean
    )
    mean = in_range(0.0, bound, closed="neither", mean=given)
    eta = _slopes(x, design, assumptions, unit=1.0, signal=0.5)[:, 0]
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
