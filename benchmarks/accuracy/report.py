"""Print the verdicts of the accuracy benchmark, and write docs/accuracy.md's tables and the figures.

    python benchmarks/accuracy/report.py [--csv FILE] [--print-only]

Everything comes from the results that `run.py` wrote.
"""

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from figures import draw
from verdicts import CellResult, Entry, read

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "accuracy.md"
ORACLE, CONSTANT = "isotropic one-shot oracle", "constant predictor"
WORDS = {"first": "**first**", "within": "within 1 s.e.", "behind": "behind"}
TITLES = {"logistic": "logistic regression", "squared": "least squares", "huber": "Huber regression"}


def table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def summary(cells: Sequence[CellResult]) -> str:
    """Return in how many cells the default is first, within a standard error of it, or behind."""
    body = []
    for task, title in TITLES.items():
        for tuned, against in ((False, "untuned"), (True, "all, tuned ones too")):
            found = [cell for cell in cells if cell.task == task and cell.best(tuned=tuned)]
            if found:
                ranks = Counter(cell.rank(tuned=tuned) for cell in found)
                counts = [str(ranks[rank]) for rank in ("first", "within", "behind")]
                body.append([title, against, str(len(found)), *counts])
    return table(["model", "against", "cells", "first", "within 1 s.e.", "behind"], body)


def details(cells: Sequence[CellResult]) -> str:
    """Return the default beside the best competitors, a line a cell."""
    body = [
        [
            cell.table,
            f"{cell.epsilon:g}",
            _value(cell.default),
            _named(cell.best(tuned=False)),
            _named(cell.best()),
            _value(cell.reference(ORACLE)),
            _value(cell.reference(CONSTANT)),
            f"{cell.default.test:.4f}",
            f"{cell.best().test:.4f}",
            WORDS[cell.rank()],
        ]
        for cell in cells
    ]
    header = ["table", "ε", "default", "best untuned", "best of all", "oracle", "constant"]
    return table([*header, "test, default", "test, best", "default is"], body)


def methods(cells: Sequence[CellResult]) -> str:
    """Return for every method its median excess over the default's, by epsilon, and its time."""
    epsilons = sorted({cell.epsilon for cell in cells})
    names = list(dict.fromkeys(e.method for cell in cells for e in cell.entries if e.role != "default"))
    body = []
    for name in names:
        pairs = [(cell, e) for cell in cells for e in cell.entries if e.method == name]
        medians = [_median_ratio([pair for pair in pairs if pair[0].epsilon == eps]) for eps in epsilons]
        label = f"{name} (reference)" if pairs[0][1].role == "reference" else name
        seconds = sorted(e.seconds for _, e in pairs)[len(pairs) // 2]
        body.append([label, *medians, f"{seconds:.2g}"])
    return table(["method", *(f"ε = {eps:g}" for eps in epsilons), "seconds a fit"], body)


def _median_ratio(pairs: Sequence[tuple[CellResult, Entry]]) -> str:
    ratios = sorted(e.excess / cell.default.excess for cell, e in pairs if not e.failed)
    if not ratios:
        return ""
    middle = ratios[len(ratios) // 2]
    return f"{middle:.2g}" if middle < 1000 else f"{middle:.0e}"


def _value(entry: Entry) -> str:
    return f"{entry.excess:.2g}" if entry.excess < 1000 else f"{entry.excess:.0e}"


def _named(entry: Entry) -> str:
    return f"{_value(entry)} {entry.method}"


def verdict_lines(cells: Sequence[CellResult]) -> str:
    """Return one line a cell for the terminal."""
    lines = []
    for cell in cells:
        ours, best = cell.default, cell.best()
        lines.append(
            f"{cell.task:9s} {cell.table:20s} eps={cell.epsilon:<4g} {cell.rank():7s} "
            f"default {ours.excess:.4g} (se {ours.excess_se:.1g}, test {ours.test:.4f})   "
            f"best {best.excess:.4g} (se {best.excess_se:.1g}, test {best.test:.4f}) {best.method}"
            f"{' [' + best.setting + ']' if best.setting else ''}"
        )
    return "\n".join(lines)


def write_page(cells: Sequence[CellResult], page: Path) -> None:
    """Replace what stands between the markers of the page."""
    blocks = {"summary": summary(cells)}
    for task, title in TITLES.items():
        found = [cell for cell in cells if cell.task == task]
        if found:
            words = f"Excess loss against ε, {title}, by table and method"
            image = f"![{words}](../benchmarks/accuracy/results/accuracy_{task}.png)"
            blocks |= {task: f"{image}\n\n{details(found)}", f"{task}_methods": methods(found)}
    text = page.read_text(encoding="utf-8")
    for name, content in blocks.items():
        block = f"<!-- {name}: start -->\n{content}\n<!-- {name}: end -->"
        pattern = rf"<!-- {name}: start -->.*<!-- {name}: end -->"
        text = re.sub(pattern, lambda _, block=block: block, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--csv", type=Path, default=HERE / "results" / "accuracy.csv")
    parser.add_argument("--print-only", action="store_true")
    options = parser.parse_args()
    cells = list(read(options.csv).values())
    print(verdict_lines(cells))
    print(summary(cells))
    if options.print_only:
        return
    write_page(cells, PAGE)
    for task in TITLES:
        found = [cell for cell in cells if cell.task == task]
        if found:
            draw(found, options.csv.with_name(f"accuracy_{task}.png"))


if __name__ == "__main__":
    main()
