"""PI-2: clipping against Mallows weights (Avella-Medina, Bradshaw and Loh 2023, section 3.2.2, H.1).

Design: x = (1, z), z ~ N(0, I_3), beta = (1.5, 1, -1, 0.5). Linear: errors N(0, 2**2), known to the
methods; logistic: labels by the model. Per-row gradients clipped at norm 1, against weights min(1, 2 /
norm(x)**2) with the Huber loss (threshold 1.345 times the known sd) or the logistic loss. mu = 1 (the
source does not say), K = round(6 log n), step 1 / L of the weighted objective for both, start 0.

    python experiments/private_inference/pi02_clipping.py

Adds to experiments/results/private_inference/pi02.csv and draws pi02.png next to it; resumable.
"""

import math
from functools import partial
from pathlib import Path

import numpy as np
from shared_comparators import UNWEIGHTED, Cell, fill, fit, options, plt

from privfit import Budget
from privfit.data.synthetic import linear_model, logistic_model
from privfit.losses import Huber, Logistic, Squared
from privfit.solvers import ClippedGradientDescent, NoisyGradientDescent

BETA = np.array([1.5, 1.0, -1.0, 0.5])
ROWS = (500, 1_000, 2_000, 5_000, 10_000, 20_000)
METHODS = ("Mallows weights", "clipping", "clipping, no noise")
NORM_BOUND = math.sqrt(2.0)
LIMIT_ROWS = 400_000
STEP = {"linear": 1.0 / NORM_BOUND**2, "logistic": 4.0 / NORM_BOUND**2}


def simulate(model: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    make = linear_model if model == "linear" else logistic_model
    extra = {"noise_sd": 2.0} if model == "linear" else {}
    z, y = make(n, BETA[1:], intercept=BETA[0], seed=seed, **extra)
    return np.column_stack([np.ones(n), z]), y


def one(model: str, method: str, n: int, seed: int) -> np.ndarray:
    x, y = simulate(model, n, seed)
    if method == "Mallows weights":
        loss = Huber(1.345 * 2.0) if model == "linear" else Logistic()
        solver = NoisyGradientDescent(report="last")
        return fit(loss, solver, x, y, norm_bound=NORM_BOUND, budget=Budget.gdp(1.0), seed=seed)
    loss = Squared(1e9) if model == "linear" else Logistic()
    noisy = method == "clipping"
    solver = ClippedGradientDescent(1.0, n_steps=None if noisy else 400, step_size=STEP[model])
    budget = Budget.gdp(1.0) if noisy else None
    return fit(loss, solver, x, y, norm_bound=UNWEIGHTED, budget=budget, seed=seed)


def run(cell: Cell, repetitions: int) -> list[dict[str, object]]:
    model, method, n = cell
    repetitions = 1 if method == "clipping, no noise" else repetitions
    fits = np.array([one(model, method, n, seed) for seed in range(repetitions)])
    spread = fits.std(axis=0, ddof=1) if repetitions > 1 else np.zeros(4)
    return [
        {
            "setting": model,
            "method": method,
            "n": n,
            "coefficient": k,
            "truth": BETA[k],
            "repetitions": repetitions,
            "mean": round(float(fits[:, k].mean()), 4),
            "sd": round(float(spread[k]), 4),
        }
        for k in range(4)
    ]


def plot(rows: list[dict[str, str]], path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9.2, 7.0), sharex=True)
    for i, model in enumerate(("linear", "logistic")):
        for j, method in enumerate(METHODS[:2]):
            axis = axes[i][j]
            for k in range(4):
                colour = f"C{k}"
                of = [r for r in rows if r["setting"] == model and int(r["coefficient"]) == k]
                line = np.array(
                    sorted(
                        (int(r["n"]), float(r["mean"]), float(r["sd"])) for r in of if r["method"] == method
                    )
                )
                axis.plot(line[:, 0], line[:, 1], color=colour, marker="o", ms=3, label=f"coefficient {k}")
                axis.fill_between(
                    line[:, 0], line[:, 1] - line[:, 2], line[:, 1] + line[:, 2], color=colour, alpha=0.15
                )
                axis.axhline(BETA[k], color=colour, ls="--", lw=1)
                limit = [float(r["mean"]) for r in of if r["method"] == METHODS[2]]
                if method == "clipping":
                    axis.axhline(limit[0], color=colour, ls=":", lw=1.2)
            axis.set(xscale="log", title=f"{model}: {method}")
            axis.grid(visible=True, alpha=0.2)
    for axis in axes[1]:
        axis.set_xlabel("rows")
    figure.suptitle(
        "Mean estimate and one sd. Dashed: truth. Dotted: limit of clipping, without noise.", fontsize=10
    )
    figure.tight_layout()
    figure.savefig(path, dpi=90)


def main() -> None:
    chosen = options(__doc__, repetitions=400, name="pi02")
    cells = [(model, method, n) for model in STEP for n in ROWS for method in METHODS[:2]]
    cells += [(model, METHODS[2], LIMIT_ROWS) for model in STEP]
    work = partial(run, repetitions=chosen.repetitions)
    plot(fill(chosen.out, cells, work, workers=chosen.workers), chosen.out.with_suffix(".png"))


if __name__ == "__main__":
    main()
