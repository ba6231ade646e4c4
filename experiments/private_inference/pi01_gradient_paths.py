"""PI-1: paths of noisy gradient descent for linear regression with unknown scale, private and not.

    python experiments/private_inference/pi01_gradient_paths.py

Avella-Medina, Bradshaw and Loh (2023), figure 1. Each repetition is a path.
"""

import math

import numpy as np
from common import Table, arguments, figure, fit, save, table

from privfit.losses import ConcomitantHuber
from privfit.solvers import NoisyGradientDescent

NAME, STEPS, N, BETA = "pi01_gradient_paths", 100, 1000, (1.0, 1.0, 1.0, 1.0)
BUDGETS = (math.inf, 2.0, 1.0, 0.5)


def main() -> None:
    repetitions = arguments(__doc__, 3).repetitions
    results = Table(NAME, ("mu", "repetition", "step"))
    x, y = table(N, BETA, seed=1, sd=2.0, spread=2.0)
    for mu in BUDGETS:
        for repetition in range(1 if math.isinf(mu) else repetitions):
            if results.has(mu=mu, repetition=repetition, step=STEPS):
                continue
            solver = NoisyGradientDescent(n_steps=STEPS, report="last")
            run = fit(ConcomitantHuber(), x, y, solver, mu=mu, seed=10 + repetition)
            noise = run.solution.steps[0].release.planned.sd * math.sqrt(run.problem.size)
            for step in range(0, STEPS + 1, 4):
                theta = run.path[step]
                row = {"mu": mu, "repetition": repetition, "step": step, "beta_2": float(theta[2])}
                results.add(row | {"gradient": run.gradient_norm(theta), "noise": noise})
    draw(results, repetitions)


def draw(results: Table, repetitions: int) -> None:
    fig, (left, right) = figure(2)
    for k, mu in enumerate(BUDGETS):
        for repetition in range(1 if math.isinf(mu) else repetitions):
            label = None if repetition else ("no privacy" if math.isinf(mu) else f"μ = {mu:g}")
            for axis, column in ((left, "beta_2"), (right, "gradient")):
                series = results.series("step", column, mu=mu, repetition=repetition)
                axis.plot(*series, color="black" if k == 0 else f"C{k}", lw=1.1, label=label)
    left.axhline(1.0, color="gray", ls=":")
    left.set(xlabel="step", ylabel="coefficient of x2 (truth 1)")
    right.set(xlabel="step", ylabel="norm of the exact gradient", yscale="log")
    right.set_ylim(bottom=1e-3)
    left.legend()
    save(fig, NAME)


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()
