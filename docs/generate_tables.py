"""Write the tables of docs/experiments.md from the committed results.

python docs/generate_tables.py
"""

import csv
import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiments.md"


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
    report = json.loads((ROOT / "benchmarks/results/gradient_pass.json").read_text())
    body = [[name, f"{value} ms"] for name, value in report["milliseconds_minimum"].items()]
    ratios = (
        f"\n\nGradient over reading: {report['gradient_over_reading']}. "
        f"NumPy over gradient: {report['numpy_over_gradient']}."
    )
    return table(["", "time"], body) + ratios


def main() -> None:
    """Replace what stands between the markers."""
    text = PAGE.read_text(encoding="utf-8")
    for name, make in (("coverage", coverage), ("real", real), ("pass", gradient_pass)):
        block = f"<!-- {name}: start -->\n{make()}\n<!-- {name}: end -->"
        pattern = rf"<!-- {name}: start -->.*<!-- {name}: end -->"
        text = re.sub(pattern, lambda _, block=block: block, text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
