"""The plot of a fit: an interval for each coefficient, and how much of it is the price of privacy."""

import textwrap
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from privfit._checks import FloatArray, IntArray
from privfit.errors import Incompatible
from privfit.results.glyphs import drawable
from privfit.results.numbers import clean, confidence, shorten_all
from privfit.results.summary import Uncertainty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLING, NOISE, NONE = "#33638d", "#e8a13a", "#777777"
"""Colours of an interval without noise, of what noise adds, and of text in place of one."""

_TICKS = 5
"""Parts of the axis at most, so that long numbers stay apart."""

_NAME_WIDTH, _TITLE_WIDTH = 34, 56


def has_matplotlib() -> bool:
    """Return whether figures can be drawn."""
    return find_spec("matplotlib") is not None


def need_matplotlib() -> None:
    """Raise `Incompatible` if figures cannot be drawn."""
    if not has_matplotlib():
        raise Incompatible("plot needs Matplotlib, which is not installed: pip install matplotlib")


def draw(
    names: Sequence[str],
    estimate: FloatArray,
    known: Uncertainty | None,
    *,
    level: float,
    title: str,
    mark: str | None,
) -> "Figure":
    """Return a Matplotlib figure with a line for each coefficient.

    Parameters
    ----------
    names : sequence of str
    estimate : array of shape (q,)
    known : Uncertainty or None
        Interval at ``level`` and share of noise of each coefficient; None for a fit without inference, of
        which points are drawn alone.
    level : float
    title : str
    mark : str or None
        The line that warns of a result without privacy.
    """
    need_matplotlib()
    from matplotlib.figure import Figure  # noqa: PLC0415 -- slow and optional

    figure = Figure(figsize=(7.5, 1.9 + 0.32 * len(names)), layout="constrained")
    axes = figure.subplots()
    place = np.arange(len(names))
    if known is not None:
        _draw_intervals(axes, place, estimate, known)
    axes.plot(estimate, place, "o", color="black", markersize=4)
    axes.axvline(0.0, color="black", linewidth=0.8)
    label_rows(axes, place, names)
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=_TICKS)
    covered = "" if known is None else f", with {confidence(level)}% intervals"
    axes.set_xlabel(f"coefficient{covered}")
    entitle(axes, title, mark)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if known is not None:
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def entitle(axes: "Axes", title: str, mark: str | None = None) -> None:
    """Write a title, in as many lines as it takes beside long names, below what warns of a result."""
    lines = textwrap.wrap(drawable(clean(title)), _TITLE_WIDTH)
    marked = [] if mark is None else [drawable(mark)]
    axes.set_title("\n".join([*marked, *lines]), fontsize=11, parse_math=False)


def label_rows(axes: "Axes", place: IntArray, names: Sequence[str]) -> None:
    """Write names beside the rows of a plot, shortened, none of them read as a formula."""
    labels = shorten_all([drawable(clean(name)) for name in names], _NAME_WIDTH)
    for tick in axes.set_yticks(place, labels):
        tick.label1.set_parse_math(False)


def _draw_intervals(axes: "Axes", place: IntArray, estimate: FloatArray, known: Uncertainty) -> None:
    """Draw whole intervals, over them the part of each that sampling alone would make, and gaps in words."""
    finite = np.isfinite(known.lower) & np.isfinite(known.upper)
    middle, lower, upper = estimate[finite], known.lower[finite], known.upper[finite]
    sampling = np.sqrt(1.0 - known.noise_share[finite])
    for part, width, color, label in (
        (np.ones_like(sampling), 2.0, NOISE, "privacy noise"),
        (sampling, 5.0, SAMPLING, "sampling"),
    ):
        ends = middle + part * (lower - middle), middle + part * (upper - middle)
        axes.hlines(place[finite], *ends, color=color, linewidth=width, label=label)
    drawn = [*known.lower[finite], *known.upper[finite], *estimate]
    for k in np.flatnonzero(~finite):
        left = estimate[k] > 0.5 * (min(drawn) + max(drawn))  # or it would make the axes narrow
        axes.annotate(
            "no finite interval",
            (estimate[k], k),
            (-6 if left else 6, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=9,
            color=NONE,
        )
