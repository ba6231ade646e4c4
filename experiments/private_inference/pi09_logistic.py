"""PI-9: logistic regression by noisy gradient descent, clipping and objective perturbation (section H.3).

Avella-Medina, Bradshaw and Loh 2023. x = (1, z), z ~ N(0, I_3), beta = (1, -1, 0.5, -0.5), mu = 0.5, K =
round(6 log n), step 1 / L for the largest L that the norm bound allows; "step 4" is 1 / L for columns of
unit variance.

*Scenario 1*: z pulled into the ball of radius sqrt(3), norm(x) <= 2; norm bound and clipping at 2, which
touch no row. *Scenario 2*: radius sqrt(15), norm(x) <= 4; norm bound and clipping at 3; objective
perturbation has no weights and needs 4. *Unbounded*: norm bound and clipping at sqrt(2), weights for
objective perturbation too. Objective perturbation gets (epsilon, delta) on the curve of mu = 0.5 with delta
= n**-1.1.

    python experiments/private_inference/pi09_logistic.py

Adds to experiments/results/private_inference/pi09.csv and draws pi09.png next to it; resumable.
"""

import math
from functools import partial

import numpy as np
from shared_comparators import UNWEIGHTED, Cell, error_row, fill, fit, options, plot_errors

from privfit import Budget
from privfit.data.synthetic import logistic_model
from privfit.losses import Logistic
from privfit.privacy.curves import gdp_epsilon
from privfit.solvers import (
    ClippedGradientDescent,
    NoisyGradientDescent,
    NonPrivate,
    ObjectivePerturbation,
    WhitenedGradientDescent,
)

BETA = np.array([1.0, -1.0, 0.5, -0.5])
MU = 0.5
ROWS = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
RADIUS = {"scenario 1": math.sqrt(3.0), "scenario 2": math.sqrt(15.0), "unbounded": math.inf}
BOUND = {"scenario 1": 2.0, "scenario 2": 3.0, "unbounded": math.sqrt(2.0)}
OBJECTIVE_BOUND = {"scenario 1": 2.0, "scenario 2": 4.0, "unbounded": math.sqrt(2.0)}
OBJECTIVE = "objective perturbation"
OBJECTIVE_SOURCE = "objective perturbation, source's constants"
STYLES = {
    "noisy GD": ("C0", "-"),
    "auto (whitened)": ("C2", "-"),
    "clipped GD": ("C1", "-"),
    "GD without noise": ("C0", ":"),
    "noisy GD, step 4": ("C0", "--"),
    OBJECTIVE: ("C3", "-"),
    OBJECTIVE_SOURCE: ("C3", ":"),
    "non-private": ("0.4", ":"),
}


def simulate(setting: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    z, _ = logistic_model(n, BETA[1:], intercept=BETA[0], seed=seed)
    z *= np.minimum(1.0, RADIUS[setting] / np.linalg.norm(z, axis=1))[:, None]
    x = np.column_stack([np.ones(n), z])
    rng = np.random.default_rng([seed, 1])
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-x @ BETA))).astype(float)


def one(setting: str, method: str, n: int, seed: int) -> np.ndarray:
    x, y = simulate(setting, n, seed)
    bound = BOUND[setting]
    make = partial(fit, Logistic(), x=x, y=y, seed=seed)
    room = bound * (1 + 1e-9)
    gradient = {
        "auto (whitened)": WhitenedGradientDescent(),
        "noisy GD": NoisyGradientDescent(report="last"),
        "noisy GD, step 4": NoisyGradientDescent(report="last", step_size=4.0),
    }
    match method:
        case "non-private":
            return make(NonPrivate(), norm_bound=UNWEIGHTED, budget=None)
        case "GD without noise":
            return make(gradient["noisy GD"], norm_bound=room, budget=None)
        case "clipped GD":
            solver = ClippedGradientDescent(room, step_size=4.0 / bound**2)
            return make(solver, norm_bound=UNWEIGHTED, budget=Budget.gdp(MU))
    if method in gradient:
        return make(gradient[method], norm_bound=room, budget=Budget.gdp(MU))
    delta = n**-1.1
    budget = Budget(gdp_epsilon(MU, delta), delta)
    solver = ObjectivePerturbation(constants="source" if method == OBJECTIVE_SOURCE else "derived")
    return make(solver, norm_bound=OBJECTIVE_BOUND[setting] * (1 + 1e-9), budget=budget)


def run(cell: Cell, repetitions: int) -> list[dict[str, object]]:
    fits = np.array([one(*cell, seed) for seed in range(repetitions)])
    return [error_row(cell, np.linalg.norm(fits - BETA, axis=1))]


def main() -> None:
    chosen = options(__doc__, repetitions=200, name="pi09")
    cells = [(setting, method, n) for setting in RADIUS for n in ROWS for method in STYLES]
    rows = fill(chosen.out, cells, partial(run, repetitions=chosen.repetitions), workers=chosen.workers)
    titles = {
        "scenario 1": "scenario 1: norm(x) <= 2",
        "scenario 2": "scenario 2: norm(x) <= 4",
        "unbounded": "unbounded",
    }
    label = "mean distance to the true coefficients"
    plot_errors(rows, titles, STYLES, chosen.out.with_suffix(".png"), label=label)


if __name__ == "__main__":
    main()
