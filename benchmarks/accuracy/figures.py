"""Excess loss against epsilon, one figure a task, one panel a table."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from verdicts import CellResult, Entry

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

SHOWN = 6
"""Competitors drawn: those with the least geometric mean of their ratio to the best."""

REFERENCES = {"isotropic one-shot oracle": "--", "constant predictor": ":"}


def draw(cells: Sequence[CellResult], path: Path) -> None:
    """Draw one task's cells."""
    tables = list(dict.fromkeys(cell.table for cell in cells))
    columns = min(4, len(tables))
    lines = math.ceil(len(tables) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.1 * columns, 2.7 * lines + 0.9), squeeze=False)
    chosen = strongest(cells)
    for axis, table in zip(axes.flat, tables, strict=False):
        panel = [cell for cell in cells if cell.table == table]
        _line(axis, panel, panel[0].default.method, color="black", lw=2.2, marker="o")
        for place, method in enumerate(chosen):
            _line(axis, panel, method, color=f"C{place}", lw=1.1, marker=".")
        for method, dash in REFERENCES.items():
            _line(axis, panel, method, color="grey", lw=1.1, linestyle=dash)
        epsilons = [cell.epsilon for cell in panel]
        axis.set(xscale="log", yscale="log", xticks=epsilons)
        axis.set_xticklabels([f"{epsilon:g}" for epsilon in epsilons])
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.set_title(f"{table}, n = {panel[0].n:,}, p = {panel[0].p}", fontsize=8)
        axis.tick_params(which="both", labelsize=7)
        axis.grid(visible=True, alpha=0.25)
    for axis in axes.flat[len(tables) :]:
        axis.set_visible(False)
    figure.supxlabel("$\\varepsilon$", fontsize=9, y=0.9 / (2.7 * lines + 0.9))
    figure.supylabel("excess loss", fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.8 / (2.7 * lines + 0.9), 1, 1))
    figure.savefig(path, dpi=90)
    plt.close(figure)


def strongest(cells: Sequence[CellResult]) -> list[str]:
    """Return the competitors that come nearest to the best one over all cells."""
    ratios: dict[str, list[float]] = {}
    for cell in cells:
        best = cell.best().excess
        for entry in cell.competitors:
            if entry.excess > 0 and best > 0:
                ratios.setdefault(entry.method, []).append(math.log(entry.excess / best))
    whole = {method: found for method, found in ratios.items() if len(found) == len(cells)}
    return sorted(whole, key=lambda method: sum(whole[method]))[:SHOWN]


def _line(axis: plt.Axes, panel: Sequence[CellResult], method: str, **style: object) -> None:
    found = [(cell.epsilon, _of(cell, method)) for cell in panel]
    points = [(epsilon, entry) for epsilon, entry in found if entry is not None and not entry.failed]
    if points:
        epsilons = [epsilon for epsilon, _ in points]
        means = [entry.excess for _, entry in points]
        bars = [0.0 if math.isnan(entry.excess_se) else entry.excess_se for _, entry in points]
        axis.errorbar(epsilons, means, bars, label=method, **style)  # pyright: ignore[reportArgumentType]


def _of(cell: CellResult, method: str) -> Entry | None:
    return next((entry for entry in cell.entries if entry.method == method), None)
