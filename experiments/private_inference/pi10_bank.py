"""PI-10: logistic regression on the Bank data, subsamples of growing size (section F.2).

Avella-Medina, Bradshaw and Loh 2023: bank marketing calls (Moro, Cortez and Rita 2014), 41 covariates and
an intercept (numeric columns standardised, indicators of all levels but the first, the days since the
previous contact left out), weights min(1, 25 / norm(x)**2), mu = 0.25, start 0, K = 50 steps for 500 rows,
75 up to 2,000 and 100 beyond. Columns are standardised by the whole table's means and sds, as in the
source, which is not private.

Error is the distance to the non-private weighted M-estimator of the whole table (setting "minimiser") and
to where noiseless gradient descent gets on the whole table in 100 steps ("descent"), which the source may
mean.

    python experiments/private_inference/pi10_bank.py --data FOLDER

FOLDER holds bank_full.csv.gz (UCI 222). Adds to experiments/results/private_inference/pi10.csv and draws
pi10.png next to it; resumable.
"""

from functools import cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from shared_comparators import UNWEIGHTED, Cell, error_row, fill, fit, options, plot_errors

from privfit import Budget
from privfit.losses import Logistic
from privfit.solvers import (
    AbstractSolver,
    ClippedGradientDescent,
    NoisyGradientDescent,
    NonPrivate,
    WhitenedGradientDescent,
)

NUMERIC = ["age", "balance", "day", "duration", "campaign", "previous"]
ROWS = (500, 750, 1_000, 2_000, 5_000, 10_000, 20_000)
MU = 0.25
NORM_BOUND = 5.0
SETTINGS = {"minimiser": "distance to the minimiser", "descent": "distance to 100 exact steps"}
STYLES = {
    "noisy GD": ("C0", "-"),
    "auto (whitened)": ("C2", "-"),
    "clipped GD": ("C1", "-"),
    "GD without noise": ("C0", ":"),
    "non-private": ("0.4", ":"),
}


@cache
def table(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return x (45211, 42), the constant first, and y."""
    raw = pd.read_csv(folder / "bank_full.csv.gz", sep=";")
    numbers = raw[NUMERIC].astype(float)
    levels = raw.drop(columns=[*NUMERIC, "pdays", "y"])
    indicators = pd.get_dummies(levels, drop_first=True, dtype=float)
    encoded = pd.concat([(numbers - numbers.mean()) / numbers.std(), indicators], axis=1)
    assert encoded.shape[1] == 41
    x = np.column_stack([np.ones(len(raw)), encoded.to_numpy()])
    return x, (raw["y"] == "yes").to_numpy(dtype=float)


def steps(n: int) -> int:
    return 50 if n <= 500 else 75 if n <= 2_000 else 100


def exact(solver: AbstractSolver, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return fit(Logistic(), solver, x, y, norm_bound=NORM_BOUND, budget=None, seed=0)


@cache
def targets(folder: Path) -> dict[str, np.ndarray]:
    x, y = table(folder)
    descent = NoisyGradientDescent(n_steps=100, report="last")
    return {"minimiser": exact(NonPrivate(), x, y), "descent": exact(descent, x, y)}


def one(method: str, n: int, seed: int, folder: Path) -> np.ndarray:
    x, y = table(folder)
    chosen = np.random.default_rng(seed).choice(y.size, n, replace=False)
    x, y = x[chosen], y[chosen]
    noisy = partial(fit, Logistic(), x=x, y=y, budget=Budget.gdp(MU), seed=seed)
    match method:
        case "non-private":
            return exact(NonPrivate(), x, y)
        case "GD without noise":
            return exact(NoisyGradientDescent(n_steps=steps(n), report="last"), x, y)
        case "noisy GD":
            solver = NoisyGradientDescent(n_steps=steps(n), report="last")
            return noisy(solver, norm_bound=NORM_BOUND)
        case "clipped GD":
            solver = ClippedGradientDescent(1.0, n_steps=steps(n), step_size=4.0 / NORM_BOUND**2)
            return noisy(solver, norm_bound=UNWEIGHTED)
    return noisy(WhitenedGradientDescent(), norm_bound=NORM_BOUND)


def run(cell: Cell, repetitions: int, folder: Path) -> list[dict[str, object]]:
    _, method, n = cell
    fits = np.array([one(method, n, seed, folder) for seed in range(repetitions)])
    to = targets(folder)
    return [error_row((s, method, n), np.linalg.norm(fits - to[s], axis=1)) for s in SETTINGS]


def main() -> None:
    chosen = options(__doc__, repetitions=60, name="pi10", data=True)
    cells = [("minimiser", method, n) for n in ROWS for method in STYLES]
    work = partial(run, repetitions=chosen.repetitions, folder=chosen.data)
    rows = fill(chosen.out, cells, work, workers=chosen.workers)
    label = "distance, median over subsamples"
    path = chosen.out.with_suffix(".png")
    plot_errors(rows, SETTINGS, STYLES, path, label=label, column="median_error")


if __name__ == "__main__":
    main()
