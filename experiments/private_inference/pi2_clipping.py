"""PI-2: clipped gradients against Mallows weights, linear and logistic.

    python experiments/private_inference/pi2_clipping.py --repetitions 400

Avella-Medina, Bradshaw and Loh (2023), section 3.2.2, figures 12 and 13. Clipping is not part of the library;
here it is noisy gradient descent on rows' gradients cut to norm 1, with the same budget.
"""

import math

import numpy as np
from common import HUBER, Table, arguments, figure, fit, save, table

from privfit.losses import Huber, Logistic
from privfit.solvers import NoisyGradientDescent

NAME, BETA, SD, MU, STEPS = "pi2_clipping", np.array([1.5, 1.0, -1.0, 0.5]), 2.0, 1.0, 60
ROWS = (500, 1000, 2000, 4000, 8000)


def mallows(model: str, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    loss = Huber(HUBER * SD) if model == "linear" else Logistic()
    solver = NoisyGradientDescent(n_steps=STEPS, report="last")
    return fit(loss, x, y, solver, mu=MU, seed=seed).solution.theta


def clipping(model: str, x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    rng, n, theta = np.random.default_rng(10**6 + seed), len(y), np.zeros(x.shape[1])
    norms = np.linalg.norm(x, axis=1)
    sd = 2.0 * math.sqrt(STEPS) / (n * MU)
    for _ in range(STEPS):
        residual = x @ theta - y if model == "linear" else 1.0 / (1.0 + np.exp(-x @ theta)) - y
        limited = np.clip(residual, -1.0 / norms, 1.0 / norms)
        theta = theta - (x.T @ limited / n + sd * rng.normal(size=theta.size))
    return theta


def main() -> None:
    repetitions = arguments(__doc__, 400).repetitions
    results = Table(NAME, ("model", "method", "n"))
    for model in ("linear", "logistic"):
        for method in (mallows, clipping):
            for n in ROWS:
                if results.has(model=model, method=method.__name__, n=n):
                    continue
                errors = []
                for seed in range(repetitions):
                    x, y = table(n, BETA, seed=seed, sd=SD if model == "linear" else None)
                    errors.append(method(model, x, y, seed) - BETA)
                error = np.array(errors)
                row = {"model": model, "method": method.__name__, "n": n, "repetitions": repetitions}
                bias = {f"bias_{k}": float(value) for k, value in enumerate(error.mean(axis=0))}
                spread = {"rmse": float(np.sqrt(np.mean(error**2)))}
                largest = float(np.max(error.std(axis=0)) / math.sqrt(repetitions))
                results.add(row | bias | spread | {"se_of_bias": largest})
    draw(results)


def draw(results: Table) -> None:
    fig, axes = figure(2)
    for axis, model in zip(axes, ("linear", "logistic"), strict=True):
        for k, method in enumerate(("mallows", "clipping")):
            for coefficient in range(4):
                n, bias = results.series("n", f"bias_{coefficient}", model=model, method=method)
                label = method if coefficient == 0 else None
                axis.plot(n, bias, "o-", color=f"C{k}", ms=3, lw=1, label=label)
        axis.axhline(0.0, color="gray", ls=":")
        axis.set(xlabel="n", ylabel="bias of each coefficient", xscale="log", title=model)
    axes[0].legend()
    save(fig, NAME)


if __name__ == "__main__":
    main()
