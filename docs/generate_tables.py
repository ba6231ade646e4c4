"""Write the tables of docs/experiments.md and docs/solvers/inference-from-a-point.md from committed results.

python docs/generate_tables.py
"""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "experiments.md"
POINT_PAGE = ROOT / "docs" / "solvers" / "inference-from-a-point.md"


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


def main() -> None:
    """Replace what stands between the markers."""
    fill(PAGE, {"coverage": coverage, "real": real, "pass": gradient_pass})
    fill(POINT_PAGE, {"point_solvers": point_solvers})


def fill(page: Path, tables: dict[str, Callable[[], str]]) -> None:
    """Replace what stands between the markers of a page."""
    text = page.read_text(encoding="utf-8")
    for name, make in tables.items():
        block = f"<!-- {name}: start -->\n{make()}\n<!-- {name}: end -->"
        pattern = rf"<!-- {name}: start -->.*<!-- {name}: end -->"
        text = re.sub(pattern, lambda _, block=block: block, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
