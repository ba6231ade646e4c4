"""Draw experiments/results/output_perturbation.png from the CSV that `compare.py` writes.

python experiments/output_perturbation/figure.py
"""

import csv

import matplotlib as mpl
from compare import BASELINE, CSV, LONG
from tables import TABLES

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullFormatter

LINES = {
    ("source", BASELINE): ("C1", "--", "mini-batch SGD, published noise"),
    ("source", "gradient descent"): ("C0", "--", "output perturbation, published noise"),
    ("tight", BASELINE): ("C1", "-", "mini-batch SGD, exact accounting"),
    ("tight", LONG): ("C1", ":", "the same, 10,000 steps"),
    ("tight", "gradient descent"): ("C0", "-", "output perturbation, derived constants"),
    ("tight", "objective perturbation"): ("C3", ":", "objective perturbation"),
}
"""Colour, dash and label. The certified minimiser coincides with gradient descent and is left out."""


def main() -> None:
    """Draw excess risk against epsilon, one panel a table and ridge weight, with two standard errors."""
    with CSV.open(newline="") as file:
        rows = list(csv.DictReader(file))
    figure, axes = plt.subplots(2, len(TABLES), figsize=(2.5 * len(TABLES), 5.2), sharex=True)
    for column, name in enumerate(TABLES):
        for axis, l2 in zip(axes[:, column], (0.0, TABLES[name][2]), strict=True):
            for (run, method), (colour, dash, label) in LINES.items():
                points = sorted(
                    (float(row["epsilon"]), float(row["error"]), 2.0 * float(row["error_se"]))
                    for row in rows
                    if (row["run"], row["method"], row["table"], float(row["l2"])) == (run, method, name, l2)
                )
                if points:
                    epsilon, error, bar = zip(*points, strict=True)
                    axis.errorbar(
                        epsilon, error, bar, color=colour, linestyle=dash, marker=".", lw=1.3, label=label
                    )
            axis.set(xscale="log", yscale="log", xticks=(0.1, 0.5, 1.0, 2.0))
            axis.set_xticklabels(("0.1", "0.5", "1", "2"))
            axis.xaxis.set_minor_formatter(NullFormatter())
            axis.set_title(f"{name}, $\\mu$ = {l2:g}", fontsize=9)
            axis.tick_params(which="both", labelsize=7)
            axis.grid(visible=True, alpha=0.25)
        axes[1, column].set_xlabel("$\\varepsilon$")
    for row in axes:
        row[0].set_ylabel("excess risk")
    figure.legend(
        *axes[0, -1].get_legend_handles_labels(), loc="lower center", ncols=3, fontsize=8, frameon=False
    )
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(CSV.with_suffix(".png"), dpi=90)


if __name__ == "__main__":
    main()
