"""What a planner assumes of a table that nobody has looked at."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from privfit._checks import FloatArray, in_range, optional, positive
from privfit.data.declarations import CategoricalColumn, Column, Level, NumericColumn
from privfit.data.schema import Schema
from privfit.errors import InvalidArgument
from privfit.results.numbers import significant

DEFAULT_SPREAD = 1.0 / 6.0
"""Standard deviation of a numeric column in units of its declared range: bounds are three of them out."""

WIDEST_SPREAD = 0.5
"""No column within bounds varies more: half of its cells are then at each of them."""

_SHOWN = 8
"""Columns, or levels, that are written out."""

Guess = TypeVar("Guess")

Shares: TypeAlias = Sequence[float] | Mapping[Level, float]
"""Shares of levels, in their order or by level."""

DEFAULT_BASE_RATE = 0.25
"""Share of positive labels."""

DEFAULT_COUNT = 0.1
"""Mean of a count in units of its bound; but at least a count of 1, or half the bound if that is less."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assumptions:
    """Public guesses about a table, for planning. Never take them from the table itself.

    A numeric column is normal about its centre and clamped to the declared range, after its transform; a
    categorical one has the given shares; a common factor correlates them. A response follows the model.
    Exposures of counts are all in the middle of their range, or at their ``center``, and survey weights at
    ``mean_weight``; where ``sd`` or ``spread`` names their column they are log-normal with that mean. Where
    that column is a predictor, too, they are as that is.

    Parameters
    ----------
    mean : float, sequence of float or mapping, optional
        Mean response in its raw unit. For labels the share of the positive one (default 1/4), or those of all
        classes (default equal), as in ``shares``. Numbers: default the middle of the declared range. Counts:
        a tenth of the bound, but at least 1. Where the bounds are open as well, see `privfit.plan`.
    coefficients : mapping, optional
        Guesses of coefficients, by their names in results and in raw units; the others are then 0, and the
        intercept follows from ``mean``.
    signal : float, optional
        Without ``coefficients``: standard deviation of the linear predictor, to which all columns add
        equally; in log odds (default 1), in the log of the mean of a count (default 1/2), or in residual
        standard deviations (default 1/2).
    residual_sd : float, optional
        Residual standard deviation of a numeric response, in its (transformed) unit. Default: an eighth of
        the declared range; needed where that is open.
    spread : float or mapping
        Standard deviation of a numeric column as a fraction of its declared range, at most 0.5; one for all,
        or by column. Default 1/6. An even spread has 0.29.
    sd : mapping, optional
        Standard deviations of numeric columns in their own (transformed) units, in place of ``spread``;
        needed where bounds are open.
    center : mapping, optional
        Middles of numeric columns in their raw units, in place of that of the (transformed) declared range.
    shares : mapping, optional
        For categorical columns: the shares of their levels, in the order of the schema, or as a mapping or a
        series by level. Default: equal.
    correlation : float
        Of any two columns in the underlying normal vector, in [0, 1).
    mean_weight : float, optional
        Mean survey weight, in its unit. Default: the bound, as if all counted in full. Refused where the
        weights are in the reference, or are a predictor, too, which has a ``center``.
    mean_rows : float, optional
        Mean number of rows of a privacy unit. Default: ``rows_per_unit``, as if all units counted in full.
    intraclass : float, optional
        Intraclass correlation of the scores of a unit's rows, in [0, 1]. Default: 1, as if they were alike,
        for which intervals are longest.
    reference : frame, mapping or path, optional
        A public or synthetic table whose rows stand in for yours in place of ``spread``, ``sd``, ``center``,
        ``shares`` and ``correlation``. If it holds the response too, that is taken as it is.
    """

    mean: float | Shares | None = None
    coefficients: Mapping[str, float] | None = None
    signal: float | None = None
    residual_sd: float | None = None
    spread: float | Mapping[str, float] = DEFAULT_SPREAD
    sd: Mapping[str, float] | None = None
    center: Mapping[str, float] | None = None
    shares: Mapping[str, Shares] | None = None
    correlation: float = 0.0
    mean_weight: float | None = None
    mean_rows: float | None = None
    intraclass: float | None = None
    reference: object = None

    def __post_init__(self) -> None:
        for argument in ("coefficients", "sd", "center", "shares"):
            object.__setattr__(self, argument, _by_name(argument, getattr(self, argument)))
        for value in self.spread.values() if isinstance(self.spread, Mapping) else (self.spread,):
            if positive(spread=value) > WIDEST_SPREAD:
                raise InvalidArgument(
                    f"spread is a fraction of the declared range, at most {WIDEST_SPREAD:g}, got {value:g}; "
                    "give standard deviations in units of the column as sd={column: ...}"
                )
        optional(in_range, 0.0, 10.0, signal=self.signal)
        optional(positive, residual_sd=self.residual_sd)
        optional(in_range, 0.0, 1.0, closed="both", intraclass=self.intraclass)
        for name, value in (self.sd or {}).items():
            positive(**{f"sd of {name!r}": value})
        for name, value in (self.coefficients or {}).items():
            in_range(-math.inf, math.inf, closed="neither", **{f"coefficient {name!r}": value})
        for name, value in (self.center or {}).items():
            in_range(-math.inf, math.inf, closed="neither", **{f"center of {name!r}": value})
        in_range(0.0, 1.0, closed="left", correlation=self.correlation)
        if self.signal is not None and self.coefficients is not None:
            raise InvalidArgument("signal says how large coefficients are; give it or coefficients")
        if self.reference is not None:
            self._refuse_beside_reference(
                {"spread": DEFAULT_SPREAD, "sd": None, "center": None, "shares": None, "correlation": 0.0},
                "reference says by its rows what {} does; give one of them",
            )

    @classmethod
    def of(cls, given: object) -> "Assumptions":
        """Return what was given as ``assumptions=``, the defaults for None, or raise `InvalidArgument`."""
        if given is None:
            return cls()
        if not isinstance(given, cls):
            kind = type(given).__name__
            raise InvalidArgument(f"assumptions must be privfit.Assumptions(mean=..., ...), got {kind}")
        return given

    def sd_of(self, name: str, column: NumericColumn) -> float:
        """Return the standard deviation of a numeric column, in its transformed unit."""
        if self.sd is not None and name in self.sd:
            return self.sd[name]
        spread = self.spread.get(name, DEFAULT_SPREAD) if isinstance(self.spread, Mapping) else self.spread
        return spread * _width(column)

    def center_of(self, name: str, column: NumericColumn) -> float:
        """Return the middle of a numeric column, in its transformed unit."""
        if self.center is not None and name in self.center:
            return float(column.transformed(np.array([self.center[name]], dtype=np.float64))[0])
        low, high = column.limits
        return 0.5 * (low + high)

    def given_sd(self, name: str, column: NumericColumn) -> float:
        """Return the standard deviation of weights or exposures, in their unit; 0 unless they are named."""
        by_name = isinstance(self.spread, Mapping) and name in self.spread
        return self.sd_of(name, column) if by_name or (self.sd is not None and name in self.sd) else 0.0

    def shares_of(self, name: str, column: CategoricalColumn) -> FloatArray:
        """Return the shares of the levels of a categorical column, one for each, with sum 1."""
        given = None if self.shares is None else self.shares.get(name)
        return as_shares(given, column.levels, what=name)

    def without_weights(self) -> None:
        """Raise `InvalidArgument` where a guess is about the weights, which the reference holds."""
        self._refuse_beside_reference(
            {"mean_weight": None},
            "reference holds the weights, so that {} counts for nothing; leave one of them out",
        )

    def without_mean_weight(self, name: str) -> None:
        """Raise `InvalidArgument` where weights that are a predictor, too, are given two means."""
        if self.mean_weight is not None:
            raise InvalidArgument(
                f"mean_weight counts for nothing where {name!r} is a predictor, too; leave it out and give "
                "its center"
            )

    def without_response(self) -> None:
        """Raise `InvalidArgument` where a guess is about the response, which the reference holds."""
        self._refuse_beside_reference(
            {"mean": None, "coefficients": None, "signal": None, "residual_sd": None},
            "reference holds the response, so that {} counts for nothing; leave one of them out",
        )

    def _refuse_beside_reference(self, defaults: Mapping[str, object], message: str) -> None:
        for argument, default in defaults.items():
            given = getattr(self, argument)  # shares may be a series, which compares entry by entry
            if not (given is default or (isinstance(given, Real) and given == default)):
                raise InvalidArgument(message.format(argument))

    def check(self, schema: Schema, response: str) -> None:
        """Raise `InvalidArgument` where a guess is about no predictor that the schema declares."""
        instead_of = {"spread": "residual_sd", "sd": "residual_sd", "center": "mean", "shares": "mean"}
        for argument, instead in instead_of.items():
            given = getattr(self, argument)
            if isinstance(given, Mapping) and response in given:
                raise InvalidArgument(
                    f"{argument} is about predictors, and {response!r} is the response; give {instead}="
                )
        if isinstance(self.spread, Mapping):
            _check_columns("spread", self.spread, schema, NumericColumn, "numeric")
        for name in _check_columns("sd", self.sd or {}, schema, NumericColumn, "numeric"):
            self._check_sd(name, schema[name])
        for name in _check_columns("center", self.center or {}, schema, NumericColumn, "numeric"):
            self._check_center(name, schema[name])
        for name in _check_columns("shares", self.shares or {}, schema, CategoricalColumn, "categorical"):
            column = schema[name]
            assert isinstance(column, CategoricalColumn)  # noqa: S101 -- just checked
            self.shares_of(name, column)

    def _check_sd(self, name: str, column: Column) -> None:
        assert isinstance(column, NumericColumn)  # noqa: S101 -- the caller has checked
        if isinstance(self.spread, Mapping) and name in self.spread:
            raise InvalidArgument(f"spread and sd both hold {name!r}; give one of them")
        sd, most = self.sd_of(name, column), WIDEST_SPREAD * _width(column)
        if sd > most:
            raise InvalidArgument(
                f"sd of {column.label(name)!r} must be at most half its declared range, {most:g}, got {sd:g}"
            )

    def _check_center(self, name: str, column: Column) -> None:
        assert isinstance(column, NumericColumn)  # noqa: S101 -- the caller has checked
        center = (self.center or {})[name]
        if not column.lower <= center <= column.upper:
            raise InvalidArgument(
                f"center of {name!r} must be within its bounds, {column.lower:g} and {column.upper:g}, got "
                f"{center:g}"
            )

    def describe(self, schema: Schema, names: Iterable[str]) -> str:
        """Return the assumptions about these columns in one sentence, for reports."""
        if self.reference is not None:
            rows = "rows like those of the reference table"
        else:
            columns = [(name, schema[name]) for name in names]
            numbers = [(name, one) for name, one in columns if isinstance(one, NumericColumn)]
            common = "equally common levels" if self.shares is None else "levels as common as given"
            levels = [common] if len(numbers) < len(columns) else []
            joint = f"correlation {self.correlation:g}" if self.correlation else "no correlation"
            rows = ", ".join([*self._numbers_in_words(numbers), *levels, joint])
        slopes = "" if self.coefficients is None else ", coefficients as given"
        return f"{rows}{slopes}"

    def _numbers_in_words(self, numbers: Sequence[tuple[str, NumericColumn]]) -> list[str]:
        """Return what is assumed of numeric columns, those first that are in the middle of their range."""
        centers = self.center or {}
        usual = [f"{self._sd(*one)} ({one[1].label(one[0])})" for one in numbers if one[0] not in centers]
        others = [
            f"{name} about {significant(centers[name], 3)} with standard deviation {self._sd(name, column)}"
            + ("" if column.transform is None else f" of {column.label(name)}")
            for name, column in numbers
            if name in centers
        ]
        middle = "numeric columns about the middle of their declared range with standard deviation "
        return [*([middle + _some(usual)] if usual else []), *([_some(others)] if others else [])]

    def _sd(self, name: str, column: NumericColumn) -> str:
        return significant(self.sd_of(name, column), 2)


def _some(texts: Sequence[str]) -> str:
    """Return some texts in a row, the first of many."""
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")


def _by_name(argument: str, given: object) -> Mapping[str, Any] | None:
    """Return guesses by name as a mapping, or raise `InvalidArgument`; a series has some, too."""
    if given is None or isinstance(given, Mapping):
        return given
    if isinstance(given, pd.Series) and not isinstance(given.index, pd.RangeIndex):
        return {str(name): value for name, value in given.items()}
    raise InvalidArgument(f"{argument} must be a mapping by name, got {type(given).__name__}")


def _width(column: NumericColumn) -> float:
    low, high = column.limits
    return high - low


def as_shares(given: object, levels: Sequence[object], *, what: str) -> FloatArray:
    """Return the shares of levels, positive with sum 1, or raise `InvalidArgument`; equal ones for None."""
    if given is None:
        return np.full(len(levels), 1.0 / len(levels))
    if isinstance(given, pd.Series) and not isinstance(given.index, pd.RangeIndex):
        given = given.to_dict()  # as of value_counts, by level
    if isinstance(given, Mapping):
        if set(given) != set(levels):
            shown = _some([repr(level) for level in levels])
            raise InvalidArgument(f"the shares of {what!r} by level must name all of {shown} and no other")
        given = [given[level] for level in levels]
    shares = _numbers(given)
    if shares.shape != (len(levels),) or not (np.isfinite(shares).all() and (shares > 0.0).all()):
        raise InvalidArgument(
            f"the shares of {what!r} must be {len(levels)} positive numbers, in order or by level"
        )
    if not math.isclose(float(shares.sum()), 1.0, rel_tol=1e-3):
        raise InvalidArgument(f"the shares of {what!r} must add up to 1")
    return np.asarray(shares / shares.sum())


def _numbers(given: object) -> FloatArray:
    """Return what was given as an array of numbers, empty if it holds others."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.empty(0)


def _check_columns(
    argument: str, given: Mapping[str, Guess], schema: Schema, kind: type, words: str
) -> Mapping[str, Guess]:
    for name in given:
        if not isinstance(schema.lookup(name), kind):
            raise InvalidArgument(f"{argument} names {name!r}, which the schema does not declare {words}")
    return given
