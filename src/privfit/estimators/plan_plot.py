"""The plot of a plan: how wide intervals will be, and how much of that is the price of privacy."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import ndtri

from privfit.results.coefficient_plot import entitle, label_rows
from privfit.results.numbers import confidence, significant

SAMPLING, NOISE, NONE = "#33638d", "#e8a13a", "#bbbbbb"
"""Colours of the parts of a bar; they differ in lightness too."""


def draw(table: pd.DataFrame, *, title: str, level: float) -> Figure:
    """Return a bar for each coefficient: the width of its interval without noise, and what noise adds.

    Parameters
    ----------
    table : DataFrame
        From `PlannedFit.table`.
    title : str
    level : float
        Coverage of the intervals.
    """
    sampling, width = table["sampling"].to_numpy(), table["width"].to_numpy()
    finite = np.isfinite(width) & (sampling > 0.0)
    plain = 2.0 * float(ndtri(0.5 + 0.5 * level)) * np.where(finite, sampling, 1.0)
    ratio = np.where(finite, width / plain, 0.0)
    figure = Figure(figsize=(7.5, 1.9 + 0.32 * len(table)), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(table))
    axes.barh(place, finite.astype(float), color=SAMPLING, label="sampling")
    axes.barh(place, np.maximum(ratio - 1.0, 0.0) * finite, left=finite, color=NOISE, label="privacy noise")
    for k in place:
        text = significant(float(width[k]), 3) if finite[k] else "no finite interval"
        axes.annotate(text, (ratio[k], k), (4, 0), textcoords="offset points", va="center", fontsize=9)
    label_rows(axes, place, [str(name) for name in table.index])
    axes.set_xlim(0.0, 1.25 * max(float(ratio.max(initial=0.0)), 1.0))
    axes.invert_yaxis()
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xlabel(f"width of the {confidence(level)}% interval, in widths without privacy noise")
    entitle(axes, title)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure
