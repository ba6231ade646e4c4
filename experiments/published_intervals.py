"""Intervals for the slope of a private logit against published ones of other methods.

*Design* of Wang and Awan's studies of simulation-based inference: x = 2 B - 1 with B ~ Beta(1/2, 1/2),
P(y = 1) = expit(0.5 + 2 x), 95 % intervals for the slope. The published results are pure epsilon-DP:
"DP-CI-ERM" (Wang, Kifer and Lee 2019) and "Repro" (Awan and Wang 2025), whose search box makes [-10, 10] the
interval of those who know nothing. Intervals of the default, with the public bounds [-1, 1] of x, are cut to
that box, too. Budgets: pure epsilon, and (epsilon, 1 / n^2).

    python experiments/published_intervals.py

Adds to experiments/results/published_intervals.csv; resumable.
"""

import argparse
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import expit

import privfit as pf
from resumable import ResultsTable

RESULTS = Path(__file__).parent / "results" / "published_intervals.csv"
SCHEMA = pf.Schema(
    {
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "y": {"type": "categorical", "levels": ["no", "yes"]},
    }
)
INTERCEPT, SLOPE, BOX = 0.5, 2.0, 10.0
ROWS = (100, 200, 500, 1_000, 2_000)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
FIELDS = ["n", "epsilon", "budget", "mu", "repetitions", "coverage", "mean_width", "median_width", "infinite"]


def simulated(n: int, seed: int) -> pd.DataFrame:
    """Return a table."""
    rng = np.random.default_rng([seed, n])
    x = 2.0 * rng.beta(0.5, 0.5, size=n) - 1.0
    y = rng.random(n) < expit(INTERCEPT + SLOPE * x)
    return pd.DataFrame({"x": x, "y": np.where(y, "yes", "no")})


def cell(n: int, epsilon: float, kind: str, repetitions: int) -> dict[str, object]:
    """Return a row of the results."""
    budget = pf.Budget(epsilon=epsilon, delta=0.0 if kind == "pure" else n**-2.0)
    held, widths, infinite, mu = [], [], [], 0.0
    for seed in range(repetitions):
        result = pf.logit("y ~ x", simulated(n, seed), schema=SCHEMA, budget=budget, random_state=seed)
        low, high = result.conf_int().loc["x"]
        infinite.append(not np.isfinite(high - low))
        low, high = np.clip([low, high], -BOX, BOX)
        held.append(low <= SLOPE <= high)
        widths.append(high - low)
        mu = result.privacy.mu
    return {
        "n": n, "epsilon": epsilon, "budget": kind, "mu": f"{mu:.4g}", "repetitions": repetitions,
        "coverage": f"{np.mean(held):.4f}", "mean_width": f"{np.mean(widths):.3f}",
        "median_width": f"{np.median(widths):.3f}", "infinite": f"{np.mean(infinite):.3f}",
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 3)
    for one in product(ROWS, EPSILONS, ("pure", "with delta")):
        if table.lacks(*one):
            table.add(cell(*one, options.repetitions))


if __name__ == "__main__":
    main()
