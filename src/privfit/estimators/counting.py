"""How much rows are assumed to count in a plan, where survey weights or rows of a unit decide it."""

import math

import numpy as np
from scipy.special import ndtri

from privfit._checks import FloatArray, positive
from privfit.data.declarations import NumericColumn
from privfit.data.shares import RowShares, ShareRule
from privfit.data.tables import Table
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import Assumptions
from privfit.results.numbers import significant

_WEIGHT = "weight"

_ALIKE = 1e-9
"""Relative standard deviation below which numbers are all alike."""


def stand_in_rule(rule: ShareRule, assumptions: Assumptions) -> ShareRule:
    """Return by what rule stand-in rows count, a row for each privacy unit, by their survey weights.

    Units all count what those with the mean number of rows do.

    Parameters
    ----------
    rule : ShareRule
        That of the fit.
    assumptions : Assumptions

    Raises
    ------
    InvalidArgument
        If something is assumed of weights or units that are none.
    """
    if rule.weights is None and assumptions.mean_weight is not None:
        raise InvalidArgument("mean_weight goes with weights: name the column of survey weights")
    rows = _mean_rows(rule, assumptions)
    if rule.plain:
        return rule
    upper = 1.0 if rule.weights is None else rule.weights[1].upper
    share = min(rows / rule.rows_per_unit, 1.0)
    return ShareRule(weights=(_WEIGHT, NumericColumn(0.0, upper / share, weight=True)))


def usual_weight(name: str, column: NumericColumn, assumptions: Assumptions) -> float:
    """Return the mean survey weight, in its unit, or raise `InvalidArgument` where it is beyond the bound."""
    if name in (assumptions.center or {}):
        raise InvalidArgument(f"center is about no weights, as {name!r} is; give mean_weight")
    given = assumptions.mean_weight
    if given is None:
        return column.upper
    if positive(mean_weight=given) > column.upper:
        raise InvalidArgument(
            f"mean_weight must be at most the bound of the weights, {column.upper:g}, got {given:g}"
        )
    return given


def uneven(column: NumericColumn, mean: float, sd: float, chance: FloatArray) -> FloatArray:
    """Return weights or exposures at some quantiles (m,) of a log-normal law, within their bounds."""
    variance = math.log1p((sd / mean) ** 2)
    drawn = mean * np.exp(math.sqrt(variance) * ndtri(chance) - 0.5 * variance)
    return np.clip(drawn, column.lower, column.upper)


def sampling_part(rule: ShareRule, assumptions: Assumptions) -> float:
    """Return the sampling variance of units of several rows, relative to that of as many rows alike.

    It is ``(1 + (k - 1) r) / k`` for k rows with an intraclass correlation r (Kish 1965, *Survey sampling*).

    Parameters
    ----------
    rule : ShareRule
        That of the fit.
    assumptions : Assumptions

    Raises
    ------
    InvalidArgument
        If a correlation is assumed where there are no units of several rows.
    """
    given, rows = assumptions.intraclass, _mean_rows(rule, assumptions)
    if given is None:
        return 1.0
    if rows == 1.0:
        raise InvalidArgument(
            "intraclass goes with units of several rows: name unit and rows_per_unit, or mean_rows"
        )
    return (1.0 + (rows - 1.0) * given) / rows


def counted(rule: ShareRule, weights: FloatArray) -> RowShares | None:
    """Return how stand-in rows of weights (m,) count by the rule for them; None where they do in full."""
    return None if rule.plain else rule.read(Table([(_WEIGHT, weights)]))


def spread_in_words(numbers: FloatArray, assumptions: Assumptions) -> tuple[str, str]:
    """Return what weights or exposures are in words, and what is to be said after that."""
    mean, sd = float(numbers.mean()), float(numbers.std())
    if sd > _ALIKE * mean:
        return f"{mean:.3g} with standard deviation {significant(sd, 2)}", ""
    told = "sd says" if assumptions.reference is None else "a reference with uneven ones says"
    return f"{mean:.3g}", f", all alike, for which intervals are shortest: {told} how they vary"


def counting_in_words(rule: ShareRule, assumptions: Assumptions, weights: FloatArray) -> str:
    """Return what is assumed of weights and units, as the end of a sentence; empty where there is nothing."""
    words = ""
    if rule.weights is not None:
        upper, (usual, alike) = f"{rule.weights[1].upper:g}", spread_in_words(weights, assumptions)
        bound = f"of at most {upper}{alike}"
        if assumptions.mean_weight is None and float(weights.min()) == rule.weights[1].upper:
            bound = "their bound, at which noise is least: mean_weight says what they are on average"
        words += f"; survey weights of {usual}, {bound}"
    if rule.unit is not None:
        several = rule.rows_per_unit > 1 or assumptions.mean_rows is not None
        number = f"{_mean_rows(rule, assumptions):g}" if several else "any number of"
        words += f"; {number} rows for each value of {rule.unit}"
        if assumptions.mean_rows is None:
            at_least = ", at which noise is least" if several else ""
            words += f"{at_least}: mean_rows says how many there are on average"
        if assumptions.intraclass is None:
            words += "; these rows alike, for which intervals are longest: intraclass says how alike they are"
        else:
            words += f"; an intraclass correlation of {assumptions.intraclass:g}"
    return words


def _mean_rows(rule: ShareRule, assumptions: Assumptions) -> float:
    given = assumptions.mean_rows
    if given is None:
        return float(rule.rows_per_unit)
    if rule.unit is None:
        raise InvalidArgument("mean_rows goes with unit: name the column that identifies the privacy unit")
    if positive(mean_rows=given) < 1.0:
        raise InvalidArgument(f"mean_rows must be at least 1, got {given:g}")
    return given
