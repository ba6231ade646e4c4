"""What a planner expects of columns whose bounds nobody has declared."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from privfit._checks import in_range, positive
from privfit.data.columns import naming
from privfit.data.declarations import NumericColumn
from privfit.data.declared import declared_numbers
from privfit.data.draft import Draft
from privfit.data.response import TargetKind
from privfit.data.tables import Table, open_table, with_rows
from privfit.errors import InvalidArgument, SchemaError
from privfit.estimators.assumptions import DEFAULT_COUNT, DEFAULT_SPREAD, Assumptions
from privfit.losses.typical import USUAL_RESIDUAL

_REACH = 0.5 / DEFAULT_SPREAD
"""Standard deviations of a predictor from its middle to expected bounds: what declared ones are taken for."""

_RESPONSE_REACH = 1.0 / USUAL_RESIDUAL
"""Residual standard deviations from the middle of a response to expected bounds."""

_LEAST_COUNTS = 2.0
"""Bound of uncommon counts at least."""


def expected(
    draft: Draft, names: Sequence[str], response: str, kind: TargetKind, assumptions: Assumptions
) -> tuple[Draft, Assumptions]:
    """Return a draft with the bounds that are expected of some columns, and assumptions with their centres.

    Parameters
    ----------
    draft : Draft
    names : sequence of str
        Those of the unbounded columns that a fit reads.
    response : str
    kind : {"numeric", "binary", "count", "class"}
        Of the response.
    assumptions : Assumptions

    Raises
    ------
    InvalidArgument
        If nothing is assumed of one of these columns, or what is contradicts a bound that is declared.
    """
    table = assumptions.reference
    if table is not None:
        table = with_rows(open_table(table))
    found: dict[str, tuple[float, float]] = {}
    centers: dict[str, float] = {}
    for name in names:
        column = _column(draft, name)
        if table is not None and name in table.names:
            found[name] = _extremes(table, name, column)
        elif name == response and kind == "count":
            found[name] = 0.0, max(_mean_count(name, assumptions) / DEFAULT_COUNT, _LEAST_COUNTS)
        elif name == response:
            sd = _guess("residual_sd", name, assumptions.residual_sd)
            found[name], middle = _around(draft, name, sd * _RESPONSE_REACH, mean=assumptions.mean)
            assumptions = replace(assumptions, mean=middle)
        else:
            sd = _guess("sd", name, (assumptions.sd or {}).get(name))
            center = (assumptions.center or {}).get(name)
            found[name], centers[name] = _around(draft, name, sd * _REACH, **{f"center of {name!r}": center})
    completed = draft.completed(found)
    for name in names:
        if name in completed.unbounded:
            raise InvalidArgument(
                f"what is expected of {name!r} is a single number, or beyond the bound that is declared"
            )
    if centers:
        assumptions = replace(assumptions, center={**(assumptions.center or {}), **centers})
    return completed, assumptions


def _column(draft: Draft, name: str) -> NumericColumn:
    """Return a column within the widest bounds that it can have."""
    column = draft.outline[name]
    assert isinstance(column, NumericColumn)  # noqa: S101 -- it lacks bounds
    return column


def _guess(argument: str, name: str, given: float | None) -> float:
    if given is None:
        of = f"{{{name!r}: ...}}" if argument == "sd" else "..."
        raise InvalidArgument(
            f"{argument}: the bounds of {name!r} are open, so that nothing says how much it varies; give "
            f"assumptions=Assumptions({argument}={of}), or a public reference table that holds it"
        )
    return positive(**{argument: given})


def _mean_count(name: str, assumptions: Assumptions) -> float:
    if assumptions.mean is None:
        raise InvalidArgument(
            f"mean: the bound of the counts {name!r} is open; give assumptions=Assumptions(mean=...), or a "
            "public reference table that holds them"
        )
    return positive(mean=assumptions.mean)


def _extremes(table: Table, name: str, column: NumericColumn) -> tuple[float, float]:
    """Return the least and the largest number of a column of a public table."""
    with naming(name):
        cells = declared_numbers(table.values(name), column)
    numbers = np.clip(cells[~np.isnan(cells)], column.lower, column.upper)
    if numbers.size == 0:
        raise SchemaError(f"column {name!r} of the reference table holds no number")
    return float(numbers.min()), float(numbers.max())


def _around(draft: Draft, name: str, reach: float, **given: object) -> tuple[tuple[float, float], float]:
    """Return raw bounds as far on either side of a middle, after the transform, and that middle.

    The middle is the single keyword's value; for None it is as far from a bound that is declared, or 0.
    """
    column, entry = _column(draft, name), draft.declarations[name]
    low, high = column.limits
    if None not in given.values():
        raw = in_range(column.lower, column.upper, closed="both", **given)
        middle = float(column.transformed(np.array([raw]))[0])
    elif "lower" in entry or column.transform == "sqrt":
        middle = low + reach
    else:
        middle = high - reach if "upper" in entry else 0.0
    ends = np.clip([middle - reach, middle, middle + reach], low, high)
    lower, center, upper = column.untransformed(ends).tolist()
    return (lower, upper), center
