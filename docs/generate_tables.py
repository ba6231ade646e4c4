"""Write the tables of the pages on experiments from the committed results.

python docs/generate_tables.py
"""

import csv
import json
import math
import re
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from markers import write_between

ROOT = Path(__file__).parents[1]
FIVE_SETS = "experiments/results/output_perturbation.csv"
GRID_TRUTHS = ("correct", "misspecified")
OUTPUT, SGD, LONG = "gradient descent", "mini-batch SGD", "mini-batch SGD, 10,000 steps"


def rows(path: str) -> list[dict[str, str]]:
    """Return a committed CSV."""
    with (ROOT / path).open() as file:
        return list(csv.DictReader(file))


def table(header: list[str], body: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def coverage() -> str:
    """Return the coverage of the default solver: model and budget by number of rows."""
    found = {
        (row["model"], float(row["mu"]), int(row["n"])): row["coverage"]
        for row in rows("experiments/results/coverage.csv")
        if row["solver"] == "auto"
    }
    sizes = sorted({n for _, _, n in found})
    keys = list(dict.fromkeys((model, mu) for model, mu, _ in found))
    body = [
        [model, f"{mu:g}", *(f"{100 * float(found[model, mu, n]):.1f} %" for n in sizes)]
        for model, mu in keys
    ]
    return table(["model", "μ", *(f"n = {n:,}" for n in sizes)], body)


def grid_cells(solver: str) -> list[dict[str, Any]]:
    """Return the cells of the coverage grid of a solver, with the number of finite intervals in each."""
    return [_counted(row) for row in rows("experiments/results/coverage_grid.csv") if row["solver"] == solver]


def _counted(row: dict[str, str]) -> dict[str, Any]:
    """Return a cell with the numbers of its finite intervals and of those that hold the truth."""
    finite = round((1.0 - float(row["infinite"])) * int(row["p"]) * int(row["repetitions"]))
    return {**row, "finite": finite, "held": float(row["coverage"] or 0.0) * finite}


def grid_coverage(solver: str) -> str:
    """Return the coverage of a solver over the grid, by model and number of rows."""
    found, body = grid_cells(solver), []
    for model, n in dict.fromkeys((row["model"], int(row["n"])) for row in sorted(found, key=_place)):
        here = [row for row in found if (row["model"], int(row["n"])) == (model, n)]
        by_truth = [_pooled([row for row in here if row["truth"] == truth]) for truth in GRID_TRUTHS]
        missed = sum(row["finite"] - row["held"] for row in here) / _intervals(here)
        usable = [row for row in here if float(row["infinite"]) <= 0.05]
        low = sum(_beyond_chance(row) < -3.0 for row in usable)
        body.append(
            [model, f"{n:,}", *by_truth, f"{low} of {len(usable)}", f"{_infinite(here):.0%}", f"{missed:.1%}"]
        )
    header = ["model", "n", "right model", "wrong model", "cells too low", "infinite", "finite and wrong"]
    return table(header, body)


def small_samples() -> str:
    """Return the coverage with few rows and hardly any noise, by model, rows and columns."""
    found, body = [_counted(row) for row in rows("experiments/results/small_samples.csv")], []
    columns = list(dict.fromkeys(row["p"] for row in found))
    for model, n in dict.fromkeys((row["model"], row["n"]) for row in found):
        here = [row for row in found if (row["model"], row["n"]) == (model, n)]
        by_column = [_pooled([row for row in here if row["p"] == p]) for p in columns]
        lowest = min((float(row["coverage"]) for row in here if float(row["infinite"]) <= 0.05), default=None)
        least = "" if lowest is None else f"{lowest:.1%}"
        body.append([model, n, *by_column, least, f"{_infinite(here):.0%}"])
    header = ["model", "n", *(f"p = {p}" for p in columns), "lowest of 4 cells each", "infinite"]
    return table(header, body)


def grid_of_others() -> str:
    """Return coverage and infinite intervals of Newton's method and gradient descent over the grid."""
    body, cells_of = [], {solver: grid_cells(solver) for solver in ("newton", "gradient-descent")}
    sizes = sorted({int(row["n"]) for found in cells_of.values() for row in found})
    for solver, found in cells_of.items():
        for model in dict.fromkeys(row["model"] for row in found):
            shown = []
            for n in sizes:
                here = [row for row in found if (row["model"], int(row["n"])) == (model, n)]
                shown.append(f"{_pooled(here)} ({_infinite(here):.0%})" if here else "")
            body.append([solver, model, *shown])
    return table(["solver", "model", *(f"n = {n:,}" for n in sizes)], body)


def grid_width(solver: str) -> str:
    """Return widths over the oracle's where n mu >= 2,000, by model and number of columns."""
    found = [row for row in grid_cells(solver) if int(row["n"]) * float(row["mu"]) >= 2000]
    counted = [row for row in found if float(row["infinite"]) <= 0.05]
    body = []
    for model in dict.fromkeys(row["model"] for row in counted):
        cells_of = [[r for r in counted if (r["model"], r["p"]) == (model, p)] for p in ("2", "5", "20")]
        ratios = [[float(row["width_ratio"]) for row in here] for here in cells_of]
        within = sum(ratio <= 1.25 for here in ratios for ratio in here)
        ranges = [f"{min(here):.2f} to {max(here):.2f}" if here else "" for here in ratios]
        body.append([model, *ranges, f"{within} of {sum(map(len, ratios))}"])
    left = len(found) - len(counted)
    header = ["model", "p = 2", "p = 5", "p = 20", "at most 1.25"]
    return table(header, body) + f"\n\nLeft out are {left} cells in which more than 5 % are infinite."


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return row["model"], int(row["n"])


def _intervals(found: list[dict[str, Any]]) -> int:
    return sum(int(row["p"]) * int(row["repetitions"]) for row in found)


def _infinite(found: list[dict[str, Any]]) -> float:
    """Return the share of infinite intervals of some cells."""
    return 1.0 - sum(row["finite"] for row in found) / _intervals(found)


def _pooled(found: list[dict[str, Any]]) -> str:
    """Return the coverage of all finite intervals of some cells."""
    finite = sum(row["finite"] for row in found)
    return f"{sum(row['held'] for row in found) / finite:.1%}" if finite else ""


def _beyond_chance(row: dict[str, Any]) -> float:
    """Return by how many standard deviations the coverage of a cell is above 95 %.

    The intervals of one fit share its noise; they count as one half of independent ones.
    """
    return (float(row["coverage"]) - 0.95) / math.sqrt(2.0 * 0.95 * 0.05 / row["finite"])


def published_intervals() -> str:
    """Return coverage and widths beside those that others have published for the same design."""
    ours = {
        (row["n"], row["epsilon"], row["budget"]): row
        for row in rows("experiments/results/published_intervals.csv")
    }
    theirs = _published_by_others()

    def shown(row: dict[str, str]) -> str:
        widths = f"{float(row['mean_width']):.2f} / {float(row['median_width']):.2f}"
        return f"{float(row['coverage']):.1%}, {widths}"

    body = []
    for n, epsilon in dict.fromkeys((n, epsilon) for n, epsilon, _ in ours):
        pure, approximate = ours[n, epsilon, "pure"], ours[n, epsilon, "with delta"]
        others = (theirs[n, epsilon, method] for method in ("DP-CI-ERM", "Repro"))
        body.append(
            [
                f"{int(n):,}",
                f"{float(epsilon):g}",
                shown(pure),
                shown(approximate),
                approximate["mu"],
                *map(shown, others),
            ]
        )
    return table(["n", "ε", "`auto`, pure", "`auto`, δ = n⁻²", "μ", "DP-CI-ERM", "Repro"], body)


def _published_by_others() -> dict[tuple[str, str, str], dict[str, str]]:
    """Return the published results by rows, epsilon and method."""
    found = rows("experiments/results/published_by_others.csv")
    return {(row["n"], row["epsilon"], row["method"]): row for row in found}


def published_counts() -> str:
    """Return in how many cells intervals are shorter than the published ones."""
    theirs, lines = _published_by_others(), []
    for kind, name in (("pure", "pure ε"), ("with delta", "δ = n⁻²")):
        found = [row for row in rows("experiments/results/published_intervals.csv") if row["budget"] == kind]

        def ratio(row: dict[str, str], method: str, column: str) -> float:
            return float(row[column]) / float(theirs[row["n"], row["epsilon"], method][column])

        shorter = [
            sum(ratio(row, "Repro", column) < 1.0 for row in found)
            for column in ("mean_width", "median_width")
        ]
        sound = [r for r in found if float(theirs[r["n"], r["epsilon"], "DP-CI-ERM"]["coverage"]) >= 0.93]
        near = sum(ratio(row, "DP-CI-ERM", "mean_width") <= 1.1 for row in sound)
        least = min(float(row["coverage"]) for row in found)
        lines.append(
            f"* {name}: shorter than Repro's in {shorter[0]} of {len(found)} cells by the mean and in "
            f"{shorter[1]} by the median; at most 1.1 times DP-CI-ERM's mean in {near} of the {len(sound)} "
            f"cells in which that covers 93 %; the least coverage is {least:.1%}."
        )
    return "\n".join(lines)


def published_coverage() -> str:
    """Return coverage and widths in the design of a published figure, beside its coverage."""
    found = {(row["n"], row["solver"]): row for row in rows("experiments/results/published_coverage.csv")}
    sizes = list(dict.fromkeys(n for n, _ in found))
    theirs = rows("experiments/results/published_coverage_by_others.csv")
    body = [
        [method, *(f"{float(row['coverage']):.1%}" for row in theirs if row["method"] == method)]
        for method in dict.fromkeys(row["method"] for row in theirs)
    ]
    for solver in dict.fromkeys(solver for _, solver in found):
        here = [found[n, solver] for n in sizes]
        body.append([f"`{solver}`", *(f"{float(row['coverage']):.1%}" for row in here)])
        body.append(
            [
                f"`{solver}`, width over plain",
                *(f"{float(row['median_width']) / float(row['plain_width']):.2f}" for row in here),
            ]
        )
    return table(["95 % intervals", *(f"n = {int(n):,}" for n in sizes)], body)


def few_in_a_level() -> str:
    """Return how often intervals of a level far from others are finite, and wrong, and others' coverage."""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows("experiments/results/few_in_a_level.csv"):
        shown = " / ".join(_percent(row[share]) for share in ("finite", "wrong", "others"))
        cells.setdefault((row["n"], row["share"]), {})[f"{row['model']}, {row['declared']}"] = shown
    header = ["n", "share or mean", "events", *next(iter(cells.values()))]
    body = [
        [f"{int(n):,}", share, f"{0.1 * int(n) * float(share):g}", *here.values()]
        for (n, share), here in cells.items()
    ]
    return table(header, body)


def generous_bounds() -> str:
    """Return coverage of quantile regressions by declared range, with what is infinite and how far off."""
    headings, cells = _by_range("generous_bounds", "errors", "tau", "n")
    body = []
    for (errors, tau, n), here in cells.items():
        shown = [
            f"{_percent(row['intercept'])} / {_percent(row['slopes'])} / {_percent(row['infinite'])}"
            for row in here
        ]
        body.append([errors, tau, f"{int(n):,}", *shown, " / ".join(row["width"] for row in here)])
    return table(["errors", "τ", "n", *headings, "± width"], body)


def generous_bounds_counts() -> str:
    """Return in which cells finite intervals of the intercept hold in less than 90 %, and what all do."""
    found = rows("experiments/results/generous_bounds.csv")
    told = [row for row in found if float(row["infinite"]) < 0.95]
    low = [row for row in told if float(row["intercept"]) < 0.9]
    listed = "; ".join(
        f"{row['errors']}, τ = {row['tau']}, {int(row['n']):,} rows, range {float(row['range']):,.0f}: "
        f"{_percent(row['intercept'])}"
        for row in low
    )
    sizes = sorted({int(row["n"]) for row in found})
    held = ", ".join(f"{_held([row for row in found if int(row['n']) == n]):.0%} with {n:,}" for n in sizes)
    return (
        "Of the cells in which more than one in twenty are finite, finite ones of the intercept hold in "
        f"{min(float(row['intercept']) for row in told if row not in low):.0%} or more in "
        f"{len(told) - len(low)}, and in less in {len(low)} ({listed}). Of all, {held} rows hold."
    )


def _held(found: list[dict[str, str]]) -> float:
    """Return the coverage of the intercept in some cells together, by the share that is finite in each."""
    some = [row for row in found if row["intercept"]]
    shares = [1 - float(row["infinite"]) for row in some]
    pairs = zip(shares, some, strict=True)
    return sum(share * float(row["intercept"]) for share, row in pairs) / sum(shares)


def pure_quantiles() -> str:
    """Return the same under pure budgets, with widths."""
    headings, cells = _by_range("pure_quantiles", "errors", "slope", "tau", "n", "epsilon")
    body = []
    for (errors, slope, tau, n, epsilon), here in cells.items():
        shown = [
            f"{_percent(row['intercept'])} / {_percent(row['slopes'])} / {_percent(row['infinite'])} "
            f"({row['of_intercept']}, {row['of_slopes']})"
            for row in here
        ]
        body.append([errors, f"{float(slope):g}", tau, f"{int(n):,}", f"{float(epsilon):g}", *shown])
    return table(["errors", "slopes", "τ", "n", "ε", *headings], body)


def _by_range(name: str, *keys: str) -> tuple[list[str], dict[tuple[str, ...], list[dict[str, str]]]]:
    """Return headings for the declared ranges, and the rows of all ranges for each value of other columns."""
    cells: dict[tuple[str, ...], list[dict[str, str]]] = {}
    found = sorted(rows(f"experiments/results/{name}.csv"), key=lambda row: float(row["range"]))
    for row in found:
        cells.setdefault(tuple(row[key] for key in keys), []).append(row)
    ranges = sorted({float(row["range"]) for row in found})
    return [f"range {one:,.0f}" for one in ranges], cells


def generous_response(name: str = "generous_response") -> str:
    """Return coverage and widths of least squares by declared range of the response."""
    headings, cells = _by_range(name, "errors", "n", "epsilon")
    body = []
    for (errors, n, epsilon), here in cells.items():
        shown = [
            f"{_percent(row['intercept'])} / {_percent(row['slopes'])}, "
            f"{row['width']} ({row['declared_width']})"
            for row in here
        ]
        body.append([errors, f"{int(n):,}", f"{float(epsilon):g}", *shown])
    return table(["errors", "n", "ε", *headings], body)


def generous_response_counts() -> str:
    """Return the least coverage, and how many times shorter intervals are than with the declared bound."""
    found = rows("experiments/results/generous_response.csv")
    finite = [row for row in found if float(row["infinite"]) < 0.05]
    shorter = [float(row["declared_width"]) / float(row["width"]) for row in finite]
    usual = [row for row in finite if row["errors"] != "log-normal"]
    return (
        f"Where at most 5 % are infinite ({len(finite)} of {len(found)} cells) the declared bound makes "
        f"intervals {min(shorter):.2f} to {max(shorter):.0f} times as long, {statistics.median(shorter):.1f} "
        "times in the median. "
        f"Coverage there: intercepts {_least(usual, 'intercept')} at least, log-normal errors "
        f"{_least(finite, 'intercept')}; slopes {_least(finite, 'slopes')}."
    )


def _least(found: list[dict[str, str]], name: str) -> str:
    return f"{min(float(row[name]) for row in found):.0%}"


def _percent(share: str) -> str:
    return f"{float(share):.0%}" if share else "—"


def _budget(row: dict[str, str]) -> str:
    return f"{float(row['epsilon']):g}" + (", δ = n⁻²" if row["delta"] == "True" else "")


def rare_levels() -> str:
    """Return coverage and widths of the default beside a rare level."""
    body = [
        [
            row["model"],
            f"{int(row['n']):,}",
            row["mu"],
            row["truth"],
            f"{float(row['level']):.1%}",
            f"{float(row['others']):.1%}",
            f"{float(row['infinite']):.0%}",
            row["level_width"],
            row["others_width"],
        ]
        for row in rows("experiments/results/rare_levels.csv")
    ]
    header = ["model", "n", "μ", "truth", "level", "others", "infinite", "width of level", "of others"]
    return table(header, body)


def rare_numbers() -> str:
    """Return coverage of counts beside a number that few rows have."""
    body = [
        [
            f"rare, {float(row['share']):.0%}, {row['ratio']}" if row["number"] == "rare" else "normal",
            f"{int(row['n']):,}",
            _budget(row),
            *(_percent(row[key]) for key in ("slope", "infinite", "wrong", "others", "others_infinite")),
        ]
        for row in rows("experiments/results/rare_numbers.csv")
    ]
    header = ["number", "n", "ε", "slope", "infinite", "finite and wrong", "others", "others infinite"]
    return table(header, body)


def heavy_counts() -> str:
    """Return coverage and widths of counts that vary more than their means tell."""
    body = [
        [
            f"{row['design']}, {float(row['mixing']):g}",
            f"{int(row['n']):,}",
            _budget(row),
            *(_percent(row[key]) for key in ("slope", "others", "infinite")),
            row["width"],
        ]
        for row in rows("experiments/results/heavy_counts.csv")
    ]
    return table(["slope, mixing", "n", "ε", "slope", "others", "infinite", "width of slope"], body)


def _with_intervals() -> list[dict[str, str]]:
    """Return the cells of tests and effects in which a tenth of the intervals or more are finite."""
    return [row for row in rows("experiments/results/tests_and_effects.csv") if float(row["infinite"]) < 0.9]


def tests_and_effects() -> str:
    """Return coverage of what follows from coefficients, and error rates of joint tests."""
    body = [
        [
            row["model"] + (", uneven" if row["errors"] == "uneven" else ""),
            f"{int(row['n']):,}",
            _budget(row),
            *(_percent(row[key]) for key in ("combination", "usual", "far", "effect", "infinite")),
            *(_percent(row[key]) for key in ("term", "joint", "family", "power", "untestable")),
        ]
        for row in _with_intervals()
    ]
    header = ["model", "n", "ε", "combination", "usual", "far", "effect", "infinite"]
    return table([*header, "term", "joint", "family", "power", "untestable"], body)


def tests_and_effects_counts() -> str:
    """Return the worst and the mean of the same."""
    found, every = _with_intervals(), rows("experiments/results/tests_and_effects.csv")
    held = [float(row[key]) for row in found for key in ("combination", "usual", "far", "effect") if row[key]]
    wrong = [float(row[key]) for row in found for key in ("term", "joint", "family")]
    return (
        f"In {len(found)} of {len(every)} cells a tenth of the intervals or more are finite. There intervals "
        f"hold in {_percent(str(min(held)))} or more, {sum(held) / len(held):.1%} on average, and true "
        f"hypotheses are rejected in {_percent(str(max(wrong)))} or less, {sum(wrong) / len(wrong):.1%} on "
        "average."
    )


def slopes_in_levels() -> str:
    """Return coverage and widths of slopes within levels of which one is rare."""
    body = [
        [
            ", ".join(filter(None, (row["model"], row["errors"]))),
            f"{int(row['n']):,}",
            row["mu"],
            *(f"{float(row[share]):.1%}" for share in ("rare", "others")),
            _percent(row["infinite"]),
            row["level_width"],
            row["slope_width"],
            row["others_width"],
        ]
        for row in rows("experiments/results/slopes_in_levels.csv")
    ]
    header = ["model", "n", "μ", "rare", "others", "infinite", "width of level", "of its slope", "of others"]
    return table(header, body)


def light_rows() -> str:
    """Return coverage and widths where rows count for a tenth, beside a tenth of the rows."""
    body = [
        [
            row["model"],
            row["rows"],
            _percent(row["coverage"]),
            _percent(row["infinite"]),
            row["intercept"],
            row["slope"],
        ]
        for row in rows("experiments/results/light_rows.csv")
    ]
    return table(["model", "rows", "coverage", "infinite", "width of intercept", "of slope"], body)


def unscaled_columns() -> str:
    """Return how often intervals of a column far from 0, and of one beside it, are finite and wrong."""
    shares = ("finite", "wrong", "other_finite", "other_wrong")
    body = [
        [row["column"], row["epsilon"], *(_percent(row[share]) for share in shares)]
        for row in rows("experiments/results/unscaled_columns.csv")
    ]
    header = ["column", "ε", "finite", "finite and wrong", "other finite", "other finite and wrong"]
    return table(header, body)


def _spread(header: list[str], cells: dict[tuple[str, ...], dict[str, str]]) -> str:
    """Return a table with a line for each place, and the columns that every place has behind it."""
    columns = list(next(iter(cells.values())))
    body = [[*place, *(found[column] for column in columns)] for place, found in cells.items()]
    return table([*header, *columns], body)


def coarse_responses() -> str:
    """Return how many intervals of a quantile's slopes are finite, and coverage, by response and rows."""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows("experiments/results/coarse_responses.csv"):
        column = f"n = {int(row['n']):,}, ε = {float(row['epsilon']):g}"
        covered = _percent(row["coverage"]) if row["coverage"] else ""
        cells.setdefault((row["response"], row["tau"]), {})[column] = f"{_percent(row['finite'])} / {covered}"
    return _spread(["response", "τ"], cells)


def hidden_numbers() -> str:
    """Return how often an interval beside a number in wide bounds is finite and wrong, by these bounds."""
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in rows("experiments/results/hidden_numbers.csv"):
        place = row["model"], f"`{row['solver']}`", f"{int(row['n']):,}"
        cell = f"{_percent(row['other_finite'])} / {_percent(row['other_wrong'])}"
        cells.setdefault(place, {})[f"{float(row['bound']):,.0f}"] = cell
    return _spread(["model", "solver", "n"], cells)


def learned_bounds() -> str:
    """Return how well learned bounds fit."""
    body = [
        [
            row["column"],
            f"{int(row['rows']):,}",
            row["epsilon"],
            _percent(row["hidden"]),
            *(f"{100 * float(row[share]):.2f}%" if row[share] else "" for share in ("beyond", "most_beyond")),
            row["length"],
        ]
        for row in rows("experiments/results/learned_bounds.csv")
    ]
    return table(["column", "rows", "ε", "hidden", "beyond", "largest", "length"], body)


def learned_scales() -> str:
    """Return what learned bounds are worth to a fit."""
    body = [
        [
            row["model"],
            f"{int(row['rows']):,}",
            row["epsilon"],
            row["bounds"],
            *(_percent(row[share]) for share in ("refused", "finite", "wrong")),
            f"{float(row['length']):.2f}" if float(row["length"]) < math.inf else "",
        ]
        for row in rows("experiments/results/learned_scales.csv")
    ]
    header = ["model", "rows", "ε", "bounds", "refused", "finite", "finite and wrong", "length"]
    return table(header, body)


def uneven_errors_counts() -> str:
    """Return the range of coverage over the cells, and how often joint tests reject at most."""
    found = rows("experiments/results/uneven_errors.csv")
    return (
        f"{_range(found, 'repetitions', '.0f')} tables a cell. Intervals of the uneven coefficient hold in "
        f"{_range(found, 'uneven', '.0%')} and those of the others in {_range(found, 'others', '.0%')}; "
        f"joint tests reject in {max(float(row['joint']) for row in found):.1%} at most."
    )


def _range(found: list[dict[str, str]], name: str, form: str) -> str:
    numbers = [float(row[name]) for row in found]
    return f"{min(numbers):{form}} to {max(numbers):{form}}"


def uneven_errors() -> str:
    """Return coverage where errors vary more along one direction, and the size of joint tests."""
    body = [
        [
            row["model"],
            row["errors"],
            f"{int(row['n']):,}",
            row["mu"],
            row["p"],
            _percent(row["uneven"]),
            _percent(row["others"]),
            row["sd_over_se"],
            row["width"],
            _percent(row["joint"]),
            _percent(row["untestable"]),
        ]
        for row in rows("experiments/results/uneven_errors.csv")
    ]
    header = [
        "model",
        "errors",
        "n",
        "μ",
        "p",
        "uneven",
        "others",
        "sd / se",
        "width √n",
        "joint test",
        "none",
    ]
    return table(header, body)


def few_positives() -> str:
    """Return coverage of a logit's intervals where positives are few."""
    body = [
        [
            f"`{row['solver']}`",
            f"{int(row['n']):,}",
            row["log odds"],
            row["epsilon"] + (", pure" if float(row["delta"]) == 0.0 else ""),
            _percent(row["intercept"]) if row["intercept"] else "",
            _percent(row["slope"]) if row["slope"] else "",
            _percent(row["infinite"]),
            row["off"],
            row["width"],
        ]
        for row in rows("experiments/results/few_positives.csv")
    ]
    header = ["solver", "n", "log odds", "ε", "intercept", "slope", "infinite", "off", "width"]
    return table(header, body)


def few_columns() -> str:
    """Return what pure and Gaussian releases tell of logits of few rows and columns."""
    body = [
        [
            "one more" if row["relation"] == "add_remove" else "replaced",
            row["predictors"],
            f"{int(row['n']):,}",
            row["epsilon"],
            row["signal"],
            row["columns"],
            *(_percent(row[f"{name}_infinite"]) for name in ("pure", "gaussian")),
            *(row[f"{name}_width"] for name in ("pure", "gaussian")),
            *(_percent(held) if (held := row[f"{name}_held"]) else "" for name in ("pure", "gaussian")),
        ]
        for row in sorted(
            rows("experiments/results/few_columns.csv"),
            key=lambda row: (row["relation"] != "replace", int(row["predictors"]), float(row["signal"])),
        )
    ]
    header = [
        "row", "predictors", "n", "ε", "nμ", "bounds", "infinite: pure", "δ", "width: pure", "δ",
        "coverage: pure", "δ",
    ]  # fmt: skip
    return table(header, body)


def many_columns() -> str:
    """Return coverage and width of intervals of a Poisson regression with many columns."""
    body = [
        [
            row["k"],
            row["correlation"],
            row["c"],
            row["slope"],
            f"{int(row['n']):,}",
            row["mu"],
            _percent(row["intercept"]),
            _percent(row["slopes"]),
            _percent(row["infinite"]),
            row["off"],
            row["intercept_width"],
            row["slopes_width"],
        ]
        for row in rows("experiments/results/many_columns.csv")
    ]
    header = [
        "k", "correlation", "c", "slope", "n", "μ", "coverage: intercept", "slopes", "infinite", "off",
        "width: intercept", "slopes",
    ]  # fmt: skip
    return table(header, body)


def exposures() -> str:
    """Return coverage and width of intervals of a Poisson regression of counts over exposures."""
    body = [
        [
            row["exposures"],
            f"`{row['taken_as']}=`",
            row["rate"],
            f"{int(row['n']):,}",
            row["epsilon"] + (", pure" if float(row["delta"]) == 0.0 else ""),
            _percent(row["intercept"]),
            _percent(row["slope"]),
            _percent(row["infinite"]),
            row["intercept_width"],
            row["slope_width"],
        ]
        for row in rows("experiments/results/exposures.csv")
    ]
    header = [
        "exposures", "as", "rate", "n", "ε", "coverage: intercept", "slope", "infinite", "width: intercept",
        "slope",
    ]  # fmt: skip
    return table(header, body)


def unlike_tails() -> str:
    """Return how often intervals are finite and wrong where tails, or means, are not alike in all rows."""
    body = [
        [
            row["table"],
            f"{int(row['n']):,}",
            row["epsilon"] + (", pure" if float(row["delta"]) == 0.0 else ""),
            row["solver"],
            _percent(row["intercept_wrong"]),
            _percent(row["other_wrong"]),
            _percent(row["infinite"]),
            row["width"],
        ]
        for row in rows("experiments/results/unlike_tails.csv")
    ]
    header = ["table", "n", "ε", "solver", "wrong: intercept", "other", "infinite", "width: other"]
    return table(header, body)


def dummies() -> str:
    """Return how many intervals are finite, and wrong, by what is known of dummy columns."""
    body = [
        [
            row["model"],
            f"{int(row['n']):,}",
            row["coding"],
            *(
                " / ".join(
                    [*(_percent(row[f"{of}_{share}"]) for share in ("finite", "wrong")), row[f"{of}_width"]]
                )
                for of in ("numbers", "dummies")
            ),
        ]
        for row in rows("experiments/results/dummies.csv")
    ]
    return table(["model", "n", "given as", "the numbers", "the dummies"], body)


def rare_classes() -> str:
    """Return coverage and width of intervals of several classes, of which one may be rare."""
    body = [
        [
            {"-0.5": "three tenths", "-2.5": "6 %", "-3.5": "2 %"}[row["constant"]],
            f"{int(row['n']):,}",
            row["epsilon"] + (", pure" if float(row["delta"]) == 0.0 else ""),
            _percent(row["usual"]),
            _percent(row["rare"]) if row["rare"] else "",
            _percent(row["usual_infinite"]),
            _percent(row["rare_infinite"]),
            row["usual_width"],
            row["rare_width"],
        ]
        for row in rows("experiments/results/rare_classes.csv")
    ]
    header = [
        "rarer class has", "n", "ε", "coverage: other", "rarer", "infinite: other", "rarer", "width: other",
        "rarer",
    ]  # fmt: skip
    return table(header, body)


def _pure_cells() -> dict[tuple[str, ...], dict[str, str]]:
    """Return the cells of the study of pure budgets by place, whether with intervals, and solver."""
    return {
        tuple(row[name] for name in ("model", "n", "p", "epsilon", "inference", "solver")): row
        for row in rows("experiments/results/pure_budgets.csv")
    }


def private_number() -> str:
    """Return what pure budgets buy where the number of rows is private."""
    found: dict[tuple[str, ...], dict[str, dict[str, str]]] = {}
    for row in rows("experiments/results/private_number.csv"):
        asked = " ".join(row[name] for name in ("relation", "told", "solver"))
        found.setdefault(tuple(row[name] for name in ("model", "n", "epsilon")), {})[asked] = row
    asked = (
        "replace 1.0 auto", "add_remove 1.0 auto", "add_remove 0.6 auto", "add_remove 1.6 auto",
        "add_remove 1.0 whitened",
    )  # fmt: skip
    body = []
    for (model, n, epsilon), here in found.items():
        widths = [here[one]["width"] for one in asked]
        held = [_percent(here[one]["coverage"]) if here[one]["coverage"] else "" for one in asked[1:4]]
        body.append([model, f"{int(n):,}", epsilon, *widths, *held])
    header = [
        "model", "n", "ε", "width: replaced", "one more", "told 0.6 n", "told 1.6 n", "by gradients",
        "coverage: one more", "told 0.6 n", "told 1.6 n",
    ]  # fmt: skip
    return table(header, body)


PURE_WITH = ("auto", "whitened", "objective-perturbation")
PURE_WITHOUT = ("auto", "empirical-bayes", "objective-perturbation")


def pure_budgets() -> str:
    """Return widths and errors by solver, those of all epsilons in one cell."""
    found, body = _pure_cells(), []
    epsilons = sorted({place[3] for place in found}, key=float)
    for place in dict.fromkeys(place[:3] for place in found):
        shown = []
        for inference, solvers in (("True", PURE_WITH), ("False", PURE_WITHOUT)):
            for solver in solvers:
                here = [found[*place, epsilon, inference, solver] for epsilon in epsilons]
                shown.append(" / ".join(f"{float(row['result']):.2g}" for row in here))
        body.append([place[0], f"{int(place[1]):,}", place[2], *shown])
    header = ["model", "n", "p"]
    header += [f"width, `{solver}`" for solver in PURE_WITH]
    header += [f"error, `{solver}`" for solver in PURE_WITHOUT]
    return table(header, body)


def pure_counts() -> str:
    """Return what the study of pure budgets comes to."""
    found = _pure_cells()

    def against(other: str, inference: str) -> list[float]:
        pairs = [
            (float(row["result"]), float(found[*place[:5], other]["result"]))
            for place, row in found.items()
            if place[4:] == (inference, "auto")
        ]
        return [ours / theirs for ours, theirs in pairs if math.isfinite(ours) and math.isfinite(theirs)]

    lines = []
    for inference, word, others in (("True", "width", PURE_WITH[1:]), ("False", "error", PURE_WITHOUT[1:])):
        for other in others:
            ratios = against(other, inference)
            lines.append(
                f"* {word} of `auto` over that of `{other}`, where both are finite ({len(ratios)} cells): "
                f"median {statistics.median(ratios):.2g}, {min(ratios):.2g} to {max(ratios):.2g}; smaller in "
                f"{sum(ratio < 1.0 for ratio in ratios)}."
            )
    for solver in PURE_WITH:
        cells = [_counted(row) for place, row in found.items() if place[4:] == ("True", solver)]
        total = sum(row["finite"] for row in cells)
        infinite = sum(row["result"] == "inf" for row in cells)
        lines.append(
            f"* `{solver}`: {_pooled(cells)} of {total:,} finite intervals hold the truth; more than half "
            f"are infinite in {infinite} of {len(cells)} cells."
        )
    return "\n".join(lines)


def budget_split() -> str:
    """Return widths and infinite shares for several splits of the budget."""
    found = rows("experiments/results/budget_split.csv")
    places = list(dict.fromkeys((row["model"], row["n"], row["mu"], row["p"]) for row in found))
    body = []
    for split in dict.fromkeys(row["split"] for row in found):
        here = {(row["model"], row["n"], row["mu"], row["p"]): row for row in found if row["split"] == split}
        infinite = [float(here[place]["infinite"]) for place in places]
        body.append(
            [
                split,
                *(
                    here[place]["width"] + (f" ({share:.0%})" if share >= 0.005 else "")
                    for place, share in zip(places, infinite, strict=True)
                ),
            ]
        )
    header = ["", *(f"{model}, n = {int(n):,}, μ = {mu}, p = {p}" for model, n, mu, p in places)]
    return table(header, body)


def multinomial() -> str:
    """Return the coverage with several classes."""
    body = [
        [
            row["classes"],
            f"{int(row['n']):,}",
            row["budget"].replace("mu", "μ").replace("epsilon", "pure ε"),
            f"`{row['solver']}`",
            f"{100 * float(row['coverage']):.1f} %",
            f"{100 * float(row['coverage_non_private']):.1f} %",
            f"{100 * float(row['noise_share']):.0f} %",
            row["rmse_over_non_private"],
        ]
        for row in rows("experiments/results/multinomial_coverage.csv")
    ]
    return table(
        ["classes", "n", "budget", "solver", "coverage", "without noise", "noise", "error ratio"], body
    )


def multinomial_accuracy() -> str:
    """Return the excess log loss with several classes, a column a method."""
    found = {
        (int(row["classes"]), float(row["epsilon"]), row["method"]): row
        for row in rows("experiments/results/multinomial_accuracy.csv")
    }
    methods = list(dict.fromkeys(method for _, _, method in found))
    body = [
        [f"{classes}", f"{epsilon:g}"]
        + [
            f"{found[classes, epsilon, method]['excess_log_loss']}"
            f" ± {found[classes, epsilon, method]['standard_error']}"
            for method in methods
        ]
        for classes, epsilon in dict.fromkeys(key[:2] for key in found)
    ]
    return table(["classes", "ε", *(f"`{method}`" for method in methods)], body)


def awkward_tables() -> str:
    """Return what fits of awkward tables leave, a column an epsilon."""
    found = {
        (row["columns"], row["model"], f"{int(row['n']):,}", row["p"], float(row["epsilon"])): row
        for row in rows("experiments/results/awkward_tables.csv")
    }
    epsilons = sorted({key[-1] for key in found})
    body = [
        [*key] + [f"{found[*key, one]['left']} ({found[*key, one]['left_at_most']})" for one in epsilons]
        for key in dict.fromkeys(key[:-1] for key in found)
    ]
    return table(["columns", "model", "n", "p", *(f"ε = {one:g}" for one in epsilons)], body)


def real() -> str:
    """Return the rates on real tables."""
    body = [
        [
            row["table"],
            f"`{row['formula']}`",
            row["epsilon"],
            row["coefficients"],
            row["interval_holds"],
            row["noise_part_holds"],
            row["infinite"],
            row["median_se_over_non_private"],
        ]
        for row in rows("experiments/results/real_data.csv")
    ]
    header = ["table", "formula", "ε", "p", "interval holds", "noise part holds", "infinite", "s.e. ratio"]
    return table(header, body)


def gradient_pass() -> str:
    """Return the times of a pass."""
    report = json.loads((ROOT / "benchmarks/speed/results/gradient_pass.json").read_text())
    body = [[name, f"{value} ms"] for name, value in report["milliseconds_minimum"].items()]
    ratios = (
        f"\n\nGradient over reading: {report['gradient_over_reading']}. "
        f"NumPy over gradient: {report['numpy_over_gradient']}."
    )
    return table(["", "time"], body) + ratios


def mixed() -> str:
    """Return the times of sums and fits of a table with categorical columns."""
    report = json.loads((ROOT / "benchmarks/speed/results/mixed.json").read_text())
    body = [
        [name, f"{times['processor_ms']:,.0f} ms", f"{times['clock_ms']:,.0f} ms"]
        for name, times in {**report["sums"], **report["fits"]}.items()
    ]
    sizes = (
        f"{report['rows']:,} rows, {report['encoded_columns']} encoded columns, "
        f"threads: {report['threads']}. Rows take {report['bytes_by_code'] / 2**20:.0f} MiB by code, "
        f"{report['bytes_dense'] / 2**20:.0f} MiB dense and {report['bytes_sparse'] / 2**20:.0f} MiB sparse."
    )
    times = table(["", "processor time", "clock"], body)
    return "\n\n".join([sizes, times, _ratios(report)])


def _ratios(report: dict[str, Any]) -> str:
    """Return ratios of processor times and of clocks."""
    body = [[name, str(ratio), str(report["clock_ratios"][name])] for name, ratio in report["ratios"].items()]
    return table(["ratio", "of processor times", "of clocks"], body)


def looks() -> str:
    """Return the times of fits that learn bounds first."""
    report = json.loads((ROOT / "benchmarks/speed/results/looks.json").read_text())
    body = [
        [name, f"{times['processor_ms']:,.0f} ms", f"{times['clock_ms']:,.0f} ms"]
        for name, times in report["fits"].items()
    ]
    sizes = f"{report['rows']:,} rows, {report['columns']} columns, threads: {report['threads']}."
    return "\n\n".join([sizes, table(["", "processor time", "clock"], body), _ratios(report)])


def start_up() -> str:
    """Return how long fresh processes take."""
    report = json.loads((ROOT / "benchmarks/results/start_up.json").read_text())
    body = [[f"`{name}`", f"{seconds:.2f}"] for name, seconds in report["seconds_median"].items()]
    body.append(["`first fit`, nothing compiled", f"{report['seconds_first_fit_uncompiled']:.0f}"])
    return table(["fresh process", "seconds"], body)


def exponential_draws() -> str:
    """Return how often an exact draw asks for its objective, by columns and rows."""
    report = json.loads((ROOT / "benchmarks/speed/results/exponential.json").read_text())
    by_place = {(one["columns"], one["rows"]): one for one in report["cells"]}
    columns, sizes = ([*dict.fromkeys(one[name] for one in report["cells"])] for name in ("columns", "rows"))
    body = []
    for p in columns:
        here = [by_place[p, n] for n in sizes]
        of_draws = (f"{one['evaluations']:,} in {one['passes']:,} passes" for one in here)
        body.append([str(p), " / ".join(dict.fromkeys(str(one["of_mode"]) for one in here)), *of_draws])
    return table(["columns", "to find the mode", *(f"in all, n = {n:,}" for n in sizes)], body)


def other_libraries() -> str:
    """Return the times of fits of dense rows by this and other libraries."""
    report = json.loads((ROOT / "benchmarks/speed/results/elsewhere.json").read_text())
    body = [
        [name, f"{times['processor_ms']:,.0f} ms", f"{times['clock_ms']:,.0f} ms"]
        for name, times in report["measured"].items()
    ]
    sizes = f"{report['rows']:,} rows, {report['columns']} columns, threads: {report['threads']}."
    times = table(["", "processor time", "clock"], body)
    return "\n\n".join([sizes, times, _ratios(report)])


def own_fits() -> str:
    """Return the times of private fits and of the same fits without privacy."""
    report = json.loads((ROOT / "benchmarks/speed/results/own.json").read_text())
    body = [
        [
            one["model"],
            f"{one['rows']:,}",
            str(one["columns"]),
            *(f"{one[kind]['processor_ms']:,.0f} ms" for kind in ("private", "non-private")),
            f"{one['ratio']:.2f}",
        ]
        for one in report["fits"]
    ]
    return table(["model", "rows", "columns", "private", "non-private", "ratio"], body)


def scaling() -> str:
    """Return the times of sums by rows, columns and threads."""
    report = json.loads((ROOT / "benchmarks/speed/results/scaling.json").read_text())
    clock = "clock_ms"
    body = [
        [
            f"{one['rows']:,}",
            f"{one['columns']:,}",
            str(one["threads"]),
            *(
                f"{one[kind]['processor_ms']:,.0f} / {one[kind][clock]:,.0f} ms"
                for kind in ("gradient", "second moment", "Hessian")
            ),
            f"{one['rows_mib']:,.0f} MiB",
            f"{one['more_mib']:,.0f} MiB",
        ]
        for part in ("rows", "columns", "threads")
        for one in report[part]
    ]
    header = [
        "rows",
        "columns",
        "threads",
        "gradient",
        "second moment",
        "Hessian",
        "rows take",
        "passes take",
    ]
    return table(header, body)


def cluster() -> str:
    """Return the times of a fit on a cluster and in one process."""
    report = json.loads((ROOT / "benchmarks/speed/results/cluster.json").read_text())
    sizes = (
        f"{report['rows']:,} rows, {report['columns']} columns, {report['partitions']} partitions; "
        f"threads in the one process: {report['threads_in_one_process']}."
    )
    runs = {name: run for name, run in report.items() if isinstance(run, dict)}
    body = [
        [name, *(f"{value:,.0f} ms" for value in run["clock"].values()), f"{run['clock ratio']:.2f}"]
        for name, run in runs.items()
    ]
    apart = max(run["largest_relative_difference"] for run in runs.values())
    said = f"Largest relative difference of coefficients: {apart:.0e}."
    return "\n\n".join([sizes, table(["", "in one process", "on the cluster", "ratio"], body), said])


def sampled_course() -> str:
    """Return what becomes of estimates and intervals where a sample of the rows leads the way."""
    body = [
        [
            row["model"],
            row["design"],
            f"{int(row['n']):,}",
            row["mu"].removesuffix(".0"),
            row["p"],
            row["course"],
            f"{float(row['sample']):.3f}",
            f"{float(row['noise']):.3f} / {float(row['stated']):.3f}",
            f"{float(row['se']):.3f} ± {float(row['se_sd']):.3f}",
            f"{float(row['rare_noise']):.2f} / {float(row['rare_stated']):.2f}" if row["rare_noise"] else "",
            f"{float(row['processor_s']):.2f} s",
        ]
        for row in rows("experiments/results/sampled_course.csv")
    ]
    header = ["model", "columns", "n", "μ", "p", "steps", "smallest sample", "noise / stated"]
    return table([*header, "standard errors", "rare: noise / stated", "processor"], body)


def larger_than_memory() -> str:
    """Return the times and the memory of fits from a file."""
    report = json.loads((ROOT / "benchmarks/speed/results/larger_than_memory.json").read_text())
    body = [
        [
            f"{int(n_rows):,}",
            f"{one['scan']['processor_ms']:,.0f} ms",
            f"{one['encoding']['processor_ms']:,.0f} ms",
            f"{one['gradient_pass']['processor_ms']:,.0f} ms",
            f"{one['scan / pass']:.2f}",
            f"{one['fit']['processor_ms'] / 1e3:,.0f} s",
            f"{one['tables_read']:.1f}",
            f"{one['cache_bytes'] / 2**20:,.0f} MiB",
            f"{one['imported_mib']:.0f} MiB",
            f"{one['high_water_mib']:.0f} MiB",
            f"{one['fit_high_water_mib']:.0f} MiB",
        ]
        for n_rows, one in report["rows"].items()
    ]
    header = ["rows", "scan", "encoding, once", "gradient pass", "scan over pass", "whole fit", "tables read"]
    return table([*header, "files", "memory before", "most in sums", "most in a fit"], body)


def point_solvers() -> str:
    """Return coverage, share of infinite intervals and standard errors of solvers that release a point."""
    body = [
        [
            row["model"],
            row["solver"],
            f"{int(row['n']):,}",
            row["budget"].replace("mu", "μ"),
            row["repetitions"],
            f"{100 * float(row['coverage_of_finite']):.1f} %",
            f"{100 * float(row['infinite']):.1f} %",
            f"{float(row['se_over_auto']):.2f}",
        ]
        for row in rows("experiments/results/point_solvers.csv")
        if not row["refused"]
    ]
    header = ["model", "solver", "n", "budget", "tables", "coverage of finite", "infinite", "s.e. over auto"]
    return table(header, sorted(body, key=lambda line: (line[0], line[2], line[3])))


Cell = tuple[str, float, float]
"""Table, ridge weight, epsilon."""


def five_sets() -> dict[Cell, dict[tuple[str, str], dict[str, str]]]:
    """Return the rows of the comparison on five tables, by cell, then by run and method."""
    found: dict[Cell, dict[tuple[str, str], dict[str, str]]] = {}
    for row in rows(FIVE_SETS):
        cell = (row["table"], float(row["l2"]), float(row["epsilon"]))
        found.setdefault(cell, {})[row["run"], row["method"]] = row
    order = ["bank", "adult", "credit", "wine", "bike"]
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1:])))


def cells() -> str:
    """Return errors and times of all cells, the lower error of a run in bold."""
    body = []
    for (name, l2, epsilon), found in five_sets().items():
        line = [name, f"{l2:g}", f"{epsilon:g}"]
        for run in ("source", "tight"):
            pair = [found[run, method] for method in (OUTPUT, SGD)]
            errors = [float(row["error"]) for row in pair]
            line += [f"**{e:.2g}**" if e == min(errors) else f"{e:.2g}" for e in errors]
            line.append(" / ".join(_seconds(row) for row in pair))
        line.append(f"{float(found['tight', 'objective perturbation']['error']):.2g}")
        long = found.get(("tight", LONG))
        line.append(f"{float(long['error']):.2g}" if long else "")
        line.append(" / ".join(found[run, SGD]["rounds"] for run in ("source", "tight")))
        body.append(line)
    run = ["output", "SGD", "s"]
    return table(
        ["set", "μ", "ε", *run, *(f"{label}, tight" for label in run), "objective", "SGD, long", "rounds"],
        body,
    )


def counts() -> str:
    """Return in how many cells output perturbation has the lower error, and how much less time it takes."""
    body = []
    for run in ("source", "tight"):
        for label, ridge in (("μ = 0", False), ("μ > 0", True)):
            pairs = [
                (found[run, OUTPUT], found[run, SGD])
                for (_, l2, _), found in five_sets().items()
                if (l2 > 0.0) == ridge
            ]
            lower = sum(float(ours["error"]) < float(theirs["error"]) for ours, theirs in pairs)
            signs = [_beyond_noise(ours, theirs) for ours, theirs in pairs]
            errors = [float(theirs["error"]) / float(ours["error"]) for ours, theirs in pairs]
            times = [float(theirs["cpu_seconds"]) / float(ours["cpu_seconds"]) for ours, theirs in pairs]
            faster = sum(time > 1.0 for time in times)
            body.append(
                [run, label, f"{lower} of {len(pairs)}", str(signs.count(1)), str(signs.count(-1))]
                + [f"{min(r):.2g} … {statistics.median(r):.2g} … {max(r):.2g}" for r in (errors, times)]
                + [f"{faster} of {len(pairs)}"]
            )
    header = ["run", "", "output lower", "by over 2 s.e.", "SGD lower by over 2 s.e."]
    return table([*header, "SGD's error / output's", "SGD's time / output's", "output faster"], body)


def _seconds(row: dict[str, str]) -> str:
    return f"{float(row['cpu_seconds']):.2g}"


def _beyond_noise(ours: dict[str, str], theirs: dict[str, str]) -> int:
    """Return 1 or -1 where ours or theirs is lower by more than 2 standard errors of the difference, or 0."""
    spread = math.hypot(float(ours["error_se"]), float(theirs["error_se"]))
    gain = float(theirs["error"]) - float(ours["error"])
    return (gain > 2.0 * spread) - (gain < -2.0 * spread)


def audits() -> str:
    """Return the bounds of the attacks beside their claims."""
    found = json.loads((ROOT / "benchmarks/audit/results/audit.json").read_text(encoding="utf-8"))
    body = []
    for row in found:
        measure = "epsilon" if row["claimed_mu"] is None else "mu"
        budget = re.sub(r".*, (?=\(|\d\S*-)", "", row["subject"].replace(", 1e-", ",1e-")).replace(
            ",1e", ", 1e"
        )
        body.append(
            [
                row["case"],
                budget,
                f"{row['trials']:,}",
                f"{row[measure]:.3f}",
                f"{row['claimed_' + measure]:.3f}",
                f"{100 * row['tightness']:.0f} %" + (" (tight)" if row["tight"] else ""),
                "yes" if row["violated"] else "no",
            ]
        )
    return table(["case", "budget", "runs", "bound", "claim", "shown", "violated"], body)


def queries() -> str:
    """Return the bounds of the attacks on single queries."""
    found = json.loads((ROOT / "benchmarks/audit/results/queries.json").read_text(encoding="utf-8"))
    body = []
    for row in found:
        measure = "ε" if row["claimed_mu"] is None else "μ"
        bound = row["epsilon" if row["claimed_mu"] is None else "mu"]
        shown = f"{100 * row['tightness']:.0f} %"
        violated = "yes" if row["violated"] else "no"
        body.append([row["case"], f"{measure} = 1", f"{row['trials']:,}", f"{bound:.3f}", shown, violated])
    return table(["query", "claim", "runs", "bound", "shown", "violated"], body)


def kills() -> str:
    """Return the counts of the kills."""
    found = json.loads((ROOT / "benchmarks/audit/results/kills.json").read_text(encoding="utf-8"))
    names = (
        "kills",
        "ledgers",
        "reservations",
        "commits",
        "unanswered",
        "done",
        "refused",
        "lost",
        "doubled",
    )
    return table(
        [name.replace("done", "results") for name in names], [[f"{found[name]:,}" for name in names]]
    )


def mutants() -> str:
    """Return the counts of mutants by module."""
    body = [
        [
            f"`{row['module']}`",
            row["mutants"],
            row["run"],
            str(int(row["run"]) - int(row["survived"])),
            row["survived"],
        ]
        for row in rows("benchmarks/mutation/results/summary.csv")
    ]
    return table(["module", "mutants", "run", "killed", "alive, with a reason"], body)


def elsewhere() -> str:
    """Return the bound on another library beside its claim."""
    found = json.loads((ROOT / "benchmarks/audit/results/elsewhere.json").read_text(encoding="utf-8"))
    line = [found["subject"], f"{found['trials']:,}", f"{found['epsilon']:.2f}"]
    return table(["what", "runs", "ε at least", "ε claimed"], [[*line, f"{found['claimed_epsilon']:g}"]])


def ablation(name: str) -> str:
    """Return the excess of every variant of the default without inference on one table."""
    found = [row for row in rows("experiments/results/ablation.csv") if row["table"] == name]
    epsilons = list(dict.fromkeys(row["epsilon"] for row in found))
    cells = {(row["variant"], row["epsilon"]): row for row in found}
    body = [
        [variant, *(f"{1000 * float(cells[variant, eps]['excess']):.3g}" for eps in epsilons)]
        for variant in dict.fromkeys(row["variant"] for row in found)
    ]
    return table(["without", *(f"ε = {eps}" for eps in epsilons)], body)


def oracle_ratio() -> str:
    """Return the largest ratios to the isotropic oracle, by model, design and number of rows."""
    groups: dict[tuple[str, str, int], list[dict[str, str]]] = {}
    for row in rows("experiments/results/oracle_ratio.csv"):
        groups.setdefault((row["model"], row["design"], int(row["n"])), []).append(row)
    body = []
    for (model, design, n), found in sorted(groups.items(), key=lambda item: (item[0][2], item[0])):
        below = [row for row in found if float(row["oracle_over_sampling"]) < 1.0]
        above = [row for row in found if float(row["oracle_over_sampling"]) >= 1.0]
        body.append(
            [
                model,
                design,
                f"{n:,}",
                f"{len(below)} of {len(found)}",
                largest(below, "ratio_truth"),
                largest(above, "ratio_truth"),
                largest(above, "ratio_fit"),
            ]
        )
    return table(["model", "columns", "n", "cells below", "below", "above", "above, to the fit"], body)


def largest(found: list[dict[str, str]], column: str) -> str:
    """Return the largest ratio and where it is found."""
    if not found:
        return ""
    worst = max(found, key=lambda row: float(row[column]))
    return f"{float(worst[column]):.2f} (p = {worst['p']}, μ = {worst['mu']})"


def private_unit() -> str:
    """Return coverage and widths where a row or a person is protected."""
    body = [
        [
            row["model"],
            "a row" if row["unit"] == "row" else "a person",
            "persons" if (row["unit"], row["rows_per_unit"]) == ("zper", "1") else "rows",
            row["epsilon"],
            f"{float(row['delta']):g}",
            f"{int(row['units']):,}",
            f"{100 * float(row['coverage']):.1f} %",
            row["median_width_ratio"],
            f"{100 * float(row['median_noise_share']):.0f} %",
            row["largest_difference"],
        ]
        for row in rows("experiments/results/private_unit.csv")
    ]
    header = ["model", "protected", "alike", "ε", "δ", "units", "coverage", "width", "noise", "difference"]
    return table(header, body)


def planner_cells(results: str = "planner_check", *, finite: bool) -> list[dict[str, str]]:
    """Return cells of a planner check where nearly all intervals are finite, or more than half only."""

    def share(row: dict[str, str]) -> float:
        return min(float(row["finite"]), float(row["guesses_finite"]))

    found = rows(f"experiments/results/{results}.csv")
    return [row for row in found if (share(row) >= 0.95 if finite else 0.5 < share(row) < 0.95)]


def planner_ratios(found: list[dict[str, str]], told: str) -> list[str]:
    """Return how many forecasts by what the planner is told are within 15 %, and their range."""
    ratios = [float(row[f"{told}_over_simulated"]) for row in found]
    within = sum(0.85 <= ratio <= 1.15 for ratio in ratios)
    return [f"{within} of {len(ratios)}", f"{min(ratios):.2f} to {max(ratios):.2f}"]


def by_law_and_model(found: list[dict[str, str]]) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Return cells of a planner check by the law of their columns and the model."""
    keys = dict.fromkeys((row["law"], row["model"]) for row in found)
    return {key: [row for row in found if (row["law"], row["model"]) == key] for key in keys}


def planner_table(found: list[dict[str, str]]) -> str:
    """Return how near forecasts are to simulated widths, by law and model."""
    body = [
        [*key, *planner_ratios(here, "guesses"), planner_ratios(here, "defaults")[1]]
        for key, here in by_law_and_model(found).items()
    ]
    return table(["columns", "model", "within 15 %", "ratio, guesses", "ratio, defaults"], body)


def planner_learned() -> str:
    """Return the same for fits that learn bounds, and in a sentence where fewer intervals are finite."""
    usual, rare = (planner_cells("planner_learned", finite=one) for one in (True, False))
    body = [
        [*key, *planner_ratios(here, "guesses"), *planner_ratios(here, "reference")]
        for key, here in by_law_and_model(usual).items()
    ]
    header = ["columns", "model", "guesses", "ratio", "reference", "ratio"]
    (some, span), (by_table, other) = (planner_ratios(rare, told) for told in ("guesses", "reference"))
    return (
        f"{table(header, body)}\n\nWhere more than half of the intervals are finite, but fewer than 95 %: "
        f"{some} with guesses (ratios of {span}), {by_table} with a reference ({other})."
    )


def planner_exposures() -> str:
    """Return how near forecasts are for counts over exposures."""
    body = [
        [
            row["exposures"],
            row["rate"],
            f"{int(row['n']):,}",
            row["epsilon"] + (", pure" if float(row["delta"]) == 0.0 else ""),
            *(
                f"{row[f'{told}_intercept']}, {row[f'{told}_slope']}"
                for told in ("alike", "guesses", "reference")
            ),
        ]
        for row in rows("experiments/results/planner_exposures.csv")
    ]
    return table(["exposures", "rate", "n", "ε", "alike", "guesses", "reference"], body)


def planner_finite() -> str:
    """Return the largest difference between forecast and simulated shares of finite intervals."""
    found = rows("experiments/results/planner_check.csv")
    gaps = [abs(float(row["finite"]) - float(row["guesses_finite"])) for row in found]
    worst = found[gaps.index(max(gaps))]
    return (
        f"{max(gaps):.2f} ({worst['model']}, {worst['law']}, p = {worst['p']}, n = {int(worst['n']):,}, "
        f"ε = {worst['epsilon']}); on average {statistics.mean(gaps):.3f}, over all {len(found)} cells."
    )


def planner_census() -> str:
    """Return how near forecasts are on the census, over coefficients with finite intervals."""
    found = rows("experiments/results/planner_check_census.csv")
    body = []
    for cell in dict.fromkeys((row["model"], row["n"], row["epsilon"]) for row in found):
        here = [row for row in found if (row["model"], row["n"], row["epsilon"]) == cell]
        usual = [row for row in here if min(float(row["finite"]), float(row["reference_finite"])) >= 0.95]
        ratios = [float(row["reference_over_simulated"]) for row in usual]
        blind = [float(row["defaults_over_simulated"]) for row in usual]
        if not usual:
            body.append([cell[0], f"{int(cell[1]):,}", cell[2], f"0 of {len(here)}", "", "", ""])
            continue
        body.append(
            [
                cell[0],
                f"{int(cell[1]):,}",
                cell[2],
                f"{len(usual)} of {len(here)}",
                f"{sum(0.85 <= ratio <= 1.15 for ratio in ratios)} of {len(usual)}",
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                f"{min(blind):.2f} to {max(blind):.2f}",
            ]
        )
    header = ["model", "n", "ε", "finite", "within 15 %", "ratio, reference", "ratio, defaults"]
    return table(header, body)


ONE_PASS = {
    ("AdaGrad-norm", "tight"): "AdaGrad-norm",
    ("subgradient", "tight"): "subgradient (default)",
    ("FTRL", "tight"): "follow the regularised leader",
    ("optimistic", "tight"): "optimistic",
    ("mirror descent", "tight"): "mirror descent",
    ("strongly convex", "tight"): "strongly convex (strength 1/d, k = 2)",
    ("betting", "tight"): "betting, default",
    ("AdaGrad-norm", "source"): "AdaGrad-norm, noise of the source",
    ("gradient descent", "tight"): "*noisy gradient descent, same mu*",
    ("noisy SGD", "tight"): "*noisy SGD, same (ε, δ = 1e-5)*",
}
"""Methods of the study of one pass, as the page calls them."""


def one_pass_risks() -> dict[tuple[str, str], dict[tuple[int, int, float], float]]:
    """Return excess risks of the study of one pass by method, then by rows, columns and rho."""
    found: dict[tuple[str, str], dict[tuple[int, int, float], float]] = {one: {} for one in ONE_PASS}
    for row in rows("experiments/results/online_to_batch.csv"):
        cell = int(row["rows"]), int(row["columns"]), float(row["rho"])
        found[row["method"], row["noise"]][cell] = float(row["excess_risk"])
    return found


def one_pass_slopes() -> str:
    """Return least-squares slopes of the excess risk on log-log scales, one thing varied at a time."""
    body = []
    for method, risks in one_pass_risks().items():
        varied = [
            {n: risk for (n, d, rho), risk in risks.items() if d == 4 and math.isinf(rho)},
            {n: risk for (n, d, rho), risk in risks.items() if (d, rho) == (4, 1.0)},
            {d: risk for (n, d, rho), risk in risks.items() if (n, rho) == (4096, 1.0)},
            {1 / rho: risk for (n, d, rho), risk in risks.items() if (n, d) == (4096, 4) and rho < math.inf},
        ]
        body.append([ONE_PASS[method], *(_slope(by) if len(by) > 2 else "" for by in varied)])
    return table(["learner", "T, no noise", "T, rho = 1", "d", "1/rho"], body)


def _slope(risks: dict[Any, float]) -> str:
    logs = [math.log(at) for at in risks], [math.log(risk) for risk in risks.values()]
    return f"{statistics.linear_regression(*logs).slope:.2f}"


def one_pass_ratios() -> str:
    """Return excess risks over that of noisy gradient descent at the same cost, for many rows."""
    body = [[ONE_PASS[method], *(f"{one:.3g}" for one in pair)] for method, pair in _over_descent().items()]
    return table(["learner", "T = 4,096", "T = 8,192"], body)


def one_pass_rounds() -> str:
    """Return excess losses of one pass by the number of rounds."""
    found: dict[tuple[str, str], dict[int, str]] = {}
    for row in rows("experiments/results/one_pass_rounds.csv"):
        found.setdefault((row["learner"], row["epsilon"]), {})[int(row["rounds"])] = row["excess"]
    counts = sorted({count for by in found.values() for count in by})
    body = [[ONE_PASS[name, "tight"], epsilon, *map(by.get, counts)] for (name, epsilon), by in found.items()]
    return table(["learner", "ε", *(f"{count:,} rounds" for count in counts)], body)


def one_pass_worse() -> str:
    """Return the same in words, for the page that says when to use another method."""
    found = _over_descent()
    few, many = (f"{one:.0f}" for one in found["subgradient", "tight"])
    beside = ("subgradient", "betting", "noisy SGD")
    kept = [pair for (one, noise), pair in found.items() if noise == "tight" and one not in beside]
    others = [ratio for pair in kept for ratio in pair]
    return (
        "At the same `mu`, noisy gradient descent, which averages over all rows at every step, had "
        f"{few} and {many} times less excess risk than the default learner, at 4,096 and 8,192 rows of "
        f"[our study](../experiments/online-to-batch.md), and {min(others):.0f} to {max(others):.0f} times "
        "less than the other learners but betting."
    )


def _over_descent() -> dict[tuple[str, str], list[float]]:
    """Return excess risks over that of noisy gradient descent, with 4,096 and with 8,192 rows."""
    found = one_pass_risks()
    reference = found.pop(("gradient descent", "tight"))
    cells_of = [(n, 4, 1.0) for n in (4096, 8192)]
    return {method: [risks[cell] / reference[cell] for cell in cells_of] for method, risks in found.items()}


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "experiments.md": {
        "coverage": coverage,
        "grid": lambda: grid_coverage("auto"),
        "grid_width": lambda: grid_width("auto"),
        "grid_of_others": grid_of_others,
        "small_samples": small_samples,
        "budget_split": budget_split,
        "sampled_course": sampled_course,
        "published": published_intervals,
        "published_counts": published_counts,
        "published_coverage": published_coverage,
        "rare_levels": rare_levels,
        "rare_numbers": rare_numbers,
        "heavy_counts": heavy_counts,
        "tests_and_effects": tests_and_effects,
        "tests_and_effects_counts": tests_and_effects_counts,
        "slopes_in_levels": slopes_in_levels,
        "light_rows": light_rows,
        "coarse_responses": coarse_responses,
        "hidden_numbers": hidden_numbers,
        "unscaled_columns": unscaled_columns,
        "learned_bounds": learned_bounds,
        "learned_scales": learned_scales,
        "uneven_errors": uneven_errors,
        "uneven_errors_counts": uneven_errors_counts,
        "few_positives": few_positives,
        "rare_classes": rare_classes,
        "exposures": exposures,
        "many_columns": many_columns,
        "few_columns": few_columns,
        "unlike_tails": unlike_tails,
        "dummies": dummies,
        "private_number": private_number,
        "few_in_a_level": few_in_a_level,
        "generous_bounds": generous_bounds,
        "generous_bounds_counts": generous_bounds_counts,
        "pure_quantiles": pure_quantiles,
        "generous_response": generous_response,
        "generous_pure": partial(generous_response, "generous_pure"),
        "generous_response_counts": generous_response_counts,
        "pure": pure_budgets,
        "pure_counts": pure_counts,
        "multinomial": multinomial,
        "multinomial_accuracy": multinomial_accuracy,
        "awkward_tables": awkward_tables,
        "real": real,
    },
    "speed.md": {
        "pass": gradient_pass,
        "start_up": start_up,
        "mixed": mixed,
        "looks": looks,
        "larger": larger_than_memory,
        "own": own_fits,
        "elsewhere": other_libraries,
        "scaling": scaling,
        "cluster": cluster,
    },
    "experiments/audits.md": {
        "audits": audits,
        "queries": queries,
        "elsewhere": elsewhere,
        "kills": kills,
        "mutants": mutants,
    },
    "experiments/online-to-batch.md": {
        "slopes": one_pass_slopes,
        "rounds": one_pass_rounds,
        "ratios": one_pass_ratios,
    },
    "experiments/output-perturbation.md": {"cells": cells, "counts": counts},
    "planning.md": {
        "planner": lambda: planner_table(planner_cells(finite=True)),
        "planner_rare": lambda: planner_table(planner_cells(finite=False)),
        "planner_finite": planner_finite,
        "planner_census": planner_census,
        "planner_learned": planner_learned,
        "planner_exposures": planner_exposures,
    },
    "solvers/empirical-bayes.md": {
        "adult": lambda: ablation("adult"),
        "bank": lambda: ablation("bank"),
        "oracle_ratio": oracle_ratio,
    },
    "privacy-unit.md": {"private_unit": private_unit},
    "solvers/exponential.md": {"draws": exponential_draws},
    "solvers/online-to-batch.md": {"worse": one_pass_worse},
    "solvers/inference-from-a-point.md": {"point_solvers": point_solvers},
}
"""What stands between which markers of which page."""


def main() -> None:
    """Replace what stands between the markers."""
    for page, tables in PAGES.items():
        write_between(ROOT / "docs" / page, {name: make() for name, make in tables.items()})


if __name__ == "__main__":
    main()
