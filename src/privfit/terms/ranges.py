"""The public range of a product of expressions, from the declared bounds of the columns alone."""

from collections.abc import Mapping, Sequence

import numpy as np

from privfit.data.declarations import Column, NumericColumn, wide_enough
from privfit.errors import FormulaError
from privfit.terms.expressions import Expression, column_names, enclose
from privfit.terms.functions import MULTIPLY, Interval
from privfit.terms.wording import quoted

_BOXES = 4096
"""Boxes that the declared bounds are cut into, because an expression that names a column twice is enclosed
the more tightly the smaller the box."""


def product_range(
    factors: Sequence[Expression], columns: Mapping[str, Column], *, label: str
) -> tuple[float, float]:
    """Return bounds on the product of ``factors`` over all rows within the declared bounds.

    Parameters
    ----------
    factors : sequence of Expression
        At least one.
    columns : mapping of str to Column
        Declarations of the columns that they read.
    label : str
        What error messages call the product.

    Returns
    -------
    low, high : float
        Finite, and apart from each other. They enclose the product for every row (by interval arithmetic,
        up to rounding), and are sharp for expressions that name each column once.

    Raises
    ------
    FormulaError
        If the product is not finite on all of the bounds, or does not vary.
    """
    lowest, highest = enclosure(factors, columns)
    if not (np.isfinite(lowest) and np.isfinite(highest)):
        raise FormulaError(
            f"formula: {quoted(label)} is not finite on all of the declared bounds; narrow them"
        )
    if not wide_enough(lowest, highest):
        raise FormulaError(
            f"formula: {quoted(label)} does not vary within the declared bounds; drop it or widen the bounds"
        )
    return lowest, highest


def enclosure(factors: Sequence[Expression], columns: Mapping[str, Column]) -> tuple[float, float]:
    """Return bounds on a product, as `product_range` does, that may be equal or not finite."""
    boxes = _boxes(factors, columns)
    with np.errstate(all="ignore"):
        low, high = enclose(factors[0], boxes)
        for factor in factors[1:]:
            low, high = MULTIPLY.enclose((low, high), enclose(factor, boxes))
        return float(np.min(low)), float(np.max(high))


def _boxes(factors: Sequence[Expression], columns: Mapping[str, Column]) -> dict[str, Interval]:
    """Cut the bounds of the numeric columns into a grid of boxes; each array has one entry per box."""
    names = {name: None for factor in factors for name in column_names(factor)}
    axes = [(name, column) for name in names if isinstance(column := columns[name], NumericColumn)]
    if not axes:
        return {}
    pieces = max(1, int(_BOXES ** (1 / len(axes))))
    edges = [np.linspace(column.lower, column.upper, pieces + 1) for _, column in axes]
    lows = np.meshgrid(*(edge[:-1] for edge in edges), indexing="ij")
    highs = np.meshgrid(*(edge[1:] for edge in edges), indexing="ij")
    return {name: (low.ravel(), high.ravel()) for (name, _), low, high in zip(axes, lows, highs, strict=True)}
