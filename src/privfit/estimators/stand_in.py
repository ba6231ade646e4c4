"""Public rows that stand in for private ones, so that a plan can be rehearsed."""

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from scipy.special import expit, ndtr, ndtri, softmax
from scipy.stats import poisson, qmc

from privfit._checks import FloatArray, in_range
from privfit.data.blocks import Block, BlockKernel, RowTerms
from privfit.data.caps import SlopeBounds
from privfit.data.declarations import CategoricalColumn, NumericColumn
from privfit.data.design import INTERCEPT, Design
from privfit.data.encode import Encoder
from privfit.data.schema import Schema
from privfit.data.source import Coins, IntArray, RowSource
from privfit.data.tables import Table, open_table, with_rows
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import (
    DEFAULT_BASE_RATE,
    DEFAULT_COUNT,
    Assumptions,
    as_shares,
)
from privfit.losses.typical import USUAL_RESIDUAL

LOG_ROWS = 13
"""Logarithm to base 2 of the number of stand-in rows."""

_WIDEST = 40.0
"""Largest intercept that is looked for."""

_CONSTANT = 1e-9
"""Standard deviation below which a column does not vary."""

_RAKINGS = 50
"""Rounds in which intercepts are moved towards the wanted shares of the classes."""

_INVERSE = {None: lambda x: x, "log1p": np.expm1, "log": np.exp, "sqrt": np.square}


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

    def unit_sums(self, terms: RowTerms, size: int) -> FloatArray:
        """Return the terms of each unit, as often as it stands for others."""
        few = self._rows.unit_sums(terms, size)
        return few[np.arange(self.n_rows) % len(few)]

    @property
    def norm_bound(self) -> float:
        """Bound on ``sqrt(weight) * norm(x)``."""
        return self._rows.norm_bound

    def sum(self, kernel: BlockKernel, size: int) -> FloatArray:
        """Return the sum over the few rows, scaled up."""
        return self._rows.sum(kernel, size) * (self.n_rows / self._rows.n_rows)

    def blocks(self) -> Iterator[Block]:
        """Return the few rows again and again, until they are many."""
        left = self.n_rows
        while left > 0:
            for block in self._rows.blocks():
                part = min(left, block.y.size)
                yield Block(block.x[:part], block.y[:part], block.weight[:part])
                left -= part

    def take(self, indices: IntArray) -> Block:
        """Return the rows with these numbers, counted round and round."""
        return self._rows.take(indices % self._rows.n_rows)

    def reweighted(
        self, basis: FloatArray, *, norm_bound: float, amplification: float, slopes: SlopeBounds | None = None
    ) -> "StandIn":
        """Return the same rows with other weights."""
        rows = self._rows.reweighted(basis, norm_bound=norm_bound, amplification=amplification, slopes=slopes)
        return StandIn(rows, self.n_rows)

    def sampled(self, coins: Coins, part: float) -> "StandIn":
        """Return the same rows, standing for fewer."""
        del coins
        return StandIn(self._rows, max(round(part * self.n_rows), 1))


def stand_in_rows(
    encoder: Encoder, schema: Schema, assumptions: Assumptions
) -> tuple[FloatArray, FloatArray]:
    """Return encoded rows ``x`` (m, p) and responses ``y`` (m,) as the assumptions have them.

    Raises
    ------
    InvalidArgument
        If an assumption contradicts the schema or the model.
    """
    names, response = encoder.needed[:-1], encoder.needed[-1]
    assumptions.check(schema, response)
    if assumptions.reference is None:
        points = _even(len(names) + 2)
        table, chance = assumed_table(schema, names, assumptions, points[:, :-1]), points[:, -1]
    else:
        table = with_rows(open_table(assumptions.reference))
        answered = response in table.names
        table = open_table(table, needed=encoder.needed if answered else names)
        if answered:
            assumptions.without_response()
            x, y = encoder.encode(table)
            kept = np.isfinite(x).all(axis=1) & np.isfinite(y)
            return x[kept], y[kept]
        chance = _even(1, table.n_rows)[:, 0]
    x = encoder.encode_predictors(table)
    kept = np.isfinite(x).all(axis=1)
    return x[kept], _responses(x[kept], chance[kept], encoder.design, assumptions)


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
            columns.append((name, _numbers(column, joint[:, k], assumptions.sd_of(name, column))))
        else:
            shares = assumptions.shares_of(name, column)
            columns.append((name, _levels(column, ndtr(joint[:, k]), shares)))
    return Table(columns or [("constant", np.ones(len(points)))])


def _even(dimension: int, count: int = 1 << LOG_ROWS) -> FloatArray:
    """Return points that fill the open unit cube evenly, shape (count, dimension): a Sobol sequence."""
    log_count = (count - 1).bit_length()
    points = qmc.Sobol(dimension, scramble=False).random_base2(log_count)
    return np.asarray(points[:count] + 0.5 ** (log_count + 1), dtype=np.float64)


def _numbers(column: NumericColumn, normal: FloatArray, sd: float) -> FloatArray:
    low, high = column.limits
    values = np.clip(0.5 * (low + high) + sd * normal, low, high)
    return np.clip(_INVERSE[column.transform](values), column.lower, column.upper)


def _levels(column: CategoricalColumn, uniform: FloatArray, shares: FloatArray) -> np.ndarray:
    codes = np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right")
    return np.array(column.levels, dtype=object)[codes]


def _responses(x: FloatArray, chance: FloatArray, design: Design, assumptions: Assumptions) -> FloatArray:
    """Return encoded responses that follow the assumed model, the quantile ``chance`` of each row's law."""
    if design.target.labels is not None:
        many = len(design.target.labels) > 2
        return (_classes if many else _binary)(x, chance, design, assumptions)
    return (_numeric if design.target.count_bound is None else _counts)(x, chance, design, assumptions)


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
    return np.minimum(poisson.ppf(chance, np.exp(eta + _offset(design, np.exp, eta, mean))), bound)


def _numeric(x: FloatArray, chance: FloatArray, design: Design, assumptions: Assumptions) -> FloatArray:
    target, sd = design.target, USUAL_RESIDUAL if design.target.bounded else 1.0
    if assumptions.residual_sd is not None:
        sd = assumptions.residual_sd / target.half_width
    eta = _slopes(x, design, assumptions, unit=sd, signal=0.5)[:, 0]
    given = (
        target.center if assumptions.mean is None else in_range(-math.inf, math.inf, mean=assumptions.mean)
    )
    middle = (given - target.center) / target.half_width
    y = eta + (middle - eta.mean() if design.has_intercept else 0.0) + sd * ndtri(chance)
    return np.clip(y, -1.0, 1.0) if target.bounded else y


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
