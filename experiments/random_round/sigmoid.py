"""Random-round SGD on the sigmoid loss, which is not convex: squared gradient against its bound.

Design: x = (1, z), z ~ N(0, I_3), labels from a logit with beta = (1, -1, 0.5, -0.5), n = 1000 rows, norm
bound 2, loss 1 / (1 + exp(margin)). For each budget and number of steps N the mean over repetitions of
norm(grad F(w_R))**2, its standard error, and the bound of Ghadimi and Lan (2013) with the noise that the
accountant asks for; the noise of the source (constant 32) for comparison. Noise is seeded.

    python experiments/random_round/sigmoid.py --repetitions 100

Adds to experiments/results/random_round.csv, and draws random_round.png next to it; resumable.
"""

import argparse
import math
import sys
from itertools import product
from pathlib import Path

import numpy as np

from privfit.data.source import ArraySource
from privfit.data.synthetic import logistic_model
from privfit.losses import Sigmoid
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.mechanisms import make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.query_kernels import query_kernel
from privfit.solvers import RandomRoundSGD

sys.path.append(str(Path(__file__).parents[1]))

from resumable import ResultsTable, read

RESULTS = Path(__file__).parents[1] / "results" / "random_round.csv"
FIELDS = ["n", "epsilon", "steps", "repetitions", "sd", "source_sd", "squared_gradient", "error", "bound"]
ROWS, DELTA, GAP = 1000, 1e-5, 0.5
EPSILONS = (0.5, 1.0, 2.0, 8.0)
STEPS = (100, 300, 1000, 3000, 10_000, 30_000)


def study(epsilon: float, n_steps: int, repetitions: int) -> dict[str, float]:
    """Return one line of the results."""
    z, y = logistic_model(ROWS, (-1.0, 0.5, -0.5), intercept=1.0, seed=1)
    x = np.column_stack([np.ones(ROWS), z])
    names = tuple(f"x{k}" for k in range(4))
    penalised = (False, True, True, True)
    problem = Problem(Sigmoid(), names, 2.0, ROWS, Relation.REPLACE, 0.0, (0.0,) * 4, penalised)
    source = ArraySource(x, y, norm_bound=2.0)
    solver = RandomRoundSGD(n_steps=n_steps, initial_gap=GAP)  # F(0) = 1/2 and F >= 0
    plan = make_plan(problem, solver, Allowance.of(Budget(epsilon, DELTA)), inference=False)
    squares = []
    for seed in range(repetitions):
        theta = solver.run(problem, Oracle(problem, plan, source, make_source(seed))).theta
        gradient = problem.mean("gradient", source.sum(query_kernel(problem, "gradient", theta), 4))
        squares.append(float(gradient @ gradient))
    beta, slope, sd = problem.ridged_smoothness, 0.25 * 2.0, plan.solver_releases[0].sd
    reach, noise = math.sqrt(2 * GAP / beta), math.sqrt(slope**2 + 4 * sd**2)
    return {
        "n": ROWS,
        "epsilon": epsilon,
        "steps": n_steps,
        "repetitions": repetitions,
        "sd": sd,
        "source_sd": math.sqrt(32 * math.log(ROWS / DELTA) * math.log(1 / DELTA)) * slope / epsilon,
        "squared_gradient": float(np.mean(squares)),
        "error": float(np.std(squares, ddof=1) / math.sqrt(repetitions)),
        "bound": beta * (beta * reach**2 / n_steps + 2 * reach * noise / math.sqrt(n_steps)),
    }


def draw(lines: list[dict[str, str]], path: Path) -> None:
    """Draw the squared gradient and its bound against N."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 4))
    for k, epsilon in enumerate(EPSILONS):
        chosen = sorted(
            (float(line["steps"]), float(line["squared_gradient"]), float(line["bound"]))
            for line in lines
            if float(line["epsilon"]) == epsilon
        )
        if not chosen:
            continue
        steps, squares, bounds = zip(*chosen, strict=True)
        axes.loglog(steps, squares, "o-", color=f"C{k}", label=f"ε = {epsilon:g}")
        axes.loglog(steps, bounds, "--", color=f"C{k}")
    axes.set(xlabel="steps N", ylabel="mean squared gradient (dashed: bound)", title="Sigmoid loss, n = 1000")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    table = ResultsTable(options.out, FIELDS, 3)
    for epsilon, n_steps in product(EPSILONS, STEPS):
        if table.lacks(ROWS, epsilon, n_steps):
            table.add(study(epsilon, n_steps, options.repetitions))
    draw(read(options.out), options.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
