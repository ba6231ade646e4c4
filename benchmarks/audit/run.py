"""Attack every solver under every guarantee, with the noise of private fits.

    python benchmarks/audit/run.py [--scale 1.0] [--only 0 3 4]

Every case gets as many runs on each table as fit its class: 100,000 where a run takes a fraction of a
millisecond, fewer for others. Writes benchmarks/audit/results/audit.json and audit.csv, case by case: a
run replaces the cases that it has finished and leaves the others. Exits with 1 if a claim is violated.

``tight`` marks cases in which one pair of tables can show the whole cost (Gaussian releases of which all
are moved by the row that differs, or one pure release): there at least 80 % of the claim is expected.
"""

import argparse
import csv
import json
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import privfit as pf
from privfit.solvers import ClippedGradientDescent, NoisyGradientDescent, OutputPerturbation

FOLDER = Path(__file__).parent / "results"
CONFIDENCE = 0.999
SHOWN = ("case", "epsilon", "mu", "tightness", "violated", "seconds")
PURE, PAIR, GAUSSIAN = pf.Budget(1.0), pf.Budget(1.0, 1e-5), pf.Budget.gdp(1.0)


@dataclass(frozen=True)
class Case:
    """One attack."""

    name: str
    solver: Any
    budget: pf.Budget
    trials: int
    tight: bool = False
    options: dict[str, Any] = field(default_factory=dict)


ONE = NoisyGradientDescent(n_steps=1)
FOUR = NoisyGradientDescent(n_steps=4)
LOGIT = {"loss": pf.losses.Logistic()}

CASES = [
    Case("one gradient", ONE, GAUSSIAN, 100_000, tight=True),
    Case("one gradient, add_remove", ONE, GAUSSIAN, 100_000, True, {"relation": "add_remove"}),
    Case("one gradient, row beyond the bound", ONE, GAUSSIAN, 100_000, options={"reach": 3.0}),
    Case("one gradient", ONE, PAIR, 100_000, tight=True),
    Case("one gradient", ONE, PURE, 100_000, tight=True),
    Case("one clipped gradient", ClippedGradientDescent(n_steps=1), GAUSSIAN, 100_000, tight=True),
    Case("four gradients", FOUR, GAUSSIAN, 50_000, tight=True),
    Case("sufficient-statistics", "sufficient-statistics", GAUSSIAN, 100_000, tight=True),
    Case("sufficient-statistics", "sufficient-statistics", PURE, 100_000),
    Case("adassp", "adassp", GAUSSIAN, 50_000),
    Case("adassp", "adassp", PURE, 50_000),
    Case("output-perturbation", OutputPerturbation(), PURE, 10_000),
    Case("output-perturbation", OutputPerturbation(), GAUSSIAN, 10_000),
    Case("objective-perturbation", "objective-perturbation", PURE, 10_000),
    Case("objective-perturbation, logit", "objective-perturbation", PAIR, 10_000, options=LOGIT),
    Case("gradient-descent", "gradient-descent", GAUSSIAN, 10_000),
    Case("gradient-descent, logit", "gradient-descent", PAIR, 10_000, options=LOGIT),
    Case("whitened", "whitened", GAUSSIAN, 10_000),
    Case("whitened with inference, logit", "whitened", PAIR, 10_000, options={**LOGIT, "inference": True}),
    Case("whitened", "whitened", PURE, 10_000),
    Case("online-to-batch", "online-to-batch", GAUSSIAN, 20_000),
    Case("online-to-batch", "online-to-batch", PURE, 20_000),
    Case("projected-gradient-descent", "projected-gradient-descent", PURE, 10_000),
    Case("newton", "newton", GAUSSIAN, 3_000),
    Case("random-round", "random-round", PAIR, 20_000),
    Case("noisy-sgd", "noisy-sgd", PAIR, 3_000),
    Case("exponential-mechanism", "exponential-mechanism", PURE, 5_000),
    Case("regularised-exponential-mechanism", "regularised-exponential-mechanism", GAUSSIAN, 5_000),
    Case("projected-gradient-descent", "projected-gradient-descent", GAUSSIAN, 1_000),
    Case("whitened-objective-perturbation", "whitened-objective-perturbation", PURE, 10_000),
]


def attack(case: Case, scale: float) -> dict[str, Any]:
    begun = time.perf_counter()
    found = pf.audit(
        case.solver,
        budget=case.budget,
        trials=max(200, round(case.trials * scale)),
        confidence=CONFIDENCE,
        **case.options,
    )
    seconds = round(time.perf_counter() - begun, 1)
    return {"case": case.name, "tight": case.tight, **found.to_dict(), "seconds": seconds}


def key(row: dict[str, Any]) -> tuple[str, str]:
    return row["case"], row["subject"]


def write(row: dict[str, Any]) -> None:
    """Add a row to the results, or replace the one of the same case."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / "audit.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    rows = sorted([*(other for other in old if key(other) != key(row)), row], key=key)
    path.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    with (FOLDER / "audit.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(row))
        table.writeheader()
        table.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the numbers of runs")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of the cases, from 0")
    arguments = parser.parse_args()
    violated = False
    for number, case in enumerate(CASES):
        if arguments.only is None or number in arguments.only:
            row = attack(case, arguments.scale)
            write(row)
            print(json.dumps({name: row[name] for name in SHOWN}), flush=True)
            violated |= row["violated"]
    if violated:
        sys.exit("a claim is violated")


if __name__ == "__main__":
    main()
