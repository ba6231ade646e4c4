"""How much rows are assumed to count in a plan, where survey weights or rows of a unit decide it."""

import numpy as np

from privfit._checks import positive
from privfit.data.declarations import NumericColumn
from privfit.data.shares import RowShares, ShareRule
from privfit.data.tables import Table
from privfit.errors import InvalidArgument
from privfit.estimators.assumptions import Assumptions

_WEIGHT = "weight"


def stand_in_rule(rule: ShareRule, assumptions: Assumptions) -> ShareRule:
    """Return by what rule stand-in rows count, a row for each privacy unit: all alike, by the mean share.

    Parameters
    ----------
    rule : ShareRule
        That of the fit.
    assumptions : Assumptions

    Raises
    ------
    InvalidArgument
        If something is assumed of weights or units that are none, or of weights beyond their bound.
    """
    weight, rows = _mean_weight(rule, assumptions), _mean_rows(rule, assumptions)
    if rule.plain:
        return rule
    share = min(rows / rule.rows_per_unit, 1.0)
    if rule.weights is not None:
        share *= weight / rule.weights[1].upper
    return ShareRule(weights=(_WEIGHT, NumericColumn(0.0, 1.0 / share, weight=True)))


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


def counted(rule: ShareRule, n_rows: int) -> RowShares | None:
    """Return how stand-in rows count by the rule that is made for them; None where they do in full."""
    return None if rule.plain else rule.read(Table([(_WEIGHT, np.ones(n_rows))]))


def counting_in_words(rule: ShareRule, assumptions: Assumptions) -> str:
    """Return what is assumed of weights and units, as the end of a sentence; empty where there is nothing."""
    words = ""
    if rule.weights is not None:
        weight, upper = f"{_mean_weight(rule, assumptions):g}", f"{rule.weights[1].upper:g}"
        bound = f"of at most {upper}"
        if assumptions.mean_weight is None:
            bound = "their bound, at which noise is least: mean_weight says what they are on average"
        words += f"; survey weights of {weight}, {bound}"
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


def _mean_weight(rule: ShareRule, assumptions: Assumptions) -> float:
    given = assumptions.mean_weight
    if rule.weights is None:
        if given is not None:
            raise InvalidArgument("mean_weight goes with weights: name the column of survey weights")
        return 1.0
    upper = rule.weights[1].upper
    if given is None:
        return upper
    if positive(mean_weight=given) > upper:
        raise InvalidArgument(
            f"mean_weight must be at most the bound of the weights, {upper:g}, got {given:g}"
        )
    return given


def _mean_rows(rule: ShareRule, assumptions: Assumptions) -> float:
    given = assumptions.mean_rows
    if given is None:
        return float(rule.rows_per_unit)
    if rule.unit is None:
        raise InvalidArgument("mean_rows goes with unit: name the column that identifies the privacy unit")
    if positive(mean_rows=given) < 1.0:
        raise InvalidArgument(f"mean_rows must be at least 1, got {given:g}")
    return given
