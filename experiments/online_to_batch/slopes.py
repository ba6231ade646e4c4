"""How the excess risk of one private pass falls with rows, columns and budget, for every learner.

Linear regression with known risk: x uniform on the sphere of radius 1, y = x'u + noise with norm(u) = 1/2,
Huber's loss with a threshold that no residual passes, so that the excess risk is norm(theta - u)**2 / (2 d).
Noise is seeded, as for any simulation. Noisy gradient descent and noisy SGD are compared at the same cost.

    python experiments/online_to_batch/slopes.py
    python experiments/online_to_batch/slopes.py --figure

Adds to experiments/results/online_to_batch.csv and draws online_to_batch.png next to it; resumable.
"""

import argparse
import math
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from privfit import Budget, learners, solvers
from privfit.data.source import ArraySource
from privfit.losses import Huber
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle

sys.path.append(str(Path(__file__).parents[1]))

from resumable import ResultsTable, read

RESULTS = Path(__file__).parents[1] / "results" / "online_to_batch.csv"
FIELDS = [
    "method",
    "noise",
    "rows",
    "columns",
    "rho",
    "repetitions",
    "excess_risk",
    "standard_error",
    "seconds",
]
LEARNERS = {
    "AdaGrad-norm": learners.AdaGradNorm(),
    "subgradient": learners.OnlineSubgradientDescent(),
    "FTRL": learners.FollowTheRegularizedLeader(),
    "optimistic": learners.OptimisticFTRL(),
    "mirror descent": learners.OnlineMirrorDescent(),
    "strongly convex": None,  # its strength is that of the problem, 1 / d
    "betting": learners.ParameterFree(),
}
OTHERS = ("gradient descent", "noisy SGD")
DELTA = 1e-5
"""Noisy SGD has no cost in rho: it gets the (epsilon, DELTA) that rho-GDP implies."""

ROWS, COLUMNS, BUDGETS = (256, 512, 1024, 2048, 4096, 8192), (2, 4, 8, 16, 32), (0.25, 0.5, 1.0, 2.0, 4.0)
BASE = (4096, 4, 1.0)


def solver_of(method: str, noise: str, columns: int):
    """Return the solver."""
    if method == "noisy SGD":
        return solvers.NoisySGD(radius=1.0)
    if method == "gradient descent":
        return solvers.NoisyGradientDescent()
    learner = LEARNERS[method] or learners.StronglyConvexOSD(strength=1.0 / columns)
    return solvers.OnlineToBatch(learner, radius=1.0, batch_size=1, noise=noise)


def excess(solver, rows: int, columns: int, rho: float, seed: int) -> float:
    """Return the excess risk of one fit."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    x /= np.linalg.norm(x, axis=1)[:, None]
    truth = np.full(columns, 0.5 / math.sqrt(columns))
    y = x @ truth + rng.uniform(-0.3, 0.3, size=rows)
    names = tuple(f"x{k}" for k in range(columns))
    problem = Problem(
        Huber(1.8), names, 1.0, rows, Relation.REPLACE, 0.0, (0.0,) * columns, (True,) * columns
    )
    allowance = Allowance.gaussian(rho)
    if isinstance(solver, solvers.NoisySGD):
        allowance = Allowance.of(Budget(Budget.gdp(rho).epsilon_at(DELTA), DELTA))
    plan = make_plan(problem, solver, allowance, inference=False)
    noise = make_source(seed) if math.isfinite(rho) else NoNoise()
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=1.0), noise)
    return float(np.sum((solver.run(problem, oracle).theta - truth) ** 2) / (2 * columns))


def cell(arguments: tuple[str, str, int, int, float, int]) -> dict[str, object]:
    """Return a row of the table."""
    method, noise, rows, columns, rho, repetitions = arguments
    solver = solver_of(method, noise, columns)
    began = time.perf_counter()
    found = [excess(solver, rows, columns, rho, seed) for seed in range(repetitions)]
    return {
        "method": method, "noise": noise, "rows": rows, "columns": columns, "rho": rho,
        "repetitions": repetitions, "excess_risk": f"{np.mean(found):.4g}",
        "standard_error": f"{np.std(found, ddof=1) / math.sqrt(repetitions):.2g}",
        "seconds": f"{(time.perf_counter() - began) / repetitions:.3g}",
    }  # fmt: skip


def grid(repetitions: int) -> list[tuple[str, str, int, int, float, int]]:
    """Return all cells: one thing varied at a time."""
    points = [(n, BASE[1], BASE[2]) for n in ROWS] + [(n, BASE[1], math.inf) for n in ROWS]
    points += [(BASE[0], d, BASE[2]) for d in COLUMNS] + [(BASE[0], BASE[1], rho) for rho in BUDGETS]
    points = list(dict.fromkeys(points))
    cells = [(name, "tight", *point, repetitions) for name in (*LEARNERS, *OTHERS) for point in points]
    cells = [one for one in cells if one[0] != "noisy SGD" or math.isfinite(one[4])]  # it draws at random
    return cells + [("AdaGrad-norm", "source", n, BASE[1], BASE[2], repetitions) for n in ROWS]


def slope(rows: list[dict[str, str]], of: str) -> float:
    """Return the least-squares slope of log risk in the log of a column."""
    points = np.log([[float(row[of]), float(row["excess_risk"])] for row in rows])
    return float(np.polyfit(points[:, 0], points[:, 1], 1)[0])


def select(
    rows: list[dict[str, str]], method: str, noise: str, varied: str, rho: float
) -> list[dict[str, str]]:
    """Return the cells in which one thing varies."""
    fixed = {"rows": BASE[0], "columns": BASE[1], "rho": rho}
    fixed.pop(varied)
    return [
        row
        for row in rows
        if (row["method"], row["noise"]) == (method, noise)
        and math.isfinite(float(row["rho"])) == math.isfinite(rho)
        and all(float(row[name]) == value for name, value in fixed.items())
    ]


def report(rows: list[dict[str, str]]) -> None:
    """Print the slopes."""
    print(f"{'method':18}{'noise':8}{'T, no noise':>12}{'T, rho=1':>10}{'d':>8}{'1/rho':>8}")
    for method, noise in dict.fromkeys((row["method"], row["noise"]) for row in rows):
        line = f"{method:18}{noise:8}"
        for varied, rho, sign, width in (
            ("rows", math.inf, 1, 12), ("rows", 1.0, 1, 10), ("columns", 1.0, 1, 8), ("rho", 1.0, -1, 8),
        ):  # fmt: skip
            chosen = select(rows, method, noise, varied, rho)
            line += (
                f"{sign * slope(chosen, varied):{width}.2f}" if len(chosen) > 2 else " " * (width - 1) + "-"
            )
        print(line)


def figure(rows: list[dict[str, str]], path: Path) -> None:
    """Draw the excess risk against rows, columns and budget."""
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    _, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
    for method, noise in dict.fromkeys((row["method"], row["noise"]) for row in rows):
        for axis, varied in zip(axes, ("rows", "columns", "rho"), strict=True):
            chosen = sorted(select(rows, method, noise, varied, 1.0), key=lambda row: float(row[varied]))
            if chosen:
                label = method + (" (source's noise)" if noise == "source" else "")
                at = [[float(row[name]) for row in chosen] for name in (varied, "excess_risk")]
                axis.loglog(*at, marker=".", linewidth=1, label=label)
            axis.set_xlabel(varied)
            axis.xaxis.set_minor_formatter(NullFormatter())
    axes[0].set_ylabel("mean excess risk")
    axes[0].legend(fontsize=6)
    plt.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--figure", action="store_true", help="only draw and print what is there")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if not options.figure:
        table = ResultsTable(options.out, FIELDS, 5)
        todo = [one for one in grid(options.repetitions) if table.lacks(*one[:5])]
        with ProcessPoolExecutor(options.jobs) as pool:
            for row in pool.map(cell, todo):
                table.add(row)
    rows = read(options.out)
    report(rows)
    figure(rows, options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
